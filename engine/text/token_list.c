/* The growing list of ids of engine/text/tokenizer.h. */
#include "engine/text/tokenizer.h"

#include "engine/base/assert.h"
#include "engine/base/mem.h"

void token_list_init(struct token_list *list, int32_t count_max)
{
    ASSERT(count_max >= 0);
    *list = (struct token_list){.count_max = count_max};
}

enum err token_list_add(struct token_list *list, int32_t id, struct err_info *info)
{
    if (list->count >= list->count_max) {
        enum err err =
            err_set(info, ERR_LIMIT, NULL, "the text has more than %d tokens", list->count_max);
        if (info != NULL) {
            info->have = (int64_t)list->count_max + 1;
            info->limit = list->count_max;
        }
        return err;
    }
    if (list->count == list->capacity) {
        int64_t doubled = MAX((int64_t)64, 2 * (int64_t)list->capacity);
        int32_t capacity = (int32_t)MIN(doubled, (int64_t)list->count_max);
        int32_t *ids = mem_grow(MEM_REQUESTS, list->ids, (size_t)capacity * sizeof(*ids));
        if (ids == NULL) {
            return err_set(info, ERR_NO_MEMORY, NULL, "no memory for %d tokens", capacity);
        }
        list->ids = ids;
        list->capacity = capacity;
    }
    list->ids[list->count++] = id;
    return ERR_OK;
}

void token_list_free(struct token_list *list)
{
    mem_free(list->ids);
    *list = (struct token_list){.count_max = list->count_max};
}
