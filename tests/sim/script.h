/*
 * script.h: a history as a list of steps, and as text.
 *
 * A step is one act of one actor at one time: `12500 agent 3 claim 77`. Its number is where all its
 * choices come from, the fate of its message on the way included; what it means depends on the
 * state the actor is in, and where it means nothing it does nothing. So any part of a list is a
 * history again, which is what makes shrinking possible.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "sim/swarm.h"

struct step {
    int64_t at_ms; /* since the beginning */
    int kind;      /* of the actor: actor.h */
    int who;
    int verb;
    uint32_t arg;
};

struct script {
    struct swarm swarm;
    struct step *steps;
    size_t count, room;
};

void script_add(struct script *s, struct step step);
void script_write(const struct script *s, struct buf *out);
/* What is wrong is written to stderr, with its line. */
bool script_read(struct script *s, const char *path);
void script_release(struct script *s);
