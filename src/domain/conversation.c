/* conversation.c: see conversation.h. */
#include "domain/conversation.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/fail_point.h"
#include "base/mem.h"
#include "base/planted.h"
#include "domain/agent.h"
#include "domain/process.h"
#include "domain/start.h"
#include "domain/append.h"
#include "domain/command.h"
#include "domain/guidance.h"
#include "domain/inbox.h"
#include "domain/log_index.h"
#include "domain/task.h"
#include "domain/work.h"

enum { META_BYTES_MAX = 64 << 20 }; /* far above any request: net.body_bytes_max */

/* ---- create ---- */

static int insert_agent(struct work *w, int64_t conversation, int64_t position,
                        const struct agent_spec *agent, struct err *err)
{
    struct query *q = store_query(w->store, SQL_AGENT_INSERT);
    query_int(q, 1, conversation);
    query_text(q, 2, agent->role);
    query_int(q, 3, position);
    query_text(q, 4, agent->kind);
    query_text(q, 5, agent->machine);
    query_text(q, 6, agent->desired);
    return query_run(q, NULL, err);
}

static void write_agent(struct json_out *j, const struct agent_spec *agent)
{
    json_object(j, NULL);
    json_string(j, "role", agent->role);
    if (agent->kind.p)
        json_string(j, "kind", agent->kind);
    if (agent->machine.p)
        json_string(j, "machine", agent->machine);
    json_string(j, "desired", agent->desired);
    json_end(j);
}

/* The members conversation.get shows as they were given have fixed places: see write_meta(). */
static void write_meta_data(struct json_out *j, const struct conversation_spec *spec)
{
    json_object(j, NULL);
    if (spec->title.p)
        json_string(j, "title", spec->title);
    json_array(j, "agents");
    for (size_t i = 0; i < spec->agent_count; i++)
        write_agent(j, &spec->agents[i]);
    json_end(j);
    if (spec->settings.starting_role[0])
        json_stringz(j, "startingRole", spec->settings.starting_role);
    json_int(j, "maxTurns", spec->settings.max_turns);
    if (spec->runtime_controls)
        json_value(j, "runtime_controls", spec->runtime_controls);
    if (spec->watchdog)
        json_value(j, "watchdog", spec->watchdog);
    if (spec->metadata)
        json_value(j, "metadata", spec->metadata);
    json_end(j);
}

static int append_meta(struct work *w, int64_t conversation, const struct conversation_spec *spec,
                       struct err *err)
{
    _cleanup_buf_ struct buf data = BUF_INIT(META_BYTES_MAX);
    struct json_out j = JSON_OUT(&data);
    write_meta_data(&j, spec);
    struct event e;
    return append_system(w, conversation, "system-orchestrator", "meta_created", buf_str(&data),
                         NULL, &e, err);
}

int conversation_create(struct work *w, const struct conversation_spec *spec, int64_t *ret,
                        struct err *err)
{
    struct head *h;
    int r = head_create(w, &spec->settings, &h, err);
    for (size_t i = 0; r == 0 && i < spec->agent_count; i++)
        r = insert_agent(w, h->conversation, (int64_t)i, &spec->agents[i], err);
    if (r == 0)
        r = append_meta(w, h->conversation, spec, err);
    if (r == 0)
        r = head_watch(w, h, err);
    if (r == 0)
        r = agents_ensure_desired(w, h->conversation, "conversation_created", err);
    if (r == 0)
        r = guidance_publish(w, h, err);
    if (r == 0)
        *ret = h->conversation;
    return r;
}

int conversation_ensure_server_log(struct work *w, struct err *err)
{
    struct head *h;
    struct err found = ERR_INIT;
    int r = head_get(w, 0, &h, &found);
    if (r < 0 && r != -ERR_NOT_FOUND)
        *err = found;
    if (r != -ERR_NOT_FOUND)
        return r;
    const struct conversation_spec spec = {
        .title = STR("server"),
        .settings = {.session_wall_clock_seconds = 0, .watchdog_disabled = true},
    };
    w->last.conversation = -1; /* the next number is 0 */
    int64_t number;
    r = conversation_create(w, &spec, &number, err);
    REQUIRE(r < 0 || number == 0);
    return r;
}

/* ---- read ---- */

/* Its row cannot be read; the others can. */
static int write_damaged_agent(struct json_out *out, struct str role)
{
    json_object(out, NULL);
    json_string(out, "role", role);
    json_stringz(out, "view", "unknown");
    json_end(out);
    return 0;
}

static int write_agents(struct work *w, int64_t conversation, struct json_out *out, struct err *err)
{
    struct agent_role *roles;
    int r = agent_roles(w, conversation, &roles, err);
    json_array(out, "agents");
    for (struct agent_role *role = roles; r == 0 && role; role = role->next) {
        struct agent *a;
        r = agent_get(w, conversation, role->name, &a, err);
        if (r == 0)
            agent_write(out, a);
        else if (r == -ERR_INTERNAL)
            r = write_damaged_agent(out, role->name);
    }
    json_end(out);
    return r;
}

/* A member of meta_created's data, as it was given; null if absent. */
static void write_meta(struct json_out *out, const struct json *data, const char *key)
{
    const struct json *v = json_get(data, key);
    if (v)
        json_value(out, key, v);
    else
        json_null(out, key);
}

static int read_meta(struct work *w, int64_t conversation, const struct json **ret, struct err *err)
{
    struct event first;
    int r = log_get(w, conversation, 1, &first, err);
    if (r < 0)
        return r;
    if (r == STORE_DONE)
        return err_set(err, ERR_INTERNAL, "conversation %lld has no first event",
                       (long long)conversation);
    const struct json *event;
    r = json_parse(&w->arena, first.payload, JSON_DEPTH_MAX, &event, err);
    if (r < 0)
        return err_set(err, ERR_INTERNAL, "the first event of conversation %lld is damaged",
                       (long long)conversation);
    *ret = json_get(event, "data");
    return 0;
}

static void write_head(struct json_out *out, const struct head *h)
{
    json_object(out, "head");
    json_int(out, "lastTurn", h->last_turn);
    json_int(out, "lastClosedSeq", h->last_closed_seq);
    json_bool(out, "hasOpenTurn", h->turn_is_open);
    json_int(out, "lastSeq", h->last_seq);
    if (h->turn_is_open && !h->turn_is_cleared)
        json_stringz(out, "turnOwner", h->turn_owner);
    else
        json_null(out, "turnOwner");
    json_end(out);
}

static void write_runtime_controls(struct work *w, struct json_out *out, const struct head *h)
{
    int64_t seconds = rule_limit(RULE_WALL_CLOCK, w->options, h) / 1000;
    json_object(out, "runtime_controls");
    json_int(out, "session_wall_clock_seconds", seconds);
    json_end(out);
}

int conversation_write_members(struct work *w, int64_t conversation, struct json_out *out,
                               struct err *err)
{
    struct head *h;
    const struct json *meta = NULL;
    int r = head_get(w, conversation, &h, err);
    if (r == 0)
        r = read_meta(w, conversation, &meta, err);
    if (r < 0)
        return r;
    json_int(out, "conversation", conversation);
    json_stringz(out, "status", conversation_status_name(h->status));
    json_stringz(out, "outcome", outcome_name(h->outcome));
    json_stringz(out, "stop_reason_code", stop_reason_name(h->stop_reason));
    write_head(out, h);
    r = write_agents(w, conversation, out, err);
    write_meta(out, meta, "title");
    write_meta(out, meta, "startingRole");
    json_int(out, "maxTurns", h->max_turns);
    write_meta(out, meta, "metadata");
    write_runtime_controls(w, out, h);
    write_meta(out, meta, "watchdog");
    json_int(out, "window", h->window);
    json_time(out, "windowStartedAt", h->window_started_ms);
    json_time(out, "createdAt", h->created_ms);
    json_time(out, "updatedAt", h->updated_ms);
    return r;
}

/* ---- end ---- */

static enum stop_reason reason_of(enum outcome outcome)
{
    switch (outcome) {
    case OUTCOME_COMPLETED:
        return STOP_COMPLETED;
    case OUTCOME_FAILED:
        return STOP_FAILED;
    case OUTCOME_CANCELED:
        return STOP_CANCELED_BY_USER;
    case OUTCOME_NONE:
    case OUTCOME_COUNT:
        break;
    }
    REQUIRE(!"an outcome");
    return STOP_REASON_NONE;
}

/* Nothing follows a terminal message, so it is the last event. */
static int terminal_event(struct work *w, const struct head *h, struct event *ret, struct err *err)
{
    int r = log_get(w, h->conversation, h->last_seq, ret, err);
    if (r < 0)
        return r;
    return r == STORE_ROW ? 0
                          : err_set(err, ERR_INTERNAL, "conversation %lld lacks its last event",
                                    (long long)h->conversation);
}

static struct str end_payload(struct work *w, const struct conversation_end *end)
{
    struct buf b = BUF_INIT(META_BYTES_MAX);
    struct json_out j = JSON_OUT(&b);
    json_object(&j, NULL);
    json_string(&j, "text", end->text);
    json_object(&j, "outcome");
    json_stringz(&j, "status", outcome_name(end->outcome));
    if (end->reason.p)
        json_string(&j, "reason", end->reason);
    json_end(&j);
    json_end(&j);
    struct str payload = arena_str(&w->arena, buf_str(&b));
    buf_release(&b);
    return payload;
}

int conversation_end(struct work *w, int64_t conversation, const struct conversation_end *end,
                     struct event *ret, struct err *err)
{
    struct head *h;
    int r = head_get(w, conversation, &h, err);
    if (r < 0)
        return r;
    if (h->status == CONVERSATION_COMPLETED && h->outcome == end->outcome)
        return terminal_event(w, h, ret, err);
    const struct append a = {.conversation = conversation,
                             .agent_id = end->author,
                             .finality = FINALITY_CONVERSATION,
                             .payload = end_payload(w, end),
                             .precondition_closed_seq = -1,
                             .outcome = end->outcome,
                             .stop_reason = reason_of(end->outcome),
                             .is_from_above = true};
    return append_message(w, &a, ret, err);
}

/* ---- agents that come and go ---- */

int conversation_add_agent(struct work *w, int64_t conversation, struct str role,
                           struct agent **ret, struct err *err)
{
    const struct agent_spec spec = {.role = role, .desired = STR("auto")};
    struct query *q = store_query(w->store, SQL_AGENT_LAST_POSITION);
    query_int(q, 1, conversation);
    int r = query_one(q, err);
    if (r < 0)
        return r;
    int64_t position = query_is_null(q, 0) ? 0 : query_get_int(q, 0) + 1;
    query_end(q);
    if (position >= CONVERSATION_AGENTS_MAX)
        return err_set(err, ERR_TOO_LARGE, "a conversation has at most %d agents",
                       CONVERSATION_AGENTS_MAX);
    work_mark_written(w);
    r = insert_agent(w, conversation, position, &spec, err);
    return r < 0 ? r : agent_get(w, conversation, role, ret, err);
}

int conversation_remove_agent(struct work *w, struct agent *a, bool force, struct err *err)
{
    int r = tasks_cancel_of(w, a, STOP_AGENT_REMOVED, err);
    if (r == 0)
        r = inbox_skip_open(w, a->conversation, str_of(a->role), err);
    if (r < 0)
        return r;
    agent_edit(w, a);
    a->desired = DESIRED_STOPPED;
    a->is_listening = false;
    a->is_removed = true;
    r = agent_stop(w, a, "agent_removed", err);
    if (r < 0 || !agent_is_beyond_reach(w, a, force))
        return r;
    return agent_give_up_process(w, a, "agent_removed", err);
}

/* ---- block, resume ---- */

static struct str cancel_data(struct work *w, const struct head *h, int64_t budget_seconds)
{
    char started[CLOCK_ISO_BYTES], fired[CLOCK_ISO_BYTES];
    clock_iso(h->window_started_ms, started);
    clock_iso(w->now_ms, fired);
    return arena_printf(
        &w->arena,
        "{\"aggregate_type\":\"runtime_control\",\"aggregate_id\":\"%lld\","
        "\"event_kind\":\"runtime.watchdog.cancel\",\"reason\":\"wall_clock_exceeded\","
        "\"session_started_at\":\"%s\",\"fired_at\":\"%s\",\"elapsed_seconds\":%lld,"
        "\"configured_budget_seconds\":%lld,\"window\":%lld}",
        (long long)h->conversation, started, fired,
        (long long)((w->now_ms - h->window_started_ms) / 1000), (long long)budget_seconds,
        (long long)h->window);
}

int conversation_block(struct work *w, struct head *h, int64_t budget_seconds, struct err *err)
{
    char once[64];
    struct event e;
    REQUIRE(h->status == CONVERSATION_ACTIVE);
    snprintf(once, sizeof once, "wall_clock:%lld", (long long)h->window);
    int r = append_system(w, h->conversation, "system-watchdog", "runtime.watchdog.cancel",
                          cancel_data(w, h, budget_seconds), once, &e, err);
    fail_point(FAIL_WITHIN_MOVE);
    if (r == 0)
        r = tasks_block(w, h->conversation, err);
    if (r == 0)
        r = agents_touch(w, h->conversation, err);
    if (r == 0)
        r = commands_fail_open_starts(w, h->conversation, "conversation_blocked", err);
    if (r < 0)
        return r;
    h->status = CONVERSATION_BLOCKED;
    h->stop_reason = STOP_WALL_CLOCK;
    h->blocked_ms = w->now_ms;
    r = head_write_state(w, h, err);
    return r < 0 ? r : work_note_move(w, h->conversation, &e, rule_name(RULE_WALL_CLOCK), err);
}

static int append_resumed(struct work *w, const struct head *h, int64_t blocked_ms, struct err *err)
{
    char started[CLOCK_ISO_BYTES];
    clock_iso(h->window_started_ms, started);
    struct str data =
        arena_printf(&w->arena,
                     "{\"window\":%lld,\"window_started_at\":\"%s\",\"blocked_seconds\":%lld,"
                     "\"configured_budget_seconds\":%lld}",
                     (long long)h->window, started, (long long)(blocked_ms / 1000),
                     (long long)(rule_limit(RULE_WALL_CLOCK, w->options, h) / 1000));
    struct event e;
    int r = append_system(w, h->conversation, "system-orchestrator", "runtime.resumed", data, NULL,
                          &e, err);
    return r < 0 ? r : work_note_move(w, h->conversation, &e, "conversation.resume", err);
}

static int check_blocked(const struct head *h, struct err *err)
{
    if (h->status == CONVERSATION_BLOCKED)
        return 0;
    if (h->status == CONVERSATION_COMPLETED || h->conversation == 0)
        return head_check_active(h, err);
    err_set(err, ERR_INVALID_TRANSITION, "conversation %lld is active; only a blocked one resumes",
            (long long)h->conversation);
    err_str(err, "from", STR("active"));
    err_str(err, "trigger", STR("resume"));
    return err_json(err, "allowed", STR("[\"end\"]"));
}

int conversation_resume(struct work *w, int64_t conversation, int64_t budget_seconds,
                        struct err *err)
{
    struct head *h;
    int r = head_get(w, conversation, &h, err);
    if (r == 0)
        r = check_blocked(h, err);
    if (r < 0)
        return r;
    int64_t blocked_ms = w->now_ms - h->blocked_ms;
    head_edit(w, h);
    h->status = CONVERSATION_ACTIVE;
    h->stop_reason = STOP_REASON_NONE;
    h->blocked_ms = 0;
    h->notice_given = false;
    h->window++;
    if (!planted(BUDGET_TWICE))
        h->window_started_ms = w->now_ms;
    if (budget_seconds != LIMIT_DEFAULT)
        h->session_wall_clock_seconds = budget_seconds;
    r = append_resumed(w, h, blocked_ms, err);
    if (r == 0)
        r = head_write_state(w, h, err);
    if (r == 0)
        r = tasks_resume(w, conversation, w->now_ms - blocked_ms, err);
    if (r == 0)
        r = agents_ensure_desired(w, conversation, "conversation_resumed", err);
    if (r == 0)
        r = guidance_publish(w, h, err);
    return r;
}
