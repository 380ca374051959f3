/* See byte_llama.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/golden/api/byte_llama.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/endpoint.h"
#include "tests/unit/model/tiny_llama.h"

enum { WORDS = 3, BYTES = 256, MARKS = 3, MORE = 5, COUNT = WORDS + BYTES + MORE };

static void write_vocabulary(struct gguf_writer *w, bool with_fim)
{
    static char byte_pieces[BYTES][8];
    static const char *const spaced[MORE] = {
        "\u2581", "\u2581a", "\u2581t", "\u2581\u2581", "\u2581\u2581a"};
    static const char *const marked[MORE] = {
        "<fim_prefix>", "<fim_suffix>", "<fim_middle>", "fim_prefix>", "fim_suffix>"};
    const char *pieces[COUNT] = {"<unk>", "<s>", "</s>"};
    int32_t types[COUNT] = {2, 3, 3};
    float scores[COUNT] = {0};
    for (int i = 0; i < BYTES; i++) {
        (void)snprintf(byte_pieces[i], sizeof(byte_pieces[i]), "<0x%02X>", (unsigned)i);
        pieces[WORDS + i] = byte_pieces[i];
        types[WORDS + i] = 6;
    }
    for (int i = 0; i < MORE; i++) {
        pieces[WORDS + BYTES + i] = with_fim ? marked[i] : spaced[i];
        types[WORDS + BYTES + i] = with_fim && i < MARKS ? 3 : 1;
    }
    gguf_writer_string(w, "tokenizer.ggml.model", "llama");
    gguf_writer_strings(w, "tokenizer.ggml.tokens", pieces, COUNT);
    gguf_writer_array(w, "tokenizer.ggml.scores", GGUF_F32, scores, COUNT, sizeof(scores));
    gguf_writer_array(w, "tokenizer.ggml.token_type", GGUF_I32, types, COUNT, sizeof(types));
    gguf_writer_u32(w, "tokenizer.ggml.bos_token_id", 1);
    gguf_writer_u32(w, "tokenizer.ggml.eos_token_id", 2);
    gguf_writer_bool(w, "tokenizer.ggml.add_bos_token", true);
}

void byte_llama_save(bool with_fim, char *path, size_t path_bytes)
{
    struct gguf_writer writer;
    struct tiny_options options = tiny_default();
    options.vocab = COUNT;
    tiny_write(&writer, &options);
    write_vocabulary(&writer, with_fim);
    gguf_writer_save(&writer, path, path_bytes);
    gguf_writer_free(&writer);
}

struct engine *byte_llama_open(bool with_fim)
{
    char path[128];
    struct err_info info = {0};
    struct engine *engine = NULL;
    byte_llama_save(with_fim, path, sizeof(path));
    const struct engine_config config = {
        .model_path = path, .threads = 1, .jobs = 1, .kv_f32 = true};
    enum err err = engine_open(&config, &engine, &info);
    (void)unlink(path);
    if (err != ERR_OK) {
        printf("%s: %s\n", info.where, info.text);
    }
    return engine;
}

json_t *byte_llama_answer(struct engine *engine, const char *body, int32_t *out_jobs)
{
    static const struct api_limits limits = {.items_max = 100, .timeout_ms_max = 60000};
    struct arena arena;
    struct err_info info = {0};
    struct job *job = NULL;
    struct buf reply;
    bool more = true;
    arena_init(&arena, MEM_REQUESTS, 4096, 1 << 24);
    buf_init(&reply, MEM_REQUESTS, 1 << 20);
    struct call call = {.arena = &arena,
        .model = engine_model(engine),
        .tokenizer = engine_tokenizer(engine),
        .limits = &limits};
    assert_int_equal(endpoint_infill.decode(&call, body, strlen(body), &info), ERR_OK);
    assert_int_equal(endpoint_infill.plan(&call, &info), ERR_OK);
    assert_int_equal(engine_acquire(engine, &job), ERR_OK);
    *out_jobs = 0;
    while (more) {
        job->plan = call.plan;
        assert_int_equal(engine_submit(engine, job, &info), ERR_OK);
        engine_wait(engine, job);
        ++*out_jobs;
        more = false;
        if (call.asks_more) {
            assert_int_equal(endpoint_infill.more(&call, job, &more, &info), ERR_OK);
        }
        if (more) {
            engine_renew(engine, job);
        }
    }
    assert_int_equal(endpoint_infill.encode(&call, job, &reply, &info), ERR_OK);
    engine_release(engine, job);
    json_t *value = json_loads(reply.bytes, 0, NULL);
    assert_non_null(value);
    buf_free(&reply);
    arena_drop(&arena);
    return value;
}
