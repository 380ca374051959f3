/*
 * Goal: the vector exp of every rung is within 1.01 ulp of exp(x) for every float (the worst is
 * 1.0086, at -0x1.b610fp+4), zero below the normal range, and as documented for infinities and NaN.
 *
 * Method: every 211th of the 2^32 floats against libm in double, whose error is nothing beside a
 * float's ulp; with the argument "all", every float (about a minute; suite `slow`).
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

static bool is_available(const char *wanted)
{
    for (const char *const *name = kernels_available(); *name != NULL; name++) {
        if (strcmp(*name, wanted) == 0) {
            return true;
        }
    }
    return false;
}

/* Calls `check` for each rung of this machine that has a vector exp. */
static void each_rung(void (*check)(exp_fn *vector_exp))
{
    int tried = 0;
    for (size_t i = 0; rungs[i].name != NULL; i++) {
        if (is_available(rungs[i].name)) {
            check(rungs[i].exp);
            tried++;
        }
    }
    if (tried == 0) {
        print_message("skipped: no rung of this machine has a vector exp\n");
        skip();
    }
}

/* The float next above |want|'s own distance to its neighbour. */
static double ulp(double want)
{
    int exponent;
    (void)frexp(want, &exponent);
    return ldexp(1, exponent - 24);
}

static void check_one(float x, float have)
{
    const double want = exp((double)x);
    bool right;
    if (isnan(x)) {
        right = isnan(have);
    } else if (want < 0x1p-126) {
        right = have == 0 && !signbit(have);
    } else if (want > 0x1.ffffffp+127) {
        right = isinf(have);
    } else {
        right = fabs((double)have - want) <= 1.01 * ulp(want);
    }
    if (!right) {
        fail_msg("exp(%a) = %a, not %a", (double)x, (double)have, want);
    }
}

static void check_all(exp_fn *vector_exp)
{
    static float x[BATCH];
    static float y[BATCH];
    uint64_t bits = 0;
    while (bits <= UINT32_MAX) {
        int32_t count = 0;
        for (; count < BATCH && bits <= UINT32_MAX; bits += step) {
            const uint32_t low = (uint32_t)bits;
            memcpy(&x[count++], &low, sizeof low);
        }
        vector_exp(x, count, y);
        for (int32_t i = 0; i < count; i++) {
            check_one(x[i], y[i]);
        }
    }
}

static void within_bound(void **state)
{
    (void)state;
    each_rung(check_all);
}

static void check_corners(exp_fn *vector_exp)
{
    const float x[] = {0.0f, -0.0f, -INFINITY, INFINITY, NAN, -0x1.5d589ep+6f, -0x1.5d58a0p+6f,
        0x1.62e42ep+6f, 0x1.62e430p+6f, -0x1.b610fp+4f};
    float y[sizeof x / sizeof *x];
    vector_exp(x, (int32_t)(sizeof x / sizeof *x), y);
    assert_true(y[0] == 1 && y[1] == 1 && y[2] == 0 && isinf(y[3]) && isnan(y[4]));
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
        check_one(x[i], y[i]);
    }
}

static void the_corners(void **state)
{
    (void)state;
    each_rung(check_corners);
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
    return cmocka_run_group_tests(tests, NULL, NULL);
}
