/* guidance.c: see guidance.h. */
#include "domain/guidance.h"

#include <stdio.h>

#include "domain/work.h"

/*
 * The agent after `speaker` in the order of `agents`; the first one if the speaker is not among
 * them (a person, say). Empty if that would be the speaker itself, or if there are no agents.
 */
static int next_in_order(struct work *w, int64_t conversation, const char *speaker,
                         char ret[AGENT_ID_BYTES_MAX + 1], struct err *err)
{
    char first[AGENT_ID_BYTES_MAX + 1] = "";
    bool found = false, taken = false;
    struct query *q = store_query(w->store, SQL_AGENT_ROLES);
    query_int(q, 1, conversation);
    int r;
    ret[0] = '\0';
    while ((r = query_step(q, err)) == STORE_ROW) {
        struct str role = query_get_text(q, 0);
        if (first[0] == '\0')
            snprintf(first, sizeof first, "%.*s", STR_ARG(role));
        if (found && !taken) {
            snprintf(ret, AGENT_ID_BYTES_MAX + 1, "%.*s", STR_ARG(role));
            taken = true;
        }
        found |= str_is(role, speaker);
    }
    if (r < 0)
        return r;
    if (!taken && strcmp(first, speaker) != 0)
        memcpy(ret, first, sizeof first);
    return 0;
}

int guidance_current(struct work *w, const struct head *h, struct guidance *ret, bool *ret_any,
                     struct err *err)
{
    int64_t idle_ms = rule_limit(RULE_IDLE, w->options, h);
    *ret = (struct guidance){
        .conversation = h->conversation,
        .continues = h->turn_is_open,
        .turn = h->turn_is_open ? h->last_turn : h->last_turn + 1,
        .deadline_ms = idle_ms ? gaps_due_ms(&w->gaps, rule_base_ms(RULE_IDLE, h), idle_ms) - 1 : 0,
    };
    int r = 0;
    if (h->status != CONVERSATION_ACTIVE)
        ret->next_agent[0] = '\0';
    else if (h->turn_is_open)
        memcpy(ret->next_agent, h->turn_owner, sizeof ret->next_agent);
    else if (h->last_turn == 0)
        memcpy(ret->next_agent, h->starting_role, sizeof ret->next_agent);
    else
        r = next_in_order(w, h->conversation, h->turn_owner, ret->next_agent, err);
    *ret_any = ret->next_agent[0] != '\0';
    return r;
}

int guidance_publish(struct work *w, const struct head *h, struct err *err)
{
    struct guidance *g = arena_alloc(&w->arena, sizeof *g);
    bool any;
    int r = guidance_current(w, h, g, &any, err);
    if (r == 0 && any)
        work_publish_guidance(w, g);
    return r;
}

void guidance_write(struct json_out *w, const char *key, const struct guidance *g)
{
    json_object(w, key);
    json_int(w, "conversation", g->conversation);
    json_stringz(w, "nextAgentId", g->next_agent);
    json_stringz(w, "kind", g->continues ? "continue_turn" : "start_turn");
    json_int(w, "turn", g->turn);
    if (g->deadline_ms)
        json_time(w, "deadline", g->deadline_ms);
    else
        json_null(w, "deadline");
    json_end(w);
}
