/*
 * conversation.h: create, read, list and end conversations.
 *
 * A conversation begins with a `meta_created` event (turn 0, seq 1) that holds everything it was
 * created with; title and metadata are read from there. It ends once, by a terminal message.
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

/* For work_init(): makes conversation 0 in a new store. */
int conversation_ensure_server_log(struct work *w, struct err *err);
