/*
 * server.h: `reeve serve`. Two threads and what is between them.
 *
 *     net thread (the caller's)           core thread
 *     sockets, HTTP, WebSocket, TLS  ──▶  core_tick()
 *     replies, pushes                ◀──
 *
 * Input is handed over once per turn of the loop, output once per tick, so the cost of a hand-over
 * is shared by everything in the batch. While the core waits for its fsync, the net thread goes on
 * reading: that is what makes the next batch.
 *
 * Shutdown (SIGTERM, SIGINT): stop accepting; the core finishes what has arrived; its answers go
 * out; streams are closed with a reason; the store is closed. A second signal ends at once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/options.h"

struct server_config {
    const char *data_folder;
    const char *listen;             /* "127.0.0.1:7433" */
    const char *store_url;          /* NULL: sqlite:DATA/reeve.db */
    const char *tls_cert, *tls_key; /* both or none */
    bool is_insecure;               /* may listen beyond loopback without TLS */
    bool manual_clock;
    const char *const *allowed_hosts; /* names clients may use in Host, beside the usual ones */
    size_t allowed_host_count;
    const char *version;
    struct options options;
};

/* Runs until told to stop. 0, or a negative code if it could not start. */
int server_run(const struct server_config *config, struct err *err);
