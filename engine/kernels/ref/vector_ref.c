/* Reference norms, rotations, elementwise operations and scans over logits, by libm in double. */
#include <math.h>
#include "engine/base/assert.h"
#include "engine/kernels/ref/ref.h"

void vector_ref_rms_norm(const float *x, const float *weight, float eps, int32_t count, float *out)
{
    double sum = 0;
    for (int32_t i = 0; i < count; i++) {
        sum += (double)x[i] * (double)x[i];
    }
    const double scale = 1.0 / sqrt(sum / (double)count + (double)eps);
    for (int32_t i = 0; i < count; i++) {
        out[i] = (float)((double)x[i] * scale * (double)weight[i]);
    }
}

static void rotate(float *first, float *second, const float *cos_sin)
{
    const double a = (double)*first;
    const double b = (double)*second;
    const double c = (double)cos_sin[0];
    const double s = (double)cos_sin[1];
    *first = (float)(a * c - b * s);
    *second = (float)(a * s + b * c);
}

void vector_ref_rope(enum rope_style style, float *x, int32_t heads, int32_t head_dim,
    int32_t rotary_dim, const float *cos_sin)
{
    const int32_t pairs = rotary_dim / 2;
    for (int32_t h = 0; h < heads; h++) {
        float *head = x + (size_t)h * (size_t)head_dim;
        for (int32_t i = 0; i < pairs; i++) {
            const int32_t first = style == ROPE_INTERLEAVED ? 2 * i : i;
            const int32_t second = style == ROPE_INTERLEAVED ? 2 * i + 1 : i + pairs;
            rotate(head + first, head + second, cos_sin + 2 * i);
        }
    }
}

void vector_ref_silu_mul(const float *gate, const float *up, int32_t count, float *out)
{
    for (int32_t i = 0; i < count; i++) {
        const double g = (double)gate[i];
        out[i] = (float)(g / (1.0 + exp(-g)) * (double)up[i]);
    }
}

void vector_ref_add(float *x, const float *y, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        x[i] += y[i];
    }
}

int32_t vector_ref_argmax(const float *x, int32_t count)
{
    ASSERT(count >= 1);
    int32_t best = -1;
    for (int32_t i = 0; i < count; i++) {
        if (!isnan(x[i]) && (best < 0 || x[i] > x[best])) {
            best = i;
        }
    }
    return best < 0 ? 0 : best;
}

double vector_ref_log_sum_exp(const float *x, int32_t count)
{
    double greatest = -INFINITY;
    for (int32_t i = 0; i < count; i++) {
        if (isnan(x[i])) {
            return NAN;
        }
        greatest = fmax(greatest, (double)x[i]);
    }
    if (isinf(greatest)) {
        return greatest; /* no number at all, or one that dwarfs the rest */
    }
    double sum = 0;
    for (int32_t i = 0; i < count; i++) {
        sum += exp((double)x[i] - greatest);
    }
    return greatest + log(sum);
}

bool vector_ref_all_finite(const float *x, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        if (!isfinite(x[i])) {
            return false;
        }
    }
    return true;
}
