/*
 * Special ids come from metadata; FIM tokens also from the spellings of the known model families,
 * because most code models' files name none. The spellings of chat and end markers matter only for
 * user-defined tokens: a file that calls <|im_start|> user-defined must not let plain text speak
 * it.
 */
#include "engine/text/special.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"
#include "engine/text/char_class.h"
#include "engine/text/encoding.h"
#include "engine/text/normalizer.h"
#include "engine/text/vocab.h"

struct special_key {
    enum token_special which;
    const char *key;
};

/* Later entries of the same token are older names, used when the newer one is absent. "seperator"
 * is the format's own spelling. */
static const struct special_key special_keys[] = {
    {TOKEN_BOS, "tokenizer.ggml.bos_token_id"},
    {TOKEN_EOS, "tokenizer.ggml.eos_token_id"},
    {TOKEN_EOT, "tokenizer.ggml.eot_token_id"},
    {TOKEN_EOM, "tokenizer.ggml.eom_token_id"},
    {TOKEN_UNK, "tokenizer.ggml.unknown_token_id"},
    {TOKEN_SEP, "tokenizer.ggml.seperator_token_id"},
    {TOKEN_PAD, "tokenizer.ggml.padding_token_id"},
    {TOKEN_CLS, "tokenizer.ggml.cls_token_id"},
    {TOKEN_MASK, "tokenizer.ggml.mask_token_id"},
    {TOKEN_FIM_PRE, "tokenizer.ggml.fim_pre_token_id"},
    {TOKEN_FIM_SUF, "tokenizer.ggml.fim_suf_token_id"},
    {TOKEN_FIM_MID, "tokenizer.ggml.fim_mid_token_id"},
    {TOKEN_FIM_PAD, "tokenizer.ggml.fim_pad_token_id"},
    {TOKEN_FIM_REP, "tokenizer.ggml.fim_rep_token_id"},
    {TOKEN_FIM_SEP, "tokenizer.ggml.fim_sep_token_id"},
    {TOKEN_FIM_PRE, "tokenizer.ggml.prefix_token_id"},
    {TOKEN_FIM_SUF, "tokenizer.ggml.suffix_token_id"},
    {TOKEN_FIM_MID, "tokenizer.ggml.middle_token_id"},
};

struct special_spelling {
    enum token_special which;
    const char *spelling;
};

static const struct special_spelling fim_spellings[] = {
    /* StarCoder, Granite, StableCode */
    {TOKEN_FIM_PRE, "<fim_prefix>"},
    {TOKEN_FIM_SUF, "<fim_suffix>"},
    {TOKEN_FIM_MID, "<fim_middle>"},
    {TOKEN_FIM_PAD, "<fim_pad>"},
    {TOKEN_FIM_REP, "<repo_name>"},
    {TOKEN_FIM_SEP, "<file_sep>"},
    /* Qwen2.5-Coder, CodeGemma */
    {TOKEN_FIM_PRE, "<|fim_prefix|>"},
    {TOKEN_FIM_SUF, "<|fim_suffix|>"},
    {TOKEN_FIM_MID, "<|fim_middle|>"},
    {TOKEN_FIM_PAD, "<|fim_pad|>"},
    {TOKEN_FIM_REP, "<|repo_name|>"},
    {TOKEN_FIM_SEP, "<|file_sep|>"},
    {TOKEN_FIM_SEP, "<|file_separator|>"},
    /* SantaCoder */
    {TOKEN_FIM_PRE, "<fim-prefix>"},
    {TOKEN_FIM_SUF, "<fim-suffix>"},
    {TOKEN_FIM_MID, "<fim-middle>"},
    {TOKEN_FIM_PAD, "<fim-pad>"},
    /* CodeLlama; its vocabulary stores them behind a U+2581 */
    {TOKEN_FIM_PRE, "<PRE>"},
    {TOKEN_FIM_SUF, "<SUF>"},
    {TOKEN_FIM_MID, "<MID>"},
    {TOKEN_FIM_PRE, "\u2581<PRE>"},
    {TOKEN_FIM_SUF, "\u2581<SUF>"},
    {TOKEN_FIM_MID, "\u2581<MID>"},
    /* DeepSeek-Coder: full-width bars and U+2581 */
    {TOKEN_FIM_PRE, "<\uFF5Cfim\u2581begin\uFF5C>"},
    {TOKEN_FIM_SUF, "<\uFF5Cfim\u2581hole\uFF5C>"},
    {TOKEN_FIM_MID, "<\uFF5Cfim\u2581end\uFF5C>"},
    /* Codestral, which has no middle token; Seed-Coder */
    {TOKEN_FIM_PRE, "[PREFIX]"},
    {TOKEN_FIM_SUF, "[SUFFIX]"},
    {TOKEN_FIM_PRE, "<[fim-prefix]>"},
    {TOKEN_FIM_SUF, "<[fim-suffix]>"},
    {TOKEN_FIM_MID, "<[fim-middle]>"},
};

/* Chat and end markers of the known families, for files that call them user-defined. */
static const char *const marker_spellings[] = {
    "<s>",
    "</s>",
    "<bos>",
    "<eos>",
    "<EOT>",
    "\u2581<EOT>",
    "<|EOT|>",
    "<|endoftext|>",
    "<|endofprompt|>",
    "<|startoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|im_sep|>",
    "<|user|>",
    "<|assistant|>",
    "<|system|>",
    "<|end|>",
    "<|embed|>",
    "<|User|>",
    "<|Assistant|>",
    "<|System|>",
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|header_start|>",
    "<|header_end|>",
    "<|eot|>",
    "<|eom|>",
    "<start_of_turn>",
    "<end_of_turn>",
    "[INST]",
    "[/INST]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "<\uFF5CUser\uFF5C>",
    "<\uFF5CAssistant\uFF5C>",
    "<\uFF5Cbegin\u2581of\u2581sentence\uFF5C>",
    "<\uFF5Cend\u2581of\u2581sentence\uFF5C>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
};

static int32_t find_stored(const struct vocab *vocab, const char *spelling)
{
    return pieces_find(&vocab->stored, spelling, strlen(spelling));
}

static enum err read_ids(struct vocab *vocab, const struct gguf *gguf, struct err_info *info)
{
    for (size_t i = 0; i < ARRAY_COUNT(special_keys); i++) {
        const struct special_key *entry = &special_keys[i];
        int64_t id = -1;
        enum err err =
            gguf_get_i64(gguf, entry->key, false, 0, (int64_t)vocab->count - 1, &id, info);
        if (err != ERR_OK) {
            return err;
        }
        if (id >= 0 && vocab->special[entry->which] < 0) {
            vocab->special[entry->which] = (int32_t)id;
        }
    }
    return ERR_OK;
}

/* The one token of type unknown, where the file has no key for it. */
static void default_unknown(struct vocab *vocab)
{
    int32_t *unknown = &vocab->special[TOKEN_UNK];
    for (int32_t id = 0; id < vocab->count && *unknown < 0; id++) {
        *unknown = vocab->types[id] == TOKEN_TYPE_UNKNOWN ? id : -1;
    }
}

/* SentencePiece BPE files without the keys mean its customary ids: <s> = 1, </s> = 2. */
static void default_ids(struct vocab *vocab)
{
    int32_t *special = vocab->special;
    if (special[TOKEN_BOS] < 0 && vocab->count > 1 && vocab->types[1] == TOKEN_TYPE_CONTROL) {
        special[TOKEN_BOS] = 1;
    }
    if (special[TOKEN_EOS] < 0 && vocab->count > 2 && vocab->types[2] == TOKEN_TYPE_CONTROL) {
        special[TOKEN_EOS] = 2;
    }
}

static void find_fim(struct vocab *vocab)
{
    for (size_t i = 0; i < ARRAY_COUNT(fim_spellings); i++) {
        int32_t *special = &vocab->special[fim_spellings[i].which];
        int32_t id = *special < 0 ? find_stored(vocab, fim_spellings[i].spelling) : -1;
        if (id >= 0 && vocab->types[id] != TOKEN_TYPE_BYTE) {
            *special = id;
        }
    }
}

static void mark(struct vocab *vocab, int32_t id)
{
    vocab->flags[id] |= VOCAB_CONTROL;
}

static void mark_control(struct vocab *vocab)
{
    for (int32_t id = 0; id < vocab->count; id++) {
        if (vocab->types[id] == TOKEN_TYPE_CONTROL || vocab->types[id] == TOKEN_TYPE_UNKNOWN) {
            mark(vocab, id);
        }
    }
    for (size_t i = 0; i < ARRAY_COUNT(marker_spellings); i++) {
        int32_t id = find_stored(vocab, marker_spellings[i]);
        if (id >= 0 && vocab->types[id] == TOKEN_TYPE_USER) {
            mark(vocab, id);
        }
    }
    /* What a file names as the end of a text may be an ordinary token (a line break, in small
     * models), which text must still be able to hold; a FIM token never is, whatever its type. */
    for (int32_t which = 0; which < TOKEN_SPECIAL_COUNT; which++) {
        int32_t id = vocab->special[which];
        if (id >= 0 && (which >= TOKEN_FIM_PRE || vocab->types[id] == TOKEN_TYPE_USER)) {
            mark(vocab, id);
        }
    }
}

void special_mark(struct vocab *vocab)
{
    find_fim(vocab);
    mark_control(vocab);
}

enum err special_load(struct vocab *vocab, const struct gguf *gguf, struct err_info *info)
{
    enum err err = read_ids(vocab, gguf, info);
    if (err != ERR_OK) {
        return err;
    }
    if (vocab->model == VOCAB_SENTENCEPIECE) {
        default_ids(vocab);
    }
    if (vocab->model == VOCAB_SENTENCEPIECE || vocab->model == VOCAB_UNIGRAM) {
        default_unknown(vocab);
    }
    special_mark(vocab);
    return ERR_OK;
}

/* ---- matching ------------------------------------------------------------------------------ */

/* Equal spellings by falling id, so that the one tokenizer_find gives comes first. */
static int compare_entries(const void *left, const void *right)
{
    const struct special_entry *a = left;
    const struct special_entry *b = right;
    int order = memcmp(a->bytes, b->bytes, MIN(a->count, b->count));
    if (order != 0) {
        return order;
    }
    if (a->count != b->count) {
        return a->count < b->count ? -1 : 1;
    }
    return a->id > b->id ? -1 : 1;
}

static bool is_matched(const struct vocab *vocab, int32_t id)
{
    return vocab_is_control(vocab, id) || vocab->types[id] == TOKEN_TYPE_USER;
}

static uint8_t rules_of(const uint8_t *rules, int32_t id)
{
    return rules == NULL ? 0 : rules[id];
}

/* Whether a token is of the set, and its own spelling. With rules the file is tokenizer.json, where
 * such a token is as it is stored. */
static bool in_set(const struct vocab *vocab, const uint8_t *rules, bool normalized, int32_t id,
    const char **out_spelling, size_t *out_bytes)
{
    const struct pieces *pieces = rules != NULL ? &vocab->stored : &vocab->text;
    *out_spelling = pieces_get(pieces, id, out_bytes);
    return ((rules_of(rules, id) & SPECIAL_NORMALIZED) != 0) == normalized &&
           is_matched(vocab, id) && utf8_valid(*out_spelling, *out_bytes);
}

static enum err collect(struct special_matcher *matcher, const struct vocab *vocab,
    const uint8_t *rules, bool normalized, struct err_info *info)
{
    const char *spelling;
    size_t bytes;
    int32_t count = 0;
    for (int32_t id = 0; id < vocab->count; id++) {
        count += in_set(vocab, rules, normalized, id, &spelling, &bytes);
    }
    matcher->entries = mem_array(MEM_TOKENIZER, (size_t)count, sizeof(struct special_entry));
    if (matcher->entries == NULL) {
        return err_set(info, ERR_NO_MEMORY, NULL, "no memory for %d special tokens", count);
    }
    matcher->capacity = count;
    for (int32_t id = 0; id < vocab->count; id++) {
        if (in_set(vocab, rules, normalized, id, &spelling, &bytes)) {
            matcher->entries[matcher->count++] =
                (struct special_entry){spelling, (uint32_t)bytes, id, rules_of(rules, id)};
        }
    }
    return ERR_OK;
}

/* Replaces the spellings by what the normalizer makes of them; one that becomes nothing is never
 * found. */
static enum err normalize_entries(
    struct special_matcher *matcher, const struct normalizer *normalizer, struct err_info *info)
{
    struct encoding encoding = {.info = info};
    size_t total = 0;
    enum err err = ERR_OK;
    int32_t kept = 0;
    for (int32_t pass = 0; pass < 2 && err == ERR_OK; pass++) { /* count, then copy */
        size_t used = 0;
        kept = 0;
        for (int32_t i = 0; i < matcher->count && err == ERR_OK; i++) {
            struct special_entry entry = matcher->entries[i];
            const char *text = entry.bytes;
            size_t bytes = entry.count;
            err = normalizer_apply(normalizer, &encoding, true, &text, &bytes);
            if (err == ERR_OK && pass == 0) {
                total += bytes;
            } else if (err == ERR_OK && bytes > 0) {
                entry.bytes = matcher->normalized + used;
                entry.count = (uint32_t)bytes;
                memcpy(matcher->normalized + used, text, bytes);
                matcher->entries[kept++] = entry;
                used += bytes;
            }
        }
        if (err == ERR_OK && pass == 0) {
            matcher->normalized = mem_alloc(MEM_TOKENIZER, total);
            matcher->normalized_bytes = total;
            err = matcher->normalized == NULL
                      ? err_set(info, ERR_NO_MEMORY, NULL, "no memory for special tokens")
                      : ERR_OK;
        }
    }
    matcher->count = kept;
    encoding_free(&encoding);
    return err;
}

static void index_entries(struct special_matcher *matcher, const struct vocab *vocab)
{
    qsort(matcher->entries, (size_t)matcher->count, sizeof(struct special_entry), compare_entries);
    for (int32_t i = 0; i < matcher->count; i++) {
        const struct special_entry *entry = &matcher->entries[i];
        if (!vocab_is_control(vocab, entry->id)) {
            matcher->starts_user[(unsigned char)entry->bytes[0]] = true;
        }
    }
    for (int32_t byte = 0, at = 0; byte <= 256; byte++) {
        while (at < matcher->count && (unsigned char)matcher->entries[at].bytes[0] < byte) {
            at++;
        }
        matcher->first[byte] = at;
    }
}

enum err special_matcher_init(struct special_matcher *matcher, const struct vocab *vocab,
    const uint8_t *rules, const struct normalizer *normalizer, struct err_info *info)
{
    memset(matcher, 0, sizeof(*matcher));
    enum err err = collect(matcher, vocab, rules, normalizer != NULL, info);
    if (err == ERR_OK && normalizer != NULL) {
        err = normalize_entries(matcher, normalizer, info);
    }
    if (err != ERR_OK) {
        special_matcher_free(matcher);
        return err;
    }
    index_entries(matcher, vocab);
    return ERR_OK;
}

void special_matcher_free(struct special_matcher *matcher)
{
    mem_free(matcher->entries);
    mem_free(matcher->normalized);
    memset(matcher, 0, sizeof(*matcher));
}

size_t special_matcher_memory(const struct special_matcher *matcher)
{
    return (size_t)matcher->capacity * sizeof(*matcher->entries) + matcher->normalized_bytes;
}

/* First entry in [low, high) whose byte `depth` is at least `byte`; all of them are longer than
 * `depth` and agree before it. */
static int32_t lower_bound(
    const struct special_matcher *matcher, int32_t low, int32_t high, uint32_t depth, int32_t byte)
{
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if ((unsigned char)matcher->entries[middle].bytes[depth] < byte) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Longest spelling at the start of text[0..bytes), NULL for none: narrows the sorted range byte by
 * byte. The entries that end at the current depth stand in front of those that go on. */
static const struct special_entry *match_here(const struct special_matcher *matcher,
    const struct vocab *vocab, const char *text, size_t bytes, bool control)
{
    int32_t low = matcher->first[(unsigned char)text[0]];
    int32_t high = matcher->first[(unsigned char)text[0] + 1];
    const struct special_entry *found = NULL;
    for (uint32_t depth = 1; low < high; depth++) {
        for (; low < high && matcher->entries[low].count == depth; low++) {
            bool allowed = control || !vocab_is_control(vocab, matcher->entries[low].id);
            if (allowed && !(found != NULL && found->count == depth)) {
                found = &matcher->entries[low];
            }
        }
        if (depth >= bytes) {
            break;
        }
        unsigned char byte = (unsigned char)text[depth];
        low = lower_bound(matcher, low, high, depth, byte);
        high = lower_bound(matcher, low, high, depth, byte + 1);
    }
    return found;
}

/* The character that ends before `at`; moves *at to its start. */
static int32_t character_before(const char *text, size_t *at)
{
    size_t end = *at;
    int32_t code_point;
    do {
        (*at)--;
    } while (*at > 0 && (text[*at] & 0xC0) == 0x80);
    (void)utf8_decode(text + *at, end - *at, &code_point);
    return code_point;
}

static bool stands_alone(const char *text, size_t bytes, size_t from, size_t to)
{
    int32_t code_point = ' ';
    if (to < bytes) {
        (void)utf8_decode(text + to, bytes - to, &code_point);
    }
    return !char_is_word(code_point) && (from == 0 || !char_is_word(character_before(text, &from)));
}

/* Lets a match take along the blanks beside it, on the left not past `from`. */
static void strip_blanks(
    uint8_t rules, const char *text, size_t bytes, size_t from, struct special_match *match)
{
    size_t end = match->at + match->count;
    size_t start = match->at;
    if ((rules & SPECIAL_RIGHT_STRIP) != 0) {
        end = MAX(end, from); /* up to there the match before has seen blanks only */
    }
    while ((rules & SPECIAL_LEFT_STRIP) != 0 && start > from &&
           char_is_space(character_before(text, &start))) {
        match->at = start;
    }
    while ((rules & SPECIAL_RIGHT_STRIP) != 0 && end < bytes) {
        int32_t code_point;
        size_t length = (size_t)utf8_decode(text + end, bytes - end, &code_point);
        if (!char_is_space(code_point)) {
            break;
        }
        end += length;
    }
    match->count = end - match->at;
}

bool special_next(const struct special_matcher *matcher, const struct vocab *vocab,
    const char *text, size_t bytes, size_t from, size_t resume, bool control,
    struct special_match *out_match)
{
    for (size_t at = resume; at < bytes; at++) {
        unsigned char byte = (unsigned char)text[at];
        bool possible =
            control ? matcher->first[byte] < matcher->first[byte + 1] : matcher->starts_user[byte];
        const struct special_entry *entry =
            possible ? match_here(matcher, vocab, text + at, bytes - at, control) : NULL;
        if (entry == NULL) {
            continue;
        }
        if ((entry->rules & SPECIAL_SINGLE_WORD) != 0 &&
            !stands_alone(text, bytes, at, at + entry->count)) {
            at += entry->count - 1;
            continue;
        }
        struct special_match match = {
            .at = at, .count = entry->count, .resume = at + entry->count, .id = entry->id};
        strip_blanks(entry->rules, text, bytes, from, &match);
        *out_match = match;
        return true;
    }
    return false;
}
