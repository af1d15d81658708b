/*
 * obstacle.h: what stands in the way of a start.
 *
 * start.c acts on it, and `why` (watch/cause.h) tells it. Whether anybody wants the agent up is
 * another question: agent_is_wanted().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "domain/agent.h"

struct work;

enum obstacle {
    OBSTACLE_NONE,
    OBSTACLE_UNMANAGED, /* it has no kind: nobody can start it for us */
    OBSTACLE_UP,        /* its process runs, or may run */
    OBSTACLE_BREAKER,   /* too many failures: a person must start it */
    OBSTACLE_WAIT,      /* its restart is due later */
    OBSTACLE_ORDERED,   /* a start is open */
    OBSTACLE_KIND,      /* no machine offers its kind */
    OBSTACLE_MACHINE,   /* the machine that it needs is not there */
    OBSTACLE_ATTENDED   /* somebody listens and can have its work, or has it */
};

/* By the agent's own row, at this time: up to OBSTACLE_WAIT. */
enum obstacle agent_obstacle(const struct work *w, const struct agent *a, int64_t at_ms);
/* By everything there is: would a rule that brings it up, or with `replaces` puts another process
 * in the place of one that runs, order a start that a machine takes? */
int agent_find_obstacle(struct work *w, const struct agent *a, bool replaces, int64_t at_ms,
                        enum obstacle *ret, struct err *err);
