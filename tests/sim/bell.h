/*
 * bell.h: the doorbell of the simulated server.
 *
 * It is the production bell (bell/bell.h), which needs no thread; what is ours is the way from the
 * core to it. A history whose swarm spoils rings has a bell outside the server's process: nobody is
 * told before the commit, and after it a ring is lost, late, or heard a second time later, as its
 * rates say. Nobody may count on one (P11). A crash takes with it what is still to be rung.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct bell;
struct sim;

struct late_ring {
    struct bell *bell;
    int64_t key, at_ms;
};

struct late_rings {
    struct late_ring *list;
    size_t count, room;
};

/* Rings of servers from now on are of this world. */
void bell_attach(struct sim *s);
/* What is due by now is rung. */
void bell_ring_late(struct sim *s);
int64_t bell_next_ms(const struct sim *s); /* INT64_MAX: nothing is late */
/* The server is gone. */
void bell_forget(struct sim *s);
