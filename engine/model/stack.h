/*
 * Stacks of adapters on a loaded model. A stack is a list of adapters that apply together; a run of
 * a batch names the one that lies on its rows (struct run). Base weights stay as they are: beside
 * each matrix that a stack changes lies one pair of small matrices, the pairs of its adapters side
 * by side, so that
 *
 *     W x + s1 B1 (A1 x) + s2 B2 (A2 x)  =  W x + [s1 B1 | s2 B2] ([A1; A2] x)
 *
 * is one product more, however many they are. Both are f32; the scale is multiplied into B, once
 * rounded to f32. Rows without adapters do not take part in it: their bits are those of a model
 * without any, and rows of all kinds share a tile.
 */
#ifndef ENGINE_MODEL_STACK_H
#define ENGINE_MODEL_STACK_H

#include "engine/load/adapter.h"
#include "engine/model/model.h"

struct stack_set {
    const struct adapter *adapters;
    int32_t adapter_count;
    const struct stack *stacks; /* of those; runs call the first one 1 */
    int32_t stack_count;
};

/* Lays stacks on a model that has none, before any scratch is sized: once. `gguf` is the file the
 * model was opened from; of a dry model only names and shapes are looked at and bytes counted.
 * Every tensor of every adapter must belong to a matrix of the layers. Errors name adapter and
 * tensor; the model is then of no further use. */
MUST_USE enum err model_lay_stacks(struct model *model, const struct gguf *gguf,
    const struct stack_set *set, struct err_info *info);
/* Bytes of the pairs of all stacks. */
uint64_t model_stack_bytes(const struct model *model);

#endif
