/*
 * One call of tokenizer_encode under way: where ids and spans go, and the work space of the
 * models, kept from fragment to fragment so that a text of many fragments allocates once.
 */
#ifndef ENGINE_TEXT_ENCODING_H
#define ENGINE_TEXT_ENCODING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/text/merge.h"
#include "engine/text/normalize.h"
#include "engine/text/tokenizer.h"

struct encoding {
    struct token_list *list;
    bool with_spans;
    int32_t (*spans)[2]; /* MEM_REQUESTS */
    size_t span_count, span_capacity;
    struct err_info *info;

    size_t base;    /* offset of the current fragment in the text */
    bool is_mapped; /* offsets given to encoding_add are those of `normal`, not the fragment's */
    struct normal normal;
    struct merger merger;
};

/* Appends an id that stands for bytes [from, to) of the current fragment. */
MUST_USE enum err encoding_add(struct encoding *encoding, int32_t id, size_t from, size_t to);
/* Lets the newest id stand for the bytes up to `to` as well. */
void encoding_extend(struct encoding *encoding, size_t to);
/* Frees the work space; the spans stay the caller's. */
void encoding_free(struct encoding *encoding);

#endif
