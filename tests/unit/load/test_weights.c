/*
 * Goal: a network gets exactly the tensors it names, packed without changing a number, or an error
 * that names the tensor.
 * Method: small files built in memory, packed by the reference kernels and unpacked again row by
 * row; a matrix larger than a read slice, alone and with threads; one wrong thing at a time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "engine/base/mem.h"
#include "engine/base/threads.h"
#include "engine/load/weights.h"
#include "tests/unit/load/gguf_writer.h"

enum { INPUTS = 64, OUTPUTS = 19, BIG_INPUTS = 1056, BIG_OUTPUTS = 2503 };

struct fixture {
    struct kernels kernels;
    unsigned char *file;
    size_t count;
    struct gguf *gguf;
    float *big; /* [BIG_OUTPUTS, BIG_INPUTS] */
};

static unsigned char quants[OUTPUTS * INPUTS / 32 * 20];

static void fill(struct fixture *f)
{
    static const float vector[] = {1, -2, 3};
    static const uint16_t halves[] = {0x3C00, 0xC000, 0x4200}; /* 1, -2, 3 */
    static const uint16_t nan_bf16[] = {0x3F80, 0x7FC0};
    static float infinite[32 * 3];
    struct gguf_writer w;
    for (size_t i = 0; i < sizeof(quants); i++) {
        quants[i] = i % 20 < 4 ? 0x35 : (unsigned char)(i * 11);
    }
    infinite[95] = INFINITY;
    f->big = malloc(sizeof(float) * BIG_INPUTS * BIG_OUTPUTS);
    assert_non_null(f->big);
    for (size_t i = 0; i < (size_t)BIG_INPUTS * BIG_OUTPUTS; i++) {
        f->big[i] = (float)i;
    }
    gguf_writer_init(&w);
    gguf_writer_tensor(&w, "matrix", TENSOR_Q4_1, 2, (const int64_t[]){INPUTS, OUTPUTS}, quants);
    gguf_writer_tensor(
        &w, "big", TENSOR_F32, 2, (const int64_t[]){BIG_INPUTS, BIG_OUTPUTS}, f->big);
    gguf_writer_tensor(&w, "f32", TENSOR_F32, 1, (const int64_t[]){3}, vector);
    gguf_writer_tensor(&w, "f16", TENSOR_F16, 1, (const int64_t[]){3}, halves);
    gguf_writer_tensor(&w, "nan", TENSOR_BF16, 1, (const int64_t[]){2}, nan_bf16);
    gguf_writer_tensor(&w, "infinite", TENSOR_F32, 2, (const int64_t[]){32, 3}, infinite);
    gguf_writer_tensor(&w, "quantised", TENSOR_Q4_1, 1, (const int64_t[]){32}, quants);
    gguf_writer_tensor(&w, "deep", TENSOR_F32, 3, (const int64_t[]){4, 3, 2}, infinite);
    f->file = gguf_writer_finish(&w, &f->count);
    gguf_writer_free(&w);
}

static int set_up(void **state)
{
    static struct fixture fixture;
    fill(&fixture);
    assert_int_equal(gguf_open_memory(fixture.file, fixture.count, &fixture.gguf, NULL), ERR_OK);
    assert_int_equal(kernels_select("ref", &fixture.kernels, NULL), ERR_OK);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    gguf_close(f->gguf);
    free(f->file);
    free(f->big);
    return 0;
}

/* Room for all tensors of the fixture together. */
static _Alignas(WEIGHTS_ALIGNMENT) unsigned char block[1 << 25];

static void open_weights(struct weights *w, const struct fixture *f, struct threads *t, bool dry)
{
    assert_int_equal(
        weights_init(w, f->gguf, &f->kernels, t, dry ? NULL : block, sizeof block, NULL), ERR_OK);
}

static void test_matrix(void **state)
{
    const struct fixture *f = *state;
    struct weights w;
    struct packed packed;
    open_weights(&w, f, NULL, false);
    assert_int_equal(weights_matrix(&w, "matrix", OUTPUTS, INPUTS, &packed, NULL), ERR_OK);
    assert_int_equal(packed.type, TENSOR_Q4_1);
    assert_int_equal(packed.outputs, OUTPUTS);
    assert_int_equal(packed.inputs, INPUTS);
    assert_int_equal(packed.panels, 2);
    assert_ptr_equal(packed.data, block);
    assert_in_range(w.bytes, 2 * packed.panel_bytes, 2 * packed.panel_bytes + 63);
    for (int32_t output = 0; output < OUTPUTS; output++) {
        float want[INPUTS];
        float got[INPUTS];
        tensor_type_unpack(TENSOR_Q4_1, quants + output * INPUTS / 32 * 20, INPUTS, want);
        f->kernels.unpack_row(&packed, output, got);
        assert_memory_equal(got, want, sizeof(want));
    }
    weights_free(&w);
}

/* Rows 3 to 8 and rows 8 to 19: neither begins with a panel. */
static void test_parts_of_a_matrix(void **state)
{
    const struct fixture *f = *state;
    static const int32_t borders[] = {3, 8, OUTPUTS};
    struct weights w;
    open_weights(&w, f, NULL, false);
    for (int i = 0; i < 2; i++) {
        const int32_t from = borders[i], count = borders[i + 1] - from;
        struct packed packed;
        assert_int_equal(
            weights_matrix_part(&w, "matrix", from, count, OUTPUTS, INPUTS, &packed, NULL), ERR_OK);
        assert_int_equal(packed.outputs, count);
        for (int32_t output = 0; output < count; output++) {
            float want[INPUTS];
            float got[INPUTS];
            const unsigned char *row = quants + (from + output) * INPUTS / 32 * 20;
            tensor_type_unpack(TENSOR_Q4_1, row, INPUTS, want);
            f->kernels.unpack_row(&packed, output, got);
            assert_memory_equal(got, want, sizeof(want));
        }
    }
    struct packed packed;
    struct err_info info = {0};
    assert_int_equal(
        weights_matrix_part(&w, "matrix", 0, 8, OUTPUTS + 1, INPUTS, &packed, &info), ERR_FORMAT);
    assert_string_equal(info.where, "matrix");
    weights_free(&w);
}

static void test_table(void **state)
{
    const struct fixture *f = *state;
    struct weights w;
    struct err_info info = {0};
    float *numbers = NULL;
    open_weights(&w, f, NULL, false);
    assert_int_equal(weights_rows(&w, "big"), BIG_OUTPUTS);
    assert_int_equal(weights_rows(&w, "f32"), 1);
    assert_int_equal(weights_rows(&w, "none"), 0);
    assert_int_equal(weights_table(&w, "big", BIG_OUTPUTS, BIG_INPUTS, &numbers, NULL), ERR_OK);
    assert_memory_equal(numbers, f->big, sizeof(float) * BIG_OUTPUTS * BIG_INPUTS);
    assert_int_equal(
        weights_table(&w, "big", BIG_OUTPUTS - 1, BIG_INPUTS, &numbers, &info), ERR_FORMAT);
    assert_int_equal(
        weights_table(&w, "matrix", OUTPUTS, INPUTS, &numbers, &info), ERR_UNSUPPORTED);
    assert_string_equal(info.where, "matrix");
    weights_free(&w);
}

static void check_big(const struct fixture *f, struct threads *threads)
{
    struct weights w;
    struct packed packed;
    float row[BIG_INPUTS];
    open_weights(&w, f, threads, false);
    assert_int_equal(weights_matrix(&w, "big", BIG_OUTPUTS, BIG_INPUTS, &packed, NULL), ERR_OK);
    assert_true(w.read_bytes < sizeof(float) * BIG_INPUTS * BIG_OUTPUTS / 2);
    for (int32_t output = 0; output < BIG_OUTPUTS; output++) {
        f->kernels.unpack_row(&packed, output, row);
        assert_memory_equal(row, f->big + (size_t)output * BIG_INPUTS, sizeof(row));
    }
    weights_free(&w);
}

static void test_slices(void **state)
{
    check_big(*state, NULL);
}

static void test_slices_with_threads(void **state)
{
    struct threads *threads = NULL;
    assert_int_equal(threads_open(3, &threads), ERR_OK);
    check_big(*state, threads);
    threads_close(threads);
}

static void test_vectors(void **state)
{
    static const char *const names[] = {"f32", "f16"};
    static const float want[] = {1, -2, 3};
    const struct fixture *f = *state;
    struct weights w;
    open_weights(&w, f, NULL, false);
    for (int i = 0; i < 2; i++) {
        float *numbers = NULL;
        assert_int_equal(weights_vector(&w, names[i], 3, &numbers, NULL), ERR_OK);
        assert_memory_equal(numbers, want, sizeof(want));
    }
    assert_int_equal(w.bytes, 2 * WEIGHTS_ALIGNMENT);
    weights_free(&w);
}

static void test_dry(void **state)
{
    const struct fixture *f = *state;
    struct weights w;
    struct packed packed = {.outputs = 17};
    float *numbers = NULL;
    struct err_info info = {0};
    open_weights(&w, f, NULL, true);
    assert_int_equal(weights_matrix(&w, "matrix", OUTPUTS, INPUTS, &packed, NULL), ERR_OK);
    assert_null(packed.data);
    assert_int_equal(packed.outputs, OUTPUTS);
    assert_int_equal(weights_vector(&w, "f32", 3, &numbers, NULL), ERR_OK);
    assert_null(numbers);
    const uint64_t matrix = 2 * packed.panel_bytes;
    assert_int_equal(w.bytes, matrix + (64 - matrix % 64) % 64 + 64);
    assert_int_equal(weights_matrix(&w, "matrix", OUTPUTS, 32, &packed, &info), ERR_FORMAT);
    assert_string_equal(info.where, "matrix");
    weights_free(&w);
}

static void test_errors(void **state)
{
    static const struct {
        const char *name;
        int32_t outputs, inputs; /* outputs 0 = asked for as a vector */
        enum err err;
    } rows[] = {
        {"absent", 3, 3, ERR_FORMAT},
        {"absent", 0, 3, ERR_FORMAT},
        {"matrix", OUTPUTS + 1, INPUTS, ERR_FORMAT},
        {"matrix", OUTPUTS, INPUTS * 2, ERR_FORMAT},
        {"matrix", INPUTS, OUTPUTS, ERR_FORMAT},
        {"deep", 3, 4, ERR_FORMAT},
        {"f32", 0, 2, ERR_FORMAT},
        {"f32", 0, 4, ERR_FORMAT},
        {"matrix", 0, INPUTS, ERR_FORMAT},
        {"quantised", 0, 32, ERR_UNSUPPORTED},
        {"infinite", 3, 32, ERR_NON_FINITE},
        {"nan", 0, 2, ERR_NON_FINITE},
    };
    const struct fixture *f = *state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct weights w;
        struct packed packed = {.outputs = 17};
        float *numbers = NULL;
        struct err_info info = {0};
        open_weights(&w, f, NULL, false);
        const enum err err =
            rows[i].outputs == 0
                ? weights_vector(&w, rows[i].name, rows[i].inputs, &numbers, &info)
                : weights_matrix(&w, rows[i].name, rows[i].outputs, rows[i].inputs, &packed, &info);
        assert_int_equal(err, rows[i].err);
        assert_string_equal(info.where, rows[i].name);
        assert_int_equal(packed.outputs, 17);
        assert_null(numbers);
        assert_int_equal(w.bytes, 0);
        weights_free(&w);
    }
}

/* Kernels that cannot hold a type say so with 0. */
static size_t no_panels(enum tensor_type type, int32_t inputs)
{
    return 0;
}

static void test_kernels_without_the_type(void **state)
{
    struct fixture f = *(struct fixture *)*state;
    struct weights w;
    struct packed packed;
    struct err_info info = {0};
    f.kernels.panel_bytes = no_panels;
    open_weights(&w, &f, NULL, true);
    assert_int_equal(
        weights_matrix(&w, "matrix", OUTPUTS, INPUTS, &packed, &info), ERR_UNSUPPORTED);
    assert_string_equal(info.where, "matrix");
    weights_free(&w);
}

static void test_unused(void **state)
{
    const struct fixture *f = *state;
    struct weights w;
    struct packed packed;
    float *numbers = NULL;
    struct err_info info = {0};
    open_weights(&w, f, NULL, true);
    assert_true(weights_has(&w, "deep"));
    assert_false(weights_has(&w, "dee"));
    assert_int_equal(weights_unused(&w, &info), ERR_UNSUPPORTED);
    assert_string_equal(info.where, "matrix");
    assert_int_equal(weights_matrix(&w, "matrix", OUTPUTS, INPUTS, &packed, NULL), ERR_OK);
    assert_int_equal(weights_matrix(&w, "big", BIG_OUTPUTS, BIG_INPUTS, &packed, NULL), ERR_OK);
    assert_int_equal(weights_vector(&w, "f32", 3, &numbers, NULL), ERR_OK);
    assert_int_equal(weights_unused(&w, &info), ERR_UNSUPPORTED);
    assert_string_equal(info.where, "f16");
    memset(w.used, 1, (size_t)gguf_tensor_count(f->gguf));
    assert_int_equal(weights_unused(&w, NULL), ERR_OK);
    weights_free(&w);
}

static void test_out_of_memory(void **state)
{
    const struct fixture *f = *state;
    for (int forever = 0; forever < 2; forever++) {
        enum err err = ERR_NO_MEMORY;
        for (uint64_t nth = 1; err != ERR_OK; nth++) {
            struct weights w;
            struct packed packed = {0};
            float *numbers = NULL;
            assert_true(nth < 20);
            mem_fail_after(nth, forever);
            err = weights_init(&w, f->gguf, &f->kernels, NULL, block, sizeof block, NULL);
            if (err == ERR_OK) {
                err = weights_matrix(&w, "matrix", OUTPUTS, INPUTS, &packed, NULL);
                err = err == ERR_OK ? weights_vector(&w, "f32", 3, &numbers, NULL) : err;
                weights_free(&w);
            }
            mem_fail_after(0, 0);
            assert_true(err == ERR_OK || err == ERR_NO_MEMORY);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matrix),
        cmocka_unit_test(test_parts_of_a_matrix),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_slices),
        cmocka_unit_test(test_slices_with_threads),
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_dry),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_kernels_without_the_type),
        cmocka_unit_test(test_unused),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
