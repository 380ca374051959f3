/*
 * Goal: --adapter and the profile's key `adapters` put adapters on the modes they name and on no
 * others, and whatever cannot be done is refused by flag, key or name.
 * Method: engine_plan over a tiny llama and its adapters (fixtures), with profiles written beside
 * links to them; what it says of modes is read from model_info.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "engine/engine.h"

enum { PATH_BYTES = 512 };

static char folder[64], model[PATH_BYTES], profile[PATH_BYTES];
static char first[PATH_BYTES], second[PATH_BYTES], absent[PATH_BYTES];
static char again[PATH_BYTES], slashed[PATH_BYTES + 1]; /* other ways to write the first */
static const char *fixtures;                            /* tests/golden/fixtures */

static void link_to(const char *name, const char *link, char out[PATH_BYTES])
{
    char target[PATH_BYTES];
    (void)snprintf(target, sizeof(target), "%s/%s", fixtures, name);
    (void)snprintf(out, PATH_BYTES, "%s/%s", folder, link);
    assert_int_equal(symlink(target, out), 0);
}

static int setup(void **state)
{
    (void)snprintf(folder, sizeof(folder), "/tmp/adapters-XXXXXX");
    assert_non_null(mkdtemp(folder));
    link_to("tiny_llama/tied.gguf", "m.gguf", model);
    link_to("tiny_adapters/tied_first", "first", first);
    link_to("tiny_adapters/tied_second.gguf", "second.gguf", second);
    link_to("tiny_adapters/tied_first", "again", again);
    (void)snprintf(slashed, sizeof(slashed), "%s/", first);
    (void)snprintf(profile, sizeof(profile), "%s/m.profile.json", folder);
    (void)snprintf(absent, sizeof(absent), "%s/absent", folder);
    return 0;
}

static int teardown(void **state)
{
    const char *const files[] = {model, first, second, again, profile};
    for (size_t i = 0; i < ARRAY_COUNT(files); i++) {
        (void)unlink(files[i]);
    }
    return rmdir(folder);
}

/* ' stands for ". NULL: there is no profile. */
static void put_profile(const char *text)
{
    (void)unlink(profile);
    if (text == NULL) {
        return;
    }
    FILE *file = fopen(profile, "w");
    assert_non_null(file);
    for (; *text != '\0'; text++) {
        assert_true(fputc(*text == '\'' ? '"' : *text, file) != EOF);
    }
    assert_int_equal(fclose(file), 0);
}

static enum err plan_with(const char *text, const char *one, const char *two,
    struct model_info *out, struct memory_plan *memory, struct err_info *info)
{
    struct engine_config config = {.model_path = model, .threads = 1};
    const char *const flags[] = {one, two};
    put_profile(text);
    for (size_t i = 0; i < ARRAY_COUNT(flags); i++) {
        if (flags[i] != NULL) {
            config.adapters[config.adapter_count++] = flags[i];
        }
    }
    return engine_plan(&config, memory, out, info);
}

/* The names of a stack, "first+second". */
static void names_of(const struct model_info *about, int32_t number, char out[128])
{
    out[0] = '\0';
    for (int32_t i = 0; number > 0 && i < about->stacks[number - 1].count; i++) {
        const size_t used = strlen(out);
        (void)snprintf(out + used, 128 - used, "%s%s", i > 0 ? "+" : "",
            about->adapters[about->stacks[number - 1].adapters[i]]);
    }
}

static const struct {
    const char *profile, *one, *two;
    /* On rows of /embed and /infill that see each other; on causal rows of /embed, on /generate. */
    const char *embed, *infill, *causal, *generate;
    int32_t stacks;
    enum infill_mode first_mode;
} cases[] = {
    {NULL, NULL, NULL, "", "", "", "", 0, INFILL_RERANK},
    {NULL, first, NULL, "first", "first", "", "", 1, INFILL_HYBRID},
    {NULL, first, second, "first+second", "first+second", "", "", 1, INFILL_HYBRID},
    {NULL, second, first, "second+first", "second+first", "", "", 1, INFILL_HYBRID},
    {"{'infill':{'modes':['rerank','hybrid']}}", first, NULL, "first", "first", "", "", 1,
        INFILL_RERANK},
    {"{'adapters':{}}", first, NULL, "first", "first", "", "", 1, INFILL_HYBRID},
    {"{'adapters':{'embed':['first','second.gguf'],'generate':[]}}", NULL, NULL, "first+second", "",
        "first+second", "", 1, INFILL_RERANK},
    {"{'adapters':{'embed':['first'],'infill':['second.gguf'],'generate':['first']}}", NULL, NULL,
        "first", "second", "first", "first", 2, INFILL_HYBRID},
    {"{'adapters':{'infill':[]}}", first, NULL, "first", "", "", "", 1, INFILL_RERANK},
    {"{'adapters':{'embed':['first']}}", first, NULL, "first", "first", "first", "", 1,
        INFILL_HYBRID},
    {"{'modes':['generate','embed']}", first, NULL, "first", "", "", "", 1, INFILL_RERANK},
    {"{'infill':{'modes':['rerank']}}", first, NULL, "first", "", "", "", 1, INFILL_RERANK},
    {"{'modes':['infill']}", first, NULL, "", "first", "", "", 1, INFILL_HYBRID},
    {"{'adapters':{'embed':['first/'],'infill':['again']}}", NULL, NULL, "first", "first", "first",
        "", 1, INFILL_HYBRID},
};

static void test_modes(void **state)
{
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct model_info about;
        struct memory_plan memory;
        struct err_info info = {0};
        char names[128];
        if (plan_with(cases[i].profile, cases[i].one, cases[i].two, &about, &memory, &info) !=
            ERR_OK) {
            fail_msg("case %zu: %s: %s", i, info.where, info.text);
        }
        names_of(&about, about.stack_table.both_ways[KIND_EMBED], names);
        assert_string_equal(names, cases[i].embed);
        names_of(&about, about.stack_table.both_ways[KIND_INFILL], names);
        assert_string_equal(names, cases[i].infill);
        names_of(&about, about.stack_table.causal[KIND_EMBED], names);
        assert_string_equal(names, cases[i].causal);
        names_of(&about, about.stack_table.causal[KIND_GENERATE], names);
        assert_string_equal(names, cases[i].generate);
        assert_int_equal(about.stack_table.causal[KIND_CLASSIFY], 0);
        assert_int_equal(about.stack_count, cases[i].stacks);
        if (about.infill_mode_count > 0) {
            assert_int_equal(about.infill_modes[0], cases[i].first_mode);
        }
        assert_true((memory.adapters > 0) == (cases[i].stacks > 0));
        assert_true((about.adapter_width > 0) == (cases[i].stacks > 0));
        assert_true(memory.total > memory.weights + memory.adapters + memory.cache);
    }
}

static const struct {
    const char *profile, *one, *two;
    enum err err;
    const char *where;
} refusals[] = {
    {NULL, absent, NULL, ERR_IO, "absent: file"},
    {NULL, first, first, ERR_CONFIG, "adapter"},
    {NULL, first, slashed, ERR_CONFIG, "adapter"},
    {NULL, first, again, ERR_CONFIG, "adapter"},
    {"{'modes':['generate','classify']}", first, NULL, ERR_CONFIG, "adapter"},
    {NULL, model, NULL, ERR_FORMAT, "m: general.type"},
    {"{'adapters':{'embed':['absent']}}", NULL, NULL, ERR_IO, "absent: file"},
    {"{'adapters':{'embed':[],'infill':[]}}", first, NULL, ERR_CONFIG, "adapter"},
    {"{'adapters':{'embed':['first'],'infill':[]}}", first, second, ERR_CONFIG, "adapter"},
    {"{'adapters':{'embed':['x/first','first']}}", first, NULL, ERR_FORMAT, "adapters.embed"},
    {"{'adapters':{'embed':['first','first/']}}", NULL, NULL, ERR_FORMAT, "adapters.embed"},
    {"{'adapters':{'embed':['first','again']}}", NULL, NULL, ERR_FORMAT, "adapters.embed"},
};

static void test_refusals(void **state)
{
    for (size_t i = 0; i < ARRAY_COUNT(refusals); i++) {
        struct model_info about;
        struct memory_plan memory;
        struct err_info info = {0};
        enum err err = plan_with(
            refusals[i].profile, refusals[i].one, refusals[i].two, &about, &memory, &info);
        if (err != refusals[i].err || strcmp(info.where, refusals[i].where) != 0) {
            fail_msg("case %zu: %s at %s (%s)", i, err_word(err), info.where, info.text);
        }
        assert_null(strstr(info.text, folder));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_refusals),
    };
    if (argc != 2) {
        (void)fprintf(stderr, "usage: %s FIXTURES\n", argv[0]);
        return 2;
    }
    fixtures = argv[1];
    return cmocka_run_group_tests(tests, setup, teardown);
}
