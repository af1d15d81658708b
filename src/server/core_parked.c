/*
 * core_parked.c: see core_private.h.
 *
 * A parked call keeps its request: what comes behind it in the batch is executed when it is done,
 * and all are answered together. The calls before it are answered as they were committed, whatever
 * becomes of it; if the tick that executed them is lost, they fail with it.
 */
#include "server/core_private.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

enum { BACKUP_PAGES_PER_STEP = 64 };

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

static struct parked park(const struct core *c, struct rpc_request *request, struct rpc_call *call)
{
    return (struct parked){request, call, c->stats.ticks};
}

static int refuse_second(struct err *err, const char *what)
{
    err_set(err, ERR_RATE_LIMITED, "%s is under way", what);
    return err_int(err, "limit", 1);
}

static int host_begin_backup(void *ctx, struct rpc_request *request, struct rpc_call *call,
                             struct str path, struct err *err)
{
    struct core *c = ctx;
    if (c->backup.by.request)
        return refuse_second(err, "a backup");
    c->backup = (struct backup){.by = park(c, request, call), .path = mem_strndup(path.p, path.n)};
    return 0; /* begins after the commit: core_idle() */
}

static int host_advance_clock(void *ctx, struct rpc_request *request, struct rpc_call *call,
                              int64_t ms, bool is_gap, struct err *err)
{
    struct core *c = ctx;
    if (!c->config.clock->manual)
        return err_set(err, ERR_FORBIDDEN, "the clock is real; start with --clock=manual");
    if (ms > CLOCK_MS_MAX - c->work.now_ms)
        return params_refuse(err, "ms", "goes beyond the year 9999");
    if (c->stepping.by.request)
        return refuse_second(err, "a step of the clock");
    c->stepping = (struct stepping){
        .by = park(c, request, call), .target_ms = c->work.now_ms + ms, .jumps = is_gap && ms > 0};
    return 0; /* the ticks that follow do it: tick_time() */
}

static bool host_run_once(void *ctx, struct rpc_request *request, struct rpc_call *call,
                          enum rule_id only)
{
    struct core *c = ctx;
    if (c->pass.request || !ladder_begin_pass(c->ladder, only))
        return false;
    c->pass = park(c, request, call);
    return true;
}

struct rpc_host parked_host(struct core *c)
{
    return (struct rpc_host){.ctx = c,
                             .write_info = host_write_info,
                             .write_config = host_write_config,
                             .advance_clock = host_advance_clock,
                             .begin_backup = host_begin_backup,
                             .run_once = host_run_once,
                             .ladder = c->ladder};
}

/* ---- done, or lost ---- */

static struct json_out begin_result(const struct parked *p)
{
    struct json_out j = JSON_OUT(&p->call->result);
    buf_clear(&p->call->result);
    json_object(&j, NULL);
    return j;
}

void parked_done(struct core *c, struct parked *p, int code, const struct err *err,
                 struct outbox *out)
{
    struct rpc_request *r = p->request;
    if (!r)
        return;
    rpc_call_done(r, p->call, code, err);
    *p = (struct parked){0};
    if (rpc_has_more(r)) {
        core_execute_later(c, r);
        return;
    }
    core_reply(c, r, out);
    rpc_request_free(r);
}

/* The calls before a parked one in its batch are committed: nothing that comes can fail them. */
static void keep_executed(const struct parked *p)
{
    if (p->request)
        p->request->kept = (size_t)(p->call - p->request->calls);
}

void parked_committed(struct core *c)
{
    keep_executed(&c->backup.by);
    keep_executed(&c->pass);
    keep_executed(&c->stepping.by);
}

/* The calls before a parked one in its batch, if they were executed in the tick that was lost. */
static void fail_executed(const struct core *c, const struct parked *p)
{
    if (p->request && p->tick == c->stats.ticks)
        rpc_fail_all(p->request);
}

void parked_lost(struct core *c, int code, const struct err *err, struct outbox *out)
{
    fail_executed(c, &c->backup.by);
    fail_executed(c, &c->pass);
    fail_executed(c, &c->stepping.by);
    parked_done(c, &c->pass, code, err, out);
    parked_done(c, &c->stepping.by, code, err, out);
    c->stepping = (struct stepping){0};
}

/* Is there nothing left to do at this time? */
static bool is_quiet(const struct core *c)
{
    int64_t now_ms = c->work.now_ms;
    return !ladder_is_in_pass(c->ladder) && ladder_next_ms(c->ladder) > now_ms &&
           lifecycle_next_ms(c->lifecycle) > now_ms;
}

static void finish_stepping(struct core *c, struct outbox *out)
{
    struct stepping *s = &c->stepping;
    if (!s->by.request)
        return;
    if (c->work.now_ms == s->target_ms)
        s->jumps = false;
    if (c->work.now_ms < s->target_ms || !is_quiet(c))
        return;
    struct json_out j = begin_result(&s->by);
    json_time(&j, "now", c->work.now_ms);
    json_end(&j);
    parked_done(c, &s->by, 0, NULL, out);
    c->stepping = (struct stepping){0};
}

static void finish_pass(struct core *c, struct outbox *out)
{
    struct err err = ERR_INIT;
    if (c->step_failed)
        parked_done(c, &c->pass, err_set(&err, ERR_UNAVAILABLE, "the pass failed"), &err, out);
    if (!c->pass.request || ladder_is_in_pass(c->ladder))
        return;
    struct json_out j = begin_result(&c->pass);
    method_write_pass(&j, ladder_last_pass(c->ladder), false);
    json_end(&j);
    parked_done(c, &c->pass, 0, NULL, out);
}

void parked_finish(struct core *c, struct outbox *out)
{
    finish_pass(c, out);
    finish_stepping(c, out);
}

/* ---- backups ---- */

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
        struct json_out j = begin_result(&b.by);
        json_stringz(&j, "path", b.path);
        json_int(&j, "bytes", file_bytes(b.path));
        json_end(&j);
    }
    parked_done(c, &b.by, code, err, out);
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

bool parked_step_backup(struct core *c, struct outbox *out)
{
    struct err err = ERR_INIT;
    if (!c->backup.by.request)
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

/* ---- the end ---- */

void parked_stop(struct core *c, int code, const struct err *err, struct outbox *out)
{
    if (c->backup.by.request)
        finish_backup(c, code, err, out);
    parked_done(c, &c->pass, code, err, out);
    parked_done(c, &c->stepping.by, code, err, out);
}

void parked_release(struct core *c)
{
    store_backup_free(c->backup.copy);
    rpc_request_free(c->backup.by.request);
    rpc_request_free(c->pass.request);
    rpc_request_free(c->stepping.by.request);
    free(c->backup.path);
}
