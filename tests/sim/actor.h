/*
 * actor.h: who takes part in a simulated history.
 *
 * An actor does one thing at a time: a verb, with a number from which all its choices come. What
 * it knows it has from answers, which arrive late, twice or never. A kind of actor is a table of
 * verbs, a way to choose the next one, and what it does with answers.
 */
#pragma once

#include <stdint.h>

#include "base/json.h"
#include "base/str.h"

struct ask;
struct sim;

/* X(name, table) */
#define ACTOR_LIST(X)         \
    X(AGENT, actor_agent)     \
    X(PROCESS, actor_process) \
    X(MACHINE, actor_machine) \
    X(TOOL, actor_tool)       \
    X(CLIENT, actor_client)   \
    X(PERSON, actor_person)   \
    X(SERVER, actor_server)

enum actor {
#define X(name, table) ACTOR_##name,
    ACTOR_LIST(X)
#undef X
        ACTOR_KINDS
};

struct verb {
    const char *name;
    void (*act)(struct sim *s, int who, uint32_t arg);
};

struct actor_kind {
    const char *name;
    const struct verb *verbs; /* up to one without a name */
    int64_t (*count)(const struct sim *s);
    /* The verb it does next, -1: none; and how long until it chooses again. */
    int (*choose)(struct sim *s, int who, uint64_t *random, int64_t *ret_pause_ms);
    /* An answer: result, or the name of an error. */
    void (*hear)(struct sim *s, const struct ask *a, const struct json *result, struct str error);
};

#define X(name, table) extern const struct actor_kind table;
ACTOR_LIST(X)
#undef X
extern const struct actor_kind *const actor_kinds[ACTOR_KINDS];
