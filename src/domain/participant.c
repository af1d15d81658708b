/* participant.c: see participant.h. */
#include "domain/participant.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/planted.h"
#include "domain/agent.h"
#include "domain/append.h"
#include "domain/head.h"
#include "domain/inbox.h"
#include "domain/process.h"
#include "domain/start.h"
#include "domain/task.h"
#include "domain/tool.h"
#include "domain/work.h"

static const char *const wait_names[] = {
#define X(name, text) [WAIT_##name] = text,
    WAIT_LIST(X)
#undef X
};
_Static_assert(ARRAY_LEN(wait_names) == WAIT_STATUS_COUNT, "a name for each answer");

const char *wait_status_name(enum wait_status status)
{
    return wait_names[status];
}

static int find(struct work *w, int64_t conversation, struct str role, struct head **ret_head,
                struct agent **ret, struct err *err)
{
    int r = head_get(w, conversation, ret_head, err);
    return r < 0 ? r : agent_get(w, conversation, role, ret, err);
}

int participant_join(struct work *w, int64_t conversation, struct str role, struct str connection,
                     struct str spawn, struct agent **ret, bool *ret_superseded, struct err *err)
{
    struct head *h;
    struct agent *a;
    int r = find(w, conversation, role, &h, &a, err);
    if (r == 0)
        r = head_check_active(h, err);
    if (r < 0)
        return r;
    agent_edit(w, a);
    *ret = a;
    *ret_superseded = agent_is_attended(w, a) && !str_is(connection, a->connection);
    snprintf(a->connection, sizeof a->connection, "%.*s", STR_ARG(connection));
    snprintf(a->listener_spawn, sizeof a->listener_spawn, "%.*s", STR_ARG(spawn));
    a->is_listening = true;
    agent_beat(w, a);
    work_touch(w, agent_key_of(conversation, str_of(a->role)));
    r = agent_store(w, a, "joined", err);
    return r < 0 ? r : process_joined(w, a, spawn, err);
}

/* ---- heartbeat ---- */

static bool listens(const struct work *w, const struct agent *a, struct str connection)
{
    return agent_is_attended(w, a) &&
           (str_is(connection, a->connection) || planted(OLD_CONNECTION_BEATS));
}

static bool is_in_hand(const struct task *t)
{
    return t->status == TASK_ACKNOWLEDGED || t->status == TASK_IN_PROGRESS ||
           t->status == TASK_SUSPENDED;
}

static uint64_t hash_of(const struct json *v)
{
    _cleanup_buf_ struct buf text = BUF_INIT(1 << 20);
    json_write_value(&text, v);
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < text.len; i++)
        hash = (hash ^ (unsigned char)text.data[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* A value that changed is progress; the same one again is only a sign of life. */
static int note_progress(struct work *w, struct task *t, const struct json *progress,
                         struct err *err)
{
    uint64_t hash = progress ? hash_of(progress) : t->progress_hash;
    if (hash == t->progress_hash || t->status != TASK_IN_PROGRESS)
        return 0;
    task_edit(w, t);
    t->progress_hash = hash;
    return task_note_progress(w, t, err);
}

/* The agent's task of this number, 0: its active one. *ret is NULL if it has no such task. */
static int find_own(struct work *w, const struct agent *a, int64_t task, struct task **ret,
                    struct err *err)
{
    struct task *t = NULL;
    int64_t number = task ? task : a->active_task;
    int r = number ? task_get(w, number, &t, err) : 0;
    if (r < 0 && r != -ERR_NOT_FOUND)
        return r;
    bool is_its_own =
        r == 0 && t && t->conversation == a->conversation && str_is(str_of(t->role), a->role);
    *ret = is_its_own ? t : NULL;
    return 0;
}

static int beat_task(struct work *w, const struct agent *a, const struct heartbeat *b,
                     bool *ret_is_renewed, struct json_out *out, struct err *err)
{
    struct task *t;
    int r = find_own(w, a, b->task, &t, err);
    if (r < 0)
        return r;
    if (!t || !is_in_hand(t) || t->epoch != b->epoch) {
        json_bool(out, "staleEpoch", true);
        if (t)
            json_int(out, "epoch", t->epoch);
        else
            json_int(out, "epoch", a->turn_epoch);
        return 0;
    }
    task_beat(w, t);
    *ret_is_renewed = true;
    json_time(out, "activeUntil", task_active_until_ms(w, t));
    r = b->note.p ? task_store_note(w, t, b->note, err) : 0;
    return r < 0 ? r : note_progress(w, t, b->progress, err);
}

static bool should_stop(const struct head *h, const struct agent *a)
{
    return h->status != CONVERSATION_ACTIVE || a->desired == DESIRED_STOPPED;
}

int participant_heartbeat(struct work *w, const struct heartbeat *b, struct json_out *out,
                          struct err *err)
{
    struct head *h;
    struct agent *a;
    int r = find(w, b->conversation, b->role, &h, &a, err);
    if (r < 0)
        return r;
    bool is_listener = listens(w, a, b->connection) && h->status != CONVERSATION_COMPLETED;
    bool is_superseded = agent_is_attended(w, a) && !str_is(b->connection, a->connection);
    bool is_of_work = (b->epoch >= 0 || b->task) && h->status != CONVERSATION_COMPLETED;
    bool is_work_renewed = false;
    if (is_listener)
        agent_beat(w, a);
    json_stringz(out, "status",
                 is_listener                                            ? "ok"
                 : is_superseded && h->status != CONVERSATION_COMPLETED ? "superseded"
                                                                        : "rejoin_required");
    if (is_listener)
        json_time(out, "readyUntil", agent_ready_until_ms(w, a));
    if (should_stop(h, a))
        json_stringz(out, "directive", "stop");
    r = is_of_work ? beat_task(w, a, b, &is_work_renewed, out, err) : 0;
    json_object(out, "renewed");
    json_bool(out, "listener", is_listener);
    json_bool(out, "work", is_work_renewed);
    json_end(out);
    return r;
}

/* ---- the end of a lease ---- */

int participant_end(struct work *w, struct agent *a, const char *reason, struct err *err)
{
    agent_edit(w, a);
    a->is_listening = false;
    a->look_ms = INT64_MAX;
    a->listener_spawn[0] = '\0';
    work_touch(w, agent_key_of(a->conversation, str_of(a->role)));
    int r = agent_store(w, a, reason, err);
    if (r == 0 && a->desired == DESIRED_STOPPED)
        r = inbox_end_stop(w, a, INBOX_IS_CONSUMED, err); /* it has gone, as it was asked to */
    return r < 0 ? r : agent_look_at_work(w, a, err);
}

int participant_leave(struct work *w, int64_t conversation, struct str role, struct str connection,
                      struct err *err)
{
    struct head *h;
    struct agent *a;
    int r = find(w, conversation, role, &h, &a, err);
    if (r < 0 || !a->is_listening || !str_is(connection, a->connection))
        return r; /* of a superseded connection: no effect */
    r = participant_end(w, a, "left", err);
    if (r < 0 || a->active_task) /* it may be back for its work: task.unattended waits for it */
        return r;
    return agent_bring_up(w, a, "left", err); /* who left need not be its process */
}

int participant_expire(struct work *w, struct agent *a, struct err *err)
{
    struct head *h;
    char seen[CLOCK_ISO_BYTES];
    clock_iso(a->beat_ms, seen);
    long long ttl_ms = option_get(w->options, liveness, ttl_seconds) * 1000;
    struct str saw = arena_printf(&w->arena, "\"lastSeenAt\":\"%s\",\"ttlMs\":%lld,\"limit\":%lld",
                                  seen, ttl_ms, ttl_ms);
    int r = head_get(w, a->conversation, &h, err);
    if (r == 0)
        r = agent_note_rule(w, a, RULE_PARTICIPANT_EXPIRE, saw, err);
    if (r == 0)
        r = participant_end(w, a, "participant.expire", err);
    if (r == 0 && h->status == CONVERSATION_ACTIVE)
        r = agent_bring_up(w, a, "participant.expire", err); /* if work waits for it */
    return r;
}

/* ---- looking ---- */

int participant_watch_work(struct work *w, const struct agent *a, int64_t task, int64_t epoch,
                           enum wait_status *ret, struct err *err)
{
    struct head *h;
    struct task *t;
    int r = head_get(w, a->conversation, &h, err);
    if (r == 0)
        r = find_own(w, a, task, &t, err);
    if (r < 0)
        return r;
    if (h->status == CONVERSATION_COMPLETED)
        *ret = WAIT_ENDED;
    else if (!t || !is_in_hand(t) || t->epoch != epoch)
        *ret = WAIT_STALE;
    else
        *ret = should_stop(h, a) ? WAIT_STOP : WAIT_NONE;
    return 0;
}

int participant_look(struct work *w, int64_t conversation, struct str role, struct str connection,
                     bool is_whole, enum wait_status *ret, struct task **ret_task, struct err *err)
{
    struct head *h;
    struct agent *a;
    int r = find(w, conversation, role, &h, &a, err);
    if (r < 0)
        return r;
    *ret_task = NULL;
    if (h->status == CONVERSATION_COMPLETED)
        *ret = WAIT_ENDED;
    else if (agent_is_attended(w, a) && !str_is(connection, a->connection))
        *ret = WAIT_SUPERSEDED;
    else if (h->status == CONVERSATION_BLOCKED)
        *ret = WAIT_BLOCKED;
    else if (!agent_is_attended(w, a))
        *ret = WAIT_REJOIN_REQUIRED;
    else if (a->desired == DESIRED_STOPPED)
        *ret = WAIT_STOP;
    else
        *ret = WAIT_NONE;
    if (*ret != WAIT_NONE || !a->active_task)
        return 0;
    bool is_free = false;
    r = task_get(w, a->active_task, ret_task, err);
    if (r == 0)
        r = task_is_free(w, *ret_task, str_of(a->listener_spawn), &is_free, err);
    if (r == 0 && is_free)
        *ret = WAIT_TASK;
    if (r < 0 || (*ret_task)->status != TASK_SUSPENDED)
        return r;
    struct tools_summary s;
    r = tools_summarize(w, *ret_task, &s, err);
    if (r == 0 && (is_whole ? tools_are_settled(&s) : tools_may_resume(&s)))
        *ret = WAIT_RESUME;
    return r;
}

int participant_write(struct work *w, const struct agent *a, struct json_out *out, const char *key,
                      struct err *err)
{
    struct task *t = NULL;
    int r = a->active_task ? task_get(w, a->active_task, &t, err) : 0;
    if (r < 0)
        return r;
    bool is_working = t && task_is_worked_on(w, t);
    json_object(out, key);
    json_int(out, "conversation", a->conversation);
    json_stringz(out, "role", a->role);
    json_stringz(out, "status",
                 is_working                ? "active"
                 : agent_is_attended(w, a) ? "waiting"
                                           : "disconnected");
    json_stringz(out, "connectionId", a->connection[0] ? a->connection : NULL);
    if (a->is_listening)
        json_time(out, "readyUntil", agent_ready_until_ms(w, a));
    else
        json_null(out, "readyUntil");
    if (is_working)
        json_time(out, "activeUntil", task_active_until_ms(w, t));
    else
        json_null(out, "activeUntil");
    if (a->last_seen_ms)
        json_time(out, "lastSeenAt", a->last_seen_ms);
    else
        json_null(out, "lastSeenAt");
    json_end(out);
    return 0;
}
