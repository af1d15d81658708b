/*
 * inbox.h: the rows that hand work to an agent.
 *
 * The inbox is the source of truth for what an agent has to deal with; a doorbell only says that
 * there is something in it. A task's row is of type `turn`, correlated by the task's number, one
 * per epoch, and follows the task: task_move() moves both.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "domain/task.h"

struct work;

/* What a transition does to the task's row; old_epoch is the task's epoch before it. */
int inbox_follow(struct work *w, const struct task *t, int64_t old_epoch, enum inbox_change change,
                 struct err *err);

/* A row for the agent of a task in its present epoch: `tool_result`, `timeout`. Whoever waits for
 * the agent looks. One that somebody has put there before stays as it is. payload is JSON. */
int inbox_put(struct work *w, const struct task *t, const char *type, struct str correlation,
              struct str payload, struct err *err);
/* The row is done with: `consumed` or `skipped`. None is there, or it is over: no effect. */
int inbox_close(struct work *w, const struct task *t, int64_t epoch, const char *type,
                struct str correlation, const char *status, struct err *err);
