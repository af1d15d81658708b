/*
 * situation.h: everything that bears on where an agent, a task, a conversation or a machine stands,
 * read once, for those who tell it: clocks.h, cause.h, why.h.
 *
 *     struct situation s;
 *     r = situation_of_agent(w, a, &s, err);
 *
 * All of it is read from the rows and by the functions that act. It is valid until the end of the
 * tick, and nothing of it is kept.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "domain/agent.h"
#include "domain/command.h"
#include "domain/head.h"
#include "domain/inbox.h"
#include "domain/obstacle.h"
#include "domain/task.h"
#include "domain/tool.h"

struct machine;
struct work;

enum { SITUATION_INBOX_ROWS_MAX = 20 };

/* A command that is open. */
struct order {
    int64_t command; /* 0: none is */
    int64_t due_ms;  /* when it counts as not confirmed; NEVER_MS: no machine has it */
    struct str machine;
    bool is_current; /* it is about the process that the agent has now */
    int64_t sends;   /* a stop was sent again so often */
};

struct situation {
    struct work *w;
    const struct head *head;       /* NULL: of a machine */
    const struct agent *agent;     /* NULL: of a conversation or a machine */
    const struct task *task;       /* the agent's active one; NULL: none */
    const struct task *asked;      /* of a task: the one that was asked for, active or not */
    const char *place;             /* where the agent's process is, or must be; empty: anywhere */
    const struct machine *machine; /* that place, or the machine that was asked for; or NULL */
    struct tool_list *tools;       /* that a suspended task waits for, and their sum */
    struct tools_summary calls;
    struct inbox_row inbox[SITUATION_INBOX_ROWS_MAX]; /* the oldest that are open */
    size_t inbox_count;
    struct order start, stop;
    enum obstacle obstacle; /* to a start, now, by a rule that brings the agent up */
    bool is_wanted;         /* a person wants it up, or work does */
    bool is_attended;       /* somebody waits for its work */
    bool may_live;          /* a process of it may live, seen or not */
    bool is_beyond_reach;   /* … on a machine that is lost */
    int64_t pid;            /* of its process; 0: not known */
};

int situation_of_agent(struct work *w, const struct agent *a, struct situation *ret,
                       struct err *err);
int situation_of_task(struct work *w, const struct task *t, struct situation *ret, struct err *err);
void situation_of_conversation(struct work *w, const struct head *h, struct situation *ret);
void situation_of_machine(struct work *w, const struct machine *m, struct situation *ret);

/*
 * A lease that is renewed again and again. Whoever holds one and beats as it was told has used up
 * `heartbeat` of it at most; once half of the rest is gone as well, a beat is missing.
 */
bool situation_listener_beats(const struct situation *s);
bool situation_worker_beats(const struct situation *s);
bool situation_machine_beats(const struct situation *s);
/* Somebody has the task in hand, with a lease that may be over. */
bool situation_is_in_hand(const struct situation *s);
