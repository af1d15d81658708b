/*
 * task_row.h: tasks as they are stored, kept and shown; task.c moves them.
 *
 * A task is read on first use and kept in memory; a new one has no row until it is first written,
 * so that it is inserted once, as it was dispatched. What task.h declares of reading, editing and
 * showing is here too.
 */
#pragma once

#include "domain/task.h"

const char *task_held_name(enum task_held held);
/* How its end is told: "success", or its status. */
const char *task_outcome_name(enum task_status status);
/* Keeps a new one, for as long as the request that made it does not fail. */
struct task *task_add(struct work *w, const struct task *as_known);
/* Inserts or updates its row. */
int task_write_row(struct work *w, struct task *t, struct err *err);
