/*
 * The client's parser. Goal: good replies give the same result in whatever pieces they come, and
 * every framing that two parsers could read differently is refused. Method: tables; each good reply
 * is fed whole, byte by byte and cut at every place; each bad one whole and byte by byte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "engine/base/attr.h"
#include "tests/http_client/reply_parser.h"

#define OK11 "HTTP/1.1 200 OK\r\n"
#define CHUNKED OK11 "Transfer-Encoding: chunked\r\n\r\n"

static const struct good {
    const char *bytes, *body;
    size_t rest;   /* bytes behind the reply */
    bool at_close; /* delimited by the end of the connection */
} goods[] = {
    {OK11 "Content-Length: 5\r\n\r\nhello", "hello", 0, false},
    {OK11 "content-length: 0\r\n\r\n", "", 0, false},
    {OK11 "Content-Length: 2\r\n\r\nhiHTTP/1.1 200", "hi", 12, false},
    {OK11 "Content-Length: 3\r\n\r\n a\n", " a\n", 0, false},
    {CHUNKED "5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", "hello!", 0, false},
    {CHUNKED "5;a=b\r\nhello\r\n0\r\nX-T: v\r\n\r\n", "hello", 0, false},
    {CHUNKED "0\r\n\r\nmore", "", 4, false},
    {"HTTP/1.0 200 OK\r\n\r\nto the end", "to the end", 0, true},
    {"HTTP/1.1 204 No Content\r\n\r\n", "", 0, false},
};

static const char *const bads[] = {
    /* The one for which strict mode has to be compiled in. */
    CHUNKED "5\r\nhelloXX0\r\n\r\n",
    CHUNKED "5\r\nhello0\r\n\r\n",
    CHUNKED "-5\r\nhello\r\n0\r\n\r\n",
    CHUNKED "0x5\r\nhello\r\n0\r\n\r\n",
    CHUNKED "\r\nhello\r\n0\r\n\r\n",
    CHUNKED "ffffffffffffffffff\r\nhello",
    OK11 "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    OK11 "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    OK11 "Content-Length: 5x\r\n\r\nhello",
    OK11 "Content-Length: -5\r\n\r\nhello",
    OK11 "Transfer-Encoding: gzip\r\n\r\nhello",
    OK11 "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    OK11 "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    OK11 "X-A: b\r\n c\r\nContent-Length: 0\r\n\r\n",
    OK11 "Content-Length: 5\r\n\t0\r\n\r\nhello",
    "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n",
    "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    "HTTP/0.9 200 OK\r\nContent-Length: 0\r\n\r\n",
    "ICY 200 OK\r\n\r\n",
    "GET / HTTP/1.1\r\n\r\n",
};

/* Feeds in pieces of `first` bytes, then `step` bytes each, until done. */
static enum err feed(
    struct reply_parser *parser, const char *bytes, size_t first, size_t step, size_t *out_used)
{
    size_t count = strlen(bytes), at = 0, piece = first;
    while (at < count && !parser->done) {
        size_t used = 0;
        enum err err = reply_parser_feed(parser, bytes + at, MIN(piece, count - at), &used);
        if (err != ERR_OK) {
            return err;
        }
        at += used;
        piece = step;
    }
    *out_used = at;
    return ERR_OK;
}

static void check_good(const struct good *good, size_t first, size_t step)
{
    struct reply_parser parser;
    size_t used = 0;
    reply_parser_init(&parser, false);
    assert_int_equal(feed(&parser, good->bytes, first, step, &used), ERR_OK);
    assert_int_equal(parser.done, !good->at_close);
    assert_int_equal(reply_parser_end(&parser), ERR_OK);
    assert_int_equal(strlen(good->bytes) - used, good->rest);
    assert_int_equal(parser.body.count, strlen(good->body));
    assert_memory_equal(
        good->body, parser.body.count > 0 ? parser.body.bytes : "", parser.body.count);
    reply_parser_free(&parser);
}

static void test_good_in_any_pieces(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(goods); i++) {
        size_t count = strlen(goods[i].bytes);
        check_good(&goods[i], 1, 1);
        for (size_t cut = 1; cut <= count; cut++) {
            check_good(&goods[i], cut, count);
        }
    }
}

static void test_bad_in_any_pieces(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(bads); i++) {
        for (int whole = 0; whole < 2; whole++) {
            struct reply_parser parser;
            size_t used, step = whole ? strlen(bads[i]) : 1;
            reply_parser_init(&parser, false);
            if (feed(&parser, bads[i], step, step, &used) != ERR_FORMAT) {
                fail_msg("accepted bad reply %zu", i);
            }
            reply_parser_free(&parser);
        }
    }
}

static void test_cut_short(void **state)
{
    (void)state;
    static const char *const cut[] = {"", "HTTP/1.1 2", OK11 "Content-Le",
        OK11 "Content-Length: 5\r\n\r\nhell", CHUNKED, CHUNKED "5\r\nhello", CHUNKED "0\r\n"};
    for (size_t i = 0; i < ARRAY_COUNT(cut); i++) {
        struct reply_parser parser;
        size_t used;
        reply_parser_init(&parser, false);
        assert_int_equal(feed(&parser, cut[i], 1, 1, &used), ERR_OK);
        assert_int_equal(reply_parser_end(&parser), ERR_FORMAT);
        reply_parser_free(&parser);
    }
}

static void test_head_and_fields(void **state)
{
    (void)state;
    struct reply_parser parser;
    size_t used;
    const char *bytes = "HTTP/1.1 404 No\r\nContent-Length: 9\r\nX-Request-ID: a b\r\n"
                        "Connection: close\r\n\r\n";
    reply_parser_init(&parser, true);
    assert_int_equal(feed(&parser, bytes, 1, 1, &used), ERR_OK);
    assert_true(parser.done);
    assert_int_equal(parser.status, 404);
    assert_false(parser.keep_alive);
    assert_memory_equal(reply_parser_field(&parser, "x-request-id"), "a b\n", 4);
    assert_memory_equal(reply_parser_field(&parser, "content-length"), "9\n", 2);
    assert_null(reply_parser_field(&parser, "x-request"));
    reply_parser_free(&parser);
}

/* `line` again and again behind `start`, then `end`. */
static enum err flood(const char *start, const char *line, int count, const char *end)
{
    struct reply_parser parser;
    size_t used;
    reply_parser_init(&parser, false);
    enum err err = feed(&parser, start, strlen(start), 1, &used);
    for (int i = 0; i < count && err == ERR_OK; i++) {
        err = feed(&parser, line, strlen(line), 1, &used);
    }
    if (err == ERR_OK) {
        err = feed(&parser, end, strlen(end), 1, &used);
    }
    reply_parser_free(&parser);
    return err;
}

static void test_caps(void **state)
{
    (void)state;
    assert_int_equal(flood(OK11, "X: y\r\n", REPLY_FIELDS, "\r\n"), ERR_OK);
    assert_int_equal(flood(OK11, "X: y\r\n", REPLY_FIELDS + 1, "\r\n"), ERR_FORMAT);
    assert_int_equal(flood(OK11 "X: ", "0123456789abcdef", REPLY_HEAD_BYTES / 16, ""), ERR_FORMAT);
    assert_int_equal(
        flood(CHUNKED "1;x=", "0123456789abcdef", REPLY_BETWEEN_CHUNKS / 16 - 2, ""), ERR_OK);
    assert_int_equal(
        flood(CHUNKED "1;x=", "0123456789abcdef", REPLY_BETWEEN_CHUNKS / 16 + 4, ""), ERR_FORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_in_any_pieces),
        cmocka_unit_test(test_bad_in_any_pieces),
        cmocka_unit_test(test_cut_short),
        cmocka_unit_test(test_head_and_fields),
        cmocka_unit_test(test_caps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
