/*
 * age.h: stretches of time, for people.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"

/* How long, at a glance: "250ms", "45s", "12m 03s", "3h 05m", "2d 04h". */
void age_add(struct buf *out, int64_t ms);
/* How long, exactly: "15m", "3h 12m", "1s 500ms". */
void age_add_exactly(struct buf *out, int64_t ms);
