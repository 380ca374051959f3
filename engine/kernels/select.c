/*
 * The ladder: which rungs this machine can run, and the table of the one asked for.
 *
 * A rung begins with the table of the rungs below it and overwrites what it has faster. blas is no
 * step of the ladder: it sits on the best rung and changes the products only, so it is never
 * chosen unasked.
 */
#include <string.h>
#include "engine/kernels/rungs.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* In the order of the ladder; each can run what the ones before it of its kind of CPU can. */
enum level { LEVEL_REF, LEVEL_AVX2, LEVEL_AVX512, LEVEL_NEON, LEVEL_COUNT };

struct step {
    const char *name;
    void (*fill)(struct kernels *table); /* NULL: not built for this kind of CPU */
    const char *needs;
};

static const struct step steps[LEVEL_COUNT] = {
    [LEVEL_REF] = {"ref", rung_ref_fill, "nothing"},
#if defined(__x86_64__)
    [LEVEL_AVX2] = {"avx2", rung_fill_avx2, "AVX2, FMA and F16C"},
    [LEVEL_AVX512] = {"avx512", rung_fill_avx512, "AVX-512 F, BW, DQ and VL"},
#else
    [LEVEL_AVX2] = {"avx2", NULL, "an x86-64 CPU"},
    [LEVEL_AVX512] = {"avx512", NULL, "an x86-64 CPU"},
#endif
#if defined(__aarch64__)
    [LEVEL_NEON] = {"neon", rung_neon_fill, "nothing"}, /* part of every AArch64 CPU */
#else
    [LEVEL_NEON] = {"neon", NULL, "an AArch64 CPU"},
#endif
};

/* __builtin_cpu_supports also asks whether the operating system keeps the registers. It does not
 * know f16c in all compilers. */
static enum level level_of_cpu(void)
{
#if defined(__x86_64__)
    unsigned eax, ebx, ecx, edx;
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
        __get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & bit_F16C) == 0) {
        return LEVEL_REF;
    }
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
               ? LEVEL_AVX512
               : LEVEL_AVX2;
#elif defined(__aarch64__)
    return LEVEL_NEON;
#else
    return LEVEL_REF;
#endif
}

static void climb(struct kernels *table, enum level level)
{
    for (int step = 0; step <= (int)level; step++) {
        if (steps[step].fill != NULL) {
            steps[step].fill(table);
        }
    }
}

const char *const *kernels_available(void)
{
    static const char *const names[LEVEL_COUNT][2][LEVEL_COUNT + 2] = {
        [LEVEL_REF] = {{"ref"}, {"ref", "blas"}},
        [LEVEL_AVX2] = {{"ref", "avx2"}, {"ref", "blas", "avx2"}},
        [LEVEL_AVX512] = {{"ref", "avx2", "avx512"}, {"ref", "blas", "avx2", "avx512"}},
        [LEVEL_NEON] = {{"ref", "neon"}, {"ref", "blas", "neon"}},
    };
    return names[level_of_cpu()][rung_blas_usable()];
}

static enum err select_blas(enum level level, struct kernels *out, struct err_info *info)
{
    if (!rung_blas_prepare(info)) {
        return ERR_CONFIG;
    }
    climb(out, level);
    rung_blas_fill(out);
    return ERR_OK;
}

enum err kernels_select(const char *name, struct kernels *out, struct err_info *info)
{
    const enum level best = level_of_cpu();
    if (name == NULL) {
        climb(out, best);
        return ERR_OK;
    }
    if (strcmp(name, "blas") == 0) {
        return select_blas(best, out, info);
    }
    for (int level = 0; level < LEVEL_COUNT; level++) {
        if (strcmp(name, steps[level].name) != 0) {
            continue;
        }
        if (level > (int)best || steps[level].fill == NULL) {
            return err_set(info, ERR_CONFIG, "kernels",
                "this machine cannot run the %s kernels, which need %s", name, steps[level].needs);
        }
        climb(out, (enum level)level);
        return ERR_OK;
    }
    return err_set(info, ERR_CONFIG, "kernels", "there are no kernels of this name");
}
