/* What encoders need besides: LayerNorm and GELU, in double. */
#include <math.h>
#include <stddef.h>
#include "engine/kernels/ref/ref.h"

void encoder_ref_layer_norm(
    const float *x, const float *weight, const float *bias, float eps, int32_t count, float *out)
{
    double mean = 0, squares = 0;
    for (int32_t i = 0; i < count; i++) {
        mean += (double)x[i] / count;
    }
    for (int32_t i = 0; i < count; i++) {
        squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    }
    const double scale = 1 / sqrt(squares / count + (double)eps);
    for (int32_t i = 0; i < count; i++) {
        const double shift = bias == NULL ? 0 : (double)bias[i];
        out[i] = (float)(((double)x[i] - mean) * scale * (double)weight[i] + shift);
    }
}

void encoder_ref_gelu_erf(const float *gate, const float *up, int32_t count, float *out)
{
    const double root = sqrt(0.5);
    for (int32_t i = 0; i < count; i++) {
        const double x = (double)gate[i];
        const double y = x * 0.5 * erfc(-x * root);
        out[i] = (float)(up == NULL ? y : y * (double)up[i]);
    }
}

void encoder_ref_gelu_tanh(const float *gate, const float *up, int32_t count, float *out)
{
    const double root = sqrt(2 / acos(-1.0));
    for (int32_t i = 0; i < count; i++) {
        const double x = (double)gate[i];
        const double y = x * 0.5 * (1 + tanh(root * (x + 0.044715 * x * x * x)));
        out[i] = (float)(up == NULL ? y : y * (double)up[i]);
    }
}
