/*
 * connect.h: from a verb's arguments to an answer of the server.
 */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "cli/cli.h"
#include "client/client.h"

enum { PARAMS_BYTES_MAX = 48 * 1024 * 1024 };

/* The server that --data, --server and the environment mean; close it with client_close(). */
int cli_connect(const struct cli_args *args, struct client **ret, struct err *err);
/* One call on a connection of its own: what most verbs are. */
int cli_call(const struct cli_args *args, const char *method, const struct buf *params,
             struct arena *a, const struct json **ret, struct err *err);
/* For _cleanup_. */
void cli_disconnect(struct client **client);
