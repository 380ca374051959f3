/*
 * Goal: a file in which one field is odd is refused with a place, or it is a network that runs
 * within its memory (R33); an array of another type or count is refused (R32).
 * Method: a good file of each network. Every number of its metadata and every dimension, type and
 * offset of its tensors takes a dozen values, one at a time; so does every array's element type and
 * count. What opens, with its vocabulary, runs a forward pass. AddressSanitizer sees the rest. Of a
 * folder of safetensors every number of config.json takes values of every kind.
 *
 * usage: test_fields FOLDER/NAME, of fixtures
 *        test_fields --folder PATH
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "engine/load/checkpoint.h"
#include "engine/text/tokenizer.h"
#include "tests/golden/forward_helper.h"
#include "tests/golden/golden_data.h"

enum { ROWS = 5, VALUES = 12 }; /* values a field takes */

static const uint64_t sizes[VALUES] = {0, 1, 2, 3, 7, 255, 65536, INT32_MAX,
    (uint64_t)INT32_MAX + 1, UINT32_MAX, (uint64_t)1 << 62, UINT64_MAX};
/* 0, -0, -1, NaN, both infinities, a subnormal, 1e-30, 0.5, 1, 1e10, 3e38 */
static const uint32_t floats[VALUES] = {0, 0x80000000, 0xBF800000, 0x7FC00000, 0x7F800000,
    0xFF800000, 0x000116C2, 0x0DA24260, 0x3F000000, 0x3F800000, 0x501502F9, 0x7F61B1E6};

struct rig {
    char network[64]; /* or the folder */
    char path[GOLDEN_PATH_BYTES];
    unsigned char *bytes;
    size_t count;
    struct kernels kernels;
    struct threads *threads;
    int refused, ran;
};

/* ---- one file ------------------------------------------------------------------------------- */

/* A sequence of the first and the last tokens; encoders see all of it at once. */
static void run_once(struct forward *forward)
{
    const struct model_info *info = model_info(forward->model);
    const int32_t tokens[ROWS] = {0, info->vocab - 1, info->vocab / 2, 1 % info->vocab, 0};
    const int32_t count = MIN((int32_t)ROWS, info->context);
    float *numbers = calloc((size_t)info->hidden + (size_t)info->vocab, sizeof(float));
    assert_non_null(numbers);
    struct forward_sequence sequence = {.tokens = tokens,
        .count = count,
        .context_count = info->embeds_only ? count : 0,
        .read_from = count - 1,
        .read_count = 1,
        .hidden = numbers};
    forward->odd = true;
    forward_run(forward, &sequence, 1);
    if (!info->embeds_only) {
        forward_logits(forward, numbers, 1, numbers + info->hidden);
    }
    free(numbers);
}

static enum err open_tokenizer(const struct gguf *gguf, const struct model *model,
    struct tokenizer **out, struct err_info *info)
{
    enum err err = tokenizer_open_gguf(gguf, out, info);
    assert_true(err != ERR_OK || tokenizer_vocab(*out) == model_info(model)->vocab);
    return err;
}

/* What was opened runs; what was not has a place. Closes it. */
static enum err judge(struct rig *rig, struct forward *forward, enum err err, const char *what,
    const struct err_info *info)
{
    if (err == ERR_OK) {
        forward_begin(forward, KV_F32, ROWS);
        run_once(forward);
        pages_close(&forward->pages);
        scratch_close(forward->scratch);
        rig->ran++;
    } else {
        rig->refused++;
        if (info->where[0] == '\0' || info->text[0] == '\0' || err == ERR_INTERNAL) {
            fail_msg("%s: %s at \"%s\": %s", what, err_word(err), info->where, info->text);
        }
    }
    model_close(forward->model);
    gguf_close(forward->gguf);
    return err;
}

/* Opens what the rig's bytes are now. ERR_OK: it ran. */
static enum err try(struct rig *rig, const char *what)
{
    struct forward forward = {.kernels = rig->kernels, .threads = rig->threads};
    struct tokenizer *tokenizer = NULL;
    struct err_info info = {0};
    enum err err = gguf_open_memory(rig->bytes, rig->count, &forward.gguf, &info);
    if (err == ERR_OK) {
        err = model_open(forward.gguf, &forward.kernels, NULL, false, &forward.model, &info);
    }
    if (err == ERR_OK) {
        err = open_tokenizer(forward.gguf, forward.model, &tokenizer, &info);
    }
    err = judge(rig, &forward, err, what, &info);
    tokenizer_close(tokenizer);
    return err;
}

/* ---- one field ------------------------------------------------------------------------------ */

static uint64_t word_at(const struct rig *rig, size_t at, size_t bytes)
{
    uint64_t word = 0;
    assert_true(at + bytes <= rig->count);
    memcpy(&word, rig->bytes + at, bytes);
    return word;
}

static void vary(struct rig *rig, const char *name, size_t at, size_t bytes, bool is_float)
{
    const uint64_t before = word_at(rig, at, bytes);
    for (size_t v = 0; v < VALUES; v++) {
        const uint64_t value = is_float ? floats[v] : sizes[v];
        char what[128];
        (void)snprintf(what, sizeof(what), "%.96s, value %zu", name, v);
        memcpy(rig->bytes + at, &value, bytes);
        (void)try(rig, what);
    }
    memcpy(rig->bytes + at, &before, bytes);
}

/* Where the name's record goes on: names stand behind their length. */
static size_t behind(const struct rig *rig, const char *name)
{
    unsigned char wanted[sizeof(uint64_t) + 128];
    const uint64_t length = strlen(name);
    assert_true(length <= 128);
    memcpy(wanted, &length, sizeof(length));
    memcpy(wanted + sizeof(length), name, length);
    const unsigned char *at = memmem(rig->bytes, rig->count, wanted, sizeof(length) + length);
    assert_non_null(at);
    return (size_t)(at - rig->bytes) + sizeof(length) + length;
}

static size_t number_bytes(enum gguf_type type)
{
    static const size_t bytes[] = {[GGUF_U8] = 1,
        [GGUF_I8] = 1,
        [GGUF_U16] = 2,
        [GGUF_I16] = 2,
        [GGUF_U32] = 4,
        [GGUF_I32] = 4,
        [GGUF_F32] = 4,
        [GGUF_BOOL] = 1,
        [GGUF_STRING] = 0,
        [GGUF_ARRAY] = 0,
        [GGUF_U64] = 8,
        [GGUF_I64] = 8,
        [GGUF_F64] = 0};
    return bytes[type];
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void test_every_number(void **state)
{
    struct rig *rig = *state;
    struct gguf *gguf = NULL;
    assert_int_equal(gguf_open(rig->path, &gguf, NULL), ERR_OK);
    assert_int_equal(try(rig, "unchanged"), ERR_OK);
    for (int32_t i = 0; i < gguf_key_count(gguf); i++) {
        const size_t at = behind(rig, gguf_key(gguf, i));
        const enum gguf_type type = (enum gguf_type)word_at(rig, at, 4);
        if (number_bytes(type) > 0) {
            vary(rig, gguf_key(gguf, i), at + 4, number_bytes(type), type == GGUF_F32);
        }
    }
    print_message("%s: %d of the numbers refused, %d ran\n", rig->network, rig->refused, rig->ran);
    assert_true(rig->refused > 50 && rig->ran > 10);
    gguf_close(gguf);
}

static void test_every_array(void **state)
{
    struct rig *rig = *state;
    struct gguf *gguf = NULL;
    int arrays = 0;
    assert_int_equal(gguf_open(rig->path, &gguf, NULL), ERR_OK);
    for (int32_t i = 0; i < gguf_key_count(gguf); i++) {
        const char *name = gguf_key(gguf, i);
        const size_t at = behind(rig, name);
        if (word_at(rig, at, 4) != GGUF_ARRAY) {
            continue;
        }
        arrays++;
        const uint64_t element = word_at(rig, at + 4, 4);
        vary(rig, name, at + 4, 4, false);
        vary(rig, name, at + 8, 8, false);
        if (number_bytes((enum gguf_type)element) > 0) {
            vary(rig, name, at + 16, 4, element == GGUF_F32);
        }
        /* Elements as wide as those there are, but of another type: R32. */
        static const uint32_t wide[] = {GGUF_U32, GGUF_I32, GGUF_F32};
        for (size_t w = 0; element != GGUF_STRING && w < ARRAY_COUNT(wide); w++) {
            memcpy(rig->bytes + at + 4, &wide[w], 4);
            assert_int_equal(try(rig, name) == ERR_OK, wide[w] == element);
        }
        memcpy(rig->bytes + at + 4, &element, 4);
    }
    assert_true(arrays >= 3); /* tokens, scores, types */
    gguf_close(gguf);
}

static void test_every_tensor(void **state)
{
    struct rig *rig = *state;
    struct gguf *gguf = NULL;
    assert_int_equal(gguf_open(rig->path, &gguf, NULL), ERR_OK);
    for (int32_t i = 0; i < gguf_tensor_count(gguf); i++) {
        const char *name = gguf_tensor_at(gguf, i)->name.bytes;
        const size_t at = behind(rig, name);
        const size_t dims = (size_t)word_at(rig, at, 4);
        vary(rig, name, at, 4, false);
        for (size_t d = 0; d < dims; d++) {
            vary(rig, name, at + 4 + 8 * d, 8, false);
        }
        vary(rig, name, at + 4 + 8 * dims, 4, false); /* the type */
        vary(rig, name, at + 8 + 8 * dims, 8, false); /* where its data lies */
    }
    gguf_close(gguf);
}

/* ---- folders -------------------------------------------------------------------------------- */

static void put_config(const struct rig *rig, const char *text, size_t count)
{
    FILE *file = fopen(rig->path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static enum err try_folder(struct rig *rig, const char *what)
{
    struct forward forward = {.kernels = rig->kernels, .threads = rig->threads};
    struct err_info info = {0};
    enum err err = checkpoint_open(rig->network, &forward.gguf, &info);
    if (err == ERR_OK) {
        err = model_open(forward.gguf, &forward.kernels, NULL, false, &forward.model, &info);
    }
    if (err != ERR_OK && strstr(info.where, "config.json: ") == NULL &&
        strstr(info.where, ".weight") == NULL) {
        fail_msg("%s: %s at \"%s\": neither key nor tensor", what, err_word(err), info.where);
    }
    return judge(rig, &forward, err, what, &info);
}

/* config.json with one number, at `at`, replaced. */
static void try_config(struct rig *rig, size_t at, size_t count, const char *value)
{
    const char *text = (const char *)rig->bytes;
    char *changed = malloc(rig->count + strlen(value) + 1);
    char what[128];
    assert_non_null(changed);
    const int length = sprintf(changed, "%.*s%s%.*s", (int)at, text, value,
        (int)(rig->count - at - count), text + at + count);
    (void)snprintf(what, sizeof(what), "byte %zu: %s", at, value);
    put_config(rig, changed, (size_t)length);
    (void)try_folder(rig, what);
    free(changed);
}

static void test_every_number_of_a_config(void **state)
{
    static const char *const values[] = {"0", "-1", "1", "3", "8", "65536", "2147483648",
        "9007199254740993", "-9223372036854775808", "0.5", "-0.0", "1e308", "1e-320", "true",
        "\"16\"", "[16]", "{}", "null"};
    struct rig *rig = *state;
    int numbers = 0;
    assert_int_equal(try_folder(rig, "unchanged"), ERR_OK);
    for (size_t at = 1; at < rig->count; at++) {
        const char *text = (const char *)rig->bytes + at;
        const size_t count = strspn(text, "+-.0123456789eE");
        if (strchr(" [\n", text[-1]) == NULL || strchr("-0123456789", text[0]) == NULL) {
            continue;
        }
        numbers++;
        for (size_t v = 0; v < ARRAY_COUNT(values); v++) {
            try_config(rig, at, count, values[v]);
        }
        at += count;
    }
    print_message("%d numbers: %d values refused, %d ran\n", numbers, rig->refused, rig->ran);
    assert_true(numbers >= 8 && rig->refused > 4 * numbers && rig->ran >= numbers);
}

/* A folder of its own, with links to the weights and config.json to be written. */
static int set_up_folder(void **state)
{
    struct rig *rig = *state;
    char from[GOLDEN_PATH_BYTES + 128], to[256], copy[64] = "/tmp/fields-XXXXXX";
    assert_non_null(mkdtemp(copy));
    DIR *folder = opendir(rig->path);
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        (void)snprintf(from, sizeof(from), "%s/%.100s", rig->path, entry->d_name);
        (void)snprintf(to, sizeof(to), "%s/%.100s", copy, entry->d_name);
        if (strcmp(entry->d_name, "config.json") == 0) {
            rig->bytes = golden_bytes(from, &rig->count);
            rig->bytes = realloc(rig->bytes, rig->count + 1);
            assert_non_null(rig->bytes);
            rig->bytes[rig->count] = '\0';
        } else if (entry->d_name[0] != '.') {
            assert_int_equal(symlink(from, to), 0);
        }
    }
    (void)closedir(folder);
    (void)snprintf(rig->network, sizeof(rig->network), "%s", copy);
    (void)snprintf(rig->path, sizeof(rig->path), "%s/config.json", copy);
    put_config(rig, (const char *)rig->bytes, rig->count);
    assert_int_equal(kernels_select("ref", &rig->kernels, NULL), ERR_OK);
    assert_int_equal(threads_open(1, &rig->threads), ERR_OK);
    return 0;
}

static int tear_down_folder(void **state)
{
    struct rig *rig = *state;
    DIR *folder = opendir(rig->network);
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] != '.') {
            assert_int_equal(unlinkat(dirfd(folder), entry->d_name, 0), 0);
        }
    }
    (void)closedir(folder);
    free(rig->bytes);
    threads_close(rig->threads);
    return rmdir(rig->network);
}

/* ---- running -------------------------------------------------------------------------------- */

static int set_up(void **state)
{
    struct rig *rig = *state;
    char file[80];
    (void)snprintf(file, sizeof(file), "%s.gguf", rig->network);
    assert_true(golden_fixture(file, rig->path));
    rig->bytes = golden_bytes(rig->path, &rig->count);
    assert_int_equal(kernels_select("ref", &rig->kernels, NULL), ERR_OK);
    assert_int_equal(threads_open(1, &rig->threads), ERR_OK);
    return 0;
}

static int tear_down(void **state)
{
    struct rig *rig = *state;
    free(rig->bytes);
    threads_close(rig->threads);
    return 0;
}

int main(int argc, char **argv)
{
    static struct rig rig;
    const bool folder = argc == 3 && strcmp(argv[1], "--folder") == 0;
    if (argc != 2 && !folder) {
        (void)fprintf(stderr, "usage: %s FOLDER/NAME of fixtures | --folder PATH\n", argv[0]);
        return 2;
    }
    const struct CMUnitTest files[] = {
        cmocka_unit_test_prestate_setup_teardown(test_every_number, set_up, tear_down, &rig),
        cmocka_unit_test_prestate_setup_teardown(test_every_array, set_up, tear_down, &rig),
        cmocka_unit_test_prestate_setup_teardown(test_every_tensor, set_up, tear_down, &rig),
    };
    const struct CMUnitTest folders[] = {
        cmocka_unit_test_prestate_setup_teardown(
            test_every_number_of_a_config, set_up_folder, tear_down_folder, &rig),
    };
    if (folder) {
        if (realpath(argv[2], rig.path) == NULL) {
            perror(argv[2]);
            return 2;
        }
        return cmocka_run_group_tests(folders, NULL, NULL);
    }
    (void)snprintf(rig.network, sizeof(rig.network), "%s", argv[1]);
    return cmocka_run_group_tests(files, NULL, NULL);
}
