/* See adapters.h. Modes with equal lists share one stack, and so also K/V. */
#include "engine/adapters.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "engine/base/mem.h"
#include "engine/load/file.h"
#include "engine/load/profile.h"
#include "engine/model/stack.h"

struct loading {
    const struct engine_config *config;
    const struct gguf *gguf;
    struct model *model;
    struct err_info *info;
    struct profile profile;
    char paths[LIMIT_ADAPTERS][PATH_MAX];
    bool flagged[LIMIT_ADAPTERS]; /* by --adapter */
    bool used[LIMIT_ADAPTERS];
    int32_t path_count;
    struct stack stacks[KIND_COUNT];
    int32_t stack_count;
    struct adapter adapters[LIMIT_ADAPTERS];
};

static bool same_name(const char *a, const char *b)
{
    size_t bytes_a, bytes_b;
    const char *name_a = file_last_name(a, &bytes_a), *name_b = file_last_name(b, &bytes_b);
    return bytes_a == bytes_b && memcmp(name_a, name_b, bytes_a) == 0;
}

/* ---- files ---------------------------------------------------------------------------------- */

/* However it is written, with a slash at its end or by a link: laid twice, it would count twice. */
static bool same_file(const char *a, const char *b)
{
    struct stat of_a, of_b;
    return strcmp(a, b) == 0 || (stat(a, &of_a) == 0 && stat(b, &of_b) == 0 &&
                                    of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino);
}

static enum err add_path(
    struct loading *loading, const char *path, const char *where, int32_t *out_index)
{
    for (int32_t i = 0; i < loading->path_count; i++) {
        if (same_file(loading->paths[i], path)) {
            *out_index = i;
            return ERR_OK;
        }
    }
    if (loading->path_count == LIMIT_ADAPTERS) {
        return err_set(loading->info, ERR_LIMIT, where, "more than %d adapters", LIMIT_ADAPTERS);
    }
    (void)snprintf(loading->paths[loading->path_count], PATH_MAX, "%s", path);
    *out_index = loading->path_count++;
    return ERR_OK;
}

static enum err add_flags(struct loading *loading)
{
    const struct engine_config *config = loading->config;
    if (config->adapter_count > LIMIT_ADAPTERS) {
        return err_set(
            loading->info, ERR_CONFIG, "adapter", "more than %d adapters", LIMIT_ADAPTERS);
    }
    for (int32_t i = 0; i < config->adapter_count; i++) {
        int32_t index = 0;
        if (strlen(config->adapters[i]) >= PATH_MAX) {
            return err_set(loading->info, ERR_CONFIG, "adapter", "the path is too long");
        }
        enum err err = add_path(loading, config->adapters[i], "adapter", &index);
        if (err != ERR_OK) {
            return err;
        }
        if (loading->flagged[index]) {
            return err_set(loading->info, ERR_CONFIG, "adapter", "the same adapter twice");
        }
        loading->flagged[index] = true;
    }
    return ERR_OK;
}

/* The profile lies in this folder: "" or something with a slash at its end. */
static size_t profile_folder(const struct loading *loading)
{
    const struct engine_config *config = loading->config;
    const char *path = config->profile_path != NULL ? config->profile_path : config->model_path;
    size_t bytes;
    return (size_t)(file_last_name(path, &bytes) - path);
}

static enum err find_path(
    struct loading *loading, const char *entry, const char *where, int32_t *out_index)
{
    char path[PATH_MAX];
    for (int32_t i = 0; i < loading->config->adapter_count; i++) {
        if (same_name(loading->config->adapters[i], entry)) {
            return add_path(loading, loading->config->adapters[i], where, out_index);
        }
    }
    const struct engine_config *config = loading->config;
    const char *profile = config->profile_path != NULL ? config->profile_path : config->model_path;
    const int folder = entry[0] == '/' ? 0 : (int)profile_folder(loading);
    const int written =
        snprintf(path, sizeof(path), "%.*s%s", folder, folder > 0 ? profile : "", entry);
    if (written < 0 || (size_t)written >= sizeof(path)) {
        return err_set(loading->info, ERR_LIMIT, where, "the path is too long");
    }
    return add_path(loading, path, where, out_index);
}

/* ---- stacks --------------------------------------------------------------------------------- */

/* The number of a stack with these adapters; 0 = none. */
static int32_t add_stack(struct loading *loading, const struct stack *stack)
{
    if (stack->count == 0) {
        return 0;
    }
    for (int32_t i = 0; i < stack->count; i++) {
        loading->used[stack->adapters[i]] = true;
    }
    for (int32_t s = 0; s < loading->stack_count; s++) {
        const struct stack *known = &loading->stacks[s];
        if (known->count == stack->count &&
            memcmp(known->adapters, stack->adapters, (size_t)stack->count * sizeof(int32_t)) == 0) {
            return s + 1;
        }
    }
    loading->stacks[loading->stack_count++] = *stack;
    return loading->stack_count;
}

static enum err stated_stack(struct loading *loading, enum kind kind, struct stack *out)
{
    static const char *const words[KIND_COUNT] = {
#define X(name, word) "adapters." word,
        KIND_MAP(X)
#undef X
    };
    const struct profile_adapters *list = &loading->profile.adapters[kind];
    struct stack stack = {.count = 0};
    for (int32_t i = 0; i < list->count; i++) {
        int32_t index = 0;
        enum err err = find_path(loading, list->paths[i], words[kind], &index);
        if (err != ERR_OK) {
            return err;
        }
        for (int32_t k = 0; k < stack.count; k++) {
            if (stack.adapters[k] == index) {
                return err_set(
                    loading->info, ERR_FORMAT, words[kind], "one adapter stands twice in the list");
            }
        }
        stack.adapters[stack.count++] = index;
    }
    *out = stack;
    return ERR_OK;
}

/* Those of the flags are the first paths. */
static struct stack flagged_stack(const struct loading *loading)
{
    struct stack stack = {.count = loading->config->adapter_count};
    for (int32_t i = 0; i < stack.count; i++) {
        stack.adapters[i] = i;
    }
    return stack;
}

/* Whether requests of this kind can have rows that see each other. */
static bool has_both_ways(const struct model_info *about, enum kind kind)
{
    if (kind != KIND_INFILL) {
        return kind == KIND_EMBED && about->can_embed;
    }
    bool hybrid = about->prompt_attention == ATTENTION_BIDIRECTIONAL;
    for (int32_t i = 0; i < about->infill_mode_count; i++) {
        hybrid |= about->infill_modes[i] == INFILL_HYBRID;
    }
    return hybrid && about->can_infill;
}

static enum err make_table(struct loading *loading, struct stack_table *table)
{
    const struct model_info *about = model_info(loading->model);
    const struct stack flagged = flagged_stack(loading);
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        if (loading->profile.adapters[kind].stated) {
            struct stack stack;
            enum err err = stated_stack(loading, (enum kind)kind, &stack);
            if (err != ERR_OK) {
                return err;
            }
            table->causal[kind] = table->both_ways[kind] = add_stack(loading, &stack);
        } else if (has_both_ways(about, (enum kind)kind)) {
            table->both_ways[kind] = add_stack(loading, &flagged);
        }
    }
    for (int32_t i = 0; i < loading->config->adapter_count; i++) {
        if (!loading->used[i]) {
            size_t bytes;
            const char *name = file_last_name(loading->paths[i], &bytes);
            return err_set(loading->info, ERR_CONFIG, "adapter",
                "%.*s lies on nothing: modes are off, or the profile's lists lack it",
                (int)MIN(bytes, (size_t)64), name);
        }
    }
    return ERR_OK;
}

/* ---- loading -------------------------------------------------------------------------------- */

static enum err open_all(struct loading *loading)
{
    struct adapter_base base = {.head_dim = model_info(loading->model)->head_dim};
    enum err err = gguf_get_string(
        loading->gguf, "general.architecture", true, &base.architecture, loading->info);
    for (int32_t i = 0; i < loading->path_count && err == ERR_OK; i++) {
        err = adapter_open(loading->paths[i], &base, &loading->adapters[i], loading->info);
    }
    return err;
}

/* /infill's `auto` takes the first mode that works. */
static void prefer_hybrid(struct model_info *about)
{
    int32_t i = 0;
    while (i < about->infill_mode_count && about->infill_modes[i] != INFILL_HYBRID) {
        i++;
    }
    for (; i > 0 && i < about->infill_mode_count; i--) {
        about->infill_modes[i] = about->infill_modes[i - 1];
        about->infill_modes[i - 1] = INFILL_HYBRID;
    }
}

static void describe(const struct loading *loading, const struct stack_table *table)
{
    struct model_info *about = model_info_mutable(loading->model);
    for (int32_t i = 0; i < loading->path_count; i++) {
        (void)snprintf(
            about->adapters[i], sizeof(about->adapters[i]), "%s", loading->adapters[i].name);
    }
    about->adapter_count = loading->path_count;
    memcpy(about->stacks, loading->stacks, sizeof(about->stacks));
    about->stack_count = loading->stack_count;
    about->stack_table = *table;
    if (!loading->profile.infill_modes_stated && table->both_ways[KIND_INFILL] > 0) {
        prefer_hybrid(about);
    }
}

static enum err load(struct loading *loading)
{
    const struct engine_config *config = loading->config;
    struct stack_table table = {.causal = {0}};
    enum err err = profile_read(
        config->model_path, config->profile_path, loading->gguf, &loading->profile, loading->info);
    if (err == ERR_OK) {
        err = add_flags(loading);
    }
    if (err == ERR_OK) {
        err = make_table(loading, &table);
    }
    if (err == ERR_OK) {
        err = open_all(loading);
    }
    const struct stack_set set = {
        loading->adapters, loading->path_count, loading->stacks, loading->stack_count};
    if (err == ERR_OK) {
        err = model_lay_stacks(loading->model, loading->gguf, &set, loading->info);
    }
    if (err == ERR_OK) {
        describe(loading, &table);
    }
    return err;
}

enum err adapters_load(const struct engine_config *config, const struct gguf *gguf,
    struct model *model, struct err_info *info)
{
    struct loading *loading = mem_alloc(MEM_OTHER, sizeof(*loading));
    if (loading == NULL) {
        return err_set(info, ERR_NO_MEMORY, "adapter", "no memory to read it");
    }
    loading->config = config;
    loading->gguf = gguf;
    loading->model = model;
    loading->info = info;
    enum err err = load(loading);
    for (int32_t i = 0; i < loading->path_count; i++) {
        adapter_close(&loading->adapters[i]);
    }
    mem_free(loading);
    return err;
}
