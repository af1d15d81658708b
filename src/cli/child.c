/*
 * child.c: see child.h.
 *
 * A group of its own, because Ctrl-C goes to the whole foreground group: the server would begin to
 * stop on its own while we still talk to it. The signal on the parent's death covers kill -9 of
 * `reeve up`; the check of getppid() covers our death before it was asked for. Signals go by pidfd,
 * so never to a stranger with the same number.
 */
#include "cli/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/mem.h"
#include "cli/signals.h"

_noreturn_ static void become(char *const argv[], pid_t parent)
{
    setpgid(0, 0);
    signals_reset();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(err_exit_status(ERR_INTERNAL));
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null >= 0)
        dup2(null, STDIN_FILENO);
    execv("/proc/self/exe", argv);
    fprintf(stderr, "reeve: cannot run /proc/self/exe: %s\n", strerror(errno));
    _exit(err_exit_status(ERR_INTERNAL));
}

int child_start(struct child *c, char *const argv[], struct err *err)
{
    fflush(NULL);
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid < 0)
        return err_set(err, ERR_IO, "cannot start a process: %s", strerror(errno));
    if (pid == 0)
        become(argv, parent);
    int pidfd = pidfd_open(pid, 0);
    REQUIRE_F(pidfd >= 0, "pidfd_open: %s", strerror(errno));
    *c = (struct child){.pid = pid, .pidfd = pidfd};
    return 0;
}

void child_signal(const struct child *c, int signo)
{
    pidfd_send_signal(c->pidfd, signo, NULL, 0);
}

int child_reap(struct child *c)
{
    int status = 0;
    while (waitpid(c->pid, &status, 0) < 0)
        REQUIRE_F(errno == EINTR, "waitpid: %s", strerror(errno));
    close(TAKE_FD(c->pidfd));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
