/*
 * history.h: what rules and people have done to a conversation and its agents, in words.
 *
 * Everything is told from the events that were written with each move (work_note_move()).
 */
#pragma once

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "domain/rule.h"

struct head;
struct work;

/* The rule that put the conversation where it is; RULE_COUNT: none did. */
enum rule_id history_moved_by(const struct head *h);
/* The members `historyIsCut` and `history`, the newest last. agent.p == NULL: of all agents, else
 * what was done to others is left out. */
int history_write(struct work *w, const struct head *h, struct str agent, struct json_out *out,
                  struct err *err);
