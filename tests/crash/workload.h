/*
 * workload.h: what a core does while its disk fails (test_power_cuts.c, test_io_faults.c).
 *
 * A workload is a list of ticks, the same for the same seed. What fails is answered with an error
 * and left: a workload never depends on what was refused. After each tick with a success among its
 * answers `deeds` is what the store owes (lib/deeds.h); what the answers told must be in it, or the
 * test fails there and then.
 */
#pragma once

#include "lib/core_world.h"
#include "lib/deeds.h"

struct run {
    struct world *w;
    uint64_t seed, random;
    int step;
    struct deeds deeds;
    struct { /* by answers */
        int64_t event, epochs[DEEDS_TASKS_MAX + 1], tasks;
    } told;
    bool wrote;          /* the last tick had a success among its answers */
    int64_t unavailable; /* answers that said so */
    struct deeds backup; /* what the last finished backup owes; last_event 0: there is none */
    int backups;         /* that were told to be finished */
};

/* One tick or so; false: the workload is over. */
typedef bool workload_fn(struct run *r);

struct workload {
    const char *name;
    workload_fn *step;
    bool has_backups;
    bool
        has_small_cache; /* pages are read, and written before the commit, in the middle of ticks */
};
extern const struct workload workloads[];
extern const size_t workload_count;

/* In a world of its own, in which conversations 1 to 3 with roles a and b are made, and owed. */
void run_init(struct run *r, uint64_t seed);
void run_end(struct run *r);
/* A number from the environment. */
uint64_t run_setting(const char *variable, uint64_t fallback);
uint64_t run_below(struct run *r, uint64_t n);
/* The store says what is owed from now on. */
void run_acknowledge(struct run *r);
