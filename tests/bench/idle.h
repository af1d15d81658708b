/*
 * idle.h: many connections that do nothing, for measuring what each costs the server.
 */
#pragma once

#include "peer.h"

/*
 * Opens `count` connections, each answered once, prints {"open":count} and holds them until a byte
 * or the end comes on standard input. WebSocket pings are answered; a connection that the server
 * closes ends the program with status 1.
 */
void idle_hold(const struct peer *peer, const struct target *target, unsigned count);
