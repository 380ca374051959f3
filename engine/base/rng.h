/*
 * Counter-based random numbers: a value is a function of (seed, stream, counter) and of nothing
 * else, so that a token sampled after preemption, in another batch or on another thread is the
 * same token. Philox 4x32-10 (Salmon et al., SC'11); known-answer vectors of the paper's
 * Random123 distribution are in the unit test.
 */
#ifndef ENGINE_BASE_RNG_H
#define ENGINE_BASE_RNG_H

#include <stdint.h>

/* Four 32-bit words. */
void rng_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
/* Uniform in [0, 1) with 53 bits: stream = sample index, counter = token index. */
double rng_uniform(uint64_t seed, uint32_t stream, uint64_t counter);
/* A seed from the operating system, for requests that ask for a random one. */
uint64_t rng_entropy(void);

#endif
