/*
 * idle.c: see idle.h.
 *
 * A pair of addresses has fewer than 30 000 free ports, some of them still in TIME_WAIT: so a group
 * of connections takes its own source address out of 127.0.0.0/8, all of which is loopback. At the
 * end they are reset instead of closed, which leaves no TIME_WAIT behind for the next measurement.
 */
#include "idle.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"

enum { CONNS_PER_SOURCE = 5000, FDS_SPARE = 32, EVENTS_MAX = 256 };

static void raise_fd_limit(unsigned count)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        die("getrlimit: %s", strerror(errno));
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur < count + FDS_SPARE)
        die("%u connections need more than %llu file descriptors", count,
            (unsigned long long)limit.rlim_cur);
}

static void watch(int epoll, int fd, void *ptr)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = ptr};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
        die("epoll_ctl: %s", strerror(errno));
}

static void open_one(const struct peer *peer, struct conn *c)
{
    struct in_addr source = {htonl(INADDR_LOOPBACK + 1 + c->index / CONNS_PER_SOURCE)};
    struct linger reset = {.l_onoff = 1, .l_linger = 0};
    peer->open(c, &source);
    if (setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset) < 0)
        die("SO_LINGER: %s", strerror(errno));
    conn_trim(c);
}

/* Standard input is watched with a NULL pointer. */
static void hold(const struct peer *peer, int epoll)
{
    struct epoll_event events[EVENTS_MAX];
    for (;;) {
        int n = epoll_wait(epoll, events, EVENTS_MAX, -1);
        if (n < 0 && errno != EINTR)
            die("epoll_wait: %s", strerror(errno));
        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;
            if (!c)
                return;
            if (!peer->idle)
                die("connection %u: something came, or it was closed", c->index);
            peer->idle(c);
            conn_trim(c);
        }
    }
}

void idle_hold(const struct peer *peer, const struct target *target, unsigned count)
{
    raise_fd_limit(count);
    struct conn *conns = mem_zalloc(sizeof *conns * count);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0)
        die("epoll_create1: %s", strerror(errno));
    for (unsigned i = 0; i < count; i++) {
        conn_init(&conns[i], target, i);
        open_one(peer, &conns[i]);
        watch(epoll, conns[i].fd, &conns[i]);
    }
    watch(epoll, STDIN_FILENO, NULL);
    printf("{\"open\":%u}\n", count);
    fflush(stdout);
    hold(peer, epoll);
    for (unsigned i = 0; i < count; i++)
        peer->close(&conns[i]);
    close(epoll);
    free(conns);
}
