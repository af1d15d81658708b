/*
 * ws.h: a WebSocket client to reeve, as far as the load generator needs one (peer_ws.c).
 */
#pragma once

#include "conn.h"

/* Connects, upgrades and waits for the welcome. */
void ws_open(struct conn *c, const struct in_addr *source);
/* Queues one text message. */
void ws_write(struct conn *c, struct str text);
/* The next text message, if it is whole; answers pings on the way. Valid until the next receive. */
bool ws_take(struct conn *c, struct str *ret);
/* Sends what is queued and waits for a message; on a blocking socket only. */
struct str ws_wait(struct conn *c);
/* Creates a conversation with one agent, "a", for c->stream; on a blocking socket only. */
void ws_create(struct conn *c);
