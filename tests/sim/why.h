/*
 * why.h: W16: what `why` says is compared with what is true.
 *
 * Whenever the server is at rest and some time has passed, one agent, task, conversation or machine
 * is asked about. Two things are compared:
 *
 *     the cause       with what the world knows: what persons asked for and were answered, which
 *                     machines have come and gone by the log, who was heard of and when, which
 * facts machines have reported, which process has which task (why.c); the next move   with what
 * then happens. A promise is kept in mind until the ladder moves that agent, or something arrives
 * that bears on it: then it is superseded and does not count (promise.c).
 *
 * Nothing of src/watch is used here. Each comparison is right or wrong; a run in which fewer than
 * 99.9 % are right has failed (main.c). With --why a history ends with its first wrong one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"

struct ask;
struct sim;
struct oracle;

/* What was compared, and the first that was wrong. */
struct why_score {
    int64_t causes, moves, wrong;
    char first[300];
};

struct oracle *why_new(void);
struct oracle *why_free(struct oracle *w); /* NULL */
const struct why_score *why_score_of(const struct sim *s);

/* Nothing is left to do at this time. */
void why_at_rest(struct sim *s);
/* The server takes a request. */
void why_input(struct sim *s, const struct ask *a);
/* An event was written; kind is "" unless it is one of the system's. */
void why_told(struct sim *s, int64_t conversation, int64_t ts_ms, const char *kind,
              const struct json *data);
/* The server, its clock or its disk was disturbed: what was promised is not any more. */
void why_disturbed(struct sim *s);
