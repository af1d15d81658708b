/* test_when.c: times and stretches of time as people read them. */
#include "cli/when.h"

#include "base/clock.h"
#include "base/macro.h"
#include "tap.h"

TEST(every_time_reads_back_as_it_was_written)
{
    /* A step that is prime to days and leap years, so that all kinds of dates come by. */
    for (int64_t ms = 0; ms <= CLOCK_MS_MAX; ms += INT64_C(86399999) * 37 + 11) {
        char iso[CLOCK_ISO_BYTES];
        int64_t again = -1;
        clock_iso(ms, iso);
        CHECK(when_parse(str_of(iso), &again));
        CHECK_INT(again, ms);
    }
    int64_t last;
    CHECK(when_parse(STR("9999-12-31T23:59:59.999Z"), &last));
    CHECK_INT(last, CLOCK_MS_MAX);
}

TEST(what_is_no_time_is_refused)
{
    static const char *const texts[] = {
        "",
        "now",
        "2026-11-15",
        "2026-11-15T09:30:00Z",
        "2026-11-15T09:30:00.123",
        "2026-11-15T09:30:00.123+",
        "2026-11-15 09:30:00.123Z",
        "2026-02-29T09:30:00.123Z",
        "2026-13-01T09:30:00.123Z",
        "2026-00-01T09:30:00.123Z",
        "2026-11-00T09:30:00.123Z",
        "2026-11-15T24:00:00.000Z",
        "2026-11-15T09:60:00.000Z",
        "1969-12-31T23:59:59.999Z",
        "2O26-11-15T09:30:00.123Z",
        "\xff\xff\xff\xff-11-15T09:30:00.123Z",
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        int64_t ms = -1;
        if (when_parse(str_of(texts[i]), &ms) || ms != -1)
            tap_fail(__FILE__, __LINE__, "\"%s\" is taken for a time", texts[i]);
    }
}

TEST(times_as_people_give_them)
{
    static const struct {
        const char *text, *iso;
    } times[] = {
        {"2026-11-15", "2026-11-15T00:00:00.000Z"},
        {"2026-11-15T09:30", "2026-11-15T09:30:00.000Z"},
        {"2026-11-15 09:30Z", "2026-11-15T09:30:00.000Z"},
        {"2026-11-15 09:30:01", "2026-11-15T09:30:01.000Z"},
        {"2026-11-15T09:30:01.123Z", "2026-11-15T09:30:01.123Z"},
        {"10m", "2026-11-15T11:50:00.000Z"},
    };
    int64_t now_ms, ms = 0;
    CHECK(when_parse(STR("2026-11-15T12:00:00.000Z"), &now_ms));
    for (size_t i = 0; i < ARRAY_LEN(times); i++) {
        char iso[CLOCK_ISO_BYTES];
        CHECK(when_parse_since(str_of(times[i].text), now_ms, &ms));
        clock_iso(ms, iso);
        CHECK_Z(iso, times[i].iso);
    }
    CHECK(when_parse_since(STR("90d"), 1000, &ms) && ms == 0); /* before all times */
    static const char *const none[] = {"", "Z", "10", "09:30", "2026-11-1", "2026-13-01", "10 m"};
    for (size_t i = 0; i < ARRAY_LEN(none); i++)
        CHECK(!when_parse_since(str_of(none[i]), now_ms, &ms));
}

static void check_text(void (*add)(struct buf *, int64_t), int64_t ms, const char *want)
{
    _cleanup_buf_ struct buf b = BUF_INIT(64);
    add(&b, ms);
    CHECK_STR(buf_str(&b), want);
}

TEST(ages_at_a_glance)
{
    check_text(when_add_age, -5, "0ms");
    check_text(when_add_age, 0, "0ms");
    check_text(when_add_age, 999, "999ms");
    check_text(when_add_age, 1000, "1s");
    check_text(when_add_age, 59999, "59s");
    check_text(when_add_age, 60000, "1m 00s");
    check_text(when_add_age, 723999, "12m 03s");
    check_text(when_add_age, 3600000, "1h 00m");
    check_text(when_add_age, 86399999, "23h 59m");
    check_text(when_add_age, 86400000 * 2 + 3600000 * 4, "2d 04h");
    check_text(when_add_age, INT64_MAX, "106751991167d 07h");
}

TEST(limits_exactly)
{
    check_text(when_add_limit, 0, "0s");
    check_text(when_add_limit, 1, "1ms");
    check_text(when_add_limit, 1500, "1s 500ms");
    check_text(when_add_limit, 900000, "15m");
    check_text(when_add_limit, 11520000, "3h 12m");
    check_text(when_add_limit, 86400000, "1d");
}
