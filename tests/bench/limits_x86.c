/* The limits of one width; see limits.h. Two FMA units of latency 4 are full with eight chains. */
#include "engine/kernels/lanes/lanes.h"
#include "engine/kernels/lanes/isa.h"
#include "tests/bench/limits.h"

enum { STREAMS = 4, AHEAD = 512, LINE = 64 };

static void fma_rounds(int rounds)
{
    floats sums[LIMITS_CHAINS];
    for (int c = 0; c < LIMITS_CHAINS; c++) {
        sums[c] = floats_all((float)c);
    }
    floats a = floats_all(0.999f);
    floats b = floats_all(0.001f);
    for (int i = 0; i < rounds; i++) {
#pragma GCC unroll 10
        for (int c = 0; c < LIMITS_CHAINS; c++) {
            sums[c] = floats_fma(sums[c], a, b);
        }
        __asm__ volatile("" : "+v"(a), "+v"(b));
    }
    for (int c = 0; c < LIMITS_CHAINS; c++) {
        __asm__ volatile("" : : "v"(sums[c]));
    }
}

static void read_all(const unsigned char *bytes, size_t count)
{
    const size_t each = count / STREAMS / LINE * LINE;
    ints seen = ints_all(0);
    for (size_t at = 0; at < each; at += LINE) {
        for (size_t s = 0; s < STREAMS; s++) {
            const unsigned char *line = bytes + s * each + at;
            _mm_prefetch((const char *)line + AHEAD, _MM_HINT_T0);
            for (size_t part = 0; part < LINE; part += 4 * LANES) {
                seen |= ints_load(line + part);
            }
        }
    }
    __asm__ volatile("" : : "v"(seen));
}

struct limits_of ISA(limits_x86)(void)
{
    return (struct limits_of){LANES, fma_rounds, read_all};
}
