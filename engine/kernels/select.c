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

/* In the order of the ladder. A CPU can skip a level and still run what comes after it. */
enum level {
    LEVEL_REF,
    LEVEL_AVX2,
    LEVEL_AVXVNNI,
    LEVEL_AVX512,
    LEVEL_AVX512VNNI,
    LEVEL_NEON,
    LEVEL_COUNT
};

struct step {
    const char *name;
    void (*fill)(struct kernels *table); /* NULL: not built for this kind of CPU */
    const char *needs;
};

static const struct step steps[LEVEL_COUNT] = {
    [LEVEL_REF] = {"ref", rung_ref_fill, "nothing"},
#if defined(__x86_64__)
    [LEVEL_AVX2] = {"avx2", rung_fill_avx2, "AVX2, FMA and F16C"},
    [LEVEL_AVXVNNI] = {"avxvnni", rung_vnni_fill_avx, "AVX-VNNI"},
    [LEVEL_AVX512] = {"avx512", rung_fill_avx512, "AVX-512 F, BW, DQ and VL"},
    [LEVEL_AVX512VNNI] = {"avx512vnni", rung_vnni_fill_avx512, "AVX-512 F, BW, DQ, VL and VNNI"},
#else
    [LEVEL_AVX2] = {"avx2", NULL, "an x86-64 CPU"},
    [LEVEL_AVXVNNI] = {"avxvnni", NULL, "an x86-64 CPU"},
    [LEVEL_AVX512] = {"avx512", NULL, "an x86-64 CPU"},
    [LEVEL_AVX512VNNI] = {"avx512vnni", NULL, "an x86-64 CPU"},
#endif
#if defined(__aarch64__)
    [LEVEL_NEON] = {"neon", rung_fill_neon, "nothing"}, /* part of every AArch64 CPU */
#else
    [LEVEL_NEON] = {"neon", NULL, "an AArch64 CPU"},
#endif
};

#if defined(__x86_64__)
/* __builtin_cpu_supports also asks whether the operating system keeps the registers. It does not
 * know f16c and avxvnni in all compilers. */
static bool cpu_has_avx2(void)
{
    unsigned eax, ebx, ecx, edx;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

static bool cpu_has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static bool cpu_has_avxvnni(void)
{
    enum { BIT_AVXVNNI = 1 << 4 };
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & BIT_AVXVNNI) != 0;
}
#endif

static bool cpu_runs(enum level level)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    switch (level) {
    case LEVEL_REF:
        return true;
    case LEVEL_AVX2:
        return cpu_has_avx2();
    case LEVEL_AVXVNNI:
        return cpu_has_avx2() && cpu_has_avxvnni();
    case LEVEL_AVX512:
        return cpu_has_avx2() && cpu_has_avx512();
    case LEVEL_AVX512VNNI:
        return cpu_has_avx2() && cpu_has_avx512() && __builtin_cpu_supports("avx512vnni");
    case LEVEL_NEON:
    case LEVEL_COUNT:
        return false;
    }
#elif defined(__aarch64__)
    return level == LEVEL_REF || level == LEVEL_NEON;
#endif
    return level == LEVEL_REF;
}

static void climb(struct kernels *table, enum level to)
{
    for (int level = 0; level <= (int)to; level++) {
        if (cpu_runs((enum level)level)) {
            steps[level].fill(table);
        }
    }
}

static enum level best_level(void)
{
    int best = LEVEL_COUNT - 1;
    while (!cpu_runs((enum level)best)) {
        best--;
    }
    return (enum level)best;
}

const char *const *kernels_available(void)
{
#define WITH_BLAS(...)                                                                             \
    {                                                                                              \
        {"ref", __VA_ARGS__},                                                                      \
        {                                                                                          \
            "ref", "blas", __VA_ARGS__                                                             \
        }                                                                                          \
    }
    static const char *const names[LEVEL_COUNT][2][2][LEVEL_COUNT + 2] = {
        [LEVEL_REF] = {{{"ref"}, {"ref", "blas"}}},
        [LEVEL_AVX2] = {WITH_BLAS("avx2")},
        [LEVEL_AVXVNNI] = {[1] = WITH_BLAS("avx2", "avxvnni")},
        [LEVEL_AVX512] = {WITH_BLAS("avx2", "avx512"), WITH_BLAS("avx2", "avxvnni", "avx512")},
        [LEVEL_AVX512VNNI] = {WITH_BLAS("avx2", "avx512", "avx512vnni"),
            WITH_BLAS("avx2", "avxvnni", "avx512", "avx512vnni")},
        [LEVEL_NEON] = {WITH_BLAS("neon")},
    };
#undef WITH_BLAS
    return names[best_level()][cpu_runs(LEVEL_AVXVNNI)][rung_blas_usable()];
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
    const enum level best = best_level();
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
        if (!cpu_runs((enum level)level)) {
            return err_set(info, ERR_CONFIG, "kernels",
                "this machine cannot run the %s kernels, which need %s", name, steps[level].needs);
        }
        climb(out, (enum level)level);
        return ERR_OK;
    }
    return err_set(info, ERR_CONFIG, "kernels", "there are no kernels of this name");
}
