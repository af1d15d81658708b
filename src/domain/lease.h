/*
 * lease.h: when to look at leases.
 *
 * A lease is a time in an object in memory (an agent's listener, a task's worker) that every sign
 * of life moves further away; nothing is stored and nothing is sorted for it. A heap holds, for
 * each object with a lease, one entry with a time to look, which is never later than the lease:
 * when it comes up, the owner either acts or adds a new entry. So a heartbeat costs a store to
 * memory, and an object is looked at once per lease, not per beat.
 *
 * An entry names its object by a number; that the object is gone, or has another entry, is found
 * out when it comes up. So nothing here is undone when a request fails.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lease_kind { LEASE_LISTENER, LEASE_WORKER, LEASE_RESTART, LEASE_MACHINE };

struct lease {
    int64_t look_ms, key;
    enum lease_kind kind;
};

struct leases {
    struct lease *heap;
    size_t count, room;
};

void leases_add(struct leases *l, enum lease_kind kind, int64_t key, int64_t look_ms);
int64_t leases_next_ms(const struct leases *l); /* INT64_MAX if there is none */
/* Takes the first whose time has come. */
bool leases_take(struct leases *l, int64_t now_ms, struct lease *ret);
void leases_release(struct leases *l);
