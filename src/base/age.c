/* age.c: see age.h. */
#include "base/age.h"

#include "base/macro.h"

static const struct {
    const char *name;
    int64_t ms;
} units[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};

void age_add(struct buf *out, int64_t ms)
{
    size_t i = 0;
    ms = MAX(ms, INT64_C(0));
    while (i + 1 < ARRAY_LEN(units) && ms < units[i].ms)
        i++;
    buf_addf(out, "%lld%s", (long long)(ms / units[i].ms), units[i].name);
    if (units[i].ms > 1000) /* the next smaller unit tells more than a fraction */
        buf_addf(out, " %02lld%s", (long long)(ms % units[i].ms / units[i + 1].ms),
                 units[i + 1].name);
}

void age_add_exactly(struct buf *out, int64_t ms)
{
    const char *blank = "";
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (ms < units[i].ms)
            continue;
        buf_addf(out, "%s%lld%s", blank, (long long)(ms / units[i].ms), units[i].name);
        ms %= units[i].ms;
        blank = " ";
    }
    if (!*blank)
        buf_addz(out, "0s");
}
