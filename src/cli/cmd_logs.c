/*
 * cmd_logs.c: `reeve logs`: what an agent's processes have printed, from the machine it runs on.
 *
 * With -f it goes on: it asks again, every so often, for what came since. A machine or server that
 * is away for a while is waited for; what was printed meanwhile comes when it is back.
 */
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/mem.h"
#include "cli/agent_name.h"
#include "cli/connect.h"
#include "cli/print.h"
#include "cli/signals.h"
#include "cli/verbs.h"

enum { ASK_AGAIN_MS = 500, TAIL_BYTES = 65536 };

struct logs {
    const struct cli_args *args;
    struct client *client;
    struct agent_name agent;
    int64_t bytes;
    char *position; /* where to go on; NULL: from the tail */
    struct buf out;
};

static void add_lines(struct buf *out, struct str text)
{
    while (text.n) {
        const char *end = memchr(text.p, '\n', text.n);
        struct str line = {text.p, end ? (size_t)(end - text.p) : text.n};
        print_clean(out, line, 0);
        buf_addc(out, '\n');
        text = str_skip(text, line.n + 1);
    }
}

static void write_params(const struct logs *l, struct buf *params)
{
    struct json_out w = JSON_OUT(params);
    agent_name_write(&l->agent, &w);
    json_int(&w, "tailBytes", l->bytes);
    if (l->position)
        json_stringz(&w, "after", l->position);
    json_end(&w);
}

static int show(struct logs *l, struct err *err)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX);
    const struct json *answer;
    write_params(l, &params);
    int r = client_call(l->client, "agent.logs", buf_str(&params), &a, &answer, err);
    if (r < 0)
        return r;
    if (cli_flag(l->args, "json"))
        r = print_result(answer, err);
    else
        add_lines(&l->out, json_get_text(answer, "text"));
    struct str next = json_get_text(answer, "next");
    free(l->position);
    l->position = next.n ? mem_strndup(next.p, next.n) : NULL;
    return r < 0 ? r : print_flush(&l->out, err);
}

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

static int run(const struct cli_args *args, struct err *err)
{
    struct logs l = {.args = args, .bytes = TAIL_BYTES, .out = BUF_INIT(PRINT_BYTES_MAX)};
    int r = agent_name_parse(args->words[0], &l.agent, err);
    if (r == 0)
        r = MIN(cli_int(args, "bytes", 1, &l.bytes, err), 0);
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

static const struct verb_option options[] = {
    {"follow", 'f', NULL, 0, "go on until Ctrl-C"},
    {"bytes", 0, "N", 0, "at most so much of the end (default 65536)"},
    OPTIONS_END,
};

const struct verb verb_logs = {
    .name = "logs",
    .synopsis = "CONVERSATION:ROLE",
    .summary = "show what an agent's processes have printed",
    .details = "Fetched from the machine that runs it: each line with its time and out or err.",
    .flags = VERB_CLIENT | VERB_JSON,
    .options = options,
    .run = run,
};
