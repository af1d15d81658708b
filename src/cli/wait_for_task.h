/*
 * wait_for_task.h: what the two files of `reeve wait-for-task` share: cmd_wait_for_task.c takes a
 * task, wait_exec.c runs a command for it.
 */
#pragma once

#include <reeve.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "cli/cli.h"

struct agent_loop {
    const struct cli_args *args;
    struct reeve *reeve;
    int64_t conversation;
    const char *role;
    int signal_fd, stop_fd;
    int signo;             /* that ended us */
    bool is_output_broken; /* nobody reads what we print */
    bool is_resumed;       /* the task in hand waited for tools, and has reeve_results() */
    struct err *err;
};

void wait_complain(const char *text);
/* A signal has come, or nobody reads us any more. */
void wait_note_interruption(struct agent_loop *l);
/* What the exit status of a result is; says why unless it is a signal, or an error to report. */
int wait_conclude(struct agent_loop *l, int result);
/* Straight to the descriptor: a broken pipe must not end us before we have left. */
void wait_print(struct agent_loop *l, const struct buf *line);
/* JSON that is ours already, cleaned for whoever looks at it, and a line feed. */
void wait_add_clean_line(struct buf *out, const char *json);

/* --exec: runs the command for the task in hand and reports how it ended. The exit status, or a
 * negative code with l->err filled. */
int wait_run_command(struct agent_loop *l);
