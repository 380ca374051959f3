/*
 * Integers, scales and minima of blocks, for the reference of 8-bit products. The formats are told
 * in tensor_type.c; the tests hold a q + b against the numbers made there, bit for bit.
 */
#include "engine/kernels/tensor_integers.h"

#include "engine/base/assert.h"
#include "engine/base/half.h"

static float f16_at(const unsigned char *bytes)
{
    return half_from_f16((uint16_t)(bytes[0] | bytes[1] << 8));
}

int32_t tensor_integers_group(enum tensor_type type)
{
    return tensor_type_block(type) == 1 ? 0 : type == TENSOR_Q6_K ? 16 : 32;
}

bool tensor_integers_minima(enum tensor_type type)
{
    return type == TENSOR_Q4_1 || type == TENSOR_Q5_1 || type == TENSOR_Q4_K || type == TENSOR_Q5_K;
}

/* Blocks of 32: low nibbles are numbers 0-15, high nibbles 16-31; `high` may be NULL. */
static void read_nibbles(
    const unsigned char *quants, const unsigned char *high, int middle, int8_t q[32])
{
    for (int i = 0; i < 32; i++) {
        const int low = quants[i % 16] >> (i / 16 * 4) & 15;
        const int fifth = high == NULL ? 0 : (high[i / 8] >> (i % 8) & 1) << 4;
        q[i] = (int8_t)((low | fifth) - middle);
    }
}

/* Sub-block `sub` of Q4_K, and of Q5_K when `high` is not NULL. */
static void read_k(const unsigned char *block, const unsigned char *high,
    const unsigned char *quants, int32_t sub, struct tensor_group *out)
{
    const unsigned char *packed = block + 4;
    int scale, min;
    if (sub < 4) {
        scale = packed[sub] & 63;
        min = packed[sub + 4] & 63;
    } else {
        scale = (packed[sub + 4] & 15) | packed[sub - 4] >> 6 << 4;
        min = packed[sub + 4] >> 4 | packed[sub] >> 6 << 4;
    }
    out->a = f16_at(block) * (float)scale;
    out->b = -(f16_at(block + 2) * (float)min);
    for (int i = 0; i < 32; i++) {
        const int low = quants[sub / 2 * 32 + i] >> (sub % 2 * 4) & 15;
        out->q[i] = (int8_t)(low | (high == NULL ? 0 : (high[i] >> sub & 1) << 4));
    }
}

static void read_q6_k(const unsigned char *block, int32_t index, struct tensor_group *out)
{
    const int32_t half = index / 8;
    const int32_t row = index % 8 / 2;
    out->a = f16_at(block + 208) * (float)(int8_t)block[192 + index];
    out->b = 0;
    for (int32_t i = 0; i < 16; i++) {
        const int32_t at = index % 2 * 16 + i;
        const int low = block[half * 64 + row % 2 * 32 + at] >> (row / 2 * 4) & 15;
        const int top = block[128 + half * 32 + at] >> (row * 2) & 3;
        out->q[i] = (int8_t)((low | top << 4) - 32);
    }
}

void tensor_integers_read(
    enum tensor_type type, const unsigned char *block, int32_t index, struct tensor_group *out)
{
    ASSERT(tensor_type_block(type) > 1);
    out->a = f16_at(block);
    out->b = tensor_integers_minima(type) ? f16_at(block + 2) : 0;
    switch (type) {
    case TENSOR_Q8_0:
        for (int i = 0; i < 32; i++) {
            out->q[i] = (int8_t)block[2 + i];
        }
        break;
    case TENSOR_Q4_0:
        read_nibbles(block + 2, NULL, 8, out->q);
        break;
    case TENSOR_Q4_1:
        read_nibbles(block + 4, NULL, 0, out->q);
        break;
    case TENSOR_Q5_0:
        read_nibbles(block + 6, block + 2, 16, out->q);
        break;
    case TENSOR_Q5_1:
        read_nibbles(block + 8, block + 4, 0, out->q);
        break;
    case TENSOR_Q4_K:
        read_k(block, NULL, block + 16, index, out);
        break;
    case TENSOR_Q5_K:
        read_k(block, block + 16, block + 48, index, out);
        break;
    case TENSOR_Q6_K:
        read_q6_k(block, index, out);
        break;
    case TENSOR_F32:
    case TENSOR_F16:
    case TENSOR_BF16:
    case TENSOR_TYPE_COUNT:
        ASSERT(false);
    }
}
