/*
 * shim_start.c: see shim_start.h.
 *
 * What goes wrong in the child comes back through a pipe that a successful exec closes. It is read
 * by the event loop: a program on a file system that hangs must not make the shim deaf to a stop.
 *
 * PR_SET_PDEATHSIG works from the moment it is set. Should the shim have died before that, the
 * child sees another parent, and goes by itself.
 */
#include "machine/shim_start.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/mem.h"
#include "machine/cgroup.h"

enum { STATUS_CANNOT_START = 127 };

enum step { STEP_PREPARE, STEP_FOLDER, STEP_PROGRAM };

struct failure {
    int step, error;
};

struct plan {
    const struct order *order;
    const char **env;
    pid_t parent;
    int out[2], err[2], failure[2];
};

/* ---- in the child: system calls only ---- */

static void report(const struct plan *p, enum step step)
{
    struct failure f = {.step = step, .error = errno};
    ssize_t n = write(p->failure[1], &f, sizeof f);
    (void)n; /* nobody is there to hear it */
}

static void reset_signals(void)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t none;
    for (int i = 1; i < NSIG; i++)
        sigaction(i, &standard, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static bool prepare(const struct plan *p)
{
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != p->parent)
        _exit(STATUS_CANNOT_START);
    reset_signals();
    return dup2(p->out[1], STDOUT_FILENO) >= 0 && dup2(p->err[1], STDERR_FILENO) >= 0 &&
           close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC) == 0;
}

_noreturn_ static void become(const struct plan *p)
{
    const struct order *o = p->order;
    if (!prepare(p)) {
        report(p, STEP_PREPARE);
        _exit(STATUS_CANNOT_START);
    }
    if (chdir(o->cwd) < 0) {
        report(p, STEP_FOLDER);
        _exit(STATUS_CANNOT_START);
    }
    environ = (char **)p->env; /* execvp() looks for PATH there */
    execvp(o->argv[0], (char *const *)o->argv);
    report(p, STEP_PROGRAM);
    _exit(STATUS_CANNOT_START);
}

/* ---- in the shim ---- */

static bool is_same_name(const char *a, const char *b)
{
    size_t n = strcspn(a, "=");
    return strncmp(a, b, n) == 0 && b[n] == '=';
}

static const char **environment(const struct order *o, const char *variable)
{
    size_t n = 0, count = 0;
    while (o->env[count])
        count++;
    const char **env = mem_alloc((count + 2) * sizeof *env);
    for (size_t i = 0; i < count; i++)
        if (!variable || !is_same_name(variable, o->env[i]))
            env[n++] = o->env[i];
    if (variable)
        env[n++] = variable;
    env[n] = NULL;
    return env;
}

static void end_fd(int *fd)
{
    if (*fd >= 0)
        close(TAKE_FD(*fd));
}

static void plan_release(struct plan *p)
{
    for (int end = 0; end < 2; end++) {
        end_fd(&p->out[end]);
        end_fd(&p->err[end]);
        end_fd(&p->failure[end]);
    }
    mem_freep(&p->env);
}

/* The ends that the shim reads must not make it wait; what the agent does with its own is its own.
 */
static int pipe_to_us(int fds[2])
{
    return pipe2(fds, O_CLOEXEC) < 0 ? -1 : fcntl(fds[0], F_SETFL, O_NONBLOCK);
}

static bool plan_open(struct plan *p)
{
    return pipe_to_us(p->out) == 0 && pipe_to_us(p->err) == 0 && pipe_to_us(p->failure) == 0;
}

/* Without its cgroup rather than not at all. */
static pid_t fork_into(int cgroup_fd, int *ret_cgroup_errno)
{
    pid_t pid = cgroup_fd >= 0 ? cgroup_fork(cgroup_fd) : -1;
    *ret_cgroup_errno = cgroup_fd >= 0 && pid < 0 ? errno : 0;
    return pid >= 0 ? pid : fork();
}

int shim_start(const struct order *o, const char *variable, int cgroup_fd, struct shim_child *ret,
               struct err *err)
{
    int cgroup_errno = 0;
    struct plan p = {.order = o,
                     .env = environment(o, variable),
                     .parent = getpid(),
                     .out = {-1, -1},
                     .err = {-1, -1},
                     .failure = {-1, -1}};
    pid_t pid = plan_open(&p) ? fork_into(cgroup_fd, &cgroup_errno) : -1;
    if (pid == 0)
        become(&p);
    if (pid < 0)
        err_set(err, ERR_IO, "cannot start a process: %s", strerror(errno));
    else
        *ret = (struct shim_child){.pid = pid,
                                   .out_fd = TAKE_FD(p.out[0]),
                                   .err_fd = TAKE_FD(p.err[0]),
                                   .failure_fd = TAKE_FD(p.failure[0]),
                                   .cgroup_errno = cgroup_errno};
    plan_release(&p);
    return pid < 0 ? -ERR_IO : 0;
}

static int explain(const struct failure *f, const struct order *o, struct err *err)
{
    const char *why = strerror(f->error);
    if (f->step == STEP_FOLDER)
        return err_set(err, ERR_IO, "cannot enter the folder %.160s: %s", o->cwd, why);
    if (f->step == STEP_PROGRAM)
        return err_set(err, ERR_IO, "cannot execute %.160s: %s", o->argv[0], why);
    return err_set(err, ERR_IO, "cannot prepare the process: %s", why);
}

int shim_start_outcome(struct shim_child *c, const struct order *o, struct err *err)
{
    struct failure f;
    ssize_t n = read(c->failure_fd, &f, sizeof f);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 1;
    return n == sizeof f ? explain(&f, o, err) : 0;
}
