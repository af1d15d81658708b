/*
 * gaps.h: the time in which nobody was watching, and every deadline there is.
 *
 * While the server is down, stopped or suspended, no evidence of life can reach it: silence in that
 * time proves nothing (P16). Each such stretch is a gap: recorded once, as a row and as a
 * `watch.gap` event in conversation 0, and left out by every clock that measures silence. So a gap
 * shifts all those clocks at once without touching anything that they guard; a deadline computed
 * before a gap is merely too early, which is found out when it is looked at.
 *
 * A list sorted by time, all of it in the past. It is short: one entry per start of the server or
 * sleep of its machine.
 *
 * So a deadline is never stored as a time at which it ends. It is a base, the time since which it
 * counts, and a limit. Two functions turn them into a time: gaps_due_ms() counts watched time, and
 * is for whatever judges silence. all_time_until_ms() counts every millisecond, and asks for a row
 * of ALL_TIME_LIST, which says why. tools/check-deadlines refuses any other arithmetic with `now`,
 * so that a new deadline has to choose. (The time-out of a long poll is no deadline of this kind:
 * it judges nobody, and runs on a clock that stands still while the machine sleeps:
 * server/waits.h.)
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct work;

/* X(name, text): why nobody watched, or, `refusing`, why nobody could be heard: the store took no
 * writes. A step of the wall clock is no gap, since `now` does not
 * follow it, but it is told in the same way. */
#define GAP_KIND_LIST(X)    \
    X(DOWN, "down")         \
    X(SUSPEND, "suspend")   \
    X(LATE, "late")         \
    X(MANUAL, "manual")     \
    X(REFUSING, "refusing") \
    X(WALL_STEP, "wall_step")

enum gap_kind {
#define X(name, text) GAP_##name,
    GAP_KIND_LIST(X)
#undef X
        GAP_KIND_COUNT
};

struct gap {
    int64_t from_ms, to_ms;
};

struct gaps {
    struct gap *list;
    size_t count, room;
};

const char *gap_kind_name(enum gap_kind kind);

/* X(name, why): the deadlines that count time in which nobody watched. */
#define ALL_TIME_LIST(X)                                                                          \
    X(SESSION_BUDGET, "session.wall_clock is a budget of wall-clock time, watched or not")        \
    X(TASK_BUDGET, "task.max_seconds is a budget of wall-clock time, watched or not")             \
    X(RESTART_WAIT, "the wait before a restart judges nobody")                                    \
    X(TOKEN, "a token must not be good for longer because the server slept")                      \
    X(KEY, "a key is kept for a day of its client's time, which goes on while the server sleeps") \
    X(ROW_RETRY, "a row that failed is tried again; that judges nobody")

enum all_time {
#define X(name, why) ALL_TIME_##name,
    ALL_TIME_LIST(X)
#undef X
        ALL_TIME_COUNT
};

/* The last millisecond of limit_ms since since_ms, watched or not. */
static inline int64_t all_time_until_ms(enum all_time which, int64_t since_ms, int64_t limit_ms)
{
    (void)which;
    return since_ms + limit_ms;
}

/* The first millisecond at which more than limit_ms of watched time has passed since since_ms. */
int64_t gaps_due_ms(const struct gaps *g, int64_t since_ms, int64_t limit_ms);
/* The time, not after at_ms, since which watched_ms of watched time have passed at at_ms. */
int64_t gaps_back_ms(const struct gaps *g, int64_t at_ms, int64_t watched_ms);
/* A clock that stood still from blocked_at_ms until now: the base since which as much watched time
 * has passed as had when it was stopped. 0 stays 0: no clock. */
int64_t gaps_after_block_ms(const struct gaps *g, int64_t since_ms, int64_t blocked_at_ms,
                            int64_t now_ms);
/* How much of the time between the two went unwatched, and how much did not. */
int64_t gaps_within_ms(const struct gaps *g, int64_t from_ms, int64_t to_ms);
int64_t gaps_watched_ms(const struct gaps *g, int64_t from_ms, int64_t to_ms);
/* Adds one that begins no earlier than the last one ended. */
void gaps_add(struct gaps *g, int64_t from_ms, int64_t to_ms);
void gaps_release(struct gaps *g);

/* For work.c: those in the store. */
int gaps_read(struct work *w, struct gaps *ret, struct err *err);
/* In a request: nobody watched from from_ms to now. Row, event and list. */
int gaps_record(struct work *w, enum gap_kind kind, int64_t from_ms, struct err *err);
/* In a request: the wall clock was stepped by step_ms. Event only. */
int gaps_note_wall_step(struct work *w, int64_t step_ms, struct err *err);
