/*
 * watch_world.h: a core_world with conversations that fall due, and what the watchdog did to them.
 */
#pragma once

#include "lib/core_world.h"

enum { LIMIT_MS = 1000 };

#define CREATE_IDLE                                                            \
    CALL("conversation.create", "{'agents':[],'watchdog':{'globalIdleMs':%d}," \
                                "'runtime_controls':{'session_wall_clock_seconds':0}}")
#define CREATE_BUDGET                                                        \
    CALL("conversation.create", "{'agents':[],'watchdog':{'disabled':true}," \
                                "'runtime_controls':{'session_wall_clock_seconds':%d}}")
#define ADVANCE CALL("clock.advance", "{'ms':%d}")
#define GAP CALL("clock.gap", "{'ms':%d}")
#define RUN_ONCE CALL("watchdog.runOnce", "{}")
#define INFO CALL("server.info", "{}")
#define GET CALL("conversation.get", "{'conversation':%d}")

/* With the pass at start behind it. */
struct world *world_watching(void);
/* The same with a real clock. */
struct world *world_living(void);
/* They fall due limit_ms + 1 from now, unless somebody writes. */
void create_idle(struct world *w, int count, int limit_ms);

int64_t now(struct world *w);
uint64_t moved(struct world *w); /* how many, since the core was started */
/* How often it was ended by the watchdog; checks that the advisory, the move and the status agree.
 */
int64_t times_cancelled(struct world *w, int conversation);
/* Conversations 1 to count; and no event's number was lost. */
void check_all_moved_once(struct world *w, int count);

struct move {
    int64_t conversation, ts_ms;
    char kind[32];
};

/* What the watchdog wrote on turn 0 of conversations, in the order of the log; how many. */
size_t list_moves(struct world *w, struct move *ret, size_t max);
void check_move(const struct move *m, int64_t conversation, const char *kind, int64_t ts_ms);
