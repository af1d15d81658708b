/*
 * task_span.h: how long a task waited, and for what: the evidence of `reeve backtest`.
 *
 * A span is a time in which a clock of the ladder ran for a task: it was pending, or claimed and
 * not started, or without progress, or suspended with no deadline ahead; or a tool call was open.
 * With it is who ended it: a trigger, a rule, or `progress`, `settled`, a call's result.
 *
 * Not every span is kept. A limit of L moves a task in its first span that is longer than L. So a
 * span that is not longer than an earlier one of its kind decides nothing, whatever L is, nor does
 * one below a second, which is the shortest limit. What is left is a handful per task, none of a
 * task that is done at once, and is written with the row of the move that ends the span.
 *
 * Which of them are the longest is known in memory only: after a restart some are kept twice over.
 * A crash loses what happened since the row was written last (PROGRESS_STORE_MS).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

struct task;
struct tool;
struct work;

#define SPAN_LIST(X)                \
    X(PENDING, "pending")           \
    X(ACKNOWLEDGED, "acknowledged") \
    X(SILENT, "silent")             \
    X(SUSPENDED, "suspended")       \
    X(TOOL, "tool")

enum span_kind {
#define X(name, text) SPAN_##name,
    SPAN_LIST(X)
#undef X
        SPAN_COUNT
};

enum { SPAN_MS_MIN = 1000 };

const char *span_name(enum span_kind kind);
bool span_parse(struct str s, enum span_kind *ret);

/* What the task waits for ends now, by `by`; the task is as it was before. Adds to t->spans what is
 * worth keeping; the caller has called task_edit(), and writes the row. */
int task_span_end(struct work *w, struct task *t, const char *by, struct err *err);
/* The same of one call that it is suspended for. */
int task_span_settle(struct work *w, struct task *t, const struct tool *tool, const char *by,
                     struct err *err);
/* The members `dispatchedAt` and `spans`: those that were kept, and those that are open now, `to`
 * null. `spans` is null for a task that is older than this record. */
int task_span_write(struct work *w, const struct task *t, struct json_out *out, struct err *err);
