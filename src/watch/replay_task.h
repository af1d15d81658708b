/*
 * replay_task.h: what a set of limits would have done to the recorded tasks of a conversation.
 *
 *     replay_tasks_add(&r, &task)                 each of them, by number, with its spans
 *     replay_tasks_event(&r, &event, payload)     the conversation's whole log, in order
 *     replay_tasks_judge(&r, &options, &gaps, now_ms, cut_ms)
 *     r.moves[0 … r.move_count - 1]
 *     replay_tasks_release(&r)
 *
 * Pure, as replay.h. A task is followed up to its first move that the record does not have: what
 * its worker would have done then is in no log, nor is what the tasks behind it in the queue would
 * have done with the time. Those are taken as they are recorded. Limits and clocks are production's
 * (rule_task_limit(), gaps_due_ms()); what a clock counts from is in the record, as production had
 * it (domain/task_span.h).
 *
 * By which evidence each rule is replayed, or why it is not, says its row in ladder.c.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "domain/event.h"
#include "domain/gaps.h"
#include "domain/rule.h"
#include "domain/task.h"
#include "domain/task_span.h"
#include "watch/replay.h"

/* Who ended a span, or a task. */
enum ended_by {
    ENDED_NOT,     /* it is open */
    ENDED_BY_WORK, /* whoever was at work went on: it was alive */
    ENDED_BY_RULE,
    ENDED_BY_OTHERS /* a person, the end of the conversation, a block */
};

struct span_record {
    enum span_kind kind;
    int64_t from_ms, to_ms; /* to_ms: NEVER_MS if it is open */
    int64_t least_ms;       /* of a call: what it asked for */
    int64_t limit_ms;       /* … and what it was given; 0: no deadline */
    enum ended_by by;
    enum rule_id rule; /* ENDED_BY_RULE */
};

/* Who ended a span, from the word that is kept with it (no word: nobody yet). */
enum ended_by span_ended_by(struct str word, enum rule_id *ret_rule);

struct task_record {
    int64_t task;
    enum task_status status;
    int64_t dispatched_ms, completed_ms; /* 0: not yet */
    struct span_record *spans;           /* in the order in which they ended; the caller's */
    size_t span_count;
    /* from the log */
    enum rule_id end_rule; /* RULE_COUNT: no rule ended it */
    int64_t end_limit;     /* of that rule */
    int64_t *lost_ms;      /* [i]: when attempt i + 1 was lost */
    size_t lost_count, lost_cap;
};

struct task_replay_move {
    const struct task_record *of;
    struct replay_move move; /* wrote_again_ms: when its work went on */
};

struct replay_tasks {
    struct task_record *tasks; /* by number */
    size_t count, cap;
    struct task_replay_move *moves;
    size_t move_count, move_cap;
    /* private: the times in which the conversation was active */
    struct gap *windows;
    size_t window_count, window_cap;
};

/* Taken over: t->spans, to be freed with the rest. Numbers rise. */
void replay_tasks_add(struct replay_tasks *r, const struct task_record *t);
void replay_tasks_event(struct replay_tasks *r, const struct event *e, const struct json *payload);
/* cut_ms: when these limits would have stopped the conversation itself, or NEVER_MS. */
void replay_tasks_judge(struct replay_tasks *r, const struct options *o, const struct gaps *g,
                        int64_t now_ms, int64_t cut_ms);
void replay_tasks_release(struct replay_tasks *r);

/* The rule that a span of this kind is the evidence of. */
enum rule_id span_rule(enum span_kind kind);
