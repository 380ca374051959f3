/* The parts of a tokenizer, for the files that implement engine/text/tokenizer.h. */
#ifndef ENGINE_TEXT_TOKENIZER_INTERNAL_H
#define ENGINE_TEXT_TOKENIZER_INTERNAL_H

#include "engine/text/bpe.h"
#include "engine/text/special.h"
#include "engine/text/spm.h"
#include "engine/text/tokenizer.h"
#include "engine/text/vocab.h"

struct tokenizer {
    struct vocab vocab;
    struct special_matcher matcher;
    struct bpe bpe; /* VOCAB_BYTE_BPE */
    struct spm spm; /* VOCAB_SENTENCEPIECE */
    bool adds_bos, adds_eos;
    int32_t ends[LIMIT_END_TOKENS];
    int32_t end_count;
};

#endif
