/*
 * Second look at a scanned GGUF file: what only the whole shows. Names are sorted once, which finds
 * duplicates and serves every look-up later; sorting stays cheap for names chosen to collide, which
 * a hash table would not. Gaps between tensors are allowed, overlaps are not: no honest writer
 * makes them.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "engine/base/checked.h"
#include "engine/engine_limits.h"
#include "engine/load/gguf_internal.h"

enum {
    ALIGNMENT_DEFAULT = 32,
    ALIGNMENT_MIN = 8, /* by the format */
};

static int compare_keys(const void *a, const void *b)
{
    const struct gguf_key *const *left = a;
    const struct gguf_key *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

static int compare_names(const void *a, const void *b)
{
    const struct gguf_tensor *const *left = a;
    const struct gguf_tensor *const *right = b;
    return strcmp((*left)->name.bytes, (*right)->name.bytes);
}

static int compare_offsets(const void *a, const void *b)
{
    const struct gguf_tensor *const *left = a;
    const struct gguf_tensor *const *right = b;
    return ((*left)->offset > (*right)->offset) - ((*left)->offset < (*right)->offset);
}

static enum err sort_keys(struct gguf *gguf, struct err_info *info)
{
    const size_t count = (size_t)gguf->key_count;
    const struct gguf_key **sorted = arena_array(&gguf->arena, count, sizeof(*sorted));
    if (sorted == NULL) {
        return err_set(info, ERR_NO_MEMORY, "metadata", "no memory for the keys");
    }
    for (size_t i = 0; i < count; i++) {
        sorted[i] = &gguf->keys[i];
    }
    qsort(sorted, count, sizeof(*sorted), compare_keys);
    for (size_t i = 1; i < count; i++) {
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0) {
            return gguf_fail(info, ERR_FORMAT, sorted[i]->name,
                MAX(sorted[i - 1]->at, sorted[i]->at), "the key appears twice");
        }
    }
    gguf->keys_by_name = sorted;
    return ERR_OK;
}

static enum err sort_tensors(struct gguf *gguf, struct err_info *info)
{
    const size_t count = (size_t)gguf->tensor_count;
    const struct gguf_tensor **sorted = arena_array(&gguf->arena, count, sizeof(*sorted));
    if (sorted == NULL) {
        return err_set(info, ERR_NO_MEMORY, "metadata", "no memory for the tensor names");
    }
    for (size_t i = 0; i < count; i++) {
        sorted[i] = &gguf->tensors[i];
    }
    qsort(sorted, count, sizeof(*sorted), compare_names);
    for (size_t i = 1; i < count; i++) {
        if (compare_names(&sorted[i - 1], &sorted[i]) == 0) {
            return gguf_fail(info, ERR_FORMAT, sorted[i]->name.bytes,
                MAX(sorted[i - 1]->offset, sorted[i]->offset), "the tensor appears twice");
        }
    }
    gguf->tensors_by_name = sorted;
    return ERR_OK;
}

/* ---- string arrays -------------------------------------------------------------------------- */

/* The scan has walked these bytes, and they no longer move. */
static enum err index_strings(struct gguf *gguf, struct gguf_key *key, struct err_info *info)
{
    struct gguf_string *strings = arena_array(&gguf->arena, key->count, sizeof(*strings));
    if (strings == NULL) {
        return gguf_fail(
            info, ERR_NO_MEMORY, key->name, key->at, "no memory for %zu strings", key->count);
    }
    const unsigned char *at = gguf->bytes + key->value_at;
    for (size_t i = 0; i < key->count; i++) {
        uint64_t bytes;
        memcpy(&bytes, at, sizeof(bytes));
        at += sizeof(bytes);
        strings[i] = (struct gguf_string){(const char *)at, bytes};
        at += bytes;
    }
    key->strings = strings;
    return ERR_OK;
}

/* ---- where the data lies -------------------------------------------------------------------- */

static enum err find_alignment(
    const struct gguf *gguf, size_t *out_alignment, struct err_info *info)
{
    const struct gguf_key *key = gguf_find_key(gguf, "general.alignment");
    *out_alignment = ALIGNMENT_DEFAULT;
    if (key == NULL) {
        return ERR_OK;
    }
    if (key->type != GGUF_U32) {
        return gguf_fail(
            info, ERR_FORMAT, key->name, key->at, "is %s, not u32", gguf_type_word(key->type));
    }
    uint32_t value;
    memcpy(&value, gguf->bytes + key->value_at, sizeof(value));
    if (value < ALIGNMENT_MIN || value > LIMIT_FILE_ALIGNMENT || (value & (value - 1)) != 0) {
        return gguf_fail(info, ERR_FORMAT, key->name, key->at,
            "%" PRIu32 " is no power of two from %d to %d", value, ALIGNMENT_MIN,
            LIMIT_FILE_ALIGNMENT);
    }
    *out_alignment = value;
    return ERR_OK;
}

static enum err place_tensors(struct gguf *gguf, size_t alignment, struct err_info *info)
{
    size_t data_at;
    if (gguf->tensor_count == 0) {
        return ERR_OK; /* a vocabulary: its file may end without the padding */
    }
    if (!checked_align(gguf->directory_end, alignment, &data_at) || data_at > gguf->file_bytes) {
        return gguf_fail(info, ERR_FORMAT, gguf->tensors[0].name.bytes, gguf->directory_end,
            "the file ends before the tensor data");
    }
    for (int32_t i = 0; i < gguf->tensor_count; i++) {
        struct gguf_tensor *tensor = &gguf->tensors[i];
        const char *name = tensor->name.bytes;
        size_t from;
        size_t end;
        if (tensor->offset % alignment != 0) {
            return gguf_fail(info, ERR_FORMAT, name, tensor->offset,
                "its data offset is no multiple of the alignment %zu", alignment);
        }
        if (!checked_add(data_at, tensor->offset, &from) ||
            !checked_add(from, tensor->bytes, &end) || end > gguf->file_bytes) {
            return gguf_fail(info, ERR_FORMAT, name, tensor->offset,
                "its %zu bytes of data end after the end of the file", tensor->bytes);
        }
        tensor->offset = from;
    }
    return ERR_OK;
}

static enum err check_overlaps(const struct gguf *gguf, struct err_info *info)
{
    const size_t count = (size_t)gguf->tensor_count;
    const struct gguf_tensor **sorted = mem_array(MEM_OTHER, count, sizeof(*sorted));
    enum err err = ERR_OK;
    if (sorted == NULL) {
        return err_set(info, ERR_NO_MEMORY, "metadata", "no memory for the tensor offsets");
    }
    for (size_t i = 0; i < count; i++) {
        sorted[i] = &gguf->tensors[i];
    }
    qsort(sorted, count, sizeof(*sorted), compare_offsets);
    for (size_t i = 1; i < count && err == ERR_OK; i++) {
        if (sorted[i - 1]->offset + sorted[i - 1]->bytes > sorted[i]->offset) {
            err = gguf_fail(info, ERR_FORMAT, sorted[i]->name.bytes, sorted[i]->offset,
                "its data overlaps that of %s", sorted[i - 1]->name.bytes);
        }
    }
    mem_free(sorted);
    return err;
}

static enum err check_split(const struct gguf *gguf, struct err_info *info)
{
    int64_t parts = 1;
    enum err err = gguf_get_i64(gguf, "split.count", false, 0, INT64_MAX, &parts, info);
    if (err == ERR_OK && parts > 1) {
        return gguf_fail(info, ERR_UNSUPPORTED, "split.count",
            gguf_find_key(gguf, "split.count")->at,
            "one of %" PRId64 " parts of a split file; join the parts first", parts);
    }
    return err;
}

enum err gguf_sort(struct gguf *gguf, struct err_info *info)
{
    enum err err = sort_keys(gguf, info);
    return err == ERR_OK ? sort_tensors(gguf, info) : err;
}

enum err gguf_check(struct gguf *gguf, struct err_info *info)
{
    size_t alignment = 0;
    enum err err = sort_keys(gguf, info);
    for (int32_t i = 0; i < gguf->key_count && err == ERR_OK; i++) {
        if (gguf->keys[i].type == GGUF_ARRAY && gguf->keys[i].element == GGUF_STRING) {
            err = index_strings(gguf, &gguf->keys[i], info);
        }
    }
    if (err == ERR_OK) {
        err = check_split(gguf, info);
    }
    if (err == ERR_OK) {
        err = find_alignment(gguf, &alignment, info);
    }
    if (err == ERR_OK) {
        err = sort_tensors(gguf, info);
    }
    if (err == ERR_OK) {
        err = place_tensors(gguf, alignment, info);
    }
    return err == ERR_OK ? check_overlaps(gguf, info) : err;
}
