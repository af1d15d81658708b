/*
 * fail_point.h: places at which a test may have the process killed.
 *
 * A crash test wants to know what a crash *there* leaves behind, and "there" is a few microseconds
 * wide. REEVE_FAIL_POINT=name in the server's environment (name:3 for the third time it gets there)
 * makes the process kill itself, as kill -9 would, at that place. Otherwise a fail point costs a
 * comparison.
 */
#pragma once

#include "base/err.h"

#define FAIL_POINT_LIST(X)                        \
    X(BEFORE_COMMIT, "tick.before_commit")        \
    X(AFTER_COMMIT, "tick.after_commit")          \
    X(END_COMMITTED, "lifecycle.end_committed")   \
    X(BEFORE_STOP, "lifecycle.before_stop")       \
    X(BETWEEN_STOPS, "lifecycle.between_stops")   \
    X(BEFORE_CURSOR, "lifecycle.before_cursor")   \
    X(STOP_COMMITTED, "lifecycle.stop_committed") \
    X(BETWEEN_MOVES, "ladder.between_moves")      \
    X(WITHIN_MOVE, "ladder.within_move")

enum fail_point {
    FAIL_POINT_NONE,
#define X(name, text) FAIL_##name,
    FAIL_POINT_LIST(X)
#undef X
        FAIL_POINT_COUNT
};

/* spec: "name" or "name:count"; NULL: none. ERR_CONFIG if there is no such place. */
int fail_point_set(const char *spec, struct err *err);

extern enum fail_point fail_point_armed;
void fail_point_reached(void);

static inline void fail_point(enum fail_point here)
{
    if (here == fail_point_armed)
        fail_point_reached();
}
