/* Shared parts of the kernel tests; see the header. */
#include "tests/kernels/kernel_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "engine/base/half.h"
#include "engine/kernels/panel.h"

enum {
    GUARD_BYTES = 128,
    GUARD = 0xa5,
};

/* Kept in front of the first guard zone. */
struct guarded {
    size_t bytes;
    unsigned char *base;
};

struct check_random check_random_open(void)
{
    const char *text = getenv("MAGNETD_SEED");
    const uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : 20261130;
    print_message("seed %llu\n", (unsigned long long)seed);
    return (struct check_random){seed};
}

/* splitmix64 (Steele, Lea, Flood 2014): all that a test needs. */
uint32_t check_random_bits(struct check_random *random)
{
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)(z >> 32);
}

int32_t check_random_int(struct check_random *random, int32_t low, int32_t high)
{
    return low + (int32_t)(check_random_bits(random) % (uint32_t)(high - low + 1));
}

float check_random_float(struct check_random *random, float low, float high)
{
    return low + (high - low) * ((float)(check_random_bits(random) >> 8) * 0x1p-24f);
}

void check_random_floats(struct check_random *random, float *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = check_random_float(random, -1.0f, 1.0f);
    }
}

void *check_alloc(size_t bytes, size_t skew)
{
    const size_t head = (sizeof(struct guarded) + GUARD_BYTES + 63) / 64 * 64;
    const size_t total = (head + skew + bytes + GUARD_BYTES + 63) / 64 * 64;
    unsigned char *base = aligned_alloc(64, total);
    assert_non_null(base);
    memset(base, GUARD, total);
    unsigned char *memory = base + head + skew;
    const struct guarded guarded = {bytes, base};
    memcpy(memory - GUARD_BYTES - sizeof guarded, &guarded, sizeof guarded);
    memset(memory, 0xff, bytes);
    return memory;
}

void check_free(void *memory)
{
    unsigned char *bytes = memory;
    struct guarded guarded;
    memcpy(&guarded, bytes - GUARD_BYTES - sizeof guarded, sizeof guarded);
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        assert_int_equal(bytes[-1 - (ptrdiff_t)i], GUARD);
        assert_int_equal(bytes[guarded.bytes + i], GUARD);
    }
    free(guarded.base);
}

static void put_half(unsigned char *at, uint16_t bits)
{
    at[0] = (unsigned char)bits;
    at[1] = (unsigned char)(bits >> 8);
}

void check_random_blocks(
    struct check_random *random, enum tensor_type type, size_t count, unsigned char *out)
{
    const struct panel_layout layout = panel_layout_of(type);
    const size_t blocks = count / (size_t)tensor_type_block(type);
    const size_t block_bytes = tensor_type_block_bytes(type);
    for (size_t b = 0; b < blocks; b++, out += block_bytes) {
        for (size_t i = 0; i < block_bytes; i++) {
            out[i] = (unsigned char)check_random_bits(random);
        }
        const float value = check_random_float(random, -0.1f, 0.1f);
        if (type == TENSOR_F32) {
            memcpy(out, &value, sizeof value);
        } else if (type == TENSOR_BF16) {
            put_half(out, half_to_bf16(value));
        } else {
            for (int32_t h = 0; h < layout.halves; h++) {
                const float limit = tensor_type_block(type) == 256 ? 0.05f / 63 : 0.05f;
                const float scale = check_random_float(random, -limit, limit);
                put_half(out + layout.halves_at + 2 * h, half_to_f16(scale));
            }
        }
    }
}

struct packed check_pack(struct check_random *random, const struct kernels *kernels,
    enum tensor_type type, int32_t outputs, int32_t inputs, const unsigned char *file_rows)
{
    struct packed packed = {
        .type = type,
        .outputs = outputs,
        .inputs = inputs,
        .panels = (outputs + PANEL_OUTPUTS - 1) / PANEL_OUTPUTS,
        .panel_bytes = kernels->panel_bytes(type, inputs),
    };
    assert_true(packed.panel_bytes > 0);
    packed.data = check_alloc((size_t)packed.panels * packed.panel_bytes, 0);
    const size_t row_bytes =
        (size_t)(inputs / tensor_type_block(type)) * tensor_type_block_bytes(type);
    for (int32_t from = 0; from < outputs;) {
        int32_t count = check_random_int(random, 1, 3) * PANEL_OUTPUTS;
        count = count < outputs - from ? count : outputs - from;
        kernels->pack(&packed, from, count, file_rows + (size_t)from * row_bytes);
        from += count;
    }
    return packed;
}

float *check_sums(
    const struct kernels *kernels, const float *x, int32_t rows, int32_t inputs, size_t x_stride)
{
    if (kernels->sum_blocks == NULL || inputs % SUM_INPUTS != 0) {
        return NULL;
    }
    const size_t count = (size_t)(inputs / SUM_INPUTS);
    float *sums = check_alloc((size_t)rows * count * sizeof(float), 4);
    for (size_t r = 0; r < (size_t)rows; r++) {
        kernels->sum_blocks(x + r * x_stride, inputs, sums + r * count);
    }
    return sums;
}

struct kernels check_rung(const char *name)
{
    struct kernels kernels;
    struct err_info info;
    assert_int_equal(kernels_select(name, &kernels, &info), ERR_OK);
    assert_string_equal(kernels.name, name);
    return kernels;
}

bool check_wants_any(const struct kernels *kernels)
{
    return true;
}

bool check_wants_lanes(const struct kernels *kernels)
{
    return kernels->deterministic && strcmp(kernels->name, "ref") != 0;
}

bool check_wants_int8(const struct kernels *kernels)
{
    return kernels->linear_int8 != NULL;
}

bool check_wants_parts(const struct kernels *kernels)
{
    return kernels->attention_part != NULL;
}

void check_rungs_run(void **state)
{
    const struct check_rungs *rungs = *state;
    struct check_random random = check_random_open();
    int run = 0;
    for (const char *const *name = kernels_available(); *name != NULL; name++) {
        const struct kernels kernels = check_rung(*name);
        if (rungs->wants(&kernels)) {
            rungs->check(&random, &kernels);
            run++;
        }
    }
    if (run == 0) {
        print_message("skipped: no rung of this machine is wanted\n");
        skip();
    }
}

void check_twins_run(void **state)
{
    check_twin_fn *const *check = *state;
    struct kernels avx2, avx512;
    if (kernels_select("avx2", &avx2, NULL) != ERR_OK ||
        kernels_select("avx512", &avx512, NULL) != ERR_OK) {
        print_message("skipped: no AVX-512\n");
        skip();
    }
    struct check_random random = check_random_open();
    (*check)(&random, &avx2, &avx512);
}

double check_gamma(int32_t n)
{
    const double nu = (double)n * 0x1p-24;
    return nu / (1 - nu);
}
