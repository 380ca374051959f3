/*
 * Reading panels: the weights of LANES outputs at a time, exactly. Shared by the kernel that
 * unpacks panels (unpack.c) and the one that multiplies straight from them (few.c).
 * Every function is inlined with a constant type.
 *
 * A weight of a block format is a c + b: c is a small integer in the middle of its range
 * (-8..7 for four bits), and a and b hold for a whole chain of 32 inputs (Q6_K: of 16). Products
 * are therefore summed as integers c first, one FMA a weight, and a and b come in once a chain:
 *
 *     y += a sum(c x) + b sum(x)        (b is 0 for formats without minima)
 *
 * Formats whose q is unsigned have b = minimum + a * middle. That sum is exact as long as it is
 * below 1, since all f16 numbers are multiples of 2^-24: so are the weights of real models. Summing
 * c instead of q halves the products, and so their rounding.
 *
 * Block formats are read as quads: 32-bit words of four c, of four consecutive inputs, one word per
 * output and lane (panel.h, whose turned bits make quants signed). A format's own work is to bring
 * each word to four signed bytes with c in their top bits. One byte shuffle then puts a byte at the
 * top of an integer, zeros below, for the conversion to float: c 2^s, the same power of two for all
 * four, which a makes good. With 16 lanes a four-bit c is looked up in a vector instead.
 *
 * All block formats are walked in sub-blocks of 32 inputs, of eight quads in two parts.
 * `vector` chooses the outputs: LANES of them, of which a panel has one or two vectors.
 */
#ifndef ENGINE_KERNELS_LANES_PANEL_LANES_H
#define ENGINE_KERNELS_LANES_PANEL_LANES_H

#include "engine/kernels/kernels.h"
#include "engine/kernels/lanes/lanes.h"
#include "engine/kernels/unroll.h"

enum {
    QUAD = 4,       /* inputs of a word */
    SUB_BLOCK = 32, /* inputs */
    PART_QUADS = 4, /* of half a sub-block */
    SUPER_SUBS = 8, /* sub-blocks of a K-quant block */
    PANEL_VECTORS = PANEL_OUTPUTS / LANES,
    HAS_TABLE = LANES == 16,        /* of all four-bit c: floats_of_nibbles */
    F16_BYTES = 2 * PANEL_OUTPUTS,  /* one f16 of each output */
    WORD_BYTES = 4 * PANEL_OUTPUTS, /* one word of each output */
};

/* Of weights a c + b, where a is divided by the power of two that panel_number multiplies c by; or
 * of weights a q + b. */
struct affine {
    floats a, b;
};

/* One vector of one sub-block: its block's f16 numbers and words, and its number in the block. */
struct sub_block {
    const unsigned char *f16, *words;
    int sub;
};

ALWAYS_INLINE int panel_is_k(enum tensor_type type)
{
    return type == TENSOR_Q4_K || type == TENSOR_Q5_K || type == TENSOR_Q6_K;
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

ALWAYS_INLINE size_t panel_block_bytes(enum tensor_type type)
{
    return (size_t)(panel_halves(type) * F16_BYTES + panel_words(type) * WORD_BYTES);
}

ALWAYS_INLINE struct sub_block panel_sub_block(
    enum tensor_type type, const unsigned char *panel, int32_t index, int vector)
{
    const int32_t block = panel_is_k(type) ? index / SUPER_SUBS : index;
    const unsigned char *at = panel + (size_t)block * panel_block_bytes(type);
    return (struct sub_block){
        at + vector * 2 * LANES,
        at + panel_halves(type) * F16_BYTES + vector * 4 * LANES,
        panel_is_k(type) ? index % SUPER_SUBS : 0,
    };
}

ALWAYS_INLINE ints panel_word(const unsigned char *words, int index)
{
    return ints_load(words + index * WORD_BYTES);
}

ALWAYS_INLINE ints bytes_and(ints v, uint32_t byte)
{
    return v & ints_all((int)(byte * 0x01010101u));
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

ALWAYS_INLINE floats byte_of_word(ints v, int i)
{
    return floats_of_ints(ints_shifted_right(v, 8 * i) & ints_all(0xff));
}

/* d s and -(d_min m); the 12 bytes of 6-bit s and m are three words (tensor_type.c). */
ALWAYS_INLINE struct affine scales_k(const struct sub_block *at)
{
    const ints w0 = panel_word(at->words, 0);
    const ints w1 = panel_word(at->words, 1);
    ints s = bytes_and(w0, 63);
    ints m = bytes_and(w1, 63);
    if (at->sub >= 4) {
        const ints w2 = panel_word(at->words, 2);
        const ints s_top = bytes_and(ints_right(w0, 2), 48);
        const ints m_top = bytes_and(ints_right(w1, 2), 48);
        s = bytes_and(w2, 15) | s_top;
        m = bytes_and(ints_right(w2, 4), 15) | m_top;
    }
    const floats a = floats_of_f16(at->f16) * byte_of_word(s, at->sub % 4);
    const floats b = floats_of_f16(at->f16 + F16_BYTES) * byte_of_word(m, at->sub % 4);
    return (struct affine){a, -b};
}

/* Q6_K has an int8 scale for each 16 numbers, after 48 words of quants. */
ALWAYS_INLINE floats scale_q6_k(const struct sub_block *at, int part)
{
    const ints scales = panel_word(at->words, 48 + at->sub / 2);
    const ints up = ints_shifted_right(scales, -(24 - 8 * (at->sub % 2 * 2 + part)));
    const floats scale = floats_of_ints(ints_right_signed(up, 24));
    return floats_of_f16(at->f16) * scale;
}

/* The format's own scale and minimum: weight = a q + b. b is of use only where panel_has_minima. */
ALWAYS_INLINE struct affine panel_scales(
    enum tensor_type type, const struct sub_block *at, int part)
{
    if (type == TENSOR_Q6_K) {
        return (struct affine){scale_q6_k(at, part), floats_zero()};
    }
    if (panel_is_k(type)) {
        return scales_k(at);
    }
    return (struct affine){
        floats_of_f16(at->f16),
        panel_has_minima(type) ? floats_of_f16(at->f16 + F16_BYTES) : floats_zero(),
    };
}

/* The same for c, and for what panel_number makes of it. */
ALWAYS_INLINE struct affine panel_affine(
    enum tensor_type type, const struct sub_block *at, int part)
{
    const struct affine scales = panel_scales(type, at, part);
    const int bits = panel_bits(type);
    const float middle = (float)(1 << (bits - 1));
    const float unit = 1.0f / (float)(1u << (32 - bits));
    return (struct affine){
        scales.a * floats_all(unit),
        floats_fma(scales.a, floats_all(middle), scales.b),
    };
}

/* ---- c -------------------------------------------------------------------------------------- */

/* Fifth bits of quad `quad`, at bit 7 of the four bytes: the byte of the word of 32 bits that has
 * them is spread over the lane, and each byte keeps its own bit. */
ALWAYS_INLINE ints fifth_bits(ints high, int quad)
{
    const ints bytes = ints_four(0, 0x04040404, 0x08080808, 0x0c0c0c0c);
    const ints spread = ints_add_bytes(bytes, ints_all_bytes((char)(quad / 2)));
    const ints own = ints_shifted_right(ints_all(0x08040201), -(quad % 2 * 4));
    return ints_bytes_with(ints_shuffle_bytes(high, spread), own, 0x80);
}

/* Small blocks: low nibbles are the first part, high nibbles the second. They come to rest with
 * their top bit at bit `top` of their bytes. */
ALWAYS_INLINE ints nibbles(const unsigned char *words, int part, int quad, int top)
{
    const ints v = panel_word(words, quad);
    const int up = top - (part == 0 ? 3 : 7);
    const ints there = up >= 0 ? ints_left(v, up) : ints_right(v, -up);
    return bytes_and(there, 15u << (top - 3));
}

/* Each 8 words hold two sub-blocks, low nibbles first; bit `sub` of each high byte is the fifth. */
ALWAYS_INLINE ints quad_k(enum tensor_type type, const struct sub_block *at, int quad)
{
    const int first = type == TENSOR_Q4_K ? 3 : 11;
    const ints v = panel_word(at->words, first + at->sub / 2 * 8 + quad);
    const int down = at->sub % 2 * 4;
    if (type == TENSOR_Q4_K) {
        return HAS_TABLE ? ints_shifted_right(v, down)
                         : bytes_and(ints_shifted_right(v, down - 4), 0xf0);
    }
    const ints low = bytes_and(ints_shifted_right(v, down - 3), 0x78);
    const ints high = ints_shifted_right(panel_word(at->words, 3 + quad), at->sub - 7);
    return low | bytes_and(high, 0x80);
}

/* 32 words of low nibbles, 16 of bit pairs; the order of numbers is told in tensor_type.c. */
ALWAYS_INLINE ints quad_q6_k(const struct sub_block *at, int quad)
{
    const int row = at->sub % 4;
    const ints v = panel_word(at->words, at->sub / 4 * 16 + row % 2 * 8 + quad);
    const ints h = panel_word(at->words, 32 + at->sub / 4 * 8 + quad);
    const ints low = bytes_and(ints_shifted_right(v, row / 2 * 4 - 2), 0x3c);
    return low | bytes_and(ints_shifted_right(h, row * 2 - 6), 0xc0);
}

/* Four c, in the top bits of signed bytes, of inputs 16 part + 4 quad and following. Four-bit ones
 * are in the low bits if there is a table for them. */
ALWAYS_INLINE ints panel_quad(enum tensor_type type, const struct sub_block *at, int part, int quad)
{
    const int whole = PART_QUADS * part + quad;
    if (type == TENSOR_Q8_0) {
        return panel_word(at->words, whole);
    }
    if (type == TENSOR_Q4_0 || type == TENSOR_Q4_1) {
        return HAS_TABLE ? ints_right(panel_word(at->words, quad), part * 4)
                         : nibbles(at->words, part, quad, 7);
    }
    if (type == TENSOR_Q5_0 || type == TENSOR_Q5_1) {
        const ints low = nibbles(at->words + WORD_BYTES, part, quad, 6);
        return low | fifth_bits(panel_word(at->words, 0), whole);
    }
    return type == TENSOR_Q6_K ? quad_q6_k(at, whole) : quad_k(type, at, whole);
}

/* c of byte `i` of a quad, times 2^(32 - panel_bits). */
ALWAYS_INLINE floats panel_number(enum tensor_type type, ints quad, int i)
{
    if (HAS_TABLE && panel_bits(type) == 4) {
        return floats_of_nibbles(ints_right(quad, 8 * i));
    }
    const int none = 0x808080;
    const ints to_top = ints_four(
        none | i << 24, none | (i + 4) << 24, none | (i + 8) << 24, none | (i + 12) << 24);
    return floats_of_ints(ints_shuffle_bytes(quad, to_top));
}

/* ---- plain floats --------------------------------------------------------------------------- */

ALWAYS_INLINE bool panel_is_float(enum tensor_type type)
{
    return type == TENSOR_F32 || type == TENSOR_F16 || type == TENSOR_BF16;
}

ALWAYS_INLINE floats panel_float(
    enum tensor_type type, const unsigned char *panel, size_t input, int vector)
{
    if (type == TENSOR_F32) {
        const unsigned char *at = panel + input * WORD_BYTES + vector * 4 * LANES;
        return floats_load((const float *)(const void *)at);
    }
    const unsigned char *at = panel + input * F16_BYTES + vector * 2 * LANES;
    return type == TENSOR_F16 ? floats_of_f16(at) : floats_of_bf16(at);
}

#endif
