/*
 * The number formats' facts and their exact values: the one place where the bytes of a block turn
 * into numbers. Kernels pack from these values or from the bytes themselves and are tested against
 * this file; this file is tested against an independent dequantiser
 * (tests/golden/make_dequant_fixtures.py).
 *
 * Every product and sum below is one rounded float32 operation in the order the format defines
 * (no contraction), so that all programs reading the same file hold the same weights. The 16-bit
 * scales are the only floats of a block: values are finite exactly when the scales are, since
 * 65504 * 127 * 63 is far inside float32.
 */
#include "engine/kernels/tensor_type.h"

#include <string.h>
#include "engine/base/assert.h"
#include "engine/base/checked.h"
#include "engine/base/half.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "model files are little-endian");

enum {
    QUANT_BLOCK = 32,    /* numbers of a Qn_0 or Qn_1 block */
    SUPER_BLOCK = 256,   /* numbers of a K-quant block */
    K_SCALES_BYTES = 12, /* eight 6-bit scales and eight 6-bit minima */
};

struct facts {
    const char *word;
    uint32_t gguf_id;
    int32_t block;
    size_t block_bytes;
};

static const struct facts facts[TENSOR_TYPE_COUNT] = {
#define X(name, word, id, block, bytes) [TENSOR_##name] = {word, id, block, bytes},
    TENSOR_TYPE_MAP(X)
#undef X
};

static const struct facts *facts_of(enum tensor_type type)
{
    ASSERT((unsigned)type < TENSOR_TYPE_COUNT);
    return &facts[type];
}

const char *tensor_type_word(enum tensor_type type)
{
    return facts_of(type)->word;
}

int32_t tensor_type_block(enum tensor_type type)
{
    return facts_of(type)->block;
}

size_t tensor_type_block_bytes(enum tensor_type type)
{
    return facts_of(type)->block_bytes;
}

bool tensor_type_from_gguf(uint32_t id, enum tensor_type *out_type)
{
    for (int type = 0; type < TENSOR_TYPE_COUNT; type++) {
        if (facts[type].gguf_id == id) {
            *out_type = (enum tensor_type)type;
            return true;
        }
    }
    return false;
}

bool tensor_type_bytes(enum tensor_type type, size_t count, size_t *out_bytes)
{
    const struct facts *f = facts_of(type);
    size_t bytes;
    if (count % (size_t)f->block != 0 ||
        !checked_mul(count / (size_t)f->block, f->block_bytes, &bytes)) {
        return false;
    }
    *out_bytes = bytes;
    return true;
}

/* ---- reading ------------------------------------------------------------------------------- */

static uint16_t load_u16(const unsigned char *bytes)
{
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

static float load_f16(const unsigned char *bytes)
{
    return half_from_f16(load_u16(bytes));
}

/* ---- blocks of 32: low nibbles are numbers 0-15, high nibbles 16-31 ------------------------- */

static void unpack_q8_0(const unsigned char *block, float *out)
{
    const float d = load_f16(block);
    const unsigned char *quants = block + 2;
    for (int i = 0; i < QUANT_BLOCK; i++) {
        out[i] = d * (float)(int8_t)quants[i];
    }
}

static void unpack_q4_0(const unsigned char *block, float *out)
{
    const float d = load_f16(block);
    const unsigned char *quants = block + 2;
    for (int i = 0; i < QUANT_BLOCK / 2; i++) {
        out[i] = d * (float)((quants[i] & 15) - 8);
        out[i + QUANT_BLOCK / 2] = d * (float)((quants[i] >> 4) - 8);
    }
}

static void unpack_q4_1(const unsigned char *block, float *out)
{
    const float d = load_f16(block);
    const float m = load_f16(block + 2);
    const unsigned char *quants = block + 4;
    for (int i = 0; i < QUANT_BLOCK / 2; i++) {
        out[i] = d * (float)(quants[i] & 15) + m;
        out[i + QUANT_BLOCK / 2] = d * (float)(quants[i] >> 4) + m;
    }
}

/* Bit i of the 32 high bits belongs to number i. */
static int fifth_bit(const unsigned char *high, int i)
{
    return (high[i / 8] >> (i % 8) & 1) << 4;
}

static void unpack_q5_0(const unsigned char *block, float *out)
{
    const float d = load_f16(block);
    const unsigned char *high = block + 2;
    const unsigned char *quants = block + 6;
    for (int i = 0; i < QUANT_BLOCK / 2; i++) {
        const int j = i + QUANT_BLOCK / 2;
        out[i] = d * (float)(((quants[i] & 15) | fifth_bit(high, i)) - 16);
        out[j] = d * (float)(((quants[i] >> 4) | fifth_bit(high, j)) - 16);
    }
}

static void unpack_q5_1(const unsigned char *block, float *out)
{
    const float d = load_f16(block);
    const float m = load_f16(block + 2);
    const unsigned char *high = block + 4;
    const unsigned char *quants = block + 8;
    for (int i = 0; i < QUANT_BLOCK / 2; i++) {
        const int j = i + QUANT_BLOCK / 2;
        out[i] = d * (float)((quants[i] & 15) | fifth_bit(high, i)) + m;
        out[j] = d * (float)((quants[i] >> 4) | fifth_bit(high, j)) + m;
    }
}

/* ---- K-quants: super-blocks of 256 ---------------------------------------------------------- */

/*
 * Eight 6-bit scales s and minima m of the sub-blocks of 32, in 12 bytes:
 *
 *     byte 0-3    s[0-3] low 6 bits, top 2 bits = bits 4-5 of s[4-7]
 *     byte 4-7    m[0-3] low 6 bits, top 2 bits = bits 4-5 of m[4-7]
 *     byte 8-11   low nibble = bits 0-3 of s[4-7], high nibble = bits 0-3 of m[4-7]
 */
static void k_scale(const unsigned char *scales, int sub, int *out_scale, int *out_min)
{
    if (sub < 4) {
        *out_scale = scales[sub] & 63;
        *out_min = scales[sub + 4] & 63;
        return;
    }
    *out_scale = (scales[sub + 4] & 15) | scales[sub - 4] >> 6 << 4;
    *out_min = scales[sub + 4] >> 4 | scales[sub] >> 6 << 4;
}

/* Q4_K, and Q5_K when `high` is not NULL: bit `sub` of high[i] is the fifth bit of number i of
 * sub-block `sub`. Each 32 bytes of quants hold two sub-blocks, low nibbles first. */
static void unpack_k_nibbles(
    const unsigned char *block, const unsigned char *high, const unsigned char *quants, float *out)
{
    const float d = load_f16(block);
    const float d_min = load_f16(block + 2);
    for (int sub = 0; sub < SUPER_BLOCK / 32; sub++) {
        int scale, min;
        k_scale(block + 4, sub, &scale, &min);
        const float d_sub = d * (float)scale;
        const float m_sub = d_min * (float)min;
        const unsigned char *nibbles = quants + sub / 2 * 32;
        for (int i = 0; i < 32; i++) {
            int q = nibbles[i] >> (sub % 2 * 4) & 15;
            if (high != NULL) {
                q |= (high[i] >> sub & 1) << 4;
            }
            *out++ = d_sub * (float)q - m_sub;
        }
    }
}

static void unpack_q4_k(const unsigned char *block, float *out)
{
    unpack_k_nibbles(block, NULL, block + 4 + K_SCALES_BYTES, out);
}

static void unpack_q5_k(const unsigned char *block, float *out)
{
    const unsigned char *high = block + 4 + K_SCALES_BYTES;
    unpack_k_nibbles(block, high, high + 32, out);
}

/*
 * Q6_K: low nibbles [128], high bit pairs [64], int8 scales of 16 numbers each [16], f16 d. A half
 * of 128 numbers is four rows of 32: row r takes the low (r < 2) or high nibbles of bytes
 * (r % 2) * 32 + i, and bit pair r of high byte i.
 */
static void unpack_q6_k(const unsigned char *block, float *out)
{
    const unsigned char *scales = block + 192;
    const float d = load_f16(block + 208);
    for (int half = 0; half < 2; half++) {
        const unsigned char *low = block + half * 64;
        const unsigned char *high = block + 128 + half * 32;
        for (int row = 0; row < 4; row++) {
            for (int i = 0; i < 32; i++) {
                const int nibble = low[row % 2 * 32 + i] >> (row / 2 * 4) & 15;
                const int q = (nibble | (high[i] >> (row * 2) & 3) << 4) - 32;
                const float scale = (float)(int8_t)scales[half * 8 + row * 2 + i / 16];
                *out++ = d * scale * (float)q;
            }
        }
    }
}

/* ---- whole rows ----------------------------------------------------------------------------- */

static void unpack_blocks(enum tensor_type type, const unsigned char *blocks, size_t count,
    void (*unpack)(const unsigned char *block, float *out), float *out)
{
    const struct facts *f = &facts[type];
    for (size_t i = 0; i < count; i += (size_t)f->block) {
        unpack(blocks, out + i);
        blocks += f->block_bytes;
    }
}

void tensor_type_unpack(enum tensor_type type, const void *blocks, size_t count, float *out)
{
    const unsigned char *bytes = blocks;
    ASSERT(count % (size_t)facts_of(type)->block == 0);
    switch (type) {
    case TENSOR_F32:
        if (count > 0) {
            memcpy(out, bytes, count * sizeof(float));
        }
        break;
    case TENSOR_F16:
        for (size_t i = 0; i < count; i++) {
            out[i] = load_f16(bytes + 2 * i);
        }
        break;
    case TENSOR_BF16:
        for (size_t i = 0; i < count; i++) {
            out[i] = half_from_bf16(load_u16(bytes + 2 * i));
        }
        break;
    case TENSOR_Q4_0:
        unpack_blocks(type, bytes, count, unpack_q4_0, out);
        break;
    case TENSOR_Q4_1:
        unpack_blocks(type, bytes, count, unpack_q4_1, out);
        break;
    case TENSOR_Q5_0:
        unpack_blocks(type, bytes, count, unpack_q5_0, out);
        break;
    case TENSOR_Q5_1:
        unpack_blocks(type, bytes, count, unpack_q5_1, out);
        break;
    case TENSOR_Q8_0:
        unpack_blocks(type, bytes, count, unpack_q8_0, out);
        break;
    case TENSOR_Q4_K:
        unpack_blocks(type, bytes, count, unpack_q4_k, out);
        break;
    case TENSOR_Q5_K:
        unpack_blocks(type, bytes, count, unpack_q5_k, out);
        break;
    case TENSOR_Q6_K:
        unpack_blocks(type, bytes, count, unpack_q6_k, out);
        break;
    case TENSOR_TYPE_COUNT:
        ASSERT(false);
    }
}

/* ---- finite numbers ------------------------------------------------------------------------- */

/* True for each f16 at bytes[0], bytes[stride], ... whose exponent is not all ones. */
static bool f16_finite(const unsigned char *bytes, size_t count, size_t stride)
{
    bool finite = true;
    for (size_t i = 0; i < count; i++) {
        finite &= (load_u16(bytes + i * stride) & 0x7c00) != 0x7c00;
    }
    return finite;
}

static bool float_finite(enum tensor_type type, const unsigned char *bytes, size_t count)
{
    bool finite = true;
    for (size_t i = 0; i < count; i++) {
        /* The top halves of both formats hold the same sign and exponent. */
        const uint16_t top =
            type == TENSOR_F32 ? load_u16(bytes + 4 * i + 2) : load_u16(bytes + 2 * i);
        finite &= (top & 0x7f80) != 0x7f80;
    }
    return finite;
}

bool tensor_type_has_minima(enum tensor_type type)
{
    return type == TENSOR_Q4_1 || type == TENSOR_Q5_1 || type == TENSOR_Q4_K || type == TENSOR_Q5_K;
}

bool tensor_type_finite(enum tensor_type type, const void *blocks, size_t count)
{
    const struct facts *f = facts_of(type);
    const unsigned char *bytes = blocks;
    ASSERT(count % (size_t)f->block == 0);
    const size_t block_count = count / (size_t)f->block;
    switch (type) {
    case TENSOR_F32:
    case TENSOR_BF16:
        return float_finite(type, bytes, count);
    case TENSOR_F16:
    case TENSOR_Q4_0:
    case TENSOR_Q5_0:
    case TENSOR_Q8_0:
        return f16_finite(bytes, block_count, f->block_bytes);
    case TENSOR_Q4_1:
    case TENSOR_Q5_1:
    case TENSOR_Q4_K:
    case TENSOR_Q5_K:
        return f16_finite(bytes, block_count, f->block_bytes) &&
               f16_finite(bytes + 2, block_count, f->block_bytes);
    case TENSOR_Q6_K:
        return f16_finite(bytes + 208, block_count, f->block_bytes);
    case TENSOR_TYPE_COUNT:
        break;
    }
    ASSERT(false);
    return false;
}
