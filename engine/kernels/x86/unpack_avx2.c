/*
 * Panels to exact floats.
 *
 * Every block format is handled as 32-bit words of four quants, one word per output and lane (see
 * panel.h). A format's own work is to bring each word to four clean unsigned bytes q and to find
 * the two floats a and b with
 *
 *     weight = a q + b,   rounded once.
 *
 * That single rounding by FMA is exact to the format's definition: a q has at most 11 (f16) + 6
 * (scale) + 6 (quant) bits and so is exact in float, whether the format then adds a minimum
 * (one rounding in both) or subtracts a whole offset first (no rounding at all). The bytes of a
 * word are not shifted down: byte i gives q 2^(8 i), exact too, and takes a 2^(-8 i).
 */
#include <immintrin.h>
#include "engine/base/assert.h"
#include "engine/kernels/x86/avx2.h"

enum {
    HALF = 8,            /* lanes: outputs of half a panel */
    QUANTS = 32,         /* numbers of a small block or of a K sub-block */
    F16_BYTES = 2 * 16,  /* one f16 of each output */
    WORD_BYTES = 4 * 16, /* one word of each output */
    TILE_ROW = 16,       /* floats */
    SUPER_BLOCK = 256,   /* numbers of a K-quant block */
    K_SUB_BLOCKS = 8,    /* of 32 */
};

/* weight = a q + b, with a scaled for the bytes of a word: [0] also serves byte 3, shifted. */
struct affine {
    __m256 a[3];
    __m256 b;
};

static inline struct affine affine_of(__m256 a, __m256 b)
{
    return (struct affine){
        {a, _mm256_mul_ps(a, _mm256_set1_ps(0x1p-8f)), _mm256_mul_ps(a, _mm256_set1_ps(0x1p-16f))},
        b,
    };
}

static inline __m256 halves(const unsigned char *at)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)at));
}

static inline __m256i words(const unsigned char *at)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

static inline __m256i bytes_and(__m256i v, uint32_t byte)
{
    return _mm256_and_si256(v, _mm256_set1_epi32((int)(byte * 0x01010101u)));
}

static inline __m256 weight(__m256i masked, __m256 a, __m256 b)
{
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(masked), a, b);
}

/* Four numbers of eight outputs into four rows of the tile. */
static inline void put_four(__m256i v, const struct affine *f, float *tile)
{
    const __m256i byte = _mm256_set1_epi32(0xff);
    const __m256i v1 = _mm256_and_si256(v, _mm256_slli_epi32(byte, 8));
    const __m256i v2 = _mm256_and_si256(v, _mm256_slli_epi32(byte, 16));
    _mm256_storeu_ps(tile, weight(_mm256_and_si256(v, byte), f->a[0], f->b));
    _mm256_storeu_ps(tile + TILE_ROW, weight(v1, f->a[1], f->b));
    _mm256_storeu_ps(tile + 2 * TILE_ROW, weight(v2, f->a[2], f->b));
    _mm256_storeu_ps(tile + 3 * TILE_ROW, weight(_mm256_srli_epi32(v, 24), f->a[0], f->b));
}

/* ---- blocks of 32; `at` points at this half's first f16 ------------------------------------ */

static inline __m256 negated(float offset, __m256 d)
{
    return _mm256_mul_ps(_mm256_set1_ps(-offset), d);
}

static inline void nibbles_32(const unsigned char *quants, const struct affine *f, float *tile)
{
    for (int w = 0; w < 4; w++) {
        const __m256i v = words(quants + w * WORD_BYTES);
        put_four(bytes_and(v, 15), f, tile + 4 * w * TILE_ROW);
        put_four(bytes_and(_mm256_srli_epi32(v, 4), 15), f, tile + (16 + 4 * w) * TILE_ROW);
    }
}

static void half_q4_0(const unsigned char *f16, const unsigned char *quants, float *tile)
{
    const __m256 d = halves(f16);
    const struct affine f = affine_of(d, negated(8, d));
    nibbles_32(quants, &f, tile);
}

static void half_q4_1(const unsigned char *f16, const unsigned char *quants, float *tile)
{
    const struct affine f = affine_of(halves(f16), halves(f16 + F16_BYTES));
    nibbles_32(quants, &f, tile);
}

/* Fifth bits of numbers 4 i to 4 i + 3, at bit 4 of the four bytes: byte i / 2 of the word of high
 * bits is spread over the lane, and each byte keeps its own bit. */
static inline __m256i fifth_bits(__m256i high, int i)
{
    const __m256i spread = _mm256_add_epi8(
        _mm256_set1_epi8((char)(i / 2)), _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0,
                                             0x04040404, 0x08080808, 0x0c0c0c0c));
    const __m256i own = _mm256_set1_epi32(i % 2 == 0 ? 0x08040201 : (int)0x80402010u);
    const __m256i bits = _mm256_and_si256(_mm256_shuffle_epi8(high, spread), own);
    return bytes_and(_mm256_cmpeq_epi8(bits, own), 16);
}

static inline void fives_32(const unsigned char *quants, const struct affine *f, float *tile)
{
    const __m256i high = words(quants);
#pragma GCC unroll 4
    for (int w = 0; w < 4; w++) {
        const __m256i v = words(quants + (1 + w) * WORD_BYTES);
        const __m256i low = bytes_and(v, 15);
        const __m256i top = bytes_and(_mm256_srli_epi32(v, 4), 15);
        put_four(_mm256_or_si256(low, fifth_bits(high, w)), f, tile + 4 * w * TILE_ROW);
        put_four(_mm256_or_si256(top, fifth_bits(high, 4 + w)), f, tile + (16 + 4 * w) * TILE_ROW);
    }
}

static void half_q5_0(const unsigned char *f16, const unsigned char *quants, float *tile)
{
    const __m256 d = halves(f16);
    const struct affine f = affine_of(d, negated(16, d));
    fives_32(quants, &f, tile);
}

static void half_q5_1(const unsigned char *f16, const unsigned char *quants, float *tile)
{
    const struct affine f = affine_of(halves(f16), halves(f16 + F16_BYTES));
    fives_32(quants, &f, tile);
}

/* Signed bytes become unsigned by adding 128, which b takes back. */
static void half_q8_0(const unsigned char *f16, const unsigned char *quants, float *tile)
{
    const __m256 d = halves(f16);
    const struct affine f = affine_of(d, negated(128, d));
    for (int w = 0; w < 8; w++) {
        const __m256i v = words(quants + w * WORD_BYTES);
        put_four(
            _mm256_xor_si256(v, _mm256_set1_epi32((int)0x80808080u)), &f, tile + 4 * w * TILE_ROW);
    }
}

/* ---- K-quants: one sub-block of 32 of a block of 256 ---------------------------------------- */

/* Byte i of each word. */
static inline __m256 byte_of(__m256i v, int i)
{
    const __m256i down = _mm256_srl_epi32(v, _mm_cvtsi32_si128(8 * i));
    return _mm256_cvtepi32_ps(_mm256_and_si256(down, _mm256_set1_epi32(0xff)));
}

/* a = d s, b = -(d_min m); the 12 bytes of 6-bit s and m are three words (tensor_type.c). */
static inline struct affine k_affine(const unsigned char *f16, const unsigned char *scales, int sub)
{
    const __m256i w0 = words(scales);
    const __m256i w1 = words(scales + WORD_BYTES);
    __m256i s = bytes_and(w0, 63);
    __m256i m = bytes_and(w1, 63);
    if (sub >= 4) {
        const __m256i w2 = words(scales + 2 * WORD_BYTES);
        const __m256i s_top = bytes_and(_mm256_srli_epi32(w0, 2), 48);
        const __m256i m_top = bytes_and(_mm256_srli_epi32(w1, 2), 48);
        s = _mm256_or_si256(bytes_and(w2, 15), s_top);
        m = _mm256_or_si256(bytes_and(_mm256_srli_epi32(w2, 4), 15), m_top);
    }
    const __m256 a = _mm256_mul_ps(halves(f16), byte_of(s, sub % 4));
    const __m256 b = _mm256_mul_ps(halves(f16 + F16_BYTES), byte_of(m, sub % 4));
    return affine_of(a, _mm256_xor_ps(b, _mm256_set1_ps(-0.0f)));
}

static inline __m256i shifted(__m256i v, int right)
{
    return right >= 0 ? _mm256_srl_epi32(v, _mm_cvtsi32_si128(right))
                      : _mm256_sll_epi32(v, _mm_cvtsi32_si128(-right));
}

static void half_q4_k(const unsigned char *f16, const unsigned char *scales, int sub, float *tile)
{
    const struct affine f = k_affine(f16, scales, sub);
    const unsigned char *quants = scales + (3 + sub / 2 * 8) * WORD_BYTES;
    for (int w = 0; w < 8; w++) {
        const __m256i v = words(quants + w * WORD_BYTES);
        put_four(bytes_and(shifted(v, sub % 2 * 4), 15), &f, tile + 4 * w * TILE_ROW);
    }
}

static void half_q5_k(const unsigned char *f16, const unsigned char *scales, int sub, float *tile)
{
    const struct affine f = k_affine(f16, scales, sub);
    const unsigned char *high = scales + 3 * WORD_BYTES;
    const unsigned char *quants = scales + (11 + sub / 2 * 8) * WORD_BYTES;
    for (int w = 0; w < 8; w++) {
        const __m256i v = words(quants + w * WORD_BYTES);
        const __m256i h = words(high + w * WORD_BYTES);
        const __m256i top = bytes_and(shifted(h, sub - 4), 16);
        put_four(_mm256_or_si256(bytes_and(shifted(v, sub % 2 * 4), 15), top), &f,
            tile + 4 * w * TILE_ROW);
    }
}

/* Words: 32 of low nibbles, 16 of bit pairs, 4 of scales; the order of numbers is told at
 * unpack_q6_k in tensor_type.c. */
static void half_q6_k(const unsigned char *f16, const unsigned char *low, int sub, float *tile)
{
    const int row = sub % 4;
    const __m256 d = halves(f16);
    const __m256i scales = words(low + (48 + sub / 2) * WORD_BYTES);
    const unsigned char *quants = low + (sub / 4 * 16 + row % 2 * 8) * WORD_BYTES;
    const unsigned char *high = low + (32 + sub / 4 * 8) * WORD_BYTES;
    for (int part = 0; part < 2; part++) {
        const int byte = sub % 2 * 2 + part;
        const __m256i up = _mm256_sll_epi32(scales, _mm_cvtsi32_si128(24 - 8 * byte));
        const __m256 a = _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_srai_epi32(up, 24)));
        const struct affine f = affine_of(a, negated(32, a));
        for (int w = 4 * part; w < 4 * part + 4; w++) {
            const __m256i v = shifted(words(quants + w * WORD_BYTES), row / 2 * 4);
            const __m256i h = shifted(words(high + w * WORD_BYTES), row * 2 - 4);
            put_four(
                _mm256_or_si256(bytes_and(v, 15), bytes_and(h, 48)), &f, tile + 4 * w * TILE_ROW);
        }
    }
}

/* ---- plain floats --------------------------------------------------------------------------- */

static void unpack_f32(const unsigned char *at, int32_t count, float *tile)
{
    for (int32_t i = 0; i < 2 * count; i++) {
        _mm256_storeu_ps(tile + HALF * i, _mm256_castsi256_ps(words(at + 32 * i)));
    }
}

static void unpack_f16(const unsigned char *at, int32_t count, float *tile)
{
    for (int32_t i = 0; i < 2 * count; i++) {
        _mm256_storeu_ps(tile + HALF * i, halves(at + 16 * i));
    }
}

static void unpack_bf16(const unsigned char *at, int32_t count, float *tile)
{
    for (int32_t i = 0; i < 2 * count; i++) {
        const __m128i half = _mm_loadu_si128((const __m128i *)(const void *)(at + 16 * i));
        const __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16);
        _mm256_storeu_ps(tile + HALF * i, _mm256_castsi256_ps(bits));
    }
}

/* ---- the door ------------------------------------------------------------------------------- */

typedef void half_fn(const unsigned char *f16, const unsigned char *quants, float *tile);
typedef void half_k_fn(const unsigned char *f16, const unsigned char *quants, int sub, float *tile);

static inline __attribute__((always_inline)) void blocks(half_fn *half, int f16_count,
    int word_count, const unsigned char *panel, int32_t from, int32_t count, float *tile)
{
    const size_t block_bytes = (size_t)(f16_count * F16_BYTES + word_count * WORD_BYTES);
    const unsigned char *block = panel + (size_t)(from / QUANTS) * block_bytes;
    for (int32_t i = 0; i < count; i += QUANTS) {
        const unsigned char *quants = block + f16_count * F16_BYTES;
        half(block, quants, tile);
        half(block + F16_BYTES / 2, quants + WORD_BYTES / 2, tile + HALF);
        block += block_bytes;
        tile += QUANTS * TILE_ROW;
    }
}

static inline __attribute__((always_inline)) void k_blocks(half_k_fn *half, int f16_count,
    int word_count, const unsigned char *panel, int32_t from, int32_t count, float *tile)
{
    const size_t block_bytes = (size_t)(f16_count * F16_BYTES + word_count * WORD_BYTES);
    for (int32_t i = from; i < from + count; i += QUANTS) {
        const unsigned char *block = panel + (size_t)(i / SUPER_BLOCK) * block_bytes;
        const unsigned char *quants = block + f16_count * F16_BYTES;
        const int sub = i / QUANTS % K_SUB_BLOCKS;
        half(block, quants, sub, tile);
        half(block + F16_BYTES / 2, quants + WORD_BYTES / 2, sub, tile + HALF);
        tile += QUANTS * TILE_ROW;
    }
}

void unpack_avx2(
    enum tensor_type type, const unsigned char *panel, int32_t from, int32_t count, float *tile)
{
    switch (type) {
    case TENSOR_F32:
        unpack_f32(panel + (size_t)from * WORD_BYTES, count, tile);
        break;
    case TENSOR_F16:
        unpack_f16(panel + (size_t)from * F16_BYTES, count, tile);
        break;
    case TENSOR_BF16:
        unpack_bf16(panel + (size_t)from * F16_BYTES, count, tile);
        break;
    case TENSOR_Q4_0:
        blocks(half_q4_0, 1, 4, panel, from, count, tile);
        break;
    case TENSOR_Q4_1:
        blocks(half_q4_1, 2, 4, panel, from, count, tile);
        break;
    case TENSOR_Q5_0:
        blocks(half_q5_0, 1, 5, panel, from, count, tile);
        break;
    case TENSOR_Q5_1:
        blocks(half_q5_1, 2, 5, panel, from, count, tile);
        break;
    case TENSOR_Q8_0:
        blocks(half_q8_0, 1, 8, panel, from, count, tile);
        break;
    case TENSOR_Q4_K:
        k_blocks(half_q4_k, 2, 35, panel, from, count, tile);
        break;
    case TENSOR_Q5_K:
        k_blocks(half_q5_k, 2, 43, panel, from, count, tile);
        break;
    case TENSOR_Q6_K:
        k_blocks(half_q6_k, 1, 52, panel, from, count, tile);
        break;
    case TENSOR_TYPE_COUNT:
        ASSERT(false);
    }
}
