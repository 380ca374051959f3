/*
 * Goal: lines come as they stand in a file, whatever ends them and however they arrive, and one
 * that is too long costs itself only.
 * Method: files with each kind of end; lines at the limit and one byte past it; bytes that come
 * one by one through a pipe.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <string.h>
#include <unistd.h>
#include "batch/lines.h"
#include "engine/base/attr.h"
#include "engine/base/mem.h"

/* The next line, reading as often as it takes; false at the end. */
static bool next(struct lines *lines, struct line *line)
{
    struct err_info info;
    for (;;) {
        if (lines_take(lines, line)) {
            return true;
        }
        if (lines->ended) {
            return false;
        }
        assert_int_equal(lines_read(lines, &info), ERR_OK);
    }
}

struct file {
    char path[32];
    int fd;
};

static struct file begin(void)
{
    struct file file = {.path = "/tmp/magnetd-lines-XXXXXX"};
    file.fd = mkstemp(file.path);
    assert_true(file.fd >= 0);
    return file;
}

static void put(struct file *file, const char *text, size_t bytes)
{
    assert_int_equal(write(file->fd, text, bytes), (ssize_t)bytes);
}

static void fill(struct file *file, size_t bytes)
{
    char *text = malloc(bytes);
    assert_non_null(text);
    memset(text, 'x', bytes);
    put(file, text, bytes);
    free(text);
}

static struct lines open_it(const struct file *file)
{
    struct lines lines;
    struct err_info info;
    assert_int_equal(close(file->fd), 0);
    assert_int_equal(lines_open(file->path, &lines, &info), ERR_OK);
    assert_int_equal(unlink(file->path), 0);
    return lines;
}

static void expect(struct lines *lines, size_t number, const char *text)
{
    struct line line;
    assert_true(next(lines, &line));
    assert_int_equal(line.number, number);
    assert_non_null(line.bytes);
    assert_int_equal(line.count, strlen(text));
    assert_memory_equal(line.bytes, text, line.count);
}

static void expect_end(struct lines *lines)
{
    struct line line;
    assert_false(next(lines, &line));
    assert_false(next(lines, &line)); /* and so it stays */
    lines_close(lines);
}

static void test_ends(void **state)
{
    (void)state;
    static const struct {
        const char *text, *lines[4];
    } cases[] = {
        {"", {NULL}},
        {"\n", {"", NULL}},
        {"\r\n", {"", NULL}},
        {"a", {"a", NULL}},
        {"a\r", {"a", NULL}},
        {"a\n\nb", {"a", "", "b", NULL}},
        {"a\rb\r\nc\r\r\n", {"a\rb", "c\r", NULL}},
        {"\xEF\xBB\xBF"
         "a\n\xEF\xBB\xBF\n",
            {"a", "\xEF\xBB\xBF", NULL}},
        {"\xEF\xBB\xBF\r\n\xEF\xBB", {"", "\xEF\xBB", NULL}},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct file file = begin();
        put(&file, cases[i].text, strlen(cases[i].text));
        struct lines lines = open_it(&file);
        size_t count = 0;
        for (; cases[i].lines[count] != NULL; count++) {
            expect(&lines, count + 1, cases[i].lines[count]);
        }
        expect_end(&lines);
    }
}

/* `bytes` and `tail`, between two short lines. */
static void one_long(size_t bytes, const char *tail, bool fits)
{
    struct file file = begin();
    struct line line;
    put(&file, "a\n", 2);
    fill(&file, bytes);
    put(&file, tail, strlen(tail));
    const bool last = tail[0] == '\0';
    if (!last) {
        put(&file, "b", 1);
    }
    struct lines lines = open_it(&file);
    expect(&lines, 1, "a");
    assert_true(next(&lines, &line));
    assert_int_equal(line.number, 2);
    assert_int_equal(line.bytes != NULL, fits);
    assert_int_equal(line.count, fits ? bytes : 0);
    if (!last) {
        expect(&lines, 3, "b");
    }
    expect_end(&lines);
}

static void test_limit(void **state)
{
    (void)state;
    static const char *const tails[] = {"", "\n", "\r\n"};
    for (size_t i = 0; i < ARRAY_COUNT(tails); i++) {
        one_long(LIMIT_LINE_BYTES, tails[i], true);
        one_long(LIMIT_LINE_BYTES + 1, tails[i], false);
        one_long(2 * (size_t)LIMIT_LINE_BYTES + 12345, tails[i], false);
    }
}

/* A pipe that gives a byte at a time. */
static void test_dribble(void **state)
{
    (void)state;
    static const char text[] = "ab\r\n\nc";
    int ends[2];
    struct lines lines;
    struct line line;
    struct err_info info;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(lines_open("/dev/null", &lines, &info), ERR_OK);
    assert_int_equal(dup2(ends[0], lines.fd), lines.fd);
    size_t count = 0;
    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        assert_false(lines_take(&lines, &line));
        assert_int_equal(write(ends[1], &text[i], 1), 1);
        assert_int_equal(lines_read(&lines, &info), ERR_OK);
        if (text[i] == '\n') {
            assert_true(lines_take(&lines, &line));
            assert_int_equal(line.number, ++count);
            assert_int_equal(line.count, count == 1 ? 2 : 0);
        }
    }
    assert_int_equal(close(ends[1]), 0);
    expect(&lines, 3, "c");
    expect_end(&lines);
    assert_int_equal(close(ends[0]), 0);
}

static void test_refusals(void **state)
{
    (void)state;
    struct lines lines;
    struct err_info info;
    assert_int_equal(lines_open("/nonexistent", &lines, &info), ERR_IO);
    assert_string_equal(info.where, "input");
    assert_int_equal(lines_open("/", &lines, &info), ERR_OK);
    assert_int_equal(lines_read(&lines, &info), ERR_IO);
    lines_close(&lines);
    mem_fail_after(1, 0);
    assert_int_equal(lines_open("/dev/null", &lines, &info), ERR_NO_MEMORY);
    mem_fail_after(0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_dribble),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
