/*
 * shim.c: the life of one agent process, as its parent sees it. The contract is in shim.h.
 *
 *     STARTING ──exec'd──▶ RUNNING ──agent ended, or grace over──▶ KILLING ──no child left──▶ OVER
 *         └───────────────── it cannot be run, or ended at once ──────▲
 *
 *     STARTING → RUNNING   run_begun()      `seen`, "spawned"
 *     → KILLING            kill_tree()      SIGKILL to all there is, again until there is none
 *     KILLING → OVER       last_word()      `ended`, the last fact, and the loop ends
 *
 * A wish to stop is a mark beside the state, not a state: it is noted before the first signal is
 * sent (L54), and decides what the end is called.
 *
 * The tree is empty when wait() knows no child: everything that descends from the agent is, once
 * its parents are gone, a child of ours. So an end is told only after that, and nothing of the tree
 * can outlive it (L51). Signals to the group and to the agent are sent only while the agent is not
 * reaped: until then its number is its own (L53). It leads its group from before exec on; until
 * then the group does not exist and the signal goes to the agent alone, never to a group of ours
 * (L52).
 *
 * SIGTERM and SIGINT to the shim are a stop with the order's grace: that is how a host that shuts
 * down ends what it does not know. SIGHUP is ignored: the end of a terminal is not the end of an
 * agent. A shim never ends before its tree does, unless it is killed.
 *
 * `ended` that cannot be written, on a full disk, is tried again each second until it can be, or
 * until the folder is gone: then nobody wants it any more.
 */
#include "machine/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/planted.h"
#include "machine/cgroup.h"
#include "machine/order.h"
#include "machine/record.h"
#include "machine/shim_line.h"
#include "machine/shim_log.h"
#include "machine/shim_notify.h"
#include "machine/shim_start.h"
#include "machine/tree.h"

enum {
    KILL_AGAIN_US = 2000, /* the first time; doubles, for what the kernel does not let go of */
    KILL_AGAIN_US_MAX = 1000000,
    WRITE_AGAIN_US = 1000000,
    LAST_READS_MAX =
        64, /* of a pipe at the end: somebody beyond the tree may hold it and write on */
    REASON_BYTES = 384,
};

enum state { STARTING, RUNNING, KILLING, OVER };

struct output {
    struct shim *shim;
    struct loop_io io;
    enum log_stream stream;
};

struct shim {
    struct order order;
    struct loop *loop;
    enum state state;
    struct shim_log log;
    struct shim_line line;
    struct shim_notify notify;
    const char *cgroup; /* NULL: none, or it could not be had */
    struct shim_child child;
    int64_t agent_start_time;
    struct loop_io failure;
    struct output out, err;
    struct loop_timer grace, again;
    int64_t kill_again_us;
    bool is_told_to_stop, is_start_failed, is_reaped;
    bool is_killed_by_us; /* SIGKILL was sent while the agent lived */
    int status;           /* as wait() gives it, once is_reaped */
    struct err failed;    /* why it did not start */
    struct ended ended;
    char reason[REASON_BYTES];
    struct buf tail;
};

/* ---- facts ---- */

static void tell_spawned(struct shim *s)
{
    _cleanup_buf_ struct buf text = BUF_INIT(LINE_BYTES_MAX);
    struct json_out out = JSON_OUT(&text);
    json_object(&out, NULL);
    json_stringz(&out, "fact", "spawned");
    json_int(&out, "pid", s->child.pid);
    json_int(&out, "startTime", s->agent_start_time);
    json_end(&out);
    shim_line_tell(&s->line, buf_str(&text), true);
}

static void tell_ended(struct shim *s)
{
    _cleanup_buf_ struct buf text = BUF_INIT(LINE_BYTES_MAX);
    struct json_out out = JSON_OUT(&text);
    json_object(&out, NULL);
    ended_to_json(&s->ended, &out);
    json_end(&out);
    shim_line_tell(&s->line, buf_str(&text), true);
}

/* ---- did it start ---- */

static void start_failed(struct shim *s, const struct err *err)
{
    s->is_start_failed = true;
    s->failed = *err;
}

static int write_seen(struct shim *s, struct err *err)
{
    struct seen seen = {.agent = {.pid = s->child.pid, .start_time = s->agent_start_time}};
    int r = tree_process_id(getpid(), &seen.shim, err);
    if (r == 0)
        r = tree_boot_id(seen.boot_id, err);
    return r < 0 ? r : seen_write(s->order.folder, &seen, err);
}

static void run_begun(struct shim *s)
{
    struct err err = ERR_INIT;
    if (s->state == STARTING)
        s->state = RUNNING;
    if (s->child.cgroup_errno)
        shim_log_say(&s->log, "not in a cgroup: %s", strerror(s->child.cgroup_errno));
    if (write_seen(s, &err) < 0)
        shim_log_say(&s->log, "%s", err.message);
    shim_log_say(&s->log, "spawn %s started as process %d: %.200s", s->order.spawn_id,
                 (int)s->child.pid, s->order.argv[0]);
    tell_spawned(s);
}

/* Also called by whoever sees signs of the agent, because what came first is told first. */
static void settle_start(struct shim *s)
{
    struct err err = ERR_INIT;
    int r = s->failure.fd < 0 ? 1 : shim_start_outcome(&s->child, &s->order, &err);
    if (r > 0)
        return; /* known already, or not yet */
    loop_unwatch(s->loop, &s->failure);
    close(TAKE_FD(s->child.failure_fd));
    if (r < 0)
        start_failed(s, &err);
    else
        run_begun(s);
}

static void failure_ready(struct loop_io *io, uint32_t events)
{
    (void)events;
    settle_start(CONTAINER_OF(io, struct shim, failure));
}

/* ---- what the agent says ---- */

static void on_ready(void *ctx)
{
    struct shim *s = ctx;
    settle_start(s);
    shim_line_tell(&s->line, STR("{\"fact\":\"notify\",\"ready\":true}"), true);
}

static void on_beat(void *ctx)
{
    struct shim *s = ctx;
    settle_start(s);
    shim_line_tell(&s->line, STR("{\"fact\":\"notify\",\"beat\":true}"), false);
}

static void on_text(void *ctx, struct str said)
{
    struct shim *s = ctx;
    _cleanup_buf_ struct buf text = BUF_INIT(LINE_BYTES_MAX);
    struct json_out out = JSON_OUT(&text);
    settle_start(s);
    json_object(&out, NULL);
    json_stringz(&out, "fact", "notify");
    json_string(&out, "text", said);
    json_end(&out);
    shim_line_tell(&s->line, buf_str(&text), false);
}

static const struct notify_handlers notify_handlers = {on_ready, on_beat, on_text};

static void output_close(struct output *o)
{
    int fd = o->io.fd;
    if (fd < 0)
        return;
    loop_unwatch(o->shim->loop, &o->io);
    close(fd);
    shim_log_end(&o->shim->log, o->stream);
}

/* One read; false if there is nothing now. */
static bool output_take(struct output *o)
{
    static char bytes[LOG_READ_BYTES];
    ssize_t n = o->io.fd < 0 ? -1 : read(o->io.fd, bytes, sizeof bytes);
    if (n > 0)
        shim_log_add(&o->shim->log, o->stream, (struct str){bytes, (size_t)n});
    else if (o->io.fd >= 0 && (n == 0 || (errno != EAGAIN && errno != EINTR)))
        output_close(o);
    return n > 0;
}

static void output_ready(struct loop_io *io, uint32_t events)
{
    struct output *o = CONTAINER_OF(io, struct output, io);
    (void)events;
    settle_start(o->shim);
    output_take(o);
}

static void output_finish(struct output *o)
{
    for (int i = 0; i < LAST_READS_MAX && output_take(o); i++)
        ;
    output_close(o);
}

/* ---- the last word ---- */

static const char *verdict(const struct shim *s, char *text, size_t size)
{
    if (!WIFSIGNALED(s->status))
        snprintf(text, size, "exited with status %d", WEXITSTATUS(s->status));
    else
        snprintf(text, size, "killed by signal %d (%s%s)", WTERMSIG(s->status),
                 s->ended.is_oom ? "out of memory" : strsignal(WTERMSIG(s->status)),
                 s->ended.has_core ? ", core dumped" : "");
    return text;
}

static void explain(struct shim *s)
{
    char text[128];
    if (s->is_start_failed)
        snprintf(s->reason, sizeof s->reason, "%s", s->failed.message);
    else if (s->is_told_to_stop)
        snprintf(s->reason, sizeof s->reason, "stopped: %s%s", verdict(s, text, sizeof text),
                 s->is_killed_by_us ? " when its grace was over" : "");
    else
        snprintf(s->reason, sizeof s->reason, "%s", verdict(s, text, sizeof text));
    s->ended.text = str_of(s->reason);
}

static void sum_up(struct shim *s)
{
    bool is_signal = !s->is_start_failed && WIFSIGNALED(s->status);
    s->ended = (struct ended){
        .ending = s->is_start_failed                                ? ENDING_START_FAILED
                  : s->is_told_to_stop && !planted(STOP_IS_A_CRASH) ? ENDING_STOPPED
                                                                    : ENDING_EXITED,
        .code = s->is_start_failed || is_signal ? -1 : WEXITSTATUS(s->status),
        .signal = is_signal ? WTERMSIG(s->status) : 0,
        .has_core = is_signal && WCOREDUMP(s->status),
        .is_oom = is_signal && WTERMSIG(s->status) == SIGKILL && !s->is_killed_by_us && s->cgroup &&
                  cgroup_has_oom_kill(s->cgroup),
        .at_ms = clock_kernel.wall_ms(NULL),
    };
    explain(s);
    shim_tail_write(&s->log.tail, &s->tail);
    s->ended.tail = buf_str(&s->tail);
}

static void write_ended(struct loop_timer *timer)
{
    struct shim *s = CONTAINER_OF(timer, struct shim, again);
    struct err err = ERR_INIT;
    if (ended_write(s->order.folder, &s->ended, &err) < 0 && access(s->order.folder, F_OK) == 0) {
        shim_log_say(&s->log, "%s", err.message);
        loop_timer_set(s->loop, &s->again, loop_now_us(s->loop) + WRITE_AGAIN_US, write_ended);
        return;
    }
    loop_stop(s->loop);
}

/* There is no process left, or there never was one. */
static void last_word(struct shim *s)
{
    s->state = OVER;
    loop_timer_stop(s->loop, &s->grace);
    loop_timer_stop(s->loop, &s->again);
    shim_notify_flush(&s->notify);
    output_finish(&s->out);
    output_finish(&s->err);
    sum_up(s);
    shim_log_say(&s->log, "spawn %s ended: %s", s->order.spawn_id, s->reason);
    write_ended(&s->again);
    tell_ended(s);
    if (s->cgroup)
        cgroup_remove(s->cgroup); /* somebody waits for the word, nobody for this */
}

/* ---- ending the tree ---- */

static void kill_tree(struct loop_timer *timer);
static void reap(struct shim *s);

static void begin_killing(struct shim *s)
{
    if (s->state == KILLING)
        return;
    s->state = KILLING;
    s->is_killed_by_us = !s->is_reaped;
    s->kill_again_us = KILL_AGAIN_US;
    loop_timer_stop(s->loop, &s->grace);
    kill_tree(&s->again);
}

/* The agent's, while its number is its own; the agent alone as long as it has not made one. */
static void signal_group(const struct shim *s, int signo)
{
    if (!s->is_reaped && kill(-s->child.pid, signo) < 0)
        kill(s->child.pid, signo);
}

/* Again on each child that ends, because what it leaves behind is ours then, and after a while for
 * what has ended without our noticing, or not at all yet. */
static void kill_tree(struct loop_timer *timer)
{
    struct shim *s = CONTAINER_OF(timer, struct shim, again);
    if (s->cgroup)
        cgroup_kill(s->cgroup);
    signal_group(s, SIGKILL);
    tree_kill_descendants();
    loop_timer_set(s->loop, &s->again, clock_mono_us() + s->kill_again_us, kill_tree);
    s->kill_again_us = MIN(2 * s->kill_again_us, (int64_t)KILL_AGAIN_US_MAX);
    reap(s);
}

/* What became of its start is known by now at the latest. */
static void agent_ended(struct shim *s, int status)
{
    s->is_reaped = true;
    s->status = planted(STATUS_LOST) ? 0 : status;
    settle_start(s);
}

/* Takes whoever has ended. Without the agent the others have no business here. */
static void reap(struct shim *s)
{
    int status;
    pid_t pid;
    bool is_any = false;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        is_any = true;
        if (pid == s->child.pid)
            agent_ended(s, status);
    }
    if ((pid < 0 && errno == ECHILD) || (planted(ESCAPEES_LEFT) && s->is_reaped))
        last_word(s);
    else if (s->state == KILLING && is_any)
        loop_timer_set(s->loop, &s->again, clock_mono_us(), kill_tree);
    else if (s->is_reaped)
        begin_killing(s);
}

/* ---- being told to stop ---- */

static void grace_over(struct loop_timer *timer)
{
    begin_killing(CONTAINER_OF(timer, struct shim, grace));
}

/* The first asks; a later one may shorten the grace, and never lengthens it. */
static void on_stop(void *ctx, int64_t grace_ms)
{
    struct shim *s = ctx;
    if (s->state == KILLING || s->state == OVER)
        return;
    int64_t ms = MIN(grace_ms < 0 ? s->order.stop_grace_ms : grace_ms, CLOCK_MS_MAX);
    int64_t due_us = clock_mono_us() + ms * 1000;
    bool is_first = !s->is_told_to_stop;
    s->is_told_to_stop = true;
    if (is_first) {
        shim_log_say(&s->log, "told to stop within %lld ms", (long long)ms);
        signal_group(s, SIGTERM);
        signal_group(s, SIGCONT); /* so that one that is stopped can take the other */
    }
    if (is_first || due_us < s->grace.due_us)
        loop_timer_set(s->loop, &s->grace, due_us, grace_over);
}

/* ---- starting ---- */

static void on_signal(void *ctx, int signo)
{
    struct shim *s = ctx;
    if (signo != SIGCHLD) {
        on_stop(s, -1);
        return;
    }
    if (s->state != OVER)
        reap(s);
}

static int open_cgroup(struct shim *s)
{
    struct err err = ERR_INIT;
    if (!s->order.cgroup)
        return -1;
    int fd = cgroup_make(s->order.cgroup, &err) == 0 ? cgroup_open(s->order.cgroup) : -1;
    if (fd < 0)
        shim_log_say(&s->log, "not in a cgroup: %s", err.code ? err.message : strerror(errno));
    else
        s->cgroup = s->order.cgroup;
    return fd;
}

static int start_agent(struct shim *s, struct err *err)
{
    struct process_stat stat;
    int cgroup_fd = open_cgroup(s);
    int r = shim_start(&s->order, s->notify.variable, cgroup_fd, &s->child, err);
    if (cgroup_fd >= 0)
        close(cgroup_fd);
    if (r < 0)
        return r;
    /* It is not reaped, so it has an entry in /proc, dead or alive. */
    s->agent_start_time = tree_stat(s->child.pid, &stat) == 0 ? stat.start_time : 0;
    r = loop_watch(s->loop, &s->failure, s->child.failure_fd, EPOLLIN, failure_ready);
    if (r == 0)
        r = loop_watch(s->loop, &s->out.io, s->child.out_fd, EPOLLIN, output_ready);
    if (r == 0)
        r = loop_watch(s->loop, &s->err.io, s->child.err_fd, EPOLLIN, output_ready);
    REQUIRE_F(r == 0, "epoll_ctl: %s", strerror(errno));
    return 0;
}

static int begin(struct shim *s, struct err *err)
{
    struct err warning = ERR_INIT;
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGINT);
    int r = loop_signals(s->loop, &mask, on_signal, s, err);
    if (r == 0)
        r = shim_line_listen(&s->line, s->order.folder, err);
    if (r < 0)
        return r;
    if (shim_notify_open(&s->notify, s->loop, s->order.spawn_id, &notify_handlers, s, &warning) < 0)
        shim_log_say(&s->log, "%s", warning.message);
    return start_agent(s, err);
}

/* ---- the process itself ---- */

/* What was inherited beyond standard input, output, error and the line is the machine's. */
static void settle_down(void)
{
    int null = open("/dev/null", O_RDWR);
    while (null >= 0 && null <= STDERR_FILENO)
        null = dup(null); /* it took the place of one that was closed, and keeps it */
    dup2(null, STDIN_FILENO);
    close(null);
    close_range(SHIM_LINE_FD + 1, ~0U, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a log at its limit is an error of write() */
    signal(SIGHUP, SIG_IGN);
}

static int read_order(struct arena *a, struct order *ret, struct err *err)
{
    _cleanup_buf_ struct buf text = BUF_INIT(ORDER_BYTES_MAX + 4096 * 2);
    int r = file_read_fd(STDIN_FILENO, &text);
    if (r < 0)
        return err_set(err, ERR_IO, "cannot read the order: %s", strerror(-r));
    return order_parse(a, arena_str(a, buf_str(&text)), ret, err);
}

static void run(struct shim *s)
{
    struct err err = ERR_INIT;
    s->out = (struct output){.shim = s, .io = LOOP_IO_INIT, .stream = LOG_OUT};
    s->err = (struct output){.shim = s, .io = LOOP_IO_INIT, .stream = LOG_ERR};
    s->failure = s->notify.io = LOOP_IO_INIT;
    s->tail = BUF_INIT(RECORD_TAIL_BYTES_MAX);
    shim_log_init(&s->log, s->order.log, s->order.log_bytes_max);
    shim_line_init(&s->line, s->loop, on_stop, s);
    shim_line_adopt(&s->line, SHIM_LINE_FD);
    if (begin(s, &err) < 0) {
        start_failed(s, &err);
        last_word(s);
    }
    loop_run(s->loop);
    shim_line_close(&s->line);
    shim_notify_close(&s->notify);
    shim_log_release(&s->log);
    buf_release(&s->tail);
}

int shim_run(struct err *err)
{
    static struct shim s; /* there is one */
    struct arena arena = ARENA_INIT;
    setsid(); /* fails if we lead a group already: started by hand */
    int r = read_order(&arena, &s.order, err);
    if (r == 0)
        settle_down();
    if (r == 0)
        r = loop_new(&s.loop, err);
    if (r == 0)
        run(&s);
    s.loop = loop_free(s.loop);
    arena_release(&arena);
    return r;
}
