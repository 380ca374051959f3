/* What must hold for a tokenizer that opened, whatever bytes it came from: every token has a text
 * within the bound, special ids are ids, and a text goes through it and back. */
#ifndef TESTS_FUZZ_CHECK_TOKENIZER_H
#define TESTS_FUZZ_CHECK_TOKENIZER_H

#include "engine/text/tokenizer.h"

void check_tokenizer(const struct tokenizer *tokenizer);

#endif
