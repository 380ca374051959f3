/*
 * Panels of block formats as the kernels of 8-bit products read them: a weight is a q + b with the
 * format's own q, four q a lane, unsigned and at the bottom of their bytes. That is what their
 * instructions multiply, and bits left free at the top let products be added in 16 bits. (Products
 * of floats want q signed and at the top: panel_lanes.h.)
 */
#ifndef ENGINE_KERNELS_X86_INT8_QUADS_H
#define ENGINE_KERNELS_X86_INT8_QUADS_H

#include "engine/kernels/lanes/panel_lanes.h"

/* Whether there is vpdpbusd, which adds four products of bytes to a lane. */
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
#define INT8_DOTS 1
#else
#define INT8_DOTS 0
#endif

enum { SUB_QUADS = SUB_BLOCK / QUAD };

/* Added to q to make it unsigned. Q8_0 stays signed where pairs are added: two products of 255 x
 * 127 would pass 16 bits. */
ALWAYS_INLINE int quad_middle(enum tensor_type type)
{
    return panel_has_minima(type) ? 0
           : type == TENSOR_Q8_0  ? 128 * INT8_DOTS
                                  : 1 << (panel_bits(type) - 1);
}

/* Quads whose products fit 16 bits together: 2 x 8 x 15 x 127, 2 x 4 x 31 x 127,
 * 2 x 2 x 63 x 127. */
ALWAYS_INLINE int quad_pairs(enum tensor_type type)
{
    return panel_bits(type) == 4 ? 8 : panel_bits(type) == 5 ? 4 : panel_bits(type) == 6 ? 2 : 1;
}

/* Fifth bits at bit 4 of the four bytes. Panels hold them turned over (panel.h). */
ALWAYS_INLINE ints quad_fifth(ints high, int quad)
{
    const ints bytes = ints_four(0, 0x04040404, 0x08080808, 0x0c0c0c0c);
    const ints spread = ints_add_bytes(bytes, ints_all_bytes((char)(quad / 2)));
    const ints own = ints_all(quad % 2 == 0 ? 0x08040201 : (int)0x80402010);
    return ints_bytes_with(~ints_shuffle_bytes(high, spread), own, 0x10);
}

/* Small blocks: low nibbles are the first 16 inputs, high nibbles the last. */
ALWAYS_INLINE ints quad_nibbles(const unsigned char *words, int quad)
{
    const ints v = panel_word(words, quad % PART_QUADS);
    return bytes_and(quad < PART_QUADS ? v : ints_right(v, 4), 15);
}

/* Each 8 words hold two sub-blocks, low nibbles first; bit `sub` of each high byte is the fifth. */
ALWAYS_INLINE ints quad_of_k(enum tensor_type type, const struct sub_block *at, int quad)
{
    const int first = type == TENSOR_Q4_K ? 3 : 11;
    const ints v = panel_word(at->words, first + at->sub / 2 * 8 + quad);
    const ints low = bytes_and(ints_shifted_right(v, at->sub % 2 * 4), 15);
    if (type == TENSOR_Q4_K) {
        return low ^ ints_all(0x08080808);
    }
    const ints high = ints_shifted_right(~panel_word(at->words, 3 + quad), at->sub - 4);
    return low | bytes_and(high, 16);
}

ALWAYS_INLINE ints quad_of_q6_k(const struct sub_block *at, int quad)
{
    const int row = at->sub % 4;
    const ints v = panel_word(at->words, at->sub / 4 * 16 + row % 2 * 8 + quad);
    const ints h = panel_word(at->words, 32 + at->sub / 4 * 8 + quad) ^ ints_all((int)0xaaaaaaaa);
    const ints low = bytes_and(ints_shifted_right(v, row / 2 * 4), 15);
    return low | bytes_and(ints_shifted_right(h, row * 2 - 4), 48);
}

/* Inputs [4 quad, 4 quad + 4) of a sub-block. */
ALWAYS_INLINE ints quad_of(enum tensor_type type, const struct sub_block *at, int quad)
{
    if (type == TENSOR_Q8_0) {
        const ints v = panel_word(at->words, quad);
        return v ^ ints_all(INT8_DOTS ? (int)0x80808080 : 0);
    }
    if (type == TENSOR_Q4_0 || type == TENSOR_Q4_1) {
        return quad_nibbles(at->words, quad) ^ ints_all(0x08080808);
    }
    if (type == TENSOR_Q5_0 || type == TENSOR_Q5_1) {
        return quad_nibbles(at->words + WORD_BYTES, quad) |
               quad_fifth(panel_word(at->words, 0), quad);
    }
    return type == TENSOR_Q6_K ? quad_of_q6_k(at, quad) : quad_of_k(type, at, quad);
}

/* The quad that comes `i`-th: those that share words follow one another. */
ALWAYS_INLINE int quad_order(enum tensor_type type, int i)
{
    return panel_is_k(type) || type == TENSOR_Q8_0 ? i : i / 2 + i % 2 * PART_QUADS;
}

/* Four numbers of a row, or two sums, in every lane. */
ALWAYS_INLINE ints quad_inputs(const void *at)
{
    int32_t word;
    __builtin_memcpy(&word, at, sizeof word);
    return ints_all(word);
}

/* Sums of the two products of 16-bit numbers of each lane. */
ALWAYS_INLINE ints quad_madd(ints x, ints y)
{
    return MM(madd_epi16)(x, y);
}

#if defined(__AVX512VNNI__)
ALWAYS_INLINE ints quad_dot(ints sums, ints w, ints x)
{
    return _mm512_dpbusd_epi32(sums, w, x);
}
#elif defined(__AVXVNNI__)
ALWAYS_INLINE ints quad_dot(ints sums, ints w, ints x)
{
    return _mm256_dpbusd_avx_epi32(sums, w, x);
}
#elif !defined(KERNELS_AVX512)
/* Products of unsigned and signed bytes, pairs of which are added in 16 bits: the caller sees to it
 * that no sum passes them. */
ALWAYS_INLINE ints quad_dot_pairs(ints pairs, ints w, ints x)
{
    return MM(add_epi16)(pairs, MM(maddubs_epi16)(w, x));
}

/* |w| times x with the sign of w: at most 2 x 128 x 127. */
ALWAYS_INLINE ints quad_dot_signed(ints w, ints x)
{
    return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
}

ALWAYS_INLINE ints quad_widen(ints sums, ints pairs)
{
    return ints_add(sums, quad_madd(pairs, ints_all(0x00010001)));
}
#endif

#endif
