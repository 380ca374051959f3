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

enum level { LEVEL_REF, LEVEL_COUNT };

static enum level level_of_cpu(void)
{
    return LEVEL_REF;
}

static void fill(struct kernels *table, enum level level)
{
    static void (*const fillers[LEVEL_COUNT])(struct kernels *) = {
        [LEVEL_REF] = rung_ref_fill,
    };
    for (int step = LEVEL_REF; step <= (int)level; step++) {
        fillers[step](table);
    }
}

const char *const *kernels_available(void)
{
    static const char *const names[LEVEL_COUNT][2][LEVEL_COUNT + 2] = {
        [LEVEL_REF] = {{"ref"}, {"ref", "blas"}},
    };
    return names[level_of_cpu()][rung_blas_usable()];
}

static const char *const level_names[LEVEL_COUNT] = {
    [LEVEL_REF] = "ref",
};

enum err kernels_select(const char *name, struct kernels *out, struct err_info *info)
{
    const enum level best = level_of_cpu();
    if (name == NULL) {
        fill(out, best);
        return ERR_OK;
    }
    if (strcmp(name, "blas") == 0) {
        if (!rung_blas_prepare(info)) {
            return ERR_CONFIG;
        }
        fill(out, best);
        rung_blas_fill(out);
        return ERR_OK;
    }
    for (int level = 0; level < LEVEL_COUNT; level++) {
        if (strcmp(name, level_names[level]) != 0) {
            continue;
        }
        if (level > (int)best) {
            return err_set(info, ERR_CONFIG, "kernels",
                "this machine cannot run the %s kernels: it lacks AVX2, FMA or F16C", name);
        }
        fill(out, (enum level)level);
        return ERR_OK;
    }
    return err_set(info, ERR_CONFIG, "kernels", "there are no kernels of this name");
}
