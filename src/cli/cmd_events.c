/*
 * cmd_events.c: `reeve events`: the log, as it is or as it grows.
 *
 * Without -f the log is read page by page: of one conversation, or of all, one after the other.
 * With -f it is the server's event stream, in the order of commit, and goes on until a signal ends
 * it. What --since leaves out is left out here: the server knows positions, not ages.
 */
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macro.h"
#include "cli/connect.h"
#include "cli/print.h"
#include "cli/signals.h"
#include "cli/verbs.h"

enum { PAGE = 500 };

struct feed {
    struct client *client;
    bool json;
    int64_t conversation;         /* or CLIENT_ALL */
    int64_t after_seq;            /* events up to this one are left out */
    char cutoff[CLOCK_ISO_BYTES]; /* and those before this time; "" if there is none */
    struct arena arena;           /* of one page, or one event of the stream */
    struct buf out;
    struct err *err;
};

/* ISO times of one form are in order when their letters are. */
static bool is_before(struct str ts, const char *cutoff)
{
    return *cutoff && ts.n == CLOCK_ISO_BYTES - 1 && memcmp(ts.p, cutoff, ts.n) < 0;
}

static void add_event(struct feed *f, const struct json *event)
{
    if (json_get_int(event, "seq", 0) <= f->after_seq ||
        is_before(json_get_text(event, "ts"), f->cutoff))
        return;
    if (f->json) {
        print_json(&f->out, event);
        buf_addc(&f->out, '\n');
    } else {
        print_event(&f->out, event);
    }
}

/* ---- reading what is there ---- */

static int call(struct feed *f, const char *method, const struct json **ret, const char *key,
                struct buf *params)
{
    const struct json *result;
    int r = client_call(f->client, method, buf_str(params), &f->arena, &result, f->err);
    if (r < 0)
        return r;
    const struct json *list = json_get(result, key);
    if (!list || list->type != JSON_ARRAY)
        return err_set(f->err, ERR_INTERNAL, "%s answers without %s", method, key);
    *ret = list;
    return 0;
}

static int read_conversation(struct feed *f, int64_t conversation)
{
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX);
    int64_t after = f->after_seq;
    for (;;) {
        const struct json *events;
        arena_clear(&f->arena);
        buf_clear(&params);
        buf_addf(&params, "{\"conversation\":%lld,\"afterSeq\":%lld,\"limit\":%d}",
                 (long long)conversation, (long long)after, PAGE);
        int r = call(f, "event.list", &events, "events", &params);
        if (r < 0 || events->count == 0)
            return r;
        JSON_FOREACH (event, events) {
            add_event(f, event);
            after = MAX(after, json_get_int(event, "seq", 0));
        }
        r = print_flush(&f->out, f->err);
        if (r < 0)
            return r;
    }
}

/* The numbers of a page of conversations that may have something to show; 0 in *ret_next: the end.
 */
static int list_page(struct feed *f, int64_t numbers[PAGE], size_t *ret_count, int64_t *ret_next)
{
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX);
    const struct json *conversations;
    int64_t last = 0;
    arena_clear(&f->arena);
    buf_addf(&params, "{\"after\":%lld,\"limit\":%d}", (long long)*ret_next, PAGE);
    int r = call(f, "conversation.list", &conversations, "conversations", &params);
    if (r < 0)
        return r;
    *ret_count = 0;
    JSON_FOREACH (c, conversations) {
        last = json_get_int(c, "conversation", 0);
        if (*ret_count < PAGE && !is_before(json_get_text(c, "updatedAt"), f->cutoff))
            numbers[(*ret_count)++] = last;
    }
    *ret_next = last;
    return 0;
}

static int read_all(struct feed *f)
{
    int64_t numbers[PAGE], next = 0;
    size_t count;
    int r = read_conversation(f, 0); /* the server's own log, for those who may see it */
    if (r < 0 && r != -ERR_NOT_FOUND && r != -ERR_FORBIDDEN)
        return r;
    do {
        r = list_page(f, numbers, &count, &next);
        for (size_t i = 0; r == 0 && i < count; i++)
            r = read_conversation(f, numbers[i]);
    } while (r == 0 && next > 0);
    return r;
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

/* Where a stream that leaves out events up to after_seq may begin: the id of just that event. */
static int start_id(struct feed *f, int64_t *ret)
{
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX);
    const struct json *events;
    *ret = 0;
    if (f->after_seq == 0)
        return 0;
    buf_addf(&params, "{\"conversation\":%lld,\"afterSeq\":%lld,\"limit\":1}",
             (long long)f->conversation, (long long)f->after_seq - 1);
    int r = call(f, "event.list", &events, "events", &params);
    if (r == 0 && events->count)
        *ret = json_get_int(events->first, "id", 0);
    return r;
}

static int follow(struct feed *f)
{
    const struct client_stream_handler handler = {.event = on_event, .lost = on_lost, .ctx = f};
    struct pollfd signals = {.fd = -1, .events = POLLIN};
    int64_t after;
    int r = start_id(f, &after);
    if (r == 0)
        r = signals_open(&signals.fd, f->err);
    if (r < 0)
        return r;
    struct client_stream *stream = client_stream_new(f->client, f->conversation, after, &handler);
    do
        r = client_stream_wait(stream, &signals, 1, -1, f->err);
    while (r == 0 && !signals.revents);
    client_stream_free(stream);
    close(signals.fd);
    return r;
}

/* ---- the verb ---- */

static int parse_since(struct feed *f, const char *since, struct err *err)
{
    int64_t ago_ms;
    if (str_to_int(str_of(since), &f->after_seq)) {
        if (f->after_seq < 0 || f->conversation == CLIENT_ALL)
            return err_set(err, ERR_USAGE,
                           "--since %s is an event of one conversation: give --conversation too, "
                           "or a time like 10m",
                           since);
        return 0;
    }
    if (!clock_parse_duration(str_of(since), &ago_ms))
        return err_set(err, ERR_USAGE, "--since takes a seq or a time like 90s, 10m, 4h; not '%s'",
                       since);
    clock_iso(MAX(clock_kernel.wall_ms(clock_kernel.ctx) - ago_ms, (int64_t)0), f->cutoff);
    return 0;
}

static int run(const struct cli_args *args, struct err *err)
{
    struct feed f = {
        .json = cli_flag(args, "json"),
        .conversation = CLIENT_ALL,
        .out = BUF_INIT(PRINT_BYTES_MAX),
        .err = err,
    };
    const char *since = cli_value(args, "since");
    int r = cli_int(args, "conversation", 0, &f.conversation, err);
    if (r >= 0)
        r = since ? parse_since(&f, since, err) : 0;
    if (r >= 0)
        r = cli_connect(args, &f.client, err);
    if (r < 0)
        return r;
    if (cli_flag(args, "follow"))
        r = follow(&f);
    else
        r = f.conversation == CLIENT_ALL ? read_all(&f) : read_conversation(&f, f.conversation);
    client_close(f.client);
    buf_release(&f.out);
    arena_release(&f.arena);
    return r;
}

// clang-format off
static const struct verb_option options[] = {
    {"follow", 'f', NULL, 0, "go on as events happen, until Ctrl-C; survives restarts of the server"},
    {"conversation", 0, "N", 0, "only this one (default: all you may see)"},
    {"since", 0, "SEQ-OR-TIME", 0, "only what came after event SEQ, or in the last 90s, 10m, 4h"},
    OPTIONS_END,
};
// clang-format on

const struct verb verb_events = {
    .name = "events",
    .synopsis = "",
    .summary = "print the log, or follow it",
    .details = "A line per event: time, conversation:turn.event, who, type and finality, text.",
    .flags = VERB_CLIENT | VERB_JSON,
    .options = options,
    .run = run,
};
