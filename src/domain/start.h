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
/*
 * Nobody waits any more for the end of its process, which may live on a machine that cannot be
 * asked: the agent has no process, its work goes back under a new epoch, and the process may not
 * speak for it. If the machine returns, the process is stopped there (P21). Nothing to do if there
 * is no such process.
 */
int agent_give_up_process(struct work *w, struct agent *a, const char *reason, struct err *err);
/* It has a process, or may have one that is waited for. */
bool agent_is_up(const struct work *w, const struct agent *a);
/* Whoever it is, somebody listens and can have its work, or has it: a process whose machine is lost
 * may prove itself directly. */
int agent_has_somebody(struct work *w, const struct agent *a, bool *ret, struct err *err);
/* Is its process beyond reach: on a machine that is lost, or, with `force`, that is offline? */
bool agent_is_beyond_reach(const struct work *w, const struct agent *a, bool force);
/* All of a conversation that are wanted: it began, or was resumed. */
int agents_ensure_desired(struct work *w, int64_t conversation, const char *reason,
                          struct err *err);
/* What a person wants; what went wrong before is forgotten. With `force` a process is given up if
 * its machine is offline; a process on a machine that is lost is given up in any case. */
int agent_stop_by_person(struct work *w, struct agent *a, bool force, struct err *err);
int agent_start_by_person(struct work *w, struct agent *a, bool force, const char *reason,
                          struct err *err);
/* A new process in place of the one there is. */
int agent_restart_by_person(struct work *w, struct agent *a, bool force, struct err *err);
/* A machine is back: those that should be up and are not, and could not be started without it. */
int wishes_come_true(struct work *w, struct machine *m, struct err *err);
/* A machine went away, or is lost: who should be up, has no process and could not be started
 * without it, is started elsewhere. */
int wishes_go_elsewhere(struct work *w, struct machine *m, struct err *err);
/* For process.c: it failed, or ended unasked: counted, and what may be done about it, and when. */
int agent_note_failure(struct work *w, struct agent *a, struct err *err);
/* For agent.set: a start that waits for the first machine that offers its kind is taken back. */
int agent_withdraw_start(struct work *w, struct agent *a, struct err *err);
