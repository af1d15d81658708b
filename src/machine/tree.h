/*
 * tree.h: finding and ending processes, without ever touching a stranger.
 *
 * A signal goes to a pidfd whose process was verified *after* the pidfd was opened: the pidfd holds
 * on to that process, so what was verified is what is signalled, whatever becomes of the pid (L53).
 * Verified is one of: it is a child of ours (nobody but us can make its pid free), its start time
 * is the one on record, or its environment carries the mark of the spawn.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "machine/record.h"

/* "the boot": /proc/sys/kernel/random/boot_id. */
int tree_boot_id(char ret[BOOT_ID_BYTES], struct err *err);
/* What /proc/PID/stat says; -ERR_NOT_FOUND if there is none. A zombie has one, and is not alive. */
struct process_stat {
    pid_t parent;
    int64_t start_time; /* as in struct process_id */
    bool is_alive;
};
int tree_stat(pid_t pid, struct process_stat *ret);
/* ERR_NOT_FOUND if there is no such process; a zombie is none (L34). */
int tree_process_id(pid_t pid, struct process_id *ret, struct err *err);
/* A pidfd of exactly this process, or -1: it has ended. */
int tree_open(const struct process_id *p);
/* Is it this process, or does it descend from it? */
bool tree_is_ours(pid_t pid);

/* The processor time that this process and all that descend from it have used, in ms; what they
 * have reaped is counted. */
int64_t tree_cpu_ms(pid_t pid);

/* SIGKILL to every descendant of this process, found from its children down. True if there was
 * any. Call, reap, and call again until there is no child left: what was forked meanwhile has come
 * to us, because we are its subreaper. */
bool tree_kill_descendants(void);
/* SIGKILL to every process that carries the mark of this spawn in its environment. True if there
 * was any, or one that may carry it; call again until there is none. */
bool tree_kill_marked(const char *spawn_id);
