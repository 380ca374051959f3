/* See encoding.h. */
#include "engine/text/encoding.h"

#include "engine/base/assert.h"
#include "engine/base/mem.h"

enum {
    /* Chains may lengthen a text; 11 times is what Unicode itself does at worst. */
    GROWTH_MAX = 64,
    GROWTH_FREE = 4096,
};

void encoding_bound(struct encoding *encoding, size_t bytes)
{
    size_t longest = MIN(GROWTH_MAX * bytes + GROWTH_FREE, (size_t)INT32_MAX);
    for (int32_t i = 0; i < 2; i++) {
        encoding->normal[i].count_max = longest;
        encoding->split[i].count_max = longest;
    }
}

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
    size_t end = to + encoding->shift;
    if (encoding->map != NULL && end > 0) {
        end = (size_t)encoding->map->to[end - 1];
    }
    return (int32_t)(encoding->base + end);
}

size_t encoding_origin(const struct encoding *encoding, size_t at)
{
    at += encoding->shift;
    if (encoding->map == NULL) {
        return encoding->base + at;
    }
    return encoding->base + (size_t)encoding->map->from[at];
}

enum err encoding_add(struct encoding *encoding, int32_t id, size_t from, size_t to)
{
    if (encoding->with_spans) {
        enum err err = reserve_span(encoding);
        if (err != ERR_OK) {
            return err;
        }
        size_t start = encoding_origin(encoding, from);
        encoding->spans[encoding->span_count][0] = (int32_t)start;
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

enum err cuts_add(struct cuts *cuts, size_t from, size_t to, struct err_info *info)
{
    if (cuts->count == cuts->capacity) {
        size_t capacity = MAX((size_t)64, cuts->capacity * 2);
        void *items = mem_grow(MEM_REQUESTS, cuts->items, capacity * sizeof(*cuts->items));
        if (items == NULL) {
            return err_set(info, ERR_NO_MEMORY, NULL, "no memory for %zu words", capacity);
        }
        cuts->items = items;
        cuts->capacity = capacity;
    }
    cuts->items[cuts->count++] = (struct cut){(int32_t)from, (int32_t)to};
    return ERR_OK;
}

void encoding_free(struct encoding *encoding)
{
    for (int32_t i = 0; i < 2; i++) {
        normal_free(&encoding->normal[i]);
        normal_free(&encoding->split[i]);
        mem_free(encoding->cuts[i].items);
    }
    mem_free(encoding->ways);
    merge_free(&encoding->merger);
}
