/*
 * Goal: a file is run as it means or refused by name, and what it takes is what was stated.
 * Method: a good tiny file with one thing changed at a time. Named changes must be refused with the
 * right code and place; every size and every real number takes a dozen odd values, of which each
 * is refused with a place or gives a network whose forward pass stays within its memory (ASan);
 * every allocation fails once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "engine/base/mem.h"
#include "tests/unit/model/tiny_llama.h"

/* ---- opening one changed file -------------------------------------------------------------- */

struct opened {
    struct gguf_writer writer;
    unsigned char *bytes;
    struct gguf *gguf;
    struct kernels kernels;
    struct model *model;
    struct err_info info;
};

/* The writer of a good file but for `omit`, to be added to. */
static struct gguf_writer *begin(
    struct opened *opened, struct tiny_options options, const char *omit)
{
    memset(opened, 0, sizeof(*opened));
    options.omit = omit;
    tiny_write(&opened->writer, &options);
    return &opened->writer;
}

static enum err finish(struct opened *opened, bool dry)
{
    size_t count = 0;
    opened->bytes = gguf_writer_finish(&opened->writer, &count);
    gguf_writer_free(&opened->writer);
    enum err err = gguf_open_memory(opened->bytes, count, &opened->gguf, &opened->info);
    if (err != ERR_OK) {
        return err;
    }
    assert_int_equal(kernels_select("ref", &opened->kernels, NULL), ERR_OK);
    return model_open(opened->gguf, &opened->kernels, NULL, dry, &opened->model, &opened->info);
}

static void drop(struct opened *opened)
{
    model_close(opened->model);
    gguf_close(opened->gguf);
    free(opened->bytes);
}

/* Checking alone and loading must give the same answer. */
static void expect(struct opened *opened, enum err code, const char *where)
{
    enum err err = finish(opened, false);
    if (err != code || (code != ERR_OK && strcmp(opened->info.where, where) != 0)) {
        fail_msg("%s: got %s at \"%s\" (%s)", where, err_word(err), opened->info.where,
            opened->info.text);
    }
    struct model *dry = NULL;
    struct err_info info;
    if (opened->gguf != NULL) {
        assert_int_equal(model_open(opened->gguf, &opened->kernels, NULL, true, &dry, &info), code);
        assert_true(code == ERR_OK || strcmp(info.where, where) == 0);
        model_close(dry);
    }
    drop(opened);
}

/* ---- what a good file says ----------------------------------------------------------------- */

static void test_info(void **state)
{
    struct tiny_options options = tiny_default();
    options.type = TENSOR_Q8_0;
    options.untied = true;
    struct opened opened;
    (void)begin(&opened, options, NULL);
    assert_int_equal(finish(&opened, false), ERR_OK);
    const struct model_info *info = model_info(opened.model);
    assert_string_equal(info->name, "tiny llama");
    assert_string_equal(info->architecture, "llama");
    assert_string_equal(info->weights_type, "q8_0");
    assert_int_equal(info->layers, 3);
    assert_int_equal(info->hidden, 64);
    assert_int_equal(info->heads, 4);
    assert_int_equal(info->heads_kv, 2);
    assert_int_equal(info->head_dim, 16);
    assert_int_equal(info->ffn, 96);
    assert_int_equal(info->vocab, 80);
    assert_int_equal(info->context_trained, 512);
    uint64_t layer = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96 + 2 * 64;
    assert_int_equal(info->parameters, 3 * layer + 2 * 80 * 64 + 64);
    assert_int_equal(info->file_bytes, gguf_file_bytes(opened.gguf));
    assert_int_equal(model_units(opened.model), 6);
    drop(&opened);
}

/* A name that is no text is no name to leave out. */
static void test_name_of_wrong_type(void **state)
{
    struct opened opened;
    gguf_writer_u32(begin(&opened, tiny_default(), "general.name"), "general.name", 7);
    expect(&opened, ERR_FORMAT, "general.name");
}

static void test_names(void **state)
{
    static char wide[300];
    memset(wide, 'x', 126);
    memcpy(wide + 126, "\xc3\xa9 and more", 12); /* the limit is inside the character */
    const char *cases[][2] = {
        {"Some Model 1B", "Some Model 1B"},
        {"/home/someone/models/thing", "thing"},
        {"C:\\models\\thing", "thing"},
        {"a\nb\x7f\x01", "ab"},
        {"", "llama"},
        {"ends in/", "llama"},
        {wide, NULL},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct opened opened;
        gguf_writer_string(
            begin(&opened, tiny_default(), "general.name"), "general.name", cases[i][0]);
        assert_int_equal(finish(&opened, true), ERR_OK);
        const char *name = model_info(opened.model)->name;
        if (cases[i][1] != NULL) {
            assert_string_equal(name, cases[i][1]);
        } else {
            assert_int_equal(strlen(name), 126);
        }
        drop(&opened);
    }
}

/* ---- sizes --------------------------------------------------------------------------------- */

static void test_stated_bytes(void **state)
{
    const enum tensor_type types[] = {TENSOR_F32, TENSOR_F16, TENSOR_Q8_0, TENSOR_Q4_1};
    for (size_t i = 0; i < ARRAY_COUNT(types); i++) {
        struct tiny_options options = tiny_default();
        options.type = types[i];
        options.untied = i % 2 == 0;
        options.rope_divisors = i >= 2;
        struct opened dry, real;
        uint64_t before = mem_bytes(MEM_WEIGHTS);
        (void)begin(&dry, options, NULL);
        assert_int_equal(finish(&dry, true), ERR_OK);
        assert_int_equal(mem_bytes(MEM_WEIGHTS), before);
        (void)begin(&real, options, NULL);
        assert_int_equal(finish(&real, false), ERR_OK);
        assert_int_equal(mem_bytes(MEM_WEIGHTS) - before, model_bytes(real.model));
        assert_int_equal(model_bytes(dry.model), model_bytes(real.model));
        const int32_t tiles[] = {1, 2, 100, 4096};
        for (size_t t = 0; t < ARRAY_COUNT(tiles); t++) {
            struct scratch *scratch;
            assert_int_equal(scratch_open(real.model, tiles[t], &scratch), ERR_OK);
            assert_int_equal(
                mem_bytes(MEM_SCRATCH), scratch_bytes(model_info(real.model), tiles[t]));
            scratch_close(scratch);
            assert_int_equal(mem_bytes(MEM_SCRATCH), 0);
        }
        drop(&real);
        drop(&dry);
        assert_int_equal(mem_bytes(MEM_WEIGHTS), before);
    }
}

static void test_every_allocation_fails_once(void **state)
{
    struct tiny_options options = tiny_default();
    options.untied = options.rope_divisors = true;
    struct opened opened;
    (void)begin(&opened, options, NULL);
    assert_int_equal(finish(&opened, true), ERR_OK);
    model_close(opened.model);
    uint64_t before = mem_bytes(MEM_WEIGHTS) + mem_bytes(MEM_OTHER);
    uint64_t nth = 1;
    for (;; nth++) {
        struct model *model = NULL;
        mem_fail_after(nth, 0);
        enum err err = model_open(opened.gguf, &opened.kernels, NULL, false, &model, &opened.info);
        mem_fail_after(0, 0);
        if (err == ERR_OK) {
            model_close(model);
            break;
        }
        assert_int_equal(err, ERR_NO_MEMORY);
        assert_null(model);
        assert_int_equal(mem_bytes(MEM_WEIGHTS) + mem_bytes(MEM_OTHER), before);
    }
    assert_true(nth > 6); /* model, layers, block of weights, buffers, angles */
    opened.model = NULL;
    drop(&opened);
}

/* ---- refused by name ----------------------------------------------------------------------- */

static void test_what_is_not_built(void **state)
{
    const struct {
        const char *key;
        char type; /* u, f, b, s */
        double number;
        const char *text;
        enum err code;
    } cases[] = {
        {"llama.expert_count", 'u', 8, NULL, ERR_UNSUPPORTED},
        {"llama.expert_used_count", 'u', 2, NULL, ERR_UNSUPPORTED},
        {"llama.attention.max_alibi_bias", 'f', 8, NULL, ERR_UNSUPPORTED},
        {"llama.attention.clamp_kqv", 'f', 8, NULL, ERR_UNSUPPORTED},
        {"llama.attention.value_length", 'u', 8, NULL, ERR_UNSUPPORTED},
        {"llama.rope.scaling.type", 's', 0, "yarn", ERR_UNSUPPORTED},
        {"llama.rope.scaling.type", 's', 0, "linea", ERR_UNSUPPORTED},
        {"llama.rope.scaling.type", 's', 0, "", ERR_UNSUPPORTED},
        {"llama.rope.scaling.attn_factor", 'f', 2, NULL, ERR_UNSUPPORTED},
        {"llama.logit_scale", 'f', 0.25, NULL, ERR_UNSUPPORTED},
        {"llama.attn_logit_softcapping", 'f', 50, NULL, ERR_UNSUPPORTED},
        {"llama.final_logit_softcapping", 'f', 30, NULL, ERR_UNSUPPORTED},
        {"llama.use_parallel_residual", 'b', 1, NULL, ERR_UNSUPPORTED},
        {"llama.something_new", 'u', 0, NULL, ERR_UNSUPPORTED},
        {"split.count", 'u', 2, NULL, ERR_UNSUPPORTED},
        {"llama.expert_count", 'f', 0, NULL, ERR_FORMAT},
        {"llama.rope.scaling.type", 'u', 0, NULL, ERR_FORMAT},
        {"llama.rope.scaling.factor", 'f', 0, NULL, ERR_FORMAT},
        {"llama.rope.scaling.factor", 'f', (double)NAN, NULL, ERR_FORMAT},
        {"llama.rope.dimension_count", 'u', 15, NULL, ERR_FORMAT},
        {"llama.rope.dimension_count", 'u', 18, NULL, ERR_FORMAT},
        {"llama.rope.freq_base", 'f', 0, NULL, ERR_FORMAT},
        {"llama.rope.freq_base", 'f', (double)NAN, NULL, ERR_FORMAT},
        {"llama.attention.scale", 'f', -1, NULL, ERR_FORMAT},
        {"llama.attention.sliding_window", 'u', LIMIT_CONTEXT + 1, NULL, ERR_FORMAT},
        {"llama.vocab_size", 'u', 81, NULL, ERR_FORMAT},
        {"llama.vocab_size", 's', 0, "80", ERR_FORMAT},
        {"tokenizer.ggml.tokens", 's', 0, "no array", ERR_FORMAT},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct opened opened;
        struct gguf_writer *writer = begin(&opened, tiny_default(), NULL);
        switch (cases[i].type) {
        case 'u':
            gguf_writer_u32(writer, cases[i].key, (uint32_t)cases[i].number);
            break;
        case 'f':
            gguf_writer_f32(writer, cases[i].key, (float)cases[i].number);
            break;
        case 'b':
            gguf_writer_bool(writer, cases[i].key, cases[i].number > 0);
            break;
        default:
            gguf_writer_string(writer, cases[i].key, cases[i].text);
        }
        expect(&opened, cases[i].code, cases[i].key);
    }
}

/* A file with the keys of dense layers of these widths, 0 = none, and what is said of the first. */
static struct gguf_writer *begin_dense(
    struct opened *opened, const uint32_t widths[4], const char *activation, bool bias)
{
    static const char *const keys[] = {"llama.dense_2_feat_in", "llama.dense_2_feat_out",
        "llama.dense_3_feat_in", "llama.dense_3_feat_out"};
    static const float numbers[1 << 13];
    struct gguf_writer *writer = begin(opened, tiny_default(), NULL);
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++) {
        if (widths[i] > 0) {
            gguf_writer_u32(writer, keys[i], widths[i]);
        }
    }
    if (activation != NULL) {
        gguf_writer_string(writer, "llama.dense_2_activation", activation);
    }
    if (bias) {
        const int64_t shape[] = {widths[1]};
        gguf_writer_bool(writer, "llama.dense_2_bias", true);
        gguf_writer_tensor(writer, "dense_2.bias", TENSOR_F32, 1, shape, numbers);
    }
    const int64_t first[] = {64, widths[1]};
    const int64_t second[] = {widths[1], widths[3]};
    gguf_writer_tensor(writer, "dense_2.weight", TENSOR_F32, 2, first, numbers);
    if (widths[3] > 0) {
        gguf_writer_tensor(writer, "dense_3.weight", TENSOR_F32, 2, second, numbers);
    }
    return writer;
}

static void test_dense_head(void **state)
{
    const struct {
        uint32_t widths[4];
        const char *activation;
        bool bias;
        enum err code;
        const char *where;
    } cases[] = {
        {{64, 96, 96, 40}, NULL, true, ERR_OK, ""},
        {{64, 96, 96, 40}, "tanh", false, ERR_OK, ""},
        {{64, 96, 0, 0}, "identity", false, ERR_OK, ""},
        {{64, 96, 0, 0}, "gelu", false, ERR_UNSUPPORTED, "llama.dense_2_activation"},
        {{63, 96, 0, 0}, NULL, false, ERR_FORMAT, "llama.dense_2_feat_in"},
        {{64, 96, 95, 40}, NULL, false, ERR_FORMAT, "llama.dense_3_feat_in"},
        {{64, 96, 96, 0}, NULL, false, ERR_FORMAT, "llama.dense_3_feat_out"},
        {{0, 96, 0, 0}, NULL, false, ERR_FORMAT, "llama.dense_2_feat_in"},
        {{0, 0, 64, 40}, NULL, false, ERR_FORMAT, "llama.dense_3_feat_in"},
        {{64, LIMIT_HIDDEN + 1, 0, 0}, NULL, false, ERR_FORMAT, "llama.dense_2_feat_out"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct opened opened;
        uint32_t widths[4];
        memcpy(widths, cases[i].widths, sizeof(widths));
        if (widths[1] == 0 || widths[1] > LIMIT_HIDDEN) {
            gguf_writer_u32(begin(&opened, tiny_default(), NULL),
                widths[1] == 0 ? "llama.dense_3_feat_in" : "llama.dense_2_feat_out", widths[1]);
            if (widths[1] > 0) {
                gguf_writer_u32(&opened.writer, "llama.dense_2_feat_in", 64);
            }
        } else {
            (void)begin_dense(&opened, widths, cases[i].activation, cases[i].bias);
        }
        expect(&opened, cases[i].code, cases[i].where);
    }
    struct opened opened;
    (void)begin_dense(&opened, cases[0].widths, NULL, true);
    assert_int_equal(finish(&opened, false), ERR_OK);
    assert_int_equal(model_info(opened.model)->vector, 40);
    assert_int_equal(model_info(opened.model)->dense_widest, 96);
    struct scratch *scratch;
    for (int32_t tile = 1; tile <= 64; tile *= 8) { /* fewer rows than the head takes, and more */
        assert_int_equal(scratch_open(opened.model, tile, &scratch), ERR_OK);
        assert_int_equal(mem_bytes(MEM_SCRATCH), scratch_bytes(model_info(opened.model), tile));
        scratch_close(scratch);
    }
    drop(&opened);
    (void)begin_dense(&opened, cases[2].widths, NULL, false);
    gguf_writer_tensor(
        &opened.writer, "dense_2.bias", TENSOR_F32, 1, (const int64_t[]){96}, (const float[96]){0});
    expect(&opened, ERR_UNSUPPORTED, "dense_2.bias"); /* no key asks for it */
}

/* The only matrix of a file whose format has minima may be the head's: sums of inputs are prepared
 * for it, too. Its weights are all 1. */
static void test_dense_head_with_minima(void **state)
{
    enum { BLOCKS = 96 * 64 / 32, BLOCK_BYTES = 20, ROWS = 5 };
    static unsigned char weights[BLOCKS][BLOCK_BYTES]; /* 16 bits of d, then 1.0 as m, and no q */
    const int64_t shape[] = {64, 96};
    struct opened opened;
    struct threads *threads;
    struct scratch *scratch;
    double vectors[ROWS][96], *rows[ROWS];
    for (size_t i = 0; i < BLOCKS; i++) {
        weights[i][3] = 0x3c;
    }
    struct gguf_writer *writer = begin(&opened, tiny_default(), NULL);
    gguf_writer_u32(writer, "llama.dense_2_feat_in", 64);
    gguf_writer_u32(writer, "llama.dense_2_feat_out", 96);
    gguf_writer_tensor(writer, "dense_2.weight", TENSOR_Q4_1, 2, shape, weights);
    assert_int_equal(finish(&opened, true), ERR_OK);
    model_close(opened.model);
    assert_int_equal(kernels_select(NULL, &opened.kernels, NULL), ERR_OK);
    assert_int_equal(threads_open(1, &threads), ERR_OK);
    assert_int_equal(
        model_open(opened.gguf, &opened.kernels, threads, false, &opened.model, NULL), ERR_OK);
    assert_int_equal(scratch_open(opened.model, ROWS, &scratch), ERR_OK);
    for (int32_t r = 0; r < ROWS; r++) {
        rows[r] = vectors[r];
        for (int32_t i = 0; i < 64; i++) {
            vectors[r][i] = r + 1;
        }
    }
    model_dense(opened.model, scratch, threads, rows, ROWS);
    for (int32_t r = 0; r < ROWS; r++) {
        for (int32_t i = 0; i < 96; i++) {
            assert_true(vectors[r][i] == 64.0 * (r + 1));
        }
    }
    scratch_close(scratch);
    drop(&opened);
    threads_close(threads);
}

static void test_neutral_values(void **state)
{
    struct opened opened;
    struct gguf_writer *writer = begin(&opened, tiny_default(), NULL);
    gguf_writer_u32(writer, "llama.expert_count", 0);
    gguf_writer_u32(writer, "llama.expert_used_count", 0);
    gguf_writer_u32(writer, "llama.attention.sliding_window", 0);
    gguf_writer_f32(writer, "llama.logit_scale", 1);
    gguf_writer_f32(writer, "llama.final_logit_softcapping", 0);
    gguf_writer_bool(writer, "llama.use_parallel_residual", false);
    gguf_writer_bool(writer, "llama.attention.causal", false);
    gguf_writer_u32(writer, "llama.pooling_type", 1);
    gguf_writer_u32(writer, "llama.attention.key_length", 16);
    gguf_writer_u32(writer, "llama.attention.value_length", 16);
    gguf_writer_u32(writer, "llama.rope.dimension_count", 16);
    gguf_writer_u32(writer, "llama.vocab_size", 80);
    gguf_writer_string(writer, "llama.rope.scaling.type", "none");
    gguf_writer_f32(writer, "llama.rope.scaling.factor", 4);
    gguf_writer_u32(writer, "split.count", 1);
    gguf_writer_u32(writer, "other.expert_count", 8); /* another network's key */
    expect(&opened, ERR_OK, "");
}

static void test_tokens_that_do_not_match(void **state)
{
    const char *tokens[81];
    for (size_t i = 0; i < 81; i++) {
        tokens[i] = "x";
    }
    for (size_t count = 79; count <= 81; count++) {
        struct opened opened;
        gguf_writer_strings(
            begin(&opened, tiny_default(), NULL), "tokenizer.ggml.tokens", tokens, count);
        expect(&opened, count == 80 ? ERR_OK : ERR_FORMAT, "tokenizer.ggml.tokens");
    }
}

static void test_tensors(void **state)
{
    const char *needed[] = {"token_embd.weight", "output_norm.weight", "blk.0.attn_norm.weight",
        "blk.2.ffn_norm.weight", "blk.1.attn_q.weight", "blk.1.attn_k.weight",
        "blk.1.attn_v.weight", "blk.1.attn_output.weight", "blk.1.ffn_gate.weight",
        "blk.1.ffn_up.weight", "blk.2.ffn_down.weight"};
    struct opened opened;
    for (size_t i = 0; i < ARRAY_COUNT(needed); i++) {
        (void)begin(&opened, tiny_default(), needed[i]);
        expect(&opened, ERR_FORMAT, needed[i]);
        /* Another shape of as many numbers. */
        static const float zeros[80 * 96];
        const int64_t shape[] = {8, 12};
        gguf_writer_tensor(
            begin(&opened, tiny_default(), needed[i]), needed[i], TENSOR_F32, 2, shape, zeros);
        expect(&opened, ERR_FORMAT, needed[i]);
    }
    const char *unused[] = {"blk.0.attn_q.bias", "blk.0.ffn_gate_inp.weight",
        "blk.1.attn_q_norm.weight", "blk.3.attn_norm.weight", "rope_factors_long.weight",
        "output_norm.bias", "token_embd_norm.weight"};
    for (size_t i = 0; i < ARRAY_COUNT(unused); i++) {
        static const float zeros[64];
        const int64_t shape[] = {64};
        gguf_writer_tensor(
            begin(&opened, tiny_default(), NULL), unused[i], TENSOR_F32, 1, shape, zeros);
        expect(&opened, ERR_UNSUPPORTED, unused[i]);
    }
}

static void test_rope_divisors(void **state)
{
    const float bad[] = {0, -1, 1e30f, NAN};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        float divisors[8] = {1, 1, 1, 1, 1, bad[i], 1, 1};
        const int64_t shape[] = {8};
        struct opened opened;
        gguf_writer_tensor(begin(&opened, tiny_default(), NULL), "rope_freqs.weight", TENSOR_F32, 1,
            shape, divisors);
        enum err err = finish(&opened, false);
        assert_int_equal(err, isnan(bad[i]) ? ERR_NON_FINITE : ERR_FORMAT);
        assert_string_equal(opened.info.where, "rope_freqs.weight");
        drop(&opened);
    }
}

static void test_networks(void **state)
{
    const char *names[] = {"gpt2", "", "llama4", "llam", "LLAMA", "llama\n"};
    struct opened opened;
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        gguf_writer_string(begin(&opened, tiny_default(), "general.architecture"),
            "general.architecture", names[i]);
        expect(&opened, ERR_UNSUPPORTED, "general.architecture");
    }
    (void)begin(&opened, tiny_default(), "general.architecture");
    expect(&opened, ERR_FORMAT, "general.architecture");
}

/* At the limit a tensor of another shape is the complaint, one past it the key is. */
static void test_limits(void **state)
{
    const struct {
        const char *key;
        uint32_t limit;
    } cases[] = {
        {"llama.block_count", LIMIT_LAYERS},
        {"llama.embedding_length", LIMIT_HIDDEN},
        {"llama.feed_forward_length", LIMIT_FFN},
        {"llama.attention.head_count", LIMIT_HEADS},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        for (uint32_t past = 0; past <= 1; past++) {
            struct opened opened;
            struct gguf_writer *writer = begin(&opened, tiny_default(), cases[i].key);
            gguf_writer_u32(writer, cases[i].key, cases[i].limit + past);
            gguf_writer_u32(writer, "llama.attention.key_length", 16);
            assert_int_equal(finish(&opened, true), ERR_FORMAT);
            assert_int_equal(strcmp(opened.info.where, cases[i].key) == 0, past);
            drop(&opened);
        }
    }
    for (uint32_t past = 0; past <= 1; past++) {
        struct opened opened;
        gguf_writer_u32(begin(&opened, tiny_default(), NULL), "llama.attention.key_length",
            LIMIT_HEAD_DIM + past);
        assert_int_equal(finish(&opened, true), ERR_FORMAT);
        assert_int_equal(strcmp(opened.info.where, "llama.attention.key_length") == 0, past);
        drop(&opened);
    }
    uint16_t *rows = calloc(LIMIT_VOCAB + 1, sizeof(uint16_t));
    assert_non_null(rows);
    for (uint32_t past = 0; past <= 1; past++) {
        struct opened opened;
        const int64_t shape[] = {1, LIMIT_VOCAB + past};
        gguf_writer_tensor(begin(&opened, tiny_default(), "token_embd.weight"), "token_embd.weight",
            TENSOR_F16, 2, shape, rows);
        assert_int_equal(finish(&opened, true), ERR_FORMAT);
        assert_string_equal(opened.info.where, "token_embd.weight");
        assert_int_equal(strstr(opened.info.text, "must have") != NULL, past);
        drop(&opened);
    }
    free(rows);
}

/* ---- odd numbers --------------------------------------------------------------------------- */

static void forward_once(const struct model *model)
{
    enum { ROWS = 5 };
    const struct model_info *info = model_info(model);
    struct threads *threads;
    struct scratch *scratch;
    struct pages pages;
    struct slots slots;
    assert_int_equal(threads_open(1, &threads), ERR_OK);
    assert_int_equal(scratch_open(model, 3, &scratch), ERR_OK);
    assert_int_equal(
        pages_open(&pages, KV_F16, info->layers, info->heads_kv, info->head_dim, 16, 1), ERR_OK);
    assert_int_equal(slots_init(&slots, &pages, 16), ERR_OK);
    assert_true(slots_hold(&slots, ROWS));
    const int32_t tokens[ROWS] = {0, info->vocab - 1, 3, 4, 5};
    const int32_t positions[ROWS] = {0, 1, 2, 3, MODEL_POSITIONS - 1};
    memcpy(slots.positions, positions, sizeof(positions));
    size_t width = (size_t)info->hidden;
    float *numbers = calloc((ROWS + 1) * width + (size_t)info->vocab, sizeof(float));
    assert_non_null(numbers);
    float *x[ROWS];
    for (size_t i = 0; i < ROWS; i++) {
        x[i] = numbers + i * width;
    }
    const float *hidden = numbers + ROWS * width;
    struct row_read read = {.row = 4, .layer = -1, .hidden = numbers + ROWS * width};
    struct run run = {.row_count = ROWS, .slots = &slots};
    struct batch batch = {.row_count = ROWS,
        .tokens = tokens,
        .positions = positions,
        .x = x,
        .runs = &run,
        .run_count = 1,
        .reads = &read,
        .read_count = 1};
    model_forward(model, scratch, threads, &batch, 0, model_units(model));
    model_logits(model, scratch, threads, &hidden, 1, numbers + (ROWS + 1) * width);
    assert_true(run.err == ERR_OK || run.err == ERR_NON_FINITE);
    free(numbers);
    slots_free(&slots);
    pages_close(&pages);
    scratch_close(scratch);
    threads_close(threads);
}

/* True when the file opened. */
static bool open_or_refuse(struct opened *opened, const char *key)
{
    enum err err = finish(opened, false);
    if (err == ERR_OK) {
        forward_once(opened->model);
    } else if (err != ERR_FORMAT && err != ERR_UNSUPPORTED) {
        fail_msg("%s: %s at %s", key, err_word(err), opened->info.where);
    }
    assert_true(err == ERR_OK || opened->info.where[0] != '\0');
    drop(opened);
    return err == ERR_OK;
}

static void test_odd_sizes(void **state)
{
    const char *keys[] = {"llama.block_count", "llama.context_length", "llama.embedding_length",
        "llama.feed_forward_length", "llama.attention.head_count", "llama.attention.head_count_kv",
        "llama.attention.key_length", "llama.attention.value_length", "llama.rope.dimension_count",
        "llama.vocab_size"};
    const uint32_t values[] = {
        0, 1, 2, 3, 5, 16, 63, 64, 65, 1 << 20, (1 << 20) + 1, 1u << 31, UINT32_MAX};
    int opened_count = 0;
    for (size_t k = 0; k < ARRAY_COUNT(keys); k++) {
        for (size_t v = 0; v < ARRAY_COUNT(values); v++) {
            struct opened opened;
            gguf_writer_u32(begin(&opened, tiny_default(), keys[k]), keys[k], values[v]);
            opened_count += open_or_refuse(&opened, keys[k]);
        }
        struct opened opened;
        uint64_t huge = UINT64_MAX;
        gguf_writer_raw(begin(&opened, tiny_default(), keys[k]), keys[k], GGUF_U64, &huge, 8);
        assert_false(open_or_refuse(&opened, keys[k]));
    }
    /* Nine contexts; the true layers, width, K/V heads, key and value length; 2 or all 16 numbers
     * of a head rotating. */
    assert_int_equal(opened_count, 9 + 5 + 2);
}

static void test_odd_numbers(void **state)
{
    const char *keys[] = {"llama.attention.layer_norm_rms_epsilon", "llama.rope.freq_base",
        "llama.rope.scaling.factor", "llama.rope.scale_linear", "llama.attention.scale"};
    const float values[] = {0, -0.0f, -1, NAN, INFINITY, -INFINITY, 1e-40f, 1e-30f, 1e-5f, 0.5f, 1,
        2, 1e6f, 1e10f, 3e38f};
    for (size_t k = 0; k < ARRAY_COUNT(keys); k++) {
        for (size_t v = 0; v < ARRAY_COUNT(values); v++) {
            struct opened opened;
            gguf_writer_f32(begin(&opened, tiny_default(), keys[k]), keys[k], values[v]);
            bool ok = open_or_refuse(&opened, keys[k]);
            assert_true(!ok || (values[v] >= 1e-5f && values[v] <= 1e12f));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_name_of_wrong_type),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_stated_bytes),
        cmocka_unit_test(test_every_allocation_fails_once),
        cmocka_unit_test(test_what_is_not_built),
        cmocka_unit_test(test_dense_head),
        cmocka_unit_test(test_dense_head_with_minima),
        cmocka_unit_test(test_neutral_values),
        cmocka_unit_test(test_tokens_that_do_not_match),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_rope_divisors),
        cmocka_unit_test(test_networks),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_odd_sizes),
        cmocka_unit_test(test_odd_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
