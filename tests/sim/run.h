/*
 * run.h: a history from beginning to end: made by a seed, or replayed from a script.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sim/script.h"

struct history {
    bool has_failed;
    char promise[16], why[600];
    uint64_t hash, ticks;
    int64_t steps, events, simulated_ms, agents;
};

/* Makes a history; every step of it is added to `record`, whose swarm is set. */
struct history run_seed(uint64_t seed, struct script *record, bool traces);
struct history run_script(const struct script *script, bool traces);
