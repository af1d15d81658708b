/*
 * machine.h: the daemon of one host: it starts, watches and stops agent processes for a server.
 *
 *     main thread (a loop)                                two callers (caller.h)
 *     ────────────────────                                ──────────────────────
 *     spawns: shims, pidfds, lines, timers                register, poll ──▶ server
 *     outbox: facts, until the server has them            report, log    ──▶ server
 *     link: what is called next                           ◀── answers
 *
 * One folder, and one daemon for it at a time:
 *
 *     machine.lock      held (flock) while it runs
 *     machine.json      {"pid":…,"startTime":…,"bootId":…,"name":…}
 *     machine.conf      its kinds, unless --config names another file
 *     outbox            facts that the server has not accepted
 *     spawns/<spawnId>/ a process: spawn_folder.h
 *     logs/<conversation>/<role>.log
 *     shims.log         what shims complain about
 *
 * It may be the folder of a server; no name is used by both.
 *
 * SIGTERM, SIGINT and SIGHUP end the daemon and nothing else: agents go on under their shims, and
 * the next daemon in this folder finds them again. That is also how it is upgraded, and how its
 * configuration is read anew. SIGUSR1 stops every agent first: `reeve down` sends it.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "client/endpoint.h"

enum { MACHINE_SUPERSEDED_STATUS = 3 };

struct machine_config {
    const char *data_folder;
    const char *name;  /* NULL: made of the host's name */
    const char *kinds; /* file; NULL: machine.conf in the folder, if there is one */
    struct endpoint_source source;
};

/* Until a signal ends it. 0; MACHINE_SUPERSEDED_STATUS after saying so; ERR_UNAVAILABLE if another
 * daemon holds the folder and does not let go of it within ten seconds; ERR_CONFIG, ERR_IO. */
int machine_run(const struct machine_config *config, struct err *err);

/* Stops every agent of this folder, through the daemon if one runs there, and ends that. Returns
 * when nothing is left; *ret is how many there were. */
int machine_down(const char *data_folder, size_t *ret, struct err *err);
