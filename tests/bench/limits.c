/* The machine's limits; see the header. Compiled for AVX2: run only where the avx2 rung runs. */
#include "tests/bench/limits.h"

#include <immintrin.h>

enum { CHAINS = 10, STREAMS = 4, AHEAD = 512 };

void limits_fma(int rounds)
{
    __m256 sums[CHAINS];
    for (int c = 0; c < CHAINS; c++) {
        sums[c] = _mm256_set1_ps((float)c);
    }
    __m256 a = _mm256_set1_ps(0.999f);
    __m256 b = _mm256_set1_ps(0.001f);
    for (int i = 0; i < rounds; i++) {
#pragma GCC unroll 10
        for (int c = 0; c < CHAINS; c++) {
            sums[c] = _mm256_fmadd_ps(sums[c], a, b);
        }
        __asm__ volatile("" : "+x"(a), "+x"(b));
    }
    for (int c = 0; c < CHAINS; c++) {
        __asm__ volatile("" : : "x"(sums[c]));
    }
}

double limits_fma_flops(int rounds)
{
    return 2.0 * 8 * CHAINS * rounds;
}

void limits_read(const unsigned char *bytes, size_t count)
{
    const size_t each = count / STREAMS / 64 * 64;
    __m256i seen = _mm256_setzero_si256();
    for (size_t at = 0; at < each; at += 64) {
        for (size_t s = 0; s < STREAMS; s++) {
            const unsigned char *line = bytes + s * each + at;
            _mm_prefetch((const char *)line + AHEAD, _MM_HINT_T0);
            const __m256i *half = (const __m256i *)(const void *)line;
            seen = _mm256_or_si256(seen, _mm256_loadu_si256(half));
            seen = _mm256_or_si256(seen, _mm256_loadu_si256(half + 1));
        }
    }
    __asm__ volatile("" : : "x"(seen));
}
