/*
 * histogram.h: latencies counted in logarithmic buckets.
 *
 * A value below 256 ns has a bucket of its own; above, each power of two is cut into 128 buckets,
 * so a percentile is off by less than 0.8 %, and the size does not depend on how much is recorded.
 * The greatest value is kept exactly.
 */
#pragma once

#include <stdint.h>

enum {
    HISTOGRAM_BITS = 7, /* of precision within a power of two */
    HISTOGRAM_BUCKETS = (64 - HISTOGRAM_BITS + 1) << HISTOGRAM_BITS,
};

struct histogram {
    uint64_t count;
    uint64_t max;
    uint64_t bucket[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *h, uint64_t value);
/* The value that `percent` of all values do not exceed; 0 if there are none. */
uint64_t histogram_percentile(const struct histogram *h, double percent);
