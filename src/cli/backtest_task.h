/*
 * backtest_task.h: the tasks of a conversation as a server records them, for backtest.c.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "client/client.h"
#include "watch/replay.h"
#include "watch/replay_task.h"

/* All of them, by number, into *ret; *ret_unrecorded: how many are older than the record of waits.
 * On an error what has been read stays in *ret: release it in any case. */
int backtest_read_tasks(struct client *client, int64_t conversation, struct replay_tasks *ret,
                        int64_t *ret_unrecorded, struct err *err);
/* When they were open, for replay_set_work(); *ret is the caller's to free. */
size_t backtest_points(const struct replay_tasks *tasks, struct replay_point **ret);
