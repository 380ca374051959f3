/*
 * Reading panels: the weights of four outputs at a time, exactly. Shared by the kernel that
 * unpacks panels (unpack_neon.c) and the one that multiplies straight from them (few_neon.c).
 * Every function is inlined with a constant type.
 *
 * A weight of a block format is a c + b: c is a small integer in the middle of its range
 * (-8..7 for four bits), and a and b hold for a whole chain of 32 inputs (Q6_K: of 16):
 *
 *     y += a sum(c x) + b sum(x)        (b is 0 for formats without minima)
 *
 * Formats whose q is unsigned have b = minimum + a * middle (docs/kernels.md says why that is
 * exact). Block formats are read as quads: 32-bit words of four c, of four consecutive inputs, one
 * word per output and lane (panel.h, whose turned bits make quants signed). A format's own work is
 * to bring each word to four signed bytes with c in their top bits. One byte shuffle then puts a
 * byte at the top of an integer, zeros below; the conversion to float is one from fixed point, so
 * what comes out is c itself.
 *
 * All block formats are walked in sub-blocks of 32 inputs, of eight quads in two parts.
 * `quarter`, 0 to 3, chooses four of a panel's outputs.
 */
#ifndef ENGINE_KERNELS_ARM_PANEL_NEON_H
#define ENGINE_KERNELS_ARM_PANEL_NEON_H

#include <arm_neon.h>
#include "engine/kernels/arm/lanes_neon.h"
#include "engine/kernels/kernels.h"
#include "engine/kernels/unroll.h"

enum {
    QUAD = 4,                       /* inputs of a word */
    SUB_BLOCK = 32,                 /* inputs */
    PART_QUADS = 4,                 /* of half a sub-block */
    SUPER_SUBS = 8,                 /* sub-blocks of a K-quant block */
    F16_BYTES = 2 * PANEL_OUTPUTS,  /* one f16 of each output */
    WORD_BYTES = 4 * PANEL_OUTPUTS, /* one word of each output */
};

struct affine {
    float32x4_t a, b;
};

/* One quarter of one sub-block: its block's f16 numbers and words, and its number in the block. */
struct sub_block {
    const unsigned char *f16, *words;
    int sub;
};

ALWAYS_INLINE bool panel_is_k(enum tensor_type type)
{
    return type == TENSOR_Q4_K || type == TENSOR_Q5_K || type == TENSOR_Q6_K;
}

ALWAYS_INLINE bool panel_is_float(enum tensor_type type)
{
    return type == TENSOR_F32 || type == TENSOR_F16 || type == TENSOR_BF16;
}

/* f16 numbers and words of a block, as panel_layout_of has them: constants where it is inlined. */
ALWAYS_INLINE int panel_halves(enum tensor_type type)
{
    return type == TENSOR_Q4_0 || type == TENSOR_Q5_0 || type == TENSOR_Q8_0 || type == TENSOR_Q6_K
               ? 1
               : 2;
}

ALWAYS_INLINE int panel_words(enum tensor_type type)
{
    return type == TENSOR_Q4_0 || type == TENSOR_Q4_1   ? 4
           : type == TENSOR_Q5_0 || type == TENSOR_Q5_1 ? 5
           : type == TENSOR_Q8_0                        ? 8
           : type == TENSOR_Q4_K                        ? 35
           : type == TENSOR_Q5_K                        ? 43
                                                        : 52;
}

ALWAYS_INLINE struct sub_block panel_sub_block(
    enum tensor_type type, const unsigned char *panel, int32_t index, int quarter)
{
    const int32_t block = panel_is_k(type) ? index / SUPER_SUBS : index;
    const int halves_bytes = panel_halves(type) * F16_BYTES;
    const unsigned char *at =
        panel + (size_t)block * (size_t)(halves_bytes + panel_words(type) * WORD_BYTES);
    return (struct sub_block){
        at + quarter * (F16_BYTES / 4),
        at + halves_bytes + quarter * (WORD_BYTES / 4),
        panel_is_k(type) ? index % SUPER_SUBS : 0,
    };
}

ALWAYS_INLINE uint32x4_t panel_word(const unsigned char *words, int index)
{
    return vld1q_u32((const uint32_t *)(const void *)(words + index * WORD_BYTES));
}

ALWAYS_INLINE uint32x4_t bytes_and(uint32x4_t v, uint32_t byte)
{
    return vandq_u32(v, vdupq_n_u32(byte * 0x01010101u));
}

/* By a number of bits of either sign, which may be known when it runs only. */
ALWAYS_INLINE uint32x4_t shifted_left(uint32x4_t v, int by)
{
    return vshlq_u32(v, vdupq_n_s32(by));
}

/* ---- a and b -------------------------------------------------------------------------------- */

/* Bits of a c. */
ALWAYS_INLINE int panel_bits(enum tensor_type type)
{
    return type == TENSOR_Q8_0                                                 ? 8
           : type == TENSOR_Q6_K                                               ? 6
           : type == TENSOR_Q5_0 || type == TENSOR_Q5_1 || type == TENSOR_Q5_K ? 5
                                                                               : 4;
}

/* Whether b is not zero. */
ALWAYS_INLINE bool panel_has_minima(enum tensor_type type)
{
    return type == TENSOR_Q4_1 || type == TENSOR_Q5_1 || type == TENSOR_Q4_K || type == TENSOR_Q5_K;
}

/* Inputs for which a and b hold. */
ALWAYS_INLINE int panel_chain(enum tensor_type type)
{
    return type == TENSOR_Q6_K ? SUB_BLOCK / 2 : SUB_BLOCK;
}

ALWAYS_INLINE struct affine affine_of(enum tensor_type type, float32x4_t a, float32x4_t minimum)
{
    const float middle = (float)(1 << (panel_bits(type) - 1));
    return (struct affine){a, vfmaq_n_f32(minimum, a, middle)};
}

ALWAYS_INLINE float32x4_t byte_of_word(uint32x4_t v, int i)
{
    return vcvtq_f32_u32(vandq_u32(shifted_left(v, -8 * i), vdupq_n_u32(0xff)));
}

/* a = d s, minimum = -(d_min m); the 12 bytes of 6-bit s and m are three words (tensor_type.c). */
ALWAYS_INLINE struct affine affine_k(enum tensor_type type, const struct sub_block *at)
{
    const uint32x4_t w0 = panel_word(at->words, 0);
    const uint32x4_t w1 = panel_word(at->words, 1);
    uint32x4_t s = bytes_and(w0, 63);
    uint32x4_t m = bytes_and(w1, 63);
    if (at->sub >= 4) {
        const uint32x4_t w2 = panel_word(at->words, 2);
        s = vorrq_u32(bytes_and(w2, 15), bytes_and(vshrq_n_u32(w0, 2), 48));
        m = vorrq_u32(bytes_and(vshrq_n_u32(w2, 4), 15), bytes_and(vshrq_n_u32(w1, 2), 48));
    }
    const float32x4_t a = vmulq_f32(lanes_f16(at->f16), byte_of_word(s, at->sub % 4));
    const float32x4_t b = vmulq_f32(lanes_f16(at->f16 + F16_BYTES), byte_of_word(m, at->sub % 4));
    return affine_of(type, a, vnegq_f32(b));
}

/* Q6_K has an int8 scale for each 16 numbers, after 48 words of quants. */
ALWAYS_INLINE float32x4_t scale_q6_k(const struct sub_block *at, int part)
{
    const uint32x4_t scales = panel_word(at->words, 48 + at->sub / 2);
    const uint32x4_t up = shifted_left(scales, 24 - 8 * (at->sub % 2 * 2 + part));
    const int32x4_t scale = vshrq_n_s32(vreinterpretq_s32_u32(up), 24);
    return vmulq_f32(lanes_f16(at->f16), vcvtq_f32_s32(scale));
}

/* b is of use only where panel_has_minima. */
ALWAYS_INLINE struct affine panel_affine(
    enum tensor_type type, const struct sub_block *at, int part)
{
    const float32x4_t zero = vdupq_n_f32(0);
    if (type == TENSOR_Q6_K) {
        return affine_of(type, scale_q6_k(at, part), zero);
    }
    if (panel_is_k(type)) {
        return affine_k(type, at);
    }
    return affine_of(
        type, lanes_f16(at->f16), panel_has_minima(type) ? lanes_f16(at->f16 + F16_BYTES) : zero);
}

/* ---- c -------------------------------------------------------------------------------------- */

/* Fifth bits of quad `quad`, at bit 7 of the four bytes: the byte of the word of 32 bits that has
 * them is spread over the lane, and each byte keeps its own bit. */
ALWAYS_INLINE uint32x4_t fifth_bits(uint32x4_t high, int quad)
{
    static const uint32_t first_bytes[4] = {0, 0x04040404, 0x08080808, 0x0c0c0c0c};
    const uint8x16_t spread =
        vaddq_u8(vreinterpretq_u8_u32(vld1q_u32(first_bytes)), vdupq_n_u8((uint8_t)(quad / 2)));
    const uint8x16_t own =
        vreinterpretq_u8_u32(shifted_left(vdupq_n_u32(0x08040201), quad % 2 * 4));
    const uint8x16_t bits = vtstq_u8(vqtbl1q_u8(vreinterpretq_u8_u32(high), spread), own);
    return bytes_and(vreinterpretq_u32_u8(bits), 0x80);
}

/* Small blocks: low nibbles are the first part, high nibbles the second. They come to rest with
 * their top bit at bit `top` of their bytes. */
ALWAYS_INLINE uint32x4_t nibbles(const unsigned char *words, int part, int quad, int top)
{
    const uint32x4_t there = shifted_left(panel_word(words, quad), top - (part == 0 ? 3 : 7));
    return bytes_and(there, 15u << (top - 3));
}

/* Each 8 words hold two sub-blocks, low nibbles first; bit `sub` of each high byte is the fifth. */
ALWAYS_INLINE uint32x4_t quad_k(enum tensor_type type, const struct sub_block *at, int quad)
{
    const int first = type == TENSOR_Q4_K ? 3 : 11;
    const uint32x4_t v = panel_word(at->words, first + at->sub / 2 * 8 + quad);
    const int down = at->sub % 2 * 4;
    if (type == TENSOR_Q4_K) {
        return bytes_and(shifted_left(v, 4 - down), 0xf0);
    }
    const uint32x4_t high = shifted_left(panel_word(at->words, 3 + quad), 7 - at->sub);
    return vorrq_u32(bytes_and(shifted_left(v, 3 - down), 0x78), bytes_and(high, 0x80));
}

/* 32 words of low nibbles, 16 of bit pairs; the order of numbers is told in tensor_type.c. */
ALWAYS_INLINE uint32x4_t quad_q6_k(const struct sub_block *at, int quad)
{
    const int row = at->sub % 4;
    const uint32x4_t v = panel_word(at->words, at->sub / 4 * 16 + row % 2 * 8 + quad);
    const uint32x4_t h = panel_word(at->words, 32 + at->sub / 4 * 8 + quad);
    const uint32x4_t low = bytes_and(shifted_left(v, 2 - row / 2 * 4), 0x3c);
    return vorrq_u32(low, bytes_and(shifted_left(h, 6 - row * 2), 0xc0));
}

/* Four c, in the top bits of signed bytes, of inputs 16 part + 4 quad and following. */
ALWAYS_INLINE uint32x4_t panel_quad(
    enum tensor_type type, const struct sub_block *at, int part, int quad)
{
    const int whole = PART_QUADS * part + quad;
    if (type == TENSOR_Q8_0) {
        return panel_word(at->words, whole);
    }
    if (type == TENSOR_Q4_0 || type == TENSOR_Q4_1) {
        return nibbles(at->words, part, quad, 7);
    }
    if (type == TENSOR_Q5_0 || type == TENSOR_Q5_1) {
        const uint32x4_t low = nibbles(at->words + WORD_BYTES, part, quad, 6);
        return vorrq_u32(low, fifth_bits(panel_word(at->words, 0), whole));
    }
    return type == TENSOR_Q6_K ? quad_q6_k(at, whole) : quad_k(type, at, whole);
}

/* c of byte `i` of a quad. The shift of a conversion has to be a literal. */
ALWAYS_INLINE float32x4_t panel_number(enum tensor_type type, uint32x4_t quad, int i)
{
    const uint32_t none = 0xffffff; /* out of range: the shuffle writes 0 */
    const uint32x4_t last_bytes = {none, none | 4u << 24, none | 8u << 24, none | 12u << 24};
    const uint32x4_t to_top = vaddq_u32(last_bytes, vdupq_n_u32((uint32_t)i << 24));
    const int32x4_t top =
        vreinterpretq_s32_u8(vqtbl1q_u8(vreinterpretq_u8_u32(quad), vreinterpretq_u8_u32(to_top)));
    switch (panel_bits(type)) {
    case 8:
        return vcvtq_n_f32_s32(top, 24);
    case 6:
        return vcvtq_n_f32_s32(top, 26);
    case 5:
        return vcvtq_n_f32_s32(top, 27);
    default:
        return vcvtq_n_f32_s32(top, 28);
    }
}

/* ---- plain floats --------------------------------------------------------------------------- */

ALWAYS_INLINE float32x4_t panel_float(
    enum tensor_type type, const unsigned char *panel, size_t input, int quarter)
{
    if (type == TENSOR_F32) {
        const void *at = panel + input * WORD_BYTES + quarter * (WORD_BYTES / 4);
        return vld1q_f32(at);
    }
    const unsigned char *at = panel + input * F16_BYTES + quarter * (F16_BYTES / 4);
    if (type == TENSOR_F16) {
        return lanes_f16(at);
    }
    const uint16x4_t bits = vld1_u16((const uint16_t *)(const void *)at);
    return vreinterpretq_f32_u32(vshll_n_u16(bits, 16));
}

#endif
