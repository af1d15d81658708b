/*
 * demo.h: a short conversation between three roles, for the first look at reeve.
 *
 * Only writes, through the client, what agents would write; nothing of it is known to the server.
 * demo_begin(), then demo_step() whenever demo_due_us() has come, until demo_is_over().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "client/client.h"

struct demo {
    struct client *client;
    int64_t conversation;
    size_t step;
    int64_t due_us; /* clock_mono_us() time of the next step */
};

/* Makes the conversation. ret_id: the global id of its first event. */
int demo_begin(struct demo *d, struct client *client, int64_t *ret_id, struct err *err);
bool demo_is_over(const struct demo *d);
int64_t demo_due_us(const struct demo *d);
int demo_step(struct demo *d, struct err *err);
