/*
 * redis.h: RESP, the protocol of Redis, as far as the load generator needs it (peer_redis.c).
 */
#pragma once

#include "conn.h"

/* Connects and authenticates. */
void redis_open(struct conn *c, const struct in_addr *source);
/* Adds one command of `n` words. */
void redis_write(struct buf *out, const struct str *words, size_t n);
/* A reply of any kind, whole, type byte first. Valid until the next receive. */
bool redis_take(struct conn *c, struct str *ret);
/* Sends what is queued and waits for a reply; on a blocking socket only. */
struct str redis_wait(struct conn *c);
