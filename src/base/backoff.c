/* backoff.c: see backoff.h. The next one is looked for when it is asked for, and kept until it
 * goes. */
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
    b->is_next_known = false;
    return e->wait_ms;
}

void backoff_worked(struct backoff *b, int64_t key)
{
    if (b->entries.count == 0)
        return;
    free(map_remove(&b->entries, key));
    b->is_next_known &= key != b->next_key;
}

bool backoff_holds(const struct backoff *b, int64_t key, int64_t now_ms)
{
    const struct entry *e = b->entries.count ? map_get(&b->entries, key) : NULL;
    return e && e->at_ms > now_ms;
}

static void find_next(struct backoff *b)
{
    const struct entry *e;
    b->next_ms = INT64_MAX;
    for (size_t i = 0; (e = map_next(&b->entries, &i));)
        if (e->at_ms < b->next_ms) {
            b->next_ms = e->at_ms;
            b->next_key = e->key;
        }
    b->is_next_known = true;
}

int64_t backoff_next_ms(struct backoff *b, int64_t *ret_key)
{
    if (b->entries.count == 0)
        return INT64_MAX;
    if (!b->is_next_known)
        find_next(b);
    if (ret_key)
        *ret_key = b->next_key;
    return b->next_ms;
}

void backoff_forget_until(struct backoff *b, int64_t at_ms)
{
    size_t n = 0;
    int64_t *keys = mem_alloc((b->entries.count + 1) * sizeof *keys);
    const struct entry *e;
    for (size_t i = 0; (e = map_next(&b->entries, &i));)
        if (e->at_ms <= at_ms)
            keys[n++] = e->key;
    while (n)
        backoff_worked(b, keys[--n]);
    free(keys);
}

void backoff_release(struct backoff *b)
{
    struct entry *e;
    for (size_t i = 0; (e = map_next(&b->entries, &i));)
        free(e);
    map_release(&b->entries);
}
