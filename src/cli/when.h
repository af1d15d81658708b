/*
 * when.h: times and stretches of time, for people.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

/* "2026-11-15T09:30:00.123Z", exactly of this form, to milliseconds. */
bool when_parse(struct str iso, int64_t *ret_ms);
/* A time that a person gives: one of this form or the front of it ("2026-11-15", "2026-11-15
 * 09:30", with T or a blank, with or without the Z; UTC), or how long before `now_ms` ("90s",
 * "10m", "4h"). */
bool when_parse_since(struct str text, int64_t now_ms, int64_t *ret_ms);
/* The time itself, as the server writes it. */
void when_add_time(struct buf *out, int64_t ms);
/* How long, at a glance: "250ms", "45s", "12m 03s", "3h 05m", "2d 04h". */
void when_add_age(struct buf *out, int64_t ms);
/* How long, exactly: "15m", "3h 12m", "1s 500ms". */
void when_add_limit(struct buf *out, int64_t ms);
