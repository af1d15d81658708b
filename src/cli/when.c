/* when.c: see when.h. */
#include "cli/when.h"

#include "base/age.h"
#include "base/clock.h"
#include "base/macro.h"

/* Days since 1970 of a date of the Gregorian calendar; the year begins in March here, so that the
 * leap day is its last. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    year -= month <= 2;
    int64_t month_from_march = (month + 9) % 12, of_year = (153 * month_from_march + 2) / 5 + day;
    return 365 * year + year / 4 - year / 100 + year / 400 + of_year - 719469;
}

static int64_t digits(struct str s, size_t at, size_t n)
{
    int64_t value = 0;
    for (size_t i = at; i < at + n; i++)
        value = value * 10 + (s.p[i] - '0');
    return value;
}

bool when_parse(struct str iso, int64_t *ret_ms)
{
    char again[CLOCK_ISO_BYTES];
    if (iso.n != CLOCK_ISO_BYTES - 1)
        return false;
    int64_t days = days_of(digits(iso, 0, 4), digits(iso, 5, 2), digits(iso, 8, 2));
    int64_t ms = days * 86400000 + digits(iso, 11, 2) * 3600000 + digits(iso, 14, 2) * 60000 +
                 digits(iso, 17, 2) * 1000 + digits(iso, 20, 3);
    clock_iso(ms, again);
    if (!str_is(iso, again)) /* no such date, or other characters */
        return false;
    *ret_ms = ms;
    return true;
}

bool when_parse_since(struct str text, int64_t now_ms, int64_t *ret_ms)
{
    char iso[CLOCK_ISO_BYTES] = "0000-00-00T00:00:00.000Z";
    int64_t ago_ms;
    if (clock_parse_duration(text, &ago_ms)) {
        *ret_ms = MAX(now_ms - ago_ms, INT64_C(0));
        return true;
    }
    if (text.n && text.p[text.n - 1] == 'Z')
        text.n--;
    bool is_front = text.n == 10 || text.n == 16 || text.n == 19 || text.n == 23;
    if (!is_front)
        return false;
    memcpy(iso, text.p, text.n);
    if (iso[10] == ' ')
        iso[10] = 'T';
    return when_parse(str_of(iso), ret_ms);
}

void when_add_time(struct buf *out, int64_t ms)
{
    char iso[CLOCK_ISO_BYTES];
    clock_iso(ms, iso);
    buf_addz(out, iso);
}

void when_add_age(struct buf *out, int64_t ms)
{
    age_add(out, ms);
}

void when_add_limit(struct buf *out, int64_t ms)
{
    age_add_exactly(out, ms);
}
