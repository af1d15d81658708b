/*
 * pulse.h: is the watcher itself awake?
 *
 * The core thread wakes at least every PULSE_MS and beats. If a beat comes later than
 * watch.gap_seconds after the one before, the process was stopped, starved or suspended, or its
 * disk kept it waiting: in that time no evidence could arrive, so it is a gap (domain/gaps.h). A
 * step of the wall clock shows as a change in its distance from `now`, which does not follow it.
 *
 * Pure: reads a struct clock, which a test can bring.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "domain/gaps.h"

enum { PULSE_MS = 500, WALL_STEP_MS = 1000 };

struct pulse {
    const struct clock *clock;
    int64_t now_ms, boot_us, mono_us, wall_ahead_ms; /* at the last beat */
};

struct pulse_finding {
    bool is_gap;
    enum gap_kind kind;
    int64_t from_ms;      /* of the gap */
    int64_t wall_step_ms; /* 0: none */
};

void pulse_init(struct pulse *p, const struct clock *clock);
/* gap_ms: a beat later than this is a gap. True if there is anything to tell. */
bool pulse_beat(struct pulse *p, int64_t gap_ms, struct pulse_finding *ret);
