/* fail_point.c: see fail_point.h. */
#include "base/fail_point.h"

#include <signal.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/names.h"

static const char *const names[] = {[FAIL_POINT_NONE] = "",
#define X(name, text) [FAIL_##name] = text,
                                    FAIL_POINT_LIST(X)
#undef X
};
_Static_assert(ARRAY_LEN(names) == FAIL_POINT_COUNT, "a name for each place");

enum fail_point fail_point_armed = FAIL_POINT_NONE;
static int64_t passes_left;

int fail_point_set(const char *spec, struct err *err)
{
    if (!spec || !spec[0])
        return 0;
    struct str name = str_of(spec);
    const char *colon = memchr(name.p, ':', name.n);
    passes_left = 1;
    if (colon) {
        name.n = (size_t)(colon - spec);
        if (!str_to_int(str_of(colon + 1), &passes_left) || passes_left < 1)
            return err_set(err, ERR_CONFIG, "REEVE_FAIL_POINT: \"%s\" is no count", colon + 1);
    }
    int i = names_find(names, FAIL_POINT_COUNT, name);
    if (i <= 0)
        return err_set(err, ERR_CONFIG, "REEVE_FAIL_POINT: there is no place \"%.*s\"",
                       STR_ARG(name));
    fail_point_armed = (enum fail_point)i;
    return 0;
}

void fail_point_reached(void)
{
    if (--passes_left > 0)
        return;
    kill(getpid(), SIGKILL);
    pause(); /* the signal is on its way */
}
