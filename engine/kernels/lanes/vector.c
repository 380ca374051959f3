/*
 * Norms, rotations, elementwise operations and scans over logits.
 *
 * Orders of reduction are fixed by the row's length alone: a sum of squares runs in 16 lanes,
 * number i in lane i % 16, that of log_sum_exp in 8; then lanes are added pairwise. Row tails go
 * through the same vector code under a mask, so an element's result never depends on its place.
 */
#include <math.h>
#include "engine/base/assert.h"
#include "engine/kernels/lanes/isa.h"
#include "engine/kernels/lanes/lanes_exp.h"
#include "engine/kernels/lanes/lanes.h"

/* The sum in double: a residual holds a few numbers hundreds of times larger than the rest, and
 * in float their squares would swallow the others'. */
static double sum_of_squares(const float *x, int32_t count)
{
    doubles sums[SIXTEEN_VECTORS];
    for (int j = 0; j < SIXTEEN_VECTORS; j++) {
        sums[j] = doubles_zero();
    }
    for (int32_t i = 0, j = 0; i < count; i += LANES, j = (j + 2) % SIXTEEN_VECTORS) {
        const floats v = lanes_load(x + i, count - i);
        const doubles low = doubles_of_low(v);
        const doubles high = doubles_of_high(v);
        sums[j] = doubles_fma(low, low, sums[j]);
        sums[j + 1] = doubles_fma(high, high, sums[j + 1]);
    }
    return sixteen_sum(sums);
}

void ISA(vector_rms_norm)(const float *x, const float *weight, float eps, int32_t count, float *out)
{
    const double mean = sum_of_squares(x, count) / (double)count;
    const floats scale = floats_all((float)(1.0 / sqrt(mean + (double)eps)));
    for (int32_t i = 0; i < count; i += LANES) {
        const floats scaled = lanes_load(x + i, count - i) * scale;
        lanes_store(out + i, count - i, scaled * lanes_load(weight + i, count - i));
    }
}

/* (a, b) -> (a c - b s, a s + b c), each as one product and one FMA. */
static void rotate_interleaved(float *x, int32_t count, const float *cos_sin)
{
    for (int32_t i = 0; i < count; i += LANES) {
        const floats v = lanes_load(x + i, count - i);
        const floats both = lanes_load(cos_sin + i, count - i);
        const floats swapped = floats_swapped(v);
        const floats sines = swapped * floats_odds(both);
        lanes_store(x + i, count - i, floats_fmaddsub(v, floats_evens(both), sines));
    }
}

static void rotate_halves(float *x, int32_t pairs, const float *cos_sin)
{
    for (int32_t i = 0; i < pairs; i += LANES) {
        const int32_t left = pairs - i;
        const floats a = lanes_load(x + i, left);
        const floats b = lanes_load(x + pairs + i, left);
        const floats low = lanes_load(cos_sin + 2 * i, 2 * left);
        const floats high = left > LANES / 2 ? lanes_load(cos_sin + 2 * i + LANES, 2 * left - LANES)
                                             : floats_zero();
        floats c, s;
        floats_unzip(low, high, &c, &s);
        lanes_store(x + i, left, floats_fms(a, c, b * s));
        lanes_store(x + pairs + i, left, floats_fma(b, c, a * s));
    }
}

void ISA(vector_rope)(enum rope_style style, float *x, int32_t heads, int32_t head_dim,
    int32_t rotary_dim, const float *cos_sin)
{
    for (int32_t h = 0; h < heads; h++) {
        float *head = x + (size_t)h * (size_t)head_dim;
        if (style == ROPE_INTERLEAVED) {
            rotate_interleaved(head, rotary_dim, cos_sin);
        } else {
            rotate_halves(head, rotary_dim / 2, cos_sin);
        }
    }
}

void ISA(vector_silu_mul)(const float *gate, const float *up, int32_t count, float *out)
{
    const floats one = floats_all(1.0f);
    for (int32_t i = 0; i < count; i += LANES) {
        const floats g = lanes_load(gate + i, count - i);
        const floats silu = g / (one + lanes_exp(-g));
        lanes_store(out + i, count - i, silu * lanes_load(up + i, count - i));
    }
}

void ISA(vector_add)(float *x, const float *y, int32_t count)
{
    for (int32_t i = 0; i < count; i += LANES) {
        lanes_store(x + i, count - i, lanes_load(x + i, count - i) + lanes_load(y + i, count - i));
    }
}

void ISA(vector_exp)(const float *x, int32_t count, float *out)
{
    for (int32_t i = 0; i < count; i += LANES) {
        lanes_store(out + i, count - i, lanes_exp(lanes_load(x + i, count - i)));
    }
}

/* The greatest number, -inf when there is none. MAXPS gives its second operand when one is NaN. */
static float greatest_of(const float *x, int32_t count)
{
    const floats lowest = floats_all(-INFINITY);
    floats best[4] = {lowest, lowest, lowest, lowest};
    int32_t i = 0;
    for (; i + 4 * LANES <= count; i += 4 * LANES) {
        for (int j = 0; j < 4; j++) {
            best[j] = floats_max(floats_load(x + i + j * LANES), best[j]);
        }
    }
    for (; i < count; i += LANES) {
        const floats v = floats_where(lanes_first(count - i), lanes_load(x + i, count - i), lowest);
        best[0] = floats_max(v, best[0]);
    }
    return floats_greatest(floats_max(floats_max(best[0], best[1]), floats_max(best[2], best[3])));
}

int32_t ISA(vector_argmax)(const float *x, int32_t count)
{
    ASSERT(count >= 1);
    const float greatest = greatest_of(x, count);
    const floats wanted = floats_all(greatest);
    int32_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        const unsigned equal = bools_bits(floats_equal(floats_load(x + i), wanted));
        if (equal != 0) {
            return i + __builtin_ctz(equal);
        }
    }
    for (; i < count; i++) {
        if (x[i] == greatest) {
            return i;
        }
    }
    return 0; /* all are NaN */
}

double ISA(vector_log_sum_exp)(const float *x, int32_t count)
{
    const float greatest = greatest_of(x, count);
    const floats top = floats_all(isinf(greatest) ? 0.0f : greatest);
    enum { VECTORS = 16 / LANES }; /* of eight sums */
    doubles sums[VECTORS];
    for (int j = 0; j < VECTORS; j++) {
        sums[j] = doubles_zero();
    }
    /* A NaN, which greatest_of passes over, comes through exp into the sum. */
    for (int32_t i = 0, j = 0; i < count; i += LANES, j = (j + 2) % VECTORS) {
        const floats e = lanes_exp(lanes_load(x + i, count - i) - top);
        const floats kept = floats_where(lanes_first(count - i), e, floats_zero());
        sums[j] += doubles_of_low(kept);
        sums[(j + 1) % VECTORS] += doubles_of_high(kept);
    }
    double p[8];
    for (int j = 0; j < VECTORS; j++) {
        doubles_store(p + j * LANES / 2, sums[j]);
    }
    for (int k = 0; k < 4; k++) {
        p[k] += p[k + 4];
    }
    const double sum = (p[0] + p[2]) + (p[1] + p[3]);
    return isnan(sum) ? sum : isinf(greatest) ? (double)greatest : (double)greatest + log(sum);
}

bool ISA(vector_all_finite)(const float *x, int32_t count)
{
    const ints exponent = ints_all(0x7f800000);
    bools bad = lanes_first(0);
    for (int32_t i = 0; i < count; i += LANES) {
        const ints bits = floats_bits(lanes_load(x + i, count - i));
        bad = (bools)(bad | ints_equal(bits & exponent, exponent));
    }
    return bools_bits(bad) == 0;
}
