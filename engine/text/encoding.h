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

/* Words of a text, in order. */
struct cut {
    int32_t from, to;
};

struct cuts {
    struct cut *items; /* MEM_REQUESTS */
    size_t count, capacity;
};

struct unigram_way;

struct encoding {
    struct token_list *list;
    bool with_spans;
    bool with_map;       /* the way back is kept, for spans or for other reasons */
    int32_t (*spans)[2]; /* MEM_REQUESTS */
    size_t span_count, span_capacity;
    struct err_info *info;
    const uint8_t *foreign; /* bytes of the text that no control token may take, or NULL */

    size_t base; /* offset of the current fragment in the text */
    /* Offsets given to encoding_add are those of `map` where it is not NULL, else the fragment's;
     * `shift` is added to them. */
    const struct normal *map;
    size_t shift;
    /* Work space: the text as normalizer, then splitter, made it, each with a second one for the
     * step under way; what the splitter cut, and the same; the best ways of Unigram. */
    struct normal normal[2], split[2];
    struct cuts cuts[2];
    struct merger merger;
    struct unigram_way *ways;
    size_t way_capacity;
};

/* Bounds what the chains of a file may make of a text of `bytes` bytes: past it they fail with
 * ERR_LIMIT. */
void encoding_bound(struct encoding *encoding, size_t bytes);
MUST_USE enum err cuts_add(struct cuts *cuts, size_t from, size_t to, struct err_info *info);
/* Where in the text the byte at `at` came from; known only with a map. */
size_t encoding_origin(const struct encoding *encoding, size_t at);
/* Appends an id that stands for bytes [from, to) of the current fragment. */
MUST_USE enum err encoding_add(struct encoding *encoding, int32_t id, size_t from, size_t to);
/* Lets the newest id stand for the bytes up to `to` as well. */
void encoding_extend(struct encoding *encoding, size_t to);
/* Frees the work space; the spans stay the caller's. */
void encoding_free(struct encoding *encoding);

#endif
