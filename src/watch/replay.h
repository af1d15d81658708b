/*
 * replay.h: what a set of limits would have done to a recorded conversation.
 *
 *     replay_init(&r, &options, &gaps)
 *     replay_set_work(&r, points, count)          when tasks were open
 *     replay_event(&r, &event, payload, &err)     its whole log, in order
 *     replay_finish(&r, now_ms)
 *     r.moves[0 … r.move_count - 1], r.record
 *     replay_release(&r)
 *
 * Pure: no store, no clock. The head is moved by head_apply() and judged by ladder_first_due(), as
 * in production; only what the log tells about windows and endings is put together here. So with
 * the limits that were in force the moves of the record come out again, to the millisecond if the
 * ladder was never late.
 *
 * A replay follows the record as long as both agree. A move that the record does not have ends it:
 * what people would have done then is in no log. A block that the record has too (same window, same
 * budget) does not, for the log goes on with what was done about it. A move of the record that
 * these limits do not make cuts the record short instead: nobody could write from then on. After a
 * cancelled silence the silence is taken to go on; while the record is blocked nothing is judged by
 * silence. What such a replay finds is marked REPLAY_UNKNOWN.
 *
 * While tasks are open a conversation is not silent (rule.h). When they were is no event: it is
 * given beside the log. What these limits would have done to the tasks themselves is replay_task.h.
 *
 * The notice of a budget is replayed and counted, but is no move: it changes nothing for anybody.
 * The turn limit has no setting, and is taken from the record as it is. A budget that was given
 * with a resume is told from the configured one by differing from that of the window before.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "domain/event.h"
#include "domain/gaps.h"
#include "domain/head.h"
#include "domain/rule.h"

/* X(name, text): a move, compared with the record. */
#define REPLAY_TRUTH_LIST(X) \
    X(SAME, "same")          \
    X(HEALTHY, "healthy")    \
    X(SILENT, "silent")      \
    X(UNKNOWN, "unknown")

enum replay_truth {
#define X(name, text) REPLAY_##name,
    REPLAY_TRUTH_LIST(X)
#undef X
        REPLAY_TRUTH_COUNT
};

/* Where the record has a conversation. */
struct replay_record {
    enum conversation_status status;
    enum outcome outcome;
    enum rule_id rule; /* that put it there; RULE_COUNT: none */
    int64_t since_ms;
};

struct replay_move {
    enum rule_id rule;
    int64_t at_ms, base_ms; /* when, and what its clock counted from */
    int64_t limit;          /* in milliseconds; turns, for the turn limit */
    /* SAME: the record has it too. HEALTHY: somebody wrote after it, at wrote_again_ms; to cancel
     * the conversation is not to write. SILENT: nobody did. UNKNOWN: nobody could. */
    enum replay_truth truth;
    int64_t wrote_again_ms;
    struct replay_record record; /* at that time */
};

struct replay {
    struct replay_move *moves;
    size_t move_count, move_cap;
    int64_t notices;
    struct replay_record record; /* at the end */
    /* private */
    const struct options *options;
    const struct gaps *gaps;
    const struct replay_point *points;
    size_t point_count, points_seen;
    struct head head;
    bool is_over;           /* no more moves */
    bool is_cut;            /* the record has a cancel that was not made here */
    bool is_record_blocked; /* and we are not */
    int64_t blocked_budget_seconds;
};

/* `o` and `g` are borrowed until the release. */
void replay_init(struct replay *r, const struct options *o, const struct gaps *g);
void replay_release(struct replay *r);
/* payload: that of the event, parsed. ERR_INTERNAL if this cannot be the next event of a log. */
int replay_event(struct replay *r, const struct event *e, const struct json *payload,
                 struct err *err);
/* The log ends here; what is due by now_ms is still judged. */
void replay_finish(struct replay *r, int64_t now_ms);

/* How many tasks of the conversation are open changes by so much: its silence does not count while
 * any is. */
struct replay_point {
    int64_t at_ms;
    int change;
};
/* By time; borrowed until the release. Before the first event. */
void replay_set_work(struct replay *r, const struct replay_point *points, size_t count);

const char *replay_truth_name(enum replay_truth truth);
/* When somebody was there to act on what was due. */
int64_t replay_watched_ms(const struct gaps *g, int64_t due_ms);
