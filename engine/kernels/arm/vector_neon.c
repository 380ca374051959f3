/*
 * Norms, rotations, elementwise operations and scans over logits.
 *
 * Orders of reduction are fixed by the row's length alone, and are those of the AVX2 rung: sums run
 * in groups of eight numbers. Row tails go through the same vector code, so an element's result
 * never depends on its place.
 */
#include <arm_neon.h>
#include <math.h>
#include "engine/base/assert.h"
#include "engine/base/attr.h"
#include "engine/kernels/arm/exp_neon.h"
#include "engine/kernels/arm/lanes_neon.h"
#include "engine/kernels/arm/neon.h"

/* The sum in double: a residual holds a few numbers hundreds of times larger than the rest, and
 * in float their squares would swallow the others'. Number i goes to partial sum i % 16. */
static double sum_of_squares(const float *x, int32_t count)
{
    enum { PARTS = 16 / 2 }; /* two sums each */
    float64x2_t sums[PARTS];
    for (int j = 0; j < PARTS; j++) {
        sums[j] = vdupq_n_f64(0);
    }
    for (int32_t i = 0, j = 0; i < count; i += LANES, j = (j + 2) % PARTS) {
        const float32x4_t v = lanes_load(x + i, count - i);
        const float64x2_t low = vcvt_f64_f32(vget_low_f32(v));
        const float64x2_t high = vcvt_high_f64_f32(v);
        sums[j] = vfmaq_f64(sums[j], low, low);
        sums[j + 1] = vfmaq_f64(sums[j + 1], high, high);
    }
    const float64x2_t low = vaddq_f64(vaddq_f64(sums[0], sums[2]), vaddq_f64(sums[4], sums[6]));
    const float64x2_t high = vaddq_f64(vaddq_f64(sums[1], sums[3]), vaddq_f64(sums[5], sums[7]));
    return vpaddd_f64(low) + vpaddd_f64(high);
}

void vector_neon_rms_norm(const float *x, const float *weight, float eps, int32_t count, float *out)
{
    const double mean = sum_of_squares(x, count) / (double)count;
    const float32x4_t scale = vdupq_n_f32((float)(1.0 / sqrt(mean + (double)eps)));
    for (int32_t i = 0; i < count; i += LANES) {
        const float32x4_t scaled = vmulq_f32(lanes_load(x + i, count - i), scale);
        lanes_store(out + i, count - i, vmulq_f32(scaled, lanes_load(weight + i, count - i)));
    }
}

/* (a, b) -> (a c - b s, a s + b c), each as one product and one FMA. */
static float32x4x2_t rotate(float32x4x2_t ab, float32x4x2_t cos_sin)
{
    const float32x4_t c = cos_sin.val[0];
    const float32x4_t s = cos_sin.val[1];
    return (float32x4x2_t){{
        vfmaq_f32(vnegq_f32(vmulq_f32(ab.val[1], s)), ab.val[0], c),
        vfmaq_f32(vmulq_f32(ab.val[0], s), ab.val[1], c),
    }};
}

static void rotate_interleaved(float *x, int32_t pairs, const float *cos_sin)
{
    for (int32_t i = 0; i < pairs; i += LANES) {
        const int32_t left = pairs - i;
        const float32x4x2_t angles = lanes_load_pairs(cos_sin + 2 * i, left);
        lanes_store_pairs(x + 2 * i, left, rotate(lanes_load_pairs(x + 2 * i, left), angles));
    }
}

static void rotate_halves(float *x, int32_t pairs, const float *cos_sin)
{
    for (int32_t i = 0; i < pairs; i += LANES) {
        const int32_t left = pairs - i;
        const float32x4x2_t ab = {{lanes_load(x + i, left), lanes_load(x + pairs + i, left)}};
        const float32x4x2_t turned = rotate(ab, lanes_load_pairs(cos_sin + 2 * i, left));
        lanes_store(x + i, left, turned.val[0]);
        lanes_store(x + pairs + i, left, turned.val[1]);
    }
}

void vector_neon_rope(enum rope_style style, float *x, int32_t heads, int32_t head_dim,
    int32_t rotary_dim, const float *cos_sin)
{
    for (int32_t h = 0; h < heads; h++) {
        float *head = x + (size_t)h * (size_t)head_dim;
        if (style == ROPE_INTERLEAVED) {
            rotate_interleaved(head, rotary_dim / 2, cos_sin);
        } else {
            rotate_halves(head, rotary_dim / 2, cos_sin);
        }
    }
}

void vector_neon_silu_mul(const float *gate, const float *up, int32_t count, float *out)
{
    for (int32_t i = 0; i < count; i += LANES) {
        const float32x4_t g = lanes_load(gate + i, count - i);
        const float32x4_t divisor = vaddq_f32(vdupq_n_f32(1.0f), exp_neon(vnegq_f32(g)));
        const float32x4_t silu = vdivq_f32(g, divisor);
        lanes_store(out + i, count - i, vmulq_f32(silu, lanes_load(up + i, count - i)));
    }
}

void vector_neon_add(float *x, const float *y, int32_t count)
{
    for (int32_t i = 0; i < count; i += LANES) {
        const int32_t left = count - i;
        lanes_store(x + i, left, vaddq_f32(lanes_load(x + i, left), lanes_load(y + i, left)));
    }
}

void vector_neon_exp(const float *x, int32_t count, float *out)
{
    for (int32_t i = 0; i < count; i += LANES) {
        lanes_store(out + i, count - i, exp_neon(lanes_load(x + i, count - i)));
    }
}

/* The greatest number, -inf when there is none; NaNs are passed over. */
static float greatest_of(const float *x, int32_t count)
{
    const float32x4_t lowest = vdupq_n_f32(-INFINITY);
    float32x4_t best[4] = {lowest, lowest, lowest, lowest};
    int32_t i = 0;
    for (; i + 4 * LANES <= count; i += 4 * LANES) {
        for (int j = 0; j < 4; j++) {
            best[j] = lanes_greater(vld1q_f32(x + i + j * LANES), best[j]);
        }
    }
    for (; i < count; i += LANES) {
        const float32x4_t v = lanes_load(x + i, count - i);
        best[0] = lanes_greater(vbslq_f32(lanes_first(count - i), v, lowest), best[0]);
    }
    return vmaxvq_f32(
        lanes_greater(lanes_greater(best[0], best[1]), lanes_greater(best[2], best[3])));
}

int32_t vector_neon_argmax(const float *x, int32_t count)
{
    ASSERT(count >= 1);
    const float greatest = greatest_of(x, count);
    int32_t i = 0;
    while (
        i + LANES <= count && vmaxvq_u32(vceqq_f32(vld1q_f32(x + i), vdupq_n_f32(greatest))) == 0) {
        i += LANES;
    }
    for (; i < count; i++) {
        if (x[i] == greatest) {
            return i;
        }
    }
    return 0; /* all are NaN */
}

double vector_neon_log_sum_exp(const float *x, int32_t count)
{
    const float greatest = greatest_of(x, count);
    const float32x4_t top = vdupq_n_f32(isinf(greatest) ? 0.0f : greatest);
    /* Number i goes to partial sum i % 8. A NaN, which greatest_of passes over, comes through exp
     * into the sum. */
    float64x2_t sums[4] = {vdupq_n_f64(0), vdupq_n_f64(0), vdupq_n_f64(0), vdupq_n_f64(0)};
    for (int32_t i = 0, j = 0; i < count; i += LANES, j = (j + 2) % 4) {
        const float32x4_t e = exp_neon(vsubq_f32(lanes_load(x + i, count - i), top));
        const float32x4_t kept =
            vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(e), lanes_first(count - i)));
        sums[j] = vaddq_f64(sums[j], vcvt_f64_f32(vget_low_f32(kept)));
        sums[j + 1] = vaddq_f64(sums[j + 1], vcvt_high_f64_f32(kept));
    }
    const float64x2_t two = vaddq_f64(vaddq_f64(sums[0], sums[2]), vaddq_f64(sums[1], sums[3]));
    const double sum = vpaddd_f64(two);
    return isnan(sum) ? sum : isinf(greatest) ? (double)greatest : (double)greatest + log(sum);
}

bool vector_neon_all_finite(const float *x, int32_t count)
{
    uint32x4_t finite = vdupq_n_u32(UINT32_MAX);
    const float32x4_t infinite = vdupq_n_f32(INFINITY);
    for (int32_t i = 0; i < count; i += LANES) {
        finite = vandq_u32(finite, vcaltq_f32(lanes_load(x + i, count - i), infinite));
    }
    return vminvq_u32(finite) != 0;
}
