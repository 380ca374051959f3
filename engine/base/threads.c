/*
 * The fork-join team.
 *
 * The hand-over is one 64-bit word, the ticket: the region's number in the upper half, the chunks
 * nobody has claimed yet in the lower. Claiming is a compare-and-swap that lowers it by one. A
 * worker that slept through a whole region therefore cannot take anything from it, nor disturb the
 * next one: its swap fails, or it succeeds and the chunk is its own by right. That is why the
 * caller waits for chunks only, never for workers to check in, and why a thread that lost its core
 * holds up no more than the chunk it is in.
 *
 *     caller                              worker
 *     fill region fields, pending = n
 *     ticket = (number, n)    release --> claim by CAS, acquire: sees the fields
 *     claim chunks too
 *     wait for pending == 0   acquire <-- pending - 1, release: results are visible
 *
 * The region's fields are written only while pending is 0, hence while no claimed chunk is running.
 *
 * Sleeping follows one rule on both sides: announce that you are about to sleep, look again, sleep;
 * the waker changes the word first and then looks for the announcement. With sequentially
 * consistent operations one of the two sees the other.
 */
#include "engine/base/threads.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/base/assert.h"
#include "engine/base/clock.h"
#include "engine/base/cpu_quota.h"
#include "engine/base/mem.h"

enum {
    CACHE_LINE = 64,
    /* Regions of one forward pass follow each other within microseconds; a longer gap means that
     * sampling or waiting for requests is going on, and a core should not burn meanwhile. */
    SPIN_US = 40,
    SPINS_PER_CLOCK_READ = 32,
    /* Sleepers that the caller wakes by hand, at most. */
    CPUS_MAX = 1 << 16,
};

struct worker {
    pthread_t id;
    struct threads *team;
    int32_t thread;
};

struct threads {
    int32_t count;
    int32_t started; /* workers that run */
    struct worker *workers;

    /* The region, written by the caller between regions. */
    threads_fn *fn;
    void *context;
    int32_t chunk_count;

    _Alignas(CACHE_LINE) _Atomic uint64_t ticket;
    _Alignas(CACHE_LINE) _Atomic uint32_t pending; /* chunks not finished; the caller's futex */
    _Atomic uint32_t caller_sleeps;
    _Alignas(CACHE_LINE) _Atomic uint32_t generation; /* the workers' futex */
    _Atomic uint32_t sleepers;
    _Atomic bool closing;
};

_Static_assert(sizeof(_Atomic uint32_t) == sizeof(uint32_t), "a futex is a plain 32-bit word");

static void futex_wait(_Atomic uint32_t *word, uint32_t expected)
{
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int32_t count)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Takes one chunk and runs it; false when none is left. */
static bool run_one(struct threads *team, int32_t thread)
{
    uint64_t ticket = atomic_load_explicit(&team->ticket, memory_order_relaxed);
    do {
        if ((uint32_t)ticket == 0) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(
        &team->ticket, &ticket, ticket - 1, memory_order_acquire, memory_order_relaxed));
    int32_t chunk = team->chunk_count - (int32_t)(uint32_t)ticket;
    team->fn(team->context, chunk, thread);
    if (atomic_fetch_sub(&team->pending, 1) == 1 && atomic_load(&team->caller_sleeps) != 0) {
        futex_wake(&team->pending, 1);
    }
    return true;
}

/* Spins until the word differs from `seen`; false when the time is up. */
static bool spin_while(_Atomic uint32_t *word, uint32_t seen)
{
    int64_t until = clock_now_us(NULL) + SPIN_US;
    do {
        for (int i = 0; i < SPINS_PER_CLOCK_READ; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != seen) {
                return true;
            }
            relax();
        }
    } while (clock_now_us(NULL) < until);
    return false;
}

static void *worker_main(void *argument)
{
    struct worker *worker = argument;
    struct threads *team = worker->team;
    mem_seal_thread(1);
    for (;;) {
        /* Read before looking for chunks: a region published after this changes it. */
        uint32_t seen = atomic_load(&team->generation);
        if (atomic_load(&team->closing)) {
            return NULL;
        }
        while (run_one(team, worker->thread)) {
        }
        if (spin_while(&team->generation, seen)) {
            continue;
        }
        atomic_fetch_add(&team->sleepers, 1);
        while (atomic_load(&team->generation) == seen) {
            futex_wait(&team->generation, seen);
        }
        atomic_fetch_sub(&team->sleepers, 1);
    }
}

/* Lets the workers look again, waking those that sleep, `wanted` at most. */
static void announce(struct threads *team, int32_t wanted)
{
    atomic_fetch_add(&team->generation, 1);
    if (atomic_load(&team->sleepers) != 0) {
        futex_wake(&team->generation, wanted);
    }
}

static void wait_for_chunks(struct threads *team)
{
    for (;;) {
        uint32_t left = atomic_load_explicit(&team->pending, memory_order_acquire);
        if (left == 0) {
            return;
        }
        if (spin_while(&team->pending, left)) {
            continue;
        }
        atomic_store(&team->caller_sleeps, 1);
        left = atomic_load(&team->pending);
        if (left != 0) {
            futex_wait(&team->pending, left);
        }
        atomic_store(&team->caller_sleeps, 0);
    }
}

void threads_run(struct threads *threads, int32_t chunk_count, threads_fn *fn, void *context)
{
    ASSERT(chunk_count >= 0);
    if (threads->count == 1 || chunk_count <= 1) {
        for (int32_t chunk = 0; chunk < chunk_count; chunk++) {
            fn(context, chunk, 0);
        }
        return;
    }
    ASSERT(atomic_load_explicit(&threads->pending, memory_order_relaxed) == 0);
    threads->fn = fn;
    threads->context = context;
    threads->chunk_count = chunk_count;
    atomic_store_explicit(&threads->pending, (uint32_t)chunk_count, memory_order_relaxed);
    uint64_t number = (atomic_load_explicit(&threads->ticket, memory_order_relaxed) >> 32) + 1;
    atomic_store_explicit(
        &threads->ticket, number << 32 | (uint32_t)chunk_count, memory_order_release);
    announce(threads, MIN(chunk_count, threads->count) - 1);
    while (run_one(threads, 0)) {
    }
    wait_for_chunks(threads);
}

enum err threads_open(int32_t count, struct threads **out_threads)
{
    ASSERT(count >= 1);
    struct threads *team = mem_alloc(MEM_OTHER, sizeof *team);
    if (team == NULL) {
        return ERR_NO_MEMORY;
    }
    team->count = count;
    team->workers = mem_array(MEM_OTHER, (size_t)count, sizeof *team->workers);
    if (team->workers == NULL) {
        threads_close(team);
        return ERR_NO_MEMORY;
    }
    for (int32_t i = 0; i < count - 1; i++) {
        struct worker *worker = &team->workers[i];
        *worker = (struct worker){.team = team, .thread = i + 1};
        if (pthread_create(&worker->id, NULL, worker_main, worker) != 0) {
            threads_close(team);
            return ERR_NO_MEMORY;
        }
        team->started++;
    }
    *out_threads = team;
    return ERR_OK;
}

void threads_close(struct threads *threads)
{
    if (threads == NULL) {
        return;
    }
    atomic_store(&threads->closing, true);
    announce(threads, INT32_MAX);
    for (int32_t i = 0; i < threads->started; i++) {
        (void)pthread_join(threads->workers[i].id, NULL);
    }
    mem_free(threads->workers);
    mem_free(threads);
}

int32_t threads_count(const struct threads *threads)
{
    return threads->count;
}

/* The kernel refuses a mask that is too short for the machine, so grow it until it is taken. */
static int32_t affinity_cpus(void)
{
    for (int32_t cpus = 1024; cpus <= CPUS_MAX; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        if (set == NULL) {
            break;
        }
        size_t bytes = CPU_ALLOC_SIZE((size_t)cpus);
        bool good = sched_getaffinity(0, bytes, set) == 0;
        bool again = !good && errno == EINVAL;
        int32_t found = good ? CPU_COUNT_S(bytes, set) : 1;
        CPU_FREE(set);
        if (!again) {
            return found;
        }
    }
    return 1;
}

int32_t threads_available(void)
{
    int32_t cpus = MAX(affinity_cpus(), 1);
    int32_t quota = cpu_quota_read("/proc/self/cgroup", "/sys/fs/cgroup");
    return quota == 0 ? cpus : MIN(cpus, quota);
}
