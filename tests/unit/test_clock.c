/*
 * test_clock.c: `now` never goes back, and the calendar agrees with the C library's.
 */
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/macro.h"
#include "base/mem.h"
#include "tap.h"

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

#define FAKE_SOURCE(f)      \
    ((struct clock_source){ \
        .wall_ms = fake_wall, .boot_us = fake_boot, .mono_us = fake_mono, .ctx = (f)})

TEST(now_begins_at_the_later_of_wall_and_store)
{
    struct fake f = {.wall_ms = 1000, .boot_us = 77};
    struct clock_source source = FAKE_SOURCE(&f);
    struct clock c;
    clock_init(&c, &source, 0);
    CHECK_INT(clock_now_ms(&c), 1000);
    clock_init(&c, &source, 999);
    CHECK_INT(clock_now_ms(&c), 1000);
    clock_init(&c, &source, 5000); /* the wall clock was set back while we were down */
    CHECK_INT(clock_now_ms(&c), 5000);
}

TEST(now_moves_with_boot_time_only)
{
    struct fake f = {.wall_ms = 1000000, .boot_us = 5000000, .mono_us = 3000000};
    struct clock_source source = FAKE_SOURCE(&f);
    struct clock c;
    clock_init(&c, &source, 0);
    f.wall_ms += 3600000;
    f.mono_us += 9000000;
    CHECK_INT(clock_now_ms(&c), 1000000);
    f.wall_ms = 0;
    CHECK_INT(clock_now_ms(&c), 1000000);
    f.boot_us += 1999;
    CHECK_INT(clock_now_ms(&c), 1000001);
    f.boot_us += 1;
    CHECK_INT(clock_now_ms(&c), 1000002);
}

TEST(manual_clock_moves_only_by_hand)
{
    struct fake f = {.wall_ms = 1000, .boot_us = 0};
    struct clock_source source = FAKE_SOURCE(&f);
    struct clock c;
    clock_init_manual(&c, &source, 0);
    CHECK_INT(clock_now_ms(&c), 1000);
    clock_init_manual(&c, &source, 400); /* an earlier run's time goes on, whatever the wall says */
    f.boot_us += 10000000;
    CHECK_INT(clock_now_ms(&c), 400);
    clock_advance(&c, 0);
    CHECK_INT(clock_now_ms(&c), 400);
    clock_advance(&c, 86400000);
    CHECK_INT(clock_now_ms(&c), 86400400);
    clock_advance(&c, CLOCK_MS_MAX - 86400400);
    CHECK_INT(clock_now_ms(&c), CLOCK_MS_MAX);
}

TEST(the_time_left_is_exact_to_the_microsecond)
{
    struct fake f = {.wall_ms = 1000000, .boot_us = 5000000};
    struct clock_source source = FAKE_SOURCE(&f);
    struct clock c;
    clock_init(&c, &source, 0);
    CHECK_INT(clock_us_until(&c, 1000000), 0);
    CHECK_INT(clock_us_until(&c, 1000010), 10000);
    f.boot_us += 1999; /* now is 1000001 and almost 1000002 */
    CHECK_INT(clock_us_until(&c, 1000002), 1);
    CHECK_INT(clock_us_until(&c, 1000001), -999);
    f.boot_us += 1; /* who waits that long finds the time arrived, never a microsecond early */
    CHECK_INT(clock_us_until(&c, 1000002), 0);
    CHECK_INT(clock_now_ms(&c), 1000002);
}

TEST(the_time_left_until_never_does_not_overflow)
{
    struct fake f = {.wall_ms = INT64_C(1700000000000), .boot_us = INT64_C(1) << 50};
    struct clock_source source = FAKE_SOURCE(&f);
    struct clock c;
    clock_init(&c, &source, 0);
    CHECK(clock_us_until(&c, INT64_MAX) > INT64_MAX / 4);
    CHECK_INT(clock_us_until(&c, CLOCK_MS_MAX + 1), (CLOCK_MS_MAX + 1 - f.wall_ms) * 1000);
    CHECK_INT(clock_us_until(&c, INT64_MIN), -f.wall_ms * 1000);
}

TEST(kernel_clock_goes_forward)
{
    struct clock c;
    clock_init(&c, &clock_kernel, 0);
    int64_t now = clock_now_ms(&c), mono = clock_mono_us();
    CHECK(now > INT64_C(1700000000000) && now < CLOCK_MS_MAX);
    for (int i = 0; i < 1000; i++) {
        CHECK(clock_now_ms(&c) >= now);
        now = clock_now_ms(&c);
        CHECK(clock_mono_us() >= mono);
        mono = clock_mono_us();
    }
    CHECK(clock_kernel.boot_us(NULL) >= clock_kernel.mono_us(NULL) - 1000000);
}

static void check_iso(int64_t ms, const char *want)
{
    char text[CLOCK_ISO_BYTES];
    clock_iso(ms, text);
    CHECK_Z(text, want);
}

TEST(iso_at_the_edges)
{
    check_iso(0, "1970-01-01T00:00:00.000Z");
    check_iso(1, "1970-01-01T00:00:00.001Z");
    check_iso(86399999, "1970-01-01T23:59:59.999Z");
    check_iso(86400000, "1970-01-02T00:00:00.000Z");
    check_iso(951782400000, "2000-02-29T00:00:00.000Z");
    check_iso(4107542399999, "2100-02-28T23:59:59.999Z");
    check_iso(4107542400000, "2100-03-01T00:00:00.000Z");
    check_iso(1794735000123, "2026-11-15T09:30:00.123Z");
    check_iso(CLOCK_MS_MAX, "9999-12-31T23:59:59.999Z");
}

TEST(iso_outside_its_years_is_the_nearest)
{
    check_iso(-1, "1970-01-01T00:00:00.000Z");
    check_iso(INT64_MIN, "1970-01-01T00:00:00.000Z");
    check_iso(CLOCK_MS_MAX + 1, "9999-12-31T23:59:59.999Z");
    check_iso(INT64_MAX, "9999-12-31T23:59:59.999Z");
}

TEST(iso_agrees_with_gmtime_for_every_third_week)
{
    for (int64_t ms = 0; ms <= CLOCK_MS_MAX; ms += INT64_C(86400000) * 21 - 86399) {
        time_t seconds = (time_t)(ms / 1000);
        struct tm tm;
        gmtime_r(&seconds, &tm);
        char want[64];
        size_t n = strftime(want, sizeof want, "%Y-%m-%dT%H:%M:%S", &tm);
        snprintf(want + n, sizeof want - n, ".%03dZ", (int)(ms % 1000));
        check_iso(ms, want);
    }
}

TEST(every_day_follows_the_day_before)
{
    char last[CLOCK_ISO_BYTES] = "", text[CLOCK_ISO_BYTES];
    for (int64_t ms = 0; ms <= CLOCK_MS_MAX; ms += 86400000) {
        clock_iso(ms, text);
        CHECK(strcmp(last, text) < 0);
        CHECK_Z(text + 10, "T00:00:00.000Z");
        memcpy(last, text, sizeof last);
    }
}

TEST(durations)
{
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {
        {"90s", 90000},
        {"10m", 600000},
        {"4h", 14400000},
        {"250ms", 250},
        {"2d", 172800000},
        {"0s", 0},
        {"253402300799999ms", CLOCK_MS_MAX},
    };
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        int64_t ms = -1;
        CHECK(clock_parse_duration(str_of(good[i].text), &ms));
        CHECK_INT(ms, good[i].ms);
    }
}

TEST(durations_that_are_none)
{
    static const char *const bad[] = {
        "",
        "s",
        "90",
        "-5s",
        "+5s",
        "1.5h",
        "1h30m",
        "5 s",
        " 5s",
        "5s ",
        "5S",
        "5sec",
        "5w",
        "nans",
        "0x5s",
        "ms",
        "9223372036854775808ms",
        "9223372036854775807d",
        "253402300800000ms",
        "253402300800s",
        "2932897d",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        int64_t ms = -1;
        if (clock_parse_duration(str_of(bad[i]), &ms))
            tap_fail(__FILE__, __LINE__, "\"%s\" is taken as %lld ms", bad[i], (long long)ms);
        CHECK_INT(ms, -1);
    }
    int64_t ms = -1;
    CHECK(!clock_parse_duration(STR("5s\0"), &ms));
    CHECK(!clock_parse_duration(STR_NONE, &ms));
    CHECK_INT(ms, -1);
}
