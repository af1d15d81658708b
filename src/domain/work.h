/*
 * work.h: one tick's transaction, as the domain sees it.
 *
 *     work_begin(w, now)
 *       work_request_begin(w)      a request: its own savepoint
 *         conversation_create(w, …), append_message(w, …), …
 *       work_request_end(w, ok)    kept, or undone in store and memory alike
 *       …
 *     work_commit(w)               one fsync for all of it
 *
 * After work_commit() returned 0, `events` and `guidance` hold what became true in this tick, in
 * order, until the next work_begin(): that is what subscribers are told. If it fails nothing of the
 * tick happened: the lists are empty and every cache has been dropped.
 *
 * Not thread-safe; owned by the core. `now_ms` is frozen for the tick.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/map.h"
#include "base/options.h"
#include "domain/event.h"
#include "domain/gaps.h"
#include "domain/lease.h"
#include "domain/rule.h"
#include "store/store.h"

struct guidance;
struct head;
struct log_index;
struct undo;

/* The greatest number given out so far, of each kind. */
struct numbers {
    int64_t event, conversation, attachment, token, command, task, inbox, card;
};

struct work {
    struct store *store;
    const struct options *options;
    int64_t now_ms;
    struct arena arena; /* lives until the next work_begin() */
    struct event *events, *events_last;
    struct guidance *guidance, *guidance_last;
    bool tokens_changed;
    struct numbers last;
    struct map heads;         /* conversation → struct head */
    struct map agents;        /* agent_key() → struct agent */
    struct map tasks;         /* number → struct task */
    struct leases leases;     /* when to look at those of agents, tasks and machines */
    struct machine *machines; /* all that ever registered */
    struct log_request *log_requests;
    int64_t last_log_request;
    struct touched *touched; /* what changed in this tick for those who wait */
    struct gaps gaps;        /* in which nobody watched */
    /* No conversation need be looked at before this time (rule.h). Appends lower it, a pass of the
     * ladder sets it anew; a request that is undone may leave it too early, which costs a look. */
    int64_t next_look_ms;
    int64_t fired[RULE_COUNT]; /* moves made since the start */
    int64_t previous_tick_ms;  /* of the last server that ran on this store; 0: none */
    int64_t written_ms;        /* the last tick that is stored */
    struct log_index *log_index;
    size_t tail_max;   /* LOG_TAIL_MAX, unless a test wants it short */
    int64_t request;   /* counts up for ever: tells which request edited an object */
    bool is_read_only; /* what this tick writes is refused */
    /* private: head.c, agent.c, task.c */
    size_t evict_at, evict_agent_at, evict_task_at;
    /* private: work.c */
    struct undo *undo;
    bool has_written;
    size_t indexed_before; /* of this tick */
    int64_t now_before;
    int64_t fired_before[RULE_COUNT];
    struct {
        struct numbers last;
        size_t indexed, gaps;
        int64_t fired[RULE_COUNT];
        struct event *events_last;
        struct guidance *guidance_last;
        bool tokens_changed;
    } before;
};

/* Reads the numbers and makes conversation 0 if the store is new. `store` and `options` are
 * borrowed for the lifetime of the work. */
int work_init(struct work *w, struct store *store, const struct options *options, int64_t now_ms,
              struct err *err);
void work_release(struct work *w);

int work_begin(struct work *w, int64_t now_ms, struct err *err);
int work_request_begin(struct work *w, struct err *err);
/* ok = false undoes the request. May fail even if ok (the store lost the transaction). */
int work_request_end(struct work *w, bool ok, struct err *err);
int work_commit(struct work *w, struct err *err);
/* Between ticks: writes behind what follows from the log (indexes, heads) once its tail is long, in
 * a transaction of its own. */
void work_maintain(struct work *w);

/* For the domain: this request writes. */
void work_mark_written(struct work *w);
bool work_has_written(const struct work *w); /* in this tick */
/* For the domain: `object` is about to change for the first time in this request; if the request
 * fails it becomes again what it is now. The copy, which lives as long as the tick. */
const void *work_remember(struct work *w, void *object, size_t bytes);
/* For the domain: this request made `object`; if it fails, `forget` removes it again. */
typedef void work_forget_fn(struct work *w, void *object);
void work_remember_new(struct work *w, void *object, work_forget_fn *forget);
/* For the domain: copies `e` into the list of new events. */
void work_publish_event(struct work *w, const struct event *e);
/* For the domain: event `e` tells what `rule` (or a person, or a follower) did to the conversation;
 * kept for `why`. */
int work_note_move(struct work *w, int64_t conversation, const struct event *e, const char *rule,
                   struct err *err);
/* One more move by this rule. */
void work_count_rule(struct work *w, enum rule_id rule);
/* For the domain: this agent, or machine, has something to do, or nothing any more: the bell rings
 * for it after the commit (bell/bell.h). `key` stands for it: agent_key_of(), machine_key_of(). */
struct touched {
    struct touched *next;
    int64_t key;
};
void work_touch(struct work *w, int64_t key);
/* g must live in the tick's arena. */
void work_publish_guidance(struct work *w, struct guidance *g);
