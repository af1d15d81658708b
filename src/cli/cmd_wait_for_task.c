/*
 * cmd_wait_for_task.c: `reeve wait-for-task`: what a shell script needs to be an agent.
 *
 * Without --exec it is for scripts that do the work themselves: it takes a task, prints it and is
 * gone; the claim lasts without heartbeats. With --exec it stays, beats while the command runs and
 * reports how it ended (wait_exec.c). A task that was suspended is taken with its results, which
 * count as applied from then on.
 *
 * Whatever ends it, it leaves (reeve_close), for at most two seconds, and only then exits (L26,
 * P5). Signals come as a descriptor that every wait looks at, and so does the end of whoever reads
 * our output: a task that nobody will read must not be claimed. kill -9 leaves the leases, which
 * run out; the command gets SIGTERM from the kernel.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/mem.h"
#include "cli/connect.h"
#include "cli/exec.h"
#include "cli/print.h"
#include "cli/signals.h"
#include "cli/verbs.h"
#include "cli/wait_for_task.h"
#include "client/reeve_handle.h"

enum {
    EXIT_SUPERSEDED = 3,
    EXIT_ENDED = 4,
    EXIT_STOPPED = 5,
};

void wait_complain(const char *text)
{
    fprintf(stderr, "reeve wait-for-task: %s\n", text);
}

static void log_outage(void *ctx, const char *line)
{
    (void)ctx;
    wait_complain(line);
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

void wait_note_interruption(struct agent_loop *l)
{
    int signo = signals_take(l->signal_fd);
    if (signo)
        l->signo = signo;
    else if (!l->signo)
        l->is_output_broken = true;
}

int wait_conclude(struct agent_loop *l, int result)
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
        wait_note_interruption(l);
        return l->signo ? 128 + l->signo : 0;
    }
    if (result < 0) {
        *l->err = *reeve_last_err(l->reeve);
        return -l->err->code;
    }
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].result == result) {
            wait_complain(reeve_result_text(result));
            return rows[i].status;
        }
    return 0;
}

/* ---- the task as text ---- */

void wait_add_clean_line(struct buf *out, const char *json)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    const struct json *value;
    struct err none = ERR_INIT;
    if (json_parse(&a, str_of(json), JSON_DEPTH_MAX, &value, &none) == 0)
        print_json(out, value);
    buf_addc(out, '\n');
}

void wait_print(struct agent_loop *l, const struct buf *line)
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

/* ---- a task ---- */

static int hand_over(struct agent_loop *l)
{
    _cleanup_buf_ struct buf out = BUF_INIT(PRINT_BYTES_MAX);
    _cleanup_free_ char *json =
        mem_printf("{\"task\":%s,\"epoch\":%lld%s%s}", reeve_task_json(l->reeve),
                   (long long)reeve_task_epoch(l->reeve), l->is_resumed ? ",\"results\":" : "",
                   l->is_resumed ? reeve_results(l->reeve) : "");
    wait_add_clean_line(&out, json);
    wait_print(l, &out);
    return 0;
}

/* REEVE_NONE, REEVE_STALE: somebody else was quicker, or it was taken back before it was begun. */
static int take(struct agent_loop *l, int announced, bool is_attended)
{
    unsigned flags = is_attended ? 0 : REEVE_UNATTENDED;
    l->is_resumed = announced == REEVE_RESUME;
    int result = l->is_resumed ? reeve_resume(l->reeve) : reeve_claim(l->reeve, flags);
    if (result == REEVE_OK && l->is_resumed)
        result = reeve_applied(l->reeve, flags);
    else if (result == REEVE_OK && is_attended)
        result = reeve_start(l->reeve);
    return result;
}

static int take_task(struct agent_loop *l)
{
    bool is_attended = cli_value(l->args, "exec");
    for (;;) {
        int result = reeve_wait(l->reeve, -1);
        if (result == REEVE_TASK || result == REEVE_RESUME)
            result = take(l, result, is_attended);
        if (result == REEVE_NONE || result == REEVE_STALE)
            continue;
        if (result != REEVE_OK)
            return wait_conclude(l, result);
        return is_attended ? wait_run_command(l) : hand_over(l);
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
    return result == REEVE_OK ? take_task(l) : wait_conclude(l, result);
}

/* Of the options; else of the environment, which a machine gives to its agents. */
static int find_place(struct agent_loop *l, struct err *err)
{
    const char *number = getenv("REEVE_CONVERSATION"), *role = cli_value(l->args, "role");
    int given = cli_int(l->args, "conversation", 1, &l->conversation, err);
    if (given < 0)
        return given;
    if (!given && !(number && *number))
        return err_set(err, ERR_USAGE,
                       "for which conversation? Give --conversation N, or set REEVE_CONVERSATION");
    if (!given && (!str_to_int(str_of(number), &l->conversation) || l->conversation < 1))
        return err_set(err, ERR_USAGE, "REEVE_CONVERSATION is no number of a conversation: '%s'",
                       number);
    l->role = role ? role : getenv("REEVE_ROLE");
    if (!l->role || !*l->role)
        return err_set(err, ERR_USAGE, "for which role? Give --role ROLE, or set REEVE_ROLE");
    return 0;
}

static int run(const struct cli_args *args, struct err *err)
{
    struct agent_loop l = {.args = args, .signal_fd = -1, .stop_fd = -1, .err = err};
    const char *command = cli_value(args, "exec");
    int r = find_place(&l, err);
    if (r >= 0 && command)
        r = exec_check(command, err);
    else if (r >= 0 && cli_value(args, "progress"))
        r = err_set(err, ERR_USAGE, "--progress is about the command of --exec, which is missing");
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
    {"conversation", 0, "N", 0, "the conversation (default: REEVE_CONVERSATION)"},
    {"role", 0, "ROLE", 0, "the role to work for (default: REEVE_ROLE)"},
    {"progress", 0, "output|cpu|none", 0, "what counts as progress of CMD (default output)"},
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
        "An agent that a machine started needs neither --conversation nor --role.\n"
        "\n"
        "A task that was suspended is taken as soon as all its results are there. It is in "
        "progress "
        "then,\n"
        "with a new epoch, and what is printed has the results, too: "
        "{\"task\":...,\"epoch\":...,\n"
        "\"results\":[{\"toolCallId\":...,\"status\":...,\"result\":...}]}.\n"
        "\n"
        "With --exec it starts the task, runs CMD, and beats while CMD runs. Exit status 0 "
        "completes the\n"
        "task with the last of CMD's standard output as deliverable (a text, at most 1 MiB); any "
        "other\n"
        "fails it, with the last lines of output as the reason. All output goes on to the output "
        "of this\n"
        "command (with --json: to standard error). CMD gets\n"
        "\n"
        "  standard input      the task, on one line; the results, on a second one, if it is "
        "resumed\n"
        "  REEVE_TASK          the task (without its content if that is over 100 KiB)\n"
        "  REEVE_TASK_NUMBER   and REEVE_EPOCH, for 'reeve task suspend', 'progress' and so on\n"
        "  REEVE_RESUMED       1 if the task is resumed, else unset\n"
        "  REEVE_RESULTS       the results then (unset if they are over 100 KiB)\n"
        "  REEVE_CONVERSATION  and REEVE_ROLE\n"
        "\n"
        "CMD may suspend the task and end with status 0: CMD is run again, by the next "
        "wait-for-task, when\n"
        "the results are there.\n"
        "\n"
        "A task without progress for pmo.active_reap_seconds (30 minutes) is ended. Output is "
        "progress, of\n"
        "either stream; with --progress=cpu it is the processor time that CMD and its children "
        "use. "
        "With\n"
        "--progress=none it is neither. 'reeve task progress' counts in any case.\n"
        "\n"
        "If the task is taken away, or the agent is told to stop, CMD gets SIGTERM at once; when "
        "it "
        "has\n"
        "ended, and after 5 seconds in any case, everything it has started gets SIGKILL. The task "
        "is then\n"
        "neither completed nor failed.\n"
        "\n"
        "Exit status: 0 a task was taken (with --exec: completed, or suspended by CMD), 1 it "
        "failed "
        "or was\n"
        "taken away, 3 superseded by a newer listener, 4 the conversation has ended, 5 told to "
        "stop,\n"
        "128 + N ended by signal N.",
    .flags = VERB_CLIENT | VERB_JSON,
    .options = options,
    .run = run,
};
