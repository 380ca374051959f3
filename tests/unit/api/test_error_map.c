/*
 * Goal: every error has a status and a body of its family's shape, and says where.
 * Method: the table of the wire format line by line, and all pairs of error and family for shape.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "api/error_map.h"
#include "api/sse.h"

static const enum family FAMILIES[] = {FAMILY_TEI, FAMILY_OPENAI, FAMILY_LLAMA};

static void check_body(const struct err_info *info, enum family family, const char *expected)
{
    struct buf buf;
    buf_init(&buf, MEM_REQUESTS, 4096);
    error_body(info, family, error_status(info->code, family), &buf);
    assert_false(buf.failed);
    assert_string_equal(buf.bytes, expected);
    buf_free(&buf);
}

static void test_status_table(void **state)
{
    (void)state;
    static const struct {
        enum err err;
        int status[3];
    } cases[] = {
        {ERR_JSON, {400, 400, 400}},
        {ERR_INVALID, {400, 400, 400}},
        {ERR_UNSUPPORTED_FIELD, {400, 400, 400}},
        {ERR_EMPTY, {400, 400, 400}},
        {ERR_LIMIT, {422, 400, 400}},
        {ERR_CONTEXT, {422, 400, 400}},
        {ERR_TOKENIZER, {422, 400, 400}},
        {ERR_NOT_FOUND, {404, 404, 404}},
        {ERR_NOT_CAPABLE, {424, 501, 501}},
        {ERR_NON_FINITE, {424, 500, 500}},
        {ERR_UNSATISFIABLE, {422, 400, 400}},
        {ERR_BUSY, {429, 429, 429}},
        {ERR_NO_MEMORY, {503, 503, 503}},
        {ERR_SHUTDOWN, {503, 503, 503}},
        {ERR_DEADLINE, {504, 504, 504}},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        for (size_t f = 0; f < ARRAY_COUNT(FAMILIES); f++) {
            assert_int_equal(error_status(cases[i].err, FAMILIES[f]), cases[i].status[f]);
        }
    }
    for (int err = 0; err < ERR_COUNT; err++) {
        for (size_t f = 0; f < ARRAY_COUNT(FAMILIES); f++) {
            assert_in_range(error_status((enum err)err, FAMILIES[f]), 400, 599);
        }
    }
}

static void test_bodies(void **state)
{
    (void)state;
    struct err_info info;
    (void)err_set(&info, ERR_LIMIT, "/dimensions", "at most %d", 576);
    strcpy(info.word, "dimensions_too_large");
    check_body(&info, FAMILY_TEI,
        "{\"error\":\"at most 576\",\"error_type\":\"validation\",\"code\":"
        "\"dimensions_too_large\",\"param\":\"/dimensions\"}");
    (void)err_set(&info, ERR_CONTEXT, "/messages/0/content", "too long");
    info.have = 5000;
    info.limit = 4096;
    check_body(&info, FAMILY_OPENAI,
        "{\"error\":{\"message\":\"too long\",\"type\":\"invalid_request_error\",\"code\":"
        "\"context_length_exceeded\",\"param\":\"messages[0].content\"}}");
    check_body(&info, FAMILY_LLAMA,
        "{\"error\":{\"code\":400,\"message\":\"too long\",\"type\":"
        "\"exceed_context_size_error\",\"param\":\"/messages/0/content\","
        "\"n_prompt_tokens\":5000,\"n_ctx\":4096}}");
    (void)err_set(&info, ERR_INVALID, "/a~1b/3/~0c", "no");
    check_body(&info, FAMILY_OPENAI,
        "{\"error\":{\"message\":\"no\",\"type\":\"invalid_request_error\",\"code\":\"invalid\","
        "\"param\":\"a/b[3].~c\"}}");
    (void)err_set(&info, ERR_JSON, NULL, "bad");
    info.offset = 7;
    info.line = 2;
    info.column = 3;
    check_body(&info, FAMILY_TEI,
        "{\"error\":\"bad\",\"error_type\":\"validation\",\"code\":\"json_invalid\",\"param\":null,"
        "\"line\":2,\"column\":3,\"offset\":7}");
}

static void test_http_bodies(void **state)
{
    (void)state;
    static const struct {
        int status;
        enum family family;
        const char *expected;
    } cases[] = {
        {404, FAMILY_TEI, "{\"error\":\"t\",\"error_type\":\"http\",\"code\":null,\"param\":null}"},
        {415, FAMILY_OPENAI,
            "{\"error\":{\"message\":\"t\",\"type\":\"invalid_request_error\",\"code\":null,"
            "\"param\":null}}"},
        {401, FAMILY_OPENAI,
            "{\"error\":{\"message\":\"t\",\"type\":\"invalid_request_error\",\"code\":"
            "\"invalid_api_key\",\"param\":null}}"},
        {404, FAMILY_LLAMA,
            "{\"error\":{\"code\":404,\"message\":\"t\",\"type\":\"not_found_error\","
            "\"param\":null}}"},
        {503, FAMILY_LLAMA,
            "{\"error\":{\"code\":503,\"message\":\"t\",\"type\":\"unavailable_error\","
            "\"param\":null}}"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct buf buf;
        buf_init(&buf, MEM_REQUESTS, 4096);
        error_body_http(cases[i].status, "t", NULL, cases[i].family, &buf);
        assert_string_equal(buf.bytes, cases[i].expected);
        buf_free(&buf);
    }
}

static void test_events(void **state)
{
    (void)state;
    struct buf buf;
    struct json_out out;
    struct err_info info;
    buf_init(&buf, MEM_REQUESTS, 4096);
    sse_begin(&out, &buf);
    json_out_string(&out, "two\nlines");
    sse_end(&out);
    sse_ping(&buf);
    (void)err_set(&info, ERR_NON_FINITE, "/inputs/1", "x");
    sse_error(&info, FAMILY_TEI, &buf);
    sse_done(&buf);
    assert_string_equal(buf.bytes,
        "data: \"two\\nlines\"\n\n: ping\n\n"
        "data: {\"error\":\"x\",\"error_type\":\"backend\",\"code\":\"non_finite\",\"param\":"
        "\"/inputs/1\"}\n\ndata: [DONE]\n\n");
    buf_free(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status_table),
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_http_bodies),
        cmocka_unit_test(test_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
