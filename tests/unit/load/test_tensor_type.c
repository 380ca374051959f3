/*
 * Goal: every block format gives the numbers it defines, and no NaN or infinity gets by.
 * Method: blocks of random bytes against the values an independent dequantiser gave for them
 * (tests/golden/make_dequant_fixtures.py), bit for bit; then tensor_type_finite against the
 * unpacked values themselves, on random blocks whose scales may be anything.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "engine/base/rng.h"
#include "engine/kernels/tensor_type.h"

enum { NUMBERS = 2048 };

static unsigned char *read_fixture(enum tensor_type type, size_t *out_block_bytes)
{
    char path[4096];
    size_t bytes = 0;
    const char *source = getenv("MAGNETD_SOURCE");
    snprintf(path, sizeof(path), "%s/tests/golden/fixtures/dequant_%s.bin",
        source == NULL ? "." : source, tensor_type_word(type));
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fail_msg("cannot open %s", path);
    }
    assert_true(tensor_type_bytes(type, NUMBERS, &bytes));
    const size_t total = bytes + NUMBERS * sizeof(float);
    unsigned char *content = malloc(total);
    assert_non_null(content);
    assert_int_equal(fread(content, 1, total, file), total);
    assert_int_equal(fgetc(file), EOF);
    fclose(file);
    *out_block_bytes = bytes;
    return content;
}

static void test_values(void **state)
{
    static float values[NUMBERS];
    for (int type = 0; type < TENSOR_TYPE_COUNT; type++) {
        size_t bytes = 0;
        unsigned char *fixture = read_fixture((enum tensor_type)type, &bytes);
        tensor_type_unpack((enum tensor_type)type, fixture, NUMBERS, values);
        assert_true(tensor_type_finite((enum tensor_type)type, fixture, NUMBERS));
        for (size_t i = 0; i < NUMBERS; i++) {
            float want;
            memcpy(&want, fixture + bytes + i * sizeof(want), sizeof(want));
            if (memcmp(&want, &values[i], sizeof(want)) != 0) {
                fail_msg("%s number %zu: %a, expected %a", tensor_type_word((enum tensor_type)type),
                    i, (double)values[i], (double)want);
            }
        }
        free(fixture);
    }
}

/* One block at a time gives the same numbers, and nothing is written or read outside. */
static void test_single_blocks(void **state)
{
    static float values[NUMBERS];
    for (int t = 0; t < TENSOR_TYPE_COUNT; t++) {
        const enum tensor_type type = (enum tensor_type)t;
        const size_t block = (size_t)tensor_type_block(type);
        const size_t block_bytes = tensor_type_block_bytes(type);
        size_t bytes = 0;
        unsigned char *fixture = read_fixture(type, &bytes);
        tensor_type_unpack(type, fixture, NUMBERS, values);
        for (size_t i = 0; i < NUMBERS / block; i++) {
            unsigned char *one = malloc(block_bytes);
            float *out = malloc(block * sizeof(float));
            assert_true(one != NULL && out != NULL);
            memcpy(one, fixture + i * block_bytes, block_bytes);
            tensor_type_unpack(type, one, block, out);
            assert_memory_equal(out, values + i * block, block * sizeof(float));
            free(one);
            free(out);
        }
        free(fixture);
    }
}

static void test_finite(void **state)
{
    enum { ROUNDS = 3000, BLOCK_BYTES_MAX = 256, BLOCK_MAX = 256 };
    for (int t = 0; t < TENSOR_TYPE_COUNT; t++) {
        const enum tensor_type type = (enum tensor_type)t;
        const size_t count = (size_t)tensor_type_block(type);
        int bad = 0;
        for (uint32_t round = 0; round < ROUNDS; round++) {
            uint32_t words[BLOCK_BYTES_MAX / 4];
            float values[BLOCK_MAX];
            for (uint32_t i = 0; i < BLOCK_BYTES_MAX / 16; i++) {
                rng_philox((const uint32_t[4]){i, round, 0, 0}, (const uint32_t[2]){1, (uint32_t)t},
                    words + 4 * (size_t)i);
            }
            tensor_type_unpack(type, words, count, values);
            bool finite = true;
            for (size_t i = 0; i < count; i++) {
                finite &= isfinite(values[i]) != 0;
            }
            if (tensor_type_finite(type, words, count) != finite) {
                fail_msg("%s, round %u: should be %d", tensor_type_word(type), round, finite);
            }
            bad += !finite;
        }
        assert_true(bad > 0 && bad < ROUNDS / 4); /* the test saw both answers */
    }
}

/* A single bad value at any place is found. */
static void test_finite_places(void **state)
{
    static const uint16_t bad[] = {0x7C00, 0xFC00, 0x7E00, 0x7C01};
    unsigned char bytes[64 * 2] = {0};
    for (size_t at = 0; at < 64; at++) {
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
            memcpy(bytes + 2 * at, &bad[i], 2);
            assert_false(tensor_type_finite(TENSOR_F16, bytes, 64));
            const uint16_t wide = (uint16_t)(bad[i] | 0x7F80);
            memcpy(bytes + 2 * at, &wide, 2);
            assert_false(tensor_type_finite(TENSOR_BF16, bytes, 64));
            assert_true(at % 2 == 0 || !tensor_type_finite(TENSOR_F32, bytes, 32));
        }
        memset(bytes + 2 * at, 0, 2);
        assert_true(tensor_type_finite(TENSOR_F16, bytes, 64));
    }
    memcpy(bytes, "\xFF\xFF\x7F\x7F", 4); /* the largest float32; as bf16 its halves are not */
    assert_true(tensor_type_finite(TENSOR_F32, bytes, 1));
}

/* A format has minima when a weight is more than a scale times a number: with the scale of all zero
 * something is left. */
static void test_minima(void **state)
{
    int have = 0, have_not = 0;
    for (int t = 0; t < TENSOR_TYPE_COUNT; t++) {
        const enum tensor_type type = (enum tensor_type)t;
        const size_t count = (size_t)tensor_type_block(type);
        unsigned char block[256];
        float values[256];
        size_t bytes = 0;
        if (count == 1) {
            assert_false(tensor_type_has_minima(type));
            continue;
        }
        assert_true(tensor_type_bytes(type, count, &bytes) && bytes <= sizeof(block));
        memset(block, 0x35, sizeof(block)); /* as f16 about 0.33 */
        memset(block + (type == TENSOR_Q6_K ? bytes - 2 : 0), 0, 2);
        tensor_type_unpack(type, block, count, values);
        bool left = false;
        for (size_t i = 0; i < count; i++) {
            left |= values[i] != 0;
        }
        assert_true(tensor_type_has_minima(type) == left);
        have += left;
        have_not += !left;
    }
    assert_true(have > 0 && have_not > 0); /* the test saw both */
}

static void test_facts(void **state)
{
    size_t bytes = 17;
    enum tensor_type type = TENSOR_F32;
    assert_true(tensor_type_bytes(TENSOR_Q6_K, 512, &bytes));
    assert_int_equal(bytes, 420);
    assert_false(tensor_type_bytes(TENSOR_Q6_K, 128, &bytes));
    assert_false(tensor_type_bytes(TENSOR_Q4_0, 33, &bytes));
    assert_false(tensor_type_bytes(TENSOR_F32, SIZE_MAX / 2, &bytes));
    assert_false(tensor_type_bytes(TENSOR_Q8_0, SIZE_MAX & ~(size_t)31, &bytes));
    assert_int_equal(bytes, 420);
    int known = 0;
    for (uint32_t id = 0; id < 64; id++) {
        known += tensor_type_from_gguf(id, &type);
    }
    assert_int_equal(known, TENSOR_TYPE_COUNT);
    assert_true(tensor_type_from_gguf(30, &type));
    assert_int_equal(type, TENSOR_BF16);
    assert_string_equal(tensor_type_word(type), "bf16");
    assert_false(tensor_type_from_gguf(UINT32_MAX, &type));
    assert_int_equal(type, TENSOR_BF16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_single_blocks),
        cmocka_unit_test(test_finite),
        cmocka_unit_test(test_finite_places),
        cmocka_unit_test(test_minima),
        cmocka_unit_test(test_facts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
