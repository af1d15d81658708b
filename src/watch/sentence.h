/*
 * sentence.h: templates filled in with what is known of a situation.
 *
 *     "cannot start: no machine offers kind '{kind}' ({offers})"
 *
 * The words that may stand in braces are a table in sentence.c; any other one is a mistake of ours
 * (REQUIRE). Text that an agent has written goes in as it is: whoever shows it cleans it.
 */
#pragma once

#include "base/buf.h"
#include "watch/clocks.h"
#include "watch/situation.h"

/* `clock` is what {in} is about; NULL: the template has no {in}. */
void sentence_add(struct buf *out, const struct situation *s, const struct clock_ahead *clock,
                  const char *template);
