/* why_model.h: what the oracle of `why` remembers. For why.c and promise.c. */
#pragma once

#include "sim/fleet.h"
#include "sim/why.h"

/* The next move of an agent, as it was told. */
struct promise {
    bool is_open;
    bool assumes_beats;
    bool is_of_stop; /* the stop is sent again */
    char rule[32];   /* "": none */
    int64_t due_ms, asked_ms;
    int64_t task, last_start; /* of the agent, when it was asked for */
    int machine;              /* where it has a process, or one on its way; -1: nowhere */
};

struct oracle {
    struct why_score score;
    bool *is_blocked; /* by conversation */
    size_t conversation_room;
    bool has_registered[SIM_MACHINES_MAX]; /* and was not forgotten since */
    bool is_lost[SIM_MACHINES_MAX];        /* it was away for so long */
    struct promise *promises;              /* by conversation and role */
    size_t promise_room;
    int64_t asked, asked_ms; /* how often, and the last time */
};

bool *why_is_blocked(struct sim *s, int64_t conversation);
/* A comparison. */
void why_right(struct sim *s, bool is_of_move);
void why_wrong(struct sim *s, bool is_of_move, const char *fmt, ...) _printf_(3, 4);
/* The machine's number; -1: none of ours. */
int why_machine(const char *name);

/* ---- promise.c ---- */

/* agent.why was answered. */
void promise_note(struct sim *s, int64_t conversation, int role, const struct json *why);
/* What was due by now has come, or the promise is broken. */
void promises_look(struct sim *s);
