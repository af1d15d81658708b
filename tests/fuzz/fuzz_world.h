/*
 * fuzz_world.h: a core for fuzzers: a core_world made from a copy of files instead of anew, and
 * what must hold in its store whatever was asked of it.
 *
 *     struct world *w = fuzz_world_new(populate, NULL);   populate runs once per process
 *     fuzz_say(w, text);                               a request, executed
 *     fuzz_world_check(w);
 *     fuzz_world_free(w);
 *
 * A failed CHECK aborts: tap.c, which has a main() of its own, is not linked.
 */
#pragma once

#include "lib/core_world.h"

typedef void populate_fn(struct world *w);

struct world *fuzz_world_new(populate_fn *populate, const struct options *options);
void fuzz_world_free(struct world *w);
/* One text as a request of w->grant, and every tick it needs, within reason: what asks for a
 * thousand years of ticks is left where it stands. Replies are dropped. */
void fuzz_say(struct world *w, struct str text);
void fuzz_settle(struct world *w);
/* The promises that can be read off the tables: P6, P7, P10, heads and tasks that agree. */
void fuzz_world_check(struct world *w);

/*
 * A small town: conversation 1 with a queue, a suspended and a finished task, an attachment and a
 * managed agent on machine m; conversation 2, in which nothing has happened to role a but a task
 * that is being worked on by "bystander"; conversation 3 has ended, 4 is blocked.
 */
void fuzz_populate(struct world *w);
