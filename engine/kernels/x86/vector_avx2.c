/*
 * Norms, rotations, elementwise operations and scans over logits.
 *
 * Orders of reduction are fixed by the row's length alone: a sum runs in four vectors, which are
 * added pairwise, then across their lanes. Row tails go through the same vector code under a mask,
 * so an element's result never depends on its place.
 */
#include <immintrin.h>
#include <math.h>
#include "engine/base/assert.h"
#include "engine/kernels/x86/avx2.h"
#include "engine/kernels/x86/exp_avx2.h"
#include "engine/kernels/x86/lanes_avx2.h"

/* The sum in double: a residual holds a few numbers hundreds of times larger than the rest, and
 * in float their squares would swallow the others'. */
static double sum_of_squares(const float *x, int32_t count)
{
    __m256d sums[4] = {
        _mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd()};
    for (int32_t i = 0, j = 0; i < count; i += LANES, j = (j + 2) % 4) {
        const __m256 v = count - i >= LANES ? _mm256_loadu_ps(x + i) : lanes_load(x + i, count - i);
        const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
        const __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
        sums[j] = _mm256_fmadd_pd(low, low, sums[j]);
        sums[j + 1] = _mm256_fmadd_pd(high, high, sums[j + 1]);
    }
    double parts[4];
    _mm256_storeu_pd(
        parts, _mm256_add_pd(_mm256_add_pd(sums[0], sums[1]), _mm256_add_pd(sums[2], sums[3])));
    return (parts[0] + parts[1]) + (parts[2] + parts[3]);
}

void vector_avx2_rms_norm(const float *x, const float *weight, float eps, int32_t count, float *out)
{
    const double mean = sum_of_squares(x, count) / (double)count;
    const __m256 scale = _mm256_set1_ps((float)(1.0 / sqrt(mean + (double)eps)));
    for (int32_t i = 0; i < count; i += LANES) {
        const __m256 scaled = _mm256_mul_ps(lanes_load(x + i, count - i), scale);
        lanes_store(out + i, count - i, _mm256_mul_ps(scaled, lanes_load(weight + i, count - i)));
    }
}

/* (a, b) -> (a c - b s, a s + b c), each as one product and one FMA. */
static void rotate_interleaved(float *x, int32_t count, const float *cos_sin)
{
    for (int32_t i = 0; i < count; i += LANES) {
        const __m256 v = lanes_load(x + i, count - i);
        const __m256 both = lanes_load(cos_sin + i, count - i);
        const __m256 swapped = _mm256_permute_ps(v, 0xb1);
        const __m256 sines = _mm256_mul_ps(swapped, _mm256_movehdup_ps(both));
        lanes_store(x + i, count - i, _mm256_fmaddsub_ps(v, _mm256_moveldup_ps(both), sines));
    }
}

static void rotate_halves(float *x, int32_t pairs, const float *cos_sin)
{
    const __m256i order = _mm256_setr_epi32(0, 1, 4, 5, 2, 3, 6, 7);
    for (int32_t i = 0; i < pairs; i += LANES) {
        const int32_t left = pairs - i;
        const __m256 a = lanes_load(x + i, left);
        const __m256 b = lanes_load(x + pairs + i, left);
        const __m256 low = lanes_load(cos_sin + 2 * i, 2 * left);
        const __m256 high =
            left > 4 ? lanes_load(cos_sin + 2 * i + LANES, 2 * left - LANES) : _mm256_setzero_ps();
        const __m256 evens = _mm256_shuffle_ps(low, high, 0x88);
        const __m256 odds = _mm256_shuffle_ps(low, high, 0xdd);
        /* The shuffle works within 128 bits: pairs 0 1 4 5 | 2 3 6 7. */
        const __m256 c = _mm256_permutevar8x32_ps(evens, order);
        const __m256 s = _mm256_permutevar8x32_ps(odds, order);
        lanes_store(x + i, left, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
        lanes_store(x + pairs + i, left, _mm256_fmadd_ps(b, c, _mm256_mul_ps(a, s)));
    }
}

void vector_avx2_rope(enum rope_style style, float *x, int32_t heads, int32_t head_dim,
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

void vector_avx2_silu_mul(const float *gate, const float *up, int32_t count, float *out)
{
    const __m256 one = _mm256_set1_ps(1.0f);
    const __m256 sign = _mm256_set1_ps(-0.0f);
    for (int32_t i = 0; i < count; i += LANES) {
        const __m256 g = lanes_load(gate + i, count - i);
        const __m256 divisor = _mm256_add_ps(one, exp_avx2(_mm256_xor_ps(g, sign)));
        const __m256 silu = _mm256_div_ps(g, divisor);
        lanes_store(out + i, count - i, _mm256_mul_ps(silu, lanes_load(up + i, count - i)));
    }
}

void vector_avx2_add(float *x, const float *y, int32_t count)
{
    for (int32_t i = 0; i < count; i += LANES) {
        const __m256 sum =
            _mm256_add_ps(lanes_load(x + i, count - i), lanes_load(y + i, count - i));
        lanes_store(x + i, count - i, sum);
    }
}

void vector_avx2_exp(const float *x, int32_t count, float *out)
{
    for (int32_t i = 0; i < count; i += LANES) {
        lanes_store(out + i, count - i, exp_avx2(lanes_load(x + i, count - i)));
    }
}

/* The greatest number, -inf when there is none. MAXPS gives its second operand when one is NaN. */
static float greatest_of(const float *x, int32_t count)
{
    const __m256 lowest = _mm256_set1_ps(-INFINITY);
    __m256 best[4] = {lowest, lowest, lowest, lowest};
    int32_t i = 0;
    for (; i + 4 * LANES <= count; i += 4 * LANES) {
        for (int j = 0; j < 4; j++) {
            best[j] = _mm256_max_ps(_mm256_loadu_ps(x + i + j * LANES), best[j]);
        }
    }
    for (; i < count; i += LANES) {
        const __m256i first = lanes_first(count - i);
        const __m256 v =
            _mm256_blendv_ps(lowest, lanes_load(x + i, count - i), _mm256_castsi256_ps(first));
        best[0] = _mm256_max_ps(v, best[0]);
    }
    return lanes_max(
        _mm256_max_ps(_mm256_max_ps(best[0], best[1]), _mm256_max_ps(best[2], best[3])));
}

int32_t vector_avx2_argmax(const float *x, int32_t count)
{
    ASSERT(count >= 1);
    const float greatest = greatest_of(x, count);
    const __m256 wanted = _mm256_set1_ps(greatest);
    int32_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        const int equal =
            _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(x + i), wanted, _CMP_EQ_OQ));
        if (equal != 0) {
            return i + __builtin_ctz((unsigned)equal);
        }
    }
    for (; i < count; i++) {
        if (x[i] == greatest) {
            return i;
        }
    }
    return 0; /* all are NaN */
}

double vector_avx2_log_sum_exp(const float *x, int32_t count)
{
    const float greatest = greatest_of(x, count);
    const __m256 top = _mm256_set1_ps(isinf(greatest) ? 0.0f : greatest);
    __m256d low = _mm256_setzero_pd();
    __m256d high = _mm256_setzero_pd();
    /* A NaN, which greatest_of passes over, comes through exp into the sum. */
    for (int32_t i = 0; i < count; i += LANES) {
        const __m256 e = exp_avx2(_mm256_sub_ps(lanes_load(x + i, count - i), top));
        const __m256 kept = _mm256_and_ps(e, _mm256_castsi256_ps(lanes_first(count - i)));
        low = _mm256_add_pd(low, _mm256_cvtps_pd(_mm256_castps256_ps128(kept)));
        high = _mm256_add_pd(high, _mm256_cvtps_pd(_mm256_extractf128_ps(kept, 1)));
    }
    const __m256d four = _mm256_add_pd(low, high);
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    const double sum = _mm_cvtsd_f64(two) + _mm_cvtsd_f64(_mm_unpackhi_pd(two, two));
    return isnan(sum) ? sum : isinf(greatest) ? (double)greatest : (double)greatest + log(sum);
}

bool vector_avx2_all_finite(const float *x, int32_t count)
{
    const __m256i exponent = _mm256_set1_epi32(0x7f800000);
    __m256i bad = _mm256_setzero_si256();
    for (int32_t i = 0; i < count; i += LANES) {
        const __m256i bits = _mm256_castps_si256(lanes_load(x + i, count - i));
        bad = _mm256_or_si256(bad, _mm256_cmpeq_epi32(_mm256_and_si256(bits, exponent), exponent));
    }
    return _mm256_testz_si256(bad, bad) != 0;
}
