/*
 * task_call.h: what the verbs of tasks share: params that begin with a task, a call of the method
 * with the same name, and the task of its answer in a line.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"
#include "cli/cli.h"

/* The first word as `task` and, if the verb has it, --epoch; the object is left open. */
int task_call_begin(struct json_out *w, const struct cli_args *args, bool has_epoch,
                    struct err *err);
/* An option's text, or its JSON, as a param, if it was given. */
void task_call_add(struct json_out *w, const struct cli_args *args, const char *option,
                   const char *param);
int task_call_add_json(struct json_out *w, const struct cli_args *args, const char *option,
                       const char *param, struct err *err);
/* A word as a JSON string ("-": standard input), or the option's JSON; not both. */
int task_call_add_text_or_json(struct json_out *w, const struct cli_args *args, size_t word,
                               const char *option, const char *param, struct err *err);
/* Closes the object unless r is an error, calls, and prints the answer: with `show`, by that. */
typedef void task_call_show_fn(struct buf *out, const struct json *result);
int task_call_end(const struct cli_args *args, const char *method, struct json_out *w, int r,
                  task_call_show_fn *show, struct err *err);

/* "task 1 12:builder pending epoch=1 attempts=0" and a line feed. */
void task_call_write(struct buf *out, const struct json *task);
