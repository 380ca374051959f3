/*
 * Special ids come from metadata; FIM tokens also from the spellings of the known model families,
 * because most code models' files name none. The spellings of chat and end markers matter only for
 * user-defined tokens: a file that calls <|im_start|> user-defined must not let plain text speak
 * it.
 */
#include "engine/text/special.h"

#include <string.h>

#include "engine/base/assert.h"
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
