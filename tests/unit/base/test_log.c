/*
 * Goal: log lines are whole JSON objects, one a line, none lost before log_close returns; a writer
 * that cannot keep up costs lines, which are counted, and never a caller's time.
 * Method: stderr is turned into a pipe that the test reads. For the drops nobody reads it until
 * the callers are done.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/base/mem.h"

struct capture {
    int saved, read_end;
    pthread_t reader;
    char *text;
    size_t count;
};

static void *read_all(void *argument)
{
    struct capture *capture = argument;
    size_t capacity = 1 << 20;
    capture->text = calloc(1, capacity + 1);
    for (;;) {
        ssize_t got =
            read(capture->read_end, capture->text + capture->count, capacity - capture->count);
        if (got <= 0) {
            return NULL;
        }
        capture->count += (size_t)got;
    }
}

static void capture_start(struct capture *capture)
{
    int ends[2];
    *capture = (struct capture){0};
    assert_int_equal(pipe(ends), 0);
    capture->saved = dup(STDERR_FILENO);
    assert_true(capture->saved >= 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    close(ends[1]);
    capture->read_end = ends[0];
}

static void capture_read(struct capture *capture)
{
    assert_int_equal(pthread_create(&capture->reader, NULL, read_all, capture), 0);
}

static void capture_stop(struct capture *capture)
{
    (void)dup2(capture->saved, STDERR_FILENO); /* closes the pipe's last writer */
    close(capture->saved);
    assert_int_equal(pthread_join(capture->reader, NULL), 0);
    close(capture->read_end);
    assert_non_null(capture->text);
}

/* Parses all lines; returns how many, and the last one in *out_last (owned by the caller). */
static int parse_lines(const struct capture *capture, json_t **out_last)
{
    int lines = 0;
    json_t *last = NULL;
    for (char *at = capture->text; *at != '\0'; lines++) {
        char *end = strchr(at, '\n');
        assert_non_null(end);
        json_decref(last);
        last = json_loadb(at, (size_t)(end - at), 0, NULL);
        assert_non_null(last);
        at = end + 1;
    }
    *out_last = last;
    return lines;
}

static const char *field(const json_t *line, const char *name)
{
    return json_string_value(json_object_get(line, name));
}

static void test_lines_are_json(void **state)
{
    struct capture capture;
    json_t *last;
    capture_start(&capture);
    capture_read(&capture);
    assert_int_equal(log_open(LOG_INFO), ERR_OK);
    log_text(LOG_DEBUG, "x", "below the level");
    log_json(LOG_DEBUG, "{}", 2);
    log_json(LOG_ERROR, "{\"a\":1}", 7);
    log_text(LOG_WARN, "engine", "quote \" slash \\ line\n tab\t byte \x80 %d", 42);
    log_close();
    capture_stop(&capture);
    assert_memory_equal(capture.text, "{\"a\":1}\n", 8);
    assert_int_equal(parse_lines(&capture, &last), 2);
    assert_string_equal(field(last, "level"), "warn");
    assert_string_equal(field(last, "area"), "engine");
    assert_string_equal(field(last, "message"), "quote \" slash \\ line\n tab\t byte \xC2\x80 42");
    assert_int_equal(strlen(field(last, "time")), strlen("2025-01-01T00:00:00.000Z"));
    json_decref(last);
    free(capture.text);
    assert_int_equal(mem_bytes(MEM_OTHER), 0);
}

static void test_before_and_after_are_direct(void **state)
{
    struct capture capture;
    json_t *last;
    capture_start(&capture);
    capture_read(&capture);
    log_text(LOG_INFO, "a", "early");
    assert_int_equal(log_open(LOG_INFO), ERR_OK);
    log_close();
    log_close(); /* a second close does nothing */
    log_text(LOG_INFO, "a", "late");
    capture_stop(&capture);
    assert_int_equal(parse_lines(&capture, &last), 2);
    assert_string_equal(field(last, "message"), "late");
    json_decref(last);
    free(capture.text);
}

enum { THREADS = 4, LINES = 500 };

static void *write_lines(void *argument)
{
    for (int i = 0; i < LINES; i++) {
        log_text(LOG_INFO, "thread", "line %d", i);
    }
    return argument;
}

static void test_threads_do_not_mix_lines(void **state)
{
    struct capture capture;
    pthread_t threads[THREADS];
    json_t *last;
    uint64_t dropped = log_dropped();
    capture_start(&capture);
    capture_read(&capture);
    assert_int_equal(log_open(LOG_INFO), ERR_OK);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, write_lines, NULL), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    log_close();
    capture_stop(&capture);
    assert_int_equal(log_dropped(), dropped); /* 2,000 lines fit the ring */
    assert_int_equal(parse_lines(&capture, &last), THREADS * LINES);
    json_decref(last);
    free(capture.text);
}

static void test_a_full_ring_drops_and_counts(void **state)
{
    enum { MANY = 20000 };
    struct capture capture;
    json_t *last;
    uint64_t before = log_dropped();
    capture_start(&capture); /* nobody reads yet: the pipe fills, then the ring */
    assert_int_equal(log_open(LOG_INFO), ERR_OK);
    for (int i = 0; i < MANY; i++) {
        log_text(LOG_INFO, "flood", "line %d", i);
    }
    uint64_t dropped = log_dropped() - before;
    assert_true(dropped > 0 && dropped < MANY);
    capture_read(&capture);
    log_close();
    capture_stop(&capture);
    int lines = parse_lines(&capture, &last);
    assert_int_equal(lines, MANY - (int)dropped + 1); /* and one line that tells of it */
    assert_string_equal(field(last, "area"), "log");
    assert_int_equal(strtoll(field(last, "message"), NULL, 10), dropped);
    json_decref(last);
    free(capture.text);
}

static void test_an_oversized_line_is_dropped(void **state)
{
    static char big[9000];
    memset(big, ' ', sizeof big);
    struct capture capture;
    json_t *last;
    uint64_t before = log_dropped();
    capture_start(&capture);
    capture_read(&capture);
    assert_int_equal(log_open(LOG_INFO), ERR_OK);
    log_json(LOG_INFO, big, sizeof big);
    log_json(LOG_INFO, "{}", 2);
    log_close();
    capture_stop(&capture);
    assert_int_equal(log_dropped(), before + 1);
    assert_int_equal(parse_lines(&capture, &last), 2);
    json_decref(last);
    free(capture.text);
}

static void test_open_without_memory(void **state)
{
    mem_fail_after(1, 0);
    enum err err = log_open(LOG_INFO);
    mem_fail_after(0, 0);
    assert_int_equal(err, ERR_NO_MEMORY);
    assert_int_equal(log_open(LOG_INFO), ERR_OK);
    log_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_are_json),
        cmocka_unit_test(test_before_and_after_are_direct),
        cmocka_unit_test(test_threads_do_not_mix_lines),
        cmocka_unit_test(test_a_full_ring_drops_and_counts),
        cmocka_unit_test(test_an_oversized_line_is_dropped),
        cmocka_unit_test(test_open_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
