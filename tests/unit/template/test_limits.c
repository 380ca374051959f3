/*
 * Goal: whatever a template says, it ends soon, within its bounds, with an error.
 * Method: each limit at its value and one past it; then templates that want too much of everything,
 * on a stack as small as a thread may have.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <pthread.h>
#include "engine/base/attr.h"
#include "engine/base/buf.h"
#include "engine/engine_limits.h"
#include "tests/scale.h"
#include "tests/unit/template/rig.h"

static struct rig rig;

/* `count` times `part`, between two others. */
static char *repeat(const char *before, const char *part, int32_t count, const char *after)
{
    struct buf buf;
    buf_init(&buf, MEM_OTHER, (size_t)64 << 20);
    buf_text(&buf, before);
    for (int32_t i = 0; i < count; i++) {
        buf_text(&buf, part);
    }
    buf_text(&buf, after);
    assert_false(buf.failed);
    return buf.bytes;
}

static enum err parse_repeated(
    const char *before, const char *part, int32_t count, const char *after)
{
    char *source = repeat(before, part, count, after);
    enum err err = rig_parse(&rig, source);
    mem_free(source);
    return err;
}

static void test_source(void **state)
{
    (void)state;
    rig_open(&rig);
    assert_int_equal(parse_repeated("", "x", LIMIT_TEMPLATE_BYTES, ""), ERR_OK);
    assert_int_equal(parse_repeated("", "x", LIMIT_TEMPLATE_BYTES + 1, ""), ERR_UNSUPPORTED);
    /* A print and a constant each. */
    assert_int_equal(parse_repeated("", "{{1}}", LIMIT_TEMPLATE_NODES / 2, ""), ERR_OK);
    assert_int_equal(
        parse_repeated("", "{{1}}", LIMIT_TEMPLATE_NODES / 2, "{{1}}"), ERR_UNSUPPORTED);
    assert_non_null(strstr(rig.info.text, "line 1"));
    /* One constant, made in the time and memory of its length. */
    assert_int_equal(parse_repeated("{{", " 'a'", LIMIT_TEMPLATE_BYTES / 4 - 2, "}}"), ERR_OK);
    rig_close(&rig);
}

static void test_names(void **state)
{
    (void)state;
    struct buf buf;
    rig_open(&rig);
    for (int32_t past = 0; past < 2; past++) {
        buf_init(&buf, MEM_OTHER, 1 << 20);
        for (int32_t i = 0; i < LIMIT_TEMPLATE_NAMES + past; i++) {
            buf_printf(&buf, "{{a%d}}", i);
        }
        assert_int_equal(rig_parse(&rig, buf.bytes), past ? ERR_UNSUPPORTED : ERR_OK);
        buf_free(&buf);
    }
    rig_close(&rig);
}

static void test_nesting(void **state)
{
    (void)state;
    static const struct {
        const char *before, *part, *after;
        int32_t most; /* repetitions that are within the limit */
    } cases[] = {
        {"", "{% if 1 %}", NULL, LIMIT_TEMPLATE_NESTING - 1}, /* the whole is one body */
        {"{{ 1", "+1", " }}", LIMIT_TEMPLATE_NESTING - 1},
        {"{{ a", ".b", " }}", LIMIT_TEMPLATE_NESTING - 1},
        {"{{ a", "[0]", " }}", LIMIT_TEMPLATE_NESTING - 1},
        {"{{ a", "|trim", " }}", LIMIT_TEMPLATE_NESTING - 1},
        {"{{", " not", " 1 }}", LIMIT_TEMPLATE_NESTING - 3}, /* body, expression, operand */
        {"{{", " -", " 1 }}", LIMIT_TEMPLATE_NESTING - 3},
    };
    rig_open(&rig);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        int32_t most = cases[i].most;
        char *ends = repeat("", "{% endif %}", most, "");
        char *more = repeat("", "{% endif %}", most + 1, "");
        bool block = cases[i].after == NULL;
        enum err at =
            parse_repeated(cases[i].before, cases[i].part, most, block ? ends : cases[i].after);
        enum err past =
            parse_repeated(cases[i].before, cases[i].part, most + 1, block ? more : cases[i].after);
        mem_free(ends);
        mem_free(more);
        if (at != ERR_OK || past != ERR_UNSUPPORTED) {
            fail_msg("%s: %s, %s", cases[i].part, err_word(at), err_word(past));
        }
    }
    /* Brackets count twice: an expression and an operand. */
    assert_int_equal(parse_repeated("{{", "(", 30, "1))))))))))))))))))))))))))))))}}"), ERR_OK);
    assert_int_equal(parse_repeated("{{", "(", 5000, "1"), ERR_UNSUPPORTED);
    assert_int_equal(parse_repeated("{{", "[", 5000, "1"), ERR_UNSUPPORTED);
    assert_int_equal(parse_repeated("{{", "{1:", 5000, "1"), ERR_UNSUPPORTED);
    assert_int_equal(parse_repeated("{{", "1 if 1 else ", 5000, "1}}"), ERR_UNSUPPORTED);
    /* A long chain of elif is flat. */
    assert_int_equal(parse_repeated("{% if 0 %}", "{% elif 0 %}", 5000, "{% endif %}"), ERR_OK);
    rig_close(&rig);
}

/* The least value of a limit with which this renders; one less is ERR_LIMIT. */
static int64_t least(const char *source, size_t offset, bool wide, int64_t most)
{
    int64_t low = 1;
    while (low < most) {
        int64_t middle = low + (most - low) / 2;
        struct template_limits limits = {0};
        int32_t narrow = (int32_t)middle;
        memcpy((char *)&limits + offset, wide ? (void *)&middle : (void *)&narrow, wide ? 8 : 4);
        enum err err = rig_render(&rig, source, &limits);
        assert_true(err == ERR_OK || err == ERR_LIMIT);
        if (err == ERR_OK) {
            most = middle;
        } else {
            low = middle + 1;
        }
    }
    return most;
}

#define LEAST(source, member, wide, most)                                                          \
    least(source, offsetof(struct template_limits, member), wide, most)

static void test_rendering(void **state)
{
    (void)state;
    rig_open(&rig);
    assert_int_equal(LEAST("hello", output_bytes, true, 1000), 5);
    assert_int_equal(LEAST("{% for i in 'abc' %}{{ u }}{% endfor %}", output_bytes, true, 1000), 6);
    /* A body, then a print's expression, then its operand. */
    assert_int_equal(LEAST("x", depth, false, 1000), 1);
    assert_int_equal(LEAST("{{ 1 }}", depth, false, 1000), 2);
    assert_int_equal(LEAST("{{ -(1) }}", depth, false, 1000), 3);
    /* Twice the turns, twice the steps. */
    int64_t ten = LEAST("{% for i in range(10) %}{{ i }}{% endfor %}", steps, true, 100000);
    int64_t twenty = LEAST("{% for i in range(20) %}{{ i }}{% endfor %}", steps, true, 100000);
    int64_t none = LEAST("{% for i in range(0) %}{{ i }}{% endfor %}", steps, true, 100000);
    assert_int_equal(twenty - none, 2 * (ten - none));
    assert_true(ten > 30);
    assert_int_equal(rig_render(&rig, "{{ range(100000)|length }}", NULL), ERR_OK);
    assert_int_equal(rig_render(&rig, "{{ range(100001)|length }}", NULL), ERR_LIMIT);
    assert_int_equal(rig_render(&rig, "{{ range(1000000000)|length }}", NULL), ERR_LIMIT);
    struct template_limits small = {.memory_bytes = 1 << 16};
    assert_int_equal(rig_render(&rig, "{{ ('x' * 1000)|upper }}", &small), ERR_OK);
    assert_int_equal(rig_render(&rig, "{{ ('x' * 70000)|upper }}", &small), ERR_LIMIT);
    rig_close(&rig);
}

static int64_t later(void *context)
{
    int64_t *now = context;
    return (*now)++;
}

static void test_time(void **state)
{
    (void)state;
    static const char source[] = "{% for i in range(3000) %}{{ i }}{% endfor %}";
    rig_open(&rig);
    int64_t now = 0;
    struct clock clock = {later, &now}; /* a microsecond a look */
    struct template_limits limits = {.clock = &clock, .time_us = INT32_MAX};
    assert_int_equal(rig_render(&rig, source, &limits), ERR_OK);
    limits.time_us = now - 1; /* the looks after the first */
    assert_true(limits.time_us >= 2);
    assert_int_equal(rig_render(&rig, source, &limits), ERR_OK);
    limits.time_us--;
    assert_int_equal(rig_render(&rig, source, &limits), ERR_LIMIT);
    assert_non_null(strstr(rig.info.text, "time"));
    rig_close(&rig);
}

#define MUCH "{% set s = 'a' * 1000 * 2000 %}"

/* Want too much of one thing or another. */
static const char *const hostile[] = {
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{% macro f(a) %}{{ g(a) }}{{ g(a) }}{% endmacro %}{% macro g(a) %}{{ f(a) }}{{ f(a) }}"
    "{% endmacro %}{{ f(1) }}",
    "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}"
    "{% endfor %}",
    "{% set ns = namespace(s=['x']) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}"
    "{% endfor %}",
    "{{ 'x' * 999999999999 }}",
    "{{ [0] * 999999999999 }}",
    "{{ '' * 999999999999 }}",
    "{% set ns = namespace(s=[]) %}{% for i in range(9999) %}{% set ns.s = [ns.s] %}{% endfor %}"
    "{{ ns.s|tojson }}",
    "{% set ns = namespace(a=[], b=[]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}"
    "{% set ns.b = [ns.b, ns.b] %}{% endfor %}{{ ns.a == ns.b }}",
    "{% set ns = namespace(s='a') %}{% for i in range(24) %}{% set ns.s = ns.s + ns.s %}"
    "{% endfor %}{{ ns.s|replace('a', ns.s) }}",
    "{% set s = 'a' * 1000000 %}{% for i in range(99999) %}{% set x = s|replace('b', 'c') %}"
    "{% endfor %}",
    "{% set s = 'a' * 1000000 %}{% for i in range(99999) %}{% if 'b' in s %}{% endif %}"
    "{% endfor %}",
    "{% set s = 'a' * 1000000 %}{% for i in range(99999) %}{{ s[-1] }}{% endfor %}",
    "{% for c in 'a' * 5000000 %}{% for d in 'a' * 5000000 %}{% endfor %}{% endfor %}",
    "{{ ('a b ' * 1000000).split()|join(',' * 1000) }}",
    "{{ ('a\n' * 100000)|indent(100000) }}",
    "{% set ns = namespace() %}{% for i in range(99999) %}{% set k = {i: i, 'b': i} %}"
    "{% set ns.x = k %}{{ ns.x|tojson(indent=100000) }}{% endfor %}",
    "{{ range(99999)|map('string')|unique|list|length }}",
    "{{ [1]|tojson(indent=999999999) }}",
    "{{ raise_exception('x' * 99999999) }}",
    "{% macro f(a) %}{% if f(a) == f(a) %}{% endif %}{% endmacro %}{{ f(f(f(1))) }}",
    /* A step that looks at much is many. */
    MUCH "{{ s.strip('b' * 1000 * 2000 ~ 'a') }}",
    MUCH "{% for i in range(99999) %}{{ s.startswith((s, s)) }}{% endfor %}",
    MUCH "{% for i in range(99999) %}{{ s.removeprefix(s) is string }}{% endfor %}",
    MUCH "{% set m = {s: 1} %}{% for i in range(99999) %}{{ m[s] ~ m.get(s) }}{% endfor %}",
    MUCH "{% for i in range(99999) %}{% set m = {s: 1, s: 2} %}{% endfor %}",
    "{% set s = '\"' * 1000 * 2000 %}{{ s|tojson|tojson|tojson }}",
    "{% for i in range(99999) %}{% set x = 1.1 / (i + 1) ~ '' %}{% endfor %}",
};

static int64_t stopped(void *context)
{
    (void)context;
    return 0;
}

struct outcome {
    enum err err;
    int64_t took_us;
};

/* Their work is bounded without a look at the time. */
static void *run_hostile(void *context)
{
    struct outcome *outcomes = context;
    const struct clock clock = {stopped, NULL};
    const struct template_limits limits = {.clock = &clock};
    for (size_t i = 0; i < ARRAY_COUNT(hostile); i++) {
        int64_t began_us = clock_thread_us(NULL);
        outcomes[i].err = rig_render(&rig, hostile[i], &limits);
        outcomes[i].took_us = clock_thread_us(NULL) - began_us;
    }
    return NULL;
}

static void test_hostile(void **state)
{
    (void)state;
    enum { STACK_BYTES = 128 << 10 };
    enum { LONGEST_US = 500000 }; /* ten times what the slowest takes */
    struct outcome outcomes[ARRAY_COUNT(hostile)] = {0};
    pthread_attr_t attr;
    pthread_t thread;
    rig_open(&rig);
    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_setstacksize(&attr, test_scale() > 1 ? 8 << 20 : STACK_BYTES), 0);
    assert_int_equal(pthread_create(&thread, &attr, run_hostile, outcomes), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    for (size_t i = 0; i < ARRAY_COUNT(hostile); i++) {
        if (outcomes[i].err != ERR_LIMIT || outcomes[i].took_us > LONGEST_US * test_scale()) {
            fail_msg("%s: %s after %lld us", hostile[i], err_word(outcomes[i].err),
                (long long)outcomes[i].took_us);
        }
    }
    (void)pthread_attr_destroy(&attr);
    rig_close(&rig);
}

/* Every allocation fails once. */
static void test_memory(void **state)
{
    (void)state;
    static const char source[] =
        "{% macro m(a, b=[1]) %}{{ a|upper }}{% endmacro %}{% set s %}{{ u }}{% endset %}"
        "{% for c in u %}{{ m(c) ~ s|tojson }}{{ {'a': l}|items|list|length }}{% endfor %}";
    rig_open(&rig);
    enum err err = ERR_NO_MEMORY;
    for (uint64_t nth = 1; err != ERR_OK && nth < 1000; nth++) {
        struct template *template = NULL;
        struct map empty = {0};
        mem_fail_after(nth, 0);
        err = template_open(source, strlen(source), &template, &rig.info);
        if (err == ERR_OK) {
            err = template_render(template, &empty, 0, NULL, &rig.arena, &rig.rendered, &rig.info);
        }
        mem_fail_after(0, 0);
        assert_true(err == ERR_OK || err == ERR_NO_MEMORY || err == ERR_LIMIT);
        template_close(template);
    }
    assert_int_equal(err, ERR_OK);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_source),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_nesting),
        cmocka_unit_test(test_rendering),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
