/*
 * Fork-join over a fixed team: the calling thread plus `count - 1` workers. One caller at a time.
 *
 * threads_run hands out chunks 0..chunk_count-1 dynamically (an atomic counter), so that a thread
 * that lost its core slows nothing but its own chunk. Which thread runs which chunk is not
 * specified: results must depend on the chunk alone, never on the thread (determinism). Workers
 * spin briefly for the next region, then sleep on a futex.
 */
#ifndef ENGINE_BASE_THREADS_H
#define ENGINE_BASE_THREADS_H

#include <stdint.h>
#include "engine/base/attr.h"
#include "engine/base/err.h"

struct threads;

/* thread is 0..count-1, for per-thread scratch only. Must not allocate: workers are sealed. */
typedef void threads_fn(void *context, int32_t chunk, int32_t thread);

/* count >= 1. On success *out_threads is owned by the caller. */
MUST_USE enum err threads_open(int32_t count, struct threads **out_threads);
void threads_close(struct threads *threads); /* NULL allowed */
int32_t threads_count(const struct threads *threads);
/* Returns when all chunks are done. Runs inline when chunk_count is 1 or the team is 1. */
void threads_run(struct threads *threads, int32_t chunk_count, threads_fn *fn, void *context);
/* CPUs this process may use: affinity mask and cgroup quota, rounded down, at least 1. */
int32_t threads_available(void);

#endif
