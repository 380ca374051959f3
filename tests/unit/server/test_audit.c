/*
 * The header audit without a socket. Goal: each rule at its edge. Method: tables of fields and the
 * status they must give; every byte value in a name and in a value; the caps at the limit and one
 * past it. The same rules are run through the whole server by tests/integration/test_raw.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "engine/base/attr.h"
#include "server/audit.h"
#include "server/server_limits.h"

static void add(struct head *head, const char *name, const char *value)
{
    audit_field(head, name, strlen(name), value, strlen(value));
}

/* A head from "Name: value\nName: value". */
static struct head audit(const char *method, const char *version, const char *fields)
{
    struct head head;
    static char copy[512]; /* the head points into it */
    snprintf(copy, sizeof(copy), "%s", fields);
    audit_begin(&head, method, version);
    for (char *line = strtok(copy, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char *colon = strstr(line, ": ");
        *colon = '\0';
        add(&head, line, colon + 2);
    }
    audit_end(&head);
    return head;
}

static void test_rules(void **state)
{
    (void)state;
    static const struct {
        const char *method, *version, *fields;
        int status;
    } cases[] = {
        {"GET", "HTTP/1.1", "Host: h", 0},
        {"GET", "HTTP/1.0", "A: b", 0},
        {"GET", "HTTP/1.1", "A: b", 400},
        {"GET", "HTTP/1.1", "Host: h\nHOST: h", 400},
        {"GET", "HTTP/1.0", "Host: h\nHost: h", 400},
        {"GET", "HTTP/1.2", "Host: h", 505},
        {"GET", "HTTP/2", "Host: h", 505},
        {"POST", "HTTP/1.1", "Host: h", 411},
        {"POST", "HTTP/1.0", "A: b", 411},
        {"POST", "HTTP/1.1", "Host: h\nContent-Length: 0", 0},
        {"POST", "HTTP/1.1", "Host: h\ncontent-length: 5\nContent-Length: 5", 400},
        {"POST", "HTTP/1.1", "Host: h\nContent-Length: 5 ", 400},
        {"POST", "HTTP/1.1", "Host: h\nContent-Length: 999999999999999999", 0},
        {"POST", "HTTP/1.1", "Host: h\nContent-Length: 1000000000000000000", 400},
        {"POST", "HTTP/1.1", "Host: h\nContent-Length: 5\nContent-Length0: 35", 400},
        {"POST", "HTTP/1.1", "Host: h\nContent-Length: 5\nTransfer-Encoding-: x", 400},
        {"POST", "HTTP/1.1", "Host: h\nContent-Length: 5\nX-Content-Length: 7", 0},
        {"POST", "HTTP/1.1", "Host: h\nTransfer-Encoding: chunked", 0},
        {"POST", "HTTP/1.1", "Host: h\nTransfer-Encoding: Chunked", 0},
        {"POST", "HTTP/1.1", "Host: h\nTransfer-Encoding: chunked, chunked", 501},
        {"POST", "HTTP/1.1", "Host: h\nTransfer-Encoding: chunked\nTransfer-Encoding: chunked",
            501},
        {"POST", "HTTP/1.1", "Host: h\nTransfer-Encoding: chunked\nContent-Length: 5", 400},
        {"POST", "HTTP/1.0", "Transfer-Encoding: chunked", 400},
        {"POST", "HTTP/1.1", "Host: h\nContent-Length: 5\nExpect: 100-Continue", 0},
        {"POST", "HTTP/1.1", "Host: h\nContent-Length: 5\nExpect: 100", 417},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct head head = audit(cases[i].method, cases[i].version, cases[i].fields);
        if (head.status != cases[i].status) {
            fail_msg("case %zu gave %d, wanted %d", i, head.status, cases[i].status);
        }
        assert_true((head.status != 0) == (head.text != NULL));
        assert_true((head.status != 0) == (head.reason != AUDIT_NONE));
    }
}

static void test_facts(void **state)
{
    (void)state;
    struct head head = audit("POST", "HTTP/1.1",
        "Host: h\nContent-Length: 00042\nExpect: 100-continue\nAccept: a/b\nX-Request-Id: r");
    assert_int_equal(head.status, 0);
    assert_int_equal(head.method, METHOD_POST);
    assert_int_equal(head.content_length, 42);
    assert_true(head.expect);
    assert_false(head.chunked);
    assert_int_equal(head.accept.count, 3);
    assert_memory_equal(head.request_id.bytes, "r", 1);
    assert_null(head.content_type.bytes);
    head = audit("HEAD", "HTTP/1.0", "A: b");
    assert_int_equal(head.method, METHOD_HEAD);
    assert_true(head.version_10);
    assert_int_equal(head.content_length, -1);
}

static int status_of(char name, char value)
{
    struct head head;
    char name_text[3] = {'x', name, 'x'}, value_text[3] = {'v', value, 'v'};
    audit_begin(&head, "GET", "HTTP/1.1");
    audit_field(&head, name_text, 3, value_text, 3);
    return head.status;
}

static void test_every_byte(void **state)
{
    (void)state;
    static const char others[] = "!#$%&'*+-.^_`|~";
    for (int byte = 0; byte < 256; byte++) {
        char c = (char)byte;
        bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
        bool token = letter || (byte >= '0' && byte <= '9') ||
                     memchr(others, byte, sizeof(others) - 1) != NULL;
        assert_int_equal(status_of(c, 'v'), token ? 0 : 400);
        bool control = (byte < 0x20 && byte != '\t') || byte == 0x7f;
        assert_int_equal(status_of('x', c), control ? 400 : 0);
    }
}

static void test_caps(void **state)
{
    (void)state;
    struct head head;
    audit_begin(&head, "GET", "HTTP/1.1");
    for (int i = 0; i < LIMIT_FIELDS; i++) {
        add(&head, "A", "b");
    }
    assert_int_equal(head.status, 0);
    add(&head, "A", "b");
    assert_int_equal(head.status, 431);

    static char value[LIMIT_HEAD_BYTES + 1];
    memset(value, 'v', sizeof(value));
    audit_begin(&head, "GET", "HTTP/1.1");
    audit_field(&head, "A", 1, value, LIMIT_HEAD_BYTES - 5);
    assert_int_equal(head.status, 0);
    audit_begin(&head, "GET", "HTTP/1.1");
    audit_field(&head, "A", 1, value, LIMIT_HEAD_BYTES - 4);
    assert_int_equal(head.status, 431);

    static char target[LIMIT_TARGET_BYTES + 2];
    memset(target, 'a', LIMIT_TARGET_BYTES);
    assert_int_equal(audit_target(target), 0);
    target[LIMIT_TARGET_BYTES] = 'a';
    assert_int_equal(audit_target(target), 414);
    assert_int_equal(audit_target(""), 400);
    for (int byte = 1; byte < 256; byte++) {
        char one[2] = {(char)byte, '\0'};
        assert_int_equal(audit_target(one), byte >= 0x21 && byte <= 0x7e ? 0 : 400);
    }
}

static struct field field_of(const char *text)
{
    return text != NULL ? (struct field){text, strlen(text)} : (struct field){NULL, 0};
}

static void test_media(void **state)
{
    (void)state;
    static const char *const good[] = {NULL, "*/*", "application/json", "text/event-stream",
        "text/html, APPLICATION/JSON;q=0.1", " application/* ", "text/html,\t*/*;q=0.8", ""};
    static const char *const bad[] = {
        "text/html", "application/xml", "json", ",", "a/b;c=*/*", "application/jsonx"};
    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        assert_true(audit_accepts(field_of(good[i])));
    }
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        assert_false(audit_accepts(field_of(bad[i])));
    }
    assert_true(audit_is_json(field_of(NULL)));
    assert_true(audit_is_json(field_of("application/JSON ; charset=utf-8")));
    assert_false(audit_is_json(field_of("application/jsonp")));
    assert_false(audit_is_json(field_of("")));
    assert_false(audit_is_json(field_of("text/json")));
}

static void test_request_id(void **state)
{
    (void)state;
    char id[LIMIT_REQUEST_ID_BYTES + 1];
    memset(id, 'a', sizeof(id));
    assert_true(audit_request_id_valid((struct field){id, LIMIT_REQUEST_ID_BYTES}));
    assert_false(audit_request_id_valid((struct field){id, LIMIT_REQUEST_ID_BYTES + 1}));
    assert_false(audit_request_id_valid(field_of("")));
    assert_false(audit_request_id_valid(field_of(NULL)));
    for (int byte = 0; byte < 256; byte++) {
        char c = (char)byte;
        bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
        bool valid =
            letter || (byte >= '0' && byte <= '9') || byte == '.' || byte == '_' || byte == '-';
        assert_int_equal(audit_request_id_valid((struct field){&c, 1}), valid);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_facts),
        cmocka_unit_test(test_every_byte),
        cmocka_unit_test(test_caps),
        cmocka_unit_test(test_media),
        cmocka_unit_test(test_request_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
