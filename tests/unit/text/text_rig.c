/* See text_rig.h. */
#include "tests/unit/text/text_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/assert.h"
#include "engine/base/utf8.h"

int32_t text_rig_add(struct text_rig *rig, const char *piece, int32_t type, float score)
{
    ASSERT(rig->count < RIG_TOKENS_MAX);
    rig->tokens[rig->count] = piece;
    rig->types[rig->count] = type;
    rig->scores[rig->count] = score;
    return rig->count++;
}

/* The letter for a byte in the alphabet of byte-level BPE, derived in the way GPT-2 published it:
 * printable Latin-1 stands for itself, the rest is numbered from 256. */
static int32_t letter_of(int32_t byte)
{
    int32_t moved = 0;
    for (int32_t b = 0; b < 256; b++) {
        bool kept = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        if (b == byte) {
            return kept ? b : 256 + moved;
        }
        moved += !kept;
    }
    return -1;
}

static void init(struct text_rig *rig, const char *model, const char *pre)
{
    memset(rig, 0, sizeof(*rig));
    rig->model = model;
    rig->pre = pre;
    rig->type_count = -1;
    rig->score_count = -1;
}

void text_rig_bpe(struct text_rig *rig, const char *pre)
{
    init(rig, "gpt2", pre);
    rig->no_scores = true;
    for (int32_t byte = 0; byte < 256; byte++) {
        (void)utf8_encode(letter_of(byte), rig->spare[rig->count]);
        text_rig_add(rig, rig->spare[rig->count], RIG_NORMAL, 0);
    }
}

void text_rig_spm(struct text_rig *rig, bool bytes)
{
    init(rig, "llama", "default");
    rig->no_merges = true;
    text_rig_add(rig, "<unk>", RIG_UNKNOWN, 0);
    text_rig_add(rig, "<s>", RIG_CONTROL, 0);
    text_rig_add(rig, "</s>", RIG_CONTROL, 0);
    for (int32_t byte = 0; bytes && byte < 256; byte++) {
        char *spelling = rig->spare[rig->count];
        snprintf(spelling, sizeof(rig->spare[0]), "<0x%02X>", (unsigned)byte);
        text_rig_add(rig, spelling, RIG_BYTE, 0);
    }
}

int32_t text_rig_merge(struct text_rig *rig, const char *merge, const char *joined)
{
    ASSERT(rig->merge_count < RIG_MERGES_MAX);
    rig->merges[rig->merge_count++] = merge;
    return text_rig_add(rig, joined, RIG_NORMAL, 0);
}

static void add_number(struct text_rig *rig, const char *key, uint32_t value, bool is_bool)
{
    ASSERT(rig->number_count < RIG_NUMBERS_MAX);
    rig->numbers[rig->number_count++] = (struct rig_number){key, value, is_bool};
}

void text_rig_u32(struct text_rig *rig, const char *key, uint32_t value)
{
    add_number(rig, key, value, false);
}

void text_rig_bool(struct text_rig *rig, const char *key, bool value)
{
    add_number(rig, key, value, true);
}

unsigned char *text_rig_file(const struct text_rig *rig, size_t *out_bytes)
{
    struct gguf_writer writer;
    gguf_writer_init(&writer);
    if (rig->model != NULL) {
        gguf_writer_string(&writer, "tokenizer.ggml.model", rig->model);
    }
    if (rig->pre != NULL) {
        gguf_writer_string(&writer, "tokenizer.ggml.pre", rig->pre);
    }
    gguf_writer_strings(&writer, "tokenizer.ggml.tokens", rig->tokens, (size_t)rig->count);
    if (!rig->no_types) {
        size_t count = (size_t)(rig->type_count < 0 ? rig->count : rig->type_count);
        gguf_writer_array(&writer, "tokenizer.ggml.token_type", GGUF_I32, rig->types, count,
            count * sizeof(rig->types[0]));
    }
    if (!rig->no_scores) {
        size_t count = (size_t)(rig->score_count < 0 ? rig->count : rig->score_count);
        gguf_writer_array(&writer, "tokenizer.ggml.scores", GGUF_F32, rig->scores, count,
            count * sizeof(rig->scores[0]));
    }
    if (!rig->no_merges) {
        gguf_writer_strings(
            &writer, "tokenizer.ggml.merges", rig->merges, (size_t)rig->merge_count);
    }
    for (int32_t i = 0; i < rig->number_count; i++) {
        const struct rig_number *number = &rig->numbers[i];
        if (number->is_bool) {
            gguf_writer_bool(&writer, number->key, number->value != 0);
        } else {
            gguf_writer_u32(&writer, number->key, number->value);
        }
    }
    unsigned char *bytes = gguf_writer_finish(&writer, out_bytes);
    gguf_writer_free(&writer);
    return bytes;
}

enum err text_rig_try(
    const struct text_rig *rig, struct tokenizer **out_tokenizer, struct err_info *info)
{
    size_t bytes;
    unsigned char *file = text_rig_file(rig, &bytes);
    struct gguf *gguf = NULL;
    enum err err = gguf_open_memory(file, bytes, &gguf, info);
    if (err == ERR_OK) {
        err = tokenizer_open_gguf(gguf, out_tokenizer, info);
    }
    gguf_close(gguf);
    free(file);
    return err;
}

struct tokenizer *text_rig_open(const struct text_rig *rig)
{
    struct tokenizer *tokenizer = NULL;
    struct err_info info = {0};
    if (text_rig_try(rig, &tokenizer, &info) != ERR_OK) {
        printf("does not open: %s: %s\n", info.where, info.text);
        abort();
    }
    return tokenizer;
}

static void print_ids(const char *what, const int32_t *ids, int32_t count)
{
    printf("%s:", what);
    for (int32_t i = 0; i < count; i++) {
        printf(" %d", ids[i]);
    }
    printf("\n");
}

bool text_rig_ids(const struct tokenizer *tokenizer, const char *text, unsigned flags,
    const int32_t *expected, int32_t count)
{
    struct token_list list;
    struct err_info info = {0};
    token_list_init(&list, 1 << 20);
    enum err err = tokenizer_encode(tokenizer, text, strlen(text), flags, &list, &info);
    bool same = err == ERR_OK && list.count == count &&
                (count == 0 || memcmp(list.ids, expected, (size_t)count * sizeof(*expected)) == 0);
    if (!same) {
        printf("\"%s\", flags %u: %s\n", text, flags, info.text);
        print_ids("  got", list.ids, list.count);
        print_ids("  expected", expected, count);
    }
    token_list_free(&list);
    return same;
}
