/*
 * A folder, put together: config.json and its like give the keys, model.safetensors or the parts of
 * model.safetensors.index.json the tensors. Nothing is read of the data here, but for a head that a
 * file holds although it is tied: then it must be the embedding, bit by bit.
 */
#include "engine/load/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "engine/base/arena.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"
#include "engine/load/file.h"
#include "engine/load/hub_sentence.h"
#include "engine/load/safetensors.h"

enum {
    ARENA_BLOCK_BYTES = 1 << 16,
    ARENA_BYTES = 1 << 26, /* LIMIT_FILE_TENSORS entries with the longest names, twice */
    COMPARE_BYTES = 1 << 20,
};

static const char *const INDEX = "model.safetensors.index.json";
static const char *const SINGLE = "model.safetensors";

struct folder {
    int fd;
    struct gguf *gguf;
    struct hub_config config;
    struct hub_json index; /* .value NULL = one file */
    const struct meta_json *map;
    const char *names[LIMIT_FILE_PARTS];
    struct safetensors parts[LIMIT_FILE_PARTS];
    struct arena arena;
    struct err_info *info;
};

/* ---- parts ---------------------------------------------------------------------------------- */

static enum err open_part(struct folder *folder, const char *name)
{
    struct gguf *gguf = folder->gguf;
    const int32_t part = gguf->fd_count;
    uint64_t bytes = 0;
    enum err err = file_open_in(folder->fd, name, &gguf->fds[part], &bytes, folder->info);
    if (err != ERR_OK) {
        return err;
    }
    gguf->fd_count++;
    gguf->file_bytes += bytes;
    folder->names[part] = name;
    return safetensors_read(
        gguf->fds[part], bytes, name, &folder->arena, &folder->parts[part], folder->info);
}

/* A name of this very folder: no path leads out of it. */
static bool is_part_name(const char *name)
{
    return name[0] != '\0' && name[0] != '.' && strchr(name, '/') == NULL && strlen(name) < 128;
}

static bool is_open(const struct folder *folder, const char *name)
{
    for (int32_t part = 0; part < folder->gguf->fd_count; part++) {
        if (strcmp(folder->names[part], name) == 0) {
            return true;
        }
    }
    return false;
}

static enum err open_indexed(struct folder *folder)
{
    struct hub_json map;
    enum err err = hub_inner(&folder->index, "weight_map", META_JSON_OBJECT, &map);
    if (err == ERR_OK && map.value == NULL) {
        err = hub_fail(&folder->index, ERR_FORMAT, "weight_map", "the key is missing");
    }
    folder->map = map.value;
    void *cursor = NULL;
    const char *tensor;
    const struct meta_json *name;
    while (err == ERR_OK && meta_json_next(folder->map, &cursor, &tensor, &name)) {
        if (meta_json_type(name) != META_JSON_STRING || !is_part_name(meta_json_string(name))) {
            return hub_fail(&map, ERR_FORMAT, tensor, "is no name of a file beside the index");
        }
        if (is_open(folder, meta_json_string(name))) {
            continue;
        }
        err = folder->gguf->fd_count < LIMIT_FILE_PARTS
                  ? open_part(folder, meta_json_string(name))
                  : hub_fail(&folder->index, ERR_LIMIT, "weight_map",
                        "more than %d files, the most that are read", LIMIT_FILE_PARTS);
    }
    return err;
}

static enum err open_parts(struct folder *folder)
{
    if (file_exists(folder->fd, SINGLE) || !file_exists(folder->fd, INDEX)) {
        return open_part(folder, SINGLE);
    }
    enum err err =
        hub_json_open(folder->fd, INDEX, META_JSON_OBJECT, true, &folder->index, folder->info);
    return err == ERR_OK ? open_indexed(folder) : err;
}

/* Each tensor lies where the index says; the index names no other. */
static enum err check_index(const struct folder *folder)
{
    size_t found = 0;
    for (int32_t part = 0; part < folder->gguf->fd_count; part++) {
        const struct safetensors *all = &folder->parts[part];
        for (size_t i = 0; i < all->count; i++) {
            const char *name = all->tensors[i].name;
            const struct meta_json *stated = meta_json_get(folder->map, name);
            if (stated == NULL || strcmp(meta_json_string(stated), folder->names[part]) != 0) {
                return err_set(folder->info, ERR_FORMAT, name,
                    "it lies in %.96s, where the index does not expect it", folder->names[part]);
            }
        }
        found += all->count;
    }
    if (found == meta_json_count(folder->map)) {
        return ERR_OK;
    }
    return hub_fail(&folder->index, ERR_FORMAT, "weight_map",
        "names %zu tensors, the files hold %zu", meta_json_count(folder->map), found);
}

/* ---- tensors -------------------------------------------------------------------------------- */

static bool type_of(enum safetensors_type type, enum tensor_type *out)
{
    static const enum tensor_type types[] = {[SAFETENSORS_F32] = TENSOR_F32,
        [SAFETENSORS_F16] = TENSOR_F16,
        [SAFETENSORS_BF16] = TENSOR_BF16};
    if (type == SAFETENSORS_I64) {
        return false;
    }
    *out = types[type];
    return true;
}

/* Heads whose rows do not add up are left: their network refuses the shape. */
static int32_t turned_rows(const struct hub_config *config, int64_t rows)
{
    return config->turned_rows > 0 && rows % config->turned_rows == 0 ? (int32_t)config->turned_rows
                                                                      : 0;
}

static void skip_rows(const struct hub_config *config, struct gguf_tensor *tensor)
{
    const int64_t skipped = config->skipped_rows;
    if (skipped > 0 && tensor->dims == 2 && tensor->shape[1] > skipped) {
        const size_t bytes = tensor->bytes / (size_t)tensor->shape[1] * (size_t)skipped;
        tensor->shape[1] -= skipped;
        tensor->offset += bytes;
        tensor->bytes -= bytes;
    }
}

static enum err put_tensor(
    struct folder *folder, const struct safetensors_tensor *from, int32_t part)
{
    char ours[HUB_OURS_BYTES] = "";
    const struct hub_name *row = hub_names_find(folder->gguf->names, from->name, ours);
    /* What no table names must not pass for a tensor of ours, which lies in another order. */
    char unknown[LIMIT_FILE_TENSOR_NAME_BYTES + 2];
    (void)snprintf(unknown, sizeof(unknown), "?%s", from->name);
    const char *name = row == NULL ? unknown : ours;
    struct gguf_tensor tensor = {.name = {name, strlen(name)},
        .dims = from->dims,
        .shape = {1, 1, 1, 1},
        .offset = from->offset,
        .bytes = from->bytes,
        .part = part};
    if (row != NULL && row->ours == NULL) {
        return ERR_OK;
    }
    if (!type_of(from->type, &tensor.type)) {
        return err_set(folder->info, ERR_UNSUPPORTED, from->name, "weights of type %s",
            safetensors_type_word(from->type));
    }
    for (int32_t i = 0; i < from->dims; i++) {
        tensor.shape[i] = from->shape[from->dims - 1 - i];
    }
    if (row != NULL && row->skips) {
        skip_rows(&folder->config, &tensor);
    }
    tensor.less_one = row != NULL && row->less_one;
    if (row != NULL && row->turned && tensor.dims == 2) {
        tensor.turned_rows = turned_rows(&folder->config, tensor.shape[1]);
    }
    tensor.shown = arena_copy(&folder->gguf->arena, from->name, strlen(from->name));
    if (tensor.shown == NULL) {
        return err_set(folder->info, ERR_NO_MEMORY, from->name, "no memory for its name");
    }
    return gguf_put_tensor(folder->gguf, &tensor, folder->info);
}

static enum err put_tensors(struct folder *folder)
{
    size_t count = 0;
    for (int32_t part = 0; part < folder->gguf->fd_count; part++) {
        count += folder->parts[part].count;
    }
    if (count > LIMIT_FILE_TENSORS) {
        return err_set(folder->info, ERR_LIMIT, INDEX, "%zu tensors, at most %d are read", count,
            LIMIT_FILE_TENSORS);
    }
    const int32_t parts = folder->gguf->fd_count - folder->config.dense_count;
    enum err err = gguf_put_room(folder->gguf, count + 1, folder->info); /* and rope_freqs */
    for (int32_t part = 0; part < parts; part++) {
        for (size_t i = 0; err == ERR_OK && i < folder->parts[part].count; i++) {
            err = put_tensor(folder, &folder->parts[part].tensors[i], part);
        }
    }
    return err;
}

/* ---- dense layers --------------------------------------------------------------------------- */

/* A layer's one or two tensors. Whether there has to be a bias is its config.json's to say, and the
 * model's to see (engine/model/dense.c). */
static enum err put_dense_tensor(
    struct folder *folder, const struct safetensors_tensor *from, int32_t index, int32_t part)
{
    char shown[ERR_WHERE_BYTES];
    char name[32];
    const bool weight = strcmp(from->name, "linear.weight") == 0;
    (void)snprintf(shown, sizeof(shown), "%s: %.90s", folder->names[part], from->name);
    if (!weight && strcmp(from->name, "linear.bias") != 0) {
        return err_set(folder->info, ERR_UNSUPPORTED, shown, "a dense layer has no such tensor");
    }
    (void)snprintf(name, sizeof(name), "dense_%d.%s", (int)index + 2, weight ? "weight" : "bias");
    struct gguf_tensor tensor = {.name = {name, strlen(name)},
        .dims = from->dims,
        .shape = {1, 1, 1, 1},
        .offset = from->offset,
        .bytes = from->bytes,
        .part = part};
    if (!type_of(from->type, &tensor.type)) {
        return err_set(folder->info, ERR_UNSUPPORTED, shown, "weights of type %s",
            safetensors_type_word(from->type));
    }
    for (int32_t i = 0; i < from->dims; i++) {
        tensor.shape[i] = from->shape[from->dims - 1 - i];
    }
    tensor.shown = arena_copy(&folder->gguf->arena, shown, strlen(shown));
    if (tensor.shown == NULL) {
        return err_set(folder->info, ERR_NO_MEMORY, shown, "no memory for its name");
    }
    return gguf_put_tensor(folder->gguf, &tensor, folder->info);
}

/* Opened after the network's parts, whose index knows nothing of these files. */
static enum err open_dense(struct folder *folder)
{
    enum err err = ERR_OK;
    for (int32_t i = 0; err == ERR_OK && i < folder->config.dense_count; i++) {
        char *name = arena_printf(&folder->arena, "%s/%s", folder->config.dense[i], SINGLE);
        if (name == NULL) {
            return err_set(folder->info, ERR_NO_MEMORY, SINGLE, "no memory for its name");
        }
        if (folder->gguf->fd_count == LIMIT_FILE_PARTS) {
            return err_set(folder->info, ERR_LIMIT, name,
                "more than %d files, the most that are read", LIMIT_FILE_PARTS);
        }
        err = open_part(folder, name);
    }
    return err;
}

static enum err put_dense(struct folder *folder)
{
    const int32_t first = folder->gguf->fd_count - folder->config.dense_count;
    enum err err = ERR_OK;
    for (int32_t i = 0; err == ERR_OK && i < folder->config.dense_count; i++) {
        const struct safetensors *part = &folder->parts[first + i];
        bool weight = false;
        for (size_t t = 0; err == ERR_OK && t < part->count; t++) {
            weight |= strcmp(part->tensors[t].name, "linear.weight") == 0;
            err = put_dense_tensor(folder, &part->tensors[t], i, first + i);
        }
        if (err == ERR_OK && !weight) {
            char shown[ERR_WHERE_BYTES];
            (void)snprintf(shown, sizeof(shown), "%s: linear.weight", folder->names[first + i]);
            return err_set(folder->info, ERR_FORMAT, shown, "the tensor is missing");
        }
    }
    return err;
}

/* ---- heads ---------------------------------------------------------------------------------- */

static enum err same_bytes(const struct folder *folder, const struct gguf_tensor *a,
    const struct gguf_tensor *b, bool *out_same)
{
    unsigned char *block = mem_alloc(MEM_OTHER, 2 * (size_t)COMPARE_BYTES);
    if (block == NULL) {
        return err_set(folder->info, ERR_NO_MEMORY, b->shown, "no memory to compare it");
    }
    enum err err = ERR_OK;
    bool same = a->type == b->type && a->bytes == b->bytes;
    for (size_t from = 0; same && err == ERR_OK && from < a->bytes; from += COMPARE_BYTES) {
        const size_t count = MIN(a->bytes - from, (size_t)COMPARE_BYTES);
        err = gguf_read(folder->gguf, a, from, count, block, folder->info);
        if (err == ERR_OK) {
            err = gguf_read(folder->gguf, b, from, count, block + COMPARE_BYTES, folder->info);
        }
        same = err == ERR_OK && memcmp(block, block + COMPARE_BYTES, count) == 0;
    }
    mem_free(block);
    *out_same = same;
    return err;
}

static void drop_tensor(struct gguf *gguf, const struct gguf_tensor *tensor)
{
    const size_t index = (size_t)(tensor - gguf->tensors);
    gguf->tensor_count--;
    memmove(&gguf->tensors[index], &gguf->tensors[index + 1],
        ((size_t)gguf->tensor_count - index) * sizeof(*tensor));
}

static const struct gguf_tensor *find(const struct gguf *gguf, const char *name)
{
    for (int32_t i = 0; i < gguf->tensor_count; i++) {
        if (strcmp(gguf->tensors[i].name.bytes, name) == 0) {
            return &gguf->tensors[i];
        }
    }
    return NULL;
}

/* A network takes the embedding for a head that is not there. */
static enum err check_head(struct folder *folder)
{
    const struct gguf_tensor *head = find(folder->gguf, "output.weight");
    const struct gguf_tensor *embedding = find(folder->gguf, "token_embd.weight");
    bool same = false;
    if (!folder->config.headed) {
        return ERR_OK;
    }
    if (head == NULL && !folder->config.tied) {
        return err_set(folder->info, ERR_FORMAT, "lm_head.weight",
            "the tensor is missing, and config.json does not tie it to the embedding");
    }
    if (head == NULL || embedding == NULL || !folder->config.tied) {
        return ERR_OK;
    }
    enum err err = same_bytes(folder, embedding, head, &same);
    if (err == ERR_OK && !same) {
        return err_set(folder->info, ERR_FORMAT, "lm_head.weight",
            "it is not the embedding that config.json ties it to");
    }
    if (err == ERR_OK) {
        drop_tensor(folder->gguf, head);
    }
    return err;
}

/* ---- opening -------------------------------------------------------------------------------- */

/* The folder's own name, which is never a path; one that is not UTF-8 could not be shown. */
static enum err put_name(struct folder *folder, const char *path)
{
    size_t count;
    const char *name = file_last_name(path, &count);
    if (count == 0 || name[0] == '.' || !utf8_valid(name, count)) {
        return ERR_OK; /* the network's name serves */
    }
    return gguf_put_string(folder->gguf, "general.name", "folder", name, count, folder->info);
}

static enum err fill(struct folder *folder, const char *path)
{
    struct hub_config *config = &folder->config;
    enum err err = hub_config_open(folder->fd, folder->gguf, config, folder->info);
    if (err != ERR_OK) {
        return err;
    }
    folder->gguf->names = &config->network->names;
    err = hub_sentence_read(folder->fd, config, folder->info);
    if (err == ERR_OK) {
        err = put_name(folder, path);
    }
    if (err == ERR_OK) {
        err = open_parts(folder);
    }
    if (err == ERR_OK && folder->map != NULL) {
        err = check_index(folder);
    }
    if (err == ERR_OK) {
        err = open_dense(folder);
    }
    if (err == ERR_OK) {
        err = put_tensors(folder);
    }
    if (err == ERR_OK) {
        err = put_dense(folder);
    }
    if (err == ERR_OK) {
        err = check_head(folder);
    }
    return err == ERR_OK ? gguf_sort(folder->gguf, folder->info) : err;
}

static enum err open_folder(int fd, const char *path, struct gguf **out_gguf, struct err_info *info)
{
    struct folder *folder = mem_alloc(MEM_OTHER, sizeof(*folder)); /* large for a stack */
    struct gguf *gguf = gguf_create();
    if (folder == NULL || gguf == NULL) {
        mem_free(folder);
        gguf_close(gguf);
        return err_set(info, ERR_NO_MEMORY, "folder", "no memory to open it");
    }
    *folder = (struct folder){.fd = fd, .gguf = gguf, .info = info};
    arena_init(&folder->arena, MEM_OTHER, ARENA_BLOCK_BYTES, ARENA_BYTES);
    enum err err = fill(folder, path);
    hub_config_close(&folder->config);
    hub_json_close(&folder->index);
    arena_drop(&folder->arena);
    mem_free(folder);
    if (err != ERR_OK) {
        gguf_close(gguf);
        return err;
    }
    *out_gguf = gguf;
    return ERR_OK;
}

enum err checkpoint_open(const char *path, struct gguf **out_gguf, struct err_info *info)
{
    int fd = -1;
    if (!file_folder(path, &fd)) {
        return gguf_open(path, out_gguf, info);
    }
    enum err err = open_folder(fd, path, out_gguf, info);
    close(fd);
    return err;
}
