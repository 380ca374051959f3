/*
 * Goal: what a schema's grammar takes, the schema takes; and per keyword, what it should not lose.
 * Method: a table of schemas with values that come out and values that must not; then the schemas
 * of the JSON Schema test suite (draft 2020-12) that compile, where it is here: no invalid value is
 * taken, and no fewer of the valid ones than before. A grammar may be narrower than its schema
 * (docs/constrained.md), so valid values that it leaves out are counted and no failure.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>
#include "api/grammar.h"
#include "api/json_in.h"
#include "tests/golden/golden_data.h"
#include "tests/unit/text/text_rig.h"

#define SUITE "json-schema-test-suite/tests/draft2020-12/"

/* Of the suite, as it was when this was written. */
enum { COMPILED = 123, TAKEN = 171, TEXT_BYTES = 1 << 14 };

static struct tokenizer *tokenizer;
static struct arena arena;

static enum err compile(const char *schema, const struct grammar **out_grammar)
{
    struct err_info info;
    arena_drop(&arena);
    arena_init(&arena, MEM_REQUESTS, 4096, 64 << 20);
    struct call call = {.arena = &arena, .tokenizer = tokenizer};
    const struct bound_text text = {.bytes = schema, .count = (int32_t)strlen(schema)};
    return grammar_of_schema(&call, &text, "/schema", out_grammar, &info);
}

static bool takes(const struct grammar *grammar, const char *text)
{
    struct grammar_set set, next;
    grammar_start(grammar, &set);
    for (const char *c = text; *c != '\0'; c++) {
        if (!grammar_step(grammar, &set, (uint8_t)*c, &next)) {
            assert_false(next.lost);
            return false;
        }
        grammar_set_copy(&set, &next);
    }
    return set.accepts;
}

static const struct {
    const char *schema, *yes[5], *no[5];
} ROWS[] = {
    {"{}", {"null", "1", "\"\"", "[{}]", "{\"a\":-1.5}"}, {"", "nul", "[1,]", "{,}"}},
    {"{\"type\":\"null\"}", {"null"}, {"false", "0", "\"null\""}},
    {"{\"type\":\"boolean\"}", {"true", "false"}, {"null", "1"}},
    {"{\"type\":\"integer\"}", {"0", "-7", "123456789012345"}, {"1.5", "01", "-0x1", "1e2", ""}},
    {"{\"type\":\"number\"}", {"0.5", "-1e-5", "3"}, {".5", "1.", "\"1\"", "+1"}},
    {"{\"type\":\"string\"}", {"\"\"", "\"a\\n\xC3\xA9\""}, {"\"\n\"", "a", "\"a", "\"\\x\""}},
    {"{\"type\":\"array\"}", {"[]", "[1, \"a\",[]]"}, {"{}", "[1 2]"}},
    {"{\"type\":\"object\"}", {"{}", "{\"a\":1,\"b\": {}}"}, {"[]", "{\"a\"}", "{1:2}"}},
    {"{\"type\":[\"null\",\"integer\"]}", {"null", "5"}, {"\"\"", "5.5"}},
    {"{\"type\":\"boolean\",\"nullable\":true}", {"true", "null"}, {"0"}},
    {"{\"enum\":[1,\"a\",[null],{\"b\":2}]}", {"1", "\"a\"", "[null]", "{\"b\":2}"}, {"2", "[]"}},
    {"{\"enum\":[1,\"a\"],\"type\":\"string\"}", {"\"a\""}, {"1"}},
    {"{\"const\":{\"a\":[true]}}", {"{\"a\":[true]}"}, {"{}", "{\"a\":[false]}", "true"}},
    {"{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"null\"}}}",
        {"{}", "{\"a\":1}", "{\"b\":null}", "{\"a\":1,\"b\":null}"},
        {"{\"a\":null}", "{\"a\":1,}", "{,\"b\":null}", "{\"a\":1,\"a\":2}", "[]"}},
    {"{\"properties\":{\"a\":true,\"b\":true},\"required\":[\"b\"]}",
        {"{\"b\":1}", "{\"a\":1, \"b\":2}"}, {"{}", "{\"a\":1}"}},
    {"{\"properties\":{\"a\":true},\"additionalProperties\":false}", {"{}", "{\"a\":0}"},
        {"{\"b\":0}", "{\"a\":0,\"b\":0}"}},
    {"{\"additionalProperties\":{\"type\":\"null\"}}", {"{}", "{\"x\":null,\"y\":null}"},
        {"{\"x\":1}"}},
    {"{\"additionalProperties\":false}", {"{}"}, {"{\"x\":1}"}},
    {"{\"items\":{\"type\":\"null\"}}", {"[]", "[null]", "[null, null]"}, {"[1]", "[null,1]"}},
    {"{\"prefixItems\":[{\"const\":1},{\"const\":2}]}", {"[]", "[1]", "[1,2]", "[1,2,\"x\"]"},
        {"[2]", "[1,1]"}},
    {"{\"prefixItems\":[{\"const\":1}],\"items\":false}", {"[]", "[1]"}, {"[1,1]", "[2]"}},
    {"{\"items\":{\"const\":0},\"minItems\":2}", {"[0,0]", "[0,0,0]"}, {"[]", "[0]"}},
    {"{\"items\":{\"const\":0},\"maxItems\":2}", {"[]", "[0]", "[0,0]"}, {"[0,0,0]"}},
    {"{\"items\":{\"const\":0},\"minItems\":1,\"maxItems\":1}", {"[0]"}, {"[]", "[0,0]"}},
    {"{\"maxItems\":0}", {"[]"}, {"[0]"}},
    {"{\"minLength\":2}", {"\"ab\"", "\"\xC3\xA9\\n\"", "\"abc\""},
        {"\"\"", "\"a\"", "\"\xC3\xA9\""}},
    {"{\"maxLength\":2}", {"\"\"", "\"ab\"", "\"\xF0\x9F\x98\x80\\\"\""},
        {"\"abc\"", "\"\\n\\n\\n\""}},
    {"{\"minLength\":1,\"maxLength\":1}", {"\"a\""}, {"\"\"", "\"ab\""}},
    {"{\"pattern\":\"^a+$\"}", {"\"a\"", "\"aa\""}, {"\"\"", "\"ab\"", "a"}},
    {"{\"pattern\":\"b\"}", {"\"b\"", "\"abc\""}, {"\"\"", "\"ac\""}},
    {"{\"format\":\"date\"}", {"\"2024-02-28\"", "\"0000-01-01\"", "\"9999-12-09\""},
        {"\"2024-02-30\"", "\"2024-13-01\"", "\"2024-1-1\"", "\"2024-00-10\"", "\"24-01-01\""}},
    {"{\"format\":\"time\"}", {"\"00:00:00Z\"", "\"23:59:59Z\""},
        {"\"24:00:00Z\"", "\"12:60:00Z\"", "\"12:00:00\"", "\"12:00Z\""}},
    {"{\"format\":\"date-time\"}", {"\"2024-02-28T23:59:59Z\""},
        {"\"2024-02-28 23:59:59Z\"", "\"2024-02-28\"", "\"2024-02-28T24:00:00Z\""}},
    {"{\"format\":\"uuid\"}", {"\"01234567-89ab-cdef-0123-456789abcdef\""},
        {"\"0123456789abcdef0123456789abcdef\"", "\"0123456g-89ab-cdef-0123-456789abcdef\""}},
    {"{\"format\":\"ipv4\"}", {"\"0.0.0.0\"", "\"255.249.199.10\""},
        {"\"256.0.0.0\"", "\"1.2.3\"", "\"01.2.3.4\"", "\"1.2.3.4.5\""}},
    {"{\"minimum\":-3,\"maximum\":12}", {"-3", "0", "9", "12"}, {"-4", "13", "-0", "012", "1.5"}},
    {"{\"exclusiveMinimum\":98,\"exclusiveMaximum\":101}", {"99", "100"}, {"98", "101"}},
    {"{\"minimum\":1.5}", {"2", "999999999999999"}, {"1", "0", "-2"}},
    {"{\"anyOf\":[{\"type\":\"null\"},{\"minimum\":5}]}", {"null", "5"}, {"4", "\"\""}},
    {"{\"oneOf\":[{\"type\":\"null\"},{\"type\":\"string\"}]}", {"null", "\"x\""}, {"1"}},
    {"{\"allOf\":[{\"type\":\"null\"}]}", {"null"}, {"1"}},
    {"{\"$ref\":\"#/$defs/a~1b\",\"$defs\":{\"a/b\":{\"const\":1}}}", {"1"}, {"2"}},
    {"{\"properties\":{\"n\":{\"$ref\":\"#\"}},\"type\":\"object\"}", {"{}", "{\"n\":{\"n\":{}}}"},
        {"{\"n\":1}", "{\"n\":{}"}},
    {"{\"type\":\"null\",\"title\":\"t\",\"description\":\"d\",\"default\":1,\"examples\":[2]}",
        {"null"}, {"1", "2"}},
};

static void values_of_each_keyword(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        const struct grammar *grammar;
        if (compile(ROWS[i].schema, &grammar) != ERR_OK) {
            fail_msg("%s does not compile", ROWS[i].schema);
        }
        for (size_t k = 0; k < 5; k++) {
            if (ROWS[i].yes[k] != NULL && !takes(grammar, ROWS[i].yes[k])) {
                fail_msg("%s does not take %s", ROWS[i].schema, ROWS[i].yes[k]);
            }
            if (ROWS[i].no[k] != NULL && takes(grammar, ROWS[i].no[k])) {
                fail_msg("%s takes %s", ROWS[i].schema, ROWS[i].no[k]);
            }
        }
    }
}

/* ---- the suite ----------------------------------------------------------------------------- */

static const char *const FILES[] = {"additionalProperties", "allOf", "anyOf", "boolean_schema",
    "const", "default", "enum", "exclusiveMaximum", "exclusiveMinimum", "infinite-loop-detection",
    "items", "maxItems", "maxLength", "maximum", "minItems", "minLength", "minimum", "oneOf",
    "pattern", "prefixItems", "properties", "ref", "required", "type", "optional/ecmascript-regex",
    "optional/format/date", "optional/format/date-time", "optional/format/ipv4",
    "optional/format/time", "optional/format/uuid", "optional/non-bmp-regex"};

struct counts {
    int32_t schemas, compiled, valid, taken;
};

static void write_text(const json_t *value, char *out_text)
{
    size_t bytes = json_dumpb(value, out_text, TEXT_BYTES - 1, JSON_COMPACT | JSON_ENCODE_ANY);
    assert_true(bytes < TEXT_BYTES);
    out_text[bytes] = '\0';
}

static void check_group(const json_t *group, struct counts *counts)
{
    const struct grammar *grammar;
    static char schema[TEXT_BYTES], value[TEXT_BYTES];
    write_text(golden_member(group, "schema"), schema);
    enum err err = compile(schema, &grammar);
    size_t index;
    json_t *test;
    counts->schemas++;
    counts->compiled += err == ERR_OK;
    json_array_foreach(err == ERR_OK ? golden_member(group, "tests") : NULL, index, test)
    {
        write_text(golden_member(test, "data"), value);
        bool valid = json_is_true(golden_member(test, "valid")), taken = takes(grammar, value);
        counts->valid += valid;
        counts->taken += taken;
        if (taken && !valid) {
            fail_msg("%s takes %s", schema, value);
        }
    }
}

static void suite_of_json_schema(void **state)
{
    (void)state;
    struct counts counts = {0};
    char path[GOLDEN_PATH_BYTES], name[128];
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        (void)snprintf(name, sizeof name, SUITE "%s.json", FILES[i]);
        if (!golden_reference(name, path)) {
            print_message("skipped: %s is not there\n", name);
            skip();
        }
        json_t *groups = json_load_file(path, JSON_ALLOW_NUL, NULL), *group;
        assert_non_null(groups);
        size_t index;
        json_array_foreach(groups, index, group)
        {
            check_group(group, &counts);
        }
        json_decref(groups);
    }
    print_message("%d of %d schemas compile; %d of %d valid values are taken\n",
        (int)counts.compiled, (int)counts.schemas, (int)counts.taken, (int)counts.valid);
    assert_true(counts.compiled >= COMPILED && counts.taken >= TAKEN);
}

static int setup(void **state)
{
    (void)state;
    static struct text_rig rig;
    text_rig_bpe(&rig, "gpt-2");
    tokenizer = text_rig_open(&rig); /* the bytes alone */
    arena_init(&arena, MEM_REQUESTS, 4096, 64 << 20);
    json_in_init();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_drop(&arena);
    tokenizer_close(tokenizer);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_each_keyword),
        cmocka_unit_test(suite_of_json_schema),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
