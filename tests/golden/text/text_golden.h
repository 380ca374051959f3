/*
 * Opens the tokenizers of reference vocabularies and compares ids. Texts are never printed: some
 * of the reference strings are offensive. A failure names the case by its number.
 */
#ifndef TESTS_GOLDEN_TEXT_TEXT_GOLDEN_H
#define TESTS_GOLDEN_TEXT_TEXT_GOLDEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/text/tokenizer.h"

/* Opens a vocabulary below the reference data, GGUF or by its ending JSON; "" means the default
 * model file. NULL, after saying
 * so, when the file is absent; a file that does not load ends the test. */
struct tokenizer *text_golden_open(const char *name);
/* Opens a tokenizer.json, which must load; `name` for the message. */
struct tokenizer *text_golden_json(const char *file, size_t bytes, const char *name);
/* A whole reference file, malloc'ed and NUL-terminated; NULL, after saying so, when absent. */
char *text_golden_file(const char *name, size_t *out_bytes);
/* Encodes and compares; on a difference prints the two lists around it. Also checks that the spans
 * lie in the text in order, and that encode and encode_spans agree. */
bool text_golden_ids(const struct tokenizer *tokenizer, const char *text, size_t bytes,
    unsigned flags, const int32_t *expected, int32_t expected_count, const char *case_name);

#endif
