/*
 * progress.h: how far a long command is, on standard error, if that is a terminal.
 *
 *     backtest [#########-----------] 4500/10000 conversations, 812345 events, 95000/s
 *
 * Redrawn a few times a second in one line, which is gone when the command is done. Not a terminal:
 * nothing at all.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *name;
    int64_t total; /* conversations */
    bool is_shown, is_drawn;
    int64_t began_us, drawn_us;
};

void progress_begin(struct progress *p, const char *name, int64_t total);
void progress_show(struct progress *p, int64_t conversations, int64_t events);
void progress_end(struct progress *p);
