/*
 * cmd_wait_for_task.c: `reeve wait-for-task`: what a shell script needs to be an agent.
 *
 * Without --exec it is for scripts that do the work themselves: it takes a task, prints it and is
 * gone; the claim lasts without heartbeats. With --exec it stays, beats while the command runs and
 * reports how it ended.
 *
 * Whatever ends it, it leaves (reeve_close), for at most two seconds, and only then exits (L26,
 * P5). Signals come as a descriptor that every wait looks at, and so does the end of whoever reads
 * our output: a task that nobody will read must not be claimed. kill -9 leaves the leases, which
 * run out; the command gets SIGTERM from the kernel.
 *
 * A command that is stopped, because we are, or because the task was taken away, says nothing about
 * the task: it is not failed. Its lease runs out and it is handed out again.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macro.h"
#include "base/mem.h"
#include "cli/connect.h"
#include "cli/exec.h"
#include "cli/print.h"
#include "cli/signals.h"
#include "cli/verbs.h"
#include "client/reeve_handle.h"

enum {
    EXIT_SUPERSEDED = 3,
    EXIT_ENDED = 4,
    EXIT_STOPPED = 5,
    KILL_MS = 5000, /* from SIGTERM to SIGKILL */
    /* A server takes 1 MiB by default, with the rest of the request. */
    DELIVERABLE_BYTES_MAX = (1 << 20) - (16 << 10),
    /* The kernel's limit for one string is 128 KiB. */
    ENVIRONMENT_BYTES_MAX = 100 << 10,
    REASON_BYTES_MAX = 8000,
};

struct agent_loop {
    const struct cli_args *args;
    struct reeve *reeve;
    int64_t conversation;
    const char *role;
    int signal_fd, stop_fd;
    int signo;             /* that ended us */
    bool is_output_broken; /* nobody reads what we print */
    int64_t kill_us;       /* when SIGKILL is due, once the command was told to end; else 0 */
    struct err *err;
};

static void complain(const char *text)
{
    fprintf(stderr, "reeve wait-for-task: %s\n", text);
}

static void log_outage(void *ctx, const char *line)
{
    (void)ctx;
    complain(line);
}

/* ---- being stopped ---- */

/* Readable on a signal, and, if what we print is the point, when its reader is gone. */
static int open_stop_fd(struct agent_loop *l, bool with_output)
{
    struct epoll_event signals = {.events = EPOLLIN}, output = {.events = 0};
    l->stop_fd = epoll_create1(EPOLL_CLOEXEC);
    if (l->stop_fd < 0 || epoll_ctl(l->stop_fd, EPOLL_CTL_ADD, l->signal_fd, &signals) < 0)
        return err_set(l->err, ERR_IO, "epoll: %s", strerror(errno));
    if (with_output) /* a file has no reader: refused, and rightly so */
        epoll_ctl(l->stop_fd, EPOLL_CTL_ADD, STDOUT_FILENO, &output);
    return 0;
}

static void note_interruption(struct agent_loop *l)
{
    int signo = signals_take(l->signal_fd);
    if (signo)
        l->signo = signo;
    else if (!l->signo)
        l->is_output_broken = true;
}

/* What the exit status of a result is; says why unless it is a signal, or an error to report. */
static int conclude(struct agent_loop *l, int result)
{
    static const struct {
        int result, status;
    } rows[] = {
        {REEVE_SUPERSEDED, EXIT_SUPERSEDED},
        {REEVE_ENDED, EXIT_ENDED},
        {REEVE_STOP, EXIT_STOPPED},
        {REEVE_STALE, 1},
    };
    if (result == REEVE_INTERRUPTED) {
        note_interruption(l);
        return l->signo ? 128 + l->signo : 0;
    }
    if (result < 0) {
        *l->err = *reeve_last_err(l->reeve);
        return -l->err->code;
    }
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].result == result) {
            complain(reeve_result_text(result));
            return rows[i].status;
        }
    return 0;
}

/* ---- the task as text ---- */

/* JSON that is ours already, cleaned for whoever looks at it, and a line feed. */
static void add_clean_line(struct buf *out, const char *json)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    const struct json *value;
    struct err none = ERR_INIT;
    if (json_parse(&a, str_of(json), JSON_DEPTH_MAX, &value, &none) == 0)
        print_json(out, value);
    buf_addc(out, '\n');
}

/* The Task; if it is too large for the environment, without its content. */
static char *task_variable(const struct reeve *r)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    const struct json *task;
    struct err none = ERR_INIT;
    const char *text = reeve_task_json(r);
    if (strlen(text) <= ENVIRONMENT_BYTES_MAX)
        return mem_printf("REEVE_TASK=%s", text);
    struct buf b = BUF_INIT(PRINT_BYTES_MAX);
    struct json_out w = JSON_OUT(&b);
    buf_addz(&b, "REEVE_TASK=");
    json_object(&w, NULL);
    if (json_parse(&a, str_of(text), JSON_DEPTH_MAX, &task, &none) == 0)
        JSON_FOREACH (member, task)
            if (!str_is(member->key, "content")) {
                _cleanup_free_ char *key = mem_strndup(member->key.p, member->key.n);
                json_value(&w, key, member);
            }
    json_end(&w);
    return buf_take(&b);
}

/* Straight to the descriptor: a broken pipe must not end us before we have left. */
static void print_line(struct agent_loop *l, const struct buf *line)
{
    for (struct str rest = buf_str(line); rest.n > 0;) {
        ssize_t n = write(STDOUT_FILENO, rest.p, rest.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            l->is_output_broken = true;
            return;
        }
        rest = str_skip(rest, (size_t)n);
    }
}

/* ---- running a command ---- */

struct environment {
    char *own[3];
    char **all; /* NULL at the end */
};

static void environment_build(struct environment *e, const struct agent_loop *l)
{
    size_t n = 0, own = 0;
    e->own[own++] = task_variable(l->reeve);
    e->own[own++] = mem_printf("REEVE_CONVERSATION=%lld", (long long)l->conversation);
    e->own[own++] = mem_printf("REEVE_ROLE=%s", l->role);
    while (environ[n])
        n++;
    e->all = mem_zalloc((n + own + 1) * sizeof *e->all);
    memcpy(e->all, e->own, sizeof e->own);
    for (char **v = environ; *v; v++)
        if (strncmp(*v, "REEVE_TASK=", 11) != 0 && strncmp(*v, "REEVE_CONVERSATION=", 19) != 0 &&
            strncmp(*v, "REEVE_ROLE=", 11) != 0)
            e->all[own++] = *v;
}

static void environment_release(struct environment *e)
{
    for (size_t i = 0; i < ARRAY_LEN(e->own); i++)
        free(e->own[i]);
    free(e->all);
}

/* SIGTERM first; a second reason to end it, or time, makes it SIGKILL. */
static void end_command(struct agent_loop *l, const struct exec *e)
{
    int64_t now_us = clock_mono_us();
    if (!l->kill_us) {
        exec_signal(e, SIGTERM);
        l->kill_us = now_us + (int64_t)KILL_MS * 1000;
    } else if (now_us < l->kill_us) {
        l->kill_us = now_us;
    }
}

static int poll_timeout(const struct agent_loop *l)
{
    if (!l->kill_us)
        return -1;
    return (int)MAX((l->kill_us - clock_mono_us() + 999) / 1000, (int64_t)0);
}

/* Waits until the command has ended, and sees to it that it does if it should. Returns
 * REEVE_OK, REEVE_INTERRUPTED, or the news that made us end it. */
static int attend(struct agent_loop *l, struct exec *e)
{
    int result = REEVE_OK;
    for (;;) {
        struct pollfd fds[EXEC_FDS + 2];
        size_t n = exec_fds(e, fds);
        fds[n] = (struct pollfd){.fd = l->signal_fd, .events = POLLIN};
        fds[n + 1] = (struct pollfd){.fd = result == REEVE_OK ? reeve_news_fd(l->reeve) : -1,
                                     .events = POLLIN};
        poll(fds, n + 2, poll_timeout(l));
        if (exec_step(e, fds, n))
            break;
        if (fds[n].revents) {
            l->signo = signals_take(l->signal_fd);
            result = REEVE_INTERRUPTED;
            end_command(l, e);
        } else if (fds[n + 1].revents) {
            result = reeve_news(l->reeve);
            end_command(l, e);
        }
        if (l->kill_us && clock_mono_us() >= l->kill_us)
            exec_signal(e, SIGKILL);
    }
    if (result != REEVE_OK)
        exec_signal(e, SIGKILL); /* what it has started, and may still work on the task */
    return result;
}

/* ---- reporting ---- */

/* At most so much of the text as fits, whole characters. */
static char *deliverable_of(const struct exec *e)
{
    struct buf json = BUF_INIT(8 * EXEC_OUT_BYTES_MAX);
    struct str text = buf_str(&e->out);
    text.n = MIN(text.n, (size_t)EXEC_OUT_BYTES_MAX);
    bool is_cut = e->out_bytes > (int64_t)text.n;
    if (!is_cut && text.n && text.p[text.n - 1] == '\n')
        text.n--;
    for (;;) {
        _cleanup_buf_ struct buf cut = BUF_INIT(2 * EXEC_OUT_BYTES_MAX);
        buf_add_str(&cut, text);
        if (is_cut)
            buf_addf(&cut, "\n[reeve: cut here, %lld bytes in all]", (long long)e->out_bytes);
        buf_clear(&json);
        json_write_string(&json, buf_str(&cut));
        if (json.len <= DELIVERABLE_BYTES_MAX)
            return buf_take(&json);
        is_cut = true;
        text.n -= text.n / 8 + 1;
        while (text.n && (text.p[text.n] & 0xC0) == 0x80)
            text.n--;
    }
}

static void add_reason(struct buf *out, const struct exec *e, int status)
{
    if (WIFSIGNALED(status))
        buf_addf(out, "killed by SIG%s", sigabbrev_np(WTERMSIG(status)));
    else
        buf_addf(out, "exit status %d", WEXITSTATUS(status));
    if (e->tail_bytes) {
        buf_addz(out, ":\n");
        exec_add_tail(e, out);
    }
}

/* Said also if a signal came meanwhile: once more, and only once. */
static int fail_task(struct agent_loop *l, const char *reason)
{
    int result = reeve_fail(l->reeve, reason);
    if (result != REEVE_INTERRUPTED)
        return result;
    note_interruption(l);
    reeve_set_stop_fd(l->reeve, -1);
    reeve_set_patience(l->reeve, 0);
    return reeve_fail(l->reeve, reason);
}

static int complete_task(struct agent_loop *l, const struct exec *e)
{
    _cleanup_free_ char *deliverable = deliverable_of(e);
    int result = reeve_complete(l->reeve, deliverable);
    if (result == REEVE_INTERRUPTED) {
        note_interruption(l);
        reeve_set_stop_fd(l->reeve, -1);
        reeve_set_patience(l->reeve, 0);
        result = reeve_complete(l->reeve, deliverable);
    }
    if (result != REEVE_REFUSED)
        return result;
    /* Else it would be worked on for ever: the server will not have it. */
    struct err refusal = *reeve_last_err(l->reeve);
    _cleanup_free_ char *reason =
        mem_printf("its output was refused: %s", reeve_error_text(l->reeve));
    fail_task(l, reason);
    *l->err = refusal;
    return REEVE_REFUSED;
}

/* The Task as it ended: JSON, or a few words. */
static void print_end(struct agent_loop *l, const char *how)
{
    _cleanup_buf_ struct buf out = BUF_INIT(PRINT_BYTES_MAX);
    if (cli_flag(l->args, "json"))
        add_clean_line(&out, reeve_task_json(l->reeve));
    else
        buf_addf(&out, "task %lld %s\n", (long long)reeve_task_number(l->reeve), how);
    print_line(l, &out);
}

static int report(struct agent_loop *l, const struct exec *e, int status)
{
    _cleanup_buf_ struct buf reason = BUF_INIT(REASON_BYTES_MAX);
    bool has_worked = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!has_worked)
        add_reason(&reason, e, status);
    int result = has_worked ? complete_task(l, e) : fail_task(l, reason.data);
    if (result == REEVE_REFUSED && l->err->code)
        return -l->err->code;
    if (result != REEVE_OK)
        return conclude(l, result);
    print_end(l, has_worked ? "completed" : "failed");
    if (!has_worked)
        complain(reason.data);
    return has_worked ? 0 : 1;
}

/* ---- a task ---- */

/* Told to stop: because the conversation is over, or for another reason? */
static int told_to_stop(struct agent_loop *l)
{
    int now = reeve_wait(l->reeve, 0);
    return now == REEVE_ENDED ? REEVE_ENDED : REEVE_STOP;
}

static int run_command(struct agent_loop *l)
{
    _cleanup_(environment_release) struct environment environment = {0};
    _cleanup_free_ char *input = mem_printf("%s\n", reeve_task_json(l->reeve));
    _cleanup_free_ char **argv = mem_zalloc((l->args->word_count + 2) * sizeof *argv);
    struct exec e;
    struct err failure = ERR_INIT;
    memcpy(argv + 1, l->args->words, l->args->word_count * sizeof *argv);
    argv[0] = (char *)(uintptr_t)cli_value(l->args, "exec");
    environment_build(&environment, l);
    if (exec_start(&e, argv, environment.all, str_of(input), &failure) < 0) {
        int result = fail_task(l, failure.message);
        complain(failure.message);
        return result == REEVE_OK ? 1 : conclude(l, result);
    }
    int result = attend(l, &e), status = exec_finish(&e);
    if (result == REEVE_OK)
        result = report(l, &e, status);
    else if (result == REEVE_INTERRUPTED)
        result = 128 + l->signo;
    else
        result = conclude(l, result == REEVE_STOP ? told_to_stop(l) : result);
    exec_release(&e);
    return result;
}

static int hand_over(struct agent_loop *l)
{
    _cleanup_buf_ struct buf out = BUF_INIT(PRINT_BYTES_MAX);
    _cleanup_free_ char *json =
        mem_printf("{\"task\":%s,\"epoch\":%lld}", reeve_task_json(l->reeve),
                   (long long)reeve_task_epoch(l->reeve));
    add_clean_line(&out, json);
    print_line(l, &out);
    return 0;
}

static int take_task(struct agent_loop *l)
{
    bool is_attended = cli_value(l->args, "exec");
    for (;;) {
        int result = reeve_wait(l->reeve, -1);
        if (result == REEVE_TASK)
            result = reeve_claim(l->reeve, is_attended ? 0 : REEVE_UNATTENDED);
        if (result == REEVE_NONE)
            continue;
        if (result == REEVE_OK && is_attended)
            result = reeve_start(l->reeve);
        if (result == REEVE_STALE)
            continue; /* taken back before it was begun */
        if (result != REEVE_OK)
            return conclude(l, result);
        return is_attended ? run_command(l) : hand_over(l);
    }
}

/* ---- the verb ---- */

static int open_handle(struct agent_loop *l)
{
    struct endpoint_source source = endpoint_source_of_environment();
    source.data = cli_value(l->args, "data");
    source.server = cli_value(l->args, "server");
    source.token_file = cli_value(l->args, "token-file");
    int r = reeve_connect_source(&source, &l->reeve, l->err);
    if (r < 0)
        return r;
    reeve_set_stop_fd(l->reeve, l->stop_fd);
    reeve_set_log(l->reeve, log_outage, NULL);
    return 0;
}

static int take_part(struct agent_loop *l)
{
    int r = signals_open(&l->signal_fd, l->err);
    if (r == 0)
        r = open_stop_fd(l, !cli_value(l->args, "exec"));
    if (r == 0)
        r = open_handle(l);
    if (r < 0)
        return r;
    int result = reeve_join(l->reeve, l->conversation, l->role);
    return result == REEVE_OK ? take_task(l) : conclude(l, result);
}

static int run(const struct cli_args *args, struct err *err)
{
    struct agent_loop l = {.args = args, .signal_fd = -1, .stop_fd = -1, .err = err};
    const char *command = cli_value(args, "exec");
    int r = cli_int(args, "conversation", 1, &l.conversation, err);
    l.role = cli_value(args, "role");
    if (r >= 0 && command)
        r = exec_check(command, err);
    if (r >= 0)
        r = take_part(&l);
    reeve_close(l.reeve);
    if (l.stop_fd >= 0)
        close(l.stop_fd);
    if (l.signal_fd >= 0)
        close(l.signal_fd);
    if (l.is_output_broken) {
        signal(SIGPIPE, SIG_DFL);
        raise(SIGPIPE);
    }
    return r;
}

// clang-format off
static const struct verb_option options[] = {
    {"conversation", 0, "N", ARG_REQUIRED, "the conversation"},
    {"role", 0, "ROLE", ARG_REQUIRED, "the role to work for"},
    {"exec", 0, "CMD [ARG...]", ARG_REST, "run CMD for the task; all that follows is CMD's"},
    OPTIONS_END,
};
// clang-format on

const struct verb verb_wait_for_task = {
    .name = "wait-for-task",
    .synopsis = "",
    .summary = "work for a role: wait for a task and take it",
    .details =
        "Joins, waits for a task, claims it, prints {\"task\":...,\"epoch\":...}, leaves and exits "
        "0. Whoever\n"
        "called it then reports with 'reeve task start', 'complete' or 'fail', within\n"
        "liveness.unattended_work_seconds of each other. While the server is down it goes on "
        "trying.\n"
        "\n"
        "With --exec it starts the task, runs CMD with the task on standard input and in "
        "REEVE_TASK\n"
        "(without its content if that is over 100 KiB), and beats while CMD runs. Exit status 0 "
        "completes\n"
        "the task with CMD's output as deliverable (a text); any other fails it, with the last "
        "lines of\n"
        "output as the reason. If the task is taken away, or the agent is told to stop, CMD gets "
        "SIGTERM,\n"
        "and SIGKILL after 5 seconds; the task is then neither completed nor failed.\n"
        "\n"
        "Exit status: 0 a task was taken (with --exec: completed), 1 it failed or was taken away,\n"
        "3 superseded by a newer listener, 4 the conversation has ended, 5 told to stop,\n"
        "128 + N ended by signal N.",
    .flags = VERB_CLIENT | VERB_JSON,
    .options = options,
    .run = run,
};
