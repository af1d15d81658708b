/*
 * work.c: see work.h.
 *
 * Two levels of undo mirror the store's transaction and savepoint. A request is undone by going
 * back to what work_request_begin() noted: numbers, ends of the two lists, heads. A tick is undone
 * by forgetting everything and reading it again, which is slow, rare, and cannot be wrong.
 */
#include "domain/work.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/planted.h"
#include "domain/agent.h"
#include "domain/conversation.h"
#include "domain/guidance.h"
#include "domain/head.h"
#include "domain/log_index.h"
#include "domain/log_request.h"
#include "domain/machine.h"
#include "domain/task.h"

/* One server writes to an embedded store; its row has a fixed name. */
static const struct str server_name = {"local", 5};

static int read_number(struct work *w, enum statement statement, int64_t *ret, struct err *err)
{
    struct query *q = store_query(w->store, statement);
    int r = query_one(q, err);
    if (r < 0)
        return r;
    *ret = query_get_int(q, 0); /* MAX of nothing is NULL, read as 0 */
    query_end(q);
    return 0;
}

static int read_numbers(struct work *w, struct err *err)
{
    const struct {
        enum statement statement;
        int64_t *number;
    } all[] = {
        {SQL_EVENT_LAST, &w->last.event},           {SQL_CONVERSATION_LAST, &w->last.conversation},
        {SQL_ATTACHMENT_LAST, &w->last.attachment}, {SQL_TOKEN_LAST, &w->last.token},
        {SQL_COMMAND_LAST, &w->last.command},       {SQL_TASK_LAST, &w->last.task},
        {SQL_INBOX_LAST, &w->last.inbox},           {SQL_CARD_LAST, &w->last.card},
    };
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        int r = read_number(w, all[i].statement, all[i].number, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int note_start(struct work *w, struct err *err)
{
    struct query *q = store_query(w->store, SQL_SERVER_STARTED);
    query_text(q, 1, server_name);
    query_int(q, 2, w->now_ms);
    work_mark_written(w);
    return query_run(q, NULL, err);
}

/* Since the last tick of the server before us nobody has watched. With a manual clock no time has
 * passed. */
static int note_down_time(struct work *w, struct err *err)
{
    if (w->previous_tick_ms == 0 || w->previous_tick_ms >= w->now_ms)
        return 0;
    work_mark_written(w);
    return gaps_record(w, GAP_DOWN, w->previous_tick_ms, err);
}

/* What everybody must know before the first request. */
static int read_watch_state(struct work *w, struct err *err)
{
    int r = read_number(w, SQL_SERVER_GREATEST_TIME, &w->previous_tick_ms, err);
    if (r == 0)
        r = gaps_read(w, &w->gaps, err);
    return r;
}

static int write_behind(struct work *w, struct err *err)
{
    int r = store_begin(w->store, err);
    if (r < 0)
        return r;
    r = log_index_write(w, err);
    if (r == 0)
        r = heads_write_behind(w, err);
    REQUIRE_F(r != -ERR_INTERNAL, "the log and its index disagree: %s", err->message);
    if (r == 0)
        r = store_commit(w->store, err);
    if (r < 0)
        store_rollback(w->store);
    return r;
}

static int first_tick(struct work *w, int64_t now_ms, struct err *err)
{
    bool limits_changed;
    int r = rules_limits_changed(w, &limits_changed, err);
    if (r == 0 && limits_changed) { /* the rows must be up to date */
        r = write_behind(w, err);
        if (r == 0)
            log_index_written(w->log_index);
    }
    if (r == 0)
        r = work_begin(w, now_ms, err);
    if (r == 0)
        r = work_request_begin(w, err);
    if (r == 0)
        r = conversation_ensure_server_log(w, err);
    if (r == 0)
        r = note_down_time(w, err);
    if (r == 0 && limits_changed)
        r = rules_apply_limits(w, err);
    if (r == 0)
        r = note_start(w, err);
    if (r == 0)
        r = work_request_end(w, true, err);
    if (r == 0)
        r = work_commit(w, err);
    heads_drop(w); /* their times to look may have been set behind their backs */
    return r;
}

/* Who held a lease has it anew: no beat could arrive, or those that did are forgotten. */
static int grant_leases(struct work *w, struct err *err)
{
    int r = planted(NO_LEASE_AFTER_RESTART) ? 0 : agents_grant_leases(w, err);
    if (r == 0)
        r = machines_read(w, err);
    return r < 0 ? r : tasks_grant_leases(w, err);
}

int work_init(struct work *w, struct store *store, const struct options *options, int64_t now_ms,
              struct err *err)
{
    *w = (struct work){
        .store = store, .options = options, .tail_max = LOG_TAIL_MAX, .next_look_ms = INT64_MIN};
    int r = read_numbers(w, err);
    if (r == 0)
        r = read_watch_state(w, err);
    if (r == 0)
        r = log_index_new(w, &w->log_index, err);
    if (r == 0)
        r = first_tick(w, now_ms, err);
    if (r == 0)
        r = grant_leases(w, err);
    if (r < 0)
        work_release(w);
    return r;
}

void work_release(struct work *w)
{
    heads_drop(w);
    agents_drop(w);
    tasks_drop(w);
    machines_drop(w);
    log_requests_drop(w);
    leases_release(&w->leases);
    w->log_index = log_index_free(w->log_index);
    gaps_release(&w->gaps);
    arena_release(&w->arena);
}

static void forget_tick(struct work *w)
{
    w->events = w->events_last = NULL;
    w->guidance = w->guidance_last = NULL;
    w->touched = NULL;
    w->tokens_changed = w->has_written = false;
}

int work_begin(struct work *w, int64_t now_ms, struct err *err)
{
    REQUIRE(!store_in_transaction(w->store));
    REQUIRE_F(now_ms >= w->now_ms, "now goes back from %lld", (long long)w->now_ms);
    w->now_before = w->now_ms;
    w->now_ms = now_ms;
    memcpy(w->fired_before, w->fired, sizeof w->fired);
    w->indexed_before = log_index_count(w->log_index);
    forget_tick(w);
    arena_clear(&w->arena);
    return store_begin(w->store, err);
}

int work_request_begin(struct work *w, struct err *err)
{
    w->request++;
    w->undo = NULL;
    w->before.last = w->last;
    w->before.indexed = log_index_count(w->log_index);
    w->before.gaps = w->gaps.count;
    memcpy(w->before.fired, w->fired, sizeof w->fired);
    w->before.events_last = w->events_last;
    w->before.guidance_last = w->guidance_last;
    w->before.tokens_changed = w->tokens_changed;
    return store_savepoint(w->store, err);
}

/* A list of copies in the tick's arena, newest first: an object is a few hundred bytes, so a copy
 * is cheaper than any cleverness. */
struct undo {
    struct undo *next;
    void *object;
    size_t bytes;
    work_forget_fn *forget; /* the object is new */
    char copy[];
};

const void *work_remember(struct work *w, void *object, size_t bytes)
{
    struct undo *u = arena_alloc(&w->arena, sizeof *u + bytes);
    *u = (struct undo){.next = w->undo, .object = object, .bytes = bytes};
    memcpy(u->copy, object, bytes);
    w->undo = u;
    return u->copy;
}

void work_remember_new(struct work *w, void *object, work_forget_fn *forget)
{
    struct undo *u = arena_alloc(&w->arena, sizeof *u);
    *u = (struct undo){.next = w->undo, .object = object, .forget = forget};
    w->undo = u;
}

static void undo_objects(struct work *w)
{
    for (struct undo *u = w->undo; u; u = u->next) {
        if (u->forget)
            u->forget(w, u->object);
        else
            memcpy(u->object, u->copy, u->bytes);
    }
    w->undo = NULL;
}

static void undo_request(struct work *w)
{
    if (!planted(UNDO_FORGOTTEN))
        undo_objects(w);
    log_index_truncate(w->log_index, w->before.indexed);
    w->last = w->before.last;
    w->gaps.count = w->before.gaps;
    memcpy(w->fired, w->before.fired, sizeof w->fired);
    w->tokens_changed = w->before.tokens_changed;
    w->events_last = w->before.events_last;
    if (w->events_last)
        w->events_last->next = NULL;
    else
        w->events = NULL;
    w->guidance_last = w->before.guidance_last;
    if (w->guidance_last)
        w->guidance_last->next = NULL;
    else
        w->guidance = NULL;
}

int work_request_end(struct work *w, bool ok, struct err *err)
{
    if (!ok) {
        undo_request(w);
        store_rollback_savepoint(w->store);
        return 0;
    }
    int r = store_release(w->store, err);
    if (r < 0)
        undo_request(w); /* and the store has given up the whole tick */
    return r;
}

static int note_tick(struct work *w, struct err *err)
{
    struct query *q = store_query(w->store, SQL_SERVER_TICKED);
    query_text(q, 1, server_name);
    query_int(q, 2, w->now_ms);
    return query_run(q, NULL, err);
}

static int write_and_commit(struct work *w, struct err *err)
{
    if (!store_in_transaction(w->store)) /* the store gave it up under a request: full disk */
        return err_set(err, ERR_UNAVAILABLE, "%s", err_text(ERR_UNAVAILABLE));
    if (w->has_written && w->is_read_only)
        return err_set(err, ERR_UNAVAILABLE, "a gap has to be told first");
    if (w->has_written) {
        int r = note_tick(w, err);
        if (r < 0)
            return r;
    }
    return store_commit(w->store, err);
}

int work_commit(struct work *w, struct err *err)
{
    int r = write_and_commit(w, err);
    if (r == 0) {
        if (w->has_written)
            w->written_ms = w->now_ms;
        w->undo = NULL;
        heads_evict_some(w);
        agents_evict_some(w);
        tasks_evict_some(w);
        return 0;
    }
    store_rollback(w->store);
    w->undo = NULL;
    w->now_ms = w->now_before;
    memcpy(w->fired, w->fired_before, sizeof w->fired);
    heads_drop(w);
    agents_drop(w);
    tasks_drop(w);
    machines_drop(w);
    log_requests_drop(w);
    leases_release(&w->leases);
    log_index_truncate(w->log_index, w->indexed_before);
    forget_tick(w);
    struct err again = ERR_INIT;
    int reread = read_numbers(w, &again);
    if (reread == 0)
        reread = gaps_read(w, &w->gaps, &again);
    if (reread == 0)
        reread = grant_leases(w, &again);
    if (reread < 0) /* what is true now is known to the disk alone */
        store_give_up(w->store, again.message);
    return r;
}

void work_maintain(struct work *w)
{
    struct err err = ERR_INIT;
    if (log_index_count(w->log_index) < w->tail_max)
        return;
    if (write_behind(w, &err) < 0) { /* nothing is lost: it is tried again after the next tick */
        heads_drop(w);               /* they think they were written */
        log_warn("domain", "not_written_behind", "reason=%s", log_quote(str_of(err.message)));
        return;
    }
    log_index_written(w->log_index);
}

void work_mark_written(struct work *w)
{
    w->has_written = true;
}

bool work_has_written(const struct work *w)
{
    return w->has_written;
}

void work_publish_event(struct work *w, const struct event *e)
{
    struct event *copy = arena_alloc(&w->arena, sizeof *copy);
    *copy = *e;
    copy->agent_id = arena_str(&w->arena, e->agent_id);
    copy->payload = arena_str(&w->arena, e->payload);
    copy->next = NULL;
    if (w->events_last)
        w->events_last->next = copy;
    else
        w->events = copy;
    w->events_last = copy;
}

int work_note_move(struct work *w, int64_t conversation, const struct event *e, const char *rule,
                   struct err *err)
{
    struct query *q = store_query(w->store, SQL_MOVE_INSERT);
    query_int(q, 1, conversation);
    query_int(q, 2, e->id);
    query_text(q, 3, str_of(rule));
    return query_run(q, NULL, err);
}

void work_count_rule(struct work *w, enum rule_id rule)
{
    w->fired[rule]++;
}

void work_touch(struct work *w, int64_t key)
{
    struct touched *t = arena_alloc(&w->arena, sizeof *t);
    *t = (struct touched){w->touched, key};
    w->touched = t;
}

void work_publish_guidance(struct work *w, struct guidance *g)
{
    g->next = NULL;
    if (w->guidance_last)
        w->guidance_last->next = g;
    else
        w->guidance = g;
    w->guidance_last = g;
}
