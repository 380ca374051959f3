/*
 * Goal: the vector exp of every rung is within 1.01 ulp of exp(x) for every float (the worst is
 * 1.0086, at -0x1.b610fp+4), zero below the normal range, and as documented for infinities and NaN.
 *
 * Method: every 211th of the 2^32 floats against libm in double, whose error is nothing beside a
 * float's ulp; with the argument "all", every float (suite `slow`). Seven floats of eight are so
 * small or so large that exp is known without libm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <math.h>
#include <cmocka.h>
#include "engine/kernels/kernels.h"
#include "engine/kernels/lanes/isa.h"

enum { BATCH = 4096 };

static uint32_t step = 211;

typedef void exp_fn(const float *x, int32_t count, float *out);

static const struct {
    const char *name;
    exp_fn *exp;
} rungs[] = {
#if defined(__x86_64__)
    {"avx2", vector_exp_avx2},
    {"avx512", vector_exp_avx512},
#elif defined(__aarch64__)
    {"neon", vector_exp_neon},
#endif
    {NULL, NULL},
};

/* The rungs of this machine that have a vector exp. */
static exp_fn *here[sizeof rungs / sizeof *rungs];
static int here_count;

static int find_rungs(void **state)
{
    (void)state;
    for (size_t i = 0; rungs[i].name != NULL; i++) {
        for (const char *const *name = kernels_available(); *name != NULL; name++) {
            if (strcmp(*name, rungs[i].name) == 0) {
                here[here_count++] = rungs[i].exp;
            }
        }
    }
    return 0;
}

static void skip_without_rungs(void)
{
    if (here_count == 0) {
        print_message("skipped: no rung of this machine has a vector exp\n");
        skip();
    }
}

/* exp(x) as a double, or near enough to know each float that is right: below 2^-27 exp is 1 within
 * a quarter of its ulp, and past 104 it is 0 or infinite as a float. */
static double expected(float x)
{
    if (fabsf(x) <= 0x1p-27f) {
        return 1;
    }
    if (fabsf(x) > 104) {
        return signbit(x) ? 0 : INFINITY;
    }
    return exp((double)x); /* of NaN too */
}

/* A float's ulp at `want`, which is at least the smallest normal float. */
static double ulp(double want)
{
    uint64_t bits;
    memcpy(&bits, &want, sizeof bits);
    bits = (bits & 0x7ff0000000000000u) - (UINT64_C(23) << 52);
    memcpy(&want, &bits, sizeof want);
    return want;
}

static bool is_right(float have, double want)
{
    if (isnan(want)) {
        return isnan(have);
    }
    if (want < 0x1p-126) {
        return have == 0 && !signbit(have);
    }
    if (want > 0x1.ffffffp+127) {
        return isinf(have);
    }
    return fabs((double)have - want) <= 1.01 * ulp(want);
}

static void check_answers(const float *x, int32_t count, const float *have)
{
    for (int32_t i = 0; i < count; i++) {
        const double want = expected(x[i]);
        if (!is_right(have[i], want)) {
            fail_msg("exp(%a) = %a, not %a", (double)x[i], (double)have[i], want);
        }
    }
}

/* All rungs on x[0] to x[count - 1]. Bits that were found right need no second look. */
static void check_batch(const float *x, int32_t count)
{
    static float first[BATCH], have[BATCH];
    here[0](x, count, first);
    check_answers(x, count, first);
    for (int rung = 1; rung < here_count; rung++) {
        here[rung](x, count, have);
        if (memcmp(have, first, (size_t)count * sizeof *have) != 0) {
            check_answers(x, count, have);
        }
    }
}

static void within_bound(void **state)
{
    (void)state;
    static float x[BATCH];
    skip_without_rungs();
    uint64_t bits = 0;
    while (bits <= UINT32_MAX) {
        int32_t count = 0;
        for (; count < BATCH && bits <= UINT32_MAX; bits += step) {
            const uint32_t low = (uint32_t)bits;
            memcpy(&x[count++], &low, sizeof low);
        }
        check_batch(x, count);
    }
}

static void the_corners(void **state)
{
    (void)state;
    static const float x[] = {0.0f, -0.0f, -INFINITY, INFINITY, NAN, -0x1.5d589ep+6f,
        -0x1.5d58a0p+6f, 0x1.62e42ep+6f, 0x1.62e430p+6f, -0x1.b610fp+4f, 0x1p-27f, -0x1p-27f,
        0x1.a00002p+6f, -0x1.a00002p+6f};
    float y[sizeof x / sizeof *x];
    skip_without_rungs();
    for (int rung = 0; rung < here_count; rung++) {
        here[rung](x, (int32_t)(sizeof x / sizeof *x), y);
        assert_true(y[0] == 1 && y[1] == 1 && y[2] == 0 && isinf(y[3]) && isnan(y[4]));
    }
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
        const double want = exp((double)x[i]);
        const double near = expected(x[i]); /* what stands for it agrees with libm */
        assert_true(isnan(want) ? isnan(near)
                                : near == want || (float)near == (float)want ||
                                      (want < 0x1p-126 && near == 0));
    }
    check_batch(x, (int32_t)(sizeof x / sizeof *x));
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "all") == 0) {
        step = 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_corners),
        cmocka_unit_test(within_bound),
    };
    return cmocka_run_group_tests(tests, find_rungs, NULL);
}
