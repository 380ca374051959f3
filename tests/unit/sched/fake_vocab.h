/* A vocabulary of FAKE_VOCAB tokens: </s>, every byte, and a few words of two characters more. */
#ifndef TESTS_UNIT_SCHED_FAKE_VOCAB_H
#define TESTS_UNIT_SCHED_FAKE_VOCAB_H

#include "engine/text/tokenizer.h"

enum { FAKE_VOCAB = 300, FAKE_VOCAB_END = 2 };

/* Ends the program when it cannot be built. */
struct tokenizer *fake_vocab_open(void);

#endif
