/*
 * card.h: what a task leaves behind: a JSON document of a type, kept for ever.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct work;

/* *ret is its number. */
int card_create(struct work *w, const char *type, int64_t conversation, int64_t task,
                struct str content, int64_t *ret, struct err *err);
/* Its document, in the tick's arena; p == NULL: there is no such card. */
int card_content(struct work *w, int64_t card, struct str *ret, struct err *err);
