/*
 * Goal: a profile says what it says, its mistakes are named by file and key, and without one the
 * defaults are those of the file's metadata.
 * Method: one profile with every key; then a table of texts with one mistake each and the place the
 * error must name; the three places a profile can lie, and which of them wins.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "engine/base/mem.h"
#include "engine/load/profile.h"
#include "tests/unit/load/gguf_writer.h"

static struct profile profile;

static enum err parse(const char *text, struct err_info *info)
{
    memset(&profile, 0, sizeof(profile));
    return profile_parse(text, strlen(text), "x.profile.json", &profile, info);
}

static const char *const everything =
    "{\"modes\":[\"generate\",\"infill\"],"
    "\"attention\":{\"embed\":\"bidirectional\",\"prompt\":\"bidirectional\"},"
    "\"pooling\":\"eos\",\"pool_skip_instruction\":true,\"token_offset\":-1,"
    "\"dimensions\":[64,128,256],\"head\":[\"layer_norm\"],"
    "\"default_prompt\":\"document\",\"instruction\":\"Do {instruction}: {text}, {text}\","
    "\"prompts\":{\"query\":\"query: {text}\",\"document\":\"{text}\"},"
    "\"infill\":{\"modes\":[\"hybrid\",\"fim\",\"rerank\",\"glm\"],\"gap_positions\":\"collapsed\","
    "\"span_end\":\"</s>\",\"fim\":{\"style\":\"incoder\",\"order\":\"spm\",\"prefix\":\"<P>\","
    "\"suffix\":\"<S>\",\"middle\":\"<M>\",\"end\":\"<E>\"}},"
    "\"tokens\":{\"bos\":\"never\",\"mask\":\"_\",\"end\":[\"</s>\",\"<eot>\"]},"
    "\"classify\":{\"name\":\"two\",\"template\":\"Judge: {prompt}\",\"score\":\"softmax\","
    "\"fields\":[{\"map\":{\"yes\":\"harmful\",\"n/a\":null},\"name\":\"harm\","
    "\"label\":\"Harmful: \",\"values\":[\"yes\",\"no\",\"n/a\"]}]},"
    "\"adapters\":{\"embed\":[\"mntp\",\"simcse.gguf\"],\"generate\":[]}}";

static void test_everything(void **state)
{
    struct err_info info = {0};
    if (parse(everything, &info) != ERR_OK) {
        fail_msg("%s: %s", info.where, info.text);
    }
    assert_true(profile.modes[KIND_GENERATE] && profile.modes[KIND_INFILL]);
    assert_false(profile.modes[KIND_EMBED] || profile.modes[KIND_CLASSIFY]);
    assert_int_equal(profile.embed_attention, ATTENTION_BIDIRECTIONAL);
    assert_int_equal(profile.prompt_attention, ATTENTION_BIDIRECTIONAL);
    assert_int_equal(profile.pooling, POOLING_EOS);
    assert_true(profile.pool_skip_instruction);
    assert_int_equal(profile.token_offset, -1);
    assert_int_equal(profile.dimension_count, 3);
    assert_int_equal(profile.dimensions[2], 256);
    assert_int_equal(profile.prompt_count, 2);
    assert_true(profile.vector_norm);
    assert_string_equal(profile.default_prompt, "document");
    assert_string_equal(profile.instruction, "Do {instruction}: {text}, {text}");
    assert_string_equal(profile.prompts[0].name, "query");
    assert_string_equal(profile.prompts[0].text, "query: {text}");
    assert_int_equal(profile.infill_mode_count, 4);
    assert_int_equal(profile.infill_modes[0], INFILL_HYBRID);
    assert_int_equal(profile.infill_modes[3], INFILL_GLM);
    assert_int_equal(profile.gap_positions, GAP_COLLAPSED);
    assert_string_equal(profile.span_end, "</s>");
    assert_int_equal(profile.fim.style, FIM_INCODER);
    assert_int_equal(profile.fim.order, FIM_SPM);
    assert_string_equal(profile.fim.middle, "<M>");
    assert_int_equal(profile.bos, BOS_NEVER);
    assert_string_equal(profile.mask, "_");
    assert_int_equal(profile.end_count, 2);
    assert_string_equal(profile.ends[1], "<eot>");
    assert_true(profile.classify.stated);
    assert_string_equal(profile.classify.name, "two");
    assert_string_equal(profile.classify.template_text, "Judge: {prompt}");
    assert_int_equal(profile.classify.field_count, 1);
    assert_int_equal(profile.classify.fields[0].value_count, 3);
    assert_string_equal(profile.classify.fields[0].values[0].meaning, "harmful");
    assert_string_equal(profile.classify.fields[0].values[1].meaning, "no");
    assert_string_equal(profile.classify.fields[0].values[2].meaning, "");
    assert_true(profile.infill_modes_stated);
    assert_true(profile.adapters[KIND_EMBED].stated && profile.adapters[KIND_GENERATE].stated);
    assert_false(profile.adapters[KIND_INFILL].stated);
    assert_int_equal(profile.adapters[KIND_EMBED].count, 2);
    assert_int_equal(profile.adapters[KIND_GENERATE].count, 0);
    assert_string_equal(profile.adapters[KIND_EMBED].paths[0], "mntp");
    assert_string_equal(profile.adapters[KIND_EMBED].paths[1], "simcse.gguf");
}

/* In the text of a row, ' stands for ". */
static const struct {
    const char *text, *where; /* where without the source */
    enum err err;
} mistakes[] = {
    {"", "", ERR_FORMAT},
    {"{", "", ERR_FORMAT},
    {"[]", "", ERR_FORMAT},
    {"{} x", "", ERR_FORMAT},
    {"{'pooling':'mean','pooling':'cls'}", "", ERR_FORMAT},
    {"{'poling':'mean'}", "poling", ERR_FORMAT},
    {"{'modes':[]}", "modes", ERR_FORMAT},
    {"{'modes':'embed'}", "modes", ERR_FORMAT},
    {"{'modes':null}", "modes", ERR_FORMAT},
    {"{'modes':['embed','chat']}", "modes[1]", ERR_FORMAT},
    {"{'modes':['embed','embed']}", "modes[1]", ERR_FORMAT},
    {"{'modes':['embed','infill','generate','classify','embed']}", "modes", ERR_LIMIT},
    {"{'attention':'causal'}", "attention", ERR_FORMAT},
    {"{'attention':{'embed':'both'}}", "attention.embed", ERR_FORMAT},
    {"{'attention':{'chat':'causal'}}", "attention.chat", ERR_FORMAT},
    {"{'pooling':'rank'}", "pooling", ERR_FORMAT},
    {"{'pooling':1}", "pooling", ERR_FORMAT},
    {"{'pool_skip_instruction':1}", "pool_skip_instruction", ERR_FORMAT},
    {"{'token_offset':1}", "token_offset", ERR_FORMAT},
    {"{'token_offset':-2}", "token_offset", ERR_FORMAT},
    {"{'token_offset':0.0}", "token_offset", ERR_FORMAT},
    {"{'dimensions':[0]}", "dimensions[0]", ERR_FORMAT},
    {"{'dimensions':[64,65537]}", "dimensions[1]", ERR_FORMAT},
    {"{'dimensions':[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}", "dimensions", ERR_LIMIT},
    {"{'head':['dense']}", "head[0]", ERR_FORMAT},
    {"{'head':['layer_norm','layer_norm']}", "head", ERR_LIMIT},
    {"{'default_prompt':'q'}", "default_prompt", ERR_FORMAT},
    {"{'default_prompt':'p','prompts':{'q':'{text}'}}", "default_prompt", ERR_FORMAT},
    {"{'default_prompt':'','prompts':{'q':'{text}'}}", "default_prompt", ERR_FORMAT},
    {"{'instruction':'{text}'}", "instruction", ERR_FORMAT},
    {"{'instruction':'{instruction}'}", "instruction", ERR_FORMAT},
    {"{'instruction':'{instruction}{instruction}{text}'}", "instruction", ERR_FORMAT},
    {"{'prompts':{'q':'{instruction}{text}'}}", "prompts.q", ERR_FORMAT},
    {"{'adapters':[]}", "adapters", ERR_FORMAT},
    {"{'adapters':{'embed':'mntp'}}", "adapters.embed", ERR_FORMAT},
    {"{'adapters':{'embed':['mntp',1]}}", "adapters.embed[1]", ERR_FORMAT},
    {"{'adapters':{'embed':['']}}", "adapters.embed[0]", ERR_FORMAT},
    {"{'adapters':{'embed':['a','b','a']}}", "adapters.embed[2]", ERR_FORMAT},
    {"{'adapters':{'chat':[]}}", "adapters.chat", ERR_FORMAT},
    {"{'prompts':{'q':'query: '}}", "prompts.q", ERR_FORMAT},
    {"{'prompts':{'q':'{text}{text}{text}'}}", "prompts.q", ERR_FORMAT},
    {"{'prompts':{'q':''}}", "prompts.q", ERR_FORMAT},
    {"{'prompts':{'':'{text}'}}", "prompts.", ERR_LIMIT},
    {"{'prompts':{'0123456789012345678901234567890x':'{text}'}}",
        "prompts.0123456789012345678901234567890x", ERR_LIMIT},
    {"{'infill':{'modes':[]}}", "infill.modes", ERR_FORMAT},
    {"{'infill':{'modes':['fim','fim']}}", "infill.modes[1]", ERR_FORMAT},
    {"{'infill':{'modes':['magnet']}}", "infill.modes[0]", ERR_FORMAT},
    {"{'infill':{'gap_positions':'in place'}}", "infill.gap_positions", ERR_FORMAT},
    {"{'infill':{'span_end':''}}", "infill.span_end", ERR_FORMAT},
    {"{'infill':{'fim':{'order':'mps'}}}", "infill.fim.order", ERR_FORMAT},
    {"{'infill':{'fim':{'pre':'x'}}}", "infill.fim.pre", ERR_FORMAT},
    {"{'tokens':{'bos':'always'}}", "tokens.bos", ERR_FORMAT},
    {"{'tokens':{'end':[1]}}", "tokens.end[0]", ERR_FORMAT},
    {"{'tokens':{'eos':'</s>'}}", "tokens.eos", ERR_FORMAT},
    {"{'classify':{}}", "classify", ERR_FORMAT},
    {"{'classify':{'name':'x','template':'{prompt}'}}", "classify", ERR_FORMAT},
    {"{'classify':{'name':'x','template':'no place','fields':[]}}", "classify.template",
        ERR_FORMAT},
    {"{'classify':{'name':'x','score':'first'}}", "classify.score", ERR_FORMAT},
    {"{'classify':{'name':'x','fields':[{'name':'n','label':'l','values':['a']}]}}",
        "classify.fields[0]", ERR_FORMAT},
    {"{'classify':{'name':'x','fields':[{'name':'n','label':'l','values':['a','a']}]}}",
        "classify.fields[0].values[1]", ERR_FORMAT},
    {"{'classify':{'name':'x','fields':[{'map':{'c':'d'},'name':'n','label':'l',"
     "'values':['a','b']}]}}",
        "classify.fields[0].map.c", ERR_FORMAT},
    {"{'x':[[[[[[[[[[]]]]]]]]]]}", "", ERR_LIMIT},
    {"{'pooling':'\\u0000'}", "", ERR_FORMAT},
    {"{'pooling':'\xFF'}", "", ERR_FORMAT},
};

static void test_mistakes(void **state)
{
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        char text[512];
        char where[ERR_WHERE_BYTES];
        struct err_info info = {0};
        snprintf(text, sizeof(text), "%s", mistakes[i].text);
        for (char *c = text; *c != '\0'; c++) {
            *c = *c == '\'' ? '"' : *c;
        }
        const bool at_root = mistakes[i].where[0] == '\0';
        snprintf(
            where, sizeof(where), at_root ? "%s%s" : "%s: %s", "x.profile.json", mistakes[i].where);
        const enum err err = parse(text, &info);
        if (err != mistakes[i].err || strcmp(info.where, where) != 0) {
            fail_msg("%s: %s at %s (%s), expected %s at %s", text, err_word(err), info.where,
                info.text, err_word(mistakes[i].err), where);
        }
    }
}

/* Arrays of the struct are filled to their end and no further. */
static void test_limits(void **state)
{
    for (int count = LIMIT_PROMPTS; count <= LIMIT_PROMPTS + 1; count++) {
        char text[4096] = "{\"prompts\":{";
        for (int i = 0; i < count; i++) {
            const size_t used = strlen(text);
            snprintf(text + used, sizeof(text) - used, "%s\"p%d\":\"{text}\"", i ? "," : "", i);
        }
        strcat(text, "}}");
        assert_int_equal(parse(text, NULL), count == LIMIT_PROMPTS ? ERR_OK : ERR_LIMIT);
    }
    for (int count = LIMIT_END_TOKENS; count <= LIMIT_END_TOKENS + 1; count++) {
        char text[4096] = "{\"tokens\":{\"end\":[";
        for (int i = 0; i < count; i++) {
            strcat(text, i ? ",\"e\"" : "\"e\"");
        }
        strcat(text, "]}}");
        assert_int_equal(parse(text, NULL), count == LIMIT_END_TOKENS ? ERR_OK : ERR_LIMIT);
    }
    for (int count = LIMIT_ADAPTERS; count <= LIMIT_ADAPTERS + 1; count++) {
        char text[256] = "{\"adapters\":{\"embed\":[";
        for (int i = 0; i < count; i++) {
            const size_t used = strlen(text);
            snprintf(text + used, sizeof(text) - used, "%s\"a%d\"", i ? "," : "", i);
        }
        strcat(text, "]}}");
        assert_int_equal(parse(text, NULL), count == LIMIT_ADAPTERS ? ERR_OK : ERR_LIMIT);
    }
    for (int bytes = PROFILE_ADAPTER_BYTES - 1; bytes <= PROFILE_ADAPTER_BYTES; bytes++) {
        char text[512];
        snprintf(text, sizeof(text), "{\"adapters\":{\"embed\":[\"%0*d\"]}}", bytes, 0);
        assert_int_equal(parse(text, NULL), bytes < PROFILE_ADAPTER_BYTES ? ERR_OK : ERR_LIMIT);
    }
    for (int bytes = PROFILE_TEXT_BYTES - 1; bytes <= PROFILE_TEXT_BYTES; bytes++) {
        char text[4096];
        snprintf(text, sizeof(text), "{\"prompts\":{\"q\":\"{text}%0*d\"}}", bytes - 6, 0);
        assert_int_equal(parse(text, NULL), bytes < PROFILE_TEXT_BYTES ? ERR_OK : ERR_LIMIT);
    }
}

/* ---- defaults ------------------------------------------------------------------------------- */

enum stated { UNSTATED = -1 };

static struct gguf *open_with(int pooling, int causal, const char *key, unsigned char **out_bytes)
{
    struct gguf_writer w;
    struct gguf *gguf = NULL;
    size_t count = 0;
    gguf_writer_init(&w);
    gguf_writer_string(&w, "general.architecture", "llama");
    if (pooling != UNSTATED) {
        gguf_writer_u32(&w, "llama.pooling_type", (uint32_t)pooling);
    }
    if (causal != UNSTATED) {
        gguf_writer_bool(&w, "llama.attention.causal", causal != 0);
    }
    if (key != NULL) {
        gguf_writer_string(&w, "magnetd.profile", key);
    }
    *out_bytes = gguf_writer_finish(&w, &count);
    gguf_writer_free(&w);
    assert_int_equal(gguf_open_memory(*out_bytes, count, &gguf, NULL), ERR_OK);
    return gguf;
}

static void test_defaults(void **state)
{
    static const struct {
        int pooling_type, causal;
        enum pooling pooling;
        enum attention attention;
        enum err err;
    } rows[] = {
        {UNSTATED, UNSTATED, POOLING_MEAN, ATTENTION_BIDIRECTIONAL, ERR_OK},
        {UNSTATED, 1, POOLING_MEAN, ATTENTION_BIDIRECTIONAL, ERR_OK},
        {UNSTATED, 0, POOLING_MEAN, ATTENTION_BIDIRECTIONAL, ERR_OK},
        {0, UNSTATED, POOLING_MEAN, ATTENTION_BIDIRECTIONAL, ERR_OK},
        {1, UNSTATED, POOLING_MEAN, ATTENTION_CAUSAL, ERR_OK},
        {2, 0, POOLING_CLS, ATTENTION_BIDIRECTIONAL, ERR_OK},
        {3, UNSTATED, POOLING_LAST, ATTENTION_CAUSAL, ERR_OK},
        {3, 0, POOLING_LAST, ATTENTION_BIDIRECTIONAL, ERR_OK},
        {4, UNSTATED, 0, 0, ERR_UNSUPPORTED},
        {5, UNSTATED, 0, 0, ERR_FORMAT},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        unsigned char *bytes;
        struct err_info info = {0};
        struct gguf *gguf = open_with(rows[i].pooling_type, rows[i].causal, NULL, &bytes);
        assert_int_equal(profile_read(NULL, NULL, gguf, &profile, &info), rows[i].err);
        if (rows[i].err == ERR_OK) {
            assert_int_equal(profile.source, PROFILE_NONE);
            assert_int_equal(profile.pooling, rows[i].pooling);
            assert_int_equal(profile.embed_attention, rows[i].attention);
            assert_int_equal(profile.prompt_attention, ATTENTION_CAUSAL);
            assert_true(profile.modes[KIND_EMBED] && profile.modes[KIND_CLASSIFY]);
            assert_int_equal(profile.infill_modes[0], INFILL_FIM);
            assert_int_equal(profile.infill_modes[2], INFILL_HYBRID);
            assert_false(profile.classify.stated);
        } else {
            assert_string_equal(info.where, "llama.pooling_type");
        }
        gguf_close(gguf);
        free(bytes);
    }
}

/* ---- where a profile lies ------------------------------------------------------------------- */

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void test_places(void **state)
{
    char folder[] = "/tmp/profile-XXXXXX";
    char model[64];
    char beside[64];
    char other[64];
    unsigned char *bytes;
    struct err_info info = {0};
    assert_non_null(mkdtemp(folder));
    snprintf(model, sizeof(model), "%s/a.b.gguf", folder);
    snprintf(beside, sizeof(beside), "%s/a.b.profile.json", folder);
    snprintf(other, sizeof(other), "%s/other.json", folder);
    write_text(other, "{\"pooling\":\"eos\"}");
    struct gguf *gguf = open_with(3, UNSTATED, "{\"pooling\":\"cls\"}", &bytes);

    assert_int_equal(profile_read(model, NULL, gguf, &profile, &info), ERR_OK);
    assert_int_equal(profile.source, PROFILE_KEY);
    assert_int_equal(profile.pooling, POOLING_CLS);
    assert_int_equal(profile.embed_attention, ATTENTION_CAUSAL); /* defaults fill the rest */

    write_text(beside, "{\"pooling\":\"weighted_mean\"}");
    assert_int_equal(profile_read(model, NULL, gguf, &profile, &info), ERR_OK);
    assert_int_equal(profile.source, PROFILE_FILE);
    assert_int_equal(profile.pooling, POOLING_WEIGHTED_MEAN);

    assert_int_equal(profile_read(model, other, gguf, &profile, &info), ERR_OK);
    assert_int_equal(profile.pooling, POOLING_EOS);

    write_text(beside, "{\"poling\":\"mean\"}");
    assert_int_equal(profile_read(model, NULL, gguf, &profile, &info), ERR_FORMAT);
    assert_string_equal(info.where, "a.b.profile.json: poling");
    unlink(beside);
    assert_int_equal(symlink(beside, beside), 0); /* a loop: there, but not readable */
    assert_int_equal(profile_read(model, NULL, gguf, &profile, &info), ERR_IO);
    assert_string_equal(info.where, "a.b.profile.json");
    assert_int_equal(profile_read(model, "/tmp/none.json", gguf, &profile, &info), ERR_IO);
    assert_string_equal(info.where, "none.json");
    assert_int_equal(profile_read(model, folder, gguf, &profile, &info), ERR_IO);

    assert_int_equal(truncate(other, (1 << 20) + 1), 0);
    assert_int_equal(profile_read(model, other, gguf, &profile, &info), ERR_LIMIT);
    unlink(beside);
    unlink(other);
    rmdir(folder);
    gguf_close(gguf);
    free(bytes);

    gguf = open_with(3, UNSTATED, "{\"x\":1}", &bytes);
    assert_int_equal(profile_read(NULL, NULL, gguf, &profile, &info), ERR_FORMAT);
    assert_string_equal(info.where, "magnetd.profile: x");
    gguf_close(gguf);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
