/* Rows in 8 bits by AVX2, for all x86 rungs. */
#include <immintrin.h>
#include <string.h>
#include "engine/base/assert.h"
#include "engine/kernels/int8_row.h"
#include "engine/kernels/x86/int8.h"

enum { BLOCK_VECTORS = INT8_BLOCK / 8 };

/* The greatest |x| as an integer: NaN and infinite numbers stand above all others. */
static int32_t greatest_bits(const __m256 v[BLOCK_VECTORS])
{
    const __m256i size = _mm256_set1_epi32(0x7fffffff);
    __m256i greatest = _mm256_and_si256(_mm256_castps_si256(v[0]), size);
    for (int i = 1; i < BLOCK_VECTORS; i++) {
        greatest = _mm256_max_epi32(greatest, _mm256_and_si256(_mm256_castps_si256(v[i]), size));
    }
    __m128i four =
        _mm_max_epi32(_mm256_castsi256_si128(greatest), _mm256_extracti128_si256(greatest, 1));
    four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0xb1));
    return _mm_cvtsi128_si32(four);
}

static int32_t sum_of_lanes(__m256i v)
{
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1));
    return _mm_cvtsi128_si32(four);
}

static void quantize_block(const float *x, int8_t *q, struct int8_block *out)
{
    __m256 v[BLOCK_VECTORS];
    for (int i = 0; i < BLOCK_VECTORS; i++) {
        v[i] = _mm256_loadu_ps(x + 8 * i);
    }
    const int32_t bits = greatest_bits(v);
    float greatest;
    memcpy(&greatest, &bits, sizeof greatest);
    if (bits >= 0x7f800000) {
        memset(q, 0, INT8_BLOCK);
        *out = (struct int8_block){.scale = __builtin_nanf(""), .sum = __builtin_nanf("")};
        return;
    }
    if (greatest < INT8_SMALLEST) {
        memset(q, 0, INT8_BLOCK);
        *out = (struct int8_block){0};
        return;
    }
    const __m256 inverse = _mm256_set1_ps(127.0f / greatest);
    __m256i n[BLOCK_VECTORS];
    for (int i = 0; i < BLOCK_VECTORS; i++) {
        n[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], inverse)); /* to nearest even */
    }
    const int32_t first = sum_of_lanes(_mm256_add_epi32(n[0], n[1]));
    const int32_t last = sum_of_lanes(_mm256_add_epi32(n[2], n[3]));
    /* Packs work within 128 bits: groups of four numbers 0 2 4 6 | 1 3 5 7. */
    const __m256i packed =
        _mm256_packs_epi16(_mm256_packs_epi32(n[0], n[1]), _mm256_packs_epi32(n[2], n[3]));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256((__m256i *)(void *)q, _mm256_permutevar8x32_epi32(packed, order));
    const float scale = greatest / 127.0f;
    /* One by one: put together on the stack, they would be loaded before the stores are through. */
    out->scale = scale;
    out->sum = scale * (float)(first + last);
    out->halves[0] = (int16_t)first;
    out->halves[1] = (int16_t)last;
}

void int8_quantize_avx2(const float *x, int32_t inputs, void *out)
{
    ASSERT(inputs % INT8_BLOCK == 0);
    int8_t *q = out;
    struct int8_block *blocks = (struct int8_block *)(void *)(q + inputs);
    for (int32_t i = 0; i < inputs; i += INT8_BLOCK) {
        quantize_block(x + i, q + i, &blocks[i / INT8_BLOCK]);
    }
}
