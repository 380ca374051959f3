/* See fake_vocab.h: SentencePiece bytes and words are all that the detokenizer needs. */
#include "tests/unit/sched/fake_vocab.h"

#include <stdio.h>
#include <stdlib.h>
#include "engine/load/gguf.h"
#include "tests/unit/load/gguf_writer.h"

struct tokenizer *fake_vocab_open(void)
{
    char names[FAKE_VOCAB][16];
    const char *pieces[FAKE_VOCAB];
    float scores[FAKE_VOCAB];
    int32_t types[FAKE_VOCAB];
    for (int32_t i = 0; i < FAKE_VOCAB; i++) {
        pieces[i] = names[i];
        scores[i] = (float)-i;
        types[i] = 1;
        if (i < 3) {
            (void)snprintf(
                names[i], sizeof names[i], "%s", (const char *[]){"<unk>", "<s>", "</s>"}[i]);
            types[i] = i == 0 ? 2 : 3;
        } else if (i < 259) {
            (void)snprintf(names[i], sizeof names[i], "<0x%02X>", (unsigned)i - 3);
            types[i] = 6;
        } else {
            (void)snprintf(names[i], sizeof names[i], "w%d", i);
        }
    }
    struct gguf_writer writer;
    gguf_writer_init(&writer);
    gguf_writer_string(&writer, "general.architecture", "llama");
    gguf_writer_string(&writer, "tokenizer.ggml.model", "llama");
    gguf_writer_strings(&writer, "tokenizer.ggml.tokens", pieces, FAKE_VOCAB);
    gguf_writer_array(
        &writer, "tokenizer.ggml.scores", GGUF_F32, scores, FAKE_VOCAB, sizeof scores);
    gguf_writer_array(
        &writer, "tokenizer.ggml.token_type", GGUF_I32, types, FAKE_VOCAB, sizeof types);
    gguf_writer_u32(&writer, "tokenizer.ggml.bos_token_id", 1);
    gguf_writer_u32(&writer, "tokenizer.ggml.eos_token_id", FAKE_VOCAB_END);
    size_t count;
    unsigned char *bytes = gguf_writer_finish(&writer, &count);
    struct gguf *gguf = NULL;
    struct tokenizer *tokenizer = NULL;
    struct err_info info = {0};
    if (gguf_open_memory(bytes, count, &gguf, &info) != ERR_OK ||
        tokenizer_open_gguf(gguf, &tokenizer, &info) != ERR_OK) {
        (void)fprintf(stderr, "fake vocabulary: %s: %s\n", info.where, info.text);
        abort();
    }
    gguf_close(gguf);
    free(bytes);
    gguf_writer_free(&writer);
    return tokenizer;
}
