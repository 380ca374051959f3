/*
 * Goal: the allocator front keeps its header's promises: alignment, zeroes, counts by pool,
 * failures on demand, and a sealed thread that allocates ends the process.
 * Method: sizes around every border; broken promises run in a child, whose end is looked at.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/attr.h"
#include "engine/base/checked.h"
#include "engine/base/mem.h"

enum { MIB = 1 << 20 };

static bool all_zero(const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

static void test_alignment_zeroes_and_counts(void **state)
{
    static const size_t sizes[] = {
        0, 1, 63, 64, 65, 4095, 4096, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 5 * MIB + 3, 40 * MIB};
    for (size_t round = 0; round < 2; round++) { /* the second time memory is used memory */
        for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
            uint64_t before = mem_bytes(MEM_SCRATCH);
            unsigned char *block = mem_alloc(MEM_SCRATCH, sizes[i]);
            assert_non_null(block);
            assert_int_equal((uintptr_t)block % (sizes[i] >= 2 * MIB ? 2 * MIB : 64), 0);
            assert_true(all_zero(block, sizes[i]));
            memset(block, 0xA5, sizes[i]);
            assert_int_equal(mem_bytes(MEM_SCRATCH), before + sizes[i]);
            mem_free(block);
            assert_int_equal(mem_bytes(MEM_SCRATCH), before);
        }
    }
    mem_free(NULL);
}

static void test_empty_blocks_are_unique(void **state)
{
    void *a = mem_alloc(MEM_OTHER, 0), *b = mem_alloc(MEM_OTHER, 0);
    assert_non_null(a);
    assert_ptr_not_equal(a, b);
    mem_free(a);
    mem_free(b);
}

static void test_grow_keeps_content(void **state)
{
    unsigned char *block = NULL;
    size_t had = 0;
    static const size_t sizes[] = {10, 10, 100, 2 * MIB - 1, 2 * MIB, 3 * MIB};
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        unsigned char *grown = mem_grow(MEM_JOBS, block, sizes[i]);
        assert_non_null(grown);
        block = grown;
        for (size_t k = 0; k < had; k++) {
            assert_int_equal(block[k], 0x5A);
        }
        assert_true(all_zero(block + had, sizes[i] - had));
        had = sizes[i];
        memset(block, 0x5A, had);
        assert_int_equal(mem_bytes(MEM_JOBS), had);
    }
    mem_fail_after(1, 0);
    assert_null(mem_grow(MEM_JOBS, block, had + 1));
    assert_int_equal(block[had - 1], 0x5A);
    assert_int_equal(mem_bytes(MEM_JOBS), had);
    mem_free(block);
    assert_int_equal(mem_bytes(MEM_JOBS), 0);
}

static void test_sizes_that_overflow(void **state)
{
    assert_null(mem_array(MEM_OTHER, SIZE_MAX / 2 + 1, 2));
    assert_null(mem_array(MEM_OTHER, SIZE_MAX, SIZE_MAX));
    void *block = mem_array(MEM_OTHER, 3, 5);
    assert_int_equal(mem_bytes(MEM_OTHER), 15);
    mem_free(block);
    size_t out = 7;
    assert_false(checked_add(SIZE_MAX, 1, &out));
    assert_false(checked_mul(SIZE_MAX / 2 + 1, 2, &out));
    assert_false(checked_align(SIZE_MAX, 16, &out));
    assert_true(checked_align(17, 16, &out));
    assert_int_equal(out, 32);
    assert_true(checked_align(32, 16, &out));
    assert_int_equal(out, 32);
    assert_true(checked_align(0, 64, &out));
    assert_int_equal(out, 0);
}

static void test_sizes_the_machine_lacks(void **state)
{
    assert_null(mem_alloc(MEM_OTHER, SIZE_MAX / 2));
    assert_null(mem_alloc(MEM_OTHER, SIZE_MAX - 64));
    assert_null(mem_alloc(MEM_OTHER, SIZE_MAX));
    assert_int_equal(mem_bytes(MEM_OTHER), 0);
}

static void test_failures_on_demand(void **state)
{
    mem_fail_after(3, 0);
    void *first = mem_alloc(MEM_OTHER, 1), *second = mem_alloc(MEM_OTHER, 1);
    assert_non_null(first);
    assert_non_null(second);
    assert_null(mem_alloc(MEM_OTHER, 1));
    void *fourth = mem_alloc(MEM_OTHER, 1);
    assert_non_null(fourth);
    mem_fail_after(1, 1);
    for (int i = 0; i < 5; i++) {
        assert_null(mem_array(MEM_OTHER, 1, 1));
    }
    mem_fail_after(0, 0);
    void *after = mem_alloc(MEM_OTHER, 1);
    assert_non_null(after);
    mem_free(first);
    mem_free(second);
    mem_free(fourth);
    mem_free(after);
}

enum { THREADS = 4, ROUNDS = 2000 };

static void *churn(void *argument)
{
    for (int i = 0; i < ROUNDS; i++) {
        void *block = mem_alloc(MEM_REQUESTS, (size_t)(i % 300));
        if (block == NULL) {
            return argument;
        }
        mem_free(block);
    }
    return NULL;
}

static void test_counts_across_threads(void **state)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, churn, threads), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *failed = NULL;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(mem_bytes(MEM_REQUESTS), 0);
}

/* Runs `broken` in a child and expects it to abort. */
static void expect_abort(void (*broken)(void))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL); /* cmocka has its own handler */
        int quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);
        if (quiet >= 0) {
            (void)dup2(quiet, STDERR_FILENO);
        }
        broken();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void allocate_sealed(void)
{
    mem_seal_thread(1);
    mem_free(mem_alloc(MEM_OTHER, 1));
}

static void free_sealed(void)
{
    void *block = mem_alloc(MEM_OTHER, 1);
    mem_seal_thread(1);
    mem_free(block);
}

static void free_inside(void)
{
    char *block = mem_alloc(MEM_OTHER, 256);
    mem_free(block + 128);
}

static void test_broken_promises_abort(void **state)
{
    expect_abort(allocate_sealed);
    expect_abort(free_sealed);
    expect_abort(free_inside);
}

static void *allocate_elsewhere(void *out_failed)
{
    void *block = mem_alloc(MEM_OTHER, 1);
    *(bool *)out_failed = block == NULL;
    mem_free(block);
    return NULL;
}

static void test_seal_is_the_threads_own(void **state)
{
    pthread_t thread;
    bool failed = true;
    mem_seal_thread(1);
    int created = pthread_create(&thread, NULL, allocate_elsewhere, &failed);
    int joined = created != 0 ? created : pthread_join(thread, NULL);
    mem_seal_thread(0);
    assert_int_equal(joined, 0);
    assert_false(failed);
    mem_free(mem_alloc(MEM_OTHER, 1));
}

static void test_words(void **state)
{
    assert_string_equal(mem_pool_word(MEM_WEIGHTS), "weights");
    assert_string_equal(mem_pool_word(MEM_OTHER), "other");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alignment_zeroes_and_counts),
        cmocka_unit_test(test_empty_blocks_are_unique),
        cmocka_unit_test(test_grow_keeps_content),
        cmocka_unit_test(test_sizes_that_overflow),
        cmocka_unit_test(test_sizes_the_machine_lacks),
        cmocka_unit_test(test_failures_on_demand),
        cmocka_unit_test(test_counts_across_threads),
        cmocka_unit_test(test_broken_promises_abort),
        cmocka_unit_test(test_seal_is_the_threads_own),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
