/*
 * Goal: a profile becomes what the endpoints read, and one that asks for something the engine does
 * not do is refused by the key's name.
 * Method: a vocabulary of a few pieces built in memory, with and without fill-in-the-middle tokens;
 * a table of profiles with one statement each.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "engine/base/mem.h"
#include "engine/profile_apply.h"
#include "tests/unit/load/gguf_writer.h"

/* Spellings of three tokens that may mark a gap. */
static const char *const STAR_MARKS[3] = {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"};
static const char *const PLAIN_MARKS[3] = {"fim_prefix>", "fim_suffix>", "fim_middle>"};

/* SentencePiece: unknown, BOS and EOS, one word, the byte tokens it falls back on, the marks. */
static void write_vocabulary(struct gguf_writer *w, const char *const marks[3])
{
    enum { WORDS = 4, BYTES = 256, COUNT = WORDS + BYTES + 3 };
    static char byte_pieces[BYTES][8];
    const char *pieces[COUNT] = {"<unk>", "<s>", "</s>", "a"};
    int32_t types[COUNT] = {2, 3, 3, 1};
    float scores[COUNT] = {0};
    for (int i = 0; i < BYTES; i++) {
        snprintf(byte_pieces[i], sizeof(byte_pieces[i]), "<0x%02X>", (unsigned)i);
        pieces[WORDS + i] = byte_pieces[i];
        types[WORDS + i] = 6;
    }
    for (int i = 0; i < 3; i++) {
        pieces[WORDS + BYTES + i] = marks[i];
        types[WORDS + BYTES + i] = marks == PLAIN_MARKS ? 1 : 3;
    }
    gguf_writer_string(w, "general.architecture", "llama");
    gguf_writer_string(w, "tokenizer.ggml.model", "llama");
    gguf_writer_strings(w, "tokenizer.ggml.tokens", pieces, COUNT);
    gguf_writer_array(w, "tokenizer.ggml.scores", GGUF_F32, scores, COUNT, sizeof(scores));
    gguf_writer_array(w, "tokenizer.ggml.token_type", GGUF_I32, types, COUNT, sizeof(types));
    gguf_writer_u32(w, "tokenizer.ggml.unknown_token_id", 0);
    gguf_writer_u32(w, "tokenizer.ggml.bos_token_id", 1);
    gguf_writer_u32(w, "tokenizer.ggml.eos_token_id", 2);
    gguf_writer_bool(w, "tokenizer.ggml.add_bos_token", true);
}

static bool fills_in(const struct model_info *model, enum infill_mode mode)
{
    for (int32_t i = 0; i < model->infill_mode_count; i++) {
        if (model->infill_modes[i] == mode) {
            return true;
        }
    }
    return false;
}

/* Applies `text` (' stands for ", NULL = no profile) to a fresh model_info. */
static enum err apply_marked(
    const char *text, const char *const marks[3], struct model_info *model, struct err_info *info)
{
    char json[512];
    struct gguf_writer w;
    struct gguf *gguf = NULL;
    struct tokenizer *tokenizer = NULL;
    size_t count = 0;
    gguf_writer_init(&w);
    write_vocabulary(&w, marks);
    if (text != NULL) {
        snprintf(json, sizeof(json), "%s", text);
        for (char *c = json; *c != '\0'; c++) {
            *c = *c == '\'' ? '"' : *c;
        }
        gguf_writer_string(&w, "magnetd.profile", json);
    }
    unsigned char *bytes = gguf_writer_finish(&w, &count);
    gguf_writer_free(&w);
    assert_int_equal(gguf_open_memory(bytes, count, &gguf, info), ERR_OK);
    if (tokenizer_open_gguf(gguf, &tokenizer, info) != ERR_OK) {
        fail_msg("%s: %s", info->where, info->text);
    }
    *model = (struct model_info){.embeds_only = model->embeds_only, .vector = 8};
    const enum err err = profile_apply("/nonexistent/x.gguf", NULL, gguf, tokenizer, model, info);
    tokenizer_close(tokenizer);
    gguf_close(gguf);
    free(bytes);
    return err;
}

static enum err apply(const char *text, bool fim, struct model_info *model, struct err_info *info)
{
    return apply_marked(text, fim ? STAR_MARKS : PLAIN_MARKS, model, info);
}

/* Mode fim needs a layout that is known: two of three tokens are none, but for Codestral. */
static void test_fim_vocabularies(void **state)
{
    static const struct {
        const char *marks[3];
        bool fim;
    } cases[] = {
        {{"[PREFIX]", "[SUFFIX]", "<x>"}, true},
        {{"<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>"}, true},
        {{"<[fim-prefix]>", "<[fim-suffix]>", "<x>"}, false},
        {{"<fim_prefix>", "<fim_suffix>", "<x>"}, false},
        {{"<fim_prefix>", "<fim_middle>", "<x>"}, false}, {{"[PREFIX]", "[MIDDLE]", "<x>"}, false},
        {{"<|mask:0|>", "<|mask:1|>", "<|endofmask|>"}, false}, /* InCoder's form is not built */
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct model_info model = {0};
        struct err_info info = {0};
        assert_int_equal(apply_marked(NULL, cases[i].marks, &model, &info), ERR_OK);
        assert_int_equal(fills_in(&model, INFILL_FIM), cases[i].fim);
    }
}

static void test_without_a_profile(void **state)
{
    for (int fim = 0; fim < 2; fim++) {
        struct model_info model = {0};
        struct err_info info = {0};
        assert_int_equal(apply(NULL, fim != 0, &model, &info), ERR_OK);
        assert_true(model.can_generate && model.can_embed && model.can_infill);
        assert_true(model.can_classify);
        assert_int_equal(model.embed_attention, ATTENTION_BIDIRECTIONAL);
        assert_int_equal(model.prompt_attention, ATTENTION_CAUSAL);
        assert_int_equal(model.embed_pooling, POOLING_MEAN);
        static const enum infill_mode modes[] = {INFILL_FIM, INFILL_RERANK, INFILL_HYBRID};
        const int skipped = fim != 0 ? 0 : 1;
        assert_int_equal(model.infill_mode_count, 3 - skipped);
        assert_memory_equal(
            model.infill_modes, modes + skipped, sizeof(modes) - (size_t)skipped * sizeof(*modes));
        assert_false(model.calibrated);
        assert_string_equal(model.moderation_profile, "wildguard");
        assert_int_equal(model.prompt_count, 0);
    }
}

static void test_with_a_profile(void **state)
{
    struct model_info model = {0};
    struct err_info info = {0};
    const enum err err = apply("{'modes':['embed','infill'],'pooling':'eos','token_offset':-1,"
                               "'dimensions':[8,4],'head':['layer_norm'],'default_prompt':'q',"
                               "'instruction':'{instruction}|{text}',"
                               "'attention':{'prompt':'bidirectional'},"
                               "'pool_skip_instruction':true,'prompts':{'q':'query: {text}'},"
                               "'infill':{'modes':['hybrid','rerank','fim'],'span_end':'</s>',"
                               "'fim':{'prefix':'<fim_prefix>'}},"
                               "'tokens':{'bos':'add','mask':'a','end':'</s>'},"
                               "'classify':{'name':'wildguard'}}",
        true, &model, &info);
    if (err != ERR_OK) {
        fail_msg("%s: %s", info.where, info.text);
    }
    assert_true(model.can_embed && model.can_infill);
    assert_false(model.can_generate || model.can_classify);
    assert_int_equal(model.embed_pooling, POOLING_EOS);
    assert_int_equal(model.prompt_attention, ATTENTION_BIDIRECTIONAL);
    assert_true(model.pool_skip_instruction);
    assert_int_equal(model.infill_mode_count, 2); /* rerank wants a causal prompt */
    assert_int_equal(model.infill_modes[0], INFILL_HYBRID);
    assert_int_equal(model.infill_modes[1], INFILL_FIM);
    assert_true(model.calibrated);
    assert_int_equal(model.token_offset, -1);
    assert_int_equal(model.dimension_count, 2);
    assert_int_equal(model.dimensions[1], 4);
    assert_true(model.vector_norm);
    assert_string_equal(model.default_prompt, "q");
    assert_string_equal(model.instruction, "{instruction}|{text}");
    assert_int_equal(model.prompt_count, 1);
    assert_string_equal(model.prompts[0].name, "q");
    assert_string_equal(model.prompts[0].text, "query: {text}");
}

/* A network without a head embeds, and a profile that wants more of it is wrong. */
static void test_without_a_head(void **state)
{
    static const struct {
        const char *text;
        enum err err;
        enum attention attention;
    } rows[] = {
        {NULL, ERR_OK, ATTENTION_BIDIRECTIONAL},
        {"{'pooling':'cls'}", ERR_OK, ATTENTION_BIDIRECTIONAL},
        {"{'modes':['embed']}", ERR_OK, ATTENTION_BIDIRECTIONAL},
        {"{'attention':{'embed':'causal'}}", ERR_OK, ATTENTION_CAUSAL},
        {"{'modes':['embed','generate']}", ERR_FORMAT, ATTENTION_BIDIRECTIONAL},
        {"{'modes':['classify']}", ERR_FORMAT, ATTENTION_BIDIRECTIONAL},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct model_info model = {.embeds_only = true};
        struct err_info info = {0};
        assert_int_equal(apply(rows[i].text, true, &model, &info), rows[i].err);
        if (rows[i].err != ERR_OK) {
            assert_string_equal(info.where, "modes");
            continue;
        }
        assert_true(model.can_embed);
        assert_false(model.can_generate || model.can_infill || model.can_classify);
        assert_int_equal(model.embed_attention, rows[i].attention);
    }
}

static void test_refusals(void **state)
{
    static const struct {
        const char *text, *where;
        enum err err;
    } rows[] = {
        {"{'x':1}", "magnetd.profile: x", ERR_FORMAT},
        {"{'dimensions':[8,9]}", "dimensions", ERR_FORMAT}, /* of 8 */
        {"{'infill':{'gap_positions':'collapsed'}}", "infill.gap_positions", ERR_UNSUPPORTED},
        {"{'infill':{'modes':['glm']}}", "infill.modes", ERR_UNSUPPORTED},
        {"{'infill':{'modes':['rerank']},'attention':{'prompt':'bidirectional'}}", "infill.modes",
            ERR_FORMAT},
        {"{'infill':{'modes':['fim']}}", "infill.modes", ERR_FORMAT},
        {"{'infill':{'span_end':'a'}}", "infill.span_end", ERR_UNSUPPORTED},
        {"{'infill':{'span_end':'none'}}", "infill.span_end", ERR_FORMAT},
        {"{'infill':{'fim':{'style':'incoder'}}}", "infill.fim.style", ERR_UNSUPPORTED},
        {"{'infill':{'fim':{'order':'spm'}}}", "infill.fim.order", ERR_UNSUPPORTED},
        {"{'infill':{'fim':{'prefix':'a'}}}", "infill.fim.prefix", ERR_UNSUPPORTED},
        {"{'infill':{'fim':{'middle':'b'}}}", "infill.fim.middle", ERR_FORMAT},
        {"{'infill':{'fim':{'end':'a'}}}", "infill.fim.end", ERR_UNSUPPORTED},
        {"{'tokens':{'bos':'never'}}", "tokens.bos", ERR_UNSUPPORTED},
        {"{'tokens':{'mask':'b'}}", "tokens.mask", ERR_FORMAT},
        {"{'tokens':{'end':'a'}}", "tokens.end", ERR_UNSUPPORTED},
        {"{'tokens':{'end':['</s>','</s>']}}", "tokens.end", ERR_UNSUPPORTED},
        {"{'classify':{'name':'llama-guard'}}", "classify.name", ERR_UNSUPPORTED},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct model_info model = {0};
        struct err_info info = {0};
        const enum err err = apply(rows[i].text, false, &model, &info);
        if (err != rows[i].err || strcmp(info.where, rows[i].where) != 0) {
            fail_msg("%s: %s at %s (%s), expected %s at %s", rows[i].text, err_word(err),
                info.where, info.text, err_word(rows[i].err), rows[i].where);
        }
        assert_false(model.can_embed || model.infill_mode_count > 0); /* written on success only */
    }
    assert_int_equal(mem_bytes(MEM_OTHER), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_a_profile),
        cmocka_unit_test(test_fim_vocabularies),
        cmocka_unit_test(test_with_a_profile),
        cmocka_unit_test(test_without_a_head),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
