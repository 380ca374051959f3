/*
 * The default model and smollm2-reference: what a float64 forward over exactly dequantised weights
 * makes of it. Shared by the test_smollm2_* programs, each of which runs its tests twice, with f32
 * and with f16 K/V.
 *
 * With f32 activations and f32 K/V a logit is within 1e-3 of exact arithmetic; everything else
 * follows: a difference of two logits moves by at most twice that, so does a log-probability (a
 * logit minus a mean of logits), a probability by half of it (p (1 - p) <= 1/4, two logits). With
 * f16 K/V each bound is what was measured here, and a fifth more: the last bits of f32 decide how
 * single K/V numbers round to f16, and one at the first token, which every row attends to, is felt
 * everywhere (a probability errs by 2.6e-4 to 6.2e-4, by the order of sums in the products).
 *
 * Prefix-LM has a bound of its own. The model was never trained with that mask; two of the four
 * prompts drive activations to 14,000, and rounding nothing but the residual to f32 between the
 * layers of a float64 forward moves their logits by 1.6e-4 (causal prompts: 7e-6). Their error is
 * noise of the last bits, of a size that differs between rungs of kernels: f32 8.8e-4 at most, f16
 * 0.047 to 0.12. The f16 bound is twice that; the lead of the chosen token is held as elsewhere.
 */
#ifndef TESTS_GOLDEN_SMOLLM2_H
#define TESTS_GOLDEN_SMOLLM2_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include "tests/golden/forward_helper.h"

struct CMUnitTest;

enum { SMOLLM2_WIDTH = 576, SMOLLM2_VOCAB = 49152 };

struct smollm2_mode {
    const char *name;
    enum kv_type kv;
    /* Largest errors: of a logit, of one after a bidirectional prefix, of the lead of one over
     * another, of a log-probability, of a probability, of a number in a vector of length 1. */
    double logit, prefix_logit, lead, logprob, probability, vector;
};

/* The model as it is open now. */
struct smollm2 {
    const struct smollm2_mode *mode;
    struct forward forward;
};

/* Runs the tests once a mode, each with its struct smollm2 as *state; skips when model or data are
 * absent. Returns main's exit status. */
int smollm2_main(const struct CMUnitTest *tests, size_t test_count);

/* STEM.jsonl, and STEM_f32.bin as rows of `width`; both of the caller's to free. Under a sanitizer,
 * which looks at the code and not at the numbers, one line of eight. */
json_t *smollm2_lines(const char *stem);
float *smollm2_rows(const char *stem, size_t width, size_t *out_rows);
/* Fails unless each of `rows` rows was compared, or as few as under a sanitizer. */
void smollm2_check_rows(size_t compared, size_t rows);

#endif
