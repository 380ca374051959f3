/*
 * Goal: no bytes of a GGUF file reach anything but an error that names the key or the tensor.
 * Method: one good file, one field changed per row of a table, and the error, its place and its
 * byte offset compared (R29, R31, R32); then every truncation and every changed byte of that file;
 * then every bound at the limit and one past it. Run under AddressSanitizer the file's copy has
 * its exact size, so that a read past its end is seen.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "engine/base/mem.h"
#include "engine/engine_limits.h"
#include "engine/load/gguf.h"
#include "tests/unit/load/gguf_writer.h"

static unsigned char *good_file(size_t *out_count)
{
    static const char *const texts[] = {"ab", "cd"};
    static const float floats[] = {1, 2, 3};
    static const unsigned char data[64];
    struct gguf_writer w;
    gguf_writer_init(&w);
    gguf_writer_string(&w, "general.architecture", "llama");
    gguf_writer_u32(&w, "general.alignment", 32);
    gguf_writer_raw(&w, "split.count", GGUF_U16, "\1", 2);
    gguf_writer_u32(&w, "key.one", 7);
    gguf_writer_u32(&w, "key.two", 7);
    gguf_writer_bool(&w, "key.flag", true);
    gguf_writer_array(&w, "key.flags", GGUF_BOOL, "\1\0", 2, 2);
    gguf_writer_string(&w, "key.text", "text");
    gguf_writer_strings(&w, "key.texts", texts, 2);
    gguf_writer_array(&w, "key.floats", GGUF_F32, floats, 3, sizeof(floats));
    gguf_writer_strings(&w, "tokenizer.ggml.tokens", texts, 2);
    gguf_writer_tensor(&w, "one.weight", TENSOR_F32, 3, (const int64_t[]){4, 2, 1}, data);
    gguf_writer_tensor(&w, "two.weight", TENSOR_Q4_0, 2, (const int64_t[]){32, 2}, data);
    gguf_writer_tensor(&w, "six.weight", TENSOR_F16, 1, (const int64_t[]){3}, data);
    unsigned char *file = gguf_writer_finish(&w, out_count);
    gguf_writer_free(&w);
    return file;
}

/* Where the name's bytes end: names are found with their length, so none is part of another. */
static size_t find_name_end(const unsigned char *file, size_t count, const char *name)
{
    const uint64_t bytes = strlen(name);
    for (size_t i = 0; i + 8 + bytes <= count; i++) {
        if (memcmp(file + i, &bytes, 8) == 0 && memcmp(file + i + 8, name, bytes) == 0) {
            return i + 8 + bytes;
        }
    }
    fail_msg("no name %s", name);
    return 0;
}

/* Fields of a record, counted from the end of its name. */
enum {
    TYPE = 0, /* of a pair */
    VALUE = 4,
    ELEMENT_TYPE = 4,
    ELEMENT_COUNT = 8,
    ELEMENTS = 16,
    TEXT_LENGTH = 4,
    TEXT = 12,

    DIMS = 0, /* of a tensor */
    DIM_0 = 4,
    DIM_1 = 12,
    ONE_TYPE = 28, /* one.weight has three dimensions, two.weight two, six.weight one */
    ONE_OFFSET = 32,
    TWO_TYPE = 20,
    TWO_OFFSET = 24,
    SIX_TYPE = 12,
    SIX_OFFSET = 16,
};

struct row {
    const char *what;
    const char *name; /* the record changed; NULL = the header, `field` from the file's start */
    int field;
    int width;         /* bytes overwritten */
    uint64_t value;    /* little-endian, unless ... */
    const char *bytes; /* ... these are given */
    enum err err;
    const char *where; /* NULL = any, where one changed field makes others unreadable */
};

#define FORMAT ERR_FORMAT
#define UNSUPPORTED ERR_UNSUPPORTED
static const struct row rows[] = {
    {"other magic", NULL, 0, 4, 0, "GGML", FORMAT, "magic"},
    {"version 0", NULL, 4, 4, 0, NULL, UNSUPPORTED, "version"},
    {"version 1, 32-bit counts", NULL, 4, 4, 1, NULL, UNSUPPORTED, "version"},
    {"version 4", NULL, 4, 4, 4, NULL, UNSUPPORTED, "version"},
    {"big-endian version 1", NULL, 4, 4, 0x01000000, NULL, UNSUPPORTED, "version"},
    {"big-endian version 2", NULL, 4, 4, 0x02000000, NULL, UNSUPPORTED, "version"},
    {"big-endian version 3", NULL, 4, 4, 0x03000000, NULL, UNSUPPORTED, "version"},
    {"version 2", NULL, 4, 4, 2, NULL, ERR_OK, NULL},
    {"one tensor more", NULL, 8, 8, 4, NULL, FORMAT, "tensor 3"},
    {"2^32 tensors", NULL, 8, 8, UINT64_C(1) << 32, NULL, FORMAT, "tensor_count"},
    {"2^64 - 1 tensors", NULL, 8, 8, UINT64_MAX, NULL, FORMAT, "tensor_count"},
    {"one key less", NULL, 16, 8, 10, NULL, FORMAT, NULL},
    {"one key more", NULL, 16, 8, 12, NULL, FORMAT, NULL},
    {"2^31 keys", NULL, 16, 8, UINT64_C(1) << 31, NULL, FORMAT, "metadata_kv_count"},
    {"2^64 - 1 keys", NULL, 16, 8, UINT64_MAX, NULL, FORMAT, "metadata_kv_count"},

    {"empty key", "key.one", -15, 8, 0, NULL, FORMAT, "key 3"},
    {"key longer than the file", "key.one", -15, 8, 1 << 20, NULL, FORMAT, "key 3"},
    {"key length 2^64 - 1", "key.one", -15, 8, UINT64_MAX, NULL, FORMAT, "key 3"},
    {"key length 2^63", "key.one", -15, 8, UINT64_C(1) << 63, NULL, FORMAT, "key 3"},
    {"NUL in a key", "key.one", -3, 1, 0, NULL, FORMAT, "key 3"},
    {"space in a key", "key.one", -3, 1, ' ', NULL, FORMAT, "key 3"},
    {"control in a key", "key.one", -3, 1, '\n', NULL, FORMAT, "key 3"},
    {"byte 0x80 in a key", "key.one", -3, 1, 0x80, NULL, FORMAT, "key 3"},
    {"same key twice", "key.two", -3, 3, 0, "one", FORMAT, "key.one"},

    {"value type 13", "key.one", TYPE, 4, 13, NULL, FORMAT, "key.one"},
    {"value type -1", "key.one", TYPE, 4, UINT32_MAX, NULL, FORMAT, "key.one"},
    {"bool 2", "key.flag", VALUE, 1, 2, NULL, FORMAT, "key.flag"},
    {"bool 255", "key.flag", VALUE, 1, 255, NULL, FORMAT, "key.flag"},
    {"bool 2 in an array", "key.flags", ELEMENTS + 1, 1, 2, NULL, FORMAT, "key.flags"},
    {"string longer than the file", "key.text", TEXT_LENGTH, 8, 1 << 20, NULL, FORMAT, "key.text"},
    {"string length 2^64 - 1", "key.text", TEXT_LENGTH, 8, UINT64_MAX, NULL, FORMAT, "key.text"},
    {"string that wraps to itself", "key.text", TEXT_LENGTH, 8, UINT64_MAX - 11, NULL, FORMAT,
        "key.text"},
    {"NUL in a string", "key.text", TEXT + 1, 1, 0, NULL, FORMAT, "key.text"},
    {"bad UTF-8", "key.text", TEXT, 1, 0xFF, NULL, FORMAT, "key.text"},
    {"UTF-8 surrogate", "key.text", TEXT, 3, 0, "\xED\xA0\x80", FORMAT, "key.text"},
    {"unfinished UTF-8", "key.text", TEXT + 3, 1, 0xC3, NULL, FORMAT, "key.text"},
    {"bad UTF-8 in an array", "key.texts", ELEMENTS + 8, 1, 0xFF, NULL, FORMAT, "key.texts"},
    {"bytes in a token", "tokenizer.ggml.tokens", ELEMENTS + 8, 1, 0xFF, NULL, ERR_OK, NULL},

    {"array of arrays", "key.floats", ELEMENT_TYPE, 4, GGUF_ARRAY, NULL, UNSUPPORTED, "key.floats"},
    {"element type 13", "key.floats", ELEMENT_TYPE, 4, 13, NULL, FORMAT, "key.floats"},
    {"element type -1", "key.floats", ELEMENT_TYPE, 4, UINT32_MAX, NULL, FORMAT, "key.floats"},
    {"count x size wraps to 0", "key.floats", ELEMENT_COUNT, 8, UINT64_C(1) << 62, NULL, FORMAT,
        "key.floats"},
    {"count x size wraps to 12", "key.floats", ELEMENT_COUNT, 8, (UINT64_C(1) << 62) + 3, NULL,
        FORMAT, "key.floats"},
    {"2^64 - 1 numbers", "key.floats", ELEMENT_COUNT, 8, UINT64_MAX, NULL, FORMAT, "key.floats"},
    {"2^32 strings", "key.texts", ELEMENT_COUNT, 8, UINT64_C(1) << 32, NULL, FORMAT, "key.texts"},
    {"2^61 strings", "key.texts", ELEMENT_COUNT, 8, UINT64_C(1) << 61, NULL, FORMAT, "key.texts"},
    {"token longer than the file", "tokenizer.ggml.tokens", ELEMENTS, 8, 1 << 30, NULL, FORMAT,
        "tokenizer.ggml.tokens"},

    {"alignment 0", "general.alignment", VALUE, 4, 0, NULL, FORMAT, "general.alignment"},
    {"alignment 1", "general.alignment", VALUE, 4, 1, NULL, FORMAT, "general.alignment"},
    {"alignment 4", "general.alignment", VALUE, 4, 4, NULL, FORMAT, "general.alignment"},
    {"alignment 33", "general.alignment", VALUE, 4, 33, NULL, FORMAT, "general.alignment"},
    {"alignment 24", "general.alignment", VALUE, 4, 24, NULL, FORMAT, "general.alignment"},
    {"alignment 2^17", "general.alignment", VALUE, 4, 1 << 17, NULL, FORMAT, "general.alignment"},
    {"alignment 2^31", "general.alignment", VALUE, 4, UINT64_C(1) << 31, NULL, FORMAT,
        "general.alignment"},
    {"alignment of type i32", "general.alignment", TYPE, 4, GGUF_I32, NULL, FORMAT,
        "general.alignment"},
    {"alignment of type f32", "general.alignment", TYPE, 4, GGUF_F32, NULL, FORMAT,
        "general.alignment"},
    {"alignment makes offsets odd", "general.alignment", VALUE, 4, 64, NULL, FORMAT, "two.weight"},
    {"two parts", "split.count", VALUE, 2, 2, NULL, UNSUPPORTED, "split.count"},
    {"split.count -1", "split.count", TYPE, 6, 0, "\3\0\0\0\xFF\xFF", FORMAT, "split.count"},

    {"empty tensor name", "two.weight", -18, 8, 0, NULL, FORMAT, "tensor 1"},
    {"endless tensor name", "two.weight", -18, 8, UINT64_MAX, NULL, FORMAT, "tensor 1"},
    {"NUL in a tensor name", "two.weight", -1, 1, 0, NULL, FORMAT, "tensor 1"},
    {"escape in a tensor name", "two.weight", -1, 1, 27, NULL, FORMAT, "tensor 1"},
    {"same tensor twice", "two.weight", -10, 3, 0, "one", FORMAT, "one.weight"},
    {"no dimensions", "six.weight", DIMS, 4, 0, NULL, FORMAT, "six.weight"},
    {"five dimensions", "six.weight", DIMS, 4, 5, NULL, FORMAT, "six.weight"},
    {"2^32 - 1 dimensions", "six.weight", DIMS, 4, UINT32_MAX, NULL, FORMAT, "six.weight"},
    {"dimension 0", "one.weight", DIM_0, 8, 0, NULL, FORMAT, "one.weight"},
    {"second dimension 0", "one.weight", DIM_1, 8, 0, NULL, FORMAT, "one.weight"},
    {"dimension -1", "one.weight", DIM_0, 8, UINT64_MAX, NULL, FORMAT, "one.weight"},
    {"dimension -2^63", "one.weight", DIM_1, 8, UINT64_C(1) << 63, NULL, FORMAT, "one.weight"},
    {"product past 2^63", "one.weight", DIM_0, 8, UINT64_C(1) << 62, NULL, FORMAT, "one.weight"},
    {"product x type size wraps", "one.weight", DIM_0, 8, UINT64_C(1) << 61, NULL, FORMAT,
        "one.weight"},
    {"product wraps to 4", "one.weight", DIM_0, 24, 0,
        "\1\0\x40\0\0\0\0\0\1\0\x40\0\0\0\0\0\4\0\xC0\xFF\xFF\xBF\0\0", FORMAT, "one.weight"},
    {"larger than the file", "one.weight", DIM_0, 8, 1 << 30, NULL, FORMAT, "one.weight"},
    {"half a block", "two.weight", DIM_0, 8, 16, NULL, FORMAT, "two.weight"},
    {"a block and one", "two.weight", DIM_0, 8, 33, NULL, FORMAT, "two.weight"},
    {"K-quant of a width of 32", "two.weight", TWO_TYPE, 4, 12, NULL, FORMAT, "two.weight"},
    {"tensor type removed (4)", "one.weight", ONE_TYPE, 4, 4, NULL, UNSUPPORTED, "one.weight"},
    {"tensor type removed (5)", "two.weight", TWO_TYPE, 4, 5, NULL, UNSUPPORTED, "two.weight"},
    {"tensor type not built (10)", "six.weight", SIX_TYPE, 4, 10, NULL, UNSUPPORTED, "six.weight"},
    {"tensor type unknown (99)", "six.weight", SIX_TYPE, 4, 99, NULL, UNSUPPORTED, "six.weight"},
    {"tensor type -1", "six.weight", SIX_TYPE, 4, UINT32_MAX, NULL, UNSUPPORTED, "six.weight"},
    {"offset not aligned", "one.weight", ONE_OFFSET, 8, 16, NULL, FORMAT, "one.weight"},
    {"offset past the end", "six.weight", SIX_OFFSET, 8, 1 << 20, NULL, FORMAT, "six.weight"},
    {"data past the end by a block", "six.weight", SIX_OFFSET, 8, 128, NULL, FORMAT, "six.weight"},
    {"offset + size wraps", "six.weight", SIX_OFFSET, 8, UINT64_MAX - 31, NULL, FORMAT,
        "six.weight"},
    {"offset wraps before the data", "six.weight", SIX_OFFSET, 8, UINT64_MAX - 95, NULL, FORMAT,
        "six.weight"},
    {"same data twice", "two.weight", TWO_OFFSET, 8, 0, NULL, FORMAT, NULL},
    {"overlap in the middle", "six.weight", SIX_OFFSET, 8, 64, NULL, FORMAT, "six.weight"},
};

static void change(unsigned char *file, size_t count, const struct row *row)
{
    const size_t base = row->name == NULL ? 0 : find_name_end(file, count, row->name);
    const size_t at = (size_t)((int64_t)base + row->field);
    assert_true(at + (size_t)row->width <= count);
    if (row->bytes != NULL) {
        memcpy(file + at, row->bytes, (size_t)row->width);
    } else {
        memcpy(file + at, &row->value, (size_t)row->width);
    }
}

static void test_rows(void **state)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct err_info info = {0};
        struct gguf *gguf = NULL;
        size_t count = 0;
        unsigned char *file = good_file(&count);
        change(file, count, &rows[i]);
        const enum err err = gguf_open_memory(file, count, &gguf, &info);
        if (err != rows[i].err || info.code != rows[i].err || (gguf != NULL) != (err == ERR_OK) ||
            (rows[i].where != NULL && strcmp(rows[i].where, info.where) != 0)) {
            fail_msg("%s: %s at %s (%s), expected %s at %s", rows[i].what, err_word(err),
                info.where, info.text, err_word(rows[i].err), rows[i].where);
        }
        if (err != ERR_OK && (info.where[0] == '\0' || info.text[0] == '\0' || info.offset < 0)) {
            fail_msg("%s: the error does not say where: %s, %s, %" PRId64, rows[i].what, info.where,
                info.text, info.offset);
        }
        gguf_close(gguf);
        free(file);
    }
}

/* The offset of an error is that of the field or of what follows it. */
static void test_offsets(void **state)
{
    static const struct row changed = {
        "", "key.floats", ELEMENT_COUNT, 8, UINT64_MAX, NULL, FORMAT};
    struct err_info info = {0};
    struct gguf *gguf = NULL;
    size_t count = 0;
    unsigned char *file = good_file(&count);
    change(file, count, &changed);
    assert_int_equal(gguf_open_memory(file, count, &gguf, &info), ERR_FORMAT);
    const size_t name_end = find_name_end(file, count, "key.floats");
    assert_int_equal(info.offset, (int64_t)name_end + ELEMENTS);
    free(file);
}

/* Asks an open file for everything it has. */
static void visit(const struct gguf *gguf)
{
    static unsigned char data[4096];
    for (int32_t i = 0; i < gguf_key_count(gguf); i++) {
        const char *key = gguf_key(gguf, i);
        int64_t integer;
        double number;
        bool flag;
        struct gguf_string text;
        assert_true(gguf_has(gguf, key));
        (void)!gguf_get_i64(gguf, key, true, INT64_MIN, INT64_MAX, &integer, NULL);
        (void)!gguf_get_f64(gguf, key, true, &number, NULL);
        (void)!gguf_get_bool(gguf, key, true, &flag, NULL);
        (void)!gguf_get_string(gguf, key, true, &text, NULL);
        for (int type = GGUF_U8; type <= GGUF_F64; type++) {
            struct gguf_array array;
            if (gguf_get_array(gguf, key, true, (enum gguf_type)type, &array, NULL) == ERR_OK) {
                for (size_t j = 0; j < array.count && array.strings != NULL; j++) {
                    assert_true(array.strings[j].count < 4096);
                    memcpy(data, array.strings[j].bytes, array.strings[j].count);
                }
            }
        }
    }
    for (int32_t i = 0; i < gguf_tensor_count(gguf); i++) {
        const struct gguf_tensor *tensor = gguf_tensor_at(gguf, i);
        assert_ptr_equal(gguf_find_tensor(gguf, tensor->name.bytes), tensor);
        assert_true(tensor->bytes <= sizeof(data));
        assert_int_equal(gguf_read(gguf, tensor, 0, tensor->bytes, data, NULL), ERR_OK);
    }
}

static void test_truncations(void **state)
{
    size_t count = 0;
    unsigned char *file = good_file(&count);
    for (size_t cut = 0; cut < count; cut++) {
        struct gguf *gguf = NULL;
        struct err_info info = {0};
        unsigned char *shorter = malloc(cut == 0 ? 1 : cut);
        assert_non_null(shorter);
        memcpy(shorter, file, cut);
        if (gguf_open_memory(shorter, cut, &gguf, &info) != ERR_FORMAT || info.where[0] == '\0') {
            fail_msg(
                "cut to %zu of %zu bytes: %s at '%s'", cut, count, err_word(info.code), info.where);
        }
        free(shorter);
    }
    free(file);
}

static void test_every_byte(void **state)
{
    static const unsigned char masks[] = {0x01, 0x02, 0x04, 0x10, 0x20, 0x80, 0xFF};
    size_t count = 0;
    int opened = 0;
    unsigned char *file = good_file(&count);
    for (size_t at = 0; at < count; at++) {
        for (size_t i = 0; i < sizeof(masks); i++) {
            struct gguf *gguf = NULL;
            struct err_info info = {0};
            file[at] ^= masks[i];
            if (gguf_open_memory(file, count, &gguf, &info) == ERR_OK) {
                visit(gguf);
                opened++;
            } else {
                assert_string_not_equal(info.where, "");
            }
            gguf_close(gguf);
            file[at] ^= masks[i];
        }
    }
    assert_true(opened > 0);
    free(file);
}

/* ---- bounds: at the limit and one past it --------------------------------------------------- */

/* A header, then `count - 24` bytes for the caller to fill; zeros. */
static unsigned char *start_file(size_t count, uint64_t tensors, uint64_t keys)
{
    unsigned char *file = calloc(1, count);
    assert_non_null(file);
    memcpy(file, "GGUF\3\0\0\0", 8);
    memcpy(file + 8, &tensors, 8);
    memcpy(file + 16, &keys, 8);
    return file;
}

static unsigned char *put_u64(unsigned char *at, uint64_t value)
{
    memcpy(at, &value, 8);
    return at + 8;
}

static unsigned char *put_name(unsigned char *at, const char *name)
{
    at = put_u64(at, strlen(name));
    memcpy(at, name, strlen(name));
    return at + strlen(name);
}

/* Memory is bounded by the file's bytes (R29): 16 for an empty string's 8 are the most, and the
 * tables of as many keys and tensors as are read. */
static void expect(unsigned char *file, size_t count, enum err err, const char *where)
{
    enum { TABLE_BYTES = 16 << 20 };
    const uint64_t before = mem_bytes(MEM_OTHER);
    struct gguf *gguf = NULL;
    struct err_info info = {0};
    const enum err got = gguf_open_memory(file, count, &gguf, &info);
    if (got != err || (where != NULL && strcmp(where, info.where) != 0)) {
        fail_msg("%s at %s (%s), expected %s at %s", err_word(got), info.where, info.text,
            err_word(err), where);
    }
    assert_true(mem_bytes(MEM_OTHER) - before <= 2 * (uint64_t)count + TABLE_BYTES);
    gguf_close(gguf);
    assert_int_equal(mem_bytes(MEM_OTHER), before);
    free(file);
}

static void test_limit_keys(void **state)
{
    for (uint64_t keys = LIMIT_FILE_KEYS; keys <= LIMIT_FILE_KEYS + 1; keys++) {
        const size_t count = 24 + keys * (8 + 6 + 4 + 1);
        unsigned char *file = start_file(count, 0, keys);
        unsigned char *at = file + 24;
        for (uint64_t i = 0; i < keys; i++) {
            char name[16];
            snprintf(name, sizeof(name), "%06" PRIu64, i * 7919 % 1000000);
            at = put_name(at, name) + 5; /* type u8, value 0 */
        }
        const bool fits = keys == LIMIT_FILE_KEYS;
        expect(file, count, fits ? ERR_OK : ERR_LIMIT, fits ? NULL : "metadata_kv_count");
    }
}

static void test_limit_tensors(void **state)
{
    for (uint64_t tensors = LIMIT_FILE_TENSORS; tensors <= LIMIT_FILE_TENSORS + 1; tensors++) {
        const size_t directory = 24 + tensors * (8 + 6 + 4 + 8 + 4 + 8);
        const size_t count = directory + 32 + tensors * 32;
        unsigned char *file = start_file(count, tensors, 0);
        unsigned char *at = file + 24;
        for (uint64_t i = 0; i < tensors; i++) {
            char name[16];
            snprintf(name, sizeof(name), "%06" PRIu64, i * 7919 % 1000000);
            at = put_name(at, name);
            *at = 1;
            at = put_u64(put_u64(at + 4, 1) + 4, 32 * i);
        }
        const bool fits = tensors == LIMIT_FILE_TENSORS;
        expect(file, count, fits ? ERR_OK : ERR_LIMIT, fits ? NULL : "tensor_count");
    }
}

static void test_limit_names(void **state)
{
    for (size_t bytes = LIMIT_FILE_KEY_BYTES; bytes <= LIMIT_FILE_KEY_BYTES + 1; bytes++) {
        const size_t count = 24 + 8 + bytes + 5;
        unsigned char *file = start_file(count, 0, 1);
        memset(put_u64(file + 24, bytes), 'k', bytes);
        const bool fits = bytes == LIMIT_FILE_KEY_BYTES;
        expect(file, count, fits ? ERR_OK : ERR_LIMIT, fits ? NULL : "key 0");
    }
    for (size_t bytes = LIMIT_FILE_NAME_BYTES; bytes <= LIMIT_FILE_NAME_BYTES + 1; bytes++) {
        const size_t count = 512;
        unsigned char *file = start_file(count, 1, 0);
        unsigned char *at = put_u64(file + 24, bytes);
        memset(at, 't', bytes);
        at[bytes] = 1;
        put_u64(at + bytes + 4, 1);
        const bool fits = bytes == LIMIT_FILE_NAME_BYTES;
        expect(file, count, fits ? ERR_OK : ERR_LIMIT, fits ? NULL : "tensor 0");
    }
}

static void test_limit_string(void **state)
{
    for (size_t bytes = LIMIT_FILE_STRING_BYTES; bytes <= LIMIT_FILE_STRING_BYTES + 1; bytes++) {
        const size_t count = 24 + 8 + 1 + 4 + 8 + bytes;
        unsigned char *file = start_file(count, 0, 1);
        unsigned char *at = put_name(file + 24, "a");
        *at = GGUF_STRING;
        memset(put_u64(at + 4, bytes), 't', bytes);
        const bool fits = bytes == LIMIT_FILE_STRING_BYTES;
        expect(file, count, fits ? ERR_OK : ERR_LIMIT, fits ? NULL : "a");
    }
}

/* The array is the last byte of metadata; the file itself may be larger than the limit. */
static void test_limit_metadata(void **state)
{
    const size_t head = 24 + 8 + 1 + 4 + 4 + 8;
    for (size_t meta = LIMIT_FILE_META_BYTES; meta <= (size_t)LIMIT_FILE_META_BYTES + 1; meta++) {
        const size_t count = (size_t)LIMIT_FILE_META_BYTES + 64;
        unsigned char *file = start_file(count, 0, 1);
        unsigned char *at = put_name(file + 24, "a");
        *at = GGUF_ARRAY;
        put_u64(at + 8, meta - head);
        const bool fits = meta == LIMIT_FILE_META_BYTES;
        expect(file, count, fits ? ERR_OK : ERR_LIMIT, fits ? NULL : "a");
    }
}

/* Empty strings are the cheapest way to ask for much memory: 8 bytes of file for 16 of ours. */
static void test_limit_strings(void **state)
{
    for (size_t strings = LIMIT_FILE_STRINGS; strings <= (size_t)LIMIT_FILE_STRINGS + 1;
         strings++) {
        const size_t count = 24 + 8 + 1 + 4 + 4 + 8 + 8 * strings;
        unsigned char *file = start_file(count, 0, 1);
        unsigned char *at = put_name(file + 24, "a");
        at[0] = GGUF_ARRAY;
        at[4] = GGUF_STRING;
        put_u64(at + 8, strings);
        const bool fits = strings == LIMIT_FILE_STRINGS;
        expect(file, count, fits ? ERR_OK : ERR_LIMIT, fits ? NULL : "a");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_truncations),
        cmocka_unit_test(test_every_byte),
        cmocka_unit_test(test_limit_keys),
        cmocka_unit_test(test_limit_tensors),
        cmocka_unit_test(test_limit_names),
        cmocka_unit_test(test_limit_string),
        cmocka_unit_test(test_limit_metadata),
        cmocka_unit_test(test_limit_strings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
