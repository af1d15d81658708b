/*
 * append.h: the only way into the log.
 *
 * Every append goes through the same gate: it finds the turn, checks that the writer may write
 * there, numbers the event and moves the head, all in the tick's transaction.
 *
 * Turns. A turn belongs to the agent that opened it. Others may add to it (finality none); closing
 * it is its owner's. A cleared turn stays open and belongs to whoever writes next. The turn number
 * may be left out: the open turn, else the next.
 *
 * Repeats. With a request id, the same agent's same request has one effect and one answer, for
 * ever (P19). It is looked up before any state check, so the message that closed a turn, or the
 * conversation itself, can be repeated (L07); the same id with another body is refused.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/crypto.h"
#include "base/err.h"
#include "domain/event.h"
#include "domain/head.h"

struct work;

/* A request id and the hash of what it asks for; id.p == NULL if there is none. */
struct request_key {
    struct str id;
    uint8_t hash[SHA256_BYTES];
};

struct append {
    int64_t conversation;
    struct str agent_id;             /* lower case */
    int64_t turn;                    /* 0: the open one, else the next */
    enum finality finality;          /* messages only */
    struct str payload;              /* compact JSON object */
    int64_t precondition_closed_seq; /* -1: none */
    bool precondition_known_role;    /* agent_id must be a role of the conversation */
    const struct request_key *key;   /* may be NULL */
    enum outcome outcome;            /* with FINALITY_CONVERSATION */
    enum stop_reason stop_reason;    /* with FINALITY_CONVERSATION */
    bool is_whole_request; /* nothing but this append is written, and nothing follows that can fail
                            */
    bool is_from_above; /* conversation.end, the ladder: ends it in another's turn, or while blocked
                         */
};

/* Was this request done before? ERR_IDEMPOTENCY_CONFLICT if with another body. */
int append_find_repeat(struct work *w, int64_t conversation, struct str agent_id,
                       const struct request_key *key, struct event *ret, bool *ret_found,
                       struct err *err);

/*
 * A message. Closing the turn that reaches the conversation's limit of turns ends the conversation
 * in the same transaction. *ret is the event of this request (borrowed from the tick's arena).
 */
int append_message(struct work *w, const struct append *a, struct event *ret, struct err *err);
int append_trace(struct work *w, const struct append *a, struct event *ret, struct err *err);
/* A system event on turn 0: {"kind":kind,"data":data}; data is compact JSON. Also while it is
 * blocked. `once` (may be NULL) names it: a second event of this name cannot be stored. */
int append_system(struct work *w, int64_t conversation, const char *agent_id, const char *kind,
                  struct str data, const char *once, struct event *ret, struct err *err);

/*
 * turn.clear: gives up the open turn without closing it. Writes a `turn_cleared` trace once; a
 * repeat writes nothing. *ret_turn is the turn to write to next.
 */
int append_turn_cleared(struct work *w, int64_t conversation, struct str agent_id, bool is_operator,
                        struct str reason, int64_t *ret_turn, struct err *err);
