/*
 * Goal: the vector exp is within 1.01 ulp of exp(x) for every float (the worst is 1.0086, at
 * -0x1.b610fp+4), zero below the normal range, and as documented for infinities and NaN.
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
#if defined(__x86_64__)
#include "engine/kernels/x86/avx2.h"
#endif

enum { BATCH = 4096 };

static uint32_t step = 211;

static bool rung_available(const char *wanted)
{
    for (const char *const *name = kernels_available(); *name != NULL; name++) {
        if (strcmp(*name, wanted) == 0) {
            return true;
        }
    }
    return false;
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

static void within_bound(void **state)
{
    (void)state;
#if defined(__x86_64__)
    static float x[BATCH];
    static float y[BATCH];
    if (rung_available("avx2")) {
        uint64_t bits = 0;
        while (bits <= UINT32_MAX) {
            int32_t count = 0;
            for (; count < BATCH && bits <= UINT32_MAX; bits += step) {
                const uint32_t low = (uint32_t)bits;
                memcpy(&x[count++], &low, sizeof low);
            }
            vector_avx2_exp(x, count, y);
            for (int32_t i = 0; i < count; i++) {
                check_one(x[i], y[i]);
            }
        }
        return;
    }
#endif
    print_message("skipped: no AVX2\n");
    skip();
}

static void the_corners(void **state)
{
    (void)state;
#if defined(__x86_64__)
    if (rung_available("avx2")) {
        const float x[] = {0.0f, -0.0f, -INFINITY, INFINITY, NAN, -0x1.5d589ep+6f, -0x1.5d58a0p+6f,
            0x1.62e42ep+6f, 0x1.62e430p+6f, -0x1.b610fp+4f};
        float y[sizeof x / sizeof *x];
        vector_avx2_exp(x, (int32_t)(sizeof x / sizeof *x), y);
        assert_true(y[0] == 1 && y[1] == 1 && y[2] == 0 && isinf(y[3]) && isnan(y[4]));
        for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
            check_one(x[i], y[i]);
        }
        return;
    }
#endif
    skip();
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
