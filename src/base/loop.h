/*
 * loop.h: one thread's event loop, on epoll.
 *
 * Watches file descriptors (sockets, pidfds, signalfds), timers on the real monotonic clock, and a
 * wake-up that other threads may ring. Watches and timers are embedded by value in their owner;
 * the loop allocates nothing per event. One turn: wait → fds → due timers → wake-up → turn end.
 *
 * A callback may stop, change or free any watch or timer, its own included: events already
 * collected for a watch that was stopped in the same turn are dropped. Due timers are collected
 * first and fired after, so a timer that re-arms itself fires in the next turn at the earliest.
 *
 * Everything but loop_wake() belongs to the loop's own thread.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/err.h"

struct loop;
struct loop_io;
struct loop_timer;

typedef void loop_io_fn(struct loop_io *io, uint32_t events);
typedef void loop_timer_fn(struct loop_timer *timer);
typedef void loop_signal_fn(void *ctx, int signo);
typedef void loop_fn(void *ctx);

struct loop_io {
    int fd;          /* -1 while not watched */
    uint32_t events; /* EPOLLIN, EPOLLOUT, … */
    loop_io_fn *fn;
    int32_t slot; /* in the turn's event array, or -1 */
};

#define LOOP_IO_INIT ((struct loop_io){.fd = -1, .slot = -1})

struct loop_timer {
    int64_t due_us;    /* clock_mono_us() time */
    uint64_t order;    /* first armed fires first among equals */
    size_t heap_index; /* 1-based; 0 = not armed */
    loop_timer_fn *fn;
};

int loop_new(struct loop **ret, struct err *err);
struct loop *loop_free(struct loop *l); /* NULL */

int loop_watch(struct loop *l, struct loop_io *io, int fd, uint32_t events, loop_io_fn *fn);
void loop_rewatch(struct loop *l, struct loop_io *io, uint32_t events); /* no-op if unchanged */
void loop_unwatch(struct loop *l, struct loop_io *io);                  /* no-op if not watched */

void loop_timer_set(struct loop *l, struct loop_timer *t, int64_t due_us, loop_timer_fn *fn);
void loop_timer_stop(struct loop *l, struct loop_timer *t);

/* Blocks `mask` in this thread (call before others start) and delivers its signals here. */
int loop_signals(struct loop *l, const sigset_t *mask, loop_signal_fn *fn, void *ctx,
                 struct err *err);
/* fn runs in the loop's thread after loop_wake() was called from any thread; rings coalesce. */
void loop_on_wake(struct loop *l, loop_fn *fn, void *ctx);
void loop_wake(struct loop *l);
/* fn runs at the end of each turn. */
void loop_on_turn_end(struct loop *l, loop_fn *fn, void *ctx);

int64_t loop_now_us(const struct loop *l); /* frozen at the start of the turn */
void loop_run(struct loop *l);             /* until loop_stop() */
void loop_turn(struct loop *l, int timeout_ms);
void loop_stop(struct loop *l);
bool loop_is_stopping(const struct loop *l);
