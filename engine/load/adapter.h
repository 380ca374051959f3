/*
 * A LoRA adapter (arXiv 2106.09685): for some matrices W [outputs, inputs] of a network a pair
 * A [rank, inputs] and B [outputs, rank], with which W x becomes W x + scale B (A x).
 *
 * Two forms of file become one, as with checkpoints: a GGUF file of type "adapter", or a folder as
 * PEFT writes it (adapter_config.json, adapter_model.safetensors). Tensors have the names of the
 * matrices they change and .lora_a or .lora_b behind: "blk.0.attn_q.weight.lora_a". Rows of B lie
 * as the engine's rows of W do. Whatever an adapter states that would change its numbers and is not
 * computed is an error naming file and key.
 */
#ifndef ENGINE_LOAD_ADAPTER_H
#define ENGINE_LOAD_ADAPTER_H

#include "engine/load/gguf.h"

enum { ADAPTER_NAME_BYTES = 64 };

struct adapter {
    char name[ADAPTER_NAME_BYTES]; /* of the file or folder, never a path; UTF-8 */
    struct gguf *gguf;             /* NULL: closed */
    double alpha;
    bool root; /* scaled by the root of the rank (rsLoRA, arXiv 2312.03732), else by the rank */
};

/* The network the adapter lies on. */
struct adapter_base {
    struct gguf_string architecture; /* general.architecture */
    int32_t head_dim;
};

/* Errors name the adapter and the key, or the tensor as the file calls it. */
MUST_USE enum err adapter_open(const char *path, const struct adapter_base *base,
    struct adapter *out_adapter, struct err_info *info);
void adapter_close(struct adapter *adapter); /* zeroed ones are allowed */
/* What B (A x) is multiplied with. */
double adapter_scale(const struct adapter *adapter, int32_t rank);
/* The tensor ".lora_a" or ".lora_b" of a matrix; NULL when there is none. */
const struct gguf_tensor *adapter_find(
    const struct adapter *adapter, const char *matrix, const char *ending);
/* err_set that names the adapter, and the tensor as the file does. */
enum err adapter_fail(const struct adapter *adapter, const struct gguf_tensor *tensor,
    enum err code, struct err_info *info, const char *format, ...) PRINTF_LIKE(5, 6);

#endif
