/* pulse.c: see pulse.h. */
#include "watch/pulse.h"

#include <stdlib.h>

static void take(struct pulse *p)
{
    const struct clock_source *s = p->clock->source;
    p->now_ms = clock_now_ms(p->clock);
    p->boot_us = s->boot_us(s->ctx);
    p->mono_us = s->mono_us(s->ctx);
    p->wall_ahead_ms = s->wall_ms(s->ctx) - p->now_ms;
}

void pulse_init(struct pulse *p, const struct clock *clock)
{
    p->clock = clock;
    take(p);
}

bool pulse_beat(struct pulse *p, int64_t gap_ms, struct pulse_finding *ret)
{
    struct pulse last = *p;
    take(p);
    int64_t step_ms = p->wall_ahead_ms - last.wall_ahead_ms;
    /* Boot time goes on while the machine sleeps, monotonic time does not. */
    int64_t asleep_ms = ((p->boot_us - last.boot_us) - (p->mono_us - last.mono_us)) / 1000;
    int64_t elapsed_ms = p->now_ms - last.now_ms;
    *ret = (struct pulse_finding){
        .is_gap = elapsed_ms > gap_ms,
        .kind = 2 * asleep_ms > elapsed_ms ? GAP_SUSPEND : GAP_LATE,
        .from_ms = last.now_ms,
        .wall_step_ms = llabs(step_ms) > WALL_STEP_MS ? step_ms : 0,
    };
    return ret->is_gap || ret->wall_step_ms != 0;
}
