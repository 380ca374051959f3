/*
 * Goal: no bytes of a safetensors file reach anything but an error that names the tensor or the
 * file (reliability R29-R32; the list of hostile files).
 * Method: one good file; then a table of headers, each with one thing wrong; then every truncation
 * and every changed byte of the good file; then every bound at the limit and one past it. The
 * file's copy has its exact size, so that a sanitizer sees a read past its end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "engine/base/mem.h"
#include "engine/engine_limits.h"
#include "engine/load/safetensors.h"
#include "tests/unit/load/hub_files.h"

static const char *const good =
    "{\"__metadata__\":{\"format\":\"pt\"},"
    "\"b\":{\"dtype\":\"F16\",\"shape\":[3],\"data_offsets\":[24,30]},"
    "\"a\":{\"shape\":[2,3],\"data_offsets\":[0,24],\"dtype\":\"F32\"},"
    "\"c\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[32,40]},"
    "\"d.e\":{\"dtype\":\"BF16\",\"shape\":[1,1,1,1],\"data_offsets\":[30,32]}}   ";
enum { GOOD_DATA = 40 };

static enum err read_bytes(const void *bytes, size_t count, struct arena *arena,
    struct safetensors *out, struct err_info *info)
{
    arena_init(arena, MEM_OTHER, 4096, (size_t)1 << 28);
    *info = (struct err_info){.offset = -1};
    return safetensors_read_memory(bytes, count, "file", arena, out, info);
}

static void test_good(void **state)
{
    struct arena arena;
    struct safetensors all;
    struct err_info info;
    size_t count = 0;
    unsigned char *file = hub_files_safetensors(good, GOOD_DATA, &count);
    assert_int_equal(read_bytes(file, count, &arena, &all, &info), ERR_OK);
    assert_int_equal(all.count, 4);
    const struct safetensors_tensor *a = &all.tensors[0];
    assert_string_equal(a->name, "a");
    assert_int_equal(a->type, SAFETENSORS_F32);
    assert_int_equal(a->dims, 2);
    assert_int_equal(a->shape[0], 2);
    assert_int_equal(a->shape[1], 3);
    assert_int_equal(a->offset, 8 + strlen(good));
    assert_int_equal(a->bytes, 24);
    assert_string_equal(all.tensors[1].name, "b");
    assert_string_equal(all.tensors[2].name, "d.e");
    assert_int_equal(all.tensors[2].type, SAFETENSORS_BF16);
    assert_string_equal(all.tensors[3].name, "c"); /* a scalar */
    assert_int_equal(all.tensors[3].dims, 1);
    assert_int_equal(all.tensors[3].offset + all.tensors[3].bytes, count);
    assert_string_equal(safetensors_type_word(SAFETENSORS_I64), "I64");
    arena_drop(&arena);
    free(file);
}

/* ---- one thing wrong ------------------------------------------------------------------------ */

#define T(dtype, shape, offsets)                                                                   \
    "{\"t\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define F32_4 "\"dtype\":\"F32\",\"shape\":[1]"

static const struct {
    const char *what, *header;
    size_t data;
    enum err err;
    const char *where;
} rows[] = {
    {"nothing in it", "{}", 0, ERR_OK, NULL},
    {"one tensor", T("F32", "[1]", "[0,4]"), 4, ERR_OK, NULL},
    {"no object", "[]", 0, ERR_FORMAT, "file"},
    {"a space first", " {}", 0, ERR_FORMAT, "file"},
    {"bad JSON", "{\"t\":", 0, ERR_FORMAT, "file"},
    {"bytes behind", "{}{}", 0, ERR_FORMAT, "file"},
    {"NaN", T("F32", "[NaN]", "[0,4]"), 4, ERR_FORMAT, "file"},
    {"bad UTF-8", "{\"\xff\":1}", 0, ERR_FORMAT, "file"},
    {"NUL in a name", "{\"a\\u0000b\":{" F32_4 ",\"data_offsets\":[0,4]}}", 4, ERR_FORMAT, "file"},
    {"deep nesting", "{\"t\":[[[[[1]]]]]}", 0, ERR_LIMIT, "file"},
    {"the same name twice",
        "{\"t\":{" F32_4 ",\"data_offsets\":[0,4]},\"t\":{" F32_4 ",\"data_offsets\":[4,8]}}", 8,
        ERR_FORMAT, "file"},
    {"a key of an entry twice", "{\"t\":{" F32_4 ",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
        ERR_FORMAT, "file"},
    {"an empty name", "{\"\":{" F32_4 ",\"data_offsets\":[0,4]}}", 4, ERR_FORMAT, "file"},
    {"a control character", "{\"a\\n\":{" F32_4 ",\"data_offsets\":[0,4]}}", 4, ERR_FORMAT, "file"},
    {"metadata of numbers", "{\"__metadata__\":{\"a\":1}}", 0, ERR_FORMAT, "file"},
    {"metadata that is a list", "{\"__metadata__\":[]}", 0, ERR_FORMAT, "file"},
    {"an entry that is a list", "{\"t\":[]}", 0, ERR_FORMAT, "t"},
    {"a fourth key", "{\"t\":{" F32_4 ",\"data_offsets\":[0,4],\"x\":0}}", 4, ERR_FORMAT, "t"},
    {"no dtype", "{\"t\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, ERR_FORMAT, "t"},
    {"no shape", "{\"t\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, ERR_FORMAT, "t"},
    {"no offsets", "{\"t\":{" F32_4 "}}", 4, ERR_FORMAT, "t"},
    {"dtype a number", "{\"t\":{\"dtype\":1,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, ERR_FORMAT,
        "t"},
    {"dtype unknown", T("F33", "[1]", "[0,4]"), 4, ERR_UNSUPPORTED, "t"},
    {"dtype not built", T("F64", "[1]", "[0,8]"), 8, ERR_UNSUPPORTED, "t"},
    {"dtype in lower case", T("f32", "[1]", "[0,4]"), 4, ERR_UNSUPPORTED, "t"},
    {"shape no list", T("F32", "4", "[0,4]"), 4, ERR_FORMAT, "t"},
    {"dimension 0", T("F32", "[0]", "[0,0]"), 0, ERR_FORMAT, "t"},
    {"dimension -1", T("F32", "[-1]", "[0,4]"), 4, ERR_FORMAT, "t"},
    {"dimension 1.5", T("F32", "[1.5]", "[0,6]"), 6, ERR_FORMAT, "t"},
    {"dimension a string", T("F32", "[\"1\"]", "[0,4]"), 4, ERR_FORMAT, "t"},
    {"dimension 2^64", T("F32", "[18446744073709551616]", "[0,4]"), 4, ERR_FORMAT, "file"},
    {"dimension 2^63 - 1", T("F32", "[9223372036854775807]", "[0,4]"), 4, ERR_FORMAT, "t"},
    {"five dimensions", T("F32", "[1,1,1,1,1]", "[0,4]"), 4, ERR_UNSUPPORTED, "t"},
    {"product wraps to 4", T("F32", "[4194305,4194305,211106198978564]", "[0,16]"), 16, ERR_FORMAT,
        "t"},
    {"bytes wrap to 0", T("F32", "[4611686018427387904]", "[0,0]"), 0, ERR_FORMAT, "t"},
    {"offsets of one number", T("F32", "[1]", "[4]"), 4, ERR_FORMAT, "t"},
    {"offsets of three", T("F32", "[1]", "[0,4,8]"), 4, ERR_FORMAT, "t"},
    {"offsets negative", T("F32", "[1]", "[-4,0]"), 4, ERR_FORMAT, "t"},
    {"end negative", T("F32", "[1]", "[0,-4]"), 4, ERR_FORMAT, "t"},
    {"offsets real", T("F32", "[1]", "[0.0,4.0]"), 4, ERR_FORMAT, "t"},
    {"end before begin", T("F32", "[1]", "[4,0]"), 4, ERR_FORMAT, "t"},
    {"end past the file", T("F32", "[2]", "[0,8]"), 4, ERR_FORMAT, "t"},
    {"end 2^63 - 1", T("F32", "[1]", "[0,9223372036854775807]"), 4, ERR_FORMAT, "t"},
    {"smaller than its shape", T("F32", "[2]", "[0,4]"), 4, ERR_FORMAT, "t"},
    {"larger than its shape", T("F16", "[1]", "[0,4]"), 4, ERR_FORMAT, "t"},
    {"a hole before it", T("F32", "[1]", "[4,8]"), 8, ERR_FORMAT, "t"},
    {"a tail nobody has", T("F32", "[1]", "[0,4]"), 8, ERR_FORMAT, "file"},
    {"all data a tail", "{}", 4, ERR_FORMAT, "file"},
    {"an overlap",
        "{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
        "\"u\":{" F32_4 ",\"data_offsets\":[4,8]}}",
        8, ERR_FORMAT, "u"},
    {"the same data twice",
        "{\"t\":{" F32_4 ",\"data_offsets\":[0,4]},\"u\":{" F32_4 ",\"data_offsets\":[0,4]}}", 4,
        ERR_FORMAT, NULL},
    {"a hole between",
        "{\"t\":{" F32_4 ",\"data_offsets\":[0,4]},\"u\":{" F32_4 ",\"data_offsets\":[8,12]}}", 12,
        ERR_FORMAT, "u"},
    {"an empty tensor at another's offset",
        "{\"t\":{" F32_4 ",\"data_offsets\":[0,4]},"
        "\"u\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}",
        4, ERR_FORMAT, "u"},
};

static void expect(
    const void *file, size_t count, const char *what, enum err err, const char *where)
{
    struct arena arena;
    struct safetensors all;
    struct err_info info;
    const enum err got = read_bytes(file, count, &arena, &all, &info);
    if (got != err || (where != NULL && strcmp(info.where, where) != 0)) {
        fail_msg("%s: %s at %s (%s), expected %s at %s", what, err_word(got), info.where, info.text,
            err_word(err), where);
    }
    if (got != ERR_OK && (info.where[0] == '\0' || info.text[0] == '\0')) {
        fail_msg("%s: the error does not say where", what);
    }
    arena_drop(&arena);
}

static void test_rows(void **state)
{
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        size_t count = 0;
        unsigned char *file = hub_files_safetensors(rows[i].header, rows[i].data, &count);
        expect(file, count, rows[i].what, rows[i].err, rows[i].where);
        free(file);
    }
}

/* The name of what appears twice is in the text. */
static void test_twice_is_named(void **state)
{
    static const char *const header =
        "{\"some.name\":{" F32_4 ",\"data_offsets\":[0,4]},\"some.name\":1}";
    struct arena arena;
    struct safetensors all;
    struct err_info info;
    size_t count = 0;
    unsigned char *file = hub_files_safetensors(header, 4, &count);
    assert_int_equal(read_bytes(file, count, &arena, &all, &info), ERR_FORMAT);
    assert_string_equal(info.text, "the key some.name appears twice");
    assert_in_range(info.offset, 1, (int64_t)strlen(header));
    arena_drop(&arena);
    free(file);
}

static void test_lengths(void **state)
{
    static const struct {
        uint64_t length;
        size_t count;
        enum err err;
    } cases[] = {
        {0, 8, ERR_FORMAT},
        {1, 16, ERR_FORMAT},
        {9, 16, ERR_FORMAT},
        {UINT64_MAX, 16, ERR_FORMAT},
        {UINT64_MAX - 7, 16, ERR_FORMAT},
        {(uint64_t)1 << 63, 16, ERR_FORMAT},
        {100000001, 16, ERR_FORMAT},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        unsigned char *file = calloc(1, cases[i].count);
        assert_non_null(file);
        memcpy(file, &cases[i].length, 8);
        expect(file, cases[i].count, "length", cases[i].err, "file");
        free(file);
    }
    for (size_t count = 0; count < 8; count++) {
        unsigned char *file = calloc(1, MAX(count, (size_t)1));
        assert_non_null(file);
        expect(file, count, "no length", ERR_FORMAT, "file");
        free(file);
    }
}

static void test_truncations(void **state)
{
    size_t count = 0;
    unsigned char *file = hub_files_safetensors(good, GOOD_DATA, &count);
    for (size_t end = 0; end < count; end++) {
        unsigned char *cut = malloc(MAX(end, (size_t)1));
        assert_non_null(cut);
        memcpy(cut, file, end);
        expect(cut, end, "truncated", ERR_FORMAT, NULL);
        free(cut);
    }
    free(file);
}

/* Whatever one byte becomes: an error with a place, or a directory that lies within the file. */
static void test_every_byte(void **state)
{
    static const unsigned char values[] = {0, '"', '{', ']', '9', '-', 0x7f, 0xff};
    size_t count = 0;
    unsigned char *file = hub_files_safetensors(good, GOOD_DATA, &count);
    for (size_t at = 0; at < count - GOOD_DATA; at++) {
        const unsigned char before = file[at];
        for (size_t v = 0; v < ARRAY_COUNT(values); v++) {
            struct arena arena;
            struct safetensors all;
            struct err_info info;
            file[at] = values[v];
            const enum err err = read_bytes(file, count, &arena, &all, &info);
            assert_true(err == ERR_OK || info.where[0] != '\0');
            for (size_t i = 0; err == ERR_OK && i < all.count; i++) {
                assert_true(all.tensors[i].offset + all.tensors[i].bytes <= count);
            }
            arena_drop(&arena);
        }
        file[at] = before;
    }
    free(file);
}

/* ---- bounds --------------------------------------------------------------------------------- */

static void test_limit_names(void **state)
{
    for (size_t bytes = LIMIT_FILE_TENSOR_NAME_BYTES; bytes <= LIMIT_FILE_TENSOR_NAME_BYTES + 1;
         bytes++) {
        char header[1024];
        char name[LIMIT_FILE_TENSOR_NAME_BYTES + 2];
        memset(name, 'n', bytes);
        name[bytes] = '\0';
        snprintf(header, sizeof(header), "{\"%s\":{" F32_4 ",\"data_offsets\":[0,4]}}", name);
        size_t count = 0;
        unsigned char *file = hub_files_safetensors(header, 4, &count);
        const bool fits = bytes == LIMIT_FILE_TENSOR_NAME_BYTES;
        expect(file, count, "name", fits ? ERR_OK : ERR_LIMIT, fits ? NULL : "file");
        free(file);
    }
}

static void test_limit_tensors(void **state)
{
    enum { ENTRY = 80 };
    for (size_t tensors = LIMIT_FILE_TENSORS; tensors <= LIMIT_FILE_TENSORS + 1; tensors++) {
        char *header = malloc(tensors * ENTRY + 2);
        assert_non_null(header);
        size_t used = 0;
        for (size_t i = 0; i < tensors; i++) {
            used += (size_t)snprintf(header + used, ENTRY,
                "%c\"%zu\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[%zu,%zu]}",
                i == 0 ? '{' : ',', i, 2 * i, 2 * i + 2);
        }
        strcpy(header + used, "}");
        size_t count = 0;
        unsigned char *file = hub_files_safetensors(header, 2 * tensors, &count);
        const bool fits = tensors == LIMIT_FILE_TENSORS;
        expect(file, count, "tensors", fits ? ERR_OK : ERR_LIMIT, fits ? NULL : "file");
        free(file);
        free(header);
    }
}

static void test_limit_header(void **state)
{
    for (size_t bytes = LIMIT_FILE_HEADER_BYTES; bytes <= LIMIT_FILE_HEADER_BYTES + 1; bytes++) {
        char *header = malloc(bytes + 1);
        assert_non_null(header);
        memset(header, ' ', bytes);
        memcpy(header, "{}", 2);
        header[bytes] = '\0';
        size_t count = 0;
        unsigned char *file = hub_files_safetensors(header, 0, &count);
        const bool fits = bytes == LIMIT_FILE_HEADER_BYTES;
        expect(file, count, "header", fits ? ERR_OK : ERR_LIMIT, fits ? NULL : "file");
        free(file);
        free(header);
    }
}

/* ---- from a file ---------------------------------------------------------------------------- */

static void test_file(void **state)
{
    struct arena arena;
    struct safetensors all;
    struct err_info info = {.offset = -1};
    size_t count = 0;
    unsigned char *bytes = hub_files_safetensors(good, GOOD_DATA, &count);
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fflush(file), 0);
    arena_init(&arena, MEM_OTHER, 4096, 1 << 20);
    assert_int_equal(safetensors_read(fileno(file), count, "file", &arena, &all, &info), ERR_OK);
    assert_int_equal(all.count, 4);
    /* Shorter than it was when it was opened: R36. */
    assert_int_equal(ftruncate(fileno(file), 20), 0);
    assert_int_equal(safetensors_read(fileno(file), count, "file", &arena, &all, &info), ERR_IO);
    assert_string_equal(info.where, "file");
    assert_int_equal(ftruncate(fileno(file), 4), 0);
    assert_int_equal(safetensors_read(fileno(file), count, "file", &arena, &all, &info), ERR_IO);
    assert_int_equal(safetensors_read(fileno(file), 4, "file", &arena, &all, &info), ERR_FORMAT);
    arena_drop(&arena);
    fclose(file);
    free(bytes);
}

static void test_out_of_memory(void **state)
{
    size_t count = 0;
    unsigned char *file = hub_files_safetensors(good, GOOD_DATA, &count);
    for (uint64_t nth = 1;; nth++) {
        struct arena arena;
        struct safetensors all;
        struct err_info info;
        mem_fail_after(nth, 0);
        const enum err err = read_bytes(file, count, &arena, &all, &info);
        mem_fail_after(0, 0);
        arena_drop(&arena);
        assert_true(err == ERR_OK || err == ERR_NO_MEMORY);
        if (err == ERR_OK) {
            assert_true(nth > 1);
            break;
        }
    }
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_twice_is_named),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_truncations),
        cmocka_unit_test(test_every_byte),
        cmocka_unit_test(test_limit_names),
        cmocka_unit_test(test_limit_tensors),
        cmocka_unit_test(test_limit_header),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
