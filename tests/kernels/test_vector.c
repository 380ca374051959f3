/*
 * Goal: norms, rotations, elementwise operations and scans of every rung agree with the reference
 * within rounding, for every length of tail, and never touch a byte outside the row.
 *
 * Method: all lengths 1 to 70 and a few long ones, between guard bytes. u = 2^-24. Bounds:
 *   rms_norm    relative 4 u: the scale (from a sum in double), two products, the reference; a row
 *               with one huge element has to keep it too
 *   rope        4 u (|a| + |b|): two products and a sum, and the reference's rounding
 *   silu_mul    relative 8 u: exp within 1.01 ulp = 2.02 u, 1 + e, quotient, product, reference
 *   log_sum_exp 4 u (1 + greatest |x|): the argument of exp is rounded to float
 * And a row gives the same bits wherever it lies.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cmocka.h>
#include "tests/kernels/kernel_check.h"

#define UNIT 0x1p-24

static float *floats(struct check_random *random, int32_t count, float scale)
{
    float *x = check_alloc((size_t)count * sizeof(float), 4);
    for (int32_t i = 0; i < count; i++) {
        x[i] = check_random_float(random, -scale, scale);
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

static void check_rms_norm(struct check_random *random, const struct kernels *ref,
    const struct kernels *kernels, int32_t count)
{
    float *x = floats(random, count, 3);
    float *weight = floats(random, count, 2);
    float *want = floats(random, count, 0);
    float *have = floats(random, count, 0);
    if (count % 2 == 0) {
        x[count / 3] = 800;
    }
    ref->rms_norm(x, weight, 1e-5f, count, want);
    kernels->rms_norm(x, weight, 1e-5f, count, have);
    const double gamma = check_gamma(4);
    for (int32_t i = 0; i < count; i++) {
        check_near("rms_norm", kernels, i, (double)have[i], (double)want[i],
            gamma * fabs((double)want[i]));
    }
    kernels->rms_norm(x, weight, 1e-5f, count, x);
    assert_memory_equal(x, have, (size_t)count * sizeof(float));
    check_free(x);
    check_free(weight);
    check_free(want);
    check_free(have);
}

static void check_silu_mul(struct check_random *random, const struct kernels *ref,
    const struct kernels *kernels, int32_t count)
{
    float *gate = floats(random, count, 60);
    float *up = floats(random, count, 4);
    float *want = floats(random, count, 0);
    float *have = floats(random, count, 0);
    gate[0] = 0;
    ref->silu_mul(gate, up, count, want);
    kernels->silu_mul(gate, up, count, have);
    for (int32_t i = 0; i < count; i++) {
        check_near("silu_mul", kernels, i, (double)have[i], (double)want[i],
            8 * UNIT * fabs((double)want[i]));
    }
    kernels->silu_mul(gate, up, count, gate);
    assert_memory_equal(gate, have, (size_t)count * sizeof(float));
    check_free(gate);
    check_free(up);
    check_free(want);
    check_free(have);
}

static void check_add(struct check_random *random, const struct kernels *kernels, int32_t count)
{
    float *x = floats(random, count, 3);
    float *y = floats(random, count, 3);
    float *want = floats(random, count, 0);
    for (int32_t i = 0; i < count; i++) {
        want[i] = x[i] + y[i];
    }
    kernels->add(x, y, count);
    assert_memory_equal(x, want, (size_t)count * sizeof(float));
    check_free(x);
    check_free(y);
    check_free(want);
}

static void check_rope(struct check_random *random, const struct kernels *ref,
    const struct kernels *kernels, int32_t rotary_dim)
{
    enum { HEADS = 3 };
    const int32_t head_dim = rotary_dim + check_random_int(random, 0, 9);
    const size_t bytes = HEADS * (size_t)head_dim * sizeof(float);
    float *cos_sin = floats(random, rotary_dim, 1);
    for (int style = ROPE_INTERLEAVED; style <= ROPE_HALF; style++) {
        float *have = floats(random, HEADS * head_dim, 3);
        float *want = check_alloc(bytes, 4);
        float *before = check_alloc(bytes, 4);
        memcpy(want, have, bytes);
        memcpy(before, have, bytes);
        ref->rope((enum rope_style)style, want, HEADS, head_dim, rotary_dim, cos_sin);
        kernels->rope((enum rope_style)style, have, HEADS, head_dim, rotary_dim, cos_sin);
        for (int32_t i = 0; i < HEADS * head_dim; i++) {
            const int32_t d = i % head_dim;
            const int32_t half = rotary_dim / 2;
            const int32_t partner = style == ROPE_INTERLEAVED ? d ^ 1 : (d + half) % rotary_dim;
            const double bound =
                d >= rotary_dim
                    ? 0
                    : 4 * UNIT * (fabs((double)before[i]) + fabs((double)before[i - d + partner]));
            check_near("rope", kernels, i, (double)have[i], (double)want[i], bound);
        }
        check_free(have);
        check_free(want);
        check_free(before);
    }
    check_free(cos_sin);
}

static void check_log_sum_exp(struct check_random *random, const struct kernels *ref,
    const struct kernels *kernels, int32_t count)
{
    float *x = floats(random, count, 30);
    check_near("log_sum_exp", kernels, count, kernels->log_sum_exp(x, count),
        ref->log_sum_exp(x, count), 4 * UNIT * 31);
    for (int32_t i = 0; i < count - 1; i++) {
        x[i] = check_random_bits(random) % 2 == 0 ? -INFINITY : x[i];
    }
    check_near("log_sum_exp", kernels, count, kernels->log_sum_exp(x, count),
        ref->log_sum_exp(x, count), 4 * UNIT * 31);
    check_free(x);
}

static void every_length_is_within_rounding(
    struct check_random *random, const struct kernels *kernels)
{
    static const int32_t long_ones[] = {576, 1536, 4099};
    const struct kernels ref = check_rung("ref");
    for (int32_t i = 1; i <= 73; i++) {
        const int32_t count = i <= 70 ? i : long_ones[i - 71];
        check_rms_norm(random, &ref, kernels, count);
        check_silu_mul(random, &ref, kernels, count);
        check_add(random, kernels, count);
        check_rope(random, &ref, kernels, 2 * ((count + 1) / 2));
        check_log_sum_exp(random, &ref, kernels, count);
    }
}

/* ---- the two x86 rungs ---------------------------------------------------------------------- */

static void same_floats(const char *what, int32_t count, const float *a, const float *b)
{
    if (memcmp(a, b, (size_t)count * sizeof(float)) != 0) {
        fail_msg("%s of %d differs between avx2 and avx512", what, count);
    }
}

static void check_same_bits(struct check_random *random, const struct kernels *avx2,
    const struct kernels *avx512, int32_t count)
{
    float *x = floats(random, count, 60);
    float *y = floats(random, count, 2);
    float *want = floats(random, count, 0);
    float *have = floats(random, count, 0);
    avx2->rms_norm(x, y, 1e-5f, count, want);
    avx512->rms_norm(x, y, 1e-5f, count, have);
    same_floats("rms_norm", count, want, have);
    avx2->silu_mul(x, y, count, want);
    avx512->silu_mul(x, y, count, have);
    same_floats("silu_mul", count, want, have);
    for (int style = ROPE_INTERLEAVED; style <= ROPE_HALF; style++) {
        memcpy(want, x, (size_t)count * sizeof *x);
        memcpy(have, x, (size_t)count * sizeof *x);
        avx2->rope((enum rope_style)style, want, 1, count, count / 2 * 2, y);
        avx512->rope((enum rope_style)style, have, 1, count, count / 2 * 2, y);
        same_floats("rope", count, want, have);
    }
    const double want_sum = avx2->log_sum_exp(x, count);
    const double have_sum = avx512->log_sum_exp(x, count);
    assert_memory_equal(&want_sum, &have_sum, sizeof want_sum);
    check_free(x);
    check_free(y);
    check_free(want);
    check_free(have);
}

static void twins_give_the_same_bits(
    struct check_random *random, const struct kernels *avx2, const struct kernels *avx512)
{
    for (int32_t count = 1; count <= 200; count++) {
        check_same_bits(random, avx2, avx512, count);
    }
    check_same_bits(random, avx2, avx512, 4099);
}

/* ---- the same bits at every address ---------------------------------------------------------- */

enum { ADDRESSES = 16, ADDRESS_FLOATS = 1100 };

/* One row's answers to all entries, computed with every array `shift` floats past alignment. */
struct answers {
    float norm[ADDRESS_FLOATS], gate[ADDRESS_FLOATS], sum[ADDRESS_FLOATS], rope[ADDRESS_FLOATS];
    double log_sum_exp;
};

static void answer(const struct kernels *kernels, const float *x, const float *y, int32_t count,
    int32_t shift, struct answers *out)
{
    static _Alignas(64) float from_x[ADDRESS_FLOATS + ADDRESSES], from_y[sizeof from_x / 4],
        to[sizeof from_x / 4];
    const size_t bytes = (size_t)count * sizeof(float);
    float *a = from_x + shift, *b = from_y + shift, *c = to + shift;
    memcpy(a, x, bytes);
    memcpy(b, y, bytes);
    kernels->rms_norm(a, b, 1e-5f, count, c);
    memcpy(out->norm, c, bytes);
    kernels->silu_mul(a, b, count, c);
    memcpy(out->gate, c, bytes);
    out->log_sum_exp = kernels->log_sum_exp(a, count);
    memcpy(c, a, bytes);
    kernels->add(c, b, count);
    memcpy(out->sum, c, bytes);
    memcpy(c, a, bytes);
    kernels->rope(ROPE_HALF, c, 1, count, count / 2 * 2, b);
    memcpy(out->rope, c, bytes);
}

/* Rows of a batch lie at any address when a width is odd: where a row lies must not show. */
static void bits_do_not_depend_on_the_address(
    struct check_random *random, const struct kernels *kernels)
{
    static const int32_t counts[] = {1, 7, 8, 15, 17, 31, 33, 64, 65, 129, 300, 577, 1100};
    static struct answers want, have;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        float *x = floats(random, counts[i], 20);
        float *y = floats(random, counts[i], 2);
        memset(&want, 0, sizeof want);
        memset(&have, 0, sizeof have);
        answer(kernels, x, y, counts[i], 0, &want);
        for (int32_t shift = 1; shift < ADDRESSES; shift++) {
            answer(kernels, x, y, counts[i], shift, &have);
            assert_memory_equal(&want, &have, sizeof want);
        }
        check_free(x);
        check_free(y);
    }
}

/* ---- scans ---------------------------------------------------------------------------------- */

/* Few different values, so that ties are common; NaN and infinities among them. */
static void argmax_is_the_reference(struct check_random *random, const struct kernels *kernels)
{
    static const float values[] = {-INFINITY, -1, -0.0f, 0.0f, 1, 2, INFINITY, NAN};
    const struct kernels ref = check_rung("ref");
    for (int repeat = 0; repeat < 3000; repeat++) {
        const int32_t count = check_random_int(random, 1, 90);
        const int32_t low = check_random_int(random, 0, 7);
        const int32_t high = check_random_int(random, low, 7);
        float *x = floats(random, count, 0);
        for (int32_t i = 0; i < count; i++) {
            x[i] = values[check_random_int(random, low, high)];
        }
        assert_int_equal(kernels->argmax(x, count), ref.argmax(x, count));
        check_free(x);
    }
}

static void argmax_of_few(struct check_random *random, const struct kernels *kernels)
{
    assert_int_equal(kernels->argmax((const float[]){NAN, NAN}, 2), 0);
    assert_int_equal(kernels->argmax((const float[]){NAN, -INFINITY, -INFINITY}, 3), 1);
    assert_int_equal(kernels->argmax((const float[]){-0.0f, 0.0f}, 2), 0);
    assert_int_equal(kernels->argmax((const float[]){1, 3, 3, 2}, 4), 1);
}

static void one_number_that_is_not_finite(
    struct check_random *random, const struct kernels *kernels)
{
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    for (int32_t count = 1; count <= 70; count++) {
        float *x = floats(random, count, 1);
        x[0] = 3.4028234e38f;
        assert_true(kernels->all_finite(x, count));
        for (int32_t i = 0; i < count; i++) {
            const float kept = x[i];
            for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
                x[i] = bad[b];
                assert_false(kernels->all_finite(x, count));
            }
            x[i] = kept;
        }
        check_free(x);
    }
}

static void log_sum_exp_of_infinities(struct check_random *random, const struct kernels *kernels)
{
    assert_true(kernels->log_sum_exp((const float[]){-INFINITY, -INFINITY}, 2) == -INFINITY);
    assert_true(kernels->log_sum_exp((const float[]){INFINITY, 1}, 2) == INFINITY);
    assert_true(isnan(kernels->log_sum_exp((const float[]){1, NAN, 2}, 3)));
    assert_true(isnan(kernels->log_sum_exp((const float[]){NAN, INFINITY}, 2)));
    assert_true(isnan(kernels->log_sum_exp((const float[]){NAN, -INFINITY}, 2)));
    assert_true(kernels->log_sum_exp((const float[]){-INFINITY, 5}, 2) == 5);
    assert_true(kernels->log_sum_exp((const float[]){1000, -1000}, 2) == 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RUNG_TEST(every_length_is_within_rounding, check_wants_any),
        TWIN_TEST(twins_give_the_same_bits),
        RUNG_TEST(bits_do_not_depend_on_the_address, check_wants_any),
        RUNG_TEST(argmax_is_the_reference, check_wants_any),
        RUNG_TEST(argmax_of_few, check_wants_any),
        RUNG_TEST(one_number_that_is_not_finite, check_wants_any),
        RUNG_TEST(log_sum_exp_of_infinities, check_wants_any),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
