/*
 * spawns.h: every agent process of this machine, from the command that asks for it until the server
 * has accepted how it ended.
 *
 * A spawn is named by its spawn id. The same id twice is one spawn. All processes of one agent
 * (conversation and role) follow one another: a start, and a restart alike, waits until the older
 * ones are proven dead (P21). Each spawn has descriptors and a timer of its own, so one that does
 * not stop keeps nobody else waiting (L55), and what an old one does late can only ever be about
 * itself.
 *
 *     WAITING ──others dead──▶ STARTING ──executed──▶ RUNNING ──last word──▶ ENDED ──accepted──▶
 * gone │                        │  │                   │                     ▲ │ stop, expired, │
 * └── start_failed ───┼─────────────────────┤ │ another start          └── shim died ──┐      │
 * shim died           │ │                                        ▼      ▼                     │ │
 * ORPHANED ── nothing is left ────┤
 *        └─────────────────────────────────────────────────────────────────────┘
 *
 * What happens is told through the outbox; `told` says that there is something new in it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/str.h"
#include "machine/kinds.h"
#include "machine/launch.h"
#include "machine/facts.h"

struct spawns;

struct spawns_config {
    const char *data_folder, *boot_id;
    const struct kinds *kinds;
    const struct launch *launch;
    struct facts *outbox;
    const char *(*url)(void *ctx); /* of the server, now */
    void (*told)(void *ctx);
    void (*quiet)(void *ctx); /* after spawns_stop_all(): no process is left */
    void *ctx;
};

/* The config's pointers must outlive it. */
struct spawns *spawns_new(struct loop *loop, const struct spawns_config *config);
struct spawns *spawns_free(struct spawns *s); /* NULL; processes go on */

/* Knows the processes of an earlier machine again, and finds out what became of the others. */
int spawns_recover(struct spawns *s, struct err *err);

/* start-agent, restart-agent and stop-agent as the server writes them. */
void spawns_start(struct spawns *s, const struct json *command);
void spawns_stop(struct spawns *s, const struct json *command);
/* Of all; from now on nothing is started. */
void spawns_stop_all(struct spawns *s);
size_t spawns_count_live(const struct spawns *s);

/* The server has taken a fact: if it was the last word, the spawn can be forgotten. */
void spawns_fact_gone(struct spawns *s, struct str spawn_id, bool is_last_word);
/* SIGCHLD. */
void spawns_reap(void);

/* What it has and what it has been told to start: by the time the server reads it, that may have
 * begun. */
void spawns_write_processes(const struct spawns *s, struct json_out *out, const char *key);
void spawns_write_alive(const struct spawns *s, struct json_out *out, const char *key);
