/*
 * exec.c: see exec.h.
 *
 * The number of the group is the command's until it is reaped, so signals to the group are sent
 * before that and never after. Whether exec worked is told through a pipe that a successful exec
 * closes. Between fork and exec only system calls are made: the caller has threads.
 *
 * A sink is somebody else's descriptor and cannot be made non-blocking. So it is asked before each
 * write, and written to in pieces that a pipe with room takes whole (PIPE_BUF).
 */
#include "cli/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macro.h"
#include "base/mem.h"
#include "cli/signals.h"
#include "machine/tree.h"

enum {
    FLUSH_US = 1000000, /* for readers who are slow, once the command has ended */
    KILL_US = 2000000,
    KILL_AGAIN_NS = 1000000,
    LAST_PIECES_MAX = 256, /* in the pipes when it ended: far more than they hold */
};

static bool can_run(const char *path)
{
    return access(path, X_OK) == 0;
}

int exec_check(const char *command, struct err *err)
{
    const char *path = getenv("PATH");
    if (strchr(command, '/'))
        return can_run(command)
                   ? 0
                   : err_set(err, ERR_USAGE, "cannot run %s: %s", command, strerror(errno));
    for (const char *p = path ? path : "/usr/bin:/bin"; *command && *p;) {
        size_t n = strcspn(p, ":");
        _cleanup_free_ char *file = mem_printf("%.*s/%s", n ? (int)n : 1, n ? p : ".", command);
        if (can_run(file))
            return 0;
        p += n + (p[n] == ':');
    }
    return err_set(err, ERR_USAGE, "there is no command '%s'", command);
}

/* ---- starting ---- */

struct pipes {
    int in[2], out[2], err[2], failure[2];
};

static void close_pipe(int fds[2])
{
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static void pipes_close(struct pipes *p)
{
    close_pipe(p->in);
    close_pipe(p->out);
    close_pipe(p->err);
    close_pipe(p->failure);
}

static int pipes_open(struct pipes *p)
{
    if (pipe2(p->in, O_CLOEXEC) < 0 || pipe2(p->out, O_CLOEXEC) < 0 ||
        pipe2(p->err, O_CLOEXEC) < 0 || pipe2(p->failure, O_CLOEXEC) < 0) {
        pipes_close(p);
        return -1;
    }
    return 0;
}

_noreturn_ static void become(const struct pipes *p, char *const argv[], char *const envp[],
                              pid_t parent)
{
    setpgid(0, 0);
    signals_reset();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() == parent && dup2(p->in[0], STDIN_FILENO) >= 0 &&
        dup2(p->out[1], STDOUT_FILENO) >= 0 && dup2(p->err[1], STDERR_FILENO) >= 0) {
        close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
        execvpe(argv[0], argv, envp);
    }
    int error = errno;
    ssize_t told = write(p->failure[1], &error, sizeof error);
    _exit(told == sizeof error ? 126 : 127);
}

/* Our end of a pipe, non-blocking; the other one is closed. */
static int keep(int fds[2], int end)
{
    close(fds[!end]);
    fcntl(fds[end], F_SETFL, O_NONBLOCK);
    int fd = fds[end];
    fds[0] = fds[1] = -1;
    return fd;
}

/* 0 if exec has worked, else its errno. */
static int read_failure(int fd)
{
    int error = 0;
    ssize_t n;
    while ((n = read(fd, &error, sizeof error)) < 0 && errno == EINTR)
        ;
    return n == sizeof error ? error : 0;
}

/* Nobody's child is ours: from now on every child that we have is of the command's tree. */
static bool own_tree(void)
{
    siginfo_t any;
    bool has_none = waitid(P_ALL, 0, &any, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
    return has_none && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
}

int exec_start(struct exec *e, char *const argv[], char *const envp[], struct str input,
               const struct exec_sinks *sinks, struct err *err)
{
    struct pipes p = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
    bool owns_tree = own_tree();
    pid_t parent = getpid(), pid = pipes_open(&p) < 0 ? -1 : fork();
    if (pid < 0) {
        err_set(err, ERR_IO, "cannot start a process: %s", strerror(errno));
        pipes_close(&p);
        return -ERR_IO;
    }
    if (pid == 0)
        become(&p, argv, envp, parent);
    setpgid(pid, pid); /* whoever comes first */
    close(TAKE_FD(p.failure[1]));
    int error = read_failure(p.failure[0]);
    if (error) {
        waitpid(pid, NULL, 0);
        pipes_close(&p);
        return err_set(err, ERR_IO, "cannot run %s: %s", argv[0], strerror(error));
    }
    *e = (struct exec){.pid = pid,
                       .pidfd = pidfd_open(pid, 0),
                       .in_fd = keep(p.in, 1),
                       .input = input,
                       .streams = {{.fd = keep(p.out, 0), .sink_fd = sinks->out_fd},
                                   {.fd = keep(p.err, 0), .sink_fd = sinks->err_fd}},
                       .owns_tree = owns_tree,
                       .out = BUF_INIT(2 * EXEC_OUT_BYTES_MAX + EXEC_PIECE_BYTES),
                       .last_words = BUF_INIT(EXEC_WORDS_BYTES + EXEC_PIECE_BYTES),
                       .last_byte = '\n'};
    pipes_close(&p);
    REQUIRE_F(e->pidfd >= 0, "pidfd_open: %s", strerror(errno));
    return 0;
}

/* ---- bytes in ---- */

static void end_fd(int *fd)
{
    if (*fd >= 0)
        close(TAKE_FD(*fd));
}

static void feed(struct exec *e)
{
    while (e->in_fd >= 0 && e->input.n > 0) {
        ssize_t n = write(e->in_fd, e->input.p, e->input.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0)
            break; /* it does not want to read it */
        e->input = str_skip(e->input, (size_t)n);
    }
    end_fd(&e->in_fd);
}

/* ---- bytes out ---- */

static void keep_tail(struct exec *e, const char *bytes, size_t n)
{
    for (size_t i = n > EXEC_TAIL_BYTES ? n - EXEC_TAIL_BYTES : 0; i < n; i++)
        e->tail[(e->bytes + (int64_t)i) % EXEC_TAIL_BYTES] = bytes[i] ? bytes[i] : ' ';
    e->bytes += (int64_t)n;
}

static void keep_out(struct exec *e, const char *bytes, size_t n)
{
    e->out_bytes += (int64_t)n;
    buf_add(&e->out, bytes, n);
    if (e->out.len > 2 * EXEC_OUT_BYTES_MAX)
        buf_drop_front(&e->out, e->out.len - EXEC_OUT_BYTES_MAX);
}

static void keep_words(struct exec *e, const char *bytes, size_t n)
{
    buf_add(&e->last_words, bytes, n);
    if (e->last_words.len > EXEC_WORDS_BYTES)
        buf_drop_front(&e->last_words, e->last_words.len - EXEC_WORDS_BYTES);
    for (size_t i = 0; i < e->last_words.len; i++)
        if (!e->last_words.data[i])
            e->last_words.data[i] = ' ';
}

/* One read, if what was read before has been passed on. False if there was nothing. */
static bool take(struct exec *e, struct exec_stream *s)
{
    if (s->fd < 0 || s->from < s->to)
        return false;
    ssize_t n = read(s->fd, s->piece, sizeof s->piece);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
        end_fd(&s->fd);
    if (n <= 0)
        return false;
    s->from = 0;
    s->to = (size_t)n;
    keep_tail(e, s->piece, s->to);
    if (s == e->streams)
        keep_out(e, s->piece, s->to);
    else
        keep_words(e, s->piece, s->to);
    return true;
}

static bool has_room(int fd, int timeout_ms)
{
    struct pollfd sink = {.fd = fd, .events = POLLOUT};
    return poll(&sink, 1, timeout_ms) > 0;
}

/* As much as is taken without waiting, or within the time. */
static void pass_on(struct exec *e, struct exec_stream *s, int timeout_ms)
{
    while (s->from < s->to && s->sink_fd >= 0 && has_room(s->sink_fd, timeout_ms)) {
        size_t most = MIN(s->to - s->from, (size_t)PIPE_BUF);
        ssize_t n = write(s->sink_fd, s->piece + s->from, most);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0)
            s->sink_fd = -1; /* nobody wants to know */
        if (n > 0 && s == e->streams)
            e->last_byte = s->piece[s->from + (size_t)n - 1];
        s->from += n > 0 ? (size_t)n : 0;
    }
    if (s->sink_fd < 0)
        s->from = s->to;
}

size_t exec_fds(const struct exec *e, struct pollfd fds[EXEC_FDS])
{
    size_t n = 0;
    fds[n++] = (struct pollfd){.fd = e->pidfd, .events = POLLIN};
    if (e->in_fd >= 0)
        fds[n++] = (struct pollfd){.fd = e->in_fd, .events = POLLOUT};
    for (size_t i = 0; i < ARRAY_LEN(e->streams); i++) {
        const struct exec_stream *s = &e->streams[i];
        if (s->from < s->to)
            fds[n++] = (struct pollfd){.fd = s->sink_fd, .events = POLLOUT};
        else if (s->fd >= 0)
            fds[n++] = (struct pollfd){.fd = s->fd, .events = POLLIN};
    }
    return n;
}

/* Those of the tree whose parents are gone; the command itself is left to exec_finish(). */
static void reap_orphans(const struct exec *e)
{
    siginfo_t one = {.si_pid = 0};
    while (e->owns_tree && waitid(P_ALL, 0, &one, WEXITED | WNOHANG | WNOWAIT) == 0 && one.si_pid &&
           (one.si_pid != e->pid || e->is_reaped))
        waitpid(one.si_pid, NULL, 0);
}

bool exec_step(struct exec *e)
{
    struct pollfd end = {.fd = e->pidfd, .events = POLLIN};
    feed(e);
    for (size_t i = 0; i < ARRAY_LEN(e->streams); i++) {
        pass_on(e, &e->streams[i], 0);
        if (take(e, &e->streams[i]))
            pass_on(e, &e->streams[i], 0);
    }
    reap_orphans(e);
    return poll(&end, 1, 0) > 0;
}

/* ---- the end ---- */

void exec_signal(const struct exec *e, int signo)
{
    kill(-e->pid, signo);
}

void exec_kill(struct exec *e)
{
    int64_t until_us = clock_mono_us() + KILL_US;
    if (!e->is_reaped)
        exec_signal(e, SIGKILL);
    while (e->owns_tree && tree_kill_descendants() && clock_mono_us() < until_us) {
        reap_orphans(e);
        nanosleep(&(struct timespec){.tv_nsec = KILL_AGAIN_NS}, NULL);
    }
}

/* What is in the pipes now is all it has said; something it left behind may write for ever. */
static void take_the_rest(struct exec *e)
{
    int64_t until_us = clock_mono_us() + FLUSH_US;
    for (size_t i = 0; i < ARRAY_LEN(e->streams); i++)
        for (int pieces = 0; pieces < LAST_PIECES_MAX; pieces++) {
            struct exec_stream *s = &e->streams[i];
            pass_on(e, s, (int)MAX((until_us - clock_mono_us()) / 1000, (int64_t)0));
            s->from = s->to; /* kept, if not passed on */
            if (!take(e, s))
                break;
        }
}

int exec_finish(struct exec *e)
{
    int status = 0;
    take_the_rest(e);
    while (waitpid(e->pid, &status, 0) < 0)
        REQUIRE_F(errno == EINTR, "waitpid: %s", strerror(errno));
    e->is_reaped = true;
    return status;
}

void exec_release(struct exec *e)
{
    end_fd(&e->pidfd);
    end_fd(&e->in_fd);
    for (size_t i = 0; i < ARRAY_LEN(e->streams); i++)
        end_fd(&e->streams[i].fd);
    buf_release(&e->out);
    buf_release(&e->last_words);
}

/* ---- what is known of it ---- */

static void add_last_words(const struct exec *e, struct str lines, struct buf *out)
{
    struct str words = buf_str(&e->last_words);
    while (words.n && words.p[words.n - 1] == '\n')
        words.n--;
    const char *last = words.n ? memrchr(words.p, '\n', words.n) : NULL;
    struct str line = last ? str_skip(words, (size_t)(last + 1 - words.p)) : words;
    if (!line.n || memmem(lines.p, lines.n, line.p, line.n))
        return;
    buf_addc(out, '\n');
    buf_add_str(out, words);
}

void exec_add_tail(const struct exec *e, struct buf *out)
{
    char text[EXEC_TAIL_BYTES];
    size_t n = (size_t)MIN(e->bytes, (int64_t)EXEC_TAIL_BYTES), from = 0;
    for (size_t i = 0; i < n; i++)
        text[i] = e->tail[(e->bytes - (int64_t)n + (int64_t)i) % EXEC_TAIL_BYTES];
    const char *line = e->bytes > EXEC_TAIL_BYTES ? memchr(text, '\n', n) : NULL;
    if (line && line + 1 < text + n)
        from = (size_t)(line + 1 - text);
    while (n > from && text[n - 1] == '\n')
        n--;
    buf_add(out, text + from, n - from);
    add_last_words(e, (struct str){text + from, n - from}, out);
}

int64_t exec_cpu_seconds(const struct exec *e)
{
    return tree_cpu_ms(e->pid) / 1000;
}
