/*
 * Goal: what a client supplied stays marked on its way through a template, and nothing else is.
 * Method: each way text can take, with the marks that are to come out. (That the text is right is
 * shown by tests/golden/template.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "engine/base/attr.h"
#include "tests/unit/template/rig.h"

/* u = "ab", n = 7, l = ["x", "y"], h = "p\nq"; x: a client's byte. */
static const struct {
    const char *source, *text, *marks;
} cases[] = {
    {"<{{ u }}>", "<ab>", ".xx."},
    {"{{ '<' + u + '>' }}", "<ab>", ".xx."},
    {"{{ '<' ~ u ~ n ~ '>' }}", "<ab7>", ".xxx."},
    {"{{ 1 + 2 }}{{ n }}{{ n + 1 }}", "378", ".x."},
    {"{{ (' ' + u + ' ')|trim }}", "ab", "xx"},
    {"{{ u|upper }}{{ u.title() }}{{ u|capitalize }}", "ABAbAb", "xxxxxx"},
    {"{{ u|replace('a', '-') }}", "-b", ".x"},
    {"{{ '-a-'|replace('a', u) }}", "-ab-", ".xx."},
    {"{{ u * 2 }}", "abab", "xxxx"},
    {"{{ l|join(',') }}", "x,y", "x.x"},
    {"{{ ','.join(l) }}", "x,y", "x.x"},
    {"{{ ['-', '+']|join(u) }}", "-ab+", ".xx."},
    {"{{ ('<' + u)[1:] }}{{ ('<' + u)[::-1] }}{{ u[0] }}", "abba<a", "xxxx.x"},
    {"{{ (u + '-')|reverse }}{{ (u + '-')|first }}", "-baa", ".xxx"},
    {"{% for c in '<' + u %}{{ c }}{% endfor %}", "<ab", ".xx"},
    {"{{ ('<' + u + '|' + u).split('|')|last }}", "ab", "xx"},
    {"{{ h|indent(2) }}", "p\n  q", "x...x"},
    {"{% set s %}<{{ u }}>{% endset %}{{ s }}", "<ab>", ".xx."},
    {"{% macro m(a) %}[{{ a }}]{% endmacro %}{{ m(u) }}", "[ab]", ".xx."},
    {"{% filter upper %}<{{ u }}{% endfilter %}", "<AB", ".xx"},
    {"{% set ns = namespace(t='<') %}{% set ns.t = ns.t + u %}{{ ns.t }}", "<ab", ".xx"},
    {"{{ u|tojson }}{{ 'c'|tojson }}", "\"ab\"\"c\"", "xxxx..."},
    {"{{ l|tojson }}", "[\"x\", \"y\"]", "xxxxxxxxxx"},
    {"{{ [u]|tojson }}", "[\"ab\"]", ".xxxx."},
    {"{{ h|tojson }}", "\"p\\nq\"", "xxxxxx"},
    {"{{ {'k': n}|tojson }}", "{\"k\": 7}", "......x."},
    {"{{ u if true else '' }}{{ none|default(u) }}{{ q|default(u) }}", "abNoneab", "xx....xx"},
    {"{{ u|string|safe + '<' }}", "ab&lt;", "xx...."},
    {"{{ '<'|safe + u }}", "<ab", ".xx"},
    {"{{ l|map('upper')|join }}{{ l|select('eq', 'y')|first }}", "XYy", "xxx"},
    {"{{ u|length }}{{ u == 'ab' }}", "2True", "....."},
    /* What a loop was stays true behind it. */
    {"{% set ns = namespace() %}{% for c in u + '-' %}{% set ns.l = loop %}{% endfor %}"
     "{{ ns.l.index }}{{ ns.l.last }}{{ ns.l.previtem }}",
        "3Trueb", ".....x"},
    {"{{ u.removeprefix('a') }}{{ u.strip('a') }}{{ (u + '  ').rstrip() }}", "bbab", "xxxx"},
};

static void test_marks(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct rig rig;
        rig_open(&rig);
        enum err err = rig_render(&rig, cases[i].source, NULL);
        if (err != ERR_OK) {
            fail_msg("%s: %s", cases[i].source, rig.info.text);
        }
        assert_string_equal(rig.rendered.bytes, cases[i].text);
        assert_int_equal(rig.rendered.count, strlen(cases[i].marks));
        for (size_t k = 0; k < rig.rendered.count; k++) {
            if (rig.rendered.foreign[k] != (cases[i].marks[k] == 'x')) {
                fail_msg("%s: byte %zu of %s", cases[i].source, k, rig.rendered.bytes);
            }
        }
        rig_close(&rig);
    }
}

/* Strings that follow each other are one, with every byte they have. */
static void test_joined_strings(void **state)
{
    (void)state;
    static const char joined[] = "a\0bc";
    struct rig rig;
    rig_open(&rig);
    assert_int_equal(rig_render(&rig, "{{ 'a\\x00b' \"c\" '' }}", NULL), ERR_OK);
    assert_int_equal(rig.rendered.count, sizeof(joined) - 1);
    assert_memory_equal(rig.rendered.bytes, joined, sizeof(joined));
    rig_close(&rig);
}

/* Errors go into replies and logs. */
static void test_errors_hold_no_user_text(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig);
    assert_int_equal(rig_render(&rig, "{{ raise_exception('no ' + u + '!') }}", NULL), ERR_INVALID);
    assert_string_equal(rig.info.text, "no ...!");
    assert_int_equal(rig_render(&rig, "\n{{ none + u }}", NULL), ERR_INVALID);
    assert_non_null(strstr(rig.info.text, "line 2"));
    assert_null(strstr(rig.info.text, "ab"));
    assert_int_equal(rig_render(&rig, "{{ 1['a'][u] }}", NULL), ERR_INVALID);
    assert_non_null(strstr(rig.info.text, "a member of an undefined value"));
    assert_null(strstr(rig.info.text, "ab"));
    assert_int_equal(rig_render(&rig, "{{ q.name }}", NULL), ERR_INVALID);
    assert_non_null(strstr(rig.info.text, "a member 'name' of an undefined value"));
    assert_int_equal(rig_render(&rig, "\n\n{{ l }}", NULL), ERR_NOT_CAPABLE);
    assert_non_null(strstr(rig.info.text, "line 3"));
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_joined_strings),
        cmocka_unit_test(test_errors_hold_no_user_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
