/*
 * Goal: a good GGUF file is read as it was written, and files that change or are no files are
 * errors of their own.
 * Method: files built in memory by tests/unit/load/gguf_writer.c, which shares no code with the
 * reader; every getter asked for a right, a wrong, an absent and an out-of-range value. Hostile
 * bytes are the business of test_gguf_hostile.c, real files of test_gguf_real.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "engine/base/mem.h"
#include "engine/load/gguf.h"
#include "tests/scale.h"
#include "tests/unit/load/gguf_writer.h"

static const int64_t matrix_shape[2] = {32, 3};
static const int64_t vector_shape[1] = {5};
static const float vector_data[5] = {1, -2, 3.5F, -4.25F, 5};
static unsigned char matrix_data[3 * 20];

static void write_good(struct gguf_writer *w)
{
    static const char *const tokens[] = {"a", "", "\xE2\x96\x81the", "\xFF\xFE"};
    static const char *const languages[] = {"en", "d\xC3\xA9"};
    static const float scores[] = {-1, 0.5F, 2, INFINITY};
    static const int32_t kinds[] = {1, 1, -3, INT32_MAX};
    for (size_t i = 0; i < sizeof(matrix_data); i++) {
        matrix_data[i] = (unsigned char)(i * 7);
    }
    gguf_writer_init(w);
    gguf_writer_string(w, "general.architecture", "llama");
    gguf_writer_string(w, "empty", "");
    gguf_writer_u32(w, "u32", UINT32_MAX);
    gguf_writer_raw(w, "u8", GGUF_U8, "\xC8", 1);
    gguf_writer_raw(w, "i8", GGUF_I8, "\xFE", 1);
    gguf_writer_raw(w, "u16", GGUF_U16, "\xFE\xFF", 2);
    gguf_writer_raw(w, "i16", GGUF_I16, "\xFE\xFF", 2);
    gguf_writer_raw(w, "i32", GGUF_I32, "\xFE\xFF\xFF\xFF", 4);
    gguf_writer_raw(w, "i64", GGUF_I64, "\0\0\0\0\0\0\0\x80", 8);
    gguf_writer_raw(w, "u64", GGUF_U64, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F", 8);
    gguf_writer_raw(w, "u64.big", GGUF_U64, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 8);
    gguf_writer_f32(w, "f32", 0.1F);
    gguf_writer_raw(w, "f64", GGUF_F64, &(double){0.1}, 8);
    gguf_writer_f32(w, "f32.nan", NAN);
    gguf_writer_raw(w, "f64.infinite", GGUF_F64, &(double){-INFINITY}, 8);
    gguf_writer_bool(w, "yes", true);
    gguf_writer_bool(w, "no", false);
    gguf_writer_strings(w, "tokenizer.ggml.tokens", tokens, 4);
    gguf_writer_array(w, "tokenizer.ggml.scores", GGUF_F32, scores, 4, sizeof(scores));
    gguf_writer_array(w, "kinds", GGUF_I32, kinds, 4, sizeof(kinds));
    gguf_writer_strings(w, "languages", languages, 2);
    gguf_writer_array(w, "none", GGUF_U8, NULL, 0, 0);
    gguf_writer_tensor(w, "blk.0.matrix", TENSOR_Q4_1, 2, matrix_shape, matrix_data);
    gguf_writer_tensor(w, "a.vector", TENSOR_F32, 1, vector_shape, vector_data);
}

struct fixture {
    struct gguf_writer writer;
    unsigned char *bytes;
    size_t count;
    struct gguf *gguf;
};

static int set_up(void **state)
{
    static struct fixture fixture;
    struct err_info info;
    write_good(&fixture.writer);
    fixture.bytes = gguf_writer_finish(&fixture.writer, &fixture.count);
    assert_int_equal(gguf_open_memory(fixture.bytes, fixture.count, &fixture.gguf, &info), ERR_OK);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    gguf_close(fixture->gguf);
    free(fixture->bytes);
    gguf_writer_free(&fixture->writer);
    return 0;
}

#define EXPECT_FORMAT(call, key)                                                                   \
    do {                                                                                           \
        struct err_info info_ = {0};                                                               \
        struct err_info *info = &info_;                                                            \
        assert_int_equal(call, ERR_FORMAT);                                                        \
        assert_int_equal(info->code, ERR_FORMAT);                                                  \
        assert_string_equal(info->where, key);                                                     \
        assert_string_not_equal(info->text, "");                                                   \
    } while (0)

static void test_integers(void **state)
{
    static const struct {
        const char *key;
        int64_t value;
    } cases[] = {{"u8", 200}, {"i8", -2}, {"u16", 65534}, {"i16", -2}, {"u32", UINT32_MAX},
        {"i32", -2}, {"i64", INT64_MIN}, {"u64", INT64_MAX}};
    const struct fixture *f = *state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t value = 0;
        const int64_t want = cases[i].value;
        const char *key = cases[i].key;
        assert_int_equal(gguf_get_i64(f->gguf, key, true, want, want, &value, NULL), ERR_OK);
        assert_true(value == want);
        value = 17;
        if (want > INT64_MIN) {
            EXPECT_FORMAT(gguf_get_i64(f->gguf, key, true, INT64_MIN, want - 1, &value, info), key);
        }
        if (want < INT64_MAX) {
            EXPECT_FORMAT(gguf_get_i64(f->gguf, key, true, want + 1, INT64_MAX, &value, info), key);
        }
        assert_true(value == 17);
    }
}

static void test_integer_errors(void **state)
{
    static const char *const wrong[] = {
        "u64.big", "f32", "f64", "yes", "general.architecture", "kinds"};
    const struct fixture *f = *state;
    int64_t value = 17;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        EXPECT_FORMAT(
            gguf_get_i64(f->gguf, wrong[i], false, INT64_MIN, INT64_MAX, &value, info), wrong[i]);
    }
    EXPECT_FORMAT(gguf_get_i64(f->gguf, "absent", true, 0, 9, &value, info), "absent");
    assert_int_equal(gguf_get_i64(f->gguf, "absent", false, 0, 9, &value, NULL), ERR_OK);
    assert_int_equal(value, 17);
}

static void test_floats(void **state)
{
    static const char *const wrong[] = {"f32.nan", "f64.infinite", "u32", "yes", "empty", "kinds"};
    const struct fixture *f = *state;
    double value = 17;
    assert_int_equal(gguf_get_f64(f->gguf, "absent", false, &value, NULL), ERR_OK);
    assert_true(value == 17);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        EXPECT_FORMAT(gguf_get_f64(f->gguf, wrong[i], false, &value, info), wrong[i]);
    }
    EXPECT_FORMAT(gguf_get_f64(f->gguf, "absent", true, &value, info), "absent");
    assert_true(value == 17);
    assert_int_equal(gguf_get_f64(f->gguf, "f32", true, &value, NULL), ERR_OK);
    assert_true(value == (double)0.1F);
    assert_int_equal(gguf_get_f64(f->gguf, "f64", true, &value, NULL), ERR_OK);
    assert_true(value == 0.1);
}

static void test_bools_and_strings(void **state)
{
    const struct fixture *f = *state;
    bool flag = false;
    struct gguf_string text = {"default", 7};
    assert_int_equal(gguf_get_bool(f->gguf, "yes", true, &flag, NULL), ERR_OK);
    assert_true(flag);
    assert_int_equal(gguf_get_bool(f->gguf, "absent", false, &flag, NULL), ERR_OK);
    assert_true(flag);
    EXPECT_FORMAT(gguf_get_bool(f->gguf, "u8", true, &flag, info), "u8");
    EXPECT_FORMAT(gguf_get_bool(f->gguf, "absent", true, &flag, info), "absent");
    assert_int_equal(gguf_get_bool(f->gguf, "no", true, &flag, NULL), ERR_OK);
    assert_false(flag);

    assert_int_equal(gguf_get_string(f->gguf, "absent", false, &text, NULL), ERR_OK);
    assert_string_equal(text.bytes, "default");
    EXPECT_FORMAT(gguf_get_string(f->gguf, "u8", true, &text, info), "u8");
    EXPECT_FORMAT(gguf_get_string(f->gguf, "languages", true, &text, info), "languages");
    EXPECT_FORMAT(gguf_get_string(f->gguf, "absent", true, &text, info), "absent");
    assert_int_equal(gguf_get_string(f->gguf, "general.architecture", true, &text, NULL), ERR_OK);
    assert_int_equal(text.count, 5);
    assert_memory_equal(text.bytes, "llama", 5);
    assert_int_equal(gguf_get_string(f->gguf, "empty", true, &text, NULL), ERR_OK);
    assert_int_equal(text.count, 0);
}

static void test_arrays(void **state)
{
    const struct fixture *f = *state;
    struct gguf_array array = {.count = 17};
    assert_int_equal(gguf_get_array(f->gguf, "absent", false, GGUF_F32, &array, NULL), ERR_OK);
    assert_int_equal(array.count, 17);
    EXPECT_FORMAT(gguf_get_array(f->gguf, "absent", true, GGUF_F32, &array, info), "absent");
    EXPECT_FORMAT(gguf_get_array(f->gguf, "kinds", true, GGUF_F32, &array, info), "kinds");
    EXPECT_FORMAT(gguf_get_array(f->gguf, "u8", true, GGUF_U8, &array, info), "u8");

    assert_int_equal(
        gguf_get_array(f->gguf, "tokenizer.ggml.scores", true, GGUF_F32, &array, NULL), ERR_OK);
    assert_int_equal(array.count, 4);
    assert_true(gguf_array_f32(&array, 1) == 0.5F && isinf(gguf_array_f32(&array, 3)));
    assert_int_equal(gguf_get_array(f->gguf, "kinds", true, GGUF_I32, &array, NULL), ERR_OK);
    assert_int_equal(gguf_array_i32(&array, 2), -3);
    assert_int_equal(gguf_array_i32(&array, 3), INT32_MAX);
    assert_int_equal(gguf_get_array(f->gguf, "none", true, GGUF_U8, &array, NULL), ERR_OK);
    assert_int_equal(array.count, 0);
    assert_int_equal(
        gguf_get_array(f->gguf, "tokenizer.ggml.tokens", true, GGUF_STRING, &array, NULL), ERR_OK);
    assert_int_equal(array.count, 4);
    assert_null(array.data);
    assert_int_equal(array.strings[1].count, 0);
    assert_int_equal(array.strings[3].count, 2);
    assert_memory_equal(array.strings[3].bytes, "\xFF\xFE", 2);
}

static void test_keys(void **state)
{
    const struct fixture *f = *state;
    assert_int_equal(gguf_key_count(f->gguf), 22);
    assert_string_equal(gguf_key(f->gguf, 0), "general.architecture");
    assert_string_equal(gguf_key(f->gguf, 21), "none");
    assert_true(gguf_has(f->gguf, "none"));
    assert_false(gguf_has(f->gguf, "non"));
    assert_false(gguf_has(f->gguf, ""));
    assert_int_equal(gguf_file_bytes(f->gguf), f->count);
}

static void check_tensors(const struct gguf *gguf)
{
    unsigned char data[sizeof(matrix_data)];
    float numbers[5];
    assert_int_equal(gguf_tensor_count(gguf), 2);
    const struct gguf_tensor *matrix = gguf_find_tensor(gguf, "blk.0.matrix");
    assert_non_null(matrix);
    assert_ptr_equal(matrix, gguf_tensor_at(gguf, 0));
    assert_int_equal(matrix->type, TENSOR_Q4_1);
    assert_int_equal(matrix->dims, 2);
    assert_int_equal(matrix->shape[0], 32);
    assert_int_equal(matrix->shape[1], 3);
    assert_int_equal(matrix->shape[3], 1);
    assert_int_equal(matrix->bytes, 60);
    assert_int_equal(matrix->name.count, 12);
    assert_int_equal(gguf_read(gguf, matrix, 0, 60, data, NULL), ERR_OK);
    assert_memory_equal(data, matrix_data, 60);
    assert_int_equal(gguf_read(gguf, matrix, 59, 1, data, NULL), ERR_OK);
    assert_int_equal(data[0], matrix_data[59]);
    assert_int_equal(gguf_read(gguf, matrix, 60, 0, data, NULL), ERR_OK);
    const struct gguf_tensor *vector = gguf_find_tensor(gguf, "a.vector");
    assert_non_null(vector);
    assert_int_equal(gguf_read(gguf, vector, 0, sizeof(numbers), numbers, NULL), ERR_OK);
    assert_memory_equal(numbers, vector_data, sizeof(numbers));
    assert_null(gguf_find_tensor(gguf, "blk.0.matri"));
}

static void test_tensors(void **state)
{
    const struct fixture *f = *state;
    check_tensors(f->gguf);
}

static void test_alignments(void **state)
{
    static const uint32_t alignments[] = {8, 16, 64, 65536};
    for (size_t i = 0; i < sizeof(alignments) / sizeof(alignments[0]); i++) {
        struct gguf_writer w;
        struct gguf *gguf = NULL;
        size_t count = 0;
        gguf_writer_init(&w);
        gguf_writer_u32(&w, "general.alignment", alignments[i]);
        gguf_writer_tensor(&w, "blk.0.matrix", TENSOR_Q4_1, 2, matrix_shape, matrix_data);
        gguf_writer_tensor(&w, "a.vector", TENSOR_F32, 1, vector_shape, vector_data);
        unsigned char *bytes = gguf_writer_finish(&w, &count);
        assert_int_equal(gguf_open_memory(bytes, count, &gguf, NULL), ERR_OK);
        check_tensors(gguf);
        assert_int_equal(gguf_tensor_at(gguf, 1)->offset % alignments[i], 0);
        gguf_close(gguf);
        free(bytes);
        gguf_writer_free(&w);
    }
}

static void test_no_tensors_no_keys(void **state)
{
    struct gguf_writer w;
    struct gguf *gguf = NULL;
    size_t count = 0;
    gguf_writer_init(&w);
    unsigned char *bytes = gguf_writer_finish(&w, &count);
    assert_int_equal(count, 24);
    assert_int_equal(gguf_open_memory(bytes, count, &gguf, NULL), ERR_OK);
    assert_int_equal(gguf_key_count(gguf), 0);
    assert_int_equal(gguf_tensor_count(gguf), 0);
    assert_null(gguf_find_tensor(gguf, "a"));
    gguf_close(gguf);
    free(bytes);
}

/* ---- files ---------------------------------------------------------------------------------- */

static void test_file(void **state)
{
    const struct fixture *f = *state;
    char path[256];
    char link[300];
    struct gguf *gguf = NULL;
    gguf_writer_save(&f->writer, path, sizeof(path));
    snprintf(link, sizeof(link), "%s.link", path);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(gguf_open(link, &gguf, NULL), ERR_OK);
    assert_int_equal(gguf_file_bytes(gguf), f->count);
    check_tensors(gguf);
    gguf_close(gguf);
    unlink(link);
    unlink(path);
}

static void test_file_cut_short_after_opening(void **state)
{
    const struct fixture *f = *state;
    char path[256];
    struct gguf *gguf = NULL;
    struct err_info info = {0};
    float numbers[5];
    gguf_writer_save(&f->writer, path, sizeof(path));
    assert_int_equal(gguf_open(path, &gguf, NULL), ERR_OK);
    assert_int_equal(truncate(path, (off_t)f->count - 1), 0);
    const struct gguf_tensor *vector = gguf_find_tensor(gguf, "a.vector");
    assert_int_equal(gguf_read(gguf, vector, 0, sizeof(numbers), numbers, &info), ERR_IO);
    assert_string_equal(info.where, "a.vector");
    assert_int_equal(info.offset, (int64_t)f->count - 1);
    assert_int_equal(gguf_read(gguf, vector, 0, 4, numbers, &info), ERR_OK);
    gguf_close(gguf);
    unlink(path);
}

static void test_not_regular_files(void **state)
{
    char fifo[64] = "/tmp/gguf-fifo-XXXXXX";
    const int fd = mkstemp(fifo);
    assert_true(fd >= 0);
    close(fd);
    unlink(fifo);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    const char *const paths[] = {fifo, "/tmp", "/dev/zero", "/nonexistent/model.gguf"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct gguf *gguf = NULL;
        struct err_info info = {0};
        assert_int_equal(gguf_open(paths[i], &gguf, &info), ERR_IO);
        assert_string_equal(info.where, "file");
        assert_null(strstr(info.text, paths[i])); /* paths stay out of errors */
        assert_null(gguf);
    }
    unlink(fifo);
    struct gguf *gguf = NULL;
    assert_int_equal(gguf_open("/proc/self/status", &gguf, NULL), ERR_FORMAT); /* size 0 */
}

/* Metadata larger than the first read: the buffer grows, and positions survive that. */
static void test_big_vocabulary(void **state)
{
    enum { COUNT = 262144 };
    char path[256];
    char text[32];
    struct gguf_writer w;
    struct gguf *gguf = NULL;
    struct gguf_array array;
    const char **tokens = calloc(COUNT, sizeof(*tokens));
    assert_non_null(tokens);
    for (int i = 0; i < COUNT; i++) {
        snprintf(text, sizeof(text), "token-%d", i);
        tokens[i] = strdup(text);
    }
    gguf_writer_init(&w);
    gguf_writer_strings(&w, "tokenizer.ggml.tokens", tokens, COUNT);
    gguf_writer_strings(&w, "more.text", tokens, COUNT);
    gguf_writer_tensor(&w, "a.vector", TENSOR_F32, 1, vector_shape, vector_data);
    gguf_writer_save(&w, path, sizeof(path));
    struct timespec before;
    struct timespec after;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    assert_int_equal(gguf_open(path, &gguf, NULL), ERR_OK);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    const double ms = (double)(after.tv_sec - before.tv_sec) * 1e3 +
                      (double)(after.tv_nsec - before.tv_nsec) * 1e-6;
    print_message("2 x %d strings opened in %.1f ms\n", COUNT, ms);
    assert_true(ms < 300 * test_scale());
    assert_int_equal(gguf_get_array(gguf, "more.text", true, GGUF_STRING, &array, NULL), ERR_OK);
    assert_int_equal(array.count, COUNT);
    for (int i = 0; i < COUNT; i++) {
        if (array.strings[i].count != strlen(tokens[i]) ||
            memcmp(array.strings[i].bytes, tokens[i], array.strings[i].count) != 0) {
            fail_msg("string %d differs", i);
        }
        free((void *)(uintptr_t)tokens[i]);
    }
    gguf_close(gguf);
    unlink(path);
    free(tokens);
    gguf_writer_free(&w);
}

/* Every allocation fails once, then all later ones too. */
static void test_out_of_memory(void **state)
{
    const struct fixture *f = *state;
    const uint64_t before = mem_bytes(MEM_OTHER);
    char path[256];
    gguf_writer_save(&f->writer, path, sizeof(path));
    for (int forever = 0; forever < 2; forever++) {
        enum err err = ERR_NO_MEMORY;
        for (uint64_t nth = 1; err != ERR_OK; nth++) {
            struct gguf *gguf = NULL;
            assert_true(nth < 100);
            mem_fail_after(nth, forever);
            err = gguf_open(path, &gguf, NULL);
            mem_fail_after(0, 0);
            assert_true(err == ERR_NO_MEMORY || err == ERR_OK);
            assert_true((err == ERR_OK) == (gguf != NULL));
            gguf_close(gguf);
            assert_true(mem_bytes(MEM_OTHER) == before);
        }
    }
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_integer_errors),
        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_bools_and_strings),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_alignments),
        cmocka_unit_test(test_no_tensors_no_keys),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_file_cut_short_after_opening),
        cmocka_unit_test(test_not_regular_files),
        cmocka_unit_test(test_big_vocabulary),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
