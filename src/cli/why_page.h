/*
 * why_page.h: an answer of agent.why, task.why, conversation.why or machine.why, for people.
 *
 * First the sentence and what to type, then what it rests on: evidence, what is counting, what was
 * done. On a terminal all of it is at most WHY_LINES lines, none longer than the terminal is wide:
 * the newest of what was done, and no rings. Texts in it come from agents, so all of them are
 * cleaned.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/str.h"

enum { WHY_LINES = 20 };

/* `subject` is what the sentence is about: "Agent 1:a (crashed)". `command` shows everything; with
 * `all`, or if standard output is no terminal, this does. */
void why_page_add(struct buf *out, struct str subject, const struct json *why, struct str command,
                  bool all);
