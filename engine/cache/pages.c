/*
 * The K/V page pool and the slots of one sequence. Pages are handed out from a stack, so that the
 * page used last, still warm in the caches, is used next. A taken page keeps the bits of its last
 * owner: whoever reads a slot must have stored it, and the kernels promise never to let a lane that
 * was not stored reach a result.
 */
#include "engine/cache/pages.h"

#include <string.h>
#include "engine/base/assert.h"
#include "engine/base/mem.h"

size_t pages_page_bytes(
    enum kv_type type, int32_t layers, int32_t heads_kv, int32_t head_dim, int32_t page_slots)
{
    ASSERT(layers > 0 && heads_kv > 0 && head_dim > 0 && page_slots > 0);
    ASSERT(page_slots % KV_TILE == 0);
    /* At most 512 layers * 1024 heads * 2 * slots * 512 * 4: far from 2^63 for any page size that
     * fits memory. */
    return (size_t)layers * (size_t)heads_kv * kv_head_bytes(type, page_slots, head_dim);
}

size_t pages_index_bytes(int32_t count)
{
    return (size_t)count * (2 * sizeof(int32_t) + sizeof(uint32_t));
}

enum err pages_open(struct pages *pages, enum kv_type type, int32_t layers, int32_t heads_kv,
    int32_t head_dim, int32_t page_slots, int32_t count)
{
    ASSERT(count > 0);
    *pages = (struct pages){
        .type = type,
        .layers = layers,
        .heads_kv = heads_kv,
        .head_dim = head_dim,
        .page_slots = page_slots,
        .page_bytes = pages_page_bytes(type, layers, heads_kv, head_dim, page_slots),
        .head_bytes = kv_head_bytes(type, page_slots, head_dim),
        .count = count,
        .free_count = count,
    };
    pages->layer_bytes = pages->head_bytes * (size_t)heads_kv;
    pages->free_list = mem_array(MEM_CACHE, (size_t)count, sizeof(*pages->free_list));
    pages->references = mem_array(MEM_CACHE, (size_t)count, sizeof(*pages->references));
    pages->sealed = mem_array(MEM_CACHE, (size_t)count, sizeof(*pages->sealed));
    pages->data = mem_array(MEM_CACHE, (size_t)count, pages->page_bytes);
    if (pages->free_list == NULL || pages->references == NULL || pages->sealed == NULL ||
        pages->data == NULL) {
        pages_close(pages);
        return ERR_NO_MEMORY;
    }
    for (int32_t i = 0; i < count; i++) {
        pages->free_list[i] = count - 1 - i; /* page 0 is taken first */
    }
    return ERR_OK;
}

void pages_close(struct pages *pages)
{
    if (pages == NULL) {
        return;
    }
    mem_free(pages->free_list);
    mem_free(pages->references);
    mem_free(pages->sealed);
    mem_free(pages->data);
    *pages = (struct pages){0};
}

int32_t pages_take(struct pages *pages)
{
    if (pages->free_count == 0) {
        return -1;
    }
    pages->free_count--;
    int32_t page = pages->free_list[pages->free_count];
    ASSERT(pages->references[page] == 0);
    pages->references[page] = 1;
    pages->sealed[page] = 0;
    return page;
}

void pages_reference(struct pages *pages, int32_t page)
{
    ASSERT(page >= 0 && page < pages->count);
    ASSERT(pages->references[page] > 0);
    ASSERT(pages->references[page] < UINT32_MAX);
    pages->references[page]++;
}

void pages_drop(struct pages *pages, int32_t page)
{
    ASSERT(page >= 0 && page < pages->count);
    ASSERT(pages->references[page] > 0);
    pages->references[page]--;
    if (pages->references[page] == 0) {
        ASSERT(pages->free_count < pages->count);
        pages->free_list[pages->free_count] = page;
        pages->free_count++;
    }
}

void pages_seal(struct pages *pages, int32_t page, int32_t slots)
{
    ASSERT(page >= 0 && page < pages->count && pages->references[page] > 0);
    ASSERT(slots >= 0 && slots <= pages->page_slots);
    pages->sealed[page] = MAX(pages->sealed[page], slots);
}

unsigned char *pages_address(const struct pages *pages, int32_t page)
{
    ASSERT(page >= 0 && page < pages->count);
    return pages->data + (size_t)page * pages->page_bytes;
}

int32_t pages_shared(const struct pages *pages)
{
    int32_t shared = 0;
    for (int32_t i = 0; i < pages->count; i++) {
        shared += pages->references[i] > 1;
    }
    return shared;
}

/* ---- slots --------------------------------------------------------------------------------- */

static int32_t pages_needed(int32_t slot_count, int32_t page_slots)
{
    return (int32_t)(((int64_t)slot_count + page_slots - 1) / page_slots);
}

size_t slots_bytes(int32_t context, int32_t page_slots)
{
    size_t page_max = (size_t)pages_needed(context, page_slots);
    return page_max * (sizeof(int32_t) + sizeof(unsigned char *)) +
           page_max * (size_t)page_slots * sizeof(int32_t);
}

enum err slots_init(struct slots *slots, struct pages *pages, int32_t context)
{
    ASSERT(context > 0);
    *slots = (struct slots){
        .pages = pages,
        .page_max = pages_needed(context, pages->page_slots),
    };
    size_t page_max = (size_t)slots->page_max;
    slots->page_ids = mem_array(MEM_JOBS, page_max, sizeof(*slots->page_ids));
    slots->addresses = mem_array(MEM_JOBS, page_max, sizeof(*slots->addresses));
    slots->positions =
        mem_array(MEM_JOBS, page_max * (size_t)pages->page_slots, sizeof(*slots->positions));
    if (slots->page_ids == NULL || slots->addresses == NULL || slots->positions == NULL) {
        slots_free(slots);
        return ERR_NO_MEMORY;
    }
    return ERR_OK;
}

void slots_use(struct slots *slots, struct pages *pages)
{
    ASSERT(slots->page_count == 0 && pages->page_slots == slots->pages->page_slots);
    slots->pages = pages;
}

void slots_free(struct slots *slots)
{
    if (slots == NULL) {
        return;
    }
    if (slots->page_ids != NULL) { /* else slots_init failed half-way */
        slots_release(slots);
    }
    mem_free(slots->page_ids);
    mem_free(slots->addresses);
    mem_free(slots->positions);
    *slots = (struct slots){0};
}

static void slots_append(struct slots *slots, int32_t page)
{
    slots->page_ids[slots->page_count] = page;
    slots->addresses[slots->page_count] = pages_address(slots->pages, page);
    slots->page_count++;
}

bool slots_hold(struct slots *slots, int32_t count)
{
    int32_t needed = pages_needed(count, slots->pages->page_slots);
    ASSERT(count >= 0 && needed <= slots->page_max);
    if (needed - slots->page_count > slots->pages->free_count) {
        return false;
    }
    while (slots->page_count < needed) {
        slots_append(slots, pages_take(slots->pages));
    }
    return true;
}

void slots_adopt(struct slots *slots, int32_t page)
{
    ASSERT(slots->page_count < slots->page_max);
    pages_reference(slots->pages, page);
    slots_append(slots, page);
}

void slots_replace(struct slots *slots, int32_t index, int32_t page)
{
    ASSERT(index >= 0 && index < slots->page_count);
    pages_reference(slots->pages, page);
    pages_drop(slots->pages, slots->page_ids[index]);
    slots->page_ids[index] = page;
    slots->addresses[index] = pages_address(slots->pages, page);
}

bool slots_own_last(struct slots *slots)
{
    ASSERT(slots->page_count > 0);
    struct pages *pages = slots->pages;
    int32_t last = slots->page_count - 1;
    if (pages->references[slots->page_ids[last]] == 1) {
        return true;
    }
    int32_t page = pages_take(pages);
    if (page < 0) {
        return false;
    }
    memcpy(pages_address(pages, page), slots->addresses[last], pages->page_bytes);
    pages_drop(pages, slots->page_ids[last]);
    slots->page_ids[last] = page;
    slots->addresses[last] = pages_address(pages, page);
    return true;
}

void slots_drop_last(struct slots *slots)
{
    ASSERT(slots->page_count > 0);
    slots->page_count--;
    pages_drop(slots->pages, slots->page_ids[slots->page_count]);
}

void slots_release(struct slots *slots)
{
    for (int32_t i = 0; i < slots->page_count; i++) {
        pages_drop(slots->pages, slots->page_ids[i]);
    }
    slots->page_count = 0;
}
