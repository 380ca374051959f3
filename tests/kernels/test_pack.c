/*
 * Goal: packing loses nothing, and the choice of rungs is what it says.
 *
 * Method: random blocks of every number format, shapes with a partial last panel, every rung of
 * this machine; each row comes back with the bits that tensor_type_unpack gives for the file's
 * bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/kernels/kernel_check.h"

static void check_shape(struct check_random *random, const struct kernels *kernels,
    enum tensor_type type, int32_t outputs, int32_t inputs)
{
    const size_t row_bytes =
        (size_t)(inputs / tensor_type_block(type)) * tensor_type_block_bytes(type);
    unsigned char *file = check_alloc(row_bytes * (size_t)outputs, 1);
    check_random_blocks(random, type, (size_t)outputs * (size_t)inputs, file);
    struct packed packed = check_pack(random, kernels, type, outputs, inputs, file);

    float *want = check_alloc((size_t)inputs * sizeof(float), 4);
    float *have = check_alloc((size_t)inputs * sizeof(float), 4);
    for (int32_t o = 0; o < outputs; o++) {
        tensor_type_unpack(type, file + (size_t)o * row_bytes, (size_t)inputs, want);
        kernels->unpack_row(&packed, o, have);
        assert_memory_equal(want, have, (size_t)inputs * sizeof(float));
    }
    check_free(want);
    check_free(have);
    check_free(packed.data);
    check_free(file);
}

static void every_row_comes_back_exactly(struct check_random *random, const struct kernels *kernels)
{
    static const int32_t outputs[] = {1, 15, 16, 17, 48, 83};
    for (int type = 0; type < TENSOR_TYPE_COUNT; type++) {
        const int32_t block = tensor_type_block((enum tensor_type)type);
        const int32_t inputs = block == 1 ? check_random_int(random, 1, 200) : 3 * block;
        for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
            check_shape(random, kernels, (enum tensor_type)type, outputs[i], inputs);
        }
    }
}

/* The plan counts on this: the packed copy is the only copy and is as large as the file's. */
static void panels_take_the_bytes_of_their_rows(void **state)
{
    (void)state;
    struct kernels kernels;
    assert_int_equal(kernels_select(NULL, &kernels, NULL), ERR_OK);
    for (int type = 0; type < TENSOR_TYPE_COUNT; type++) {
        size_t row_bytes;
        assert_true(tensor_type_bytes((enum tensor_type)type, 512, &row_bytes));
        assert_int_equal(
            kernels.panel_bytes((enum tensor_type)type, 512), row_bytes * PANEL_OUTPUTS);
        if (tensor_type_block((enum tensor_type)type) > 1) {
            assert_int_equal(kernels.panel_bytes((enum tensor_type)type, 512 + 8), 0);
        }
        assert_int_equal(kernels.panel_bytes((enum tensor_type)type, 0), 0);
    }
}

static void names_of_rungs(void **state)
{
    (void)state;
    struct kernels kernels;
    struct err_info info;
    assert_string_equal(kernels_available()[0], "ref");
    assert_int_equal(kernels_select("avx9", &kernels, &info), ERR_CONFIG);
    assert_string_equal(info.where, "kernels");
    assert_int_equal(kernels_select(NULL, &kernels, &info), ERR_OK);
    assert_true(kernels.deterministic);
    assert_string_not_equal(kernels.name, "blas");
#if defined(__x86_64__)
    const char *foreign = "neon";
#else
    const char *foreign = "avx2";
#endif
    assert_int_equal(kernels_select(foreign, &kernels, &info), ERR_CONFIG);
}

/* The reference is a hundred times too slow to be chosen where there is anything else. */
static void unasked_the_reference_is_the_last_choice(void **state)
{
    (void)state;
    struct kernels kernels;
    bool better = false;
    for (const char *const *name = kernels_available(); *name != NULL; name++) {
        better = better || (strcmp(*name, "ref") != 0 && strcmp(*name, "blas") != 0);
    }
    assert_int_equal(kernels_select(NULL, &kernels, NULL), ERR_OK);
    assert_true(better == (strcmp(kernels.name, "ref") != 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RUNG_TEST(every_row_comes_back_exactly, check_wants_any),
        cmocka_unit_test(panels_take_the_bytes_of_their_rows),
        cmocka_unit_test(names_of_rungs),
        cmocka_unit_test(unasked_the_reference_is_the_last_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
