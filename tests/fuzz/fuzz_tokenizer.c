/*
 * Fuzz target: any bytes as text for a small vocabulary. The first byte picks the vocabulary, the
 * second the flags of encoding and the size of the detokenizer's output; the rest is the text.
 * Checked: only valid UTF-8 is taken; both ways to encode agree; spans lie in the text; without
 * TOKENIZE_SPECIAL nothing control comes out; text comes back; no output size is written past.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"
#include "tests/unit/text/text_rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    VOCABULARIES = 9,
    QWEN2 = 3, /* number of the vocabulary whose text comes back in Form C */
    FIRST_SPM = 4,
    WORDPIECE = 7,
    UNIGRAM = 8,
};

static struct tokenizer *tokenizers[VOCABULARIES];

static void add_specials(struct text_rig *rig)
{
    text_rig_add(rig, "<|im_start|>", RIG_USER, 0);
    text_rig_add(rig, "<|im_end|>", RIG_CONTROL, 0);
    text_rig_add(rig, "<|fim_middle|>", RIG_CONTROL, 0);
    text_rig_add(rig, "<think>", RIG_USER, 0);
    text_rig_add(rig, "<th", RIG_USER, 0);
}

static struct tokenizer *open_bpe(const char *pre)
{
    static struct text_rig rig;
    text_rig_bpe(&rig, pre);
    text_rig_merge(&rig, "a b", "ab");
    text_rig_merge(&rig, "ab ab", "abab");
    text_rig_merge(&rig, "\xC4\xA0 a",
        "\xC4\xA0"
        "a");
    text_rig_merge(&rig, "\xC4\xA0 \xC4\xA0", "\xC4\xA0\xC4\xA0");
    text_rig_merge(&rig, "\xC3\x83 \xC2\xA9", "\xC3\x83\xC2\xA9"); /* the two bytes of U+00E9 */
    text_rig_merge(&rig, "\xC4\x8A \xC4\x8A", "\xC4\x8A\xC4\x8A");
    add_specials(&rig);
    return text_rig_open(&rig);
}

static struct tokenizer *open_spm(bool bytes, bool prefix, bool extra)
{
    static struct text_rig rig;
    text_rig_spm(&rig, bytes);
    text_rig_add(&rig, "\xE2\x96\x81", RIG_NORMAL, -9);
    text_rig_add(&rig, "a", RIG_NORMAL, -9);
    text_rig_add(&rig, "b", RIG_NORMAL, -9);
    text_rig_add(&rig, "ab", RIG_NORMAL, -2);
    text_rig_add(&rig,
        "\xE2\x96\x81"
        "a",
        RIG_NORMAL, -1);
    text_rig_add(&rig,
        "\xC3\xA9"
        "a",
        RIG_NORMAL, -1);
    if (extra) { /* a piece that forbids going word by word */
        text_rig_add(&rig, "b\xE2\x96\x81", RIG_NORMAL, -1);
    }
    add_specials(&rig);
    text_rig_bool(&rig, "tokenizer.ggml.add_space_prefix", prefix);
    text_rig_bool(&rig, "tokenizer.ggml.remove_extra_whitespaces", extra);
    return text_rig_open(&rig);
}

static struct tokenizer *open_wordpiece(void)
{
    static struct text_rig rig;
    text_rig_spm(&rig, false);
    rig.model = "bert";
    text_rig_add(&rig,
        "\xE2\x96\x81"
        "a",
        RIG_NORMAL, 0);
    text_rig_add(&rig,
        "\xE2\x96\x81"
        "abab",
        RIG_NORMAL, 0);
    text_rig_add(&rig, "b", RIG_NORMAL, 0);
    text_rig_add(&rig,
        "\xE2\x96\x81"
        "'",
        RIG_NORMAL, 0);
    text_rig_add(&rig,
        "\xE2\x96\x81"
        "e",
        RIG_NORMAL, 0);
    add_specials(&rig);
    text_rig_u32(&rig, "tokenizer.ggml.unknown_token_id", 0);
    text_rig_u32(&rig, "tokenizer.ggml.cls_token_id", 1);
    text_rig_u32(&rig, "tokenizer.ggml.seperator_token_id", 2);
    return text_rig_open(&rig);
}

static struct tokenizer *open_unigram(void)
{
    static struct text_rig rig;
    text_rig_spm(&rig, false);
    rig.model = "t5";
    text_rig_add(&rig, "\xE2\x96\x81", RIG_NORMAL, -3);
    text_rig_add(&rig, "a", RIG_NORMAL, -4);
    text_rig_add(&rig, "ab", RIG_NORMAL, -2.5f);
    text_rig_add(&rig, "bab", RIG_NORMAL, -3.5f);
    text_rig_add(&rig,
        "\xE2\x96\x81"
        "ab\xE2\x96\x81",
        RIG_NORMAL, -2.25f);
    add_specials(&rig);
    return text_rig_open(&rig);
}

static void open_all(void)
{
    static const char *const pre[] = {"gpt-2", "smollm", "llama-bpe", "qwen2"};
    for (int32_t i = 0; i < FIRST_SPM; i++) {
        tokenizers[i] = open_bpe(pre[i]);
    }
    tokenizers[FIRST_SPM] = open_spm(true, true, false);
    tokenizers[FIRST_SPM + 1] = open_spm(true, false, true);
    tokenizers[FIRST_SPM + 2] = open_spm(false, true, true);
    tokenizers[WORDPIECE] = open_wordpiece();
    tokenizers[UNIGRAM] = open_unigram();
}

static void check_spans(const struct token_list *list, int32_t (*spans)[2], size_t bytes)
{
    int32_t start = 0;
    for (int32_t i = 0; i < list->count; i++) {
        ASSERT(spans[i][0] >= start && spans[i][0] <= spans[i][1]);
        ASSERT((size_t)spans[i][1] <= bytes);
        start = spans[i][0];
    }
}

/* Everything through a detokenizer into outputs of `capacity` bytes; returns the joined text. */
static char *decode(const struct tokenizer *tokenizer, const struct token_list *list,
    size_t capacity, bool show_control, size_t *out_bytes)
{
    struct detokenizer d;
    char *text = malloc((size_t)(list->count + 1) * capacity + 1);
    size_t at = 0;
    ASSERT(text != NULL);
    detokenizer_init(&d, tokenizer, show_control, false);
    for (int32_t i = 0; i <= list->count; i++) {
        char *out = malloc(capacity + (capacity == 0)); /* exact, for the sanitizer */
        ASSERT(out != NULL);
        size_t count = i < list->count ? detokenizer_push(&d, list->ids[i], out, capacity)
                                       : detokenizer_end(&d, true, out, capacity);
        ASSERT(count <= capacity && utf8_valid(out, count));
        memcpy(text + at, out, count);
        at += count;
        free(out);
    }
    *out_bytes = at;
    return text;
}

static void check_text(
    int32_t which, unsigned flags, size_t capacity, const char *text, size_t bytes)
{
    const struct tokenizer *tokenizer = tokenizers[which];
    struct token_list list;
    struct token_list again;
    int32_t(*spans)[2] = NULL;
    token_list_init(&list, INT32_MAX);
    token_list_init(&again, INT32_MAX);
    enum err err = tokenizer_encode(tokenizer, text, bytes, flags, &list, NULL);
    ASSERT(err == (utf8_valid(text, bytes) ? ERR_OK : ERR_TOKENIZER));
    ASSERT(tokenizer_encode_spans(tokenizer, text, bytes, flags, &again, &spans, NULL) == err);
    ASSERT(list.count == again.count);
    ASSERT(list.count == 0 ||
           memcmp(list.ids, again.ids, (size_t)list.count * sizeof(*list.ids)) == 0);
    check_spans(&again, spans, bytes);
    for (int32_t i = 0; i < list.count && flags == 0; i++) {
        bool unknown = list.ids[i] == tokenizer_special(tokenizer, TOKEN_UNK);
        ASSERT(unknown || !tokenizer_is_control(tokenizer, list.ids[i]));
    }
    size_t back_bytes;
    free(decode(tokenizer, &list, capacity, false, &back_bytes));
    char *back = decode(tokenizer, &list, detokenizer_bound(tokenizer), true, &back_bytes);
    if (err == ERR_OK && which < QWEN2) {
        ASSERT(back_bytes == bytes && (bytes == 0 || memcmp(back, text, bytes) == 0));
    }
    free(back);
    mem_free(spans);
    token_list_free(&list);
    token_list_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (tokenizers[0] == NULL) {
        open_all();
    }
    if (size < 2) {
        return 0;
    }
    unsigned flags = data[1] & (TOKENIZE_SPECIAL | TOKENIZE_ADD | TOKENIZE_CONTINUES);
    check_text(data[0] % VOCABULARIES, flags, data[1] >> 3, (const char *)data + 2, size - 2);
    return 0;
}
