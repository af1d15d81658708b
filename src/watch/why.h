/*
 * why.h: where a conversation stands, on what evidence, what comes next and what was done so far.
 *
 * Everything in it is computed from the same rows and functions that act: the rules' due times from
 * domain/rule.h, the moves from the events that they wrote. Nothing is remembered for the sake of
 * the answer.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

struct work;

struct agent;
/* The members of agent.why's answer. */
int why_write_agent(struct work *w, const struct agent *a, struct json_out *out, struct err *err);
/* The members of conversation.why's answer. */
int why_write_conversation(struct work *w, int64_t conversation, struct json_out *out,
                           struct err *err);
