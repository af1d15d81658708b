/*
 * why.h: where something stands, why, what comes next and what was done so far.
 *
 * The answer says the cause (cause.h), the evidence with its age, what is counting (clocks.h) and
 * what rules and people have done (history.h). Everything is computed from the same rows and
 * functions that act; nothing is remembered for the sake of the answer.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

struct agent;
struct machine;
struct task;
struct work;

/* The members of agent.why's answer, of task.why's, conversation.why's and machine.why's. */
int why_write_agent(struct work *w, const struct agent *a, struct json_out *out, struct err *err);
int why_write_task(struct work *w, const struct task *t, struct json_out *out, struct err *err);
int why_write_conversation(struct work *w, int64_t conversation, struct json_out *out,
                           struct err *err);
int why_write_machine(struct work *w, const struct machine *m, struct json_out *out,
                      struct err *err);
