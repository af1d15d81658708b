/*
 * core.c: see core.h.
 *
 * What a crash leaves behind is decided in run_tick() and after_commit(): before work_commit()
 * nothing has been told to anyone; after it everything that will be told is in the store.
 */
#include "server/core_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail_point.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/planted.h"
#include "bell/bell.h"
#include "domain/idempotency.h"
#include "domain/machine.h"

enum { TICK_RESULT_BYTES_MAX = 32 << 20 };
#define PRUNE_EVERY_MS 60000
#define SIGN_OF_LIFE_MS 5000
#define PAUSE_US 1000000

struct core_input *core_input_new(enum core_input_kind kind, struct peer *p)
{
    struct core_input *in = mem_zalloc(sizeof *in);
    in->kind = kind;
    in->peer = peer_ref(p);
    return in;
}

struct core_input *core_input_free(struct core_input *in)
{
    if (in) {
        rpc_request_free(in->request);
        peer_unref(in->peer);
        free(in);
    }
    return NULL;
}

/* ---- those who wait ---- */

static void host_wait(void *ctx, struct rpc_request *request, struct rpc_call *call, int64_t key)
{
    struct core *c = ctx;
    waits_add(c->waits, request, call, key);
}

static void execute_at_once(struct core *c, struct rpc_request *r);

static void wait_is_over(void *ctx, struct rpc_request *request, struct rpc_call *call, int code,
                         const struct err *err)
{
    struct core *c = ctx;
    struct parked p = {request, call, 0};
    if (code < 0) {
        rpc_fail_all(request); /* what was executed in a tick that is lost, or never will be */
        parked_done(c, &p, code, err, c->wait_out);
        return;
    }
    rpc_call_again(request, call);
    if (c->is_waking)
        execute_at_once(c, request);
    else
        core_execute_later(c, request);
}

static void hear(void *ctx, int64_t key)
{
    struct core *c = ctx;
    waits_ring(c->waits, key);
}

/* What was asked for in this tick, and was not heard in it. */
static void ring(struct core *c)
{
    const struct touched *heard = waits_committed(c->waits);
    for (const struct touched *t = c->work.touched; t && t != heard; t = t->next)
        bell_ring(c->bell, t->key);
}

/* ---- lifetime ---- */

/* What can fail. */
static int open_parts(struct core *c, struct err *err)
{
    int r = bell_new(c->config.bell_fault, hear, c, &c->bell, err);
    if (r == 0)
        r = work_init(&c->work, c->config.store, c->config.options, c->started_ms, err);
    if (r < 0)
        return r;
    r = lifecycle_new(&c->work, &c->lifecycle, err);
    if (r < 0)
        work_release(&c->work);
    return r;
}

int core_new(const struct core_config *config, struct core **ret, struct err *err)
{
    struct core *c = mem_zalloc(sizeof *c);
    c->config = *config;
    pulse_init(&c->pulse, config->clock); /* what a long start takes is time nobody watched */
    c->started_ms = c->pruned_ms = clock_now_ms(config->clock);
    int r = open_parts(c, err);
    if (r < 0) {
        bell_free(c->bell);
        store_close(config->store);
        free(c);
        return r;
    }
    if (c->work.previous_tick_ms && c->work.previous_tick_ms < c->started_ms)
        log_warn("watch", "gap", "kind=%s ms=%lld", gap_kind_name(GAP_DOWN),
                 (long long)(c->started_ms - c->work.previous_tick_ms));
    c->ladder = ladder_new(&c->work);
    c->waits = waits_new(wait_is_over, c,
                         option_get(config->options, worker, watchdog_interval_seconds) * 1000000);
    c->subscriptions = subscriptions_new(&c->work);
    c->host = parked_host(c);
    c->host.wait = host_wait;
    if (config->tokens_changed)
        config->tokens_changed(config->ctx, config->store);
    *ret = c;
    return 0;
}

const struct core_stats *core_stats(const struct core *c)
{
    return &c->stats;
}

const struct store_stats *core_store_stats(const struct core *c)
{
    return store_stats(c->config.store);
}

bool core_is_writable(const struct core *c)
{
    return store_is_writable(c->config.store);
}

/* ---- requests ---- */

void core_reply(struct core *c, struct rpc_request *r, struct outbox *out)
{
    atomic_fetch_sub(&r->peer->queued_bytes, r->reserved_bytes);
    r->reserved_bytes = 0;
    struct buf body = BUF_INIT(RPC_REPLY_BYTES_MAX);
    int status = rpc_write_reply(r, &body);
    for (size_t i = 0; i < r->count; i++)
        c->stats.calls_failed += r->calls[i].code < 0;
    outbox_add(out, r->peer, status, &body);
}

static int open_stream(struct core *c, struct core_input *in, struct err *err)
{
    int64_t number;
    if (in->grant.expires_ms && in->grant.expires_ms <= c->work.now_ms)
        return err_set(err, ERR_UNAUTHENTICATED, "the token has expired");
    return subscription_add(c->subscriptions, in->peer, &in->subscribe, &number, err);
}

/* The answer to GET /events: the stream's head goes out before its first event. */
static void stream_reply(struct core_input *in, int code, struct err *err, struct outbox *out)
{
    struct buf body = BUF_INIT(8192);
    int status = MESSAGE_STREAM;
    if (code < 0) {
        status = code == -ERR_NOT_FOUND ? 404 : code == -ERR_UNAUTHENTICATED ? 401 : 503;
        rpc_hide_internal(err, code, "GET /events");
        rpc_write_error(&body, STR("null"), err);
    }
    outbox_add(out, in->peer, status, &body);
}

static void leave_for_later(struct core *c, struct core_input *in)
{
    in->next = NULL;
    if (c->later_last)
        c->later_last->next = in;
    else
        c->later = in;
    c->later_last = in;
}

static struct core_input *request_input(struct rpc_request *r)
{
    struct core_input *in = core_input_new(CORE_REQUEST, r->peer);
    in->request = r;
    return in;
}

void core_execute_later(struct core *c, struct rpc_request *r)
{
    leave_for_later(c, request_input(r));
    c->wants_tick = true;
}

static void execute_at_once(struct core *c, struct rpc_request *r)
{
    struct core_input *in = request_input(r);
    in->next = c->woken;
    c->woken = in;
}

/* ---- what is due ---- */

static void pause_what_is_due(struct core *c)
{
    c->paused_until_us = clock_mono_us() + PAUSE_US;
}

static bool is_paused(const struct core *c)
{
    return c->paused_until_us && clock_mono_us() < c->paused_until_us;
}

static bool step_failed(struct core *c, const char *step, int code, const struct err *err)
{
    log_error("core", "step_failed", "step=%s error=%s reason=%s", step, err_name(code),
              log_quote(str_of(err->message)));
    c->step_failed = true;
    pause_what_is_due(c);
    return false;
}

/* It is in the log of conversation 0 now; here for whoever reads this one. */
static void log_finding(struct core *c)
{
    if (c->found.is_gap)
        log_warn("watch", "gap", "kind=%s ms=%lld", gap_kind_name(c->found.kind),
                 (long long)(c->work.now_ms - c->found.from_ms));
    if (c->found.wall_step_ms)
        log_warn("watch", "gap", "kind=%s ms=%lld", gap_kind_name(GAP_WALL_STEP),
                 (long long)c->found.wall_step_ms);
    c->found = (struct pulse_finding){0};
    c->refusing_since_ms = 0;
}

/* What the net thread has seen is so, whatever becomes of the tick. */
static void note_peer(struct core *c, const struct core_input *in)
{
    if (in->kind == CORE_CLOSED) {
        subscriptions_drop_peer(c->subscriptions, in->peer);
        waits_drop_peer(c->waits, in->peer);
    } else if (in->kind == CORE_DRAINED)
        subscriptions_drained(c->subscriptions, in->peer);
}

/*
 * Answers are held until the commit, so what they may take is bounded twice. A peer whose answers
 * wait to be read, or would, gets no more of them: its requests stay until it has room (it is told
 * to tell us: peer_has_room). And a tick that has made many bytes leaves the rest to the next one.
 * A peer's requests keep their order: once one was passed over, so are those behind it.
 */
static bool pass_over(struct core *c, const struct core_input *in)
{
    struct peer *p = in->peer;
    if (in->kind != CORE_REQUEST || atomic_load(&p->is_closed))
        return false;
    bool is_full = c->result_bytes >= TICK_RESULT_BYTES_MAX;
    if (!is_full && p->passed_over_in != c->stats.ticks + 1 && peer_has_room(p))
        return false;
    c->wants_tick |= is_full;
    p->passed_over_in = c->stats.ticks + 1;
    return true;
}

static void run_request(struct core *c, struct rpc_request *r)
{
    c->stats.requests++;
    atomic_fetch_sub(&r->peer->queued_bytes,
                     r->reserved_bytes); /* of the calls before a parked one */
    rpc_execute(r, &c->work, c->subscriptions, &c->host);
    c->result_bytes += r->result_bytes;
    r->reserved_bytes = r->result_bytes; /* counted as waiting already, until reply() */
    atomic_fetch_add(&r->peer->queued_bytes, r->reserved_bytes);
}

static void run_input(struct core *c, struct core_input *in, struct outbox *streams)
{
    struct err err = ERR_INIT;
    switch (in->kind) {
    case CORE_REQUEST:
        run_request(c, in->request);
        if (in->request->parked)
            in->request = NULL; /* its struct parked has it */
        break;
    case CORE_STREAM: {
        int code = open_stream(c, in, &err);
        stream_reply(in, code, &err, streams);
        break;
    }
    case CORE_CLOSED:
    case CORE_DRAINED:
        note_peer(c, in);
        break;
    }
}

static void note_events(struct core *c)
{
    for (const struct event *e = c->work.events; e; e = e->next)
        c->stats.events++;
}

static void after_commit(struct core *c, struct core_input *inputs, struct outbox *streams,
                         struct outbox *out)
{
    fail_point(FAIL_AFTER_COMMIT);
    note_events(c);
    parked_committed(c);
    if (c->gap_is_told)
        log_finding(c);
    lifecycle_committed(c->lifecycle);
    ladder_committed(c->ladder);
    if (c->work.tokens_changed && c->config.tokens_changed)
        c->config.tokens_changed(c->config.ctx, c->config.store);
    for (struct core_input *in = inputs; in; in = in->next)
        if (in->request)
            core_reply(c, in->request, out);
    outbox_append(out, streams);
    subscriptions_publish(c->subscriptions, out);
    c->wait_out = out;
    ring(c);
    parked_finish(c, out);
}

/* Nothing of this tick happened. */
static void after_failure(struct core *c, struct core_input *inputs, const struct err *err,
                          struct outbox *out)
{
    c->stats.commits_failed++;
    if (!c->refusing_since_ms)
        c->refusing_since_ms = clock_now_ms(c->config.clock);
    log_error("core", "commit_failed", "error=%s reason=%s", err_name(err->code),
              log_quote(str_of(err->message)));
    subscriptions_abort_staged(c->subscriptions);
    lifecycle_lost(c->lifecycle);
    ladder_lost(c->ladder);
    pause_what_is_due(c);
    struct err unavailable = ERR_INIT;
    int code = err_set(&unavailable, ERR_UNAVAILABLE, "%s", err_text(ERR_UNAVAILABLE));
    parked_lost(c, code, &unavailable, out);
    c->wait_out = out;
    waits_lost(c->waits, &unavailable);
    for (struct core_input *in = inputs; in; in = in->next) {
        note_peer(c, in); /* again, if it got so far: once is as good as twice */
        if (in->kind == CORE_STREAM)
            stream_reply(in, code, &unavailable, out);
        if (!in->request)
            continue;
        rpc_fail_all(in->request);
        core_reply(c, in->request, out);
    }
}

static void release_inputs(struct core_input *inputs)
{
    while (inputs) {
        struct core_input *in = inputs;
        inputs = in->next;
        core_input_free(in);
    }
}

/* A clock that goes on over a restart is running: of the time that was watched, little may be
 * forgotten. Leases begin anew. */
static bool is_judging(const struct core *c)
{
    return !c->config.clock->manual &&
           (c->work.next_look_ms != NEVER_MS || machines_wait_for_fence(&c->work));
}

/* What has to be written now and then, if only somebody writes anyway. That the store takes writes
 * again ends a gap: to tell it later would make it longer. */
static bool chores_are_due(const struct core *c)
{
    int64_t now_ms = clock_now_ms(c->config.clock);
    return (c->refusing_since_ms && core_is_writable(c)) ||
           now_ms - c->pruned_ms >= PRUNE_EVERY_MS ||
           (is_judging(c) && now_ms - c->work.written_ms >= SIGN_OF_LIFE_MS);
}

static void prune(struct core *c)
{
    struct err err = ERR_INIT;
    bool more = false;
    if (work_request_begin(&c->work, &err) < 0)
        return;
    bool ok = idempotency_prune(&c->work, &more, &err) == 0;
    work_request_end(&c->work, ok, &err);
    if (!more) /* else go on in the next tick: what is due must not pile up */
        c->pruned_ms = c->work.now_ms;
}

static void do_chores(struct core *c)
{
    if (c->work.now_ms - c->pruned_ms >= PRUNE_EVERY_MS)
        prune(c);
    if (!c->config.clock->manual && c->work.now_ms - c->work.written_ms >= SIGN_OF_LIFE_MS)
        work_mark_written(&c->work); /* the time reached is stored */
}

static void note_tick(struct core *c, struct core_input *inputs, int64_t begun_us)
{
    int64_t batch = 0;
    for (const struct core_input *in = inputs; in; in = in->next)
        batch++;
    c->stats.ticks++;
    c->stats.batch_last = batch;
    c->stats.batch_max = MAX(c->stats.batch_max, batch);
    c->stats.tick_us_last = clock_mono_us() - begun_us;
    c->stats.tick_us_max = MAX(c->stats.tick_us_max, c->stats.tick_us_last);
    c->stats.subscriptions = subscriptions_count(c->subscriptions);
    c->stats.ladder = *ladder_stats(c->ladder);
    memcpy(c->stats.fired, c->work.fired, sizeof c->stats.fired);
    c->stats.lifecycle = lifecycle_stats(c->lifecycle);
    c->stats.gaps = (int64_t)c->work.gaps.count;
}

/* What was left for later comes first. */
static struct core_input *with_later(struct core *c, struct core_input *inputs)
{
    if (!c->later)
        return inputs;
    struct core_input *first = c->later;
    c->later_last->next = inputs;
    c->later = c->later_last = NULL;
    return first;
}

/* Runs what can run, and takes the rest out of the list. */
static void run_inputs(struct core *c, struct core_input **inputs, struct outbox *streams)
{
    struct core_input **at = inputs;
    while (*at) {
        struct core_input *in = *at;
        if (pass_over(c, in)) {
            *at = in->next;
            leave_for_later(c, in);
        } else {
            run_input(c, in, streams);
            at = &in->next;
        }
    }
}

/*
 * Long polls that this tick has something for, if the bell is in this process: they hear it before
 * the commit, and their answers wait for it like all others. From here on they are inputs of the
 * tick like any other, and stand in front: they have waited longest, so they are answered first.
 * While the store takes no writes nobody is woken before a commit has shown that it does again:
 * what they wait for has not happened.
 */
static void run_woken(struct core *c, struct core_input **inputs, struct outbox *streams)
{
    if (c->refusing_since_ms || !bell_is_here(c->bell))
        return;
    c->is_waking = true;
    waits_wake(c->waits, &c->work);
    c->is_waking = false;
    struct core_input *woken = c->woken, **end = &woken;
    c->woken = NULL;
    run_inputs(c, &woken, streams);
    while (*end)
        end = &(*end)->next;
    *end = *inputs;
    *inputs = woken;
}

/* The time of the next tick: that of the beat, so that no sleep can slip in between. A clock that
 * is advanced by hand goes to each due time in turn. */
static int64_t tick_time(const struct core *c)
{
    const struct stepping *s = &c->stepping;
    if (!c->config.clock->manual)
        return c->pulse.now_ms;
    int64_t now_ms = clock_now_ms(c->config.clock);
    if (!s->by.request)
        return now_ms;
    if (s->jumps)
        return s->target_ms;
    int64_t due_ms = MIN(ladder_next_due_ms(c->ladder), lifecycle_next_ms(c->lifecycle));
    return MIN(MAX(due_ms, now_ms), s->target_ms);
}

static int tell_finding(struct core *c, struct err *err)
{
    int r = 0;
    if (c->found.is_gap)
        r = gaps_record(&c->work, c->found.kind, c->found.from_ms, err);
    if (r == 0 && c->found.wall_step_ms)
        r = gaps_note_wall_step(&c->work, c->found.wall_step_ms, err);
    return r;
}

/* While the store took no writes, whoever wanted to say something was sent away. */
static void add_refusal(struct core *c)
{
    struct pulse_finding *f = &c->found;
    f->from_ms = f->is_gap ? MIN(f->from_ms, c->refusing_since_ms) : c->refusing_since_ms;
    f->kind = f->is_gap ? f->kind : GAP_REFUSING;
    f->is_gap = true;
}

/* Before anything is judged in this tick: was somebody watching? False if that could not be told:
 * then nobody is judged. */
static bool tell_gap(struct core *c, int64_t now_before_ms)
{
    struct err err = ERR_INIT;
    if (c->stepping.jumps)
        c->found =
            (struct pulse_finding){.is_gap = true, .kind = GAP_MANUAL, .from_ms = now_before_ms};
    else if (c->refusing_since_ms)
        add_refusal(c);
    if (!c->found.is_gap && !c->found.wall_step_ms)
        return true;
    int r = work_request_begin(&c->work, &err);
    if (r == 0) {
        r = tell_finding(c, &err);
        int end = work_request_end(&c->work, r == 0, &err);
        r = r < 0 ? r : end;
    }
    return r == 0 || step_failed(c, "gap", r, &err);
}

static void run_lifecycle(struct core *c)
{
    struct err err = ERR_INIT;
    int r = is_paused(c) ? 0 : lifecycle_step(c->lifecycle, &err);
    if (r < 0)
        step_failed(c, "lifecycle", r, &err);
}

/* At start, agents are resumed before anybody is judged. */
static void run_ladder(struct core *c)
{
    struct err err = ERR_INIT;
    if (!c->gap_is_told || is_paused(c) || !lifecycle_has_resumed(c->lifecycle))
        return;
    int r = ladder_step(c->ladder, &err);
    if (r < 0)
        step_failed(c, "ladder", r, &err);
}

/* When something is due: the follower, a rule, or a sign of life in the store, which bounds what a
 * crash makes us take for unwatched. That only matters while somebody is waiting to be judged. */
static int64_t next_due_ms(const struct core *c)
{
    int64_t due_ms = MIN(lifecycle_next_ms(c->lifecycle), ladder_next_ms(c->ladder));
    return is_judging(c) ? MIN(due_ms, c->work.written_ms + SIGN_OF_LIFE_MS) : due_ms;
}

bool core_wants_tick(const struct core *c)
{
    if (c->wants_tick)
        return true;
    if (is_paused(c))
        return false;
    return c->stepping.by.request || c->found.is_gap || c->found.wall_step_ms ||
           next_due_ms(c) <= clock_now_ms(c->config.clock);
}

int64_t core_wait_us(const struct core *c)
{
    if (core_wants_tick(c))
        return 0;
    int64_t now_us = clock_mono_us(), wait_us = INT64_MAX;
    if (is_paused(c))
        wait_us = c->paused_until_us - now_us;
    else if (!c->config.clock->manual)
        wait_us = MIN(clock_us_until(c->config.clock, next_due_ms(c)), (int64_t)PULSE_MS * 1000);
    if (waits_count(c->waits))
        wait_us = MIN(wait_us, waits_next_us(c->waits) - now_us);
    return wait_us == INT64_MAX ? -1 : MAX(wait_us, INT64_C(1));
}

void core_beat(struct core *c)
{
    struct pulse_finding found;
    if (c->config.clock->manual ||
        !pulse_beat(&c->pulse, option_get(c->config.options, watch, gap_seconds) * 1000, &found))
        return;
    if (c->found.is_gap) { /* one that could not be told yet: this one makes it longer */
        found.is_gap = true;
        found.from_ms = c->found.from_ms;
    }
    found.wall_step_ms += c->found.wall_step_ms;
    c->found = found;
}

/* ---- the tick ---- */

static int run_tick(struct core *c, struct core_input **inputs, bool with_what_is_due,
                    struct outbox *streams, struct err *err)
{
    core_beat(c); /* the commit of the tick before may have taken long */
    int64_t before_ms = c->work.now_ms, now_ms = tick_time(c);
    int r = work_begin(&c->work, now_ms, err);
    if (r < 0)
        return r;
    c->step_failed = c->gap_is_told = false;
    if (with_what_is_due)
        c->gap_is_told = tell_gap(c, before_ms);
    c->work.is_read_only = c->found.is_gap && !c->gap_is_told;
    if (with_what_is_due)
        run_lifecycle(c); /* first: who has been told of an end finds its agents stopped */
    bool has_inputs = *inputs != NULL;
    run_inputs(c, inputs, streams);
    if (with_what_is_due)
        run_ladder(c);
    run_woken(c, inputs, streams);
    if (now_ms != before_ms && c->config.clock->manual)
        work_mark_written(&c->work);               /* the time reached is stored */
    if (!has_inputs || work_has_written(&c->work)) /* those who only read do not wait for a disk */
        do_chores(c);
    fail_point(FAIL_BEFORE_COMMIT);
    r = work_commit(&c->work, err);
    if (r == 0 && c->config.clock->manual)
        clock_advance(c->config.clock, now_ms - clock_now_ms(c->config.clock));
    return r;
}

static void tick(struct core *c, struct core_input *inputs, bool with_what_is_due,
                 struct outbox *out)
{
    int64_t begun_us = clock_mono_us();
    struct err err = ERR_INIT;
    struct outbox streams = {0};
    c->result_bytes = 0;
    int r = run_tick(c, &inputs, with_what_is_due, &streams, &err);
    if (r == 0 || planted(ACK_BEFORE_COMMIT))
        after_commit(c, inputs, &streams, out);
    else
        after_failure(c, inputs, &err, out);
    outbox_release(&streams);
    note_tick(c, inputs, begun_us);
    release_inputs(inputs);
}

/*
 * Reads go on while the disk is full. What has to be written now and then is not written in a tick
 * that only reads; and once it is known that the store takes no writes, what is due is tried in a
 * tick of its own, which fails alone. A gap that nobody was told of yet is due at once: what is
 * written before it would be the end of a time that was watched.
 */
void core_tick(struct core *c, struct core_input *inputs, struct outbox *out)
{
    inputs = with_later(c, inputs);
    bool has_inputs = inputs != NULL, is_due = core_wants_tick(c),
         is_apart = has_inputs && !store_is_writable(c->config.store);
    c->wants_tick = false;
    if (is_apart && (is_due || c->found.is_gap)) {
        tick(c, NULL, true, out);
        is_apart = !store_is_writable(c->config.store);
    }
    tick(c, inputs, !is_apart, out);
    if (has_inputs && !is_paused(c) && chores_are_due(c))
        tick(c, NULL, true, out);
}

/* ---- what is not urgent ---- */

/* What comes from now on until the next start is a gap. If there is one already that could not be
 * told, it began after the time that is stored, and goes on. */
static void store_last_moment(struct core *c)
{
    struct err err = ERR_INIT;
    core_beat(c);
    if (c->found.is_gap || c->refusing_since_ms)
        return;
    int r = work_begin(&c->work, tick_time(c), &err);
    work_mark_written(&c->work);
    if (r == 0)
        r = work_commit(&c->work, &err);
    if (r < 0)
        log_warn("core", "last_moment_not_stored", "reason=%s", log_quote(str_of(err.message)));
}

void core_stop(struct core *c, struct outbox *out)
{
    struct err err = ERR_INIT;
    int code = err_set(&err, ERR_UNAVAILABLE, "the server is shutting down");
    parked_stop(c, code, &err, out);
    c->wait_out = out;
    waits_stop(c->waits, &err);
    struct core_input *waiting = with_later(c, NULL);
    for (struct core_input *in = waiting; in; in = in->next) {
        rpc_fail_all(in->request);
        core_reply(c, in->request, out);
    }
    release_inputs(waiting);
    store_last_moment(c);
}

bool core_idle(struct core *c, struct outbox *out)
{
    work_maintain(&c->work);
    store_maintain(c->config.store);
    bool more = subscriptions_pump(c->subscriptions, out);
    c->wait_out = out;
    waits_time_out(c->waits, clock_mono_us());
    return parked_step_backup(c, out) || more || c->wants_tick;
}

struct core *core_free(struct core *c)
{
    if (!c)
        return NULL;
    parked_release(c);
    release_inputs(with_later(c, NULL));
    subscriptions_free(c->subscriptions);
    waits_free(c->waits);
    bell_free(c->bell);
    ladder_free(c->ladder);
    lifecycle_free(c->lifecycle);
    work_release(&c->work);
    store_close(c->config.store);
    free(c);
    return NULL;
}
