/*
 * drive.c: see drive.h.
 *
 * One thread, one epoll, one clock reading per append: the moment a reply is complete is the moment
 * the next request of that connection begins, so building the request, all system calls and
 * reading the reply are inside the latency, alike for every peer.
 *
 * Requests still in flight when the counted time ends are waited for. They are not in `ops`, which
 * is a rate over that time, but they are in the histogram: leaving them out would hide just the
 * stall that a measurement ended in.
 */
#include "drive.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

enum { EVENTS_MAX = 256, STALL_MS = 60000 };

struct driver {
    const struct peer *peer;
    const struct plan *plan;
    struct result *result;
    int epoll;
    int64_t warm_end_ns, end_ns;
    uint64_t submitted, answered;
    int64_t *started_ns; /* depth per connection: request n in slot n % depth */
};

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int64_t *started_slot(struct driver *d, const struct conn *c, uint64_t number)
{
    return &d->started_ns[c->index * d->plan->depth + number % d->plan->depth];
}

static bool may_submit(const struct driver *d, int64_t now)
{
    return d->plan->ops ? d->submitted < d->plan->ops : now < d->end_ns;
}

static void submit(struct driver *d, struct conn *c, int64_t now)
{
    *started_slot(d, c, c->sent) = now;
    d->peer->submit(c);
    c->sent++;
    d->submitted++;
}

static void count_reply(struct driver *d, struct conn *c, enum reply reply, int64_t now)
{
    int64_t started = *started_slot(d, c, c->done);
    c->done++;
    d->answered++;
    if (reply == REPLY_BAD)
        d->result->errors++;
    if (now < d->warm_end_ns)
        return;
    histogram_add(&d->result->latency, (uint64_t)(now - started));
    if (d->plan->ops || now < d->end_ns)
        d->result->ops++;
}

static void set_interest(struct driver *d, struct conn *c, int operation, bool writable)
{
    struct epoll_event event = {.events = EPOLLIN | (writable ? (uint32_t)EPOLLOUT : 0),
                                .data.ptr = c};
    if (epoll_ctl(d->epoll, operation, c->fd, &event) < 0)
        die("epoll_ctl: %s", strerror(errno));
}

static void serve(struct driver *d, struct conn *c, uint32_t events)
{
    enum reply reply;
    if (events & ~(uint32_t)EPOLLOUT)
        d->peer->receive(c);
    while ((reply = d->peer->next(c)) != REPLY_NONE) {
        int64_t now = now_ns();
        count_reply(d, c, reply, now);
        if (may_submit(d, now))
            submit(d, c, now);
    }
    bool more = d->peer->flush(c);
    if (more || (events & EPOLLOUT))
        set_interest(d, c, EPOLL_CTL_MOD, more);
}

static void start(struct driver *d, struct conn *conns)
{
    for (unsigned i = 0; i < d->plan->clients; i++) {
        struct conn *c = &conns[i];
        int64_t now = now_ns();
        for (unsigned n = 0; n < d->plan->depth && may_submit(d, now); n++)
            submit(d, c, now);
        set_interest(d, c, EPOLL_CTL_ADD, d->peer->flush(c));
    }
}

static void turn(struct driver *d)
{
    struct epoll_event events[EVENTS_MAX];
    int n = epoll_wait(d->epoll, events, EVENTS_MAX, STALL_MS);
    if (n == 0)
        die("no reply within %d s, %llu are missing", STALL_MS / 1000,
            (unsigned long long)(d->submitted - d->answered));
    if (n < 0 && errno != EINTR)
        die("epoll_wait: %s", strerror(errno));
    for (int i = 0; i < n; i++)
        serve(d, events[i].data.ptr, events[i].events);
}

void drive(const struct peer *peer, struct conn *conns, const struct plan *plan, struct result *ret)
{
    *ret = (struct result){.run_ns = plan->run_ns};
    struct driver d = {
        .peer = peer,
        .plan = plan,
        .result = ret,
        .epoll = epoll_create1(EPOLL_CLOEXEC),
        .started_ns = mem_zalloc(sizeof(int64_t) * plan->clients * plan->depth),
    };
    if (d.epoll < 0)
        die("epoll_create1: %s", strerror(errno));
    int64_t begin = now_ns();
    d.warm_end_ns = begin + (plan->ops ? 0 : plan->warm_ns);
    d.end_ns = d.warm_end_ns + plan->run_ns;
    start(&d, conns);
    while (d.answered < d.submitted)
        turn(&d);
    ret->answered = d.answered;
    if (plan->ops)
        ret->run_ns = now_ns() - begin;
    close(d.epoll);
    free(d.started_ns);
}
