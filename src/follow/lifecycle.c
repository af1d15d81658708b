/*
 * lifecycle.c: see lifecycle.h.
 *
 * Most events end nothing. Those of a tick are looked at when it is committed, while they are still
 * in memory, and if none of them ends anything the cursor moves on without a write; it is stored
 * with the next thing that is, or when it has run CURSOR_LAG_MAX ahead. Only what may need work is
 * read back from the log.
 */
#include "follow/lifecycle.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/backoff.h"
#include "base/fail_point.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/planted.h"
#include "domain/agent.h"
#include "domain/process.h"
#include "domain/start.h"
#include "domain/head.h"
#include "domain/log_index.h"
#include "domain/work.h"

enum { PAGE_EVENTS = 512, PAGE_AGENTS = 64, CURSOR_LAG_MAX = 10000 };

static const struct str cursor_name = {"lifecycle", 9};

/* What changes within a tick and is true only after its commit. */
struct place {
    int64_t cursor, stored; /* in memory; in the store */
    bool has_resumed;
    int64_t after_conversation; /* of the agents to resume */
    char after_role[AGENT_ID_BYTES_MAX + 1];
};

struct lifecycle {
    struct work *work;
    struct place now, before; /* of this tick */
    bool has_work;            /* something after the cursor may end a conversation */
    bool has_stopped;         /* in this tick */
    int64_t tried_again;      /* in this tick: a conversation that had failed; 0: none */
    struct backoff backoff;   /* by conversation */
    struct lifecycle_stats stats, stats_before;
};

int lifecycle_new(struct work *w, struct lifecycle **ret, struct err *err)
{
    struct query *q = store_query(w->store, SQL_CURSOR_GET);
    query_text(q, 1, cursor_name);
    int r = query_one(q, err);
    if (r < 0)
        return r;
    if (r == STORE_DONE)
        return err_set(err, ERR_INTERNAL, "the store is damaged: the lifecycle has no cursor");
    struct lifecycle *f = mem_zalloc(sizeof *f);
    f->work = w;
    f->now.cursor = f->now.stored = query_get_int(q, 0);
    query_end(q);
    f->now.after_conversation = -1;
    f->before = f->now;
    f->has_work = f->now.cursor < w->last.event;
    *ret = f;
    return 0;
}

struct lifecycle *lifecycle_free(struct lifecycle *f)
{
    if (f) {
        backoff_release(&f->backoff);
        free(f);
    }
    return NULL;
}

bool lifecycle_has_resumed(const struct lifecycle *f)
{
    return f->now.has_resumed;
}

int64_t lifecycle_next_ms(struct lifecycle *f)
{
    bool is_ahead = f->now.cursor - f->now.stored > CURSOR_LAG_MAX;
    return f->has_work || is_ahead || !f->now.has_resumed ? INT64_MIN
                                                          : backoff_next_ms(&f->backoff, NULL);
}

struct lifecycle_stats lifecycle_stats(const struct lifecycle *f)
{
    struct lifecycle_stats stats = f->stats;
    stats.behind = f->work->last.event - f->now.cursor;
    return stats;
}

/* ---- one agent ---- */

/* Brings it to where its conversation's state says. */
static int tend(struct lifecycle *f, int64_t conversation, struct str role, struct err *err)
{
    struct head *h;
    struct agent *a;
    int r = head_get(f->work, conversation, &h, err);
    if (r == 0)
        r = agent_get(f->work, conversation, role, &a, err);
    if (r < 0)
        return r;
    if (h->status == CONVERSATION_ACTIVE) {
        if (!a->is_ensured || a->process != PROCESS_NONE || !a->kind[0])
            return 0;
        f->stats.resumed++;
        return agent_bring_up(f->work, a, "server_started", err);
    }
    if (!a->is_ensured && a->process != PROCESS_STARTING)
        return 0;
    f->has_stopped = true;
    f->stats.stopped++;
    if (planted(LIFECYCLE_STOPS_NOBODY))
        return 0;
    return agent_stop(
        f->work, a,
        h->status == CONVERSATION_BLOCKED ? "conversation_blocked" : "conversation_ended", err);
}

static void note_failure(struct lifecycle *f, int64_t conversation, struct str role, int code,
                         const struct err *err)
{
    int64_t wait_ms = backoff_failed(&f->backoff, conversation, f->work->now_ms);
    f->stats.errors++;
    log_error("lifecycle", "agent_failed",
              "agent=%lld:%.*s error=%s reason=%s try_again_in_ms=%lld", (long long)conversation,
              STR_ARG(role), err_name(code), log_quote(str_of(err->message)), (long long)wait_ms);
}

/* The same in a savepoint of its own. False if it failed. */
static bool tend_apart(struct lifecycle *f, int64_t conversation, struct str role)
{
    struct err err = ERR_INIT;
    int r = work_request_begin(f->work, &err);
    if (r == 0) {
        r = tend(f, conversation, role, &err);
        int end = work_request_end(f->work, r == 0, &err);
        r = r < 0 ? r : end;
    }
    if (r < 0)
        note_failure(f, conversation, role, r, &err);
    return r == 0;
}

/* ---- a conversation ---- */

/* Returns how many there were. */
static size_t tend_all(struct lifecycle *f, int64_t conversation)
{
    struct err err = ERR_INIT;
    struct agent_role *roles = NULL;
    int r = agent_roles_up(f->work, conversation, &roles, &err);
    bool ok = r == 0;
    if (r < 0)
        note_failure(f, conversation, STR("*"), r, &err);
    size_t count = 0;
    for (struct agent_role *role = roles; role; role = role->next, count++) {
        ok &= tend_apart(f, conversation, role->name);
        fail_point(FAIL_BETWEEN_STOPS);
    }
    if (ok)
        backoff_worked(&f->backoff, conversation);
    return count;
}

/* ---- following ---- */

static bool may_end(const struct event *e)
{
    return e->finality == FINALITY_CONVERSATION ||
           (e->type == EVENT_SYSTEM &&
            str_starts(e->payload, STR("{\"kind\":\"runtime.watchdog.cancel\"")));
}

struct endings {
    int64_t conversations[PAGE_EVENTS], ids[PAGE_EVENTS];
    size_t count;
    int64_t last_id;
};

static bool note_ending(void *ctx, const struct event *e)
{
    struct endings *all = ctx;
    all->last_id = e->id;
    if (may_end(e)) {
        all->conversations[all->count] = e->conversation;
        all->ids[all->count++] = e->id;
    }
    return true;
}

static int store_cursor(struct lifecycle *f, struct err *err)
{
    int r = work_request_begin(f->work, err);
    if (r < 0)
        return r;
    struct query *q = store_query(f->work->store, SQL_CURSOR_PUT);
    query_text(q, 1, cursor_name);
    query_int(q, 2, f->now.cursor);
    work_mark_written(f->work);
    r = query_run(q, NULL, err);
    int end = work_request_end(f->work, r == 0, err);
    r = r < 0 ? r : end;
    if (r == 0)
        f->now.stored = f->now.cursor;
    return r;
}

static int follow(struct lifecycle *f, struct err *err)
{
    struct endings found = {.last_id = f->now.cursor};
    int r = log_read_all(f->work, f->now.cursor, PAGE_EVENTS, note_ending, &found, err);
    if (r < 0)
        return r;
    if (found.count)
        fail_point(FAIL_BEFORE_STOP);
    size_t agents = 0;
    for (size_t i = 0; i < found.count; i++) {
        agents += tend_all(f, found.conversations[i]);
        if (agents < PAGE_AGENTS || i + 1 == found.count)
            continue;
        found.last_id = found.ids[i]; /* enough for a tick: the rest in the next */
        break;
    }
    f->now.cursor = found.last_id;
    if (found.count)
        fail_point(FAIL_BEFORE_CURSOR);
    return store_cursor(f, err);
}

/* ---- at start ---- */

struct ensured {
    int64_t conversation;
    struct str role;
};

static int list_ensured(struct lifecycle *f, struct ensured *ret, size_t *ret_count,
                        struct err *err)
{
    struct query *q = store_query(f->work->store, SQL_AGENT_LIST_ENSURED);
    query_int(q, 1, f->now.after_conversation);
    query_text(q, 2, str_of(f->now.after_role));
    query_int(q, 3, PAGE_AGENTS);
    int r;
    *ret_count = 0;
    while ((r = query_step(q, err)) == STORE_ROW)
        ret[(*ret_count)++] =
            (struct ensured){query_get_int(q, 0), arena_str(&f->work->arena, query_get_text(q, 1))};
    return r;
}

static int resume(struct lifecycle *f, struct err *err)
{
    struct ensured page[PAGE_AGENTS];
    size_t count;
    int r = list_ensured(f, page, &count, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < count; i++) {
        tend_apart(f, page[i].conversation, page[i].role);
        f->now.after_conversation = page[i].conversation;
        snprintf(f->now.after_role, sizeof f->now.after_role, "%.*s", STR_ARG(page[i].role));
    }
    f->now.has_resumed = count < PAGE_AGENTS;
    return 0;
}

/* ---- in a tick ---- */

static int step(struct lifecycle *f, struct err *err)
{
    int64_t conversation;
    if (!f->now.has_resumed)
        return resume(f, err);
    if (f->has_work)
        return follow(f, err);
    if (f->now.cursor - f->now.stored > CURSOR_LAG_MAX)
        return store_cursor(f, err);
    if (backoff_next_ms(&f->backoff, &conversation) <= f->work->now_ms) {
        f->tried_again = conversation;
        tend_all(f, conversation);
    }
    return 0;
}

int lifecycle_step(struct lifecycle *f, struct err *err)
{
    f->before = f->now;
    f->stats_before = f->stats;
    f->has_stopped = false;
    f->tried_again = 0;
    return lifecycle_next_ms(f) > f->work->now_ms ? 0 : step(f, err);
}

void lifecycle_committed(struct lifecycle *f)
{
    const struct event *first = f->work->events;
    int64_t last_before = first ? first->id - 1 : f->work->last.event;
    bool is_behind = f->now.cursor < last_before, ended = false;
    if (f->has_stopped)
        fail_point(FAIL_STOP_COMMITTED);
    for (const struct event *e = first; e; e = e->next)
        ended |= e->id > f->now.cursor && may_end(e);
    if (ended)
        fail_point(FAIL_END_COMMITTED);
    f->has_work = ended || is_behind;
    if (!f->has_work)
        f->now.cursor = f->work->last.event;
    f->before = f->now;
    f->stats_before = f->stats;
    f->tried_again = 0;
}

void lifecycle_lost(struct lifecycle *f)
{
    f->now = f->before;
    f->stats.stopped = f->stats_before.stopped;
    f->stats.resumed = f->stats_before.resumed;
    if (f->tried_again)
        backoff_failed(&f->backoff, f->tried_again, f->work->now_ms);
    f->tried_again = 0;
}
