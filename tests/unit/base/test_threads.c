/*
 * Goal: every chunk of a region runs once and only once, whatever the team's size and however
 * regions follow each other; what chunks wrote is visible when threads_run returns.
 * Method: teams of 1 to 4 run many regions of changing size, some back to back (workers spin),
 * some after a pause (workers sleep). Plain, unlocked arrays carry the results, so that a missing
 * ordering is a race ThreadSanitizer sees.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/attr.h"
#include "engine/base/clock.h"
#include "engine/base/cpu_quota.h"
#include "engine/base/mem.h"
#include "engine/base/threads.h"

enum { CHUNKS_MAX = 257, TEAM_MAX = 4 };

struct region {
    int32_t runs[CHUNKS_MAX]; /* plain on purpose */
    int32_t value;            /* read by every chunk */
    int32_t team;
};

static void sleep_us(int64_t us)
{
    const struct timespec time = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&time, NULL);
}

static void add_value(void *context, int32_t chunk, int32_t thread)
{
    struct region *region = context;
    if (thread < 0 || thread >= region->team) {
        abort();
    }
    region->runs[chunk] += region->value;
}

static void run_regions(struct threads *threads, int32_t regions, int64_t pause_us)
{
    for (int32_t i = 0; i < regions; i++) {
        struct region region = {.value = i + 1, .team = threads_count(threads)};
        int32_t chunks = (i * 37 + 1) % (CHUNKS_MAX + 1);
        threads_run(threads, chunks, add_value, &region);
        for (int32_t chunk = 0; chunk < CHUNKS_MAX; chunk++) {
            assert_int_equal(region.runs[chunk], chunk < chunks ? i + 1 : 0);
        }
        if (pause_us != 0) {
            sleep_us(pause_us);
        }
    }
}

static void test_each_chunk_once(void **state)
{
    for (int32_t count = 1; count <= TEAM_MAX; count++) {
        struct threads *threads;
        assert_int_equal(threads_open(count, &threads), ERR_OK);
        assert_int_equal(threads_count(threads), count);
        run_regions(threads, 2000, 0);
        run_regions(threads, 40, 500); /* longer than the spin: workers are asleep */
        threads_close(threads);
    }
}

static void slow_first_chunk(void *context, int32_t chunk, int32_t thread)
{
    _Atomic int32_t *done = context;
    if (chunk == 0) {
        /* Leaves only when all others are done: they must not be queued behind this one. */
        int64_t until = clock_now_us(NULL) + 10 * 1000000;
        while (atomic_load(done) != CHUNKS_MAX - 1) {
            if (clock_now_us(NULL) > until) {
                abort();
            }
            sleep_us(100);
        }
    }
    atomic_fetch_add(done, 1);
}

static void test_a_stalled_thread_holds_its_chunk_only(void **state)
{
    struct threads *threads;
    assert_int_equal(threads_open(2, &threads), ERR_OK);
    for (int i = 0; i < 20; i++) {
        _Atomic int32_t done = 0;
        threads_run(threads, CHUNKS_MAX, slow_first_chunk, &done);
        assert_int_equal(atomic_load(&done), CHUNKS_MAX);
    }
    threads_close(threads);
}

/* Leaves only when each thread has a chunk, however long a loaded machine takes to run them. */
static void meet_all(void *context, int32_t chunk, int32_t thread)
{
    _Atomic int32_t *arrived = context;
    const int64_t until = clock_now_us(NULL) + 20 * 1000000;
    atomic_fetch_add(arrived, 1);
    while (atomic_load(arrived) != TEAM_MAX) {
        if (clock_now_us(NULL) > until) {
            abort();
        }
        sleep_us(100);
    }
}

static void test_sleeping_workers_are_woken(void **state)
{
    struct threads *threads;
    assert_int_equal(threads_open(TEAM_MAX, &threads), ERR_OK);
    sleep_us(20000);
    _Atomic int32_t arrived = 0;
    threads_run(threads, TEAM_MAX, meet_all, &arrived);
    assert_int_equal(atomic_load(&arrived), TEAM_MAX);
    threads_close(threads);
}

static int64_t process_cpu_us(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

static void test_idle_workers_cost_nothing(void **state)
{
    struct threads *threads;
    assert_int_equal(threads_open(TEAM_MAX, &threads), ERR_OK);
    run_regions(threads, 10, 0);
    sleep_us(20000);
    int64_t before = process_cpu_us();
    sleep_us(200000);
    assert_true(process_cpu_us() - before < 100000); /* spinning would be 600,000 */
    threads_close(threads);
}

static void test_order_within_a_team_of_one(void **state)
{
    struct threads *threads;
    assert_int_equal(threads_open(1, &threads), ERR_OK);
    struct region region = {.value = 1, .team = 1};
    threads_run(threads, 0, add_value, &region);
    assert_int_equal(region.runs[0], 0);
    threads_run(threads, 1, add_value, &region);
    assert_int_equal(region.runs[0], 1);
    threads_close(threads);
    threads_close(NULL);
}

static void test_open_without_memory(void **state)
{
    for (uint64_t nth = 1; nth <= 2; nth++) {
        struct threads *threads = NULL;
        mem_fail_after(nth, 0);
        enum err err = threads_open(2, &threads);
        mem_fail_after(0, 0);
        assert_int_equal(err, ERR_NO_MEMORY);
        assert_null(threads);
    }
}

/* ---- CPUs of this process ------------------------------------------------------------------ */

struct tree {
    char root[64];
};

static void put_file(const struct tree *tree, const char *path, const char *text)
{
    char whole[256];
    snprintf(whole, sizeof whole, "%s/%s", tree->root, path);
    for (char *slash = strchr(whole + strlen(tree->root) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(whole, 0700);
        *slash = '/';
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int32_t read_tree(const struct tree *tree)
{
    char groups[128], mount[128];
    snprintf(groups, sizeof groups, "%s/cgroup", tree->root);
    snprintf(mount, sizeof mount, "%s/mount", tree->root);
    return cpu_quota_read(groups, mount);
}

static struct tree new_tree(void)
{
    struct tree tree = {.root = "/tmp/magnetd-test-XXXXXX"};
    assert_non_null(mkdtemp(tree.root));
    return tree;
}

static void drop_tree(const struct tree *tree)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", tree->root);
    assert_int_equal(system(command), 0);
}

static void test_quota_version_2(void **state)
{
    struct tree tree = new_tree();
    assert_int_equal(read_tree(&tree), 0); /* no file at all */
    put_file(&tree, "cgroup", "0::/a/b\n");
    assert_int_equal(read_tree(&tree), 0);
    put_file(&tree, "mount/a/b/cpu.max", "max 100000\n");
    assert_int_equal(read_tree(&tree), 0);
    put_file(&tree, "mount/a/b/cpu.max", "350000 100000\n");
    assert_int_equal(read_tree(&tree), 3);
    put_file(&tree, "mount/a/b/cpu.max", "50000 100000\n");
    assert_int_equal(read_tree(&tree), 1);
    put_file(&tree, "mount/a/b/cpu.max", "800000 100000\n");
    put_file(&tree, "mount/a/cpu.max", "200000 100000\n"); /* the ancestor is tighter */
    assert_int_equal(read_tree(&tree), 2);
    put_file(&tree, "mount/a/cpu.max", "nonsense\n");
    assert_int_equal(read_tree(&tree), 8);
    drop_tree(&tree);
}

static void test_quota_in_a_container(void **state)
{
    struct tree tree = new_tree();
    put_file(&tree, "cgroup", "0::/docker/0123\n"); /* a path of the host, absent here */
    put_file(&tree, "mount/cpu.max", "400000 100000\n");
    assert_int_equal(read_tree(&tree), 4);
    drop_tree(&tree);
}

static void test_quota_version_1(void **state)
{
    struct tree tree = new_tree();
    put_file(&tree, "cgroup", "9:cpuset:/x\n4:cpu,cpuacct:/a\n1:name=systemd:/y\n");
    put_file(&tree, "mount/cpuset/x/cpu.cfs_quota_us", "100000\n"); /* not the cpu hierarchy */
    put_file(&tree, "mount/cpuset/x/cpu.cfs_period_us", "100000\n");
    assert_int_equal(read_tree(&tree), 0);
    put_file(&tree, "mount/cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n");
    put_file(&tree, "mount/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
    assert_int_equal(read_tree(&tree), 0);
    put_file(&tree, "mount/cpu,cpuacct/a/cpu.cfs_quota_us", "250000\n");
    assert_int_equal(read_tree(&tree), 2);
    drop_tree(&tree);
}

static void test_available_is_sane(void **state)
{
    int32_t cpus = threads_available();
    assert_true(cpus >= 1);
    assert_true(cpus <= sysconf(_SC_NPROCESSORS_CONF));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_chunk_once),
        cmocka_unit_test(test_a_stalled_thread_holds_its_chunk_only),
        cmocka_unit_test(test_sleeping_workers_are_woken),
        cmocka_unit_test(test_idle_workers_cost_nothing),
        cmocka_unit_test(test_order_within_a_team_of_one),
        cmocka_unit_test(test_open_without_memory),
        cmocka_unit_test(test_quota_version_2),
        cmocka_unit_test(test_quota_in_a_container),
        cmocka_unit_test(test_quota_version_1),
        cmocka_unit_test(test_available_is_sane),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
