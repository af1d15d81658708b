/* event.c: see event.h. */
#include "domain/event.h"

#include "base/names.h"

static const char *const type_names[] = {
#define X(name, text) [EVENT_##name] = text,
    EVENT_TYPE_LIST(X)
#undef X
};
_Static_assert(ARRAY_LEN(type_names) == EVENT_TYPE_COUNT, "a name for each type");

static const char *const finality_names[] = {
#define X(name, text) [FINALITY_##name] = text,
    FINALITY_LIST(X)
#undef X
};
_Static_assert(ARRAY_LEN(finality_names) == FINALITY_COUNT, "a name for each finality");

const char *event_type_name(enum event_type type)
{
    return type_names[type];
}

bool event_type_parse(struct str s, enum event_type *ret)
{
    int i = names_find(type_names, EVENT_TYPE_COUNT, s);
    if (i >= 0)
        *ret = (enum event_type)i;
    return i >= 0;
}

const char *finality_name(enum finality finality)
{
    return finality_names[finality];
}

bool finality_parse(struct str s, enum finality *ret)
{
    int i = names_find(finality_names, FINALITY_COUNT, s);
    if (i >= 0)
        *ret = (enum finality)i;
    return i >= 0;
}

int event_from_row(struct query *q, struct event *ret, struct err *err)
{
    *ret = (struct event){
        .id = query_get_int(q, 0),
        .conversation = query_get_int(q, 1),
        .seq = query_get_int(q, 2),
        .turn = query_get_int(q, 3),
        .event = query_get_int(q, 4),
        .ts_ms = query_get_int(q, 5),
        .agent_id = query_get_text(q, 8),
        .payload = query_get_text(q, 9),
    };
    if (!event_type_parse(query_get_text(q, 6), &ret->type) ||
        !finality_parse(query_get_text(q, 7), &ret->finality))
        return err_set(err, ERR_INTERNAL, "event %lld has an unknown type or finality",
                       (long long)ret->id);
    return 0;
}

void event_write(struct json_out *w, const char *key, const struct event *e)
{
    json_object(w, key);
    json_int(w, "id", e->id);
    json_int(w, "conversation", e->conversation);
    json_int(w, "turn", e->turn);
    json_int(w, "event", e->event);
    json_int(w, "seq", e->seq);
    json_time(w, "ts", e->ts_ms);
    json_stringz(w, "type", event_type_name(e->type));
    json_stringz(w, "finality", finality_name(e->finality));
    json_string(w, "agentId", e->agent_id);
    json_raw(w, "payload", e->payload);
    json_end(w);
}

void event_write_receipt(struct json_out *w, const struct event *e)
{
    json_int(w, "conversation", e->conversation);
    json_int(w, "turn", e->turn);
    json_int(w, "event", e->event);
    json_int(w, "seq", e->seq);
    json_time(w, "ts", e->ts_ms);
    json_int(w, "id", e->id);
}
