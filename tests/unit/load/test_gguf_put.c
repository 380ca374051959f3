/*
 * Goal: what a folder says is kept as if it were a GGUF file's, up to the same limits, and without
 * memory nothing is kept by halves.
 * Method: keys and tensors put and asked again; a value past the limit; from the first allocation
 * on that fails, all fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "engine/base/mem.h"
#include "engine/load/gguf_internal.h"

static void test_limits(void **state)
{
    struct gguf *gguf = gguf_create();
    struct err_info info = {0};
    struct gguf_string text;
    assert_non_null(gguf);
    assert_int_equal(gguf_put_string(gguf, "a", "f: a", "word", 4, &info), ERR_OK);
    assert_int_equal(/* refused before a byte of it is read */
        gguf_put_string(gguf, "b", "f: b", "x", LIMIT_FILE_META_BYTES - 3, &info), ERR_LIMIT);
    assert_string_equal(info.where, "f: b");
    assert_int_equal(gguf_put_string(gguf, "b", "f: b", "x", SIZE_MAX, &info), ERR_LIMIT);
    int64_t put = 1;
    enum err err = ERR_OK;
    while (err == ERR_OK && put < 10000) {
        char name[32];
        (void)snprintf(name, sizeof(name), "k%lld", (long long)put);
        err = gguf_put_i64(gguf, name, name, put, &info);
        put += err == ERR_OK;
    }
    assert_int_equal(err, ERR_LIMIT);
    assert_int_equal(gguf_key_count(gguf), put);
    assert_int_equal(gguf_sort(gguf, &info), ERR_OK);
    assert_int_equal(gguf_get_string(gguf, "a", true, &text, &info), ERR_OK);
    assert_int_equal(text.count, 4);
    assert_memory_equal(text.bytes, "word", 4);
    for (int64_t i = 1; i < put; i++) {
        char name[32];
        int64_t value = 0;
        (void)snprintf(name, sizeof(name), "k%lld", (long long)i);
        assert_int_equal(gguf_get_i64(gguf, name, true, 0, put, &value, &info), ERR_OK);
        assert_int_equal(value, i);
    }
    gguf_close(gguf);
}

/* Puts until something fails. */
static enum err put_tensors(struct gguf *gguf, struct err_info *info)
{
    static const float values[1000] = {1};
    enum err err = ERR_OK;
    for (int i = 0; i < 64 && err == ERR_OK; i++) {
        char name[200];
        (void)snprintf(name, sizeof(name), "%0*d", 150, i);
        err = gguf_put_vector(gguf, name, values, 1000, info);
        if (err == ERR_OK) {
            err = gguf_put_room(gguf, (size_t)gguf->tensor_count + 1, info);
        }
    }
    return err;
}

static void test_no_memory(void **state)
{
    const uint64_t before = mem_bytes(MEM_OTHER);
    uint64_t nth = 1;
    for (enum err err = ERR_NO_MEMORY; err != ERR_OK; nth++) {
        struct gguf *gguf = gguf_create();
        struct err_info info = {0};
        assert_non_null(gguf);
        mem_fail_after(nth, 1);
        err = put_tensors(gguf, &info);
        const enum err key = err == ERR_OK ? ERR_OK : gguf_put_bool(gguf, "k", "k", true, &info);
        mem_fail_after(0, 0);
        assert_true(err == ERR_OK || err == ERR_NO_MEMORY);
        assert_true(key == ERR_OK || key == ERR_NO_MEMORY);
        assert_int_equal(gguf_key_count(gguf), err != ERR_OK && key == ERR_OK);
        assert_int_equal(gguf_sort(gguf, &info), ERR_OK); /* what was put is whole */
        for (int32_t i = 0; i < gguf_tensor_count(gguf); i++) {
            assert_int_equal(gguf_tensor_at(gguf, i)->bytes, 4000);
        }
        gguf_close(gguf);
        assert_int_equal(mem_bytes(MEM_OTHER), before);
    }
    assert_true(nth > 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
