/* command.c: see command.h. */
#include "domain/command.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/random.h"
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

static int insert(struct work *w, const char *type, int64_t conversation, struct str role,
                  struct str kind, struct str machine, const char *spawn_id, const char *reason,
                  int64_t *ret, struct err *err)
{
    int64_t deadline_ms =
        w->now_ms + option_get(w->options, restart, command_deadline_seconds) * 1000;
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

int command_stop(struct work *w, int64_t conversation, struct str role, struct str kind,
                 struct str machine, const char *spawn_id, const char *reason, int64_t *ret,
                 struct err *err)
{
    struct query *q = store_query(w->store, SQL_COMMAND_OPEN_STOP);
    query_text(q, 1, str_of(spawn_id));
    int r = query_one(q, err);
    if (r < 0)
        return r;
    if (r == STORE_ROW) {
        *ret = query_get_int(q, 0);
        query_end(q);
        return 0;
    }
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
