/*
 * spawn_folder.h: DIR/spawns/<spawnId>/, from the machine's side.
 *
 * The shim writes `seen`, `ended` and `line` into it (shim.h). The machine writes `about` before it
 * starts the shim: whose process this is, which a machine that comes later could not know. The
 * folder goes when the server has accepted the last word about it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "machine/record.h"

enum { SPAWN_ID_ROOM = 33, SPAWN_NAME_ROOM = 65 };

struct about {
    char boot_id[BOOT_ID_BYTES];
    int64_t conversation;
    char role[SPAWN_NAME_ROOM], kind[SPAWN_NAME_ROOM];
    int64_t stop_grace_ms;
};

/* Letters, digits, '-' and '_', at most 32: what may become the name of a folder. */
bool spawn_id_is_valid(struct str id);

/* Makes the folder and writes `about`. A folder that is there is what a crash left: it is used. */
int spawn_folder_make(const char *folder, const struct about *about, struct err *err);
/* ERR_NOT_FOUND if there is none: nothing was started in this folder. */
int spawn_folder_about(const char *folder, struct about *ret, struct err *err);
/* The shim's line, connected; -1 if nobody listens there. Non-blocking. */
int spawn_folder_connect(const char *folder);
void spawn_folder_remove(const char *folder);
