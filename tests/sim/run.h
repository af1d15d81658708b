/*
 * run.h: a history from beginning to end: made by a seed, or replayed from a script.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sim/script.h"
#include "sim/why.h"

struct history {
    bool has_failed;
    char promise[16], why[600];
    uint64_t hash, ticks;
    int64_t steps, events, simulated_ms, agents;
    struct why_score score;
};

/* How histories are made: what is told of them, and whether a wrong `why` ends one. */
struct how {
    bool traces, stops_at_wrong_why;
};

/* Makes a history; every step of it is added to `record`, whose swarm is set. */
struct history run_seed(uint64_t seed, struct script *record, struct how how);
struct history run_script(const struct script *script, struct how how);
