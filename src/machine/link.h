/*
 * link.h: the machine's connection to its server.
 *
 * Two lanes, each a caller (caller.h): one registers and then polls for commands, which is also the
 * machine's heartbeat; the other reports facts from the outbox. All decisions are made in the
 * loop's thread.
 *
 *            ┌────────── failed: wait, longer each time ──────────┐
 *            ▼                                                     │
 *     REGISTERING ── answered: commands ──▶ POLLING ── answered ──▶ POLLING …
 *            ▲                                   │
 *            └── not known there, or a fact was set aside
 *
 * After any failure it registers anew, although the server may know this instance still: an answer
 * that got lost may have held commands, and registering is what makes the server give them again
 * and set right what the two believe of each other. Facts are reported only while registered.
 *
 * A server that is away is tried for ever, at growing intervals up to LINK_WAIT_MS_MAX, with one
 * line of log when it goes and one when it is back (L78). A refused token is an error for people,
 * told once; the token file is read again each time. SUPERSEDED is the end: another instance of
 * this name has registered, and two that answer to one name would undo each other's work.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "base/loop.h"
#include "base/str.h"
#include "client/endpoint.h"
#include "machine/agent_log.h"
#include "machine/facts.h"
#include "machine/kinds.h"

enum { LINK_WAIT_MS_FIRST = 100, LINK_WAIT_MS_MAX = 5000 };

struct link;

struct link_handler {
    /* What to do; each of an answer in turn. `command` lives until it returns. */
    void (*command)(void *ctx, const struct json *command);
    /* `processes` of register, `alive` of poll. */
    void (*write_processes)(void *ctx, struct json_out *out, const char *key);
    void (*write_alive)(void *ctx, struct json_out *out, const char *key);
    /* Another instance has taken this name; nothing is sent any more. */
    void (*superseded)(void *ctx, const char *why);
    /* The server has taken everything there was to tell. */
    void (*all_told)(void *ctx);
    void *ctx;
};

/* All borrowed; they outlive the link. */
struct link_config {
    const char *name, *instance, *hostname, *boot_id;
    const struct kinds *kinds;
    struct endpoint_source source;
};

struct link *link_new(struct loop *loop, const struct link_config *config, struct facts *outbox,
                      const struct link_handler *handler);
struct link *link_free(struct link *l); /* NULL */
/* From loop_on_wake(). */
void link_wake(struct link *l);

/* No more commands: what waits at the server is given up. Facts are reported still. */
void link_end_polling(struct link *l);
/* There is something new in the outbox. */
void link_report(struct link *l);
/* The answer to a `read-log` of the server; `text` is JSON. */
void link_send_log(struct link *l, int64_t request, struct str text,
                   const struct agent_log_part *part);
/* Of the server, for the agents; NULL before it was first reached. */
const char *link_url(const struct link *l);
/* Registered, and the server answers. */
bool link_is_up(const struct link *l);
