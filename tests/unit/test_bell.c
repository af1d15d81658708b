/* test_bell.c: the doorbell (bell/bell.h), whole and spoilt. */
#include "bell/bell.h"

#include "base/macro.h"
#include "tap.h"

enum { KEYS = 4 };

struct heard {
    int count[KEYS], sum;
    bool was_late; /* somebody was rung for after others */
    int64_t last;
};

static void hear(void *ctx, int64_t key)
{
    struct heard *h = ctx;
    h->was_late |= h->sum > 0 && key < h->last;
    h->count[key]++;
    h->sum++;
    h->last = key;
}

static struct bell *open_bell(const char *fault, struct heard *h)
{
    struct bell *b = NULL;
    CHECK_INT(bell_new(fault, hear, h, &b, NULL), 0);
    return b;
}

TEST(a_ring_is_heard_once_and_at_once)
{
    struct heard h = {0};
    struct bell *b = open_bell(NULL, &h);
    for (int key = 0; key < KEYS; key++) {
        bell_ring(b, key);
        CHECK_INT(h.count[key], 1);
    }
    CHECK_INT(h.sum, KEYS);
    bell_free(b);
}

TEST(P11_a_bell_that_never_rings)
{
    struct heard h = {0};
    struct bell *b = open_bell("never", &h);
    for (int key = 0; key < KEYS; key++)
        bell_ring(b, key);
    CHECK_INT(h.sum, 0);
    bell_free(b);
}

TEST(P11_a_bell_that_rings_ten_times_late_and_out_of_order)
{
    struct heard h = {0};
    struct bell *b = open_bell("ten", &h);
    for (int key = 0; key < KEYS - 1; key++)
        bell_ring(b, key);
    for (int i = 0; i < 20; i++)
        bell_ring(b, KEYS - 1);
    for (int key = 0; key < KEYS - 1; key++)
        CHECK_INT(h.count[key], 10);
    CHECK(h.was_late);
    bell_free(b);
}

TEST(a_fault_that_is_not_known_is_refused)
{
    struct heard h = {0};
    struct bell *b = NULL;
    CHECK_INT(bell_new("sometimes", hear, &h, &b, NULL), -ERR_CONFIG);
    CHECK(!b);
    bell_free(b);
}
