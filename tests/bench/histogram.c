/*
 * histogram.c: see histogram.h.
 *
 * A value is read as mantissa × 2^shift with a mantissa of HISTOGRAM_BITS + 1 bits, the top one set
 * unless shift is 0. Bucket numbers are shift and mantissa added together with the top bit counted
 * as one shift more: they rise with the value and leave no number unused.
 */
#include "histogram.h"

static unsigned bucket_of(uint64_t value)
{
    unsigned width = 64 - (unsigned)__builtin_clzll(value | 1);
    unsigned shift = width > HISTOGRAM_BITS + 1 ? width - (HISTOGRAM_BITS + 1) : 0;
    return (shift << HISTOGRAM_BITS) + (unsigned)(value >> shift);
}

/* The greatest value that falls into a bucket. */
static uint64_t bucket_top(unsigned bucket)
{
    if (bucket < 2U << HISTOGRAM_BITS)
        return bucket;
    unsigned shift = (bucket >> HISTOGRAM_BITS) - 1;
    uint64_t mantissa = bucket - (shift << HISTOGRAM_BITS);
    return (mantissa << shift) + ((UINT64_C(1) << shift) - 1);
}

void histogram_add(struct histogram *h, uint64_t value)
{
    h->count++;
    h->bucket[bucket_of(value)]++;
    if (value > h->max)
        h->max = value;
}

uint64_t histogram_percentile(const struct histogram *h, double percent)
{
    uint64_t rank = (uint64_t)((double)h->count * percent / 100.0 + 0.5);
    uint64_t seen = 0;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += h->bucket[i];
        if (h->bucket[i] && seen >= rank)
            return bucket_top(i) < h->max ? bucket_top(i) : h->max;
    }
    return h->max;
}
