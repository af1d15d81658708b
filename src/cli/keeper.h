/*
 * keeper.h: a child of `reeve up` that is started again when it is killed.
 *
 *     runs ──end──▶ waits ──wait over──▶ runs ──…──▶ given up
 *
 * Killed means: ended by a signal, or with the status of a bug. A child that ends by itself with
 * another status was told to, or cannot run: it stays ended. The first death in a row is answered
 * at once, later ones after a wait that doubles, and after KEEPER_DEATHS_MAX of them it is given
 * up. A child that has lived for KEEPER_STABLE_MS begins a new row.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "cli/child.h"

enum { KEEPER_DEATHS_MAX = 6, KEEPER_STABLE_MS = 10000, KEEPER_WAIT_FIRST_MS = 500 };

struct keeper {
    const char *name; /* "server", for people */
    struct child child;
    int64_t started_us;
    int deaths;       /* in a row */
    int64_t again_us; /* when it is to be started again; 0: it need not */
    int status;       /* with which it has ended last */
};

#define KEEPER(name_) ((struct keeper){.name = (name_), .child = CHILD_INIT})

int keeper_start(struct keeper *k, char *const argv[], struct err *err);
bool keeper_runs(const struct keeper *k);
/* After its end: takes it, and says what it was and what follows. False: it is not started again.
 */
bool keeper_take_end(struct keeper *k);
/* Is it time to start it again? */
bool keeper_is_due(const struct keeper *k);
/* The shorter of `ms` (-1: for ever) and the time until then. */
int keeper_wait_ms(const struct keeper *k, int ms);
