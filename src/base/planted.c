/* planted.c: see planted.h. Not part of what is installed. */
#include "base/planted.h"

#include <stdlib.h>
#include <string.h>

#ifdef REEVE_PLANTED

static const char *const names[] = {
#define X(name, text, breaks) [PLANTED_##name] = text,
    PLANTED_LIST(X)
#undef X
};

bool planted_is_awake(enum planted bug)
{
    static const char *awake = "";
    if (awake && !*awake)
        awake = getenv("REEVE_PLANTED");
    return awake && strcmp(awake, names[bug]) == 0;
}

/* getenv() points behind the name, which stands in the environment with its value. */
char *planted_variable(void)
{
    char *value = getenv("REEVE_PLANTED");
    return value ? value - (sizeof "REEVE_PLANTED=" - 1) : NULL;
}

#endif
