/* backoff.c: see backoff.h. What fails is rare, so finding the next one walks them all. */
#include "base/backoff.h"

#include <stdlib.h>

#include "base/macro.h"
#include "base/mem.h"

struct entry {
    int64_t key, at_ms, wait_ms;
};

int64_t backoff_failed(struct backoff *b, int64_t key, int64_t now_ms)
{
    struct entry *e = map_get(&b->entries, key);
    if (!e) {
        e = mem_alloc(sizeof *e);
        *e = (struct entry){.key = key, .wait_ms = BACKOFF_FIRST_MS / 2};
        map_put(&b->entries, key, e);
    }
    e->wait_ms = MIN(2 * e->wait_ms, (int64_t)BACKOFF_MAX_MS);
    e->at_ms = now_ms + e->wait_ms;
    return e->wait_ms;
}

void backoff_worked(struct backoff *b, int64_t key)
{
    if (b->entries.count)
        free(map_remove(&b->entries, key));
}

bool backoff_holds(const struct backoff *b, int64_t key, int64_t now_ms)
{
    const struct entry *e = b->entries.count ? map_get(&b->entries, key) : NULL;
    return e && e->at_ms > now_ms;
}

int64_t backoff_next_ms(const struct backoff *b, int64_t *ret_key)
{
    int64_t next_ms = INT64_MAX;
    const struct entry *e;
    for (size_t i = 0; (e = map_next(&b->entries, &i));)
        if (e->at_ms < next_ms) {
            next_ms = e->at_ms;
            if (ret_key)
                *ret_key = e->key;
        }
    return next_ms;
}

void backoff_forget_until(struct backoff *b, int64_t at_ms)
{
    int64_t key = 0;
    while (backoff_next_ms(b, &key) <= at_ms)
        backoff_worked(b, key);
}

void backoff_release(struct backoff *b)
{
    struct entry *e;
    for (size_t i = 0; (e = map_next(&b->entries, &i));)
        free(e);
    map_release(&b->entries);
}
