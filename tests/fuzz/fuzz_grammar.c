/*
 * Fuzz target: a first byte, then any bytes as a regular expression (R plain, P within a string)
 * or as a JSON Schema (S). It is refused with a line, or it is a valid grammar in which a walk
 * never comes to a place that neither ends the text nor goes on.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "api/grammar.h"
#include "api/json_in.h"
#include "engine/base/assert.h"
#include "engine/base/rng.h"
#include "tests/unit/text/text_rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STEPS = 64, BYTES = 256 };

static void walk(const struct grammar *grammar)
{
    struct grammar_set set, next = {0};
    grammar_start(grammar, &set);
    ASSERT(set.count > 0);
    for (uint64_t n = 0; n < STEPS && set.count > 0; n++) {
        uint32_t first = (uint32_t)(rng_uniform(1, 0, n) * BYTES);
        uint32_t tried = 0;
        while (tried < BYTES && !grammar_step(grammar, &set, (uint8_t)(first + tried), &next)) {
            if (next.lost) {
                return;
            }
            tried++;
        }
        ASSERT(tried < BYTES);
        set = next;
    }
}

static enum err build_regex(struct call *call, enum grammar_spelling spelling, const char *text,
    size_t bytes, struct grammar *out_grammar, struct err_info *info)
{
    struct grammar_builder builder;
    struct grammar_alphabet alphabet;
    memset(alphabet.has, 1, sizeof alphabet.has);
    grammar_begin(&builder, call->arena);
    int32_t start = grammar_state(&builder), end = start;
    enum err err = grammar_regex(&builder, text, bytes, spelling, start, &end, info);
    if (err != ERR_OK) {
        return err;
    }
    grammar_final(&builder, end);
    return grammar_finish(&builder, start, &alphabet, out_grammar, info);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool begun;
    if (!begun) {
        json_in_init();
        begun = true;
    }
    if (size < 2) {
        return 0;
    }
    struct text_rig rig = {0};
    text_rig_bpe(&rig, "gpt-2");
    struct tokenizer *tokenizer = text_rig_open(&rig); /* the bytes alone */
    struct arena arena;
    struct err_info info = {0};
    struct grammar made;
    const struct grammar *grammar = &made;
    const char *text = (const char *)data + 1;
    arena_init(&arena, MEM_REQUESTS, 4096, (size_t)64 << 20);
    struct call call = {.arena = &arena, .tokenizer = tokenizer};
    enum err err;
    if (data[0] == 'S') {
        const struct bound_text schema = {.bytes = text, .count = (int32_t)(size - 1)};
        err = grammar_of_schema(&call, &schema, "", &grammar, &info);
    } else {
        enum grammar_spelling spelling = data[0] == 'P' ? GRAMMAR_IN_STRING : GRAMMAR_PLAIN;
        err = build_regex(&call, spelling, text, size - 1, &made, &info);
    }
    if (err == ERR_OK) {
        ASSERT(grammar_valid(grammar));
        walk(grammar);
    } else {
        ASSERT(info.text[0] != '\0');
    }
    arena_drop(&arena);
    tokenizer_close(tokenizer);
    return 0;
}
