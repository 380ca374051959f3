/* Chooses the width a rung's limits are measured with. */
#include "tests/bench/limits.h"

#include <string.h>

struct limits_of limits_of(const char *kernels)
{
    const int wide = strncmp(kernels, "avx512", strlen("avx512")) == 0 ||
                     (strcmp(kernels, "blas") == 0 && __builtin_cpu_supports("avx512f"));
    return wide ? limits_x86_avx512() : limits_x86_avx2();
}

double limits_fma_flops(const struct limits_of *limits, int rounds)
{
    return 2.0 * limits->lanes * LIMITS_CHAINS * rounds;
}
