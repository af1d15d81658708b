/*
 * clock.c: where time comes from.
 *
 * `now` is never read from the wall clock after the start: it is a base taken once plus boot time
 * elapsed since, so neither an administrator nor NTP can make a deadline jump. CLOCK_BOOTTIME and
 * not CLOCK_MONOTONIC, because the time a laptop sleeps is time that passed; that nobody is
 * convicted for it is decided above us (a gap), not by hiding it. A manual clock has no source
 * behind it at all once it is set up.
 *
 * Time stamps are written with our own calendar arithmetic: each event carries one, gmtime_r takes
 * a lock for the time zone, and we need only UTC between 1970 and 9999.
 */
#include "base/clock.h"

#include <string.h>
#include <time.h>

#include "base/macro.h"
#include "base/mem.h"
#include "base/planted.h"

#define SECOND_MS INT64_C(1000)
#define DAY_MS (INT64_C(86400) * SECOND_MS)

static int64_t kernel_us(clockid_t id)
{
    struct timespec ts;
    REQUIRE(clock_gettime(id, &ts) == 0);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static int64_t kernel_wall_ms(void *ctx)
{
    (void)ctx;
    return kernel_us(CLOCK_REALTIME) / 1000;
}

static int64_t kernel_boot_us(void *ctx)
{
    (void)ctx;
    return kernel_us(CLOCK_BOOTTIME);
}

static int64_t kernel_mono_us(void *ctx)
{
    (void)ctx;
    return kernel_us(CLOCK_MONOTONIC);
}

const struct clock_source clock_kernel = {
    .wall_ms = kernel_wall_ms,
    .boot_us = kernel_boot_us,
    .mono_us = kernel_mono_us,
};

void clock_init(struct clock *c, const struct clock_source *source, int64_t greatest_stored_ms)
{
    *c = (struct clock){
        .source = source,
        .base_ms = MAX(source->wall_ms(source->ctx), greatest_stored_ms),
        .boot_base_us = source->boot_us(source->ctx),
    };
}

void clock_init_manual(struct clock *c, const struct clock_source *source,
                       int64_t greatest_stored_ms)
{
    *c = (struct clock){
        .source = source,
        .manual = true,
        .base_ms = greatest_stored_ms > 0 ? greatest_stored_ms : source->wall_ms(source->ctx),
    };
}

int64_t clock_now_ms(const struct clock *c)
{
    if (c->manual)
        return c->base_ms;
    if (planted(WALL_CLOCK))
        return c->source->wall_ms(c->source->ctx);
    return c->base_ms + (c->source->boot_us(c->source->ctx) - c->boot_base_us) / 1000;
}

int64_t clock_us_until(const struct clock *c, int64_t at_ms)
{
    int64_t elapsed_us = c->source->boot_us(c->source->ctx) - c->boot_base_us;
    int64_t ahead_ms = MAX(at_ms, INT64_C(0)) - c->base_ms;
    return MIN(ahead_ms, INT64_MAX / 2000) * 1000 - elapsed_us;
}

void clock_advance(struct clock *c, int64_t ms)
{
    REQUIRE(c->manual);
    REQUIRE_F(ms >= 0 && ms <= CLOCK_MS_MAX - c->base_ms, "advance by %lld ms", (long long)ms);
    c->base_ms += ms;
}

int64_t clock_mono_us(void)
{
    return kernel_us(CLOCK_MONOTONIC);
}

struct date {
    unsigned year, month, day;
};

/*
 * Day number (0 = 1 January 1970) to date. Years are counted from 1 March, which puts the leap day
 * at the end of a year and makes the months' lengths a straight line (153 days in five months); the
 * calendar repeats every 400 years, 146097 days.
 */
static struct date date_of_day(unsigned day_number)
{
    unsigned since = day_number + 719468; /* from 1 March of year 0 */
    unsigned era = since / 146097;
    unsigned day_of_era = since % 146097;
    unsigned year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    unsigned day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    unsigned month_from_march = (5 * day_of_year + 2) / 153;
    unsigned month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
    return (struct date){
        .year = era * 400 + year_of_era + (month <= 2),
        .month = month,
        .day = day_of_year - (153 * month_from_march + 2) / 5 + 1,
    };
}

static void put_digits(char *at, unsigned value, unsigned width)
{
    for (; width > 0; width--, value /= 10)
        at[width - 1] = (char)('0' + value % 10);
}

void clock_iso(int64_t ms, char ret[CLOCK_ISO_BYTES])
{
    /* Text about a time must come out whatever the time is: a wrong one may be why we write. */
    ms = MIN(MAX(ms, INT64_C(0)), CLOCK_MS_MAX);
    struct date date = date_of_day((unsigned)(ms / DAY_MS));
    unsigned in_day = (unsigned)(ms % DAY_MS);
    memcpy(ret, "0000-00-00T00:00:00.000Z", CLOCK_ISO_BYTES);
    put_digits(ret, date.year, 4);
    put_digits(ret + 5, date.month, 2);
    put_digits(ret + 8, date.day, 2);
    put_digits(ret + 11, in_day / 3600000, 2);
    put_digits(ret + 14, in_day / 60000 % 60, 2);
    put_digits(ret + 17, in_day / 1000 % 60, 2);
    put_digits(ret + 20, in_day % 1000, 3);
}

static const struct {
    const char *name;
    int64_t ms;
} units[] = {
    {"ms", 1}, {"s", SECOND_MS}, {"m", 60 * SECOND_MS}, {"h", 3600 * SECOND_MS}, {"d", DAY_MS},
};

bool clock_parse_duration(struct str s, int64_t *ret_ms)
{
    size_t digits = 0;
    while (digits < s.n && s.p[digits] >= '0' && s.p[digits] <= '9')
        digits++;
    int64_t count;
    if (!str_to_int((struct str){s.p, digits}, &count))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (!str_is(str_skip(s, digits), units[i].name))
            continue;
        if (count > CLOCK_MS_MAX / units[i].ms)
            return false;
        *ret_ms = count * units[i].ms;
        return true;
    }
    return false;
}
