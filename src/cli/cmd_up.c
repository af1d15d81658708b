/*
 * cmd_up.c: `reeve up`: a server and a machine in the foreground, with something to look at.
 *
 * Starts `reeve serve` as a child, waits until it has left its address, starts `reeve machine`
 * beside it, opens the demo through the ordinary client and prints events as they arrive through
 * the ordinary stream; then it stays until Ctrl-C. One thread: the stream's wait also watches the
 * signals and the children.
 *
 * A child that is killed is started again (keeper.h), at the same address: agents go on meanwhile
 * under their shims, and come back to it. A child that ends by itself is our end too, with its
 * status.
 *
 * The end is in the order that loses nothing: the machine first, told to stop every agent and to
 * wait until nothing is left of them, while the server is there to hear of it; then the server.
 * Both are waited for. If the machine is dead just then, `reeve down` stops the agents instead.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/macro.h"
#include "base/mem.h"
#include "cli/demo.h"
#include "cli/keeper.h"
#include "cli/print.h"
#include "cli/signals.h"
#include "cli/verbs.h"
#include "client/client.h"

enum {
    READY_POLL_MS = 20,
    READY_MS_MAX = 30000,
    STOP_MS_MAX = 15000,
    AWAY_POLL_MS = 100, /* while there is no server that a stream could be opened at */
    ARGS_MAX = 16
};

/* What a wait was ended by; or a negative code. */
enum { GO_ON, TOLD_TO_STOP, CHILD_ENDED };

struct up {
    const struct cli_args *args;
    char *folder;
    char *demo_folder; /* NULL: no demo */
    bool json;
    struct keeper server, machine;
    char *address; /* of the server, once it has one */
    int signal_fd;
    struct client *client;
    struct demo demo;
    struct arena arena;
    struct buf out;
    struct err *err;
};

/* For people; not among the lines of JSON if those are asked for. */
static void say(const struct up *u, const char *fmt, ...) _printf_(2, 3);
static void say(const struct up *u, const char *fmt, ...)
{
    va_list ap;
    FILE *to = u->json ? stderr : stdout;
    va_start(ap, fmt);
    vfprintf(to, fmt, ap);
    va_end(ap);
    fflush(to);
}

/* ---- the children ---- */

static int start(struct up *u, struct keeper *k, const char *const *words)
{
    char *argv[2 * ARGS_MAX + 1] = {(char *)"reeve"};
    size_t n = 1;
    for (; *words; words++) {
        REQUIRE(n < ARRAY_LEN(argv) - 1);
        argv[n++] = (char *)*words;
    }
    return keeper_start(k, argv, u->err);
}

static int start_server(struct up *u)
{
    const char *words[2 * ARGS_MAX] = {"serve", "--log-level=warn", "--data", u->folder};
    const char *address = u->address ? u->address : cli_value(u->args, "listen");
    size_t n = 4;
    if (address) {
        words[n++] = "--listen";
        words[n++] = address;
    }
    for (const char *const *s = demo_settings; u->demo_folder && *s; s++) {
        words[n++] = "--set";
        words[n++] = *s;
    }
    return start(u, &u->server, words);
}

static int start_machine(struct up *u)
{
    const char *own = cli_value(u->args, "config");
    _cleanup_free_ char *config = own              ? mem_strdup(own)
                                  : u->demo_folder ? mem_printf("%s/demo.conf", u->demo_folder)
                                                   : NULL;
    const char *words[] = {"machine", "--log-level=warn",         "--data", u->folder, "--name",
                           "local",   config ? "--config" : NULL, config,   NULL};
    return start(u, &u->machine, words);
}

/* Lets a child end in its own time; a second signal or too long a time cuts it short, *ret_cut. */
static int await_end(struct up *u, struct keeper *k, bool *ret_cut)
{
    struct pollfd fds[] = {{.fd = k->child.pidfd, .events = POLLIN},
                           {.fd = u->signal_fd, .events = POLLIN}};
    while (signals_take(u->signal_fd))
        continue; /* the one that made us stop */
    *ret_cut = poll(fds, ARRAY_LEN(fds), STOP_MS_MAX) <= 0 || !fds[0].revents;
    if (*ret_cut) {
        fprintf(stderr, "reeve up: the %s does not stop; killing it\n", k->name);
        child_signal(&k->child, SIGKILL);
    }
    int status = child_reap(&k->child);
    if (status != 0)
        fprintf(stderr, "reeve up: the %s stopped with status %d\n", k->name, status);
    return status;
}

/* The machine stops its agents, and tells the server, before it ends. If it is dead, or dies over
 * it, its agents are not: they live under their shims, and `reeve down` stops them. */
static int stop_machine(struct up *u)
{
    const char *down[] = {"down", "--data", u->folder, NULL};
    int status = 128 + SIGKILL;
    bool is_cut = false;
    say(u, "\nStopping the agents and the machine; Ctrl-C again ends it at once.\n");
    if (keeper_runs(&u->machine)) {
        child_signal(&u->machine.child, SIGUSR1);
        status = await_end(u, &u->machine, &is_cut);
    }
    if (status <= 128 || is_cut)
        return status;
    return start(u, &u->machine, down) < 0 ? status : await_end(u, &u->machine, &is_cut);
}

static int stop_server(struct up *u)
{
    say(u, "Stopping the server.\n");
    bool is_cut;
    child_signal(&u->server.child, SIGTERM);
    return await_end(u, &u->server, &is_cut);
}

/* Those that run, or have left something that does. */
static int stop_all(struct up *u)
{
    bool has_agents = keeper_runs(&u->machine) || u->machine.deaths > 0;
    int machine = has_agents ? stop_machine(u) : 0;
    int server = keeper_runs(&u->server) ? stop_server(u) : 0;
    if (has_agents)
        say(u, "Stopped. The data stays in %s; the same command goes on with it.\n", u->folder);
    return server ? server : machine;
}

static bool is_ready(const struct up *u)
{
    struct err not_yet = ERR_INIT;
    int64_t pid;
    return endpoint_read_server_json(u->folder, NULL, &pid, &not_yet) == 0 &&
           pid == u->server.child.pid;
}

/*
 * Until server.json names our child: an older file may lie there. Looked at every few milliseconds,
 * since the folder itself may not exist yet for inotify to watch. GO_ON when ready.
 */
static int await_server(struct up *u)
{
    struct pollfd fds[] = {{.fd = u->server.child.pidfd, .events = POLLIN},
                           {.fd = u->signal_fd, .events = POLLIN}};
    int64_t give_up_us = clock_mono_us() + (int64_t)READY_MS_MAX * 1000;
    while (!is_ready(u)) {
        if (poll(fds, ARRAY_LEN(fds), READY_POLL_MS) > 0)
            return fds[0].revents ? CHILD_ENDED : TOLD_TO_STOP;
        if (clock_mono_us() > give_up_us)
            return err_set(u->err, ERR_UNAVAILABLE, "the server is not ready after %d s",
                           READY_MS_MAX / 1000);
    }
    return GO_ON;
}

/* ---- what is shown ---- */

/* A command to try, as it must be typed, and what it is for. */
static void say_command(const struct up *u, const char *command, const char *meaning)
{
    bool elsewhere = cli_value(u->args, "data") != NULL;
    _cleanup_free_ char *line = mem_printf("%s %s%s%s", program_invocation_name, command,
                                           elsewhere ? " --data " : "", elsewhere ? u->folder : "");
    say(u, "  %-38s  %s\n", line, meaning);
}

static void say_about_demo(const struct up *u)
{
    long long c = (long long)u->demo.conversation;
    _cleanup_free_ char *why = mem_printf("why %lld:builder", c),
                        *logs = mem_printf("logs -f %lld:builder", c);
    say_command(u, "ps", "who is there, since when, and which process to kill -9");
    say_command(u, why, "where an agent stands, why, and what happens next");
    say_command(u, logs, "what it prints");
}

static void say_where(const struct up *u)
{
    say(u, "reeve is up at %s, data in %s. In another terminal:\n\n", client_url(u->client),
        u->folder);
    if (u->demo_folder)
        say_about_demo(u);
    say_command(u, "status", "server, machines, agents and work at a glance");
    say_command(u, "events -f", "everything as it happens");
    _cleanup_free_ char *help = mem_printf("%s help", program_invocation_name);
    say(u, "  %-38s  %s\n", help, "all the rest");
    say(u, "\nCtrl-C stops it%s.\n", u->demo_folder ? ", and the agents" : "");
    if (u->demo_folder)
        say(u, "Three agents now hand each other work; some of it crashes or hangs on purpose. "
               "This is\n"
               "the log:\n\n");
    else
        say(u, "\n");
}

static int on_event(void *ctx, int64_t id, struct str data)
{
    struct up *u = ctx;
    const struct json *event;
    (void)id;
    arena_clear(&u->arena);
    int r = json_parse(&u->arena, data, JSON_DEPTH_MAX, &event, u->err);
    if (r < 0)
        return r;
    if (u->json) {
        print_json(&u->out, event);
        buf_addc(&u->out, '\n');
    } else {
        print_event(&u->out, event);
    }
    r = print_flush(&u->out, u->err);
    return r < 0 || !u->demo_folder ? r : demo_see(&u->demo, event, u->err);
}

static void on_lost(void *ctx, const char *why)
{
    (void)ctx, (void)why; /* if the server has ended, its pidfd says so in a moment */
}

/* ---- staying ---- */

/* Sees to a child that has ended, or is to be started again. */
static int mind(struct up *u, struct keeper *k, bool has_ended, int (*start_again)(struct up *u))
{
    if (has_ended && !keeper_take_end(k))
        return CHILD_ENDED;
    return keeper_is_due(k) ? start_again(u) : GO_ON;
}

/* Waits for an event, a signal, the end of a child, or the time to start one again. */
static int wait_once(struct up *u, struct client_stream *stream)
{
    struct pollfd fds[] = {{.fd = u->server.child.pidfd, .events = POLLIN},
                           {.fd = u->machine.child.pidfd, .events = POLLIN},
                           {.fd = u->signal_fd, .events = POLLIN}};
    int wait_ms = keeper_wait_ms(&u->server, keeper_wait_ms(&u->machine, -1));
    int r = client_stream_wait(stream, fds, ARRAY_LEN(fds), wait_ms, u->err);
    bool is_away = r == -ERR_NO_SERVER; /* it died before the stream was ever open */
    if (is_away)
        poll(fds, ARRAY_LEN(fds), AWAY_POLL_MS);
    if (fds[2].revents)
        return TOLD_TO_STOP;
    int s = mind(u, &u->server, fds[0].revents, start_server);
    if (s == GO_ON)
        s = mind(u, &u->machine, fds[1].revents, start_machine);
    return s != GO_ON ? s : is_away ? GO_ON : r;
}

static int stay(struct up *u, int64_t after_id)
{
    const struct client_stream_handler handler = {.event = on_event, .lost = on_lost, .ctx = u};
    struct client_stream *stream = client_stream_new(u->client, CLIENT_ALL, after_id, &handler);
    int r = GO_ON;
    while (r == GO_ON)
        r = wait_once(u, stream);
    client_stream_free(stream);
    return r;
}

/* "http://127.0.0.1:7433" was given to agents: a server that is started again takes the same. */
static void keep_address(struct up *u)
{
    const char *host = strstr(client_url(u->client), "//");
    if (host)
        u->address = mem_strdup(host + 2);
}

static int show(struct up *u)
{
    struct endpoint_source source = {.data = u->folder};
    int64_t after_id = CLIENT_FROM_NOW;
    int r = client_open(&source, &u->client, u->err);
    if (r < 0)
        return r;
    keep_address(u);
    r = start_machine(u);
    if (r == 0 && u->demo_folder)
        r = demo_begin(&u->demo, u->client, &after_id, u->err);
    if (r < 0)
        return r;
    say_where(u);
    return stay(u, after_id);
}

/* Of the child whose end was ours. */
static int status_of_end(const struct up *u)
{
    return keeper_runs(&u->server) ? u->machine.status : u->server.status;
}

/* It has said why itself. */
static int server_did_not_start(struct up *u)
{
    int status = child_reap(&u->server.child);
    fprintf(stderr, "reeve up: the server did not start\n");
    return status;
}

static int live(struct up *u)
{
    int r = start_server(u), ended = 0;
    if (r == 0)
        r = await_server(u);
    if (r == CHILD_ENDED)
        ended = server_did_not_start(u);
    else if (r == GO_ON && (r = show(u)) == CHILD_ENDED)
        ended = status_of_end(u);
    int status = stop_all(u);
    if (r < 0)
        return r;
    return ended ? ended : status;
}

static int run(const struct cli_args *args, struct err *err)
{
    struct up u = {
        .args = args,
        .json = cli_flag(args, "json"),
        .server = KEEPER("server"),
        .machine = KEEPER("machine"),
        .demo_folder =
            cli_flag(args, "no-demo") || cli_value(args, "config") ? NULL : demo_folder(),
        .out = BUF_INIT(PRINT_BYTES_MAX),
        .err = err,
    };
    int r = cli_data_folder(args, &u.folder, err);
    if (r == 0)
        r = signals_open(&u.signal_fd, err);
    if (r == 0) {
        r = live(&u);
        close(u.signal_fd);
    }
    client_close(u.client);
    free(u.folder);
    free(u.address);
    free(u.demo_folder);
    buf_release(&u.out);
    arena_release(&u.arena);
    return r;
}

// clang-format off
static const struct verb_option options[] = {
    {"data", 0, "DIR", 0, "the data folder (default: $XDG_STATE_HOME/reeve)"},
    {"listen", 0, "[ADDRESS:]PORT", 0, "where the server listens (default 127.0.0.1:7433)"},
    {"config", 0, "FILE", 0, "the kinds of agents of the machine; no demo"},
    {"no-demo", 0, NULL, 0, "no demo: machine.conf in the data folder says what may run"},
    OPTIONS_END,
};
// clang-format on

const struct verb verb_up = {
    .name = "up",
    .synopsis = "",
    .summary = "run a server and a machine in the foreground, with a demo",
    .details =
        "Prints events as they happen until Ctrl-C, which stops the agents, the machine and the\n"
        "server. A server or machine that is killed is started again; agents go on meanwhile. The\n"
        "demo's server has short limits, so that what hangs is noticed in seconds.",
    .flags = VERB_JSON,
    .options = options,
    .run = run,
};
