/* See encoding.h. */
#include "engine/text/encoding.h"

#include "engine/base/assert.h"
#include "engine/base/mem.h"

static enum err reserve_span(struct encoding *encoding)
{
    if (encoding->span_count < encoding->span_capacity) {
        return ERR_OK;
    }
    size_t capacity = MAX((size_t)64, encoding->span_capacity * 2);
    void *spans = mem_grow(MEM_REQUESTS, encoding->spans, capacity * sizeof(*encoding->spans));
    if (spans == NULL) {
        return err_set(encoding->info, ERR_NO_MEMORY, NULL, "no memory for %zu spans", capacity);
    }
    encoding->spans = spans;
    encoding->span_capacity = capacity;
    return ERR_OK;
}

static int32_t end_of(const struct encoding *encoding, size_t to)
{
    size_t end = encoding->is_mapped && to > 0 ? (size_t)encoding->normal.to[to - 1] : to;
    return (int32_t)(encoding->base + end);
}

enum err encoding_add(struct encoding *encoding, int32_t id, size_t from, size_t to)
{
    if (encoding->with_spans) {
        enum err err = reserve_span(encoding);
        if (err != ERR_OK) {
            return err;
        }
        size_t start = encoding->is_mapped ? (size_t)encoding->normal.from[from] : from;
        encoding->spans[encoding->span_count][0] = (int32_t)(encoding->base + start);
        encoding->spans[encoding->span_count][1] = end_of(encoding, to);
        encoding->span_count++;
    }
    return token_list_add(encoding->list, id, encoding->info);
}

void encoding_extend(struct encoding *encoding, size_t to)
{
    if (encoding->with_spans) {
        ASSERT(encoding->span_count > 0);
        encoding->spans[encoding->span_count - 1][1] = end_of(encoding, to);
    }
}

void encoding_free(struct encoding *encoding)
{
    normal_free(&encoding->normal);
    merge_free(&encoding->merger);
}
