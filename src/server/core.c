/*
 * core.c: see core.h.
 *
 * What a crash leaves behind is decided by two lines in tick_requests(): before work_commit()
 * nothing has been told to anyone; after it everything that will be told is in the store.
 */
#include "server/core.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "domain/idempotency.h"

enum { BACKUP_PAGES_PER_STEP = 64, TICK_RESULT_BYTES_MAX = 32 << 20 };
#define PRUNE_EVERY_MS 60000

/* A backup under way, and the call that waits for it. */
struct backup {
    struct store_backup *copy;
    struct rpc_request *request;
    struct rpc_call *call;
    char *path;
};

struct core {
    struct core_config config;
    struct work work;
    struct subscriptions *subscriptions;
    struct rpc_host host;
    struct backup backup;
    struct core_input *later, *later_last; /* requests that wait for room: pass_over() */
    size_t result_bytes;                   /* of this tick */
    bool wants_tick;                       /* some of `later` could run at once */
    int64_t started_ms, pruned_ms;
    struct core_stats stats;
};

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

/* ---- what methods ask of the server ---- */

static void host_write_info(void *ctx, struct json_out *out)
{
    const struct core *c = ctx;
    json_stringz(out, "name", "reeve");
    json_stringz(out, "version", c->config.version);
    json_stringz(out, "store", c->config.store_url);
    json_stringz(out, "bell", "local");
    json_stringz(out, "clock", c->config.clock->manual ? "manual" : "real");
    json_time(out, "now", c->work.now_ms);
    json_time(out, "startedAt", c->started_ms);
    json_int(out, "uptimeMs", c->work.now_ms - c->started_ms);
    json_int(out, "pid", getpid());
    json_int(out, "lastEventId", c->work.last.event);
    json_int(out, "lastConversation", c->work.last.conversation);
    json_object(out, "limits");
    json_int(out, "bodyBytesMax", option_get(c->config.options, net, body_bytes_max));
    json_int(out, "jsonDepthMax", option_get(c->config.options, net, json_depth_max));
    json_int(out, "headerBytesMax", option_get(c->config.options, net, header_bytes_max));
    json_int(out, "connectionsMax", option_get(c->config.options, net, connections_max));
    json_int(out, "batchMax", RPC_BATCH_MAX);
    json_int(out, "subscriptionsPerConnectionMax", SUBSCRIPTIONS_PER_PEER_MAX);
    json_end(out);
}

static void host_write_config(void *ctx, struct json_out *out)
{
    const struct core *c = ctx;
    options_write(c->config.options, out, "options");
}

static int host_begin_backup(void *ctx, struct rpc_request *request, struct rpc_call *call,
                             struct str path, struct err *err)
{
    struct core *c = ctx;
    if (c->backup.request) {
        err_set(err, ERR_RATE_LIMITED, "a backup is under way");
        return err_int(err, "limit", 1);
    }
    c->backup =
        (struct backup){.request = request, .call = call, .path = mem_strndup(path.p, path.n)};
    return 0; /* begins after the commit: core_idle() */
}

static int host_advance_clock(void *ctx, int64_t ms, struct err *err)
{
    struct core *c = ctx;
    if (!c->config.clock->manual)
        return err_set(err, ERR_FORBIDDEN, "the clock is real; start with --clock=manual");
    if (ms > CLOCK_MS_MAX - c->work.now_ms)
        return params_refuse(err, "ms", "goes beyond the year 9999");
    clock_advance(c->config.clock, ms);
    c->work.now_ms = clock_now_ms(c->config.clock);
    work_mark_written(&c->work); /* the time reached is stored */
    return 0;
}

/* ---- lifetime ---- */

int core_new(const struct core_config *config, struct core **ret, struct err *err)
{
    struct core *c = mem_zalloc(sizeof *c);
    c->config = *config;
    c->started_ms = c->pruned_ms = clock_now_ms(config->clock);
    int r = work_init(&c->work, config->store, config->options, c->started_ms, err);
    if (r < 0) {
        store_close(config->store);
        free(c);
        return r;
    }
    c->subscriptions = subscriptions_new(&c->work);
    c->host = (struct rpc_host){.ctx = c,
                                .write_info = host_write_info,
                                .write_config = host_write_config,
                                .advance_clock = host_advance_clock,
                                .begin_backup = host_begin_backup};
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

/* ---- the tick ---- */

static void reply(struct core *c, struct rpc_request *r, struct outbox *out)
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

/* What the net thread has seen is so, whatever becomes of the tick. */
static void note_peer(struct core *c, const struct core_input *in)
{
    if (in->kind == CORE_CLOSED)
        subscriptions_drop_peer(c->subscriptions, in->peer);
    else if (in->kind == CORE_DRAINED)
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
    note_events(c);
    if (c->work.tokens_changed && c->config.tokens_changed)
        c->config.tokens_changed(c->config.ctx, c->config.store);
    for (struct core_input *in = inputs; in; in = in->next)
        if (in->request && in->request->parked == 0)
            reply(c, in->request, out);
    outbox_append(out, streams);
    subscriptions_publish(c->subscriptions, out);
}

/* Nothing of this tick happened. */
static void after_failure(struct core *c, struct core_input *inputs, const struct err *err,
                          struct outbox *out)
{
    c->stats.commits_failed++;
    log_error("core", "commit_failed", "error=%s reason=%s", err_name(err->code),
              log_quote(str_of(err->message)));
    subscriptions_abort_staged(c->subscriptions);
    struct err unavailable = ERR_INIT;
    int code = err_set(&unavailable, ERR_UNAVAILABLE, "%s", err_text(ERR_UNAVAILABLE));
    for (struct core_input *in = inputs; in; in = in->next) {
        note_peer(c, in); /* again, if it got so far: once is as good as twice */
        if (in->kind == CORE_STREAM)
            stream_reply(in, code, &unavailable, out);
        if (!in->request)
            continue;
        rpc_fail_all(in->request);
        if (in->request->parked == 0)
            reply(c, in->request, out);
    }
}

/* A parked call keeps its request; the rest is done with. */
static void release_inputs(struct core *c, struct core_input *inputs)
{
    while (inputs) {
        struct core_input *in = inputs;
        inputs = in->next;
        if (in->request && in->request->parked) {
            REQUIRE(in->request == c->backup.request);
            in->request = NULL;
        }
        core_input_free(in);
    }
}

static void prune_sometimes(struct core *c)
{
    struct err err = ERR_INIT;
    bool more = false;
    if (c->work.now_ms - c->pruned_ms < PRUNE_EVERY_MS)
        return;
    if (work_request_begin(&c->work, &err) < 0)
        return;
    bool ok = idempotency_prune(&c->work, &more, &err) == 0;
    work_request_end(&c->work, ok, &err);
    if (!more) /* else go on in the next tick: what is due must not pile up */
        c->pruned_ms = c->work.now_ms;
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

static void leave_for_later(struct core *c, struct core_input *in)
{
    in->next = NULL;
    if (c->later_last)
        c->later_last->next = in;
    else
        c->later = in;
    c->later_last = in;
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

bool core_wants_tick(const struct core *c)
{
    return c->wants_tick;
}

void core_tick(struct core *c, struct core_input *inputs, struct outbox *out)
{
    int64_t begun_us = clock_mono_us();
    struct err err = ERR_INIT;
    struct outbox streams = {0};
    inputs = with_later(c, inputs);
    c->result_bytes = 0;
    c->wants_tick = false;
    int r = work_begin(&c->work, clock_now_ms(c->config.clock), &err);
    if (r == 0) {
        run_inputs(c, &inputs, &streams);
        prune_sometimes(c);
        r = work_commit(&c->work, &err);
    }
    if (r == 0)
        after_commit(c, inputs, &streams, out);
    else
        after_failure(c, inputs, &err, out);
    outbox_release(&streams);
    note_tick(c, inputs, begun_us);
    release_inputs(c, inputs);
}

/* ---- what is not urgent ---- */

static int64_t file_bytes(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (int64_t)st.st_size : -1;
}

static void finish_backup(struct core *c, int code, const struct err *err, struct outbox *out)
{
    struct backup b = c->backup;
    c->backup = (struct backup){0};
    store_backup_free(b.copy);
    if (code == 0) {
        struct json_out j = JSON_OUT(&b.call->result);
        buf_clear(&b.call->result);
        json_object(&j, NULL);
        json_stringz(&j, "path", b.path);
        json_int(&j, "bytes", file_bytes(b.path));
        json_end(&j);
    }
    rpc_call_done(b.request, b.call, code, err);
    reply(c, b.request, out);
    rpc_request_free(b.request);
    free(b.path);
}

/* A file that cannot be made is the caller's to know and to mend. */
static int begin_copy(struct core *c, struct err *err)
{
    int r = store_backup_begin(c->config.store, c->backup.path, &c->backup.copy, err);
    if (r != -ERR_IO && r != -ERR_INVALID_PARAMS)
        return r;
    struct err why = *err;
    return params_refuse(err, "path", why.message);
}

static bool step_backup(struct core *c, struct outbox *out)
{
    struct err err = ERR_INIT;
    if (!c->backup.request)
        return false;
    int r = STORE_ROW;
    if (!c->backup.copy)
        r = begin_copy(c, &err);
    if (r >= 0)
        r = store_backup_step(c->backup.copy, BACKUP_PAGES_PER_STEP, &err);
    if (r == STORE_ROW)
        return true;
    finish_backup(c, r, &err, out);
    return false;
}

void core_stop(struct core *c, struct outbox *out)
{
    struct err err = ERR_INIT;
    if (c->backup.request)
        finish_backup(c, err_set(&err, ERR_UNAVAILABLE, "the server is shutting down"), &err, out);
    struct core_input *waiting = with_later(c, NULL);
    for (struct core_input *in = waiting; in; in = in->next) {
        rpc_fail_all(in->request);
        reply(c, in->request, out);
    }
    release_inputs(c, waiting);
}

bool core_idle(struct core *c, struct outbox *out)
{
    work_maintain(&c->work);
    store_maintain(c->config.store);
    bool more = subscriptions_pump(c->subscriptions, out);
    return step_backup(c, out) || more || c->wants_tick;
}

struct core *core_free(struct core *c)
{
    if (!c)
        return NULL;
    store_backup_free(c->backup.copy);
    rpc_request_free(c->backup.request);
    free(c->backup.path);
    release_inputs(c, with_later(c, NULL));
    subscriptions_free(c->subscriptions);
    work_release(&c->work);
    store_close(c->config.store);
    free(c);
    return NULL;
}
