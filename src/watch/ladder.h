/*
 * ladder.h: the rules.
 *
 * Whatever stalls is moved up one ladder: ring → reclaim → restart → reap → cancel. Each rule is a
 * row of one table (ladder.c): what makes it due, what it does, which event says so, which setting
 * limits it. `watchdog.rules`, `why`, `reeve backtest` and docs/ladder.md are made from the same
 * rows, and the engine (engine.h) acts on them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "domain/rule.h"
#include "store/statements.h"

struct agent;
struct head;
struct inbox_row;
struct machine;
struct task;
struct tool;
struct work;

#define RUNG_LIST(X)      \
    X(RING, "ring")       \
    X(RECLAIM, "reclaim") \
    X(RESTART, "restart") \
    X(REAP, "reap")       \
    X(CANCEL, "cancel")

enum rung {
#define X(name, text) RUNG_##name,
    RUNG_LIST(X)
#undef X
        RUNG_COUNT
};

/* What a rule moves: one of these. */
struct subject {
    struct head *head;
    struct task *task;
    struct agent *agent; /* its listener, or its restart */
    struct machine *machine;
    struct command *command;
    struct tool *tool;
    struct inbox_row *inbox;
};

struct rule {
    enum rung rung;
    const char *seed;         /* the design it answers to */
    const char *key;          /* the setting that limits it; NULL: none */
    int64_t unit_ms;          /* of that setting */
    const char *own;          /* what a conversation may set for itself */
    const char *due;          /* in words */
    const char *does;         /* in words */
    const char *event;        /* what it writes */
    const char *replayed;     /* by backtests, from what */
    const char *not_replayed; /* or why not: one of the two, if it has a setting */
    bool is_ring;             /* moves nothing, again and again: its log lines are for debugging */
    enum statement next; /* when it looks next: LOOK_NEXT_…; 0: by leases in memory, or never */
    /* The move, in the row's own request. What it moves is due by this rule, checked just now.
     * NULL: it acts within an append. */
    int (*act)(struct work *w, const struct subject *s, enum rule_id rule, struct err *err);
};

extern const struct rule ladder_rules[RULE_COUNT];
const char *rung_name(enum rung rung);

/* The rule that is due first, of those that apply to this head; RULE_COUNT if none ever is. */
enum rule_id ladder_first_due(const struct options *o, const struct gaps *g, const struct head *h,
                              int64_t *ret_due_ms);

/* Its limit where a conversation has none of its own. */
int64_t ladder_limit(const struct options *o, enum rule_id rule);
/* Why the rules of this setting ("section.key") cannot be replayed; NULL: they can be, if
 * *ret_is_limit, or no rule has it. */
const char *ladder_not_replayed(const char *key, bool *ret_is_limit);
/* docs/ladder.md */
void ladder_write_docs(struct buf *out);
