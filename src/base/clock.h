/*
 * clock.h: the only module that asks the kernel for the time.
 *
 * `now` is milliseconds UTC: base + CLOCK_BOOTTIME elapsed since start, where base = max(wall
 * time, greatest time in the store) at start. So it never goes back, not even across a restart,
 * and a step of the wall clock never moves it; suspended time counts. The core takes `now` as a
 * value, frozen for a tick.
 *
 * Three sources stand behind it, as a small table of functions: the kernel, a manual one (a server
 * started with --clock=manual; `now` moves only by clock_advance), and whatever a test brings.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

struct clock_source {
    int64_t (*wall_ms)(void *ctx); /* CLOCK_REALTIME */
    int64_t (*boot_us)(void *ctx); /* CLOCK_BOOTTIME: goes on during suspend */
    int64_t (*mono_us)(void *ctx); /* CLOCK_MONOTONIC: stands still during suspend */
    void *ctx;
};

extern const struct clock_source clock_kernel;

struct clock {
    const struct clock_source *source;
    bool manual;
    int64_t base_ms;      /* `now` at the moment of start */
    int64_t boot_base_us; /* boot_us at the moment of start; unused if manual */
};

void clock_init(struct clock *c, const struct clock_source *source, int64_t greatest_stored_ms);
/* `now` begins at the greatest stored time, or at wall time if there is none. */
void clock_init_manual(struct clock *c, const struct clock_source *source,
                       int64_t greatest_stored_ms);
int64_t clock_now_ms(const struct clock *c);
/* Real time left until `now` is at_ms, in microseconds; negative if it is past. Not manual. */
int64_t clock_us_until(const struct clock *c, int64_t at_ms);
/* Manual only; 0 ≤ ms, and `now` may not pass CLOCK_MS_MAX (what a peer asks for is checked by the
 * caller). */
void clock_advance(struct clock *c, int64_t ms);

/* Real time that only measures (latencies, transport time-outs); never stored, never judged by. */
int64_t clock_mono_us(void);

/* The last millisecond of the year 9999: no time we keep is later, so sums cannot overflow. */
#define CLOCK_MS_MAX INT64_C(253402300799999)

/* "2026-11-15T09:30:00.123Z"; ret holds CLOCK_ISO_BYTES with the NUL. Years 1970 to 9999: what
 * lies outside is written as the nearest of them. */
enum { CLOCK_ISO_BYTES = 25 };
void clock_iso(int64_t ms, char ret[CLOCK_ISO_BYTES]);
/* "90s", "10m", "4h", "250ms", "2d" to milliseconds, at most CLOCK_MS_MAX. A bare number, a sign, a
 * fraction or two units are refused. */
bool clock_parse_duration(struct str s, int64_t *ret_ms);
