/*
 * drive.h: a closed loop of appends over many connections, timed.
 */
#pragma once

#include <stdint.h>

#include "histogram.h"
#include "peer.h"

struct plan {
    unsigned clients;
    unsigned depth;  /* requests in flight per connection */
    int64_t warm_ns; /* runs before anything is counted */
    int64_t run_ns;  /* counted time; not used if ops is set */
    uint64_t ops;    /* stop after so many appends instead, all counted; 0: by time */
};

struct result {
    uint64_t ops;      /* answered within the counted time */
    uint64_t answered; /* at any time */
    uint64_t errors;   /* of them, anything but a success */
    int64_t run_ns;
    struct histogram latency; /* ns */
};

/* `conns` are plan->clients connections, begun and non-blocking. */
void drive(const struct peer *peer, struct conn *conns, const struct plan *plan,
           struct result *ret);
