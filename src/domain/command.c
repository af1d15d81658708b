/* command.c: see command.h. */
#include "domain/command.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/planted.h"
#include "base/random.h"
#include "domain/agent.h"
#include "domain/machine.h"
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
    if (ret->spawn_id[0])
        ret->machine = arena_str(&w->arena, query_get_text(q, 2));
    query_end(q);
    return MIN(r, 0);
}

/* ---- rows and deadlines ---- */

static struct command from_row(struct work *w, struct query *q)
{
    return (struct command){
        .command = query_get_int(q, 0),
        .type = arena_str(&w->arena, query_get_text(q, 1)),
        .conversation = query_get_int(q, 2),
        .role = arena_str(&w->arena, query_get_text(q, 3)),
        .kind = arena_str(&w->arena, query_get_text(q, 4)),
        .machine = query_is_null(q, 5) ? STR_NONE : arena_str(&w->arena, query_get_text(q, 5)),
        .spawn_id = arena_str(&w->arena, query_get_text(q, 6)),
        .status = arena_str(&w->arena, query_get_text(q, 7)),
        .reason = arena_str(&w->arena, query_get_text(q, 8)),
        .created_ms = query_get_int(q, 9),
        .since_ms = query_get_int(q, 10),
        .sends = query_get_int(q, 11),
        .closed_ms = query_get_int(q, 12),
        .outcome = query_is_null(q, 13) ? STR_NONE : arena_str(&w->arena, query_get_text(q, 13)),
        .look_ms = query_get_int(q, 14),
    };
}

int command_get(struct work *w, int64_t command, struct command *ret, struct err *err)
{
    struct query *q = store_query(w->store, SQL_COMMAND_GET);
    query_int(q, 1, command);
    int r = query_one(q, err);
    if (r == STORE_DONE)
        return err_set(err, ERR_NOT_FOUND, "there is no command %lld", (long long)command);
    if (r < 0)
        return r;
    *ret = from_row(w, q);
    query_end(q);
    return 0;
}

bool command_is_stop(const struct command *c)
{
    return str_is(c->type, "stop-agent");
}

int64_t command_limit_ms(const struct work *w, const struct command *c)
{
    int64_t limit_ms = option_get(w->options, restart, command_deadline_seconds) * 1000;
    return limit_ms << MIN(MAX(c->sends, INT64_C(0)), (int64_t)STOP_SENDS_MAX);
}

/* What would be its last millisecond if its machine could be asked. What came after a command was
 * closed does not move its deadline. */
static int64_t deadline_ms(const struct work *w, const struct command *c)
{
    struct gaps gaps = w->gaps;
    while (c->closed_ms && gaps.count && gaps.list[gaps.count - 1].from_ms >= c->closed_ms)
        gaps.count--;
    if (planted(DEADLINE_IGNORES_GAPS))
        return all_time_until_ms(ALL_TIME_ROW_RETRY, c->since_ms, command_limit_ms(w, c));
    return gaps_due_ms(&gaps, c->since_ms, command_limit_ms(w, c)) - 1;
}

int64_t command_due_ms(const struct work *w, const struct command *c)
{
    const struct machine *m = c->machine.p ? machine_find(w, c->machine) : NULL;
    if (c->closed_ms || !m || !m->is_online || c->sends >= STOP_SENDS_MAX)
        return NEVER_MS;
    return deadline_ms(w, c) + 1;
}

int command_watch_again(struct work *w, const struct command *c, struct err *err)
{
    int64_t due_ms = command_due_ms(w, c);
    if (due_ms == c->look_ms)
        return 0;
    w->next_look_ms = MIN(w->next_look_ms, due_ms);
    struct query *q = store_query(w->store, SQL_COMMAND_LOOK_UPDATE);
    query_int(q, 1, c->command);
    query_int(q, 2, due_ms);
    work_mark_written(w);
    return query_run(q, NULL, err);
}

/* Its time begins now. */
static int begin(struct work *w, struct command *c, struct err *err)
{
    c->since_ms = w->now_ms;
    c->look_ms = command_due_ms(w, c);
    w->next_look_ms = MIN(w->next_look_ms, c->look_ms);
    struct query *q = store_query(w->store, SQL_COMMAND_BEGIN);
    query_int(q, 1, c->command);
    query_int(q, 2, c->since_ms);
    query_int(q, 3, c->look_ms);
    query_int(q, 4, c->sends);
    work_mark_written(w);
    return query_run(q, NULL, err);
}

/* ---- giving orders ---- */

static int insert(struct work *w, const char *type, int64_t conversation, struct str role,
                  struct str kind, struct str machine, const char *spawn_id, const char *reason,
                  int64_t *ret, struct err *err)
{
    struct command c = {.machine = machine, .since_ms = w->now_ms};
    int64_t look_ms = command_due_ms(w, &c);
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
    query_int(q, 10, look_ms);
    work_mark_written(w);
    w->next_look_ms = MIN(w->next_look_ms, look_ms);
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

static void write_command(const struct work *w, const struct command *c, struct json_out *out)
{
    json_object(out, NULL);
    json_int(out, "command", c->command);
    json_string(out, "type", c->type);
    json_int(out, "conversation", c->conversation);
    json_string(out, "role", c->role);
    json_string(out, "kind", c->kind);
    json_string(out, "machine", c->machine);
    json_string(out, "spawnId", c->spawn_id);
    json_string(out, "status", c->status);
    json_string(out, "reason", c->reason);
    json_time(out, "createdAt", c->created_ms);
    json_time(out, "deadline", deadline_ms(w, c));
    if (c->closed_ms)
        json_time(out, "closedAt", c->closed_ms);
    else
        json_null(out, "closedAt");
    json_string(out, "outcome", c->outcome);
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
        struct command c = from_row(w, q);
        last = c.command;
        write_command(w, &c, out);
    }
    json_end(out);
    return r;
}

/* ---- handing over ---- */

int command_assign(struct work *w, int64_t command, struct str machine, struct err *err)
{
    struct command c;
    struct query *q = store_query(w->store, SQL_COMMAND_ASSIGN);
    query_int(q, 1, command);
    query_text(q, 2, machine);
    work_mark_written(w);
    int r = query_run(q, NULL, err);
    if (r == 0)
        r = command_get(w, command, &c, err);
    return r < 0 ? r : begin(w, &c, err); /* until now nobody could have done it */
}

int command_send_again(struct work *w, struct command *c, struct err *err)
{
    struct query *q = store_query(w->store, SQL_COMMAND_TO_SEND);
    query_int(q, 1, c->command);
    work_mark_written(w);
    c->sends++;
    int r = query_run(q, NULL, err);
    return r < 0 ? r : begin(w, c, err);
}

int command_rest(struct work *w, struct command *c, struct err *err)
{
    c->sends = STOP_SENDS_MAX;
    return begin(w, c, err);
}

int commands_expire_on(struct work *w, struct str machine, const char *outcome, struct err *err)
{
    struct query *q = store_query(w->store, SQL_COMMAND_EXPIRE_ON);
    query_text(q, 1, machine);
    query_int(q, 2, w->now_ms);
    query_text(q, 3, str_of(outcome));
    work_mark_written(w);
    return query_run(q, NULL, err);
}

int command_give_up(struct work *w, const char *spawn_id, const char *reason, struct err *err)
{
    struct query *q = store_query(w->store, SQL_COMMAND_GIVE_UP);
    query_text(q, 1, str_of(spawn_id));
    query_int(q, 2, w->now_ms);
    work_mark_written(w);
    int r = query_run(q, NULL, err);
    if (r < 0)
        return r;
    q = store_query(w->store, SQL_COMMAND_CLOSE_STOP);
    query_text(q, 1, str_of(spawn_id));
    query_text(q, 2, str_of(reason));
    query_int(q, 3, w->now_ms);
    return query_run(q, NULL, err);
}

static int list_open(struct work *w, struct str machine, int64_t after, bool again, size_t limit,
                     struct command *ret, size_t *ret_count, struct err *err)
{
    struct query *q = store_query(w->store, SQL_COMMAND_OPEN_ON_MACHINE);
    query_text(q, 1, machine);
    query_int(q, 2, after);
    query_int(q, 3, (int64_t)limit);
    query_int(q, 4, again);
    int r;
    *ret_count = 0;
    while ((r = query_step(q, err)) == STORE_ROW) {
        ret[(*ret_count)++] = from_row(w, q);
    }
    return r;
}

int commands_begin_on(struct work *w, struct str machine, struct err *err)
{
    enum { PAGE_ROWS = 64 };
    struct command page[PAGE_ROWS];
    int64_t after = 0;
    size_t n = PAGE_ROWS;
    int r = 0;
    while (r == 0 && n == PAGE_ROWS) {
        r = list_open(w, machine, after, true, PAGE_ROWS, page, &n, err);
        for (size_t i = 0; r == 0 && i < n; i++) {
            after = page[i].command;
            page[i].sends = 0;
            r = begin(w, &page[i], err);
        }
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
    a->is_fenced = a->has_delivered = false;
    return agent_store(w, a, "start_delivered", err);
}

int commands_deliver(struct work *w, struct str machine, bool again, size_t limit,
                     struct command **ret, size_t *ret_count, struct err *err)
{
    struct command *list = arena_alloc(&w->arena, (limit + 1) * sizeof *list);
    int r = list_open(w, machine, 0, again, limit, list, ret_count, err);
    for (size_t i = 0; r == 0 && i < *ret_count; i++) {
        if (str_is(list[i].status, "booting")) /* it has said that it has it */
            continue;
        r = mark_delivered(w, list[i].command, machine, err);
        if (r == 0 && !command_is_stop(&list[i]))
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
    json_time(out, "deadline", deadline_ms(w, c));
    json_string(out, "reason", c->reason);
    json_stringz(out, "status", str_is(c->status, "pending") ? "delivered" : c->status.p);
    json_int(out, "ttlMs", MAX(deadline_ms(w, c) - w->now_ms, INT64_C(0)));
    if (c->token[0])
        json_stringz(out, "token", c->token);
    json_end(out);
}
