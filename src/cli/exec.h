/*
 * exec.h: a command that is fed, listened to and, if need be, ended, while its caller does other
 * things.
 *
 *     exec_start(&e, argv, envp, input, &sinks, err)
 *     for (;;) {
 *         n = exec_fds(&e, fds);               add one's own, poll()
 *         if (exec_step(&e)) break;            the command has ended
 *     }
 *     exec_kill(&e);                           only if nothing of it may be left
 *     status = exec_finish(&e);                then e.out and e.tail hold what it said
 *     exec_release(&e);
 *
 * What it prints goes on to where the caller says, as fast as that takes it: a reader that is slow
 * holds up the command, as in any pipeline, and never the caller. The end of it is kept, in memory
 * that does not grow: of its standard output for the deliverable, of both streams for people.
 *
 * It runs in a process group of its own and gets SIGTERM if we die first. While it runs we are the
 * subreaper of all that it starts, so that exec_kill() finds what left the group, too. That is only
 * so if we had no children before, which a shell that became us by `exec` may have left: such
 * children are no business of ours, and the tree is then no more than the group. What it leaves
 * running in the background when it ends is neither waited for nor ended.
 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum {
    EXEC_FDS = 4,
    EXEC_OUT_BYTES_MAX = 1 << 20,
    EXEC_TAIL_BYTES = 1200,
    EXEC_WORDS_BYTES = 400,
    EXEC_PIECE_BYTES = 16 * 1024
};

/* One of its two outputs. */
struct exec_stream {
    int fd;      /* -1: at its end */
    int sink_fd; /* where it goes on to; -1: nobody wants it any more */
    size_t from, to;
    char piece[EXEC_PIECE_BYTES]; /* from .. to is still to be passed on */
};

struct exec {
    pid_t pid;
    int pidfd; /* readable once it has ended */
    int in_fd;
    struct str input; /* what is still to be written */
    struct exec_stream streams[2];
    bool owns_tree; /* every child of ours is of its tree */
    bool is_reaped;
    int64_t bytes;     /* that it has printed, both streams */
    struct buf out;    /* the last of its standard output, EXEC_OUT_BYTES_MAX at least */
    int64_t out_bytes; /* all of it */
    char tail[EXEC_TAIL_BYTES];
    struct buf last_words; /* the last of its standard error, EXEC_WORDS_BYTES at least */
    char last_byte;        /* that was passed on to the first sink */
};

/* Is there such a command? ERR_USAGE if not: worth knowing before work is taken on. */
int exec_check(const char *command, struct err *err);
/* Where its standard output and standard error go on to. */
struct exec_sinks {
    int out_fd, err_fd;
};
/* The input must live until exec_finish(). ERR_IO if it cannot be run; then there is nothing to
 * release. */
int exec_start(struct exec *e, char *const argv[], char *const envp[], struct str input,
               const struct exec_sinks *sinks, struct err *err);
/* What to poll for; how many of the EXEC_FDS were filled in. */
size_t exec_fds(const struct exec *e, struct pollfd fds[EXEC_FDS]);
/* Moves what bytes can be moved; true once the command has ended. Never waits. */
bool exec_step(struct exec *e);
/* To the command and everything in its group. Not after exec_finish(). */
void exec_signal(const struct exec *e, int signo);
/* SIGKILL to the whole tree, again until nothing of it is alive, for at most 2 seconds. Also after
 * exec_finish(), for what it has left behind. */
void exec_kill(struct exec *e);
/* Takes and passes on what it has written last; its status as waitpid() gives it. */
int exec_finish(struct exec *e);
void exec_release(struct exec *e);

/* The last lines of its output, whole ones if there are any; no NUL in it. Two pipes have no common
 * order: what it said last on its standard error is added if the lines do not have it. */
void exec_add_tail(const struct exec *e, struct buf *out);
/* The processor time it has used, in seconds, with all that descends from it. */
int64_t exec_cpu_seconds(const struct exec *e);
