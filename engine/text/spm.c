/*
 * SentencePiece writes every space as U+2581. Here it is the other way round: a U+2581 of the text
 * becomes a space, and the vocabulary's pieces are held in that form. It means the same and text
 * stays as short as it was.
 *
 * Pieces of real vocabularies have spaces in front only. Then no join crosses the border in front
 * of a space that follows something else, and the text is encoded word by word: the same ids as
 * for the whole, with a work space of one word.
 *
 * Pieces of type unused never appear (SentencePiece lets them be stepping stones of a join and then
 * takes them apart again; no known BPE vocabulary has any that could be).
 */
#include "engine/text/spm.h"

#include <math.h>
#include <string.h>

#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"
#include "engine/text/encoding.h"
#include "engine/text/vocab.h"

static const char SCORES_KEY[] = "tokenizer.ggml.scores";
static const char CHARSMAP_KEY[] = "tokenizer.ggml.precompiled_charsmap";

static const char SPACE_MARK[] = "\u2581"; /* U+2581 */
enum { SPACE_MARK_BYTES = sizeof(SPACE_MARK) - 1 };

/* Orders as the score does, upside down: the bits of a float, read as sign and magnitude, are in
 * the order of its value. Never MERGE_NONE for a finite score. */
static uint32_t rank_of_score(float score)
{
    float positive_zero = score == 0.0f ? 0.0f : score;
    uint32_t bits;
    memcpy(&bits, &positive_zero, sizeof(bits));
    uint32_t rising = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
    return ~rising;
}

static enum err read_scores(
    struct spm *spm, const struct vocab *vocab, const struct gguf *gguf, struct err_info *info)
{
    struct gguf_array scores = {0};
    enum err err = gguf_get_array(gguf, SCORES_KEY, true, GGUF_F32, &scores, info);
    if (err != ERR_OK) {
        return err;
    }
    if (scores.count != (size_t)vocab->count) {
        return err_set(
            info, ERR_FORMAT, SCORES_KEY, "%zu scores for %d tokens", scores.count, vocab->count);
    }
    spm->ranks = mem_array(MEM_TOKENIZER, scores.count, sizeof(*spm->ranks));
    if (spm->ranks == NULL) {
        return err_set(info, ERR_NO_MEMORY, SCORES_KEY, "no memory for %zu scores", scores.count);
    }
    for (size_t i = 0; i < scores.count; i++) {
        float score = gguf_array_f32(&scores, i);
        if (!isfinite(score)) {
            return err_set(info, ERR_FORMAT, SCORES_KEY, "the score of token %zu is not finite", i);
        }
        spm->ranks[i] = rank_of_score(score);
    }
    return ERR_OK;
}

/* A table of character replacements would have to be applied before anything else. */
static enum err refuse_charsmap(const struct gguf *gguf, struct err_info *info)
{
    if (!gguf_has(gguf, CHARSMAP_KEY)) {
        return ERR_OK;
    }
    return err_set(info, ERR_UNSUPPORTED, CHARSMAP_KEY,
        "character maps are not supported with SentencePiece BPE");
}

static bool has_inner_space(const char *text, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (text[i] == ' ' && text[i - 1] != ' ') {
            return true;
        }
    }
    return false;
}

enum err spm_load(
    struct spm *spm, const struct vocab *vocab, const struct gguf *gguf, struct err_info *info)
{
    memset(spm, 0, sizeof(*spm));
    spm->add_space_prefix = true; /* what files of before these keys mean */
    spm->splits_at_space = true;
    enum err err = refuse_charsmap(gguf, info);
    if (err == ERR_OK) {
        err = gguf_get_bool(
            gguf, "tokenizer.ggml.add_space_prefix", false, &spm->add_space_prefix, info);
    }
    if (err == ERR_OK) {
        err = gguf_get_bool(gguf, "tokenizer.ggml.remove_extra_whitespaces", false,
            &spm->remove_extra_spaces, info);
    }
    if (err == ERR_OK) {
        err = read_scores(spm, vocab, gguf, info);
    }
    if (err != ERR_OK) {
        spm_free(spm);
        return err;
    }
    for (int32_t id = 0; id < vocab->count; id++) {
        size_t count;
        const char *text = pieces_get(&vocab->text, id, &count);
        if (vocab->flags[id] == VOCAB_SPELLABLE && has_inner_space(text, count)) {
            spm->splits_at_space = false;
        }
    }
    return ERR_OK;
}

void spm_free(struct spm *spm)
{
    mem_free(spm->ranks);
    memset(spm, 0, sizeof(*spm));
}

size_t spm_memory(const struct spm *spm, const struct vocab *vocab)
{
    return spm->ranks == NULL ? 0 : (size_t)vocab->count * sizeof(*spm->ranks);
}

/* ---- encoding ------------------------------------------------------------------------------- */

/* Of a run of spaces inside a fragment the first one stays. */
static bool is_extra_space(const char *text, size_t at)
{
    return text[at] == ' ' && at > 0 && text[at - 1] == ' ';
}

static size_t without_trailing_spaces(const char *text, size_t bytes)
{
    while (bytes > 0 && text[bytes - 1] == ' ') {
        bytes--;
    }
    return bytes;
}

static size_t skip_spaces(const char *text, size_t bytes)
{
    size_t at = 0;
    while (at < bytes && text[at] == ' ') {
        at++;
    }
    return at;
}

/* The fragment with its prefix, U+2581 as a space, and without extra spaces, into normal. */
static enum err normalize(
    const struct spm *spm, struct encoding *encoding, const char *text, size_t bytes, bool starts)
{
    struct normal *normal = &encoding->normal[0];
    enum err err = ERR_OK;
    size_t at = 0;
    if (spm->remove_extra_spaces) {
        bytes = without_trailing_spaces(text, bytes);
        at = starts ? skip_spaces(text, bytes) : 0;
    }
    normal_clear(normal);
    if (starts && spm->add_space_prefix && at < bytes) {
        err = normal_append_changed(normal, " ", 1, at, at, encoding->info);
    }
    while (err == ERR_OK && at < bytes) {
        size_t from = at;
        while (at < bytes && text[at] != SPACE_MARK[0] &&
               !(spm->remove_extra_spaces && is_extra_space(text, at))) {
            at++;
        }
        err = normal_append_same(normal, text + from, at - from, from, encoding->info);
        if (err != ERR_OK || at >= bytes) {
            continue;
        }
        if (text[at] == ' ') {
            at++;
        } else if (bytes - at >= SPACE_MARK_BYTES &&
                   memcmp(text + at, SPACE_MARK, SPACE_MARK_BYTES) == 0) {
            err = normal_append_changed(normal, " ", 1, at, at + SPACE_MARK_BYTES, encoding->info);
            at += SPACE_MARK_BYTES;
        } else {
            err = normal_append_same(normal, text + at, 1, at, encoding->info);
            at++;
        }
    }
    return err;
}

struct word {
    const struct spm *spm;
    const struct vocab *vocab;
    const char *text;
    int32_t bytes;
};

static int32_t symbol_end(const struct word *word, const struct merge_symbol *symbol)
{
    return symbol->next < 0 ? word->bytes : symbol->next;
}

static uint32_t rank_of(
    const void *context, const struct merger *merger, int32_t left, int32_t right, int32_t *out_id)
{
    const struct word *word = context;
    int32_t end = symbol_end(word, &merger->symbols[right]);
    int32_t id = pieces_find(&word->vocab->text, word->text + left, (size_t)(end - left));
    if (id < 0) {
        return MERGE_NONE;
    }
    *out_id = id;
    return word->spm->ranks[id];
}

/* A character without a piece: its bytes, or the unknown token, of which one stands for a run.
 * `from` is where it starts in the fragment. */
static enum err add_unspelled(const struct vocab *vocab, struct encoding *encoding,
    const char *character, int32_t count, size_t from, bool *after_unknown)
{
    if (!vocab->byte_fallback) {
        int32_t unknown = vocab->special[TOKEN_UNK];
        if (unknown < 0) {
            return err_set(encoding->info, ERR_TOKENIZER, NULL,
                "the vocabulary cannot spell a character of the text");
        }
        if (*after_unknown) {
            encoding_extend(encoding, from + (size_t)count);
            return ERR_OK;
        }
        *after_unknown = true;
        return encoding_add(encoding, unknown, from, from + (size_t)count);
    }
    bool is_space = character[0] == ' '; /* which stands for the three bytes of U+2581 */
    int32_t byte_count = is_space ? SPACE_MARK_BYTES : count;
    for (int32_t i = 0; i < byte_count; i++) {
        unsigned char byte = (unsigned char)(is_space ? SPACE_MARK[i] : character[i]);
        size_t at = from + (size_t)(is_space ? 0 : i);
        enum err err = encoding_add(encoding, vocab->byte_ids[byte], at, at + 1);
        if (err != ERR_OK) {
            return err;
        }
    }
    return ERR_OK;
}

/* One symbol a character. */
static void fill_symbols(const struct word *word, struct merge_symbol *symbols)
{
    int32_t previous = -1;
    for (int32_t at = 0; at < word->bytes;) {
        int32_t code_point;
        int32_t length = utf8_decode(word->text + at, (size_t)(word->bytes - at), &code_point);
        int32_t after = at + length;
        symbols[at] = (struct merge_symbol){
            .previous = previous,
            .next = after < word->bytes ? after : -1,
            .id = pieces_find(&word->vocab->text, word->text + at, (size_t)length),
        };
        previous = at;
        at = after;
    }
}

/* `from` is where the word starts in the fragment. */
static enum err encode_word(
    const struct word *word, struct encoding *encoding, size_t from, bool *after_unknown)
{
    enum err err = merge_reserve(&encoding->merger, (size_t)word->bytes, encoding->info);
    if (err != ERR_OK) {
        return err;
    }
    struct merge_symbol *symbols = encoding->merger.symbols;
    fill_symbols(word, symbols);
    merge_run(&encoding->merger, 0, rank_of, word);
    for (int32_t at = 0; at >= 0 && err == ERR_OK; at = symbols[at].next) {
        int32_t end = symbol_end(word, &symbols[at]);
        if (symbols[at].id >= 0) {
            *after_unknown = false;
            err = encoding_add(encoding, symbols[at].id, from + (size_t)at, from + (size_t)end);
        } else {
            err = add_unspelled(
                word->vocab, encoding, word->text + at, end - at, from + (size_t)at, after_unknown);
        }
    }
    return err;
}

static size_t word_end(const struct spm *spm, const char *text, size_t bytes, size_t from)
{
    if (!spm->splits_at_space) {
        return bytes;
    }
    size_t at = from + 1;
    while (at < bytes && !(text[at] == ' ' && text[at - 1] != ' ')) {
        at++;
    }
    return at;
}

enum err spm_encode(const struct spm *spm, const struct vocab *vocab, struct encoding *encoding,
    const char *text, size_t bytes, bool starts)
{
    enum err err = normalize(spm, encoding, text, bytes, starts);
    if (err != ERR_OK) {
        return err;
    }
    encoding->map = encoding->with_map ? &encoding->normal[0] : NULL;
    text = encoding->normal[0].bytes;
    bytes = encoding->normal[0].count;
    bool after_unknown = false;
    for (size_t from = 0; from < bytes && err == ERR_OK;) {
        size_t to = word_end(spm, text, bytes, from);
        struct word word = {spm, vocab, text + from, (int32_t)(to - from)};
        err = encode_word(&word, encoding, from, &after_unknown);
        from = to;
    }
    return err;
}
