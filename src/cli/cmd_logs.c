/*
 * cmd_logs.c: `reeve logs`: what an agent's processes have printed, from the machine it runs on.
 *
 * The end is asked for first; its answer says how many lines there are before it, and where to go
 * on. If that is not enough (--all, --since, a large -n), the log is read from its start up to that
 * place, and lines that nobody wants are skipped here: the machine knows positions, not times.
 *
 * With -f it goes on: it asks again, every so often, for what came since. A machine or server that
 * is away for a while is waited for; what was printed meanwhile comes when it is back.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macro.h"
#include "base/mem.h"
#include "cli/agent_name.h"
#include "cli/connect.h"
#include "cli/print.h"
#include "cli/signals.h"
#include "cli/verbs.h"
#include "cli/when.h"

enum { ASK_AGAIN_MS = 500, TAIL_BYTES = 65536, PAGE_BYTES = 131072 };

struct logs {
    const struct cli_args *args;
    struct client *client;
    struct agent_name agent;
    int64_t bytes;
    int64_t last;     /* -n; -1: not given */
    int64_t since_ms; /* -1: not given */
    char *position;   /* where to go on; NULL: from the tail */
    struct buf out;
};

/* What is done with the lines of a text: some skipped, some shown. */
struct lines {
    int64_t skip, show; /* how many, from here on */
    int64_t since_ms;   /* those before it are skipped, too; -1: none */
};

/* A line begins with its time, or is a piece of one that does. */
static bool is_before(struct str line, int64_t ms)
{
    int64_t at_ms;
    return line.n >= CLOCK_ISO_BYTES - 1 &&
           when_parse((struct str){line.p, CLOCK_ISO_BYTES - 1}, &at_ms) && at_ms < ms;
}

static void add_lines(struct buf *out, struct str text, struct lines *lines)
{
    while (text.n && (lines->skip || lines->show)) {
        const char *end = memchr(text.p, '\n', text.n);
        struct str line = {text.p, end ? (size_t)(end - text.p) : text.n};
        text = str_skip(text, line.n + 1);
        if (lines->skip) {
            lines->skip--;
            continue;
        }
        lines->show--;
        if (is_before(line, lines->since_ms))
            continue;
        print_clean(out, line, 0);
        buf_addc(out, '\n');
    }
}

static int64_t count_lines(struct str text)
{
    int64_t n = text.n && text.p[text.n - 1] != '\n';
    for (size_t i = 0; i < text.n; i++)
        n += text.p[i] == '\n';
    return n;
}

/* ---- asking ---- */

static int ask(struct logs *l, const char *after, int64_t bytes, struct arena *a,
               const struct json **ret, struct err *err)
{
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    agent_name_write(&l->agent, &w);
    json_int(&w, "tailBytes", bytes);
    if (after)
        json_stringz(&w, "after", after);
    json_end(&w);
    return client_call(l->client, "agent.logs", buf_str(&params), a, ret, err);
}

static char *next_of(const struct json *answer)
{
    struct str next = json_get_text(answer, "next");
    return next.n ? mem_strndup(next.p, next.n) : NULL;
}

/* From its first line, as far as `lines` want it. */
static int show_from_start(struct logs *l, struct lines *lines, struct err *err)
{
    _cleanup_free_ char *after = mem_strdup("start");
    int r = 0;
    while (r == 0 && after && lines->show > 0) {
        _cleanup_(arena_release) struct arena a = ARENA_INIT;
        const struct json *answer;
        r = ask(l, after, PAGE_BYTES, &a, &answer, err);
        if (r < 0 || !json_get_text(answer, "text").n)
            break;
        add_lines(&l->out, json_get_text(answer, "text"), lines);
        free(after);
        after = next_of(answer);
        r = print_flush(&l->out, err);
    }
    return r;
}

/* -1: nobody knows how many. */
static void say_what_is_left_out(int64_t count)
{
    if (count > 0)
        fprintf(stderr, "reeve logs: %lld earlier line%s left out; --all shows them\n",
                (long long)count, count == 1 ? "" : "s");
    else if (count < 0)
        fprintf(stderr, "reeve logs: earlier lines left out; --all shows them\n");
}

/* The end is enough: all its lines, or the last of them. */
static int show_end(struct logs *l, struct str text, int64_t before)
{
    struct lines lines = {.show = INT64_MAX, .since_ms = l->since_ms};
    if (l->last >= 0)
        lines.skip = MAX(count_lines(text) - l->last, INT64_C(0));
    say_what_is_left_out(before < 0 ? before : before + lines.skip);
    add_lines(&l->out, text, &lines);
    return 0;
}

static int show_first(struct logs *l, const struct json *answer, struct err *err)
{
    struct str text = json_get_text(answer, "text");
    bool wants_all = cli_flag(l->args, "all") || l->since_ms >= 0;
    int64_t count = count_lines(text);
    int64_t before =
        json_get_int(answer, "linesBefore", json_get_bool(answer, "truncated") ? -1 : 0);
    if (before == 0 || (!wants_all && l->last <= count))
        return show_end(l, text, before);
    struct lines lines = {.show = INT64_MAX, .since_ms = l->since_ms};
    if (before > 0) { /* up to where the end has ended */
        lines.skip = l->last >= 0 ? MAX(before + count - l->last, INT64_C(0)) : 0;
        lines.show = before + count - lines.skip;
    }
    say_what_is_left_out(lines.skip);
    return show_from_start(l, &lines, err);
}

static int show(struct logs *l, struct err *err)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    struct lines all = {.show = INT64_MAX, .since_ms = -1};
    const struct json *answer;
    int r = ask(l, l->position, l->bytes, &a, &answer, err);
    if (r < 0)
        return r;
    if (cli_flag(l->args, "json"))
        r = print_result(answer, err);
    else if (!l->position)
        r = show_first(l, answer, err);
    else
        add_lines(&l->out, json_get_text(answer, "text"), &all);
    free(l->position);
    l->position = next_of(answer);
    return r < 0 ? r : print_flush(&l->out, err);
}

/* ---- following ---- */

/* Until a signal. */
static int follow(struct logs *l, struct err *err)
{
    struct pollfd told = {.events = POLLIN};
    int r = signals_open(&told.fd, err);
    if (r < 0)
        return r;
    while (poll(&told, 1, ASK_AGAIN_MS) == 0) {
        struct err away = ERR_INIT;
        r = show(l, &away);
        if (r == -ERR_NO_SERVER)
            client_find_again(l->client);
        if (r < 0 && !err_may_retry(r)) {
            *err = away;
            break;
        }
        r = 0;
    }
    close(told.fd);
    return r;
}

static int check_args(struct logs *l, struct err *err)
{
    const char *since = cli_value(l->args, "since");
    int r = cli_int(l->args, "bytes", 1, &l->bytes, err);
    int has_last = r < 0 ? r : cli_int(l->args, "last", 0, &l->last, err);
    bool all = cli_flag(l->args, "all"), json = cli_flag(l->args, "json");
    if (has_last < 0)
        return has_last;
    if (all + !!since + has_last + r > 1)
        return err_set(err, ERR_USAGE, "--all, --since, --last and --bytes exclude each other");
    if (json && (all || since || has_last))
        return err_set(err, ERR_USAGE,
                       "--json shows an answer of the server as it is: only --bytes");
    int64_t now_ms = clock_kernel.wall_ms(clock_kernel.ctx);
    if (since && !when_parse_since(str_of(since), now_ms, &l->since_ms))
        return err_set(err, ERR_USAGE,
                       "--since takes 90s, 10m, 4h, or a time like 2026-11-15T09:30; not '%s'",
                       since);
    return 0;
}

static int run(const struct cli_args *args, struct err *err)
{
    struct logs l = {.args = args,
                     .bytes = TAIL_BYTES,
                     .last = -1,
                     .since_ms = -1,
                     .out = BUF_INIT(PRINT_BYTES_MAX)};
    int r = agent_name_parse(args->words[0], &l.agent, err);
    if (r == 0)
        r = check_args(&l, err);
    if (r == 0)
        r = cli_connect(args, &l.client, err);
    if (r == 0)
        r = show(&l, err);
    if (r == 0 && cli_flag(args, "follow"))
        r = follow(&l, err);
    client_close(l.client);
    free(l.position);
    buf_release(&l.out);
    return r;
}

// clang-format off
static const struct verb_option options[] = {
    {"follow", 'f', NULL, 0, "go on until Ctrl-C"},
    {"last", 'n', "N", 0, "the last N lines"},
    {"since", 0, "TIME", 0, "what was printed in the last 90s, 10m, 4h, or since 2026-11-15T09:30 (UTC)"},
    {"all", 0, NULL, 0, "all of it"},
    {"bytes", 0, "N", 0, "at most so much of the end (default 65536)"},
    OPTIONS_END,
};
// clang-format on

const struct verb verb_logs = {
    .name = "logs",
    .synopsis = "CONVERSATION:ROLE",
    .summary = "show what an agent's processes have printed",
    .details = "Fetched from the machine that runs it: each line with its time and out or err.",
    .flags = VERB_CLIENT | VERB_JSON,
    .options = options,
    .run = run,
};
