/*
 * Cuts text into the pieces within which byte-level BPE merges. Each vocabulary was trained with
 * one way to cut, given as a regular expression in its reference tokenizer; the scanners here are
 * written by hand to match exactly what those expressions match.
 */
#ifndef ENGINE_TEXT_PRETOKENIZE_H
#define ENGINE_TEXT_PRETOKENIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pretokenizer {
    PRETOKENIZER_GPT2,
    PRETOKENIZER_SMOLLM,    /* GPT-2's, with every number character on its own */
    PRETOKENIZER_LLAMA_BPE, /* Llama 3 */
    PRETOKENIZER_QWEN2,
    PRETOKENIZER_COUNT
};

/* By the value of tokenizer.ggml.pre; false when it is not one of ours. */
bool pretokenize_find(const char *name, size_t count, enum pretokenizer *out_pretokenizer);
/* By the regular expression a tokenizer.json gives, to the letter. */
bool pretokenize_find_regex(const char *regex, enum pretokenizer *out_pretokenizer);
/* End of the piece that starts at `from` < bytes. `text` is valid UTF-8 and is all there is: a
 * piece may depend on where the text ends. Scanning a text to its end is linear. */
size_t pretokenize_next(
    enum pretokenizer pretokenizer, const char *text, size_t bytes, size_t from);

#endif
