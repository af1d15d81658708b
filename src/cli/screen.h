/*
 * screen.h: how wide a line may be, and lines made to fit.
 *
 * COLUMNS says it, as it does for other tools; else the terminal that standard output is. Output
 * into a file or a pipe has no limit, so that scripts see whole lines. Widths are counted in
 * characters.
 */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"

/* 0: no limit. Asked anew each time: a terminal may be resized. */
size_t screen_columns(void);

/* Characters of UTF-8. */
size_t screen_width(struct str text);
/* At most `width` characters of it; the last one is an ellipsis if some were left out. */
void screen_add_cut(struct buf *out, struct str text, size_t width);
/* Text and a line feed, broken at blanks so that no line goes beyond `columns`. The first line
 * begins at `column`, later ones with `indent` blanks. A word that no line can hold
 * is broken, too. */
void screen_add_wrapped(struct buf *out, struct str text, size_t columns, size_t column,
                        size_t indent);
