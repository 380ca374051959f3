/*
 * Goal: files as NumPy's format 1.0 has them.
 * Method: a header written out by hand from the format's description, the largest numbers a header
 * may hold, and values whose bytes are known, more of them than are written at once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <string.h>
#include "batch/npy.h"

static void expect_header(uint64_t rows, int32_t dim, const char *dict)
{
    char header[NPY_HEADER_BYTES];
    npy_header(rows, dim, header);
    assert_memory_equal(header, "\x93NUMPY\x01\x00\x76\x00", 10);
    assert_int_equal((10 + 0x76) % 64, 0);
    assert_memory_equal(header + 10, dict, strlen(dict));
    for (size_t i = 10 + strlen(dict); i < NPY_HEADER_BYTES - 1; i++) {
        assert_int_equal(header[i], ' ');
    }
    assert_int_equal(header[NPY_HEADER_BYTES - 1], '\n');
}

static void test_header(void **state)
{
    (void)state;
    expect_header(3, 768, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 768), }");
    expect_header(0, 0, "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 0), }");
    expect_header(UINT64_MAX, INT32_MAX,
        "{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551615, 2147483647), }");
}

static void test_values(void **state)
{
    (void)state;
    enum { COUNT = 2500 };
    static float values[COUNT];
    static unsigned char bytes[4 * COUNT + 1];
    for (size_t i = 0; i < COUNT; i++) {
        values[i] = (float)i;
    }
    values[1] = -1.5F;
    values[COUNT - 1] = 1;
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_true(npy_write(file, values, COUNT));
    assert_true(npy_write(file, values, 0));
    rewind(file);
    assert_int_equal(fread(bytes, 1, sizeof(bytes), file), 4 * COUNT);
    assert_memory_equal(bytes, "\0\0\0\0\0\0\xc0\xbf\0\0\0\x40", 12);
    assert_memory_equal(bytes + 4 * 1024, "\0\0\x80\x44", 4); /* 1024, first of its piece */
    assert_memory_equal(bytes + sizeof(bytes) - 5, "\0\0\x80\x3f", 4);
    fclose(file);
    file = fopen("/dev/full", "w");
    assert_non_null(file);
    setbuf(file, NULL);
    assert_false(npy_write(file, values, COUNT));
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header),
        cmocka_unit_test(test_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
