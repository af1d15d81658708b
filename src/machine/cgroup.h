/*
 * cgroup.h: control groups, version 2, where we may make them.
 *
 * A cgroup makes ending a tree one write, also for what forks faster than anybody can look, and
 * tells an out-of-memory kill from any other. It is a help, not a need: without one the shim ends
 * the tree by walking it (tree.h). Version 1 is not used.
 *
 *     machine: cgroup_find(&parent), then order.cgroup = parent/reeve-<spawnId>
 *     shim:    cgroup_make(), cgroup_fork(cgroup_open()), cgroup_kill(), cgroup_has_oom_kill(),
 *              cgroup_remove()
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

/* A folder in which this process may make cgroups and put its children into them: its own cgroup.
 * The caller frees. -ERR_NOT_FOUND if there is none. */
int cgroup_find(char **ret);
/* The same with other files instead of /proc/self/cgroup and /proc/self/mountinfo. */
int cgroup_find_in(const char *cgroup_file, const char *mounts_file, char **ret);

/* Makes it; one that is there is fine. */
int cgroup_make(const char *path, struct err *err);
/* A descriptor of it; -1 with errno if it cannot be had. */
int cgroup_open(const char *path);
/* fork(), with the child in it from the start. The child may only make system calls. */
pid_t cgroup_fork(int fd);
/* SIGKILL to all in it. False if this kernel cannot (before 5.14). */
bool cgroup_kill(const char *path);
bool cgroup_has_oom_kill(const char *path);
/* With the cgroups that were made inside it; no process may be left. */
void cgroup_remove(const char *path);
