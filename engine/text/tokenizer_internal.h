/*
 * The parts of a tokenizer, for the files that implement engine/text/tokenizer.h.
 *
 * A text goes through them in this order: special tokens are found; the rest is normalized; special
 * tokens of the normalized kind are found; the rest is cut into words; the model spells each word.
 * What a vocabulary does not use has no steps. SentencePiece BPE of GGUF files (spm.h) is the one
 * that does all after the first itself.
 */
#ifndef ENGINE_TEXT_TOKENIZER_INTERNAL_H
#define ENGINE_TEXT_TOKENIZER_INTERNAL_H

#include "engine/text/bpe.h"
#include "engine/text/normalizer.h"
#include "engine/text/special.h"
#include "engine/text/splitter.h"
#include "engine/text/spm.h"
#include "engine/text/tokenizer.h"
#include "engine/text/unigram.h"
#include "engine/text/vocab.h"
#include "engine/text/wordpiece.h"

struct tokenizer {
    struct vocab vocab;
    struct special_matcher matcher;        /* over the text */
    struct special_matcher normal_matcher; /* over normalized text */
    uint8_t *rules;                        /* [vocab] enum special_rule, or NULL */
    struct normalizer normalizer;
    struct splitter splitter;
    struct bpe bpe; /* VOCAB_BYTE_BPE, VOCAB_CHAR_BPE */
    struct spm spm; /* VOCAB_SENTENCEPIECE */
    struct wordpiece wordpiece;
    struct unigram unigram;
    bool adds_bos, adds_eos;
    bool drops_first_space; /* the first word of a text stands for one without its space */
    int32_t ends[LIMIT_END_TOKENS];
    int32_t end_count;
};

/* Notes a token that ends a text; -1 and what is known already are passed over. */
void tokenizer_add_end(struct tokenizer *tokenizer, int32_t id);
/* The last steps of every way to open one: the matchers, and the ends by special tokens. */
MUST_USE enum err tokenizer_finish(struct tokenizer *tokenizer, struct err_info *info);

#endif
