/*
 * Philox 4x32-10: ten rounds of two 32x32 -> 64 bit products, their halves crossed and mixed with
 * a key that steps by Weyl constants. Cheap enough (some 30 ns) that no state is worth keeping.
 */
#include "engine/base/rng.h"

#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { PHILOX_ROUNDS = 10 };

void rng_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        uint64_t a = UINT64_C(0xD2511F53) * c0;
        uint64_t b = UINT64_C(0xCD9E8D57) * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += UINT32_C(0x9E3779B9); /* golden ratio */
        k1 += UINT32_C(0xBB67AE85); /* sqrt(3) - 1 */
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

double rng_uniform(uint64_t seed, uint32_t stream, uint64_t counter)
{
    const uint32_t words[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), stream, 0};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t out[4];
    rng_philox(words, key, out);
    uint64_t bits = ((uint64_t)out[0] << 32 | out[1]) >> 11;
    return (double)bits * 0x1p-53;
}

uint64_t rng_entropy(void)
{
    uint64_t value;
    if (getrandom(&value, sizeof value, 0) == (ssize_t)sizeof value) {
        return value;
    }
    /* A kernel without the call: seeds need to differ, not to be secret. */
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    const uint32_t words[4] = {(uint32_t)now.tv_sec, (uint32_t)now.tv_nsec, (uint32_t)getpid(), 1};
    const uint32_t key[2] = {0, 0};
    uint32_t out[4];
    rng_philox(words, key, out);
    return (uint64_t)out[0] << 32 | out[1];
}
