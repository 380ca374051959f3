/*
 * Opening adapters; adapter.h. A folder's tensors are named by the tables that folders of weights
 * are read with (hub_names.h): a module's path there is the tensor's name without ".weight". One
 * table serves whatever the base is, for the base, too, has our names.
 */
#include "engine/load/adapter.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "engine/base/mem.h"
#include "engine/base/utf8.h"
#include "engine/load/adapter_config.h"
#include "engine/load/file.h"
#include "engine/load/gguf_internal.h"
#include "engine/load/hub_config.h"
#include "engine/load/safetensors.h"

static const char *const WEIGHTS = "adapter_model.safetensors";
static const char *const PREFIX = "base_model.model.";

enum {
    ARENA_BLOCK_BYTES = 1 << 16,
    ARENA_BYTES = 1 << 26,
    NAME_BYTES = HUB_OURS_BYTES + 8, /* and ".lora_a" */
};

/* ---- errors --------------------------------------------------------------------------------- */

/* "ADAPTER: what", unless it is there. */
static enum err name_adapter(const struct adapter *adapter, enum err err, struct err_info *info)
{
    if (err != ERR_OK && info != NULL) {
        char what[ERR_WHERE_BYTES - 50];
        memcpy(what, info->where, sizeof(what) - 1);
        what[sizeof(what) - 1] = '\0';
        (void)snprintf(info->where, sizeof(info->where), "%.46s: %s", adapter->name, what);
    }
    return err;
}

enum err adapter_fail(const struct adapter *adapter, const struct gguf_tensor *tensor,
    enum err code, struct err_info *info, const char *format, ...)
{
    char text[ERR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    const char *shown = tensor->shown != NULL ? tensor->shown : tensor->name.bytes;
    return name_adapter(adapter, err_set(info, code, shown, "%s", text), info);
}

/* ---- folders -------------------------------------------------------------------------------- */

struct peft {
    const struct adapter_base *base;
    const struct adapter_config *config;
    struct gguf *gguf;
    struct arena arena;
    struct safetensors all;
    struct err_info *info;
};

static bool ends_with(const char *text, const char *ending)
{
    const size_t count = strlen(text), end = strlen(ending);
    return count >= end && strcmp(text + count - end, ending) == 0;
}

/* The row of the network's table and our name of a tensor; NULL when none has it. */
static const struct hub_name *find_name(
    const struct peft *peft, const char *theirs, char out_ours[NAME_BYTES])
{
    static const char *const endings[] = {".lora_A.weight", ".lora_B.weight"};
    static const char *const our_endings[] = {".lora_a", ".lora_b"};
    char network[64], name[LIMIT_FILE_TENSOR_NAME_BYTES + 1], ours[HUB_OURS_BYTES];
    if (strncmp(theirs, PREFIX, strlen(PREFIX)) != 0) {
        return NULL;
    }
    const char *module = theirs + strlen(PREFIX);
    for (size_t i = 0; i < ARRAY_COUNT(endings); i++) {
        if (ends_with(module, endings[i])) {
            const struct gguf_string *architecture = &peft->base->architecture;
            const int bytes = (int)(strlen(module) - strlen(endings[i]));
            (void)snprintf(name, sizeof(name), "%.*s.weight", bytes, module);
            (void)snprintf(
                network, sizeof(network), "%.*s", (int)architecture->count, architecture->bytes);
            const struct hub_name *row = hub_network_tensor(network, name, ours);
            if (row != NULL) {
                (void)snprintf(out_ours, NAME_BYTES, "%s%s", ours, our_endings[i]);
            }
            return row;
        }
    }
    return NULL;
}

static enum err check_shape(
    const struct peft *peft, const struct safetensors_tensor *from, bool is_a)
{
    if (from->dims != 2) {
        return err_set(peft->info, ERR_FORMAT, from->name, "is no matrix");
    }
    const int64_t rank = from->shape[is_a ? 0 : 1];
    if (rank != peft->config->rank) {
        return err_set(peft->info, ERR_FORMAT, from->name,
            "its rank is %lld, adapter_config.json says %d", (long long)rank, peft->config->rank);
    }
    return ERR_OK;
}

static enum err put_tensor(struct peft *peft, const struct safetensors_tensor *from)
{
    static const enum tensor_type types[] = {[SAFETENSORS_F32] = TENSOR_F32,
        [SAFETENSORS_F16] = TENSOR_F16,
        [SAFETENSORS_BF16] = TENSOR_BF16};
    char ours[NAME_BYTES] = "";
    const struct hub_name *row = find_name(peft, from->name, ours);
    if (row == NULL || row->ours == NULL) {
        return err_set(peft->info, ERR_UNSUPPORTED, from->name,
            "this network has no matrix that such a tensor changes");
    }
    if (from->type == SAFETENSORS_I64) {
        return err_set(peft->info, ERR_UNSUPPORTED, from->name, "weights of type %s",
            safetensors_type_word(from->type));
    }
    const bool is_a = ends_with(ours, ".lora_a");
    enum err err = check_shape(peft, from, is_a);
    if (err != ERR_OK) {
        return err;
    }
    const int32_t head = peft->base->head_dim;
    const bool turned = row->turned && !is_a && from->shape[0] % head == 0;
    struct gguf_tensor tensor = {.name = {ours, strlen(ours)},
        .type = types[from->type],
        .dims = 2,
        .shape = {from->shape[1], from->shape[0], 1, 1},
        .offset = from->offset,
        .bytes = from->bytes,
        .turned_rows = turned ? head : 0};
    tensor.shown = arena_copy(&peft->gguf->arena, from->name, strlen(from->name));
    if (tensor.shown == NULL) {
        return err_set(peft->info, ERR_NO_MEMORY, from->name, "no memory for its name");
    }
    return gguf_put_tensor(peft->gguf, &tensor, peft->info);
}

static enum err put_tensors(struct peft *peft)
{
    enum err err = gguf_put_string(
        peft->gguf, "general.type", WEIGHTS, "adapter", strlen("adapter"), peft->info);
    if (err == ERR_OK) {
        err = gguf_put_room(peft->gguf, MAX(peft->all.count, (size_t)1), peft->info);
    }
    for (size_t i = 0; i < peft->all.count && err == ERR_OK; i++) {
        err = put_tensor(peft, &peft->all.tensors[i]);
    }
    return err == ERR_OK ? gguf_sort(peft->gguf, peft->info) : err;
}

static enum err fill(struct peft *peft, int folder)
{
    struct gguf *gguf = peft->gguf;
    enum err err = file_open_in(folder, WEIGHTS, &gguf->fds[0], &gguf->file_bytes, peft->info);
    if (err != ERR_OK) {
        return err;
    }
    gguf->fd_count = 1;
    err = safetensors_read(
        gguf->fds[0], gguf->file_bytes, WEIGHTS, &peft->arena, &peft->all, peft->info);
    return err == ERR_OK ? put_tensors(peft) : err;
}

static enum err open_folder(
    int folder, const struct adapter_base *base, struct adapter *adapter, struct err_info *info)
{
    struct adapter_config config;
    enum err err = adapter_config_open(folder, &config, info);
    if (err != ERR_OK) {
        return err;
    }
    struct peft peft = {.base = base, .config = &config, .gguf = gguf_create(), .info = info};
    if (peft.gguf == NULL) {
        return err_set(info, ERR_NO_MEMORY, WEIGHTS, "no memory to open it");
    }
    arena_init(&peft.arena, MEM_OTHER, ARENA_BLOCK_BYTES, ARENA_BYTES);
    err = fill(&peft, folder);
    arena_drop(&peft.arena);
    if (err != ERR_OK) {
        gguf_close(peft.gguf);
        return err;
    }
    adapter->gguf = peft.gguf;
    adapter->alpha = config.alpha;
    adapter->root = config.root;
    return ERR_OK;
}

/* ---- GGUF files ----------------------------------------------------------------------------- */

static enum err want_word(const struct gguf *gguf, const char *key, const char *word,
    size_t word_bytes, struct err_info *info)
{
    struct gguf_string value = {0};
    enum err err = gguf_get_string(gguf, key, true, &value, info);
    if (err == ERR_OK &&
        (value.count != word_bytes || memcmp(value.bytes, word, word_bytes) != 0)) {
        return err_set(info, ERR_UNSUPPORTED, key, "is \"%.*s\", not \"%.*s\"",
            (int)MIN(value.count, (size_t)32), value.bytes, (int)word_bytes, word);
    }
    return err;
}

/* Of what is below "adapter." the rest asks for something else, as to begin at certain tokens. */
static enum err check_keys(const struct gguf *gguf, struct err_info *info)
{
    static const char *const known[] = {"adapter.type", "adapter.lora.alpha",
        "adapter.lora.task_name", "adapter.lora.prompt_prefix"};
    for (int32_t i = 0; i < gguf_key_count(gguf); i++) {
        const char *key = gguf_key(gguf, i);
        bool is_known = strncmp(key, "adapter.", strlen("adapter.")) != 0;
        for (size_t k = 0; k < ARRAY_COUNT(known); k++) {
            is_known |= strcmp(key, known[k]) == 0;
        }
        if (!is_known) {
            return err_set(
                info, ERR_UNSUPPORTED, key, "the key is not known and could change the results");
        }
    }
    return ERR_OK;
}

static enum err check_tensors(const struct adapter *adapter, struct err_info *info)
{
    for (int32_t i = 0; i < gguf_tensor_count(adapter->gguf); i++) {
        const struct gguf_tensor *tensor = gguf_tensor_at(adapter->gguf, i);
        if (tensor_type_block(tensor->type) != 1) {
            return err_set(info, ERR_UNSUPPORTED, tensor->name.bytes, "numbers of type %s",
                tensor_type_word(tensor->type));
        }
    }
    return ERR_OK;
}

static enum err open_file(const char *path, const struct adapter_base *base,
    struct adapter *adapter, struct err_info *info)
{
    struct adapter opened = *adapter;
    enum err err = gguf_open(path, &opened.gguf, info);
    if (err != ERR_OK) {
        return err;
    }
    const struct gguf *gguf = opened.gguf;
    err = want_word(gguf, "general.type", "adapter", strlen("adapter"), info);
    if (err == ERR_OK) {
        err = want_word(gguf, "adapter.type", "lora", strlen("lora"), info);
    }
    if (err == ERR_OK) {
        err = want_word(
            gguf, "general.architecture", base->architecture.bytes, base->architecture.count, info);
    }
    if (err == ERR_OK) {
        err = check_keys(gguf, info);
    }
    if (err == ERR_OK) {
        err = gguf_get_f64(gguf, "adapter.lora.alpha", true, &opened.alpha, info);
    }
    if (err == ERR_OK && !(opened.alpha > 0)) {
        err = err_set(info, ERR_FORMAT, "adapter.lora.alpha", "must be above 0");
    }
    if (err == ERR_OK) {
        err = check_tensors(&opened, info);
    }
    if (err != ERR_OK) {
        adapter_close(&opened);
        return err;
    }
    *adapter = opened;
    return ERR_OK;
}

/* ---- both ----------------------------------------------------------------------------------- */

/* The path's last name without ".gguf"; "adapter" for one that cannot be shown. */
static void take_name(const char *path, char out[ADAPTER_NAME_BYTES])
{
    size_t count;
    const char *name = file_last_name(path, &count);
    const size_t ending = strlen(".gguf");
    if (count > ending && strncmp(name + count - ending, ".gguf", ending) == 0) {
        count -= ending;
    }
    size_t shown = 0;
    if (utf8_valid(name, count)) {
        shown = utf8_complete(name, MIN(count, (size_t)ADAPTER_NAME_BYTES - 1));
    }
    if (shown == 0) {
        name = "adapter";
        shown = strlen(name);
    }
    (void)snprintf(out, ADAPTER_NAME_BYTES, "%.*s", (int)shown, name);
}

enum err adapter_open(const char *path, const struct adapter_base *base,
    struct adapter *out_adapter, struct err_info *info)
{
    struct adapter adapter = {0};
    int folder = -1;
    take_name(path, adapter.name);
    enum err err;
    if (file_folder(path, &folder)) {
        err = open_folder(folder, base, &adapter, info);
        close(folder);
    } else {
        err = open_file(path, base, &adapter, info);
    }
    if (err != ERR_OK) {
        return name_adapter(&adapter, err, info);
    }
    *out_adapter = adapter;
    return ERR_OK;
}

void adapter_close(struct adapter *adapter)
{
    gguf_close(adapter->gguf);
    adapter->gguf = NULL;
}

double adapter_scale(const struct adapter *adapter, int32_t rank)
{
    return adapter->alpha / (adapter->root ? sqrt((double)rank) : (double)rank);
}

const struct gguf_tensor *adapter_find(
    const struct adapter *adapter, const char *matrix, const char *ending)
{
    char name[LIMIT_FILE_NAME_BYTES + 16];
    (void)snprintf(name, sizeof(name), "%s%s", matrix, ending);
    return gguf_find_tensor(adapter->gguf, name);
}
