/*
 * core_world.h: a core to test (server/core.h), driven by hand: no sockets, no thread, a clock that
 * stands still, a disk in memory that fails when told.
 *
 *     struct world *w = world_new();
 *     ask(w, CREATE);                                  a request of the next tick
 *     tick(w);
 *     CHECK_INT(take_int(w, "result.conversation"), 1);  its reply
 *     world_free(w);
 *
 * A request goes in as text and its reply comes out as text; in requests ' stands for ". Peers are
 * made here too, so a test decides when one has room: queued_bytes falls when the test takes
 * messages, or never.
 *
 * Programs that link this replace clock_mono_us() (--wrap, tests/meson.build), so that real time
 * can pass without anybody waiting for it.
 */
#pragma once

#include "base/json.h"
#include "lib/fault_vfs.h"
#include "server/core.h"

enum { WORLD_START_MS = 1700000000, WORLD_ROOM_BYTES = 1 << 20 };

struct world {
    struct fault_vfs *disk;
    struct store *store; /* the core's: for what no method can do */
    struct clock clock;
    int64_t lived_us; /* of a real clock */
    struct clock_source source;
    struct options options;
    struct core *core;
    struct grant grant; /* of the requests; the operator's unless changed */
    struct peer *peer;  /* who asks */
    struct peer *other; /* somebody else, who always has room: ask_other() */
    struct outbox out;
    int token_changes;
    struct core_input *first, *last; /* of the next tick */
};

struct world *world_new(void);
/* On a copy of these files, which another world has left; NULL: with none, with the defaults. */
struct world *world_on(const struct fault_vfs *files, const struct options *options);
/* The same with a real clock, of which the caller is the source; clock_mono_us() follows it too. */
struct world *world_on_clock(const struct fault_vfs *files, const struct options *options,
                             const struct clock_source *source);
/* Ends it like world_free(); what its disk holds, for world_on(). */
struct fault_vfs *world_leave(struct world *w);
void world_free(struct world *w); /* checks that nothing holds on to the peer */
void world_restart(struct world *w);
/* The same where it may be refused: then there is no core. */
int world_try_restart(struct world *w, struct err *err);
/* From here on there is no space on the disk, or there is. */
void fill_disk(struct world *w);
void free_disk(struct world *w);

#define CALL(method, params) "{'jsonrpc':'2.0','id':1,'method':'" method "','params':" params "}"
#define CREATE CALL("conversation.create", "{'agents':[{'role':'a'},{'role':'b'}],'maxTurns':0}")
#define SAY CALL("message.send", "{'conversation':%d,'agentId':'a','text':'hello'}")
#define SUBSCRIBE CALL("event.subscribe", "{'conversation':%d,'afterSeq':%d}")

struct core_input *input(struct world *w, enum core_input_kind kind, struct peer *p);
void ask(struct world *w, const char *fmt, ...) _printf_(2, 3);
void ask_other(struct world *w, const char *fmt, ...) _printf_(2, 3);
void ask_stream(struct world *w, struct peer *p, int64_t conversation, int64_t after_id);
void tick(struct world *w);
void idle(struct world *w); /* until there is nothing left to do */
/* Ticks until nothing is due any more; how many. Fails if there is no end to them. */
int settle(struct world *w);
/* After a failure what is due waits a little, in real time: that time passes. */
void pass_pause(void);
/* From here on a real clock, of which the test is the source: time passes by live(). */
void world_use_real_clock(struct world *w);
void live(struct world *w, int64_t ms);
/* The store refuses these changes ("INSERT ON moves", "NEW.conversation = 3"), until it is cured.
 */
void poison(struct world *w, const char *change, const char *when);
void cure(struct world *w);
/* What is in the store. */
int64_t store_int(struct world *w, const char *fmt, ...) _printf_(2, 3); /* -1: no row */

/* The next message; its JSON, if it is any. */
struct reply {
    struct message *message;
    struct arena arena;
    const struct json *json;
};

struct reply take(struct world *w);
void done(struct reply *r);
/* Along member names: "result.head.lastSeq". */
int64_t int_at(const struct json *v, const char *path);
struct str string_at(const struct json *v, const char *path);

int64_t take_int(struct world *w, const char *path);
void take_ok(struct world *w);
void take_error(struct world *w, const char *name);
void check_nothing_left(struct world *w);

/* A tick each. */
void create(struct world *w, int64_t want);
void say(struct world *w, int conversation);
