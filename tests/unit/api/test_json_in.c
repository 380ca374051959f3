/*
 * Goal: bytes that are not acceptable JSON are refused with the place, all others are read.
 * Method: a table of our own rules with exact offsets, limits at and one past the bound, then the
 * 318 files of JSONTestSuite (skipped where the data folder is absent): each file's text is also
 * put in as a member, since the suite has whole texts that are no object.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/json_in.h"

static enum err parse(const char *bytes, size_t count, struct err_info *info)
{
    struct arena arena;
    const struct json_in *root = NULL;
    char *copy = malloc(count > 0 ? count : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, count);
    arena_init(&arena, MEM_REQUESTS, 4096, JSON_IN_TREE_BYTES);
    enum err err = json_in_parse(&arena, copy, count, &root, info);
    if (err == ERR_OK) {
        assert_int_equal(json_in_kind(root), JSON_IN_OBJECT);
    }
    arena_drop(&arena);
    free(copy);
    return err;
}

static void test_refused_with_a_place(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t count;
        int64_t offset;
        int32_t line, column;
    } cases[] = {
        {"", 0, 0, 1, 1},
        {"\xef\xbb\xbf{}", 5, 0, 1, 1},
        {"[1]", 3, 0, 1, 1},
        {"{} x", 4, 4, 1, 5},
        {"{\n\"a\": tru}", 11, 10, 2, 9},
        {"{\"a\":1,\"a\":2}", 13, 10, 1, 11},
        {"{\"\xc3\xa9\":}", 7, 7, 1, 7},
        {"{\"a\":\"\\u0000\"}", 14, 13, 1, 14},
        {"{\"a\":\"\\ud800\"}", 14, 13, 1, 14},
        {"{\"a\":\"\xff\"}", 9, 6, 1, 7},
        {"{\"a\":99999999999999999999}", 26, 25, 1, 26},
        {"{\"a\":1e999}", 11, 10, 1, 11},
        {"{\"a\":\"\x01\"}", 9, 6, 1, 7},
        {"{\"a\":1}\0", 8, 7, 1, 8},
        {"{\"a\":NaN}", 9, 8, 1, 9},
        {"{\"a\":01}", 8, 6, 1, 7},
        {"{\"a\":1\0}", 8, 6, 1, 7},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct err_info info = {0};
        assert_int_equal(parse(cases[i].bytes, cases[i].count, &info), ERR_JSON);
        if (info.offset != cases[i].offset || info.line != cases[i].line ||
            info.column != cases[i].column) {
            fail_msg("case %zu (%s): offset %lld, line %d, column %d: %s", i, cases[i].bytes,
                (long long)info.offset, info.line, info.column, info.text);
        }
    }
}

static void test_accepted(void **state)
{
    (void)state;
    static const char *const cases[] = {"{}", " \t\r\n{ } \n", "{\"a\":\"\\ud83e\\udd8a\"}",
        "{\"a\":-9223372036854775808,\"b\":9223372036854775807}", "{\"a\":1.7976931348623157e308}",
        "{\"a\":1e-400}", "{\"a\":\"[[[[{{{{,,,,\\\"\\\\\"}", "{\"\":{\"\":null}}"};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct err_info info = {0};
        assert_int_equal(parse(cases[i], strlen(cases[i]), &info), ERR_OK);
    }
}

/* {"a": followed by `repeat` copies of `piece`, `middle`, copies of `end`, and a brace. */
static enum err parse_repeated(
    const char *piece, int32_t repeat, const char *middle, const char *end, int32_t ends)
{
    size_t capacity =
        64 + strlen(middle) + (size_t)repeat * strlen(piece) + (size_t)ends * strlen(end);
    char *text = calloc(1, capacity);
    assert_non_null(text);
    char *at = stpcpy(text, "{\"a\":");
    for (int32_t i = 0; i < repeat; i++) {
        at = stpcpy(at, piece);
    }
    at = stpcpy(at, middle);
    for (int32_t i = 0; i < ends; i++) {
        at = stpcpy(at, end);
    }
    at = stpcpy(at, "}");
    struct err_info info = {0};
    enum err err = parse(text, (size_t)(at - text), &info);
    if (err != ERR_OK) {
        assert_true(info.offset > 0);
    }
    free(text);
    return err;
}

static void test_limits(void **state)
{
    (void)state;
    assert_int_equal(parse_repeated("[", JSON_IN_DEPTH - 1, "", "]", JSON_IN_DEPTH - 1), ERR_OK);
    assert_int_equal(parse_repeated("[", JSON_IN_DEPTH, "", "]", JSON_IN_DEPTH), ERR_JSON);
    assert_int_equal(parse_repeated("[", 100000, "", "", 0), ERR_JSON);
    /* Two openings and a comma between each two numbers. */
    assert_int_equal(parse_repeated("[", 1, "0", ",0", 0), ERR_JSON);
    int32_t commas = JSON_IN_ELEMENTS - 2;
    size_t bytes = (size_t)commas * 2;
    char *numbers = malloc(bytes + 8);
    assert_non_null(numbers);
    for (int32_t extra = 0; extra <= 1; extra++) {
        char *at = stpcpy(numbers, "0");
        for (int32_t i = 0; i < commas; i++) {
            *at++ = ',';
            *at++ = '0';
        }
        at = stpcpy(at, extra ? ",0]" : "]");
        assert_int_equal(parse_repeated("[", 1, numbers, "", 0), extra == 0 ? ERR_OK : ERR_JSON);
    }
    free(numbers);
}

/* The costliest tree the bounds admit fits the arena that is there for it. */
static void test_costliest_tree(void **state)
{
    (void)state;
    size_t pairs = JSON_IN_ELEMENTS / 2 - 2;
    char *text = malloc(pairs * 8 + 8);
    assert_non_null(text);
    char *at = stpcpy(text, "[");
    for (size_t i = 0; i < pairs; i++) {
        at = stpcpy(at, i > 0 ? ",{}" : "{}");
    }
    at = stpcpy(at, "]");
    assert_int_equal(parse_repeated("", 0, text, "", 0), ERR_OK);
    free(text);
}

/* ---- JSONTestSuite ------------------------------------------------------------------------- */

/* y_ files whose text our rules refuse: duplicate keys and \u0000. */
static bool refused_by_rule(const char *name)
{
    static const char *const names[] = {"y_object_duplicated_key.json",
        "y_object_duplicated_key_and_value.json", "y_object_escaped_null_in_key.json",
        "y_string_null_escape.json"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static char *read_file(const char *folder, const char *name, size_t *out_count)
{
    char path[1024];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *bytes = malloc(1 << 20);
    assert_non_null(bytes);
    *out_count = fread(bytes, 1, 1 << 20, file);
    (void)fclose(file);
    return bytes;
}

static void check_file(const char *folder, const char *name)
{
    size_t count;
    struct err_info info = {0};
    char *bytes = read_file(folder, name, &count);
    char *member = malloc(count + 16);
    assert_non_null(member);
    memcpy(member, "{\"a\":", 5);
    memcpy(member + 5, bytes, count);
    memcpy(member + 5 + count, "}", 1);
    enum err whole = parse(bytes, count, &info);
    enum err inside = parse(member, count + 6, &info);
    bool ok = true;
    if (name[0] == 'n') {
        ok = whole == ERR_JSON && inside == ERR_JSON;
    } else if (name[0] == 'y') {
        ok = inside == (refused_by_rule(name) ? ERR_JSON : ERR_OK);
    }
    if (!ok || (whole != ERR_OK && whole != ERR_JSON)) {
        fail_msg("%s: whole %s, as a member %s (%s)", name, err_word(whole), err_word(inside),
            info.text);
    }
    free(member);
    free(bytes);
}

static void test_suite_verdicts(void **state)
{
    (void)state;
    const char *data = getenv("MAGNETD_DATA");
    const char *source = getenv("MAGNETD_SOURCE");
    char folder[512];
    if (data != NULL) {
        (void)snprintf(folder, sizeof(folder), "%s/jsontestsuite/test_parsing", data);
    } else {
        (void)snprintf(folder, sizeof(folder), "%s/../shared/data/jsontestsuite/test_parsing",
            source != NULL ? source : ".");
    }
    DIR *directory = opendir(folder);
    if (directory == NULL) {
        print_message("skipped: no %s\n", "jsontestsuite/test_parsing in MAGNETD_DATA");
        skip();
    }
    int32_t files = 0;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (strstr(entry->d_name, ".json") != NULL) {
            check_file(folder, entry->d_name);
            files++;
        }
    }
    (void)closedir(directory);
    assert_int_equal(files, 318);
}

int main(void)
{
    json_in_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_with_a_place),
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_costliest_tree),
        cmocka_unit_test(test_suite_verdicts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
