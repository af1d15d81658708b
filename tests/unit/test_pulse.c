/* test_pulse.c: when the watcher itself was not awake, and when only the wall clock was set. */
#include "tap.h"
#include "watch/pulse.h"

struct fake {
    int64_t wall_ms, boot_us, mono_us;
};

static int64_t fake_wall(void *ctx)
{
    return ((struct fake *)ctx)->wall_ms;
}

static int64_t fake_boot(void *ctx)
{
    return ((struct fake *)ctx)->boot_us;
}

static int64_t fake_mono(void *ctx)
{
    return ((struct fake *)ctx)->mono_us;
}

enum { GAP_MS = 2000 };

struct patient {
    struct fake time;
    struct clock_source source;
    struct clock clock;
    struct pulse pulse;
    struct pulse_finding found;
};

static void patient_init(struct patient *p)
{
    *p = (struct patient){.time = {.wall_ms = 1000000, .boot_us = 77, .mono_us = 55}};
    p->source = (struct clock_source){
        .wall_ms = fake_wall, .boot_us = fake_boot, .mono_us = fake_mono, .ctx = &p->time};
    clock_init(&p->clock, &p->source, 0);
    pulse_init(&p->pulse, &p->clock);
}

/* Time passes, some of it asleep; the wall clock is also set. */
static bool beat_after(struct patient *p, int64_t ms, int64_t asleep_ms, int64_t wall_step_ms)
{
    p->time.boot_us += ms * 1000;
    p->time.mono_us += (ms - asleep_ms) * 1000;
    p->time.wall_ms += ms + wall_step_ms;
    return pulse_beat(&p->pulse, GAP_MS, &p->found);
}

TEST(a_beat_in_time_is_nothing_to_tell)
{
    struct patient p;
    patient_init(&p);
    CHECK(!beat_after(&p, 0, 0, 0));
    CHECK(!beat_after(&p, 500, 0, 0));
    CHECK(!beat_after(&p, GAP_MS, 0, 0)); /* exactly the limit */
    CHECK(!beat_after(&p, GAP_MS, GAP_MS, 0));
    for (int i = 0; i < 1000; i++)
        CHECK(!beat_after(&p, 500, 0, i % 2 ? 3 : -1)); /* NTP draws at the wall clock */
}

TEST(a_late_beat_is_a_gap)
{
    struct patient p;
    patient_init(&p);
    CHECK(!beat_after(&p, 700, 0, 0));
    int64_t last_ms = clock_now_ms(&p.clock);
    CHECK(beat_after(&p, GAP_MS + 1, 0, 0));
    CHECK(p.found.is_gap);
    CHECK_INT(p.found.kind, GAP_LATE);
    CHECK_INT(p.found.from_ms, last_ms);
    CHECK_INT(p.found.wall_step_ms, 0);
    CHECK(!beat_after(&p, GAP_MS, 0, 0)); /* told once */
}

TEST(sleep_is_a_gap_of_its_own_kind)
{
    struct patient p;
    patient_init(&p);
    CHECK(beat_after(&p, 3600000, 3599000, 0));
    CHECK_INT(p.found.kind, GAP_SUSPEND);
    CHECK(p.found.is_gap);
    CHECK(beat_after(&p, 10000, 4000, 0)); /* awake for most of it, and late all the same */
    CHECK_INT(p.found.kind, GAP_LATE);
}

TEST(a_step_of_the_wall_clock_is_told_and_is_no_gap)
{
    struct patient p;
    patient_init(&p);
    CHECK(beat_after(&p, 500, 0, 3600000));
    CHECK(!p.found.is_gap);
    CHECK_INT(p.found.wall_step_ms, 3600000);
    CHECK(beat_after(&p, 500, 0, -7200000));
    CHECK(!p.found.is_gap);
    CHECK_INT(p.found.wall_step_ms, -7200000);
    CHECK(!beat_after(&p, 500, 0, 0));
    CHECK(!beat_after(&p, 500, 0, WALL_STEP_MS));
    CHECK(!beat_after(&p, 500, 0, -WALL_STEP_MS));
    CHECK(beat_after(&p, 500, 0, WALL_STEP_MS + 1));
    CHECK_INT(p.found.wall_step_ms, WALL_STEP_MS + 1);
    CHECK(beat_after(&p, 60000, 0, -5000));
    CHECK(p.found.is_gap);
    CHECK_INT(p.found.wall_step_ms, -5000);
}
