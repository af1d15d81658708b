/* shrink.h: the same failure in fewer steps. */
#pragma once

#include "sim/script.h"

/* Whether a script fails in the same way; shrink() asks it about every candidate. */
typedef bool shrink_fails_fn(void *ctx, const struct script *candidate);

/* Leaves out of the script what the failure does not need: actors first, then stretches of steps,
 * halved until they are single ones (delta debugging). At most `tries` candidates. */
void shrink(struct script *script, int tries, shrink_fails_fn *fails, void *ctx);
