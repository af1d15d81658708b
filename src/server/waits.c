/*
 * waits.c: see waits.h.
 *
 * Entries are in chains by what they wait for (a map) and in one list of all, the newest first.
 * Those that are late are found by walking that list when the earliest of them is. The times at
 * which entries look by themselves are rounded, so that ten thousand of them cost few walks.
 * work->touched is a list to which a tick adds at the front, so the part that was looked at already
 * is its rest.
 */
#include "server/waits.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/planted.h"

#define LOOK_GRAIN_US INT64_C(100000)

struct wait {
    struct rpc_request *request;
    struct rpc_call *call;
    int64_t key, look_us;
    bool is_new;     /* of a tick that is not over */
    bool is_touched; /* and it was, in that tick */
    struct wait *same_key, *next, **at;
};

struct waits {
    wait_over_fn *over;
    void *ctx;
    struct map by_key;
    struct wait *all;
    size_t count;
    int64_t next_us, look_every_us;
    const struct touched *heard; /* these, and all that stand behind, were looked at in this tick */
};

struct waits *waits_new(wait_over_fn *over, void *ctx, int64_t look_every_us)
{
    struct waits *w = mem_zalloc(sizeof *w);
    w->over = over;
    w->ctx = ctx;
    w->next_us = INT64_MAX;
    w->look_every_us = look_every_us;
    return w;
}

size_t waits_count(const struct waits *w)
{
    return w->count;
}

int64_t waits_next_us(const struct waits *w)
{
    return w->next_us;
}

void waits_add(struct waits *w, struct rpc_request *request, struct rpc_call *call, int64_t key)
{
    struct wait *e = mem_alloc(sizeof *e);
    int64_t every_us = planted(BELL_TRUSTED) ? INT64_C(3600000000) : w->look_every_us;
    int64_t look_us = clock_mono_us() + every_us + LOOK_GRAIN_US - 1;
    *e = (struct wait){.request = request,
                       .call = call,
                       .key = key,
                       .look_us = MIN(call->wait_until_us, look_us - look_us % LOOK_GRAIN_US),
                       .is_new = true,
                       .same_key = map_get(&w->by_key, key),
                       .next = w->all,
                       .at = &w->all};
    map_put(&w->by_key, key, e);
    if (w->all)
        w->all->at = &e->next;
    w->all = e;
    w->count++;
    w->next_us = MIN(w->next_us, e->look_us);
}

static void unlink_key(struct waits *w, struct wait *e)
{
    struct wait *first = map_get(&w->by_key, e->key);
    if (first != e) {
        while (first->same_key != e)
            first = first->same_key;
        first->same_key = e->same_key;
    } else if (e->same_key) {
        map_put(&w->by_key, e->key, e->same_key);
    } else {
        map_remove(&w->by_key, e->key);
    }
}

static struct wait take(struct waits *w, struct wait *e)
{
    struct wait taken = *e;
    unlink_key(w, e);
    *e->at = e->next;
    if (e->next)
        e->next->at = e->at;
    w->count--;
    free(e);
    return taken;
}

static void end(struct waits *w, struct wait *e, int code, const struct err *err)
{
    struct wait taken = take(w, e);
    w->over(w->ctx, taken.request, taken.call, code, err);
}

/* Not those who came in this tick, since the calls before them in their batch are not true yet. */
void waits_wake(struct waits *w, const struct work *work)
{
    struct wait *e, *next;
    for (const struct touched *t = work->touched; t != w->heard; t = t->next)
        for (e = map_get(&w->by_key, t->key); e; e = next) {
            next = e->same_key;
            if (e->is_new)
                e->is_touched = true;
            else
                end(w, e, 0, NULL);
        }
    w->heard = work->touched;
}

const struct touched *waits_committed(struct waits *w)
{
    const struct touched *heard = w->heard;
    struct wait *next;
    for (struct wait *e = w->all; e && e->is_new; e = next) {
        next = e->next;
        e->is_new = false;
        e->request->kept =
            (size_t)(e->call - e->request->calls); /* what stands before it is true */
        if (e->is_touched)
            end(w, e, 0, NULL);
    }
    w->heard = NULL;
    return heard;
}

void waits_ring(struct waits *w, int64_t key)
{
    for (struct wait *e = map_get(&w->by_key, key), *next; e; e = next) {
        next = e->same_key;
        end(w, e, 0, NULL);
    }
}

void waits_lost(struct waits *w, const struct err *err)
{
    struct wait *e, *next;
    for (e = w->all; e && e->is_new; e = next) {
        next = e->next;
        end(w, e, -err->code, err);
    }
    w->heard = NULL;
}

void waits_time_out(struct waits *w, int64_t now_us)
{
    struct wait *e, *next;
    if (now_us < w->next_us)
        return;
    w->next_us = INT64_MAX;
    for (e = w->all; e; e = next) {
        next = e->next;
        if (e->look_us <= now_us)
            end(w, e, 0, NULL);
        else
            w->next_us = MIN(w->next_us, e->look_us);
    }
}

void waits_stop(struct waits *w, const struct err *err)
{
    while (w->all)
        end(w, w->all, -err->code, err);
}

void waits_drop_peer(struct waits *w, const struct peer *peer)
{
    struct wait *e, *next;
    for (e = w->all; e; e = next) {
        next = e->next;
        if (e->request->peer != peer)
            continue;
        struct wait taken = take(w, e);
        rpc_request_free(taken.request);
    }
}

struct waits *waits_free(struct waits *w)
{
    while (w && w->all) {
        struct wait taken = take(w, w->all);
        rpc_request_free(taken.request);
    }
    if (w)
        map_release(&w->by_key);
    free(w);
    return NULL;
}
