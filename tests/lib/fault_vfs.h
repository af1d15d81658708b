/*
 * fault_vfs.h: a disk in memory that can lose power, and fail.
 *
 * A SQLite VFS whose files know two contents: what a reader sees now, and what has been synced.
 * Between them lies a list of pending writes and truncations. Losing power keeps, for every sector
 * of 512 bytes, the effect of some prefix of the pending changes to that sector, chosen at random
 * and for each sector by itself: writes are lost, torn and reordered as on a disk with a cache. A
 * sector is written whole or not at all (what SQLite calls power-safe overwrite). File sizes and
 * directory entries that were not synced go either way too. The first sync of a WAL or a journal
 * makes all entries durable, as SQLite's own VFS does; other syncs only the file's own.
 *
 * Shared memory is not offered: a store that opens here keeps the index of its WAL in the heap.
 *
 *     struct fault_vfs *v = fault_vfs_new("disk", seed);
 *     fault_vfs_plan(v, FAULT_CUT, 120, false);
 *     store_open("sqlite:a.db", "disk", …); … until everything fails
 *     store_close(…); fault_vfs_power_on(v);
 *     store_open(…)   what was synced is there
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct fault_vfs;

enum fault {
    FAULT_EIO,         /* any operation, reads too */
    FAULT_FULL,        /* a write finds no space */
    FAULT_SHORT_WRITE, /* half of it is written, then there is no space */
    FAULT_SYNC,        /* a sync fails; what it was to write will never be written (L80) */
    FAULT_CUT,         /* the power goes before a change; from then on everything fails */
    FAULT_DEATH,       /* the process ends before a change; from then on there are none, but what
                        * still runs may read until it is put away: fault_vfs_is_dying() */
    FAULT_CHANGE,      /* a change fails with EIO */
};

struct fault_vfs *fault_vfs_new(const char *name, uint64_t seed); /* registers it with SQLite */
struct fault_vfs *fault_vfs_free(struct fault_vfs *v);            /* NULL; close all files first */

/* The files of another disk, as they are there now; this one has none yet. */
void fault_vfs_copy_files(struct fault_vfs *v, const struct fault_vfs *from);

/* The nth operation from now, counted from 1 among those the fault can hit, fails; with `forever`
 * all later ones too. One plan at a time; nth 0 means never. */
void fault_vfs_plan(struct fault_vfs *v, enum fault fault, uint64_t nth, bool forever);
/* Operations since fault_vfs_plan() that the fault can hit. */
uint64_t fault_vfs_operations(const struct fault_vfs *v);
bool fault_vfs_has_struck(const struct fault_vfs *v);
bool fault_vfs_is_dying(const struct fault_vfs *v);
/* While it is, nothing is counted and no plan strikes: for whoever looks from outside. */
void fault_vfs_pause(struct fault_vfs *v, bool pause);

/* While it is held off nothing fails and nothing is counted: for a test that looks for itself. */
void fault_vfs_hold_off(struct fault_vfs *v, bool is_held_off);

/* From here on everything fails and nothing changes. */
void fault_vfs_power_off(struct fault_vfs *v);
/* What the disk has kept becomes what is there. Files still open stay dead for good. */
void fault_vfs_power_on(struct fault_vfs *v);
/* Called before each change of a file or of the folder; NULL: nobody. */
typedef void fault_watch_fn(void *ctx);
void fault_vfs_watch(struct fault_vfs *v, fault_watch_fn *fn, void *ctx);
/* The disk that would be found if the power went now; this one goes on. */
struct fault_vfs *fault_vfs_after_cut(const struct fault_vfs *v, const char *name, uint64_t seed);
/* A write that would make all files together larger than this finds no space; 0: no limit. */
void fault_vfs_set_capacity(struct fault_vfs *v, uint64_t bytes);
/* Lies about the syncs that make commits durable, and honours the rest: what
 * synchronous=NORMAL would do. */
void fault_vfs_skip_commit_syncs(struct fault_vfs *v, bool skip);

/* splitmix64 */
uint64_t fault_random(uint64_t *state);
