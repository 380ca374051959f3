/*
 * Block formats as integers: what tensor_type_unpack turns into numbers, before it does. A weight
 * is a q + b, where a and b hold for a *group* of 32 consecutive numbers (Q6_K: of 16).
 */
#ifndef ENGINE_KERNELS_TENSOR_INTEGERS_H
#define ENGINE_KERNELS_TENSOR_INTEGERS_H

#include "engine/kernels/tensor_type.h"

enum { TENSOR_GROUP_MAX = 32 };

struct tensor_group {
    int8_t q[TENSOR_GROUP_MAX];
    float a, b; /* b is zero in formats without minima, whose q is signed */
};

/* Numbers of a group; 0 for the float formats, which have none. */
int32_t tensor_integers_group(enum tensor_type type);
bool tensor_integers_minima(enum tensor_type type);
/* Group `index` of a file's block: index < tensor_type_block / group. */
void tensor_integers_read(
    enum tensor_type type, const unsigned char *block, int32_t index, struct tensor_group *out);

#endif
