/*
 * guidance.h: whose turn it is.
 *
 * Advice, not law: it is computed from the head, pushed to subscribers that asked for it, and never
 * stored. It goes out once per change: when a conversation with a starting role begins, when a turn
 * closes (round robin in the order of `agents`), when an open turn is cleared. Never after the end
 * (L14). `deadline` is absolute: the moment at which an idle conversation will be cancelled.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "domain/head.h"

struct guidance {
    int64_t conversation;
    char next_agent[AGENT_ID_BYTES_MAX + 1];
    bool continues; /* continue_turn, else start_turn */
    int64_t turn;
    int64_t deadline_ms; /* 0: none */
    struct guidance *next;
};

/* What holds for this head now; false if nobody is asked to act. */
int guidance_current(struct work *w, const struct head *h, struct guidance *ret, bool *ret_any,
                     struct err *err);
/* Publishes it in this tick, if there is any. */
int guidance_publish(struct work *w, const struct head *h, struct err *err);
void guidance_write(struct json_out *w, const char *key, const struct guidance *g);
