/*
 * start.h: the one place that decides whether an agent is started, and when.
 *
 * One function makes starts (start(), in start.c), and no two restarters can race (L45): a task
 * arrives, a listener lapses, a process ends, a machine comes back, a conversation is resumed: all
 * of them call agent_bring_up(), which looks at everything there is and asks for one start or for
 * none. A person's wish passes what stands in the way of the others: the waits and the breaker.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "domain/agent.h"

struct machine;
struct work;

/* Starts it if it is wanted, may run, and is not up or on its way; else does nothing. */
int agent_bring_up(struct work *w, struct agent *a, const char *reason, struct err *err);
/* The same, and a process that runs but does not work is replaced. */
int agent_replace(struct work *w, struct agent *a, const char *reason, struct err *err);
/* The wait before its restart is over: the ladder's agent.exited. */
int agent_start_again(struct work *w, struct agent *a, struct err *err);
/* It should not be up. Whatever state the conversation is in. */
int agent_stop(struct work *w, struct agent *a, const char *reason, struct err *err);
/* All of a conversation that are wanted: it began, or was resumed. */
int agents_ensure_desired(struct work *w, int64_t conversation, const char *reason,
                          struct err *err);
/* A person wants it down, and what went wrong before is forgotten. */
int agent_stop_by_person(struct work *w, struct agent *a, struct err *err);
/* A person wants it up: whatever stood in the way is forgotten. */
int agent_start_by_person(struct work *w, struct agent *a, const char *reason, struct err *err);
/* A person wants a new process in place of the one there is. */
int agent_restart_by_person(struct work *w, struct agent *a, struct err *err);
/* A machine is back: those that should be up and are not, and could not be started without it. */
int wishes_come_true(struct work *w, struct machine *m, struct err *err);
/* For process.c: it failed, or ended unasked: counted, and what may be done about it, and when. */
int agent_note_failure(struct work *w, struct agent *a, struct err *err);
/* For agent.set: a start that waits for the first machine that offers its kind is taken back. */
int agent_withdraw_start(struct work *w, struct agent *a, struct err *err);
