/* agent.c: see agent.h. */
#include "domain/agent.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/names.h"
#include "domain/append.h"
#include "domain/command.h"
#include "domain/work.h"

static const char *const desired_names[] = {
#define X(name, text) [DESIRED_##name] = text,
    AGENT_DESIRED_LIST(X)
#undef X
};
_Static_assert(ARRAY_LEN(desired_names) == DESIRED_COUNT, "a name for each wish");

static const char *const view_names[] = {
#define X(name, text) [VIEW_##name] = text,
    AGENT_VIEW_LIST(X)
#undef X
};
_Static_assert(ARRAY_LEN(view_names) == VIEW_COUNT, "a name for each view");

const char *agent_view_name(enum agent_view view)
{
    return view_names[view];
}

const char *agent_desired_name(enum agent_desired desired)
{
    return desired_names[desired];
}

/* ---- reading ---- */

static int from_row(struct query *q, int64_t conversation, struct agent *ret, struct err *err)
{
    *ret = (struct agent){.conversation = conversation, .is_ensured = query_get_int(q, 4) != 0};
    snprintf(ret->role, sizeof ret->role, "%.*s", STR_ARG(query_get_text(q, 0)));
    snprintf(ret->kind, sizeof ret->kind, "%.*s", STR_ARG(query_get_text(q, 1)));
    snprintf(ret->machine, sizeof ret->machine, "%.*s", STR_ARG(query_get_text(q, 2)));
    int desired = names_find(desired_names, DESIRED_COUNT, query_get_text(q, 3)),
        view = names_find(view_names, VIEW_COUNT, query_get_text(q, 5));
    ret->is_damaged = desired < 0 || view < 0;
    if (ret->is_damaged)
        return err_set(err, ERR_INTERNAL, "agent %lld:%s is damaged", (long long)conversation,
                       ret->role);
    ret->desired = (enum agent_desired)desired;
    ret->view = (enum agent_view)view;
    return 0;
}

int agent_get(struct work *w, int64_t conversation, struct str role, struct agent *ret,
              struct err *err)
{
    struct query *q = store_query(w->store, SQL_AGENT_GET);
    query_int(q, 1, conversation);
    query_text(q, 2, role);
    int r = query_one(q, err);
    if (r < 0)
        return r;
    if (r == STORE_DONE) {
        err_set(err, ERR_NOT_FOUND, "conversation %lld has no agent %.*s", (long long)conversation,
                STR_ARG(role));
        err_str(err, "what", STR("agent"));
        return err_str(err, "id", role);
    }
    r = from_row(q, conversation, ret, err);
    query_end(q);
    return r;
}

int agents_get(struct work *w, int64_t conversation, struct agent **ret, size_t *ret_count,
               struct err *err)
{
    size_t n = 0, room = 4;
    struct agent *list = arena_alloc(&w->arena, room * sizeof *list);
    struct query *q = store_query(w->store, SQL_AGENT_LIST);
    query_int(q, 1, conversation);
    int r;
    while ((r = query_step(q, err)) == STORE_ROW) {
        if (n == room) {
            struct agent *larger = arena_alloc(&w->arena, 4 * room * sizeof *list);
            memcpy(larger, list, n * sizeof *list);
            list = larger;
            room *= 4;
        }
        from_row(q, conversation, &list[n++], NULL); /* one that is damaged hides nobody */
    }
    *ret = list;
    *ret_count = n;
    return r;
}

void agent_write(struct json_out *out, const struct agent *a)
{
    json_object(out, NULL);
    json_stringz(out, "role", a->role);
    json_stringz(out, "kind", a->kind[0] ? a->kind : NULL);
    json_stringz(out, "machine", a->machine[0] ? a->machine : NULL);
    json_stringz(out, "desired", a->is_damaged ? NULL : desired_names[a->desired]);
    json_stringz(out, "view", a->is_damaged ? "unknown" : view_names[a->view]);
    json_end(out);
}

/* ---- changing ---- */

static int write_row(struct work *w, const struct agent *a, struct err *err)
{
    struct query *q = store_query(w->store, SQL_AGENT_UPDATE);
    query_int(q, 1, a->conversation);
    query_text(q, 2, str_of(a->role));
    query_text(q, 3, str_of(desired_names[a->desired]));
    query_int(q, 4, a->is_ensured);
    query_text(q, 5, str_of(view_names[a->view]));
    work_mark_written(w);
    return query_run(q, NULL, err);
}

/* To the conversation's log; to the server's if that has ended. */
static int append_state(struct work *w, const struct agent *a, const char *reason, struct err *err)
{
    struct head *h;
    int r = head_get(w, a->conversation, &h, err);
    if (r < 0)
        return r;
    int64_t log = h->status == CONVERSATION_COMPLETED ? 0 : a->conversation;
    struct str data = arena_printf(&w->arena,
                                   "{\"agent\":\"%lld:%s\",\"conversation\":%lld,\"status\":\"%s\","
                                   "\"reason\":\"%s\",\"epoch\":0}",
                                   (long long)a->conversation, a->role, (long long)a->conversation,
                                   view_names[a->view], reason);
    struct event e;
    r = append_system(w, log, "system-lifecycle", "agent.state", data, NULL, &e, err);
    return r < 0 ? r : work_note_move(w, a->conversation, &e, "lifecycle", err);
}

static int set_view(struct work *w, struct agent *a, enum agent_view view, const char *reason,
                    struct err *err)
{
    bool changes = a->view != view;
    a->view = view;
    int r = write_row(w, a, err);
    return r < 0 || !changes ? r : append_state(w, a, reason, err);
}

static struct str machine_of(const struct agent *a)
{
    return a->machine[0] ? str_of(a->machine) : STR_NONE;
}

int agent_ensure(struct work *w, struct agent *a, const char *reason, struct err *err)
{
    struct starts starts;
    int64_t command;
    a->is_ensured = true;
    if (!a->kind[0])
        return write_row(w, a, err);
    int r = command_starts(w, a->conversation, str_of(a->role), &starts, err);
    if (r == 0 && !starts.open)
        r = command_start(w, a->conversation, str_of(a->role), str_of(a->kind), machine_of(a),
                          starts.spawn_id[0] != '\0', reason, &command, err);
    return r < 0 ? r : set_view(w, a, VIEW_STARTING, reason, err);
}

int agent_stop(struct work *w, struct agent *a, const char *reason, struct err *err)
{
    struct starts starts;
    int64_t command;
    a->is_ensured = false;
    int r = command_starts(w, a->conversation, str_of(a->role), &starts, err);
    if (r == 0 && starts.open)
        r = command_fail(w, starts.open, reason, err);
    if (r < 0)
        return r;
    if (!starts.spawn_id[0])
        return set_view(w, a, VIEW_STOPPED, reason, err);
    r = command_stop(w, a->conversation, str_of(a->role), str_of(a->kind), machine_of(a),
                     starts.spawn_id, reason, &command, err);
    return r < 0 ? r : set_view(w, a, VIEW_STOPPING, reason, err);
}

int agents_ensure_desired(struct work *w, int64_t conversation, const char *reason, struct err *err)
{
    struct agent *list;
    size_t count;
    int r = agents_get(w, conversation, &list, &count, err);
    for (size_t i = 0; r == 0 && i < count; i++)
        if (list[i].desired == DESIRED_RUNNING && !list[i].is_damaged)
            r = agent_ensure(w, &list[i], reason, err);
    return r;
}
