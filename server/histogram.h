/* Durations in 20 buckets of 0.5 ms times 2^k, as every histogram of /metrics has them. */
#ifndef SERVER_HISTOGRAM_H
#define SERVER_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_BUCKETS = 20 };

/* buckets[k] counts durations in (500 us * 2^(k-1), 500 us * 2^k]; the longer ones are in `count`
 * alone. One thread writes and reads. */
struct histogram {
    uint64_t buckets[HISTOGRAM_BUCKETS];
    uint64_t count;
    double sum_s;
};

static inline void histogram_add(struct histogram *histogram, int64_t us)
{
    int64_t bound = 500;
    int k = 0;
    while (k < HISTOGRAM_BUCKETS && us > bound) {
        bound *= 2;
        k++;
    }
    if (k < HISTOGRAM_BUCKETS) {
        histogram->buckets[k]++;
    }
    histogram->count++;
    histogram->sum_s += (double)(us > 0 ? us : 0) / 1e6;
}

#endif
