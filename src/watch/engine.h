/*
 * engine.h: applies the rules of the ladder (ladder.h), inside the core's ticks.
 *
 *     if (now >= ladder_next_ms(l)) tick, and in it
 *         ladder_step(l)                 one page of each rule, each row in its own savepoint
 *     ladder_committed(l) | ladder_lost(l)
 *
 * A *pass* goes over everything that is due at its beginning, oldest first, in as many steps as it
 * takes; requests are served in between. It begins when something falls due, at the start of the
 * server, at the fixed cadence (the least of watchdog.interval_ms and the two
 * watchdog_interval_seconds) whether anything seems due or not, and when somebody asks for it
 * (watchdog.runOnce). Passes never overlap.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "watch/ladder.h"

struct ladder;
struct work;

/*
 * Rows of a rule in one step. Everybody else waits for a step: with 100 000 stalled at once and 16
 * clients appending meanwhile, 4 / 8 / 16 / 32 / 64 rows made their p99 1.2 / 1.7 / 2.0 / 2.8 / 3.4
 * times what it was without, and took 21 / 16 / 17 / 10 / 9 s for all.
 */
enum { LADDER_PAGE_ROWS = 8 };

/* What a pass has done so far. */
struct pass {
    int64_t checked;    /* rows looked at */
    int64_t candidates; /* of them, due */
    int64_t moved, skipped, errors;
};

struct ladder_stats {
    uint64_t passes, checked, moved, errors;
    int64_t errors_by_rule[RULE_COUNT];
};

struct ladder *ladder_new(struct work *w);
struct ladder *ladder_free(struct ladder *l); /* NULL */

/* When it next has something to do; may be in the past. Without the fixed cadence: for a clock that
 * is advanced by hand. */
int64_t ladder_next_ms(const struct ladder *l);
int64_t ladder_next_due_ms(const struct ladder *l);
bool ladder_is_in_pass(const struct ladder *l);
/* Begins a pass for somebody who asked, over one rule or all (RULE_COUNT), back-off or not. False
 * if one is under way. */
bool ladder_begin_pass(struct ladder *l, enum rule_id only);
/* Within a tick. If it fails the caller should pause before the next. */
int ladder_step(struct ladder *l, struct err *err);
/* After it. If it was lost, so is the pass, and another is due. */
void ladder_committed(struct ladder *l);
void ladder_lost(struct ladder *l);
/* The last pass that ended. */
const struct pass *ladder_last_pass(const struct ladder *l);
const struct ladder_stats *ladder_stats(const struct ladder *l);

/* watchdog.rules: an array under `key`. */
int ladder_write_rules(struct ladder *l, struct json_out *out, const char *key, struct err *err);
