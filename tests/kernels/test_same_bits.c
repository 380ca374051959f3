/*
 * Goal: the rungs written in lanes do the same operations in the same order on every kind of CPU,
 * so a model gives the same bits on x86-64 and on AArch64.
 *
 * Method: no machine has both, so the bits of each kernel on fixed numbers are kept here as a hash.
 * Rungs of all widths have to arrive at the same ones; that they are right is what the other tests
 * say. Whoever changes an order on purpose takes the new hashes from this test's output, and finds
 * them again under qemu (tests/run.sh --cross aarch64 kernels). log_sum_exp is left out: its last
 * step is the log of the C library.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "engine/attn/mask.h"
#include "tests/kernels/kernel_check.h"

/* FNV-1a (Fowler, Noll, Vo). */
static uint64_t hash_of(const float *x, size_t count)
{
    unsigned char bytes[sizeof *x];
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < count; i++) {
        memcpy(bytes, &x[i], sizeof bytes);
        for (size_t b = 0; b < sizeof bytes; b++) {
            hash = (hash ^ bytes[b]) * 0x100000001b3u;
        }
    }
    return hash;
}

static int wrong; /* all are told before the test fails */

static void check_hash(
    const struct kernels *kernels, const char *what, const float *x, size_t count, uint64_t want)
{
    const uint64_t have = hash_of(x, count);
    if (have != want) {
        print_error("%s %s: 0x%016llx, not 0x%016llx\n", kernels->name, what,
            (unsigned long long)have, (unsigned long long)want);
        wrong++;
    }
}

/* ---- products ------------------------------------------------------------------------------- */

static void products(struct check_random *unused, const struct kernels *kernels)
{
    (void)unused; /* the numbers are fixed */
    enum { ROWS = 9, OUTPUTS = 37, INPUTS_MAX = 512 };
    static const uint64_t want[TENSOR_TYPE_COUNT] = {
        [TENSOR_F32] = 0x0361dcac32ef19b2,
        [TENSOR_F16] = 0x4f8d34b9651512e6,
        [TENSOR_BF16] = 0x16ff225c00fbaef2,
        [TENSOR_Q4_0] = 0x557a90ee1526196e,
        [TENSOR_Q4_1] = 0x235d517ecda83d6a,
        [TENSOR_Q5_0] = 0x5cf8d2dd5036bbd6,
        [TENSOR_Q5_1] = 0x21d2996e51aad925,
        [TENSOR_Q8_0] = 0x6718d55376e8c6d7,
        [TENSOR_Q4_K] = 0xbe9d47f5ddef060d,
        [TENSOR_Q5_K] = 0xe02ecfbc5d04e3eb,
        [TENSOR_Q6_K] = 0x1947c1ac84a9379d,
    };
    struct check_random random = {1};
    for (int type = 0; type < TENSOR_TYPE_COUNT; type++) {
        const int32_t inputs =
            tensor_type_block((enum tensor_type)type) == 1 ? INPUTS_MAX - 99 : INPUTS_MAX;
        size_t bytes = 0;
        assert_true(tensor_type_bytes((enum tensor_type)type, OUTPUTS * (size_t)inputs, &bytes));
        unsigned char *file = check_alloc(bytes, 0);
        check_random_blocks(&random, (enum tensor_type)type, OUTPUTS * (size_t)inputs, file);
        struct packed packed =
            check_pack(&random, kernels, (enum tensor_type)type, OUTPUTS, inputs, file);
        float x[ROWS * INPUTS_MAX];
        float y[ROWS * OUTPUTS];
        check_random_floats(&random, x, ROWS * (size_t)inputs);
        float *sums = check_sums(kernels, x, ROWS, inputs, (size_t)inputs);
        const struct activation activation = {
            ACTIVATION_F32, ROWS, inputs, (size_t)inputs * sizeof(float), x, sums};
        kernels->linear(&packed, &activation, 0, ROWS, 0, packed.panels, y, OUTPUTS);
        check_hash(
            kernels, tensor_type_word((enum tensor_type)type), y, ROWS * OUTPUTS, want[type]);
        check_free(packed.data);
        check_free(file);
        if (sums != NULL) {
            check_free(sums);
        }
    }
    assert_int_equal(wrong, 0);
}

/* ---- attention ------------------------------------------------------------------------------ */

static void check_attention_of(const struct kernels *kernels, enum kv_type type, int32_t slots,
    float slope, int32_t reach, uint64_t want)
{
    enum { SLOTS = 2 * ATTENTION_PART + 60, PAGE = 576, DIMS = 64 };
    struct check_random random = {2};
    const size_t head_bytes = kv_head_bytes(type, PAGE, DIMS);
    unsigned char *page = check_alloc(head_bytes, 0);
    static float q[SLOTS * DIMS];
    static float out[SLOTS * DIMS];
    int32_t positions[SLOTS];
    check_random_floats(&random, q, (size_t)slots * DIMS);
    for (int32_t slot = 0; slot < slots; slot++) {
        float kv[2 * DIMS];
        check_random_floats(&random, kv, 2 * DIMS);
        positions[slot] = slot;
        assert_true(
            kernels->kv_store(type, PAGE, 1, DIMS, page, 0, head_bytes, slot, kv, kv + DIMS));
    }
    const struct attention_args args = {
        .q = q,
        .out = out,
        .q_stride = DIMS,
        .out_stride = DIMS,
        .kv = {type, PAGE, DIMS, &page, 0},
        .scale = 0.5f,
        .positions = positions,
        .reach_left = reach,
        .reach_right = REACH_ALL,
        .alibi_slope = slope,
    };
    kernels->attention(&args, 0, slots);
    check_hash(kernels, "attention", out, (size_t)slots * DIMS, want);
    check_free(page);
}

static void attention(struct check_random *unused, const struct kernels *kernels)
{
    (void)unused; /* the numbers are fixed */
    check_attention_of(kernels, KV_F16, 150, 0, REACH_ALL, 0x89ea91ddb12a0b95);
    check_attention_of(kernels, KV_F32, 150, 0.1f, 70, 0xc2e1f9b892d18a3f);
    check_attention_of(kernels, KV_F16, 2 * ATTENTION_PART + 60, 0, REACH_ALL, 0xa86f4a6a20bf4966);
    assert_int_equal(wrong, 0);
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void rows(struct check_random *unused, const struct kernels *kernels)
{
    (void)unused; /* the numbers are fixed */
    enum { COUNT = 1003, DIMS = 70 };
    struct check_random random = {3};
    float x[COUNT];
    float y[COUNT];
    float out[COUNT];
    check_random_floats(&random, x, COUNT);
    check_random_floats(&random, y, COUNT);
    kernels->rms_norm(x, y, 1e-5f, COUNT, out);
    check_hash(kernels, "rms_norm", out, COUNT, 0x34342a8f9ca18c72);
    kernels->silu_mul(x, y, COUNT, out);
    check_hash(kernels, "silu_mul", out, COUNT, 0xb9f8045ca693e600);
    kernels->layer_norm(x, y, x, 1e-5f, COUNT, out);
    check_hash(kernels, "layer_norm", out, COUNT, 0x4a70c5c7e15bf3fb);
    kernels->gelu_erf(x, y, COUNT, out);
    check_hash(kernels, "gelu_erf", out, COUNT, 0x56ff224cc32e9d3e);
    kernels->gelu_tanh(x, y, COUNT, out);
    check_hash(kernels, "gelu_tanh", out, COUNT, 0x929e9c96dfed6aa2);
    kernels->rope(ROPE_INTERLEAVED, x, COUNT / DIMS, DIMS, DIMS, y);
    kernels->rope(ROPE_HALF, x, COUNT / DIMS, DIMS, DIMS - 6, y);
    check_hash(kernels, "rope", x, COUNT, 0xf05ae5b20a2dbbc6);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RUNG_TEST(products, check_wants_lanes),
        RUNG_TEST(attention, check_wants_lanes),
        RUNG_TEST(rows, check_wants_lanes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
