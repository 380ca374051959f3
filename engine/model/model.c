/*
 * Opens a network from a GGUF file and frees it again. What differs between networks is in
 * engine/arch; here is what every file has in common: its name, its size, and the rule that every
 * tensor in it must have been asked for.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "engine/attn/mask.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"
#include "engine/model/parts.h"

/* general.name without what looks like a folder and without control characters; a name that does
 * not fit is cut between characters. */
static void copy_name(struct gguf_string from, char *out, size_t out_bytes)
{
    size_t start = 0;
    for (size_t i = 0; i < from.count; i++) {
        if (from.bytes[i] == '/' || from.bytes[i] == '\\') {
            start = i + 1;
        }
    }
    size_t used = 0;
    for (size_t i = start; i < from.count && used + 1 < out_bytes; i++) {
        unsigned char byte = (unsigned char)from.bytes[i];
        if (byte >= 0x20 && byte != 0x7f) {
            out[used] = from.bytes[i];
            used++;
        }
    }
    out[utf8_complete(out, used)] = '\0';
}

static enum err find_network(struct model *model, const struct gguf *gguf, struct err_info *info)
{
    const char *key = "general.architecture";
    struct gguf_string name = {0};
    enum err err = gguf_get_string(gguf, key, true, &name, info);
    if (err != ERR_OK) {
        return err;
    }
    model->network = arch_find(name.bytes, name.count);
    if (model->network == NULL) {
        return err_set(info, ERR_UNSUPPORTED, key, "no network \"%.*s\" is built in",
            (int)MIN(name.count, (size_t)32), name.bytes);
    }
    int64_t parts = 1;
    err = gguf_get_i64(gguf, "split.count", false, 0, INT64_MAX, &parts, info);
    if (err != ERR_OK) {
        return err;
    }
    if (parts > 1) {
        return err_set(info, ERR_UNSUPPORTED, "split.count", "the model is split into files");
    }
    return ERR_OK;
}

/* Most common type among the matrices; on a tie the first of enum tensor_type. */
static const char *common_type(const struct gguf *gguf)
{
    int32_t counts[TENSOR_TYPE_COUNT] = {0};
    for (int32_t i = 0; i < gguf_tensor_count(gguf); i++) {
        const struct gguf_tensor *tensor = gguf_tensor_at(gguf, i);
        counts[tensor->type] += tensor->dims >= 2;
    }
    int best = 0;
    for (int type = 1; type < TENSOR_TYPE_COUNT; type++) {
        if (counts[type] > counts[best]) {
            best = type;
        }
    }
    return tensor_type_word((enum tensor_type)best);
}

/* The network's name serves a file that has none, or none that can be shown. */
static enum err find_name(struct model *model, const struct gguf *gguf, struct err_info *info)
{
    char *out = model->info.name;
    struct gguf_string name = {0};
    enum err err = gguf_get_string(gguf, "general.name", false, &name, info);
    if (err != ERR_OK) {
        return err;
    }
    copy_name(name, out, sizeof(model->info.name));
    if (out[0] == '\0') {
        (void)snprintf(out, sizeof(model->info.name), "%s", model->network->name);
    }
    return ERR_OK;
}

static void describe_file(struct model *model, const struct gguf *gguf)
{
    struct model_info *info = &model->info;
    (void)snprintf(info->architecture, sizeof(info->architecture), "%s", model->network->name);
    (void)snprintf(info->weights_type, sizeof(info->weights_type), "%s", common_type(gguf));
    for (int32_t i = 0; i < gguf_tensor_count(gguf); i++) {
        const int64_t *shape = gguf_tensor_at(gguf, i)->shape;
        info->parameters += (uint64_t)(shape[0] * shape[1] * shape[2] * shape[3]);
    }
    info->file_bytes = gguf_file_bytes(gguf);
    info->context = info->context_trained;
}

/* Takes every tensor out of `block`, or with NULL only checks them all; counts model->bytes. */
static enum err take_weights(struct model *model, const struct gguf *gguf, struct threads *threads,
    unsigned char *block, struct err_info *info)
{
    struct weights weights;
    enum err err = weights_init(&weights, gguf, model->kernels, threads, block, model->bytes, info);
    if (err != ERR_OK) {
        return err;
    }
    err = model->network->load(model, &weights, info);
    if (err == ERR_OK) {
        err = dense_load(model, &weights, info);
    }
    if (err == ERR_OK) {
        err = weights_unused(&weights, info);
    }
    model->bytes = weights.bytes;
    if (block == NULL) {
        model->matrices = weights.matrices;
        model->matrix_count = weights.matrix_count;
        weights.matrices = NULL;
    }
    weights_free(&weights);
    return err;
}

static enum err load_weights(
    struct model *model, const struct gguf *gguf, struct threads *threads, struct err_info *info)
{
    enum err err = take_weights(model, gguf, threads, NULL, info);
    if (err != ERR_OK || model->dry) {
        return err;
    }
    model->weights = mem_alloc(MEM_WEIGHTS, model->bytes);
    if (model->weights == NULL) {
        return err_set(
            info, ERR_NO_MEMORY, "weights", "no memory for their %" PRIu64 " bytes", model->bytes);
    }
    return take_weights(model, gguf, threads, model->weights, info);
}

static bool is_block_format(enum tensor_type type)
{
    return tensor_type_block(type) > 1;
}

/* Whether any matrix that is multiplied has a type of that kind. */
static bool any_matrix(const struct model *model, bool (*is_of_kind)(enum tensor_type type))
{
    bool any = model->head != NULL && is_of_kind(model->head->weight.type);
    for (int32_t i = 0; i < model->dense_count; i++) {
        any |= is_of_kind(model->dense[i].linear.weight.type);
    }
    for (int32_t l = 0; l < model->info.layers; l++) {
        const struct layer *layer = &model->layers[l];
        const struct linear *linears[] = {&layer->q, &layer->k, &layer->v, &layer->output,
            &layer->gate, &layer->up, &layer->down};
        for (size_t i = 0; i < ARRAY_COUNT(linears); i++) {
            any |= is_of_kind(linears[i]->weight.type);
        }
    }
    return any;
}

static enum err open_ropes(struct model *model, struct err_info *info)
{
    const struct hyper *hyper = &model->hyper;
    for (int32_t i = 0; i < hyper->rope_count; i++) {
        const struct rope_shape *shape = &hyper->ropes[i];
        model->bytes += rope_bytes(hyper->rotary_dim / 2);
        if (!model->dry && rope_open(&model->ropes[i], hyper->rotary_dim / 2, shape->base,
                               shape->factor, model->rope_divisors) != ERR_OK) {
            return err_set(info, ERR_NO_MEMORY, NULL, "no memory for the rope table");
        }
    }
    return ERR_OK;
}

/* A checkpoint may be for shorter sequences than it has positions. */
static enum err limit_sequence(struct model *model, const struct gguf *gguf, struct err_info *info)
{
    int64_t most = model->info.context_trained;
    enum err err = gguf_get_i64(gguf, GGUF_SEQUENCE_KEY, false, 1, LIMIT_CONTEXT, &most, info);
    model->info.context_trained = MIN(model->info.context_trained, (int32_t)most);
    return err;
}

static enum err open_parts(
    struct model *model, const struct gguf *gguf, struct threads *threads, struct err_info *info)
{
    enum err err = find_network(model, gguf, info);
    if (err == ERR_OK) {
        err = find_name(model, gguf, info);
    }
    if (err == ERR_OK) {
        err = arch_check_keys(gguf, model->network, info);
    }
    if (err == ERR_OK) {
        err = model->network->describe(model, gguf, info);
    }
    if (err == ERR_OK) {
        err = dense_describe(model, gguf, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    model->layers = mem_array(MEM_OTHER, (size_t)model->info.layers, sizeof(*model->layers));
    if (model->layers == NULL) {
        return err_set(info, ERR_NO_MEMORY, NULL, "no memory for %d layers", model->info.layers);
    }
    for (int32_t l = 0; l < model->info.layers; l++) {
        model->layers[l].reach = REACH_ALL;
    }
    err = load_weights(model, gguf, threads, info);
    if (err == ERR_OK) {
        err = open_ropes(model, info);
    }
    if (err == ERR_OK) {
        model->sums_wanted = any_matrix(model, tensor_type_has_minima);
        describe_file(model, gguf);
    }
    return err;
}

enum err model_open(const struct gguf *gguf, const struct kernels *kernels, struct threads *threads,
    bool dry, struct model **out_model, struct err_info *info)
{
    struct model *model = mem_alloc(MEM_OTHER, sizeof(*model));
    if (model == NULL) {
        return err_set(info, ERR_NO_MEMORY, NULL, "no memory for the model");
    }
    model->kernels = kernels;
    model->dry = dry;
    enum err err = open_parts(model, gguf, threads, info);
    if (err == ERR_OK) {
        err = limit_sequence(model, gguf, info);
    }
    if (err != ERR_OK) {
        model_close(model);
        return gguf_name_error(gguf, err, info);
    }
    *out_model = model;
    return ERR_OK;
}

void model_close(struct model *model)
{
    if (model == NULL) {
        return;
    }
    mem_free(model->layers);
    mem_free(model->weights);
    mem_free(model->matrices);
    mem_free(model->low_ranks);
    mem_free(model->stacked);
    for (int32_t i = 0; i < ROPES_MAX; i++) {
        rope_close(&model->ropes[i]);
    }
    mem_free(model);
}

const struct model_info *model_info(const struct model *model)
{
    return &model->info;
}

struct model_info *model_info_mutable(struct model *model)
{
    return &model->info;
}

enum err model_use_int8(struct model *model, struct err_info *info)
{
    if (model->kernels->quantize == NULL) {
        return err_set(info, ERR_CONFIG, "activations",
            "the %s kernels multiply f32 activations only", model->kernels->name);
    }
    if (!any_matrix(model, is_block_format)) {
        return err_set(info, ERR_CONFIG, "activations",
            "int8 needs matrices of a block format, such as q8_0 or q4_1; all of this file's are "
            "floats");
    }
    model->info.int8_activations = true;
    return ERR_OK;
}

uint64_t model_bytes(const struct model *model)
{
    return model->bytes;
}

int32_t model_units(const struct model *model)
{
    return 2 * model->info.layers;
}

int32_t model_positions(const struct model *model)
{
    return model->positions != NULL ? model->info.context_trained : MODEL_POSITIONS;
}
