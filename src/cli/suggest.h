/*
 * suggest.h: "did you mean …?".
 */
#pragma once

#include "base/str.h"

/* Beyond this many slips of the finger two words have nothing to do with each other. */
enum { SUGGEST_DISTANCE_MAX = 2 };

/* Letters to add, drop or change to make a of b; capped at SUGGEST_DISTANCE_MAX + 1. */
unsigned suggest_distance(struct str a, struct str b);
