/* progress.c: see progress.h. The time read here measures only; nothing is judged by it. */
#include "cli/progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macro.h"

enum { BAR_CHARS = 20, REDRAW_US = 100000 };

void progress_begin(struct progress *p, const char *name, int64_t total)
{
    int64_t now_us = clock_mono_us();
    *p = (struct progress){.name = name,
                           .total = total,
                           .is_shown = isatty(STDERR_FILENO),
                           .began_us = now_us,
                           .drawn_us = now_us - REDRAW_US}; /* the first one at once */
}

static void draw(const struct progress *p, int64_t conversations, int64_t events)
{
    char bar[BAR_CHARS + 1];
    int64_t full = BAR_CHARS * MIN(conversations, p->total) / MAX(p->total, INT64_C(1));
    double seconds = (double)MAX(p->drawn_us - p->began_us, INT64_C(1)) / 1e6;
    memset(bar, '-', BAR_CHARS);
    memset(bar, '#', (size_t)full);
    bar[BAR_CHARS] = '\0';
    fprintf(stderr, "\r%s [%s] %lld/%lld conversations, %lld events, %.0f/s\033[K", p->name, bar,
            (long long)conversations, (long long)p->total, (long long)events,
            (double)events / seconds);
    fflush(stderr);
}

void progress_show(struct progress *p, int64_t conversations, int64_t events)
{
    int64_t now_us = p->is_shown ? clock_mono_us() : 0;
    if (!p->is_shown || now_us - p->drawn_us < REDRAW_US)
        return;
    p->drawn_us = now_us;
    p->is_drawn = true;
    draw(p, conversations, events);
}

void progress_end(struct progress *p)
{
    if (p->is_drawn)
        fprintf(stderr, "\r\033[K");
    p->is_drawn = p->is_shown = false;
}
