/* See text_golden.h. */
#include "tests/golden/text/text_golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/load/gguf.h"
#include "engine/text/tokenizer_json.h"
#include "tests/golden/golden_data.h"

static struct tokenizer *open_json(const char *name)
{
    size_t bytes;
    char *file = text_golden_file(name, &bytes);
    if (file == NULL) {
        return NULL;
    }
    struct tokenizer *tokenizer = text_golden_json(file, bytes, name);
    free(file);
    return tokenizer;
}

struct tokenizer *text_golden_json(const char *file, size_t bytes, const char *name)
{
    struct tokenizer_json files = {.tokenizer = file, .tokenizer_bytes = bytes, .bos = -1};
    struct err_info info = {0};
    struct tokenizer *tokenizer = NULL;
    if (tokenizer_open_json(&files, &tokenizer, &info) != ERR_OK) {
        printf("%s does not load: %s: %s\n", name, info.where, info.text);
        exit(1);
    }
    return tokenizer;
}

struct tokenizer *text_golden_open(const char *name)
{
    char path[GOLDEN_PATH_BYTES];
    if (name[0] != '\0' ? !golden_reference(name, path) : !golden_model(path)) {
        printf("skipped: %s is not there\n", name[0] != '\0' ? name : "the default model");
        return NULL;
    }
    size_t length = strlen(name);
    if (length > 5 && strcmp(name + length - 5, ".json") == 0) {
        return open_json(name);
    }
    struct err_info info = {0};
    struct gguf *gguf = NULL;
    struct tokenizer *tokenizer = NULL;
    if (gguf_open(path, &gguf, &info) != ERR_OK ||
        tokenizer_open_gguf(gguf, &tokenizer, &info) != ERR_OK) {
        printf("%s does not load: %s: %s\n", path, info.where, info.text);
        exit(1);
    }
    gguf_close(gguf);
    return tokenizer;
}

char *text_golden_file(const char *name, size_t *out_bytes)
{
    char path[GOLDEN_PATH_BYTES];
    if (!golden_reference(name, path)) {
        printf("skipped: %s is not there\n", name);
        return NULL;
    }
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        printf("cannot read %s\n", path);
        exit(1);
    }
    long size = ftell(file);
    rewind(file);
    char *bytes = malloc((size_t)size + 1);
    if (size < 0 || bytes == NULL || fread(bytes, 1, (size_t)size, file) != (size_t)size) {
        printf("cannot read %s\n", path);
        exit(1);
    }
    fclose(file);
    bytes[size] = '\0';
    *out_bytes = (size_t)size;
    return bytes;
}

static void print_ids(const char *what, const int32_t *ids, int32_t count, int32_t from)
{
    printf("  %s, %d ids, from %d:", what, count, from);
    for (int32_t i = from; i < count && i < from + 12; i++) {
        printf(" %d", ids[i]);
    }
    printf("\n");
}

static bool spans_are_sound(int32_t (*spans)[2], int32_t count, size_t bytes, const char *case_name)
{
    int32_t start = 0;
    for (int32_t i = 0; i < count; i++) {
        if (spans[i][0] < start || spans[i][1] < spans[i][0] || (size_t)spans[i][1] > bytes) {
            printf(
                "%s: span %d is [%d, %d) of %zu\n", case_name, i, spans[i][0], spans[i][1], bytes);
            return false;
        }
        start = spans[i][0];
    }
    return true;
}

bool text_golden_ids(const struct tokenizer *tokenizer, const char *text, size_t bytes,
    unsigned flags, const int32_t *expected, int32_t expected_count, const char *case_name)
{
    struct err_info info = {0};
    struct token_list plain;
    struct token_list with_spans;
    int32_t(*spans)[2] = NULL;
    token_list_init(&plain, 1 << 20);
    token_list_init(&with_spans, 1 << 20);
    bool good =
        tokenizer_encode(tokenizer, text, bytes, flags, &plain, &info) == ERR_OK &&
        tokenizer_encode_spans(tokenizer, text, bytes, flags, &with_spans, &spans, &info) == ERR_OK;
    if (!good) {
        printf("%s: %s\n", case_name, info.text);
    }
    size_t id_bytes = (size_t)plain.count * sizeof(*plain.ids);
    if (good && (plain.count != with_spans.count ||
                    (plain.count > 0 && memcmp(plain.ids, with_spans.ids, id_bytes) != 0))) {
        printf("%s: encode and encode_spans differ\n", case_name);
        good = false;
    }
    good = good && spans_are_sound(spans, with_spans.count, bytes, case_name);
    int32_t same = 0;
    while (
        good && same < plain.count && same < expected_count && plain.ids[same] == expected[same]) {
        same++;
    }
    if (good && (same != plain.count || same != expected_count)) {
        printf("%s: different ids\n", case_name);
        print_ids("ours", plain.ids, plain.count, same);
        print_ids("reference", expected, expected_count, same);
        good = false;
    }
    mem_free(spans);
    token_list_free(&plain);
    token_list_free(&with_spans);
    return good;
}
