/*
 * backtest.h: the recorded log of a server, replayed against other limits.
 *
 *     backtest_init(&b)
 *     backtest_read_limits(&b, client, err)      those in force; then change b.limits
 *     backtest_run(&b, client, only, err)
 *     b.moves[0 … b.move_count - 1], b.counts
 *     backtest_release(&b)
 *
 * Everything is read through the server, a page at a time; what is kept is the gaps and the moves.
 * The replay itself is watch/replay.h and watch/replay_task.h; each conversation and each of its
 * tasks is replayed twice, by `limits` and by those in force, to tell what the former would have
 * spared.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/options.h"
#include "cli/progress.h"
#include "client/client.h"
#include "watch/replay.h"
#include "watch/replay_task.h"

struct backtest_move {
    int64_t conversation;
    int64_t task; /* 0: the conversation itself is moved */
    struct replay_move move;
    struct replay_record record; /* of the conversation */
    struct {                     /* of the task: where the record has it at the end */
        enum task_status status;
        enum rule_id rule;    /* that ended it; RULE_COUNT: none */
        int64_t completed_ms; /* 0: it is open */
    } task_record;
};

struct backtest {
    struct options in_force, limits;
    struct backtest_move *moves; /* by time */
    size_t move_count, move_cap;
    struct {
        int64_t conversations, events; /* replayed */
        int64_t moved;                 /* conversations with a move */
        int64_t healthy;               /* of them, those that were healthy */
        int64_t spared;                /* moved by the limits in force, but not by these */
        int64_t notices;
        int64_t tasks, tasks_moved, tasks_healthy, tasks_spared; /* the same of tasks */
        int64_t tasks_unrecorded; /* of them, those that are older than the record of waits */
    } counts;
    /* private */
    struct client *client;
    struct gaps gaps;
    int64_t now_ms;
    struct progress progress;
    struct arena page; /* of events */
};

void backtest_init(struct backtest *b);
void backtest_release(struct backtest *b);
int backtest_read_limits(struct backtest *b, struct client *client, struct err *err);
/* only: a conversation, or CLIENT_ALL. */
int backtest_run(struct backtest *b, struct client *client, int64_t only, struct err *err);
