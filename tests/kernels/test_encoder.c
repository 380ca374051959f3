/*
 * Goal: LayerNorm and GELU of every rung agree with the reference within rounding, for every length
 * of tail and far out on both sides, with the same bits on all hand-written rungs.
 *
 * Method: all lengths 1 to 70 and a few long ones, between guard bytes. u = 2^-24. Bounds:
 *   layer_norm  u (4 |normed w| + 4 |mean| scale |w| + 2 |y|): scale and shift are rounded once
 *               each, the shift is as large as the mean in units of the spread, then two FMAs
 *   gelu        4 u |x|, of either kind (engine/kernels/lanes/gelu.c): the share of the
 *               distribution is within 3 u; times `up`, one rounding more
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "tests/kernels/kernel_check.h"

#define UNIT 0x1p-24

enum { LONGEST = 4099 };

static const int32_t long_ones[] = {384, 768, 1536, LONGEST};

/* The lengths worth trying, one after the other; 0 ends them. */
static int32_t length_at(int32_t index)
{
    if (index < 70) {
        return index + 1;
    }
    return index < 70 + (int32_t)(sizeof long_ones / sizeof *long_ones) ? long_ones[index - 70] : 0;
}

static float *floats(struct check_random *random, int32_t count, float middle, float scale)
{
    float *x = check_alloc((size_t)count * sizeof(float), 4);
    for (int32_t i = 0; i < count; i++) {
        x[i] = middle + check_random_float(random, -scale, scale);
    }
    return x;
}

static void check_near(const char *what, const struct kernels *kernels, int32_t i, double have,
    double want, double bound)
{
    if (!(fabs(have - want) <= bound)) {
        fail_msg("%s %s at %d: %.9g, not %.9g +- %.3g", kernels->name, what, i, have, want, bound);
    }
}

/* ---- layer_norm ----------------------------------------------------------------------------- */

static void check_layer_norm(struct check_random *random, const struct kernels *ref,
    const struct kernels *kernels, int32_t count, float middle, bool biased)
{
    float *x = floats(random, count, middle, 3);
    float *weight = floats(random, count, 0, 2);
    float *bias = floats(random, count, 0, 2);
    float *want = floats(random, count, 0, 0);
    float *have = floats(random, count, 0, 0);
    ref->layer_norm(x, weight, biased ? bias : NULL, 1e-5f, count, want);
    kernels->layer_norm(x, weight, biased ? bias : NULL, 1e-5f, count, have);
    double mean = 0, variance = 0;
    for (int32_t i = 0; i < count; i++) {
        mean += (double)x[i] / count;
    }
    for (int32_t i = 0; i < count; i++) {
        variance += ((double)x[i] - mean) * ((double)x[i] - mean) / count;
    }
    const double scale = 1 / sqrt(variance + 1e-5);
    for (int32_t i = 0; i < count; i++) {
        const double size = fabs((double)x[i] - mean) + fabs(mean);
        check_near("layer_norm", kernels, i, (double)have[i], (double)want[i],
            UNIT * (4 * size * scale * fabs((double)weight[i]) + 2 * fabs((double)want[i])));
    }
    kernels->layer_norm(x, weight, biased ? bias : NULL, 1e-5f, count, x);
    assert_memory_equal(x, have, (size_t)count * sizeof(float));
    check_free(x);
    check_free(weight);
    check_free(bias);
    check_free(want);
    check_free(have);
}

static void layer_norm_is_within_rounding(
    struct check_random *random, const struct kernels *kernels)
{
    const struct kernels ref = check_rung("ref");
    for (int32_t i = 0; length_at(i) > 0; i++) {
        check_layer_norm(random, &ref, kernels, length_at(i), 0, i % 2 == 0);
        check_layer_norm(random, &ref, kernels, length_at(i), -2000, i % 3 == 0);
    }
}

/* ---- gelu ----------------------------------------------------------------------------------- */

typedef void gelu_kernel(const float *gate, const float *up, int32_t count, float *out);

static void check_gelu(struct check_random *random, const char *what, const struct kernels *kernels,
    gelu_kernel *reference, gelu_kernel *kernel, int32_t count)
{
    float *gate = floats(random, count, 0, count % 2 == 0 ? 8 : 100);
    float *up = floats(random, count, 0, 4);
    float *want = floats(random, count, 0, 0);
    float *have = floats(random, count, 0, 0);
    gate[0] = 0;
    reference(gate, NULL, count, want);
    kernel(gate, NULL, count, have);
    for (int32_t i = 0; i < count; i++) {
        check_near(
            what, kernels, i, (double)have[i], (double)want[i], 4 * UNIT * fabs((double)gate[i]));
    }
    reference(gate, up, count, want);
    kernel(gate, up, count, have);
    for (int32_t i = 0; i < count; i++) {
        check_near(what, kernels, i, (double)have[i], (double)want[i],
            5 * UNIT * fabs((double)gate[i] * (double)up[i]));
    }
    kernel(gate, up, count, gate);
    assert_memory_equal(gate, have, (size_t)count * sizeof(float));
    check_free(gate);
    check_free(up);
    check_free(want);
    check_free(have);
}

static void gelu_is_within_rounding(struct check_random *random, const struct kernels *kernels)
{
    const struct kernels ref = check_rung("ref");
    for (int32_t i = 0; length_at(i) > 0; i++) {
        check_gelu(random, "gelu_erf", kernels, ref.gelu_erf, kernels->gelu_erf, length_at(i));
        check_gelu(random, "gelu_tanh", kernels, ref.gelu_tanh, kernels->gelu_tanh, length_at(i));
    }
}

/* Evenly over where the curve bends, and what lies far out: nothing overflows on the way. */
static void gelu_of_every_size(struct check_random *random, const struct kernels *kernels)
{
    enum { STEPS = 20000 };
    static float x[2 * STEPS + 8], want[2 * STEPS + 8], have[2 * STEPS + 8];
    static const float far[8] = {-3e38f, -1e19f, -100, -5.5f, 5.5f, 100, 1e19f, 3e38f};
    for (int32_t i = 0; i < 2 * STEPS; i++) {
        x[i] = (float)(i - STEPS) * (9.0f / STEPS);
    }
    memcpy(x + (size_t)2 * STEPS, far, sizeof far);
    const struct kernels ref = check_rung("ref");
    for (int kind = 0; kind < 2; kind++) {
        (kind == 0 ? ref.gelu_erf : ref.gelu_tanh)(x, NULL, 2 * STEPS + 8, want);
        (kind == 0 ? kernels->gelu_erf : kernels->gelu_tanh)(x, NULL, 2 * STEPS + 8, have);
        for (int32_t i = 0; i < 2 * STEPS + 8; i++) {
            check_near(kind == 0 ? "gelu_erf" : "gelu_tanh", kernels, i, (double)have[i],
                (double)want[i], 4 * UNIT * fabs((double)x[i]));
        }
    }
}

/* ---- the two x86 rungs ---------------------------------------------------------------------- */

static void twins_give_the_same_bits(
    struct check_random *random, const struct kernels *avx2, const struct kernels *avx512)
{
    static float x[LONGEST], y[LONGEST], want[LONGEST], have[LONGEST];
    for (int32_t i = 0; length_at(i) > 0; i++) {
        const int32_t count = length_at(i);
        const size_t bytes = (size_t)count * sizeof(float);
        check_random_floats(random, x, (size_t)count);
        check_random_floats(random, y, (size_t)count);
        avx2->layer_norm(x, y, x, 1e-12f, count, want);
        avx512->layer_norm(x, y, x, 1e-12f, count, have);
        assert_memory_equal(want, have, bytes);
        avx2->gelu_erf(x, y, count, want);
        avx512->gelu_erf(x, y, count, have);
        assert_memory_equal(want, have, bytes);
        avx2->gelu_tanh(x, y, count, want);
        avx512->gelu_tanh(x, y, count, have);
        assert_memory_equal(want, have, bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RUNG_TEST(layer_norm_is_within_rounding, check_wants_any),
        RUNG_TEST(gelu_is_within_rounding, check_wants_any),
        RUNG_TEST(gelu_of_every_size, check_wants_any),
        TWIN_TEST(twins_give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
