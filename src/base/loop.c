/*
 * loop.c: see loop.h.
 *
 * Timers are a binary heap on (due, order); each timer knows its place in it, so stopping one is
 * O(log n). The kernel is asked to wait until the first is due (epoll_pwait2 would give
 * microseconds; milliseconds rounded up are enough for transport timers, and what the ladder
 * decides is not timed here).
 *
 * A turn first copies the kernel's events and notes in each watch the slot it has there. Stopping
 * a watch empties its slot, which is what makes it safe for one callback to free another's owner.
 */
#include "base/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

enum { EVENTS_PER_TURN = 256 };

struct loop {
    int epoll_fd;
    bool stopping, firing, woken;
    int64_t now_us;
    struct epoll_event events[EVENTS_PER_TURN];
    int event_count;
    struct loop_timer **heap; /* 1-based */
    size_t heap_len, heap_cap;
    uint64_t timer_order;
    struct loop_io wake_io, signal_io;
    loop_fn *on_wake, *on_turn_end;
    void *wake_ctx, *turn_end_ctx;
    loop_signal_fn *on_signal;
    void *signal_ctx;
};

/* ---- watches ---- */

int loop_watch(struct loop *l, struct loop_io *io, int fd, uint32_t events, loop_io_fn *fn)
{
    REQUIRE(io->fd == -1 && fd >= 0);
    struct epoll_event ev = {.events = events, .data.ptr = io};
    if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
        return -ERR_IO;
    *io = (struct loop_io){.fd = fd, .events = events, .fn = fn, .slot = -1};
    return 0;
}

void loop_rewatch(struct loop *l, struct loop_io *io, uint32_t events)
{
    REQUIRE(io->fd >= 0);
    if (io->events == events)
        return;
    struct epoll_event ev = {.events = events, .data.ptr = io};
    int r = epoll_ctl(l->epoll_fd, EPOLL_CTL_MOD, io->fd, &ev);
    REQUIRE_F(r == 0, "fd %d errno %d", io->fd, errno);
    io->events = events;
}

void loop_unwatch(struct loop *l, struct loop_io *io)
{
    if (io->fd < 0)
        return;
    epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, io->fd, NULL);
    if (io->slot >= 0)
        l->events[io->slot].data.ptr = NULL;
    *io = LOOP_IO_INIT;
}

static void dispatch_events(struct loop *l)
{
    for (int i = 0; i < l->event_count; i++) {
        struct loop_io *io = l->events[i].data.ptr;
        if (!io)
            continue;
        io->slot = -1;
        io->fn(io, l->events[i].events);
    }
    l->event_count = 0;
}

/* ---- timers ---- */

static bool fires_before(const struct loop_timer *a, const struct loop_timer *b)
{
    return a->due_us != b->due_us ? a->due_us < b->due_us : a->order < b->order;
}

static void heap_place(struct loop *l, size_t i, struct loop_timer *t)
{
    l->heap[i] = t;
    t->heap_index = i;
}

static void heap_up(struct loop *l, size_t i, struct loop_timer *t)
{
    for (; i > 1 && fires_before(t, l->heap[i / 2]); i /= 2)
        heap_place(l, i, l->heap[i / 2]);
    heap_place(l, i, t);
}

static void heap_down(struct loop *l, size_t i, struct loop_timer *t)
{
    for (size_t child; (child = 2 * i) <= l->heap_len; i = child) {
        if (child < l->heap_len && fires_before(l->heap[child + 1], l->heap[child]))
            child++;
        if (!fires_before(l->heap[child], t))
            break;
        heap_place(l, i, l->heap[child]);
    }
    heap_place(l, i, t);
}

void loop_timer_stop(struct loop *l, struct loop_timer *t)
{
    size_t i = t->heap_index;
    if (i == 0)
        return;
    REQUIRE(l->heap[i] == t);
    struct loop_timer *last = l->heap[l->heap_len--];
    t->heap_index = 0;
    if (last == t)
        return;
    if (i > 1 && fires_before(last, l->heap[i / 2]))
        heap_up(l, i, last);
    else
        heap_down(l, i, last);
}

void loop_timer_set(struct loop *l, struct loop_timer *t, int64_t due_us, loop_timer_fn *fn)
{
    loop_timer_stop(l, t);
    /* Behind all that are due now, so that what is armed for the past never keeps them waiting. */
    t->due_us = l->firing ? MAX(due_us, l->now_us) : due_us;
    t->order = ++l->timer_order;
    t->fn = fn;
    l->heap = mem_grow(l->heap, &l->heap_cap, l->heap_len + 2, sizeof *l->heap);
    heap_up(l, ++l->heap_len, t);
}

/* Only timers armed before this turn's firing began may fire: `order` tells. */
static void fire_timers(struct loop *l)
{
    uint64_t before = l->timer_order;
    l->firing = true;
    while (l->heap_len > 0) {
        struct loop_timer *t = l->heap[1];
        if (t->due_us > l->now_us || t->order > before)
            break;
        loop_timer_stop(l, t);
        t->fn(t);
    }
    l->firing = false;
}

static int wait_ms(const struct loop *l, int timeout_ms)
{
    if (l->heap_len == 0)
        return timeout_ms;
    int64_t left_us = l->heap[1]->due_us - clock_mono_us();
    int64_t left_ms = left_us <= 0 ? 0 : (left_us + 999) / 1000;
    if (timeout_ms >= 0 && timeout_ms < left_ms)
        return timeout_ms;
    return (int)MIN(left_ms, (int64_t)3600 * 1000);
}

/* ---- signals and wake-ups ---- */

static void signal_ready(struct loop_io *io, uint32_t events)
{
    (void)events;
    struct loop *l = CONTAINER_OF(io, struct loop, signal_io);
    struct signalfd_siginfo info;
    while (io->fd >= 0 && read(io->fd, &info, sizeof info) == (ssize_t)sizeof info)
        l->on_signal(l->signal_ctx, (int)info.ssi_signo);
}

int loop_signals(struct loop *l, const sigset_t *mask, loop_signal_fn *fn, void *ctx,
                 struct err *err)
{
    int r = pthread_sigmask(SIG_BLOCK, mask, NULL);
    REQUIRE(r == 0); /* it fails only on a wrong `how` */
    int fd = signalfd(-1, mask, SFD_NONBLOCK | SFD_CLOEXEC);
    if (fd < 0 || loop_watch(l, &l->signal_io, fd, EPOLLIN, signal_ready) < 0) {
        err_set(err, ERR_IO, "cannot watch signals: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return -ERR_IO;
    }
    l->on_signal = fn;
    l->signal_ctx = ctx;
    return 0;
}

static void wake_ready(struct loop_io *io, uint32_t events)
{
    (void)events;
    struct loop *l = CONTAINER_OF(io, struct loop, wake_io);
    uint64_t rings;
    l->woken = read(io->fd, &rings, sizeof rings) == (ssize_t)sizeof rings;
}

void loop_on_wake(struct loop *l, loop_fn *fn, void *ctx)
{
    l->on_wake = fn;
    l->wake_ctx = ctx;
}

void loop_wake(struct loop *l)
{
    uint64_t one = 1;
    ssize_t n = write(l->wake_io.fd, &one, sizeof one);
    REQUIRE(n == (ssize_t)sizeof one || errno == EAGAIN);
}

void loop_on_turn_end(struct loop *l, loop_fn *fn, void *ctx)
{
    l->on_turn_end = fn;
    l->turn_end_ctx = ctx;
}

/* ---- turns ---- */

int64_t loop_now_us(const struct loop *l)
{
    return l->now_us;
}

void loop_turn(struct loop *l, int timeout_ms)
{
    int n = epoll_wait(l->epoll_fd, l->events, EVENTS_PER_TURN, wait_ms(l, timeout_ms));
    REQUIRE_F(n >= 0 || errno == EINTR, "errno %d", errno);
    l->now_us = clock_mono_us();
    l->event_count = MAX(n, 0);
    for (int i = 0; i < l->event_count; i++)
        ((struct loop_io *)l->events[i].data.ptr)->slot = i;
    dispatch_events(l);
    fire_timers(l);
    bool woken = l->woken;
    l->woken = false;
    if (woken && l->on_wake)
        l->on_wake(l->wake_ctx);
    if (l->on_turn_end)
        l->on_turn_end(l->turn_end_ctx);
}

void loop_run(struct loop *l)
{
    while (!l->stopping)
        loop_turn(l, -1);
}

void loop_stop(struct loop *l)
{
    l->stopping = true;
}

bool loop_is_stopping(const struct loop *l)
{
    return l->stopping;
}

int loop_new(struct loop **ret, struct err *err)
{
    struct loop *l = mem_zalloc(sizeof *l);
    l->wake_io = l->signal_io = LOOP_IO_INIT;
    l->now_us = clock_mono_us();
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (l->epoll_fd < 0 || wake_fd < 0 ||
        loop_watch(l, &l->wake_io, wake_fd, EPOLLIN, wake_ready) < 0) {
        err_set(err, ERR_IO, "cannot make an event loop: %s", strerror(errno));
        if (wake_fd >= 0 && l->wake_io.fd < 0)
            close(wake_fd);
        loop_free(l);
        return -ERR_IO;
    }
    *ret = l;
    return 0;
}

static void close_watched(struct loop *l, struct loop_io *io)
{
    int fd = io->fd;
    loop_unwatch(l, io);
    if (fd >= 0)
        close(fd);
}

struct loop *loop_free(struct loop *l)
{
    if (!l)
        return NULL;
    close_watched(l, &l->wake_io);
    close_watched(l, &l->signal_io);
    if (l->epoll_fd >= 0)
        close(l->epoll_fd);
    free(l->heap);
    free(l);
    return NULL;
}
