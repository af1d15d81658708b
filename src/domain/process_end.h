/*
 * process_end.h: what is taken from a process that has ended or was given up. For process.c and
 * process_lost.c.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "domain/agent.h"
#include "domain/task.h"

struct machine;
struct work;

/* What the process held goes back: its place as listener, the task it claimed (`evidence` says on
 * what grounds), and the hold on work that waited for its end. */
int process_take_back(struct work *w, struct agent *a, struct str spawn_id, const char *evidence,
                      struct err *err);
/* The process may not speak any more. For an hour it is told why: SUPERSEDED. */
int process_end_tokens(struct work *w, struct str spawn_id, struct err *err);
/* A process of it that was seen, and neither ended nor was given up. Empty: there is none. */
int process_find_open(struct work *w, const struct agent *a, struct str *ret_spawn,
                      struct str *ret_machine, struct err *err);
/* A task that is held is held for another reason now, or for none: then it may be claimed. With
 * `spawn`, only if it is held for that process. */
int process_change_hold(struct work *w, const struct agent *a, enum task_held held,
                        struct str spawn, struct err *err);
int agent_work_is_held(struct work *w, const struct agent *a, bool *ret, struct err *err);
/* Every agent that has a process on the machine, or one on its way. */
int processes_each_on(struct work *w, const struct machine *m, agent_each_fn *fn, void *ctx,
                      struct err *err);
