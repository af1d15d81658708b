/*
 * world.h: a server without threads and sockets, in a world of which the clock, the disk, the
 * network and the power are ours.
 *
 * The server is the production core (server/core.h) with its store, ladder, followers, dispatch
 * and tokens. What is said to it goes in as JSON-RPC text by the door the net thread uses, with the
 * grant its token has; what it answers comes out as text. In between is a network that loses,
 * delays, repeats and reorders, as the number of each act says.
 *
 * Time is `now_ms` since the beginning, and stands still while anything happens. The server's own
 * time is its clock's: boot time from a base, with a wall clock that may be stepped.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/peer.h"
#include "domain/token.h"
#include "lib/fault_vfs.h"
#include "server/auth.h"
#include "server/core.h"
#include "sim/actor.h"
#include "sim/bell.h"
#include "sim/fleet.h"
#include "sim/script.h"

struct checker;
struct oracle;

/* X(name, text, is keyed): what is asked in simulations; keyed ones take a retry key. */
#define ASK_LIST(X)                              \
    X(JOIN, "participant.join", false)           \
    X(HEARTBEAT, "participant.heartbeat", false) \
    X(LEAVE, "participant.leave", false)         \
    X(WAIT, "task.wait", false)                  \
    X(CLAIM, "task.claim", true)                 \
    X(START, "task.start", true)                 \
    X(PROGRESS, "task.progress", true)           \
    X(SUSPEND, "task.suspend", true)             \
    X(RESUME, "task.resume", true)               \
    X(APPLIED, "task.applied", true)             \
    X(COMPLETE, "task.complete", true)           \
    X(FAIL, "task.fail", true)                   \
    X(TASK_CREATE, "task.create", true)          \
    X(TASK_CANCEL, "task.cancel", true)          \
    X(TOOL_REPORT, "tool.report", true)          \
    X(SAY, "message.send", true)                 \
    X(TRACE, "trace.append", true)               \
    X(SUBSCRIBE, "event.subscribe", false)       \
    X(CREATE, "conversation.create", true)       \
    X(END, "conversation.end", true)             \
    X(CONTINUE, "conversation.resume", true)     \
    X(AGENT_START, "agent.start", true)          \
    X(AGENT_STOP, "agent.stop", true)            \
    X(AGENT_RESTART, "agent.restart", true)      \
    X(ENSURE, "lifecycle.ensure", true)          \
    X(AGENT_SET, "agent.set", true)              \
    X(FORGET, "machine.forget", true)            \
    X(AGENTS, "agent.list", false)               \
    X(RUN_ONCE, "watchdog.runOnce", false)       \
    X(ENQUEUE, "inbox.enqueue", true)            \
    X(RECEIVE, "inbox.receive", true)            \
    X(CONSUME, "inbox.consume", true)            \
    X(INBOX, "inbox.list", false)                \
    X(MESSAGE, "inbox.get", false)               \
    X(REGISTER, "machine.register", false)       \
    X(POLL, "machine.poll", false)               \
    X(REPORT, "machine.report", false)

enum ask_method {
#define X(name, text, keyed) ASK_##name,
    ASK_LIST(X)
#undef X
        ASK_METHODS
};

extern const char *const ask_names[ASK_METHODS];

enum ask_state {
    ASK_ON_ITS_WAY,
    ASK_TAKEN,    /* the server has it: in a tick, or parked */
    ASK_ANSWERED, /* the server has answered; the answer may be on its way */
    ASK_LOST,
};

/* A request, for ever. Who asks notes what it is about, for the checker. */
struct ask {
    int64_t id;
    enum ask_method method;
    enum actor kind;
    int who;
    unsigned life; /* of who asked */
    struct grant grant;
    bool has_token; /* a process: its grant is what its token is worth on arrival */
    uint8_t token[SHA256_BYTES];
    char *params;
    bool is_keyed;
    int64_t repeats; /* the first of its kind; 0: it is that one */
    int64_t conversation, task, epoch, after;
    int role;
    char connection[24];
    int64_t ripe_since_ms, ripe_mono_ms; /* parked, though there is something; for the checker */
    enum ask_state state;
    int64_t at_ms; /* arrives */
    bool loses_reply, is_doubled;
    int64_t reply_delay_ms;
    uint64_t taken_in;   /* tick */
    bool may_be_done;    /* a server that had it has died: of the first of its kind */
    bool is_ok;          /* once answered */
    int64_t answered_ms; /* by the server's clock */
    char *answer;        /* the result, if it was keyed */
};

/* An answer on its way. */
struct letter {
    int64_t at_ms, ask;
    char *text;
};

struct sim {
    struct swarm swarm;
    uint64_t random;       /* what the generator draws from */
    uint64_t core_random;  /* what the server draws from */
    struct script *record; /* every step goes here; NULL: nowhere */
    int64_t now_ms, wall_ahead_ms, asleep_ms, nap_from_ms;
    struct clock_source source;
    struct clock clock;

    struct fault_vfs *disk;
    struct store *store;
    struct core *core; /* NULL: the server is down */
    struct auth *auth;
    int64_t awake_at_ms; /* the server sees nothing before */
    int64_t wake_at_ms;  /* it looks around then, by itself */
    int64_t down_since_server_ms;
    bool disk_is_bad;
    struct outbox out;
    struct core_input *closed; /* connections: to be told with the next tick */
    uint64_t ticks;

    struct ask **asks; /* by id; [0] is none */
    size_t ask_count, ask_room;
    size_t *open; /* those that are on their way or taken, and some that are done with */
    size_t open_count, open_room;
    struct letter *letters;
    size_t letter_count, letter_room;
    struct late_rings rings;
    struct peer *peers[ACTOR_KINDS][SIM_ACTORS_MAX];
    int64_t next_act_ms[ACTOR_KINDS][SIM_ACTORS_MAX];

    struct fleet fleet;
    struct checker *checker;
    struct peer *oracle_peer; /* of sim_ask_now(), while it asks; its answer is in the arena */
    struct str oracle_answer;
    struct arena *oracle_arena;
    struct oracle *oracle;
    bool stops_at_wrong_why; /* --why */
    bool traces;             /* tell everything on stderr */
    bool is_settling;        /* no more faults; what is open must end */

    bool has_failed;
    char promise[16], why[600];
    uint64_t hash;
    int64_t steps;
};

static inline struct ask *sim_open(const struct sim *s, size_t i)
{
    return s->asks[s->open[i]];
}

/* What all histories share; sim_new() does it if nobody has. */
void sim_prepare(void);
struct sim *sim_new(const struct swarm *swarm);
struct sim *sim_free(struct sim *s); /* NULL */

/* Time goes on to at_ms, and the server does what it has to. */
void sim_advance(struct sim *s, int64_t at_ms);
/* Everything that can happen now happens. */
void sim_pump(struct sim *s);

int64_t sim_server_ms(const struct sim *s);
/* The server begins; false: it could not, and is down. */
bool sim_start_server(struct sim *s);
/* It ends as by kill -9; with `cut`, so does the power of its machine. */
void sim_kill_server(struct sim *s);
/* Everybody who had a connection to it notices. */
void sim_drop_connections(struct sim *s);
void sim_close_peer(struct sim *s, enum actor kind, int who);

/*
 * Sends a request; ' stands for ". Its fate follows from arg. The ask is good until the world ends.
 */
struct ask *sim_ask(struct sim *s, enum actor kind, int who, const struct grant *grant,
                    uint32_t arg, enum ask_method method, const char *fmt, ...) _printf_(7, 8);
/* The same again, with the same key. */
struct ask *sim_ask_again(struct sim *s, const struct ask *first, uint32_t arg);
extern const struct grant sim_operator;
/* An operator asks, and is answered at once: the result, in the arena; NULL: there is none. */
const struct json *sim_ask_now(struct sim *s, struct arena *a, const char *method,
                               const char *params);

/* A promise is broken: the first one counts. */
void sim_fail(struct sim *s, const char *promise, const char *fmt, ...) _printf_(3, 4);
void sim_trace(const struct sim *s, const char *fmt, ...) _printf_(2, 3);
void sim_hash(struct sim *s, const void *data, size_t n);
/* Whether something with this rate per thousand happens, by a number that is then used up. */
bool sim_happens(const struct sim *s, uint64_t *random, int64_t rate);
