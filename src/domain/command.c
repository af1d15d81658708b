/* command.c: see command.h. */
#include "domain/command.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/random.h"
#include "domain/agent.h"
#include "domain/token.h"
#include "domain/work.h"

static struct query *query_of(struct work *w, enum statement statement, int64_t conversation,
                              struct str role)
{
    struct query *q = store_query(w->store, statement);
    query_int(q, 1, conversation);
    query_text(q, 2, role);
    return q;
}

int command_starts(struct work *w, int64_t conversation, struct str role, struct starts *ret,
                   struct err *err)
{
    *ret = (struct starts){0};
    struct query *q = query_of(w, SQL_COMMAND_OPEN_START, conversation, role);
    int r = query_one(q, err);
    if (r == STORE_ROW)
        ret->open = query_get_int(q, 0);
    query_end(q);
    if (r < 0)
        return r;
    q = query_of(w, SQL_COMMAND_LAST_TAKEN, conversation, role);
    r = query_one(q, err);
    if (r == STORE_ROW && !query_get_int(q, 1))
        snprintf(ret->spawn_id, sizeof ret->spawn_id, "%.*s", STR_ARG(query_get_text(q, 0)));
    query_end(q);
    return MIN(r, 0);
}

static int64_t next_deadline_ms(const struct work *w)
{
    return w->now_ms + option_get(w->options, restart, command_deadline_seconds) * 1000;
}

static int insert(struct work *w, const char *type, int64_t conversation, struct str role,
                  struct str kind, struct str machine, const char *spawn_id, const char *reason,
                  int64_t *ret, struct err *err)
{
    int64_t deadline_ms = next_deadline_ms(w);
    struct query *q = store_query(w->store, SQL_COMMAND_INSERT);
    query_int(q, 1, w->last.command + 1);
    query_text(q, 2, str_of(type));
    query_int(q, 3, conversation);
    query_text(q, 4, role);
    query_text(q, 5, kind);
    query_text(q, 6, machine);
    query_text(q, 7, str_of(spawn_id));
    query_text(q, 8, str_of(reason));
    query_int(q, 9, w->now_ms);
    query_int(q, 10, deadline_ms);
    work_mark_written(w);
    if (machine.p)
        w->next_look_ms = MIN(w->next_look_ms, deadline_ms + 1);
    int r = query_run(q, NULL, err);
    if (r == 0)
        *ret = ++w->last.command;
    return r;
}

int command_start(struct work *w, int64_t conversation, struct str role, struct str kind,
                  struct str machine, bool is_restart, const char *reason, int64_t *ret,
                  struct err *err)
{
    char spawn_id[SPAWN_ID_BYTES];
    random_hex((SPAWN_ID_BYTES - 1) / 2, spawn_id);
    return insert(w, is_restart ? "restart-agent" : "start-agent", conversation, role, kind,
                  machine, spawn_id, reason, ret, err);
}

int command_open_stop(struct work *w, const char *spawn_id, int64_t *ret, struct err *err)
{
    struct query *q = store_query(w->store, SQL_COMMAND_OPEN_STOP);
    query_text(q, 1, str_of(spawn_id));
    int r = query_one(q, err);
    *ret = r == STORE_ROW ? query_get_int(q, 0) : 0;
    query_end(q);
    return MIN(r, 0);
}

int command_stop(struct work *w, int64_t conversation, struct str role, struct str kind,
                 struct str machine, const char *spawn_id, const char *reason, int64_t *ret,
                 struct err *err)
{
    int r = command_open_stop(w, spawn_id, ret, err);
    if (r < 0 || *ret)
        return r;
    return insert(w, "stop-agent", conversation, role, kind, machine, spawn_id, reason, ret, err);
}

int command_fail(struct work *w, int64_t command, const char *outcome, struct err *err)
{
    struct query *q = store_query(w->store, SQL_COMMAND_FAIL);
    query_int(q, 1, command);
    query_text(q, 2, str_of(outcome));
    query_int(q, 3, w->now_ms);
    work_mark_written(w);
    return query_run(q, NULL, err);
}

int commands_fail_open_starts(struct work *w, int64_t conversation, const char *outcome,
                              struct err *err)
{
    struct query *q = store_query(w->store, SQL_COMMAND_HAS_OPEN_START);
    query_int(q, 1, conversation);
    int r = query_one(q, err);
    query_end(q);
    if (r <= 0) /* nearly always; and an update that finds nothing costs seven times as much */
        return r;
    q = store_query(w->store, SQL_COMMAND_FAIL_OPEN_STARTS);
    query_int(q, 1, conversation);
    query_text(q, 2, str_of(outcome));
    query_int(q, 3, w->now_ms);
    return query_run(q, NULL, err);
}

static void write_command(struct query *q, struct json_out *out)
{
    json_object(out, NULL);
    json_int(out, "command", query_get_int(q, 0));
    json_string(out, "type", query_get_text(q, 1));
    json_int(out, "conversation", query_get_int(q, 2));
    json_string(out, "role", query_get_text(q, 3));
    json_string(out, "kind", query_get_text(q, 4));
    json_string(out, "machine", query_get_text(q, 5));
    json_string(out, "spawnId", query_get_text(q, 6));
    json_string(out, "status", query_get_text(q, 7));
    json_string(out, "reason", query_get_text(q, 8));
    json_time(out, "createdAt", query_get_int(q, 9));
    json_time(out, "deadline", query_get_int(q, 10));
    if (query_is_null(q, 11))
        json_null(out, "closedAt");
    else
        json_time(out, "closedAt", query_get_int(q, 11));
    json_string(out, "outcome", query_get_text(q, 12));
    json_end(out);
}

int commands_write(struct work *w, const struct command_filter *filter, int64_t after,
                   int64_t limit, struct json_out *out, const char *key, int64_t *ret_next,
                   struct err *err)
{
    bool is_of_one = filter->conversation >= 0;
    struct query *q =
        store_query(w->store, is_of_one ? SQL_COMMAND_LIST_OF_CONVERSATION : SQL_COMMAND_LIST);
    query_int(q, 1, after);
    query_int(q, 2, limit + 1);
    query_text(q, 3, filter->machine);
    query_text(q, 4, filter->status);
    if (is_of_one)
        query_int(q, 5, filter->conversation);
    int64_t last = 0, shown = 0;
    int r;
    *ret_next = 0;
    json_array(out, key);
    while ((r = query_step(q, err)) == STORE_ROW) {
        if (shown++ == limit) {
            *ret_next = last;
            continue;
        }
        last = query_get_int(q, 0);
        write_command(q, out);
    }
    json_end(out);
    return r;
}

/* ---- handing over ---- */

int command_assign(struct work *w, int64_t command, struct str machine, struct err *err)
{
    struct query *q = store_query(w->store, SQL_COMMAND_ASSIGN);
    int64_t deadline_ms = next_deadline_ms(w); /* until now nobody could have done it */
    query_int(q, 1, command);
    query_text(q, 2, machine);
    query_int(q, 3, deadline_ms);
    w->next_look_ms = MIN(w->next_look_ms, deadline_ms + 1);
    work_mark_written(w);
    return query_run(q, NULL, err);
}

int command_deadline_ms(struct work *w, int64_t command, int64_t *ret, struct err *err)
{
    struct query *q = store_query(w->store, SQL_COMMAND_GET);
    query_int(q, 1, command);
    int r = query_one(q, err);
    *ret = INT64_MAX;
    if (r == STORE_ROW && query_is_null(q, 4))
        *ret = query_get_int(q, 5) + 1;
    query_end(q);
    return MIN(r, 0);
}

int command_send_again(struct work *w, int64_t command, struct err *err)
{
    int64_t deadline_ms = next_deadline_ms(w);
    struct query *q = store_query(w->store, SQL_COMMAND_SEND_AGAIN);
    query_int(q, 1, command);
    query_int(q, 2, deadline_ms);
    w->next_look_ms = MIN(w->next_look_ms, deadline_ms + 1);
    work_mark_written(w);
    return query_run(q, NULL, err);
}

int commands_expire_on(struct work *w, struct str machine, struct err *err)
{
    struct query *q = store_query(w->store, SQL_COMMAND_EXPIRE_ON);
    query_text(q, 1, machine);
    query_int(q, 2, w->now_ms);
    work_mark_written(w);
    return query_run(q, NULL, err);
}

static int list_open(struct work *w, struct str machine, bool again, size_t limit,
                     struct command *ret, size_t *ret_count, struct err *err)
{
    struct query *q = store_query(w->store, SQL_COMMAND_OPEN_ON_MACHINE);
    query_text(q, 1, machine);
    query_int(q, 2, 0);
    query_int(q, 3, (int64_t)limit);
    query_int(q, 4, again);
    int r;
    *ret_count = 0;
    while ((r = query_step(q, err)) == STORE_ROW) {
        ret[(*ret_count)++] = (struct command){
            .command = query_get_int(q, 0),
            .type = arena_str(&w->arena, query_get_text(q, 1)),
            .conversation = query_get_int(q, 2),
            .role = arena_str(&w->arena, query_get_text(q, 3)),
            .kind = arena_str(&w->arena, query_get_text(q, 4)),
            .spawn_id = arena_str(&w->arena, query_get_text(q, 6)),
            .status = arena_str(&w->arena, query_get_text(q, 7)),
            .reason = arena_str(&w->arena, query_get_text(q, 8)),
            .deadline_ms = query_get_int(q, 10),
        };
    }
    return r;
}

static int mark_delivered(struct work *w, int64_t command, struct str machine, struct err *err)
{
    struct query *q = store_query(w->store, SQL_COMMAND_DELIVER);
    query_int(q, 1, command);
    query_int(q, 2, w->now_ms);
    query_text(q, 3, machine);
    work_mark_written(w);
    return query_run(q, NULL, err);
}

static int mint_token(struct work *w, struct command *c, struct err *err)
{
    struct grant g = {.scope = SCOPE_AGENT, .conversation = c->conversation};
    int64_t token;
    snprintf(g.role, sizeof g.role, "%.*s", STR_ARG(c->role));
    snprintf(g.spawn_id, sizeof g.spawn_id, "%.*s", STR_ARG(c->spawn_id));
    struct query *q = store_query(w->store, SQL_TOKEN_EXPIRE_OF_SPAWN); /* one that got lost */
    query_text(q, 1, c->spawn_id);
    query_int(q, 2, w->now_ms);
    int r = query_run(q, NULL, err);
    if (r < 0)
        return r;
    q = store_query(w->store, SQL_TOKEN_PRUNE); /* of processes long gone */
    query_int(q, 1, w->now_ms);
    r = query_run(q, NULL, err);
    if (r < 0)
        return r;
    return token_create(w, &g, &token, c->token, err);
}

/* A start: its process is the agent's current one, and speaks with a token of its own. Handed over
 * again, it gets another token; the first may have been lost on the way. */
static int deliver_start(struct work *w, struct command *c, struct str machine, struct err *err)
{
    struct agent *a;
    int r = agent_get(w, c->conversation, c->role, &a, err);
    if (r == 0)
        r = mint_token(w, c, err);
    if (r < 0)
        return r;
    agent_edit(w, a);
    if (!str_is(c->spawn_id,
                a->spawn_id)) /* one before it may have been seen since: not this one */
        a->process = PROCESS_STARTING;
    snprintf(a->spawn_id, sizeof a->spawn_id, "%.*s", STR_ARG(c->spawn_id));
    snprintf(a->machine, sizeof a->machine, "%.*s", STR_ARG(machine));
    a->process_ms = 0;
    a->is_fenced = false;
    return agent_store(w, a, "start_delivered", err);
}

int commands_deliver(struct work *w, struct str machine, bool again, size_t limit,
                     struct command **ret, size_t *ret_count, struct err *err)
{
    struct command *list = arena_alloc(&w->arena, (limit + 1) * sizeof *list);
    int r = list_open(w, machine, again, limit, list, ret_count, err);
    for (size_t i = 0; r == 0 && i < *ret_count; i++) {
        if (str_is(list[i].status, "booting")) /* it has said that it has it */
            continue;
        r = mark_delivered(w, list[i].command, machine, err);
        if (r == 0 && !str_is(list[i].type, "stop-agent"))
            r = deliver_start(w, &list[i], machine, err);
    }
    *ret = list;
    return r;
}

void command_write_delivered(struct work *w, const struct command *c, struct json_out *out)
{
    json_object(out, NULL);
    json_int(out, "command", c->command);
    json_string(out, "type", c->type);
    json_int(out, "conversation", c->conversation);
    json_string(out, "role", c->role);
    json_string(out, "kind", c->kind);
    json_string(out, "spawnId", c->spawn_id);
    json_time(out, "deadline", c->deadline_ms);
    json_string(out, "reason", c->reason);
    json_stringz(out, "status", str_is(c->status, "pending") ? "delivered" : c->status.p);
    json_int(out, "ttlMs", MAX(c->deadline_ms - w->now_ms, INT64_C(0)));
    if (c->token[0])
        json_stringz(out, "token", c->token);
    json_end(out);
}
