/*
 * bell.h: the doorbell.
 *
 * A ring says to whoever waits for an agent or a machine: look. It carries no work, it is asked for
 * in a tick and goes out after its commit, and nothing ever depends on it: what there is to do is
 * in the store, and everybody who waits looks by himself now and then (server/waits.h). So a ring
 * may be lost, late, repeated or overtaken, and that changes how soon something happens, never what
 * (P11).
 *
 * There is one backend, `local`: those who wait are in this process. One that reaches other servers
 * will ring the same way.
 *
 * To prove P11 a test can spoil the bell, by REEVE_TEST_BELL in the server's environment: `never`
 * loses every ring, `ten` repeats each ten times, the repeats late and among others.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct bell;

/* `key` stands for an agent or a machine: agent_key_of(), machine_key_of(). */
typedef void bell_heard_fn(void *ctx, int64_t key);

/* fault: NULL, "never" or "ten"; ERR_CONFIG for anything else. */
int bell_new(const char *fault, bell_heard_fn *heard, void *ctx, struct bell **ret,
             struct err *err);
struct bell *bell_free(struct bell *b); /* NULL */

/* Those who are to hear it are all in this process: they may be told before the commit, if what
 * they do then goes into it, and their answers wait for it. */
bool bell_is_here(const struct bell *b);
/* After the commit. */
void bell_ring(struct bell *b, int64_t key);
