/*
 * Goal: ids of Unigram vocabularies equal those of SentencePiece 0.1.97 on all 1,347 hard inputs.
 * Method: the reference's .model files (protocol buffers) become GGUF files in memory, as
 * converters write them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/golden/golden_data.h"
#include "tests/golden/text/text_golden.h"
#include "tests/skip.h"
#include "tests/unit/load/gguf_writer.h"

enum { INPUT_COUNT = 1347, PIECES_MAX = 16384 };

/* ---- protocol buffers: fields of a message, one after the other ---- */

struct message {
    const unsigned char *bytes;
    size_t count;
};

struct field {
    uint64_t number, value; /* value: of a varint, or the bits of a float */
    struct message inner;   /* of strings and messages */
};

static uint64_t read_varint(struct message *message)
{
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        assert_true(message->count > 0 && shift < 64);
        unsigned char byte = *message->bytes++;
        message->count--;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            return value;
        }
    }
}

static bool next_field(struct message *message, struct field *out)
{
    if (message->count == 0) {
        return false;
    }
    uint64_t key = read_varint(message);
    *out = (struct field){.number = key >> 3};
    size_t skipped = 0;
    if ((key & 7) == 0) {
        out->value = read_varint(message);
    } else if ((key & 7) == 2) {
        skipped = read_varint(message);
        out->inner = (struct message){message->bytes, skipped};
    } else {
        skipped = (key & 7) == 5 ? 4 : 8;
        memcpy(&out->value, message->bytes, skipped);
    }
    assert_true(skipped <= message->count);
    message->bytes += skipped;
    message->count -= skipped;
    return true;
}

/* ---- the model file ---- */

struct spm_file {
    char *pieces[PIECES_MAX];
    float scores[PIECES_MAX];
    int32_t types[PIECES_MAX];
    int32_t count;
    struct message charsmap;
    bool prefix, extra;
};

static void read_piece(struct spm_file *file, struct message message)
{
    struct field field;
    int32_t id = file->count++;
    assert_true(id < PIECES_MAX);
    file->types[id] = 1; /* the default: an ordinary piece. The numbers are those of GGUF */
    while (next_field(&message, &field)) {
        if (field.number == 1) {
            file->pieces[id] = strndup((const char *)field.inner.bytes, field.inner.count);
        } else if (field.number == 2) {
            memcpy(&file->scores[id], &field.value, sizeof(float));
        } else if (field.number == 3) {
            file->types[id] = (int32_t)field.value;
        }
    }
    assert_non_null(file->pieces[id]);
}

static void read_file(struct spm_file *file, struct message message)
{
    struct field field;
    *file = (struct spm_file){.prefix = true, .extra = true};
    while (next_field(&message, &field)) {
        if (field.number == 1) {
            read_piece(file, field.inner);
        }
        struct field inner;
        while (field.number == 3 && next_field(&field.inner, &inner)) { /* the normalizer */
            if (inner.number == 2) {
                file->charsmap = inner.inner;
            } else if (inner.number == 3) {
                file->prefix = inner.value != 0;
            } else if (inner.number == 4) {
                file->extra = inner.value != 0;
            }
        }
    }
}

static struct tokenizer *open_gguf(const struct spm_file *file)
{
    struct gguf_writer writer;
    size_t count = (size_t)file->count;
    gguf_writer_init(&writer);
    gguf_writer_string(&writer, "tokenizer.ggml.model", "t5");
    gguf_writer_string(&writer, "tokenizer.ggml.pre", "default");
    gguf_writer_strings(&writer, "tokenizer.ggml.tokens", (const char *const *)file->pieces, count);
    gguf_writer_array(&writer, "tokenizer.ggml.token_type", GGUF_I32, file->types, count,
        count * sizeof(int32_t));
    gguf_writer_array(
        &writer, "tokenizer.ggml.scores", GGUF_F32, file->scores, count, count * sizeof(float));
    gguf_writer_array(&writer, "tokenizer.ggml.precompiled_charsmap", GGUF_U8, file->charsmap.bytes,
        file->charsmap.count, file->charsmap.count);
    gguf_writer_bool(&writer, "tokenizer.ggml.add_space_prefix", file->prefix);
    gguf_writer_bool(&writer, "tokenizer.ggml.remove_extra_whitespaces", file->extra);
    gguf_writer_bool(&writer, "tokenizer.ggml.add_eos_token", false);
    size_t bytes;
    unsigned char *data = gguf_writer_finish(&writer, &bytes);
    struct gguf *gguf = NULL;
    struct tokenizer *tokenizer = NULL;
    struct err_info info = {0};
    if (gguf_open_memory(data, bytes, &gguf, &info) != ERR_OK ||
        tokenizer_open_gguf(gguf, &tokenizer, &info) != ERR_OK) {
        printf("does not open: %s: %s\n", info.where, info.text);
        abort();
    }
    gguf_close(gguf);
    free(data);
    gguf_writer_free(&writer);
    return tokenizer;
}

static struct tokenizer *open_model(const char *name)
{
    static struct spm_file file;
    size_t bytes;
    char *data = text_golden_file(name, &bytes);
    if (data == NULL) {
        return NULL;
    }
    read_file(&file, (struct message){(const unsigned char *)data, bytes});
    struct tokenizer *tokenizer = open_gguf(&file);
    for (int32_t i = 0; i < file.count; i++) {
        free(file.pieces[i]);
    }
    free(data);
    return tokenizer;
}

/* ---- comparison ---- */

static void check_truth(const char *model, const char *name)
{
    char inputs_path[GOLDEN_PATH_BYTES];
    char truth_path[GOLDEN_PATH_BYTES];
    struct tokenizer *tokenizer = open_model(model);
    if (tokenizer == NULL || !golden_reference("tokenizer-truth/inputs.jsonl", inputs_path) ||
        !golden_reference(name, truth_path)) {
        printf("skipped: needs tokenizer-truth and %s\n", model);
        tokenizer_close(tokenizer);
        skip_test();
        return;
    }
    json_t *inputs = golden_json_lines(inputs_path);
    json_t *truth = golden_json_lines(truth_path);
    int32_t good = 0;
    for (size_t i = 0; i < INPUT_COUNT; i++) {
        const json_t *text = golden_member(json_array_get(inputs, i), "text");
        char case_name[64];
        int32_t count;
        int32_t *ids = golden_ints(json_array_get(truth, i), "ids", &count);
        snprintf(case_name, sizeof(case_name), "input %zu", i);
        good += text_golden_ids(
            tokenizer, json_string_value(text), json_string_length(text), 0, ids, count, case_name);
        free(ids);
    }
    assert_int_equal(good, INPUT_COUNT);
    json_decref(inputs);
    json_decref(truth);
    tokenizer_close(tokenizer);
}

static void test_english(void **state)
{
    (void)state;
    check_truth(
        "sentencepiece-data/python/test/test_model.model", "tokenizer-truth/spm-test-1k.jsonl");
}

static void test_japanese(void **state)
{
    (void)state;
    check_truth(
        "sentencepiece-data/python/test/test_ja_model.model", "tokenizer-truth/spm-test-ja.jsonl");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_english),
        cmocka_unit_test(test_japanese),
    };
    return skip_status(
        cmocka_run_group_tests(tests, NULL, NULL), (int)(sizeof tests / sizeof tests[0]));
}
