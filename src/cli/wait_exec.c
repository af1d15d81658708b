/*
 * wait_exec.c: `reeve wait-for-task --exec`: a command does the work of a task.
 *
 * The command gets the task, its output goes on to ours, and what it prints is its progress: the
 * thread of libreeve says so with its beats, and with it the last lines, so that they are known
 * even if nothing else comes of it. A process that spins prints nothing, and is not taken for one
 * that works, unless --progress=cpu says so.
 *
 * When the task is taken away the command works for nobody, and maybe against whoever has the task
 * now. So its whole tree is ended: SIGTERM to the command, SIGKILL to all of it once the command
 * has gone or the grace is over. A command that is stopped, for this reason or because we are, says
 * nothing about the task: it is not failed. Its lease runs out and it is handed out again.
 *
 * A command may suspend its task (`reeve task suspend`) and end with status 0. Then there is
 * nothing to report, and whoever waits next for this role is given the task with the results.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macro.h"
#include "base/mem.h"
#include "cli/exec.h"
#include "cli/print.h"
#include "cli/signals.h"
#include "cli/wait_for_task.h"
#include "client/reeve_handle.h"

enum {
    KILL_MS = 5000, /* from SIGTERM to SIGKILL */
    LOOK_MS = 5000, /* at the processor time, and for orphans to bury */
    NOTE_MS = 1000, /* between two notes for the thread that beats */
    /* A server takes 1 MiB by default, with the rest of the request. */
    DELIVERABLE_BYTES_MAX = (1 << 20) - (16 << 10),
    /* The kernel's limit for one string is 128 KiB. */
    ENVIRONMENT_BYTES_MAX = 100 << 10,
    TEXT_BYTES_MAX = 8000,
};

/* ---- what the command gets ---- */

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

/* NULL: it has none, or they are too large. */
static char *results_variable(const struct agent_loop *l)
{
    const char *results = reeve_results(l->reeve);
    bool is_fit = l->is_resumed && strlen(results) <= ENVIRONMENT_BYTES_MAX;
    return is_fit ? mem_printf("REEVE_RESULTS=%s", results) : NULL;
}

enum { OWN_VARIABLES_MAX = 8 };

struct environment {
    char *own[OWN_VARIABLES_MAX]; /* NULL: it is not set */
    char **all;                   /* NULL at the end */
};

/* Those that are ours, whether or not this task has them. */
static bool is_own(const char *variable)
{
    static const char *const names[] = {
        "REEVE_TASK=",    "REEVE_TASK_NUMBER=",  "REEVE_EPOCH=", "REEVE_RESUMED=",
        "REEVE_RESULTS=", "REEVE_CONVERSATION=", "REEVE_ROLE="};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strncmp(variable, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static void environment_build(struct environment *e, const struct agent_loop *l)
{
    size_t count = 0, n = 0;
    char *const own[] = {
        task_variable(l->reeve),
        mem_printf("REEVE_TASK_NUMBER=%lld", (long long)reeve_task_number(l->reeve)),
        mem_printf("REEVE_EPOCH=%lld", (long long)reeve_task_epoch(l->reeve)),
        mem_printf("REEVE_CONVERSATION=%lld", (long long)l->conversation),
        mem_printf("REEVE_ROLE=%s", l->role),
        l->is_resumed ? mem_strdup("REEVE_RESUMED=1") : NULL,
        results_variable(l),
    };
    _Static_assert(ARRAY_LEN(own) <= OWN_VARIABLES_MAX, "room for all");
    memcpy(e->own, own, sizeof own);
    while (environ[count])
        count++;
    e->all = mem_zalloc((count + ARRAY_LEN(own) + 1) * sizeof *e->all);
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        if (own[i])
            e->all[n++] = own[i];
    for (char **v = environ; *v; v++)
        if (!is_own(*v))
            e->all[n++] = *v;
}

static void environment_release(struct environment *e)
{
    for (size_t i = 0; i < ARRAY_LEN(e->own); i++)
        free(e->own[i]);
    free(e->all);
}

/* A line each: the task, and the results if there are any to go on with. */
static char *input_of(const struct agent_loop *l)
{
    const char *task = reeve_task_json(l->reeve);
    return l->is_resumed ? mem_printf("%s\n%s\n", task, reeve_results(l->reeve))
                         : mem_printf("%s\n", task);
}

/* ---- while it runs ---- */

/* What counts as progress: a number that has changed. */
typedef int64_t measure_fn(const struct exec *e);

static int64_t count_output(const struct exec *e)
{
    return e->bytes;
}

static int64_t count_nothing(const struct exec *e)
{
    (void)e;
    return -1;
}

/* --progress; the first if it is not given. */
static measure_fn *measure_of(const char *name)
{
    static const struct {
        const char *name;
        measure_fn *measure;
    } rows[] = {{"output", count_output}, {"cpu", exec_cpu_seconds}, {"none", count_nothing}};
    for (size_t i = 0; name && i < ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].measure;
    return rows[0].measure;
}

struct running {
    struct agent_loop *loop;
    struct exec exec;
    int64_t kill_us; /* when SIGKILL is due, once it was told to end; else 0 */
    measure_fn *measure;
    int64_t noted_us, noted; /* when what it had printed was told, and how much that was */
};

static int64_t note_every_ms(const struct running *r)
{
    return r->noted < r->exec.bytes ? NOTE_MS : LOOK_MS;
}

/* Leaves it to the thread of libreeve to say that the work moves, and what was printed last. */
static void note_progress(struct running *r)
{
    _cleanup_buf_ struct buf tail = BUF_INIT(TEXT_BYTES_MAX);
    int64_t now_us = clock_mono_us();
    if (now_us - r->noted_us < note_every_ms(r) * 1000)
        return;
    exec_add_tail(&r->exec, &tail);
    r->noted_us = now_us;
    r->noted = r->exec.bytes;
    reeve_set_progress(r->loop->reeve, r->measure(&r->exec), tail.len ? tail.data : NULL);
}

/* SIGTERM first; a second reason to end it, or time, makes it SIGKILL. */
static void end_command(struct running *r)
{
    int64_t now_us = clock_mono_us();
    if (!r->kill_us) {
        exec_signal(&r->exec, SIGTERM);
        r->kill_us = now_us + (int64_t)KILL_MS * 1000;
    } else if (now_us < r->kill_us) {
        r->kill_us = now_us;
    }
}

static int poll_timeout(const struct running *r)
{
    if (!r->kill_us)
        return (int)note_every_ms(r);
    return (int)MAX((r->kill_us - clock_mono_us() + 999) / 1000, (int64_t)0);
}

/* Waits until the command has ended, and sees to it that it does if it should. Returns
 * REEVE_OK, REEVE_INTERRUPTED, or the news that made us end it. */
static int attend(struct running *r)
{
    struct agent_loop *l = r->loop;
    int result = REEVE_OK;
    for (;;) {
        struct pollfd fds[EXEC_FDS + 2];
        size_t n = exec_fds(&r->exec, fds);
        fds[n] = (struct pollfd){.fd = l->signal_fd, .events = POLLIN};
        fds[n + 1] = (struct pollfd){.fd = result == REEVE_OK ? reeve_news_fd(l->reeve) : -1,
                                     .events = POLLIN};
        poll(fds, n + 2, poll_timeout(r));
        if (exec_step(&r->exec))
            break;
        note_progress(r);
        if (fds[n].revents) {
            l->signo = signals_take(l->signal_fd);
            result = REEVE_INTERRUPTED;
            end_command(r);
        } else if (fds[n + 1].revents) {
            result = reeve_news(l->reeve);
            end_command(r);
        }
        if (r->kill_us && clock_mono_us() >= r->kill_us)
            exec_kill(&r->exec);
    }
    if (result != REEVE_OK)
        exec_kill(&r->exec); /* what it has started, and may still work on the task */
    return result;
}

/* ---- reporting ---- */

/* The last of its standard output, so much as fits, from the beginning of a line if there is one.
 */
static char *deliverable_of(const struct exec *e)
{
    struct buf json = BUF_INIT(8 * EXEC_OUT_BYTES_MAX);
    struct str text = buf_str(&e->out);
    text = str_skip(text, text.n - MIN(text.n, (size_t)EXEC_OUT_BYTES_MAX));
    for (;;) {
        _cleanup_buf_ struct buf cut = BUF_INIT(2 * EXEC_OUT_BYTES_MAX);
        int64_t before = e->out_bytes - (int64_t)text.n;
        const char *line = before && text.n ? memchr(text.p, '\n', text.n) : NULL;
        if (line && line + 1 < text.p + text.n) {
            before += line + 1 - text.p;
            text = str_skip(text, (size_t)(line + 1 - text.p));
        }
        if (before)
            buf_addf(&cut, "[reeve: the first %lld bytes are left out]\n", (long long)before);
        buf_add(&cut, text.p, text.n && text.p[text.n - 1] == '\n' ? text.n - 1 : text.n);
        buf_clear(&json);
        json_write_string(&json, buf_str(&cut));
        if (json.len <= DELIVERABLE_BYTES_MAX)
            return buf_take(&json);
        text = str_skip(text, text.n / 8 + 1);
        while (text.n && (text.p[0] & 0xC0) == 0x80)
            text = str_skip(text, 1);
    }
}

/* How it ended, and the last lines it printed. */
static void add_end(struct buf *out, const struct exec *e, int status)
{
    if (WIFSIGNALED(status))
        buf_addf(out, "killed by SIG%s", sigabbrev_np(WTERMSIG(status)));
    else
        buf_addf(out, "exit status %d", WEXITSTATUS(status));
    if (e->bytes) {
        buf_addz(out, ":\n");
        exec_add_tail(e, out);
    }
}

/* Said also if a signal came meanwhile: once more, and only once. */
static int say(struct agent_loop *l, int (*call)(struct reeve *r, const char *text),
               const char *text)
{
    int result = call(l->reeve, text);
    if (result != REEVE_INTERRUPTED)
        return result;
    wait_note_interruption(l);
    reeve_set_stop_fd(l->reeve, -1);
    reeve_set_patience(l->reeve, 0);
    return call(l->reeve, text);
}

/* Did the command suspend the task? */
static bool is_suspended(const struct agent_loop *l)
{
    const struct err *err = reeve_last_err(l->reeve);
    return err->code == ERR_INVALID_TRANSITION && strstr(err->data, "\"from\":\"suspended\"");
}

static int note_end(struct reeve *r, const char *text)
{
    return reeve_progress(r, text, NULL);
}

static int complete_task(struct agent_loop *l, const struct exec *e, const char *end)
{
    _cleanup_free_ char *deliverable = deliverable_of(e);
    int result = say(l, note_end, end); /* beside the deliverable; it may be refused */
    if (result != REEVE_STALE)
        result = say(l, reeve_complete, deliverable);
    if (result != REEVE_REFUSED || is_suspended(l))
        return result;
    /* Else it would be worked on for ever: the server will not have it. */
    struct err refusal = *reeve_last_err(l->reeve);
    _cleanup_free_ char *reason =
        mem_printf("its output was refused: %s", reeve_error_text(l->reeve));
    say(l, reeve_fail, reason);
    *l->err = refusal;
    return REEVE_REFUSED;
}

/* The Task as it ended: JSON, or a few words on a line of their own. */
static void print_end(struct agent_loop *l, const struct exec *e, const char *how)
{
    _cleanup_buf_ struct buf out = BUF_INIT(PRINT_BYTES_MAX);
    if (cli_flag(l->args, "json"))
        wait_add_clean_line(&out, reeve_task_json(l->reeve));
    else
        buf_addf(&out, "%stask %lld %s\n", e->last_byte == '\n' ? "" : "\n",
                 (long long)reeve_task_number(l->reeve), how);
    wait_print(l, &out);
}

static int report(struct agent_loop *l, struct exec *e, int status)
{
    _cleanup_buf_ struct buf end = BUF_INIT(TEXT_BYTES_MAX);
    bool has_worked = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    add_end(&end, e, status);
    int result = has_worked ? complete_task(l, e, end.data) : say(l, reeve_fail, end.data);
    if (result == REEVE_REFUSED && is_suspended(l)) {
        print_end(l, e, "suspended");
        return 0;
    }
    if (result == REEVE_REFUSED && l->err->code)
        return -l->err->code;
    if (result == REEVE_STALE)
        exec_kill(e); /* what it left in the background would work for nobody */
    if (result != REEVE_OK)
        return wait_conclude(l, result);
    print_end(l, e, has_worked ? "completed" : "failed");
    if (!has_worked)
        wait_complain(end.data);
    return has_worked ? 0 : 1;
}

/* ---- the command ---- */

/* Told to stop: because the conversation is over, or for another reason? */
static int told_to_stop(struct agent_loop *l)
{
    int now = reeve_wait(l->reeve, 0);
    return now == REEVE_ENDED ? REEVE_ENDED : REEVE_STOP;
}

static int end_of(struct running *r)
{
    int result = attend(r), status = exec_finish(&r->exec);
    if (result == REEVE_OK)
        return report(r->loop, &r->exec, status);
    if (result == REEVE_INTERRUPTED)
        return 128 + r->loop->signo;
    return wait_conclude(r->loop, result == REEVE_STOP ? told_to_stop(r->loop) : result);
}

int wait_run_command(struct agent_loop *l)
{
    _cleanup_(environment_release) struct environment environment = {0};
    _cleanup_free_ char *input = input_of(l);
    _cleanup_free_ char **argv = mem_zalloc((l->args->word_count + 2) * sizeof *argv);
    /* With --json there is one line on standard output, ours. */
    const struct exec_sinks sinks = {.out_fd =
                                         cli_flag(l->args, "json") ? STDERR_FILENO : STDOUT_FILENO,
                                     .err_fd = STDERR_FILENO};
    struct running r = {.loop = l, .measure = measure_of(cli_value(l->args, "progress"))};
    struct err failure = ERR_INIT;
    memcpy(argv + 1, l->args->words, l->args->word_count * sizeof *argv);
    argv[0] = (char *)(uintptr_t)cli_value(l->args, "exec");
    environment_build(&environment, l);
    if (exec_start(&r.exec, argv, environment.all, str_of(input), &sinks, &failure) < 0) {
        int result = say(l, reeve_fail, failure.message);
        wait_complain(failure.message);
        return result == REEVE_OK ? 1 : wait_conclude(l, result);
    }
    int status = end_of(&r);
    exec_release(&r.exec);
    return status;
}
