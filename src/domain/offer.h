/*
 * offer.h: which kinds machines offer, in words.
 */
#pragma once

#include <stdbool.h>

#include "base/str.h"

struct work;

/* Is any machine known? */
bool offer_has_machines(const struct work *w);
/* Can the kind be run: on this machine, or with machine.n == 0 on any? True as long as no machine
 * that could is known, because one may come. */
bool offer_may_come(const struct work *w, struct str kind, struct str machine);
/* "build-1, build-2": the machines that offer the kind. In the tick's arena. */
struct str offer_machines(struct work *w, const char *kind);
/* "build-1 offers bashy, nodey; build-2 offers nothing", of one machine or of all; "no machine has
 * registered". In the tick's arena. */
struct str offer_text(struct work *w, struct str machine);
