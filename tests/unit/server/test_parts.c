/*
 * The small parts of the server that are functions of their arguments: outcomes, replies, routes,
 * histogram buckets, the stall rule. Goal: each decision at its edge.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "engine/base/attr.h"
#include "server/health.h"
#include "server/histogram.h"
#include "server/request.h"
#include "server/router.h"

static void test_outcomes(void **state)
{
    (void)state;
    static const struct {
        int status;
        bool answered, gone, by_us;
        enum outcome outcome;
    } cases[] = {
        {200, true, false, false, OUTCOME_COMPLETED},
        {200, false, false, false, OUTCOME_CANCELLED},
        {0, false, true, false, OUTCOME_CANCELLED},
        {200, true, false, true, OUTCOME_FAILED},
        {400, true, false, false, OUTCOME_REJECTED},
        {422, true, false, false, OUTCOME_REJECTED},
        {424, true, false, false, OUTCOME_FAILED},
        {429, true, false, false, OUTCOME_REJECTED},
        {500, true, false, false, OUTCOME_FAILED},
        {501, true, false, false, OUTCOME_REJECTED},
        {503, true, false, false, OUTCOME_REJECTED},
        {504, true, false, false, OUTCOME_FAILED},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct request request = {.answered = cases[i].answered,
            .gone = cases[i].gone,
            .failed_by_us = cases[i].by_us,
            .reply.status = cases[i].status};
        assert_int_equal(request_outcome(&request), cases[i].outcome);
    }
}

static void test_reply_bytes(void **state)
{
    (void)state;
    struct request request;
    struct buf out;
    request_init(&request, 7);
    buf_init(&out, MEM_OTHER, 4096);
    strcpy(request.id, "id-1");
    reply_error(&request, 408, "too slow", 3);
    reply_write(&request, &out);
    const char *end = strstr(out.bytes, "\r\n\r\n");
    assert_non_null(end);
    assert_non_null(strstr(out.bytes, "HTTP/1.1 408 Request Timeout\r\n"));
    assert_non_null(strstr(out.bytes, "\r\nX-Request-Id: id-1\r\n"));
    assert_non_null(strstr(out.bytes, "\r\nRetry-After: 3\r\n"));
    assert_non_null(strstr(out.bytes, "\r\nConnection: close\r\n"));
    assert_int_equal(strlen(end + 4), request.reply.body.count);
    request.method = METHOD_HEAD;
    buf_clear(&out);
    reply_write(&request, &out);
    assert_string_equal(strstr(out.bytes, "\r\n\r\n"), "\r\n\r\n");
    buf_free(&out);
    request_end(&request);
    assert_int_equal(request.index, 7);
    assert_int_equal(request.generation, 1);
}

static void test_reply_headers_are_bounded(void **state)
{
    (void)state;
    struct request request;
    char value[LIMIT_REPLY_HEADERS_BYTES];
    request_init(&request, 0);
    reply_begin(&request, 200, "application/json");
    memset(value, 'v', sizeof(value));
    value[sizeof(value) - 3] = '\0'; /* with "AB" and two NULs one byte too many */
    reply_header(&request, "AB", value);
    assert_int_equal(request.reply.headers.count, 0);
    reply_header(&request, "AB", value + 1);
    assert_int_equal(request.reply.headers.count, LIMIT_REPLY_HEADERS_BYTES);
    request_end(&request);
}

static void test_routes(void **state)
{
    (void)state;
    const struct endpoint_route *route = NULL;
    static const char *const elsewhere[] = {"/api/chat", "/api/generate", "/api/embed",
        "/api/embeddings", "/api/tags", "/api/show", "/v1/messages", "/v1/messages/count_tokens",
        "/v1/complete", "/responses", "/chat/completions", "/completions", "/embeddings",
        "/models"};
    assert_int_equal(router_find("/embed", METHOD_POST, &route), 200);
    assert_string_equal(router_name(route), "/embed");
    assert_string_equal(router_allow(route), "POST");
    assert_false(router_is_probe(route));
    assert_int_equal(router_find("/embed", METHOD_HEAD, &route), 405);
    assert_int_equal(router_find("/metrics", METHOD_HEAD, &route), 200);
    assert_true(router_is_probe(route));
    assert_int_equal(router_find("/info", METHOD_OTHER, &route), 405);
    assert_string_equal(router_allow(route), "GET, HEAD");
    route = NULL;
    assert_int_equal(router_find("/v1/models", METHOD_GET, &route), 200);
    assert_null(router_id(route, "/v1/models"));
    assert_false(router_is_probe(route));
    assert_int_equal(router_find("/v1/models/a/b", METHOD_GET, &route), 200);
    assert_string_equal(router_name(route), "/v1/models/{id}");
    assert_string_equal(router_id(route, "/v1/models/a/b"), "a/b");
    assert_int_equal(router_find("/v1/models/a", METHOD_POST, &route), 405);
    route = NULL;
    assert_int_equal(router_find("/v1/models/", METHOD_GET, &route), 404);
    for (size_t i = 0; i < ARRAY_COUNT(elsewhere); i++) { /* a hint names a route that is there */
        const char *hint = route_hint(elsewhere[i]);
        assert_non_null(hint);
        assert_int_not_equal(router_find(hint, METHOD_POST, &route), 404);
        assert_int_equal(router_find(elsewhere[i], METHOD_POST, &route), 404);
    }
    assert_null(route_hint("/api"));
    route = NULL;
    assert_int_equal(router_find("/embed ", METHOD_POST, &route), 404);
    assert_null(route);
    assert_string_equal(router_name(NULL), "none");
    assert_int_equal(router_index(NULL), endpoint_route_count);
    for (int32_t i = 0; i < endpoint_route_count; i++) {
        enum method method =
            strcmp(endpoint_routes[i].method, "POST") == 0 ? METHOD_POST : METHOD_GET;
        assert_int_equal(router_find(endpoint_routes[i].path, method, &route), 200);
        assert_int_equal(router_index(route), i);
    }
}

static void test_histogram(void **state)
{
    (void)state;
    struct histogram histogram = {0};
    int64_t bound = 500;
    for (int k = 0; k < HISTOGRAM_BUCKETS; k++) {
        histogram_add(&histogram, bound);
        assert_int_equal(histogram.buckets[k], k == 0 ? 1 : 2);
        histogram_add(&histogram, bound + 1);
        bound *= 2;
    }
    assert_int_equal(histogram.count, 2 * HISTOGRAM_BUCKETS);
    histogram_add(&histogram, -5); /* a clock that stood still */
    assert_int_equal(histogram.buckets[0], 2);
    assert_true(histogram.sum_s > 0);
}

static void test_stall(void **state)
{
    (void)state;
    struct engine_stats stats = {.work_waiting = true, .last_step_us = 1000};
    struct health health = {.stall_us = 500};
    assert_false(health_stalled(&health, &stats, 1500));
    assert_true(health_stalled(&health, &stats, 1501));
    stats.work_waiting = false;
    assert_false(health_stalled(&health, &stats, 1501));
}

static void test_life(void **state)
{
    (void)state;
    struct health health = {HEALTH_LOADING};
    health_loaded(&health, true);
    assert_int_equal(health_state(&health), HEALTH_READY);
    health_draining(&health);
    health_loaded(&health, true); /* a stop during the first pass stays a stop */
    assert_int_equal(health_state(&health), HEALTH_DRAINING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outcomes),
        cmocka_unit_test(test_reply_bytes),
        cmocka_unit_test(test_reply_headers_are_bounded),
        cmocka_unit_test(test_routes),
        cmocka_unit_test(test_histogram),
        cmocka_unit_test(test_stall),
        cmocka_unit_test(test_life),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
