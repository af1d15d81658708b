/*
 * checker.h: the promises, seen from outside.
 *
 * The checker knows what was asked and answered, when the server was there, which processes live
 * in truth, and what is in the store. It asks the server nothing and uses none of its code but
 * JSON; each promise is a function with its number in checker.c (of single events and answers),
 * checks.c (of what the store holds when the server is at rest), inbox_checks.c (of inboxes and of
 * whoever waits for a ring), watched.c (of gaps) or wishes.c (of what persons want).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "base/peer.h"

struct ask;
struct checker;
struct sim;

struct checker *checker_new(void);
struct checker *checker_free(struct checker *c); /* NULL */

void checker_server_started(struct sim *s);
void checker_server_ends(struct sim *s);
/* It sees nothing for so long. */
void checker_server_sleeps(struct sim *s, int64_t ms);
/* Earlier than that, if it still does. */
void checker_server_wakes(struct sim *s);
/* In this order, for each tick; an answer, or a push, in between. */
void checker_tick_begins(struct sim *s);
void checker_tick_ends(struct sim *s);
void checker_answer(struct sim *s, struct ask *a, const struct json *reply);
void checker_push(struct sim *s, const struct peer *peer, const struct json *message);
void checker_tick_answered(struct sim *s);
/* Nothing is left to do at this time. */
void checker_at_rest(struct sim *s);
/* Everything that is expensive, too. */
void checker_look_at_all(struct sim *s);

/* From here on everything open must end: by when it has to. */
void checker_settles(struct sim *s);
int64_t checker_settled_by_ms(const struct sim *s);
/* NULL: nothing is open any more; else what is. */
const char *checker_what_is_open(struct sim *s);
