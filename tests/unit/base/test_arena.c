/*
 * Goal: an arena hands out zeroed, aligned, disjoint memory within its bound and gives all of it
 * back.
 * Method: a pseudo-random series of sizes, each piece filled with its own byte and checked at the
 * end; the bound is met exactly and passed by one; memory and pool counters are watched.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/attr.h"

enum { PIECES = 400, BLOCK = 1024 };

static void fill_and_check(struct arena *arena)
{
    static unsigned char *pieces[PIECES];
    static size_t sizes[PIECES];
    uint32_t random = 12345;
    for (size_t i = 0; i < PIECES; i++) {
        random = random * 1664525 + 1013904223;
        sizes[i] = (random >> 16) % (i % 50 == 25 ? 5000 : 200);
        pieces[i] = arena_alloc(arena, sizes[i]);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % 16, 0);
        for (size_t k = 0; k < sizes[i]; k++) {
            assert_int_equal(pieces[i][k], 0);
        }
        memset(pieces[i], (int)(i % 255 + 1), sizes[i]);
    }
    for (size_t i = 0; i < PIECES; i++) {
        for (size_t k = 0; k < sizes[i]; k++) {
            assert_int_equal(pieces[i][k], i % 255 + 1);
        }
    }
}

static void test_pieces_are_zeroed_and_disjoint(void **state)
{
    struct arena arena;
    arena_init(&arena, MEM_REQUESTS, BLOCK, 1 << 20);
    assert_int_equal(mem_bytes(MEM_REQUESTS), 0);
    fill_and_check(&arena);
    assert_int_equal(mem_bytes(MEM_REQUESTS), arena.bytes);
    arena_reset(&arena); /* now the first block is used memory */
    assert_int_equal(mem_bytes(MEM_REQUESTS), arena.bytes);
    assert_true(arena.bytes <= BLOCK);
    fill_and_check(&arena);
    arena_drop(&arena);
    assert_int_equal(mem_bytes(MEM_REQUESTS), 0);
    assert_non_null(arena_alloc(&arena, 1)); /* may be used again */
    arena_drop(&arena);
    arena_drop(&arena);
    arena_reset(&arena);
    assert_int_equal(mem_bytes(MEM_REQUESTS), 0);
}

static void test_large_pieces_have_their_own_blocks(void **state)
{
    struct arena arena;
    arena_init(&arena, MEM_REQUESTS, BLOCK, 1 << 20);
    char *before = arena_alloc(&arena, 16);
    assert_non_null(arena_alloc(&arena, 10 * BLOCK));
    assert_ptr_equal(arena_alloc(&arena, 16), before + 16); /* the rest is still used */
    arena_reset(&arena);
    assert_int_equal(arena.bytes, BLOCK);
    arena_drop(&arena);

    assert_non_null(arena_alloc(&arena, 10 * BLOCK));
    arena_reset(&arena); /* one large request does not hold its memory for ever */
    assert_int_equal(arena.bytes, 0);
    arena_drop(&arena);
}

static void test_the_bound_holds(void **state)
{
    struct arena arena;
    arena_init(&arena, MEM_REQUESTS, 256, 1000);
    size_t taken = 0;
    while (arena_alloc(&arena, 16) != NULL) {
        taken += 16;
        assert_true(arena.bytes <= 1000);
    }
    /* All but headers and the rest of the last block is there to be used. */
    assert_true(taken >= 1000 - 4 * 48 - 16);
    assert_true(taken <= 1000);
    assert_null(arena_alloc(&arena, 16));
    arena_drop(&arena);

    /* One piece as large as the bound allows, and one byte more. */
    arena_init(&arena, MEM_REQUESTS, 256, 4096);
    assert_null(arena_alloc(&arena, 4096));
    assert_null(arena_alloc(&arena, 4096 - 31));
    assert_int_equal(arena.bytes, 0);
    assert_non_null(arena_alloc(&arena, 4096 - 32));
    assert_int_equal(arena.bytes, 4096);
    assert_null(arena_alloc(&arena, 1));
    arena_drop(&arena);
}

static void test_sizes_that_overflow(void **state)
{
    struct arena arena;
    arena_init(&arena, MEM_REQUESTS, 256, SIZE_MAX);
    assert_null(arena_alloc(&arena, SIZE_MAX));
    assert_null(arena_alloc(&arena, SIZE_MAX - 20));
    assert_null(arena_array(&arena, SIZE_MAX / 2 + 1, 2));
    assert_null(arena_copy(&arena, "x", SIZE_MAX));
    assert_int_equal(arena.bytes, 0);
}

static void test_text(void **state)
{
    struct arena arena;
    arena_init(&arena, MEM_REQUESTS, 256, 1 << 16);
    assert_string_equal(arena_copy(&arena, "abcdef", 3), "abc");
    assert_string_equal(arena_copy(&arena, NULL, 0), "");
    assert_string_equal(arena_printf(&arena, "%d-%s", 42, "x"), "42-x");
    char *wide = arena_printf(&arena, "%*d", 3000, 7); /* past an ordinary block */
    assert_int_equal(strlen(wide), 3000);
    int32_t *array = arena_array(&arena, 10, sizeof *array);
    assert_non_null(array);
    assert_int_equal(array[9], 0);
    arena_drop(&arena);
}

static void test_without_memory(void **state)
{
    struct arena arena;
    arena_init(&arena, MEM_REQUESTS, 256, 1 << 16);
    mem_fail_after(1, 1);
    assert_null(arena_alloc(&arena, 1));
    assert_null(arena_printf(&arena, "%d", 1));
    mem_fail_after(0, 0);
    assert_int_equal(arena.bytes, 0);
    assert_non_null(arena_alloc(&arena, 1)); /* a failure leaves it usable */
    arena_drop(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_are_zeroed_and_disjoint),
        cmocka_unit_test(test_large_pieces_have_their_own_blocks),
        cmocka_unit_test(test_the_bound_holds),
        cmocka_unit_test(test_sizes_that_overflow),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
