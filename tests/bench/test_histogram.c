/* test_histogram.c: percentiles are as exact as histogram.h says, at every magnitude. */
#include "histogram.h"

#include "tap.h"

static struct histogram h;

TEST(histogram_of_nothing_is_zero)
{
    CHECK_INT(histogram_percentile(&h, 50), 0);
    CHECK_INT(histogram_percentile(&h, 100), 0);
}

TEST(histogram_small_values_are_exact)
{
    for (uint64_t v = 0; v < 256; v++)
        histogram_add(&h, v);
    CHECK_INT(histogram_percentile(&h, 50), 127);
    CHECK_INT(histogram_percentile(&h, 25), 63);
    CHECK_INT(histogram_percentile(&h, 100), 255);
}

/* The lower one of two values is hidden from `max`, which would make it exact. */
static void check_one(uint64_t v)
{
    h = (struct histogram){0};
    histogram_add(&h, v);
    histogram_add(&h, UINT64_MAX);
    uint64_t got = histogram_percentile(&h, 50);
    CHECK(got >= v);
    CHECK(got - v <= v >> HISTOGRAM_BITS);
}

TEST(histogram_error_is_bounded_at_every_magnitude)
{
    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t v = UINT64_C(1) << bit;
        check_one(v);
        check_one(v + v / 3);
        check_one(v - 1);
    }
}

TEST(histogram_percentiles_of_a_million_values)
{
    for (uint64_t v = 1; v <= 1000000; v++)
        histogram_add(&h, v);
    CHECK_INT(h.count, 1000000);
    CHECK(histogram_percentile(&h, 50) >= 500000 && histogram_percentile(&h, 50) < 504000);
    CHECK(histogram_percentile(&h, 99) >= 990000 && histogram_percentile(&h, 99) < 998000);
    CHECK_INT(histogram_percentile(&h, 100), 1000000);
}

TEST(histogram_keeps_the_greatest_value_exactly)
{
    histogram_add(&h, 1000001);
    histogram_add(&h, 3);
    CHECK_INT(h.max, 1000001);
    CHECK_INT(histogram_percentile(&h, 100), 1000001);
}
