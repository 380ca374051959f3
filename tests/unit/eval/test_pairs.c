/*
 * Goal: a file of scored pairs is read as it is written, and whatever is wrong with one is an error
 * that names the line.
 * Method: small files in memory, good and bad; each limit met and passed by one; each allocation
 * made to fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "engine/base/attr.h"
#include "eval/pairs.h"

#define HEADER "subset\tscore\tsentence1\tsentence2\n"

static struct buf file_of(const char *bytes, size_t count)
{
    struct buf file;
    buf_init(&file, MEM_OTHER, LIMIT_PAIRS_BYTES);
    buf_append(&file, bytes, count);
    return file;
}

static enum err parse(const char *text, size_t count, struct pairs *pairs, struct err_info *info)
{
    struct buf file = file_of(text, count);
    assert_false(file.failed);
    return pairs_parse(&file, pairs, info);
}

static bool is(struct pairs_text text, const char *expected)
{
    return text.count == strlen(expected) && memcmp(text.bytes, expected, text.count) == 0;
}

/* No newline at the end, a carriage return, quotes and spaces that stay, a subset twice. */
static void test_good(void **state)
{
    (void)state;
    static const char text[] = HEADER "b\t4.25\t\"A fox\" \tZ\xc3\xbcrich\n"
                                      "a\t-1e1\tx\ty\r\n"
                                      "b\t0\tp\tq";
    struct pairs pairs;
    struct err_info info = {0};
    assert_int_equal(parse(text, sizeof(text) - 1, &pairs, &info), ERR_OK);
    assert_int_equal(pairs.count, 3);
    assert_int_equal(pairs.subset_count, 2);
    assert_true(is(pairs.subsets[0].name, "b") && is(pairs.subsets[1].name, "a"));
    assert_int_equal(pairs.subsets[0].count, 2);
    assert_int_equal(pairs.subsets[1].count, 1);
    assert_true(is(pairs.items[0].texts[0], "\"A fox\" "));
    assert_true(is(pairs.items[0].texts[1], "Z\xc3\xbcrich"));
    assert_true(is(pairs.items[1].texts[1], "y"));
    assert_true(is(pairs.items[2].texts[1], "q"));
    assert_true(pairs.items[0].score == 4.25 && pairs.items[1].score == -10);
    assert_int_equal(pairs.items[2].subset, 0);
    pairs_close(&pairs);
    assert_int_equal(mem_bytes(MEM_OTHER), 0);
}

static void test_bad(void **state)
{
    (void)state;
    static const struct {
        const char *text, *where, *what;
        enum err err;
    } rows[] = {
        {"", "data", "empty", ERR_EMPTY},
        {HEADER, "data", "no pairs", ERR_EMPTY},
        {"a\t1\tx\ty\n", "data, line 1", "columns", ERR_INVALID},
        {"subset\tscore\tsentence1\n", "data, line 1", "columns", ERR_INVALID},
        {"\xef\xbb\xbf" HEADER "a\t1\tx\ty\n", "data, line 1", "columns", ERR_INVALID},
        {HEADER "a\t1\tx\ty\na\t1\tx\n", "data, line 3", "3 columns", ERR_INVALID},
        {HEADER "a\t1\tx\ty\tz\n", "data, line 2", "5 columns", ERR_INVALID},
        {HEADER "a\t1\tx\ty\n\n", "data, line 3", "1 columns", ERR_INVALID},
        {HEADER "a\t1\tx\t\xc3\n", "data, line 2", "UTF-8", ERR_INVALID},
        {HEADER "a\tnan\tx\ty\n", "data, line 2", "score", ERR_INVALID},
        {HEADER "a\t+nan\tx\ty\n", "data, line 2", "score", ERR_INVALID},
        {HEADER "a\t-inf\tx\ty\n", "data, line 2", "score", ERR_INVALID},
        {HEADER "a\t1e999\tx\ty\n", "data, line 2", "score", ERR_INVALID},
        {HEADER "a\t\tx\ty\n", "data, line 2", "score", ERR_INVALID},
        {HEADER "a\t 1\tx\ty\n", "data, line 2", "score", ERR_INVALID},
        {HEADER "a\t1 \tx\ty\n", "data, line 2", "score", ERR_INVALID},
        {HEADER "a\t1,5\tx\ty\n", "data, line 2", "score", ERR_INVALID},
        {HEADER "a\t00000000000000000000000000000001\tx\ty\n", "data, line 2", "score",
            ERR_INVALID},
        {HEADER "\t1\tx\ty\n", "data, line 2", "empty", ERR_EMPTY},
        {HEADER "a\t1\t\ty\n", "data, line 2", "empty", ERR_EMPTY},
        {HEADER "a\t1\tx\t\n", "data, line 2", "empty", ERR_EMPTY},
        {HEADER "a\t1\tx\t\r\n", "data, line 2", "empty", ERR_EMPTY},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct pairs pairs;
        struct err_info info = {0};
        enum err err = parse(rows[i].text, strlen(rows[i].text), &pairs, &info);
        if (err != rows[i].err || strcmp(info.where, rows[i].where) != 0 ||
            strstr(info.text, rows[i].what) == NULL) {
            fail_msg("row %zu: %s at %s: %s", i, err_word(err), info.where, info.text);
        }
        assert_int_equal(mem_bytes(MEM_OTHER), 0);
    }
}

/* Requests may not have one, so the line has to be named here. */
static void test_nul(void **state)
{
    (void)state;
    static const char text[] = HEADER "a\t1\tx\ty\na\t1\tx\0y\tz\n";
    struct pairs pairs;
    struct err_info info = {0};
    assert_int_equal(parse(text, sizeof(text) - 1, &pairs, &info), ERR_INVALID);
    assert_string_equal(info.where, "data, line 3");
    assert_non_null(strstr(info.text, "NUL"));
}

static enum err parse_many(int count, bool subsets, struct err_info *info)
{
    struct pairs pairs;
    struct buf file = file_of(HEADER, strlen(HEADER));
    for (int i = 0; i < count; i++) {
        buf_printf(&file, "%d\t1\tx\ty\n", subsets ? i : 0);
    }
    enum err err = pairs_parse(&file, &pairs, info);
    if (err == ERR_OK) {
        assert_int_equal(pairs.count, count);
        pairs_close(&pairs);
    }
    return err;
}

static void test_limits(void **state)
{
    (void)state;
    struct err_info info = {0};
    assert_int_equal(parse_many(LIMIT_SUBSETS, true, &info), ERR_OK);
    assert_int_equal(parse_many(LIMIT_SUBSETS + 1, true, &info), ERR_LIMIT);
    assert_string_equal(info.where, "data, line 258");
    assert_int_equal(parse_many(LIMIT_PAIRS, false, &info), ERR_OK);
    assert_int_equal(parse_many(LIMIT_PAIRS + 1, false, &info), ERR_LIMIT);
    assert_string_equal(info.where, "data, line 1048578");
    assert_int_equal(mem_bytes(MEM_OTHER), 0);
}

static enum err read_zeros(const char *path, off_t bytes, struct err_info *info)
{
    struct pairs pairs;
    assert_int_equal(truncate(path, bytes), 0);
    return pairs_read(path, &pairs, info);
}

static void test_files(void **state)
{
    (void)state;
    char path[] = "/tmp/magnetd-pairs-XXXXXX";
    struct pairs pairs;
    struct err_info info = {0};
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(read_zeros(path, 0, &info), ERR_EMPTY);
    assert_int_equal(read_zeros(path, LIMIT_PAIRS_BYTES, &info), ERR_INVALID);
    assert_string_equal(info.where, "data, line 1");
    assert_int_equal(read_zeros(path, LIMIT_PAIRS_BYTES + 1, &info), ERR_LIMIT);
    assert_int_equal(pairs_read("/dev/zero", &pairs, &info), ERR_LIMIT);
    assert_int_equal(pairs_read("/", &pairs, &info), ERR_IO);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(pairs_read(path, &pairs, &info), ERR_IO);
    assert_string_equal(info.where, "data");
    assert_int_equal(close(file), 0);
    assert_int_equal(mem_bytes(MEM_OTHER), 0);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct pairs pairs;
    struct err_info info = {0};
    struct buf file = file_of(HEADER "a\t1\tx\ty\n", strlen(HEADER) + 8);
    mem_fail_after(1, 0);
    assert_int_equal(pairs_parse(&file, &pairs, &info), ERR_NO_MEMORY);
    mem_fail_after(1, 0);
    assert_int_equal(pairs_read("/dev/zero", &pairs, &info), ERR_NO_MEMORY);
    mem_fail_after(0, 0);
    assert_int_equal(mem_bytes(MEM_OTHER), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_nul),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
