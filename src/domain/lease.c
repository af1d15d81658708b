/* lease.c: see lease.h. A binary heap. */
#include "domain/lease.h"

#include <stdlib.h>

#include "base/mem.h"

static void swap(struct lease *a, struct lease *b)
{
    struct lease t = *a;
    *a = *b;
    *b = t;
}

void leases_add(struct leases *l, enum lease_kind kind, int64_t key, int64_t look_ms)
{
    l->heap = mem_grow(l->heap, &l->room, l->count + 1, sizeof *l->heap);
    size_t i = l->count++;
    l->heap[i] = (struct lease){.look_ms = look_ms, .key = key, .kind = kind};
    for (; i > 0 && l->heap[(i - 1) / 2].look_ms > l->heap[i].look_ms; i = (i - 1) / 2)
        swap(&l->heap[i], &l->heap[(i - 1) / 2]);
}

int64_t leases_next_ms(const struct leases *l)
{
    return l->count ? l->heap[0].look_ms : INT64_MAX;
}

static size_t least_of(const struct leases *l, size_t i)
{
    size_t least = i;
    for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < l->count; child++)
        if (l->heap[child].look_ms < l->heap[least].look_ms)
            least = child;
    return least;
}

bool leases_take(struct leases *l, int64_t now_ms, struct lease *ret)
{
    if (l->count == 0 || l->heap[0].look_ms > now_ms)
        return false;
    *ret = l->heap[0];
    l->heap[0] = l->heap[--l->count];
    for (size_t i = 0, next; (next = least_of(l, i)) != i; i = next)
        swap(&l->heap[i], &l->heap[next]);
    return true;
}

void leases_release(struct leases *l)
{
    free(l->heap);
    *l = (struct leases){0};
}
