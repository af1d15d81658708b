/*
 * cmd_up.c: `reeve up`: a server in the foreground, with something to look at.
 *
 * Starts `reeve serve` as a child, waits until it has left its address, plays the demo through the
 * ordinary client and prints events as they arrive through the ordinary stream; then it stays until
 * Ctrl-C. One thread: the stream's wait also watches the signals, the child and the next step of
 * the demo.
 *
 * The child is always waited for before we end, and our exit status is its own if it ends by
 * itself.
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
#include "cli/child.h"
#include "cli/demo.h"
#include "cli/print.h"
#include "cli/signals.h"
#include "cli/verbs.h"
#include "client/client.h"

enum { READY_POLL_MS = 20, READY_MS_MAX = 30000, STOP_MS_MAX = 15000 };

struct up {
    const struct cli_args *args;
    char *folder;
    bool json;
    struct child child;
    int signal_fd;
    struct client *client;
    struct demo demo;
    bool with_demo;
    bool said_where; /* to look next; after the demo's last event */
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

static int start_server(struct up *u)
{
    char serve[] = "serve", name[] = "reeve", data[] = "--data", listen[] = "--listen";
    char quiet[] = "--log-level=warn";
    char *address = (char *)cli_value(u->args, "listen");
    char *argv[] = {name, serve, quiet, data, u->folder, address ? listen : NULL, address, NULL};
    return child_start(&u->child, argv, u->err);
}

/* The server has ended by itself; that is our end too. */
static int server_ended(struct up *u)
{
    int status = child_reap(&u->child);
    fprintf(stderr, "reeve up: the server ended by itself, with status %d\n", status);
    return status;
}

/* Lets the server end in its own time; a second signal or too long a time cuts it short. */
static int stop_server(struct up *u)
{
    struct pollfd fds[] = {{.fd = u->child.pidfd, .events = POLLIN},
                           {.fd = u->signal_fd, .events = POLLIN}};
    while (signals_take(u->signal_fd))
        continue; /* the one that made us stop */
    child_signal(&u->child, SIGTERM);
    if (poll(fds, ARRAY_LEN(fds), STOP_MS_MAX) <= 0 || !fds[0].revents) {
        fprintf(stderr, "reeve up: the server does not stop; killing it\n");
        child_signal(&u->child, SIGKILL);
    }
    int status = child_reap(&u->child);
    if (status != 0)
        fprintf(stderr, "reeve up: the server stopped with status %d\n", status);
    return status;
}

static bool is_ready(const struct up *u)
{
    struct err not_yet = ERR_INIT;
    int64_t pid;
    return endpoint_read_server_json(u->folder, NULL, &pid, &not_yet) == 0 && pid == u->child.pid;
}

/*
 * Until server.json names our child: an older file may lie there. Looked at every few milliseconds,
 * since the folder itself may not exist yet for inotify to watch. 0 when ready; 1 if told to stop,
 * or the server has ended.
 */
static int await_server(struct up *u)
{
    struct pollfd fds[] = {{.fd = u->child.pidfd, .events = POLLIN},
                           {.fd = u->signal_fd, .events = POLLIN}};
    int64_t give_up_us = clock_mono_us() + (int64_t)READY_MS_MAX * 1000;
    while (!is_ready(u)) {
        if (poll(fds, ARRAY_LEN(fds), READY_POLL_MS) > 0)
            return 1;
        if (clock_mono_us() > give_up_us)
            return err_set(u->err, ERR_UNAVAILABLE, "the server is not ready after %d s",
                           READY_MS_MAX / 1000);
    }
    return 0;
}

/* A command to try, as it must be typed, and what it is for. */
static void say_command(const struct up *u, const char *command, const char *meaning)
{
    bool elsewhere = cli_value(u->args, "data") != NULL;
    _cleanup_free_ char *line = mem_printf("%s %s%s%s", program_invocation_name, command,
                                           elsewhere ? " --data " : "", elsewhere ? u->folder : "");
    say(u, "  %-38s  %s\n", line, meaning);
}

static void say_where(struct up *u)
{
    long long number = u->with_demo ? (long long)u->demo.conversation : 1;
    _cleanup_free_ char *show_one = mem_printf("conversation show %lld", number);
    say(u, "\nThe server goes on at %s. In another terminal:\n", client_url(u->client));
    say_command(u, "events -f", "follow everything as it happens");
    say_command(u, show_one, "where a conversation stands");
    _cleanup_free_ char *help = mem_printf("%s help", program_invocation_name);
    say(u, "  %-38s  %s\n", help, "all the rest");
    say(u, "Ctrl-C stops it.\n\n");
    u->said_where = true;
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
    bool last = u->with_demo && member_int(event, "conversation", -1) == u->demo.conversation &&
                str_is(member_text(event, "finality"), "conversation");
    if (r == 0 && last && !u->said_where)
        say_where(u);
    return r;
}

static void on_lost(void *ctx, const char *why)
{
    (void)ctx, (void)why; /* if the server has ended, its pidfd says so in a moment */
}

/* Milliseconds to the demo's next step; -1 if there is none. */
static int until_step_ms(const struct up *u)
{
    if (!u->with_demo || demo_is_over(&u->demo))
        return -1;
    return (int)MAX((demo_due_us(&u->demo) - clock_mono_us() + 999) / 1000, (int64_t)0);
}

/* Until a signal (0), the end of the server (1) or an error. */
static int watch(struct up *u, struct client_stream *stream)
{
    struct pollfd fds[] = {{.fd = u->child.pidfd, .events = POLLIN},
                           {.fd = u->signal_fd, .events = POLLIN}};
    for (;;) {
        int r = client_stream_wait(stream, fds, ARRAY_LEN(fds), until_step_ms(u), u->err);
        if (fds[0].revents)
            return 1;
        if (r < 0 || fds[1].revents)
            return r;
        if (until_step_ms(u) == 0)
            r = demo_step(&u->demo, u->err);
        if (r < 0)
            return r;
    }
}

static int show(struct up *u)
{
    const struct client_stream_handler handler = {.event = on_event, .lost = on_lost, .ctx = u};
    struct endpoint_source source = {.data = u->folder};
    int64_t first_id = CLIENT_FROM_NOW;
    int r = client_open(&source, &u->client, u->err);
    if (r < 0)
        return r;
    say(u, "reeve is up at %s, data in %s. Ctrl-C stops it.\n", client_url(u->client), u->folder);
    if (u->with_demo) {
        say(u, "Three roles will now play a short conversation; this is its log:\n\n");
        r = demo_begin(&u->demo, u->client, &first_id, u->err);
        if (r < 0)
            return r;
    } else {
        say_where(u);
    }
    struct client_stream *stream = client_stream_new(
        u->client, CLIENT_ALL, u->with_demo ? first_id - 1 : CLIENT_FROM_NOW, &handler);
    r = watch(u, stream);
    client_stream_free(stream);
    return r;
}

static int live(struct up *u)
{
    int r = start_server(u);
    if (r < 0)
        return r;
    r = await_server(u);
    if (r == 0)
        r = show(u);
    struct pollfd ended = {.fd = u->child.pidfd, .events = POLLIN};
    if (poll(&ended, 1, 0) > 0)
        return server_ended(u);
    int status = stop_server(u);
    return r < 0 ? r : status;
}

static int run(const struct cli_args *args, struct err *err)
{
    struct up u = {
        .args = args,
        .json = cli_flag(args, "json"),
        .child = CHILD_INIT,
        .with_demo = !cli_flag(args, "no-demo"),
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
    buf_release(&u.out);
    arena_release(&u.arena);
    return r;
}

// clang-format off
static const struct verb_option options[] = {
    {"data", 0, "DIR", 0, "the data folder (default: $XDG_STATE_HOME/reeve)"},
    {"listen", 0, "ADDRESS:PORT", 0, "where the server listens (default 127.0.0.1:7433)"},
    {"no-demo", 0, NULL, 0, "do not play the demo"},
    OPTIONS_END,
};
// clang-format on

const struct verb verb_up = {
    .name = "up",
    .synopsis = "",
    .summary = "run a server in the foreground and play a short demo",
    .details = "Prints events as they happen until Ctrl-C, which stops the server as well.",
    .flags = VERB_JSON,
    .options = options,
    .run = run,
};
