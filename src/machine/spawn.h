/*
 * spawn.h: one agent process, as the files behind spawns.h share it.
 *
 *     spawn.c           what is known of one, and how its end is told
 *     spawn_line.c      its shim: what that says, how it is told to stop, and its death
 *     spawn_orphan.c    ending what a killed shim left behind
 *     spawns.c          commands: all of them together
 *     spawns_recover.c  what an earlier machine left
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "base/loop.h"
#include "base/str.h"
#include "machine/record.h"
#include "machine/spawn_folder.h"
#include "machine/spawns.h"

/* The picture of them is in spawns.h. */
enum spawn_state {
    SPAWN_WAITING,  /* spawns.c: spawns_start() */
    SPAWN_STARTING, /* spawns.c: launch() */
    SPAWN_RUNNING,  /* spawn_line.c: hear_spawned(); spawns_recover.c */
    SPAWN_ORPHANED, /* spawn_orphan.c: spawn_orphan() */
    SPAWN_ENDED,    /* spawn.c: spawn_end() */
};

struct spawn {
    struct spawns *table;
    struct spawn *next;
    char id[SPAWN_ID_ROOM];
    struct about about;
    enum spawn_state state;
    char *folder;
    struct process_id shim, agent;
    struct loop_io shim_io, line_io; /* pidfd; line */
    bool is_stop_asked;
    struct loop_timer timer; /* while stopping: patience; orphaned: the next pass */
    int64_t pass_ms;
    /* WAITING: what it needs to start */
    char *token, *task;
    int64_t give_up_us;
    /* ENDED */
    char *exit; /* as in register; NULL: it never ran */
    bool is_fact_gone;
};

struct spawns {
    struct loop *loop;
    struct spawns_config config;
    struct spawn *first;
    bool is_stopping;
};

/* ---- spawn.c ---- */

struct spawn *spawn_add(struct spawns *s, struct str id, enum spawn_state state);
struct spawn *spawn_find(const struct spawns *s, struct str id); /* or NULL */
bool spawn_is_live(const struct spawn *sp);                      /* there may be a process */
bool spawn_is_same_agent(const struct spawn *a, const struct spawn *b);
void spawn_set_state(struct spawn *sp, enum spawn_state state, const char *why);
void spawn_close(struct spawn *sp, struct loop_io *io);
void spawn_release(struct spawn *sp);
/* If it has ended, that was accepted and its shim is reaped: nothing is left to be known. */
void spawn_forget_if_over(struct spawn *sp);
/* Under which cgroup its processes are; NULL: none. The caller frees. */
char *spawn_cgroup(const struct spawn *sp);

void spawn_tell(struct spawn *sp, const char *fact, struct str members);
/* The last word. `is_told`: an earlier machine has put it into the outbox. */
void spawn_end(struct spawn *sp, const struct ended *e, bool is_told);
/* The same of one that has no process. */
void spawn_end_unstarted(struct spawn *sp, enum ending ending, const char *text);

/* ---- spawn_line.c ---- */

/* Watches both; `line` may be -1. They are the spawn's from now on. */
void spawn_follow(struct spawn *sp, int pidfd, int line);
/* Asks its shim; a shim that does not do it in time is killed. Once is enough. */
void spawn_ask_stop(struct spawn *sp);

/* ---- spawn_orphan.c ---- */

/* Its shim has died without a last word: what is left is ended, and then it is. */
void spawn_orphan(struct spawn *sp);
void spawn_reap_all(void);

/* ---- spawns.c ---- */

/* One has ended: those that waited for it, and whoever waits for silence. */
void spawns_settle(struct spawns *s);
