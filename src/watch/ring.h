/*
 * ring.h: the moves of the rules that look after inbox rows (domain/inbox.h).
 *
 * A ring says that there is something in an inbox; it carries nothing and changes nothing. So it
 * may be repeated for ever, and is: with waits that double up to a minute. What it writes is the
 * row's last_rung_at and ring_count; the log is told of the first ring a rule makes for a row, and
 * after that only if something had to be put right.
 */
#pragma once

#include "base/err.h"
#include "domain/rule.h"

struct subject;
struct work;

/* inbox.pending: rings again; a row that belongs to no channel is given up in time. */
int ring_pending(struct work *w, const struct subject *s, enum rule_id rule, struct err *err);
/* dispatch.retry: the task's row is there and pending, and rung for. */
int ring_dispatched(struct work *w, const struct subject *s, enum rule_id rule, struct err *err);
/* inbox.processing, of a row that is no turn: pending again, or given up if that was too often. */
int ring_taken(struct work *w, const struct subject *s, enum rule_id rule, struct err *err);
