/*
 * exec.c: see exec.h.
 *
 * The number of the group is the command's until it is reaped, so signals to the group are sent
 * before that and never after. Whether exec worked is told through a pipe that a successful exec
 * closes. Between fork and exec only system calls are made: the caller has threads.
 */
#include "cli/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/mem.h"
#include "cli/signals.h"

enum { READ_BYTES = 64 * 1024 };

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

int exec_start(struct exec *e, char *const argv[], char *const envp[], struct str input,
               struct err *err)
{
    struct pipes p = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
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
                       .out_fd = keep(p.out, 0),
                       .err_fd = keep(p.err, 0),
                       .input = input,
                       .out = BUF_INIT(EXEC_OUT_BYTES_MAX + READ_BYTES)};
    pipes_close(&p);
    REQUIRE_F(e->pidfd >= 0, "pidfd_open: %s", strerror(errno));
    return 0;
}

/* ---- bytes ---- */

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

static void keep_tail(struct exec *e, const char *bytes, size_t n)
{
    for (size_t i = n > EXEC_TAIL_BYTES ? n - EXEC_TAIL_BYTES : 0; i < n; i++)
        e->tail[(e->tail_bytes + (int64_t)i) % EXEC_TAIL_BYTES] = bytes[i] ? bytes[i] : ' ';
    e->tail_bytes += (int64_t)n;
}

static void pass_on(const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t written = write(STDERR_FILENO, bytes, n);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return; /* nobody wants to know */
        bytes += written;
        n -= (size_t)written;
    }
}

/* One read; false if there is nothing more for now. */
static bool take(struct exec *e, int *fd)
{
    char bytes[READ_BYTES];
    ssize_t n = *fd >= 0 ? read(*fd, bytes, sizeof bytes) : -1;
    if (n == 0)
        end_fd(fd);
    if (n <= 0)
        return n < 0 && *fd >= 0 && errno == EINTR;
    keep_tail(e, bytes, (size_t)n);
    if (fd == &e->err_fd) {
        pass_on(bytes, (size_t)n);
        return true;
    }
    e->out_bytes += n;
    if (e->out.len < EXEC_OUT_BYTES_MAX)
        buf_add(&e->out, bytes, (size_t)n);
    return true;
}

size_t exec_fds(const struct exec *e, struct pollfd fds[EXEC_FDS])
{
    size_t n = 0;
    fds[n++] = (struct pollfd){.fd = e->pidfd, .events = POLLIN};
    if (e->in_fd >= 0)
        fds[n++] = (struct pollfd){.fd = e->in_fd, .events = POLLOUT};
    if (e->out_fd >= 0)
        fds[n++] = (struct pollfd){.fd = e->out_fd, .events = POLLIN};
    if (e->err_fd >= 0)
        fds[n++] = (struct pollfd){.fd = e->err_fd, .events = POLLIN};
    return n;
}

bool exec_step(struct exec *e, const struct pollfd *fds, size_t count)
{
    bool has_ended = false;
    for (size_t i = 0; i < count; i++) {
        if (!fds[i].revents)
            continue;
        if (fds[i].fd == e->pidfd)
            has_ended = true;
        else if (fds[i].fd == e->in_fd)
            feed(e);
        else if (fds[i].fd == e->out_fd)
            take(e, &e->out_fd);
        else if (fds[i].fd == e->err_fd)
            take(e, &e->err_fd);
    }
    return has_ended;
}

/* ---- the end ---- */

void exec_signal(const struct exec *e, int signo)
{
    kill(-e->pid, signo);
}

int exec_finish(struct exec *e)
{
    int status = 0;
    /* What is in the pipes now is all it has said; something it left behind may write for ever. */
    bool had_some = true;
    for (int left = 64; left > 0 && had_some; left--) {
        had_some = take(e, &e->out_fd);
        had_some |= take(e, &e->err_fd);
    }
    while (waitpid(e->pid, &status, 0) < 0)
        REQUIRE_F(errno == EINTR, "waitpid: %s", strerror(errno));
    return status;
}

void exec_release(struct exec *e)
{
    end_fd(&e->pidfd);
    end_fd(&e->in_fd);
    end_fd(&e->out_fd);
    end_fd(&e->err_fd);
    buf_release(&e->out);
}

void exec_add_tail(const struct exec *e, struct buf *out)
{
    char text[EXEC_TAIL_BYTES];
    size_t n = (size_t)MIN(e->tail_bytes, (int64_t)EXEC_TAIL_BYTES), from = 0;
    for (size_t i = 0; i < n; i++)
        text[i] = e->tail[(e->tail_bytes - (int64_t)n + (int64_t)i) % EXEC_TAIL_BYTES];
    const char *line = e->tail_bytes > EXEC_TAIL_BYTES ? memchr(text, '\n', n) : NULL;
    if (line && line + 1 < text + n)
        from = (size_t)(line + 1 - text);
    while (n > from && text[n - 1] == '\n')
        n--;
    buf_add(out, text + from, n - from);
}
