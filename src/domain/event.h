/*
 * event.h: one entry of the log.
 *
 * `id` is global and in commit order; `seq` is per conversation, gapless from 1; `event` counts
 * from 1 within its turn; turn 0 is the lane of system events. An event is immutable once it is
 * committed. Strings are borrowed: from the tick's arena for a new event, from the row for one
 * that was read.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "base/str.h"
#include "store/store.h"

#define EVENT_TYPE_LIST(X) X(MESSAGE, "message") X(TRACE, "trace") X(SYSTEM, "system")
#define FINALITY_LIST(X) X(NONE, "none") X(TURN, "turn") X(CONVERSATION, "conversation")

enum event_type {
#define X(name, text) EVENT_##name,
    EVENT_TYPE_LIST(X)
#undef X
        EVENT_TYPE_COUNT
};

enum finality {
#define X(name, text) FINALITY_##name,
    FINALITY_LIST(X)
#undef X
        FINALITY_COUNT
};

/* What clients may name themselves: role-shaped, compared in lower case. */
enum { AGENT_ID_BYTES_MAX = 64 };

struct event {
    int64_t id, conversation, seq, turn, event, ts_ms;
    enum event_type type;
    enum finality finality;
    struct str agent_id;
    struct str payload; /* compact JSON */
    struct event *next; /* in a list of new events, in order of id */
};

const char *event_type_name(enum event_type type);
bool event_type_parse(struct str s, enum event_type *ret);
const char *finality_name(enum finality finality);
bool finality_parse(struct str s, enum finality *ret);

/* The columns id … payload, in the order every EVENT_ statement selects them. */
int event_from_row(struct query *q, struct event *ret, struct err *err);
/* {"id":…,…,"payload":{…}} */
void event_write(struct json_out *w, const char *key, const struct event *e);
/* The answer to an append: {conversation, turn, event, seq, ts, id} as members. */
void event_write_receipt(struct json_out *w, const struct event *e);
