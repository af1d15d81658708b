/*
 * exec.h: a command that is fed, listened to and, if need be, ended, while its caller does other
 * things.
 *
 *     exec_start(&e, argv, envp, input, err)
 *     for (;;) {
 *         n = exec_fds(&e, fds);               add one's own, poll()
 *         if (exec_step(&e, fds, n)) break;    the command has ended
 *     }
 *     status = exec_finish(&e);                then e.out and e.tail hold what it said
 *     exec_release(&e);
 *
 * It runs in a process group of its own, so that it can be ended with all that it has started, and
 * gets SIGTERM if we die first. Its standard error goes where ours goes. What it leaves running in
 * the background is not waited for.
 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum { EXEC_FDS = 4, EXEC_OUT_BYTES_MAX = 1 << 20, EXEC_TAIL_BYTES = 1200 };

struct exec {
    pid_t pid;
    int pidfd; /* readable once it has ended */
    int in_fd, out_fd, err_fd;
    struct str input;  /* what is still to be written */
    struct buf out;    /* the first EXEC_OUT_BYTES_MAX of its standard output */
    int64_t out_bytes; /* all of it */
    char tail[EXEC_TAIL_BYTES];
    int64_t tail_bytes; /* of both streams; the last of them are in `tail` */
};

/* Is there such a command? ERR_USAGE if not: worth knowing before work is taken on. */
int exec_check(const char *command, struct err *err);
/* The input must live until exec_finish(). ERR_IO if it cannot be run; then there is nothing to
 * release. */
int exec_start(struct exec *e, char *const argv[], char *const envp[], struct str input,
               struct err *err);
/* What to poll for; how many of the EXEC_FDS were filled in. */
size_t exec_fds(const struct exec *e, struct pollfd fds[EXEC_FDS]);
/* Moves bytes; true once the command has ended. */
bool exec_step(struct exec *e, const struct pollfd *fds, size_t count);
/* To the command and everything in its group. Not after exec_finish(). */
void exec_signal(const struct exec *e, int signo);
/* Takes what it has written last; its status as waitpid() gives it. */
int exec_finish(struct exec *e);
void exec_release(struct exec *e);

/* The last lines of its output, whole ones if there are any; no NUL in it. */
void exec_add_tail(const struct exec *e, struct buf *out);
