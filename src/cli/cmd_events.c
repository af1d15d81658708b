/*
 * cmd_events.c: `reeve events`: the log, as it is or as it grows, in the order of commit.
 *
 * A feed begins after a global id. -n, --since and --follow only decide which id that is; from
 * there it is read page by page (event.list), or followed (the server's event stream, until a
 * signal). The server knows positions, not times: the first event of a time is looked for by
 * bisection, since times grow with ids.
 */
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macro.h"
#include "base/mem.h"
#include "cli/connect.h"
#include "cli/print.h"
#include "cli/signals.h"
#include "cli/verbs.h"
#include "cli/when.h"

enum { PAGE = 500 };

struct feed {
    const struct cli_args *args;
    struct client *client;
    int64_t conversation; /* or CLIENT_ALL */
    int64_t after_id;     /* what is shown comes after this event */
    int64_t last_id;      /* of the newest event there was when we began */
    int64_t now_ms;       /* on the server's clock, then */
    struct arena arena;   /* of one page, or one event of the stream */
    struct buf out;
    struct err *err;
};

static void add_event(struct feed *f, const struct json *event)
{
    if (cli_flag(f->args, "json")) {
        print_json(&f->out, event);
        buf_addc(&f->out, '\n');
    } else {
        print_event(&f->out, event);
    }
}

/* ---- asking ---- */

static int call(struct feed *f, const char *method, struct str params, const struct json **ret)
{
    arena_clear(&f->arena);
    return client_call(f->client, method, params, &f->arena, ret, f->err);
}

/* A page of events of the feed; `key` (afterId, afterSeq) says what `after` is. */
static int list(struct feed *f, const char *key, int64_t after, int limit, const struct json **ret)
{
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX);
    const struct json *result;
    struct json_out w = JSON_OUT(&params);
    json_object(&w, NULL);
    if (f->conversation != CLIENT_ALL)
        json_int(&w, "conversation", f->conversation);
    json_int(&w, key, after);
    json_int(&w, "limit", limit);
    json_end(&w);
    int r = call(f, "event.list", buf_str(&params), &result);
    if (r < 0)
        return r;
    *ret = json_get(result, "events");
    if (!*ret || (*ret)->type != JSON_ARRAY)
        return err_set(f->err, ERR_INTERNAL, "event.list answers without events");
    return 0;
}

static int ask_server(struct feed *f)
{
    const struct json *info;
    int r = call(f, "server.info", STR("{}"), &info);
    if (r < 0)
        return r;
    f->last_id = json_get_int(info, "lastEventId", 0);
    if (!when_parse(json_get_text(info, "now"), &f->now_ms))
        return err_set(f->err, ERR_INTERNAL, "server.info answers without a time");
    return 0;
}

/* ---- where it begins ---- */

/* The id before that of the first event after `seq`; if there is none, that of the newest. */
static int id_of_seq(struct feed *f, int64_t seq, int64_t *ret)
{
    const struct json *events;
    int r = list(f, "afterSeq", MAX(seq, INT64_C(0)), 1, &events);
    if (r == 0)
        *ret = events->count ? json_get_int(events->first, "id", 1) - 1 : f->last_id;
    return r;
}

static int id_of_last(struct feed *f, int64_t count, int64_t *ret)
{
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX);
    const struct json *got;
    if (f->conversation == CLIENT_ALL) {
        *ret = MAX(f->last_id - count, INT64_C(0));
        return 0;
    }
    buf_addf(&params, "{\"conversation\":%lld}", (long long)f->conversation);
    int r = call(f, "conversation.get", buf_str(&params), &got);
    int64_t last_seq = r == 0 ? json_get_int(json_get(got, "head"), "lastSeq", 0) : 0;
    return r < 0 ? r : id_of_seq(f, last_seq - count, ret);
}

/* Is the first event after this id not older than `ms`? Also if there is none. */
static int is_late(struct feed *f, int64_t after, int64_t ms, bool *ret)
{
    const struct json *events;
    int64_t at_ms = 0;
    int r = list(f, "afterId", after, 1, &events);
    if (r < 0)
        return r;
    *ret =
        !events->count || (when_parse(json_get_text(events->first, "ts"), &at_ms) && at_ms >= ms);
    return 0;
}

static int id_of_time(struct feed *f, int64_t ms, int64_t *ret)
{
    int64_t low = 0, high = f->last_id;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        bool late;
        int r = is_late(f, middle, ms, &late);
        if (r < 0)
            return r;
        if (late)
            high = middle;
        else
            low = middle + 1;
    }
    *ret = low;
    return 0;
}

static int id_of_since(struct feed *f, const char *since, int64_t *ret)
{
    int64_t seq, ms;
    if (str_to_int(str_of(since), &seq))
        return id_of_seq(f, seq, ret);
    REQUIRE(when_parse_since(str_of(since), f->now_ms, &ms)); /* checked by check_since() */
    return id_of_time(f, ms, ret);
}

/* Nobody who asked for a part is told that it is one; who follows may not know that he did. */
static void say_what_is_left_out(const struct feed *f)
{
    bool said = cli_flag(f->args, "since") || cli_flag(f->args, "all");
    if (!said && f->after_id > 0 && f->conversation == CLIENT_ALL)
        fprintf(stderr, "reeve events: %lld earlier event%s left out; --all shows them\n",
                (long long)f->after_id, f->after_id == 1 ? "" : "s");
    else if (!said && f->after_id > 0)
        fprintf(stderr, "reeve events: earlier events left out; --all shows them\n");
}

static int find_start(struct feed *f)
{
    const char *since = cli_value(f->args, "since");
    int64_t count, from_since = 0, from_last = 0;
    int has_last = cli_int(f->args, "last", 0, &count, f->err);
    int r = ask_server(f);
    if (r == 0 && since)
        r = id_of_since(f, since, &from_since);
    if (r == 0 && has_last)
        r = id_of_last(f, count, &from_last);
    if (r < 0)
        return r;
    bool from_now = cli_flag(f->args, "follow") && !since && !has_last && !cli_flag(f->args, "all");
    f->after_id = from_now ? f->last_id : MAX(from_since, from_last);
    say_what_is_left_out(f);
    return 0;
}

/* ---- reading what is there ---- */

static int read_all(struct feed *f)
{
    for (;;) {
        const struct json *events;
        int r = list(f, "afterId", f->after_id, PAGE, &events);
        if (r < 0 || events->count == 0)
            return r;
        JSON_FOREACH (event, events) {
            add_event(f, event);
            f->after_id = MAX(f->after_id, json_get_int(event, "id", 0));
        }
        r = print_flush(&f->out, f->err);
        if (r < 0)
            return r;
    }
}

/* ---- following ---- */

static int on_event(void *ctx, int64_t id, struct str data)
{
    struct feed *f = ctx;
    const struct json *event;
    (void)id;
    arena_clear(&f->arena);
    int r = json_parse(&f->arena, data, JSON_DEPTH_MAX, &event, f->err);
    if (r < 0)
        return r;
    add_event(f, event);
    return print_flush(&f->out, f->err);
}

static void on_lost(void *ctx, const char *why)
{
    (void)ctx;
    fprintf(stderr, "reeve events: the stream is interrupted (%s); waiting for the server\n", why);
}

static int follow(struct feed *f)
{
    const struct client_stream_handler handler = {.event = on_event, .lost = on_lost, .ctx = f};
    struct pollfd signals = {.fd = -1, .events = POLLIN};
    int r = signals_open(&signals.fd, f->err);
    if (r < 0)
        return r;
    struct client_stream *stream =
        client_stream_new(f->client, f->conversation, f->after_id, &handler);
    do
        r = client_stream_wait(stream, &signals, 1, -1, f->err);
    while (r == 0 && !signals.revents);
    client_stream_free(stream);
    close(signals.fd);
    return r;
}

/* ---- the verb ---- */

/* Before anything is asked of a server. */
static int check_since(const struct feed *f, const char *since, struct err *err)
{
    int64_t value;
    bool is_seq = str_to_int(str_of(since), &value);
    if (is_seq && (value < 0 || f->conversation == CLIENT_ALL))
        return err_set(err, ERR_USAGE,
                       "--since %s is an event of one conversation: give --conversation too, "
                       "or a time like 10m",
                       since);
    if (!is_seq && !when_parse_since(str_of(since), 0, &value))
        return err_set(err, ERR_USAGE,
                       "--since takes 90s, 10m, 4h, a time like 2026-11-15T09:30, or a seq; "
                       "not '%s'",
                       since);
    return 0;
}

static int check_args(struct feed *f, struct err *err)
{
    const char *since = cli_value(f->args, "since");
    int64_t count;
    int r = cli_int(f->args, "conversation", 0, &f->conversation, err);
    int has_last = r < 0 ? r : cli_int(f->args, "last", 0, &count, err);
    if (has_last < 0)
        return has_last;
    if (cli_flag(f->args, "all") && (has_last || since))
        return err_set(err, ERR_USAGE, "--all leaves nothing out: not with -n or --since");
    return since ? check_since(f, since, err) : 0;
}

static int run(const struct cli_args *args, struct err *err)
{
    struct feed f = {
        .args = args, .conversation = CLIENT_ALL, .out = BUF_INIT(PRINT_BYTES_MAX), .err = err};
    int r = check_args(&f, err);
    if (r == 0)
        r = cli_connect(args, &f.client, err);
    if (r < 0)
        return r;
    r = find_start(&f);
    if (r == 0)
        r = cli_flag(args, "follow") ? follow(&f) : read_all(&f);
    client_close(f.client);
    buf_release(&f.out);
    arena_release(&f.arena);
    return r;
}

// clang-format off
static const struct verb_option options[] = {
    {"follow", 'f', NULL, 0, "go on as events happen, from now on, until Ctrl-C; survives restarts of the server"},
    {"last", 'n', "N", 0, "begin with the last N"},
    {"since", 0, "TIME", 0, "begin 90s, 10m, 4h ago, at 2026-11-15T09:30 (UTC), or, of one conversation, after event SEQ"},
    {"all", 0, NULL, 0, "begin with the first, also with --follow"},
    {"conversation", 0, "N", 0, "only this one (default: all you may see)"},
    OPTIONS_END,
};
// clang-format on

const struct verb verb_events = {
    .name = "events",
    .synopsis = "",
    .summary = "print the log, or follow it",
    .details = "A line per event, in the order in which they happened, whatever conversation they "
               "are of:\n"
               "time, conversation:turn.event, who, type and finality, text.",
    .flags = VERB_CLIENT | VERB_JSON,
    .options = options,
    .run = run,
};
