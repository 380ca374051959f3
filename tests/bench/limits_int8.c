/* The machine's 8-bit limits; see the header. Each function carries the instructions it needs and
 * is run only for a rung that needs them too. */
#include "tests/bench/limits_int8.h"

#include <immintrin.h>
#include <string.h>

enum { CHAINS = 10, QUADS = 8 };

#define KEEP(v) __asm__ volatile("" : "+x"(v))
#define KEEP_WIDE(v) __asm__ volatile("" : "+v"(v))

__attribute__((target("avx2"))) static void run_pairs(int rounds)
{
    __m256i sums[CHAINS / 2];
    memset(sums, 0, sizeof sums);
    __m256i w = _mm256_set1_epi8(7), x = _mm256_set1_epi8(-3), ones = _mm256_set1_epi16(1);
    for (int i = 0; i < rounds; i++) {
        __m256i pairs[CHAINS / 2];
        memset(pairs, 0, sizeof pairs);
#pragma GCC unroll 8
        for (int quad = 0; quad < QUADS; quad++) {
#pragma GCC unroll 10
            for (int c = 0; c < CHAINS / 2; c++) {
                pairs[c] = _mm256_add_epi16(pairs[c], _mm256_maddubs_epi16(w, x));
                KEEP(w);
            }
        }
#pragma GCC unroll 10
        for (int c = 0; c < CHAINS / 2; c++) {
            sums[c] = _mm256_add_epi32(sums[c], _mm256_madd_epi16(pairs[c], ones));
        }
    }
    for (int c = 0; c < CHAINS / 2; c++) {
        KEEP(sums[c]);
    }
}

__attribute__((target("avx2,avxvnni"))) static void run_dots(int rounds)
{
    __m256i sums[CHAINS];
    memset(sums, 0, sizeof sums);
    __m256i w = _mm256_set1_epi8(7), x = _mm256_set1_epi8(-3);
    for (int i = 0; i < rounds; i++) {
#pragma GCC unroll 10
        for (int c = 0; c < CHAINS; c++) {
            sums[c] = _mm256_dpbusd_avx_epi32(sums[c], w, x);
        }
        KEEP(w);
    }
    for (int c = 0; c < CHAINS; c++) {
        KEEP(sums[c]);
    }
}

__attribute__((target("avx512f,avx512vnni"))) static void run_wide_dots(int rounds)
{
    __m512i sums[CHAINS];
    memset(sums, 0, sizeof sums);
    __m512i w = _mm512_set1_epi8(7), x = _mm512_set1_epi8(-3);
    for (int i = 0; i < rounds; i++) {
#pragma GCC unroll 10
        for (int c = 0; c < CHAINS; c++) {
            sums[c] = _mm512_dpbusd_epi32(sums[c], w, x);
        }
        KEEP_WIDE(w);
    }
    for (int c = 0; c < CHAINS; c++) {
        KEEP_WIDE(sums[c]);
    }
}

struct peak {
    const char *name;
    void (*run)(int rounds);
    double ops; /* of a round */
};

static const struct peak *peak_of(const struct kernels *kernels)
{
    static const struct peak peaks[] = {
        {"avx2", run_pairs, 2.0 * 32 * QUADS * (CHAINS / 2)},
        {"avxvnni", run_dots, 2.0 * 32 * CHAINS},
        {"avx512", run_dots, 2.0 * 32 * CHAINS},
        {"avx512vnni", run_wide_dots, 2.0 * 64 * CHAINS},
    };
    for (size_t i = 0; i < ARRAY_COUNT(peaks); i++) {
        if (strcmp(peaks[i].name, kernels->name) == 0) {
            return &peaks[i];
        }
    }
    return NULL;
}

void limits_int8(const struct kernels *kernels, int rounds)
{
    const struct peak *peak = peak_of(kernels);
    if (peak != NULL) {
        peak->run(rounds);
    }
}

double limits_int8_ops(const struct kernels *kernels, int rounds)
{
    const struct peak *peak = peak_of(kernels);
    return peak == NULL ? 0 : peak->ops * rounds;
}
