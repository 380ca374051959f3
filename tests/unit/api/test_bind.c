/*
 * Goal: the interpreter of the schema tables accepts and refuses exactly what the schemas say, and
 * puts every value where the struct has it.
 * Method: the generated list of bodies with verdicts (schemas/cases.py reads the same schemas by
 * the JSON Schema rules), then bound structs of a few bodies field by field, then each allocation
 * made to fail. The list's path is the first argument.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/bind.h"
#include "api/validate.h"
#include "schemas/tables.h"

static const char *cases_path;

static const struct schema *find_schema(const char *name)
{
    for (int32_t i = 0; i < schema_request_count; i++) {
        if (strcmp(schema_requests[i].name, name) == 0) {
            return schema_requests[i].schema;
        }
    }
    fail_msg("no schema %s", name);
    return NULL;
}

static enum err bind_text(struct arena *arena, const struct schema *schema, const char *body,
    struct bound *bound, struct err_info *info)
{
    /* An exact copy on the heap: a read past the end is seen by the sanitizer. */
    size_t bytes = strlen(body);
    char *copy = malloc(bytes > 0 ? bytes : 1);
    assert_non_null(copy);
    memcpy(copy, body, bytes);
    enum err err = bind_request(arena, schema, copy, bytes, bound, info);
    free(copy);
    return err;
}

/* Splits off the text before the next tab. */
static char *take_column(char **line)
{
    char *column = *line;
    char *tab = strchr(column, '\t');
    assert_non_null(tab);
    *tab = '\0';
    *line = tab + 1;
    return column;
}

static void check_case(struct arena *arena, char *line)
{
    const char *name = take_column(&line);
    const char *expected = take_column(&line);
    const char *where = take_column(&line);
    line[strcspn(line, "\n")] = '\0';
    struct bound bound;
    struct err_info info = {0};
    enum err err = bind_text(arena, find_schema(name), line, &bound, &info);
    if (strcmp(err_word(err), expected) != 0) {
        fail_msg("%s: %.200s: got %s at %s, expected %s at %s", name, line, err_word(err),
            info.where, expected, where);
    }
    if (err != ERR_OK && strcmp(info.where, where) != 0) {
        fail_msg("%s: %.200s: error at %s, expected at %s", name, line, info.where, where);
    }
    arena_reset(arena);
}

static void test_generated_cases(void **state)
{
    (void)state;
    FILE *file = fopen(cases_path, "r");
    assert_non_null(file);
    struct arena arena;
    arena_init(&arena, MEM_REQUESTS, 1 << 16, 1 << 24);
    char *line = NULL;
    size_t capacity = 0;
    int32_t count = 0;
    while (getline(&line, &capacity, file) > 0) {
        check_case(&arena, line);
        count++;
    }
    assert_true(count > 5000);
    free(line);
    (void)fclose(file);
    arena_drop(&arena);
}

static void test_embed_struct(void **state)
{
    (void)state;
    struct arena arena;
    struct bound bound;
    struct err_info info;
    arena_init(&arena, MEM_REQUESTS, 4096, 1 << 20);
    assert_int_equal(
        bind_text(&arena, &schema_embed_request,
            "{\"inputs\":[\"a\",\"b\\u00e9\"],\"dimensions\":4.0,\"truncation_direction\":\"LEFT\","
            "\"pooling\":\"eos\",\"model\":\"m\",\"user\":[{\"x\":1}],\"what\":1,\"normalize\":"
            "null,"
            "\"bad name\":2,\"what\\u00e9\":3}",
            &bound, &info),
        ERR_OK);
    const struct embed_request *request = bound.request;
    assert_int_equal(request->inputs.form, COMMON_INPUTS_TEXTS);
    assert_int_equal(request->inputs.texts.count, 2);
    assert_string_equal(request->inputs.texts.items[1].bytes, "b\xc3\xa9");
    assert_int_equal(request->inputs.texts.items[1].count, 3);
    assert_true(request->has_dimensions);
    assert_int_equal(request->dimensions, 4);
    assert_int_equal(request->truncation_direction, COMMON_TRUNCATION_DIRECTION_LEFT);
    assert_int_equal(request->pooling, EMBED_REQUEST_POOLING_EOS);
    assert_true(request->normalize); /* null is absent: the default */
    assert_false(request->has_normalize);
    assert_true(request->truncate);
    assert_int_equal(request->encoding_format, COMMON_ENCODING_FORMAT_FLOAT);
    assert_string_equal(request->basics.model.bytes, "m");
    assert_false(request->basics.has_timeout_ms);
    assert_string_equal(bound.ignored_fields, "what");
    assert_int_equal(bound.ignored_count, 3);
    arena_drop(&arena);
}

static void test_infill_struct(void **state)
{
    (void)state;
    struct arena arena;
    struct bound bound;
    struct err_info info;
    arena_init(&arena, MEM_REQUESTS, 4096, 1 << 20);
    assert_int_equal(
        bind_text(&arena, &schema_infill_request,
            "{\"segments\":[{\"text\":\"a\"},{\"gap\":{\"max_tokens\":3,\"stop\":[\".\",\"!\"],"
            "\"odd\":1}}],\"logit_bias\":[[5,-1.5],[\"x\",false]],\"top_k\":7,"
            "\"samplers\":[\"temperature\",\"top_k\"],\"stop\":\"end\"}",
            &bound, &info),
        ERR_OK);
    const struct infill_request *request = bound.request;
    assert_int_equal(request->segments.count, 2);
    assert_int_equal(request->segments.items[0].form, INFILL_REQUEST_SEGMENTS_ITEM_TEXT);
    const struct infill_request_gap_options *gap = &request->segments.items[1].gap.gap;
    assert_int_equal(gap->max_tokens, 3);
    assert_true(gap->has_max_tokens);
    assert_false(gap->has_reserve);
    assert_int_equal(gap->stop.form, COMMON_STOP_MANY);
    assert_string_equal(gap->stop.many.items[1].bytes, "!");
    assert_int_equal(request->llama.logit_bias.form, COMMON_LLAMA_LOGIT_BIAS_PAIRS);
    assert_int_equal(request->llama.logit_bias.pairs.items[0].token.id, 5);
    assert_true(request->llama.logit_bias.pairs.items[0].bias.number == -1.5);
    assert_int_equal(request->llama.logit_bias.pairs.items[1].bias.form,
        COMMON_LLAMA_LOGIT_BIAS_PAIRS_ITEM_BIAS_BAN);
    assert_int_equal(request->sampling.top_k, 7);
    assert_true(request->sampling.temperature == 0.8); /* this route's own default */
    assert_int_equal(request->sampling.samplers.count, 2);
    assert_int_equal(
        request->sampling.samplers.items[0], COMMON_SAMPLING_SAMPLERS_ITEM_TEMPERATURE);
    assert_string_equal(request->gap.bytes, "[gap]");
    assert_string_equal(request->sampling.stop.one.bytes, "end");
    assert_string_equal(bound.ignored_fields, "segments.gap.odd");
    arena_drop(&arena);
}

static void test_null_members(void **state)
{
    (void)state;
    struct arena arena;
    struct bound bound;
    struct err_info info;
    arena_init(&arena, MEM_REQUESTS, 4096, 1 << 20);
    assert_int_equal(
        bind_text(&arena, &schema_infill_request,
            "{\"text\":\"a [gap]\",\"logit_bias\":{\"5\":null,\"6\":1,\"7\":null}}", &bound, &info),
        ERR_OK);
    const struct infill_request *infill = bound.request;
    assert_int_equal(infill->llama.logit_bias.map.count, 1);
    assert_string_equal(infill->llama.logit_bias.map.items[0].key.bytes, "6");
    assert_int_equal(bind_text(&arena, &schema_v1_responses_request,
                         "{\"input\":\"a\",\"reasoning\":{\"effort\":null}}", &bound, &info),
        ERR_OK);
    assert_int_equal(bind_text(&arena, &schema_v1_responses_request,
                         "{\"input\":\"a\",\"reasoning\":{\"effort\":\"low\"}}", &bound, &info),
        ERR_UNSUPPORTED_FIELD);
    assert_string_equal(info.where, "/reasoning");
    arena_drop(&arena);
}

static void test_nested_defaults(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "{\"inputs\":\"a\"}", "{\"inputs\":\"a\",\"parameters\":{}}"};
    for (size_t i = 0; i < ARRAY_COUNT(bodies); i++) {
        struct arena arena;
        struct bound bound;
        struct err_info info;
        arena_init(&arena, MEM_REQUESTS, 4096, 1 << 20);
        assert_int_equal(
            bind_text(&arena, &schema_generate_request, bodies[i], &bound, &info), ERR_OK);
        const struct generate_request *request = bound.request;
        assert_int_equal(request->parameters.max_new_tokens, 100);
        assert_int_equal(request->parameters.sampling.seed, -1);
        assert_true(request->parameters.sampling.temperature == 1.0);
        assert_null(bound.ignored_fields);
        arena_drop(&arena);
    }
}

/* More unknown fields than are named: all are counted, the header stays short. */
static void test_many_unknown_fields(void **state)
{
    (void)state;
    char body[8192] = "{\"inputs\":\"a\"";
    for (int i = 0; i < 300; i++) {
        size_t count = strlen(body);
        (void)snprintf(body + count, sizeof(body) - count, ",\"field_%d\":0", i);
    }
    (void)strcat(body, "}");
    struct arena arena;
    struct bound bound;
    struct err_info info;
    arena_init(&arena, MEM_REQUESTS, 4096, 1 << 20);
    assert_int_equal(bind_text(&arena, &schema_generate_request, body, &bound, &info), ERR_OK);
    assert_int_equal(bound.ignored_count, 300);
    assert_true(strlen(bound.ignored_fields) < 32 * 65);
    assert_memory_equal(bound.ignored_fields, "field_0,field_1,", 16);
    arena_drop(&arena);
}

static void test_allocation_failures(void **state)
{
    (void)state;
    static const char body[] = "{\"segments\":[{\"text\":\"a\"},{\"gap\":{\"stop\":[\".\"]}}],"
                               "\"logit_bias\":{\"1\":2},\"unknown\":1}";
    enum err err = ERR_NO_MEMORY;
    int32_t failures = 0;
    for (uint64_t nth = 1; err != ERR_OK; nth++) {
        struct arena arena;
        struct bound bound;
        struct err_info info;
        arena_init(&arena, MEM_REQUESTS, 256, 1 << 20);
        mem_fail_after(nth, 1);
        err = bind_text(&arena, &schema_infill_request, body, &bound, &info);
        mem_fail_after(0, 0);
        assert_true(err == ERR_OK || err == ERR_NO_MEMORY);
        failures += err == ERR_NO_MEMORY;
        arena_drop(&arena);
    }
    assert_true(failures >= 2); /* the tree's memory and the struct's */
    assert_int_equal(mem_bytes(MEM_REQUESTS), 0);
}

/* Keys in a place are escaped as RFC 6901 says; what does not fit is cut between keys. */
static void test_places(void **state)
{
    (void)state;
    struct err_info info = {0};
    const struct path odd = {NULL, "a/b~c", 0};
    const struct path element = {&odd, NULL, 18446744073709551615U};
    assert_int_equal(validate_fail(&info, ERR_INVALID, &element, "word", "no"), ERR_INVALID);
    assert_string_equal(info.where, "/a~1b~0c/18446744073709551615");
    assert_string_equal(info.word, "word");
    (void)validate_fail(&info, ERR_INVALID, NULL, NULL, "no");
    assert_string_equal(info.where, "");
    struct path chain[100];
    for (size_t i = 0; i < 100; i++) {
        chain[i] = (struct path){i == 0 ? NULL : &chain[i - 1], "key", 0};
    }
    (void)validate_fail(&info, ERR_INVALID, &chain[99], NULL, "no");
    assert_true(strlen(info.where) < sizeof(info.where) && strlen(info.where) > 64);
    assert_string_equal(info.where + strlen(info.where) - 4, "/key");
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        return 2;
    }
    cases_path = argv[1];
    json_in_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generated_cases),
        cmocka_unit_test(test_embed_struct),
        cmocka_unit_test(test_infill_struct),
        cmocka_unit_test(test_null_members),
        cmocka_unit_test(test_nested_defaults),
        cmocka_unit_test(test_many_unknown_fields),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
