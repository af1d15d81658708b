/*
 * conversation.h: create, read, list and end conversations.
 *
 * A conversation begins with a `meta_created` event (turn 0, seq 1) that holds everything it was
 * created with; title and metadata are read from there. It ends once, by a terminal message. When
 * its budget is used up it is blocked instead, and can be resumed.
 * Conversation 0 is the server's own log: never ended, written by the server only.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "domain/head.h"

struct work;

enum { CONVERSATION_AGENTS_MAX = 256 };

struct agent_spec {
    struct str role;          /* lower case */
    struct str kind, machine; /* p == NULL: none */
    struct str desired;       /* "auto", "running", "stopped" */
};

struct conversation_spec {
    struct str title; /* p == NULL: none */
    const struct agent_spec *agents;
    size_t agent_count;
    struct head settings; /* starting_role, max_turns, limits */
    const struct json *runtime_controls, *watchdog, *metadata; /* as given, may be NULL */
};

int conversation_create(struct work *w, const struct conversation_spec *spec, int64_t *ret,
                        struct err *err);
/* The members of conversation.get's answer. */
int conversation_write_members(struct work *w, int64_t conversation, struct json_out *out,
                               struct err *err);
/*
 * Ends it by a terminal message. Repeated with the same outcome: the event of the first time. With
 * another outcome: ERR_CONVERSATION_FINALIZED.
 */
struct conversation_end {
    enum outcome outcome;
    struct str author;       /* lower case */
    struct str text, reason; /* reason.p may be NULL */
};
int conversation_end(struct work *w, int64_t conversation, const struct conversation_end *end,
                     struct event *ret, struct err *err);

/* agent.set: a new role, unmanaged and `auto`; or one that leaves: stopped, its open tasks
 * canceled. */
struct agent;
int conversation_add_agent(struct work *w, int64_t conversation, struct str role,
                           struct agent **ret, struct err *err);
/* With `force` its process is given up if its machine is offline (start.h). */
int conversation_remove_agent(struct work *w, struct agent *a, bool force, struct err *err);
/*
 * Its budget is used up (session.wall_clock): no writes until it is resumed. The event carries a
 * name made of the window's number, so that whoever else finds it due, after a crash or on another
 * server, cannot block the same window twice (P20, L74).
 */
int conversation_block(struct work *w, struct head *h, int64_t budget_seconds, struct err *err);
/* From blocked to active: a new window from now on, with a new budget if one is given
 * (LIMIT_DEFAULT: as before). Starts the agents that are desired running. ERR_INVALID_TRANSITION
 * unless blocked. */
int conversation_resume(struct work *w, int64_t conversation, int64_t budget_seconds,
                        struct err *err);

/* For work_init(): makes conversation 0 in a new store. */
int conversation_ensure_server_log(struct work *w, struct err *err);
