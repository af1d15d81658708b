/* why.c: see why.h. */
#include "watch/why.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "domain/agent.h"
#include "domain/head.h"
#include "domain/inbox.h"
#include "domain/log_index.h"
#include "domain/task.h"
#include "domain/tool.h"
#include "domain/work.h"
#include "watch/ladder.h"

/* Of the rules and people, and of the lifecycle: a hundred agents must not hide why they stopped.
 */
enum { MOVES_MAX = 100, TEXT_BYTES_MAX = 4096, INBOX_ROWS_MAX = 20 };

/* ---- evidence ---- */

static void write_evidence(struct work *w, struct json_out *out, const char *kind, struct str value,
                           int64_t since_ms, const char *source)
{
    json_object(out, NULL);
    json_stringz(out, "kind", kind);
    json_string(out, "value", value);
    if (since_ms)
        json_int(out, "ageMs", w->now_ms - since_ms);
    else
        json_null(out, "ageMs");
    json_stringz(out, "source", source);
    json_end(out);
}

static int write_last_event(struct work *w, const struct head *h, struct json_out *out,
                            struct err *err)
{
    struct event e;
    int r = log_get(w, h->conversation, h->last_seq, &e, err);
    if (r <= 0)
        return r;
    struct str value =
        arena_printf(&w->arena, "%s by %.*s, turn %lld, seq %lld", event_type_name(e.type),
                     STR_ARG(e.agent_id), (long long)e.turn, (long long)e.seq);
    write_evidence(w, out, "last_event", value, e.ts_ms, "log");
    return 0;
}

static struct str turn_text(struct work *w, const struct head *h)
{
    if (!h->turn_is_open)
        return arena_printf(&w->arena, "no turn is open; %lld so far", (long long)h->last_turn);
    if (h->turn_is_cleared)
        return arena_printf(&w->arena, "turn %lld is open and free to take",
                            (long long)h->last_turn);
    return arena_printf(&w->arena, "turn %lld is open, held by %s", (long long)h->last_turn,
                        h->turn_owner);
}

static int write_agents(struct work *w, const struct head *h, struct json_out *out, struct err *err)
{
    struct agent_role *roles;
    int r = agent_roles(w, h->conversation, &roles, err);
    for (struct agent_role *role = r == 0 ? roles : NULL; r == 0 && role; role = role->next) {
        struct agent *a;
        r = agent_get(w, h->conversation, role->name, &a, err);
        if (r < 0)
            break;
        struct str value =
            arena_printf(&w->arena, "%lld:%s is %s, desired %s%s", (long long)h->conversation,
                         a->role, agent_view_name(a->view), agent_desired_name(a->desired),
                         a->kind[0] ? "" : ", unmanaged");
        write_evidence(w, out, "agent", value, 0, "lifecycle");
    }
    return r;
}

static int write_all_evidence(struct work *w, const struct head *h, struct json_out *out,
                              struct err *err)
{
    int64_t unwatched_ms = gaps_within_ms(&w->gaps, rule_base_ms(RULE_IDLE, h), w->now_ms);
    json_array(out, "evidence");
    write_evidence(w, out, "status", str_of(conversation_status_name(h->status)),
                   h->status == CONVERSATION_BLOCKED     ? h->blocked_ms
                   : h->status == CONVERSATION_COMPLETED ? h->updated_ms
                                                         : h->window_started_ms,
                   "conversation");
    int r = write_last_event(w, h, out, err);
    if (h->last_turn > 0)
        write_evidence(w, out, "activity", STR("an agent or a person wrote"), h->last_activity_ms,
                       "log");
    else
        write_evidence(w, out, "activity", STR("nobody has written yet"), h->created_ms, "log");
    write_evidence(w, out, "turn", turn_text(w, h), 0, "log");
    write_evidence(w, out, "window", arena_printf(&w->arena, "window %lld", (long long)h->window),
                   h->window_started_ms, "conversation");
    if (unwatched_ms)
        write_evidence(w, out, "unwatched",
                       arena_printf(&w->arena, "%lld ms of the silence", (long long)unwatched_ms),
                       w->gaps.list[w->gaps.count - 1].to_ms, "watch.gap");
    if (r == 0)
        r = write_agents(w, h, out, err);
    json_end(out);
    return r;
}

/* ---- standing ---- */

/* The rule that put it where it is; RULE_COUNT: none did. */
static enum rule_id moved_by(const struct head *h)
{
    switch (h->stop_reason) {
    case STOP_IDLE_TIMEOUT:
        return RULE_IDLE;
    case STOP_GLOBAL_IDLE_TIMEOUT:
        return RULE_GLOBAL_IDLE;
    case STOP_MAX_TURNS:
        return RULE_MAX_TURNS;
    case STOP_WALL_CLOCK:
        return RULE_WALL_CLOCK;
    case STOP_REASON_NONE:
        return h->notice_given ? RULE_WALL_CLOCK_NOTICE : RULE_COUNT;
    default: /* somebody ended it */
        return RULE_COUNT;
    }
}

static void write_rule(struct json_out *out, enum rule_id rule)
{
    json_stringz(out, "rung", rule == RULE_COUNT ? NULL : rung_name(ladder_rules[rule].rung));
    json_stringz(out, "rule", rule == RULE_COUNT ? NULL : rule_name(rule));
}

static void write_standing(struct work *w, const struct head *h, struct json_out *out)
{
    int64_t due_ms;
    enum rule_id next = ladder_first_due(w->options, &w->gaps, h, &due_ms);
    json_array(out, "standing");
    json_object(out, NULL);
    json_string(out, "what",
                arena_printf(&w->arena, "conversation %lld", (long long)h->conversation));
    write_rule(out, moved_by(h));
    json_time(out, "since",
              h->status == CONVERSATION_ACTIVE    ? rule_base_ms(RULE_IDLE, h)
              : h->status == CONVERSATION_BLOCKED ? h->blocked_ms
                                                  : h->updated_ms);
    if (next == RULE_COUNT) {
        json_null(out, "next");
    } else {
        json_object(out, "next");
        write_rule(out, next);
        json_time(out, "dueAt", due_ms);
        json_end(out);
    }
    json_end(out);
    json_end(out);
}

/* Every rule that is counting, soonest first is the reader's business. */
static void write_clocks(struct work *w, const struct head *h, struct json_out *out)
{
    json_array(out, "clocks");
    for (enum rule_id rule = 0; rule < TIMED_RULE_COUNT; rule++) {
        int64_t due_ms = rule_due_ms(rule, w->options, &w->gaps, h);
        if (due_ms == NEVER_MS)
            continue;
        json_object(out, NULL);
        write_rule(out, rule);
        json_time(out, "since", rule_base_ms(rule, h));
        json_int(out, "limitMs", rule_limit(rule, w->options, h));
        json_int(out, "leftMs", MAX(due_ms - w->now_ms, INT64_C(0)));
        json_time(out, "dueAt", due_ms);
        json_end(out);
    }
    json_end(out);
}

/* ---- history ---- */

/* The last line that says something; the rest is in the log. */
static struct str last_line(struct str text)
{
    while (text.n && (text.p[text.n - 1] == '\n' || text.p[text.n - 1] == ' '))
        text.n--;
    const char *before = text.n ? memrchr(text.p, '\n', text.n) : NULL;
    return before ? str_skip(text, (size_t)(before + 1 - text.p)) : text;
}

static struct str tell_exit(struct work *w, struct str agent, const struct json *data)
{
    struct str text = json_get_text(data, "text"), words = last_line(json_get_text(data, "tail"));
    if (!text.n)
        text = arena_printf(&w->arena, "code %lld, signal %lld",
                            (long long)json_get_int(data, "code", 0),
                            (long long)json_get_int(data, "signal", 0));
    return arena_printf(&w->arena, "the process of %.*s has ended: %.*s%s%.*s%s", STR_ARG(agent),
                        STR_ARG(text), words.n ? "; its last words: \"" : "", STR_ARG(words),
                        words.n ? "\"" : "");
}

/* What happened to a tool call that a task waits for. */
static struct str tell_tool(struct work *w, struct str kind, const struct json *data,
                            struct str *reason)
{
    long long task = (long long)json_get_int(data, "task", 0),
              limit = (long long)json_get_int(data, "limit", 0);
    struct str id = json_get_text(data, "toolCallId"), name = json_get_text(data, "name");
    if (str_is(kind, "watch.tool.timeout")) {
        *reason = STR("tool_timeout");
        return arena_printf(&w->arena, "task %lld: tool call %.*s (%.*s) gave no result in %lld ms",
                            task, STR_ARG(id), STR_ARG(name), limit);
    }
    *reason = STR("resume_lease_over");
    return arena_printf(&w->arena,
                        "task %lld: the result of %.*s (%.*s) was taken and not applied in %lld ms",
                        task, STR_ARG(id), STR_ARG(name), limit);
}

/* What was done about a row of an inbox. */
static struct str tell_inbox(struct work *w, struct str kind, const struct json *data,
                             struct str *reason)
{
    static const struct {
        const char *kind, *what, *reason;
    } words[] = {
        {"watch.inbox.pending", "was rung for again", "nobody_took_it"},
        {"watch.inbox.processing", "was received and not consumed", "processing_timeout"},
        {"watch.dispatch.retry", "was announced again", "nobody_claimed_it"},
    };
    struct str did = json_get_text(data, "did");
    size_t i = 0;
    while (i + 1 < ARRAY_LEN(words) && !str_is(kind, words[i].kind))
        i++;
    *reason = did.n ? did : str_of(words[i].reason);
    return arena_printf(&w->arena, "%.*s %.*s in the inbox of %.*s %s",
                        STR_ARG(json_get_text(data, "messageType")),
                        STR_ARG(json_get_text(data, "correlationId")),
                        STR_ARG(json_get_text(data, "agent")), words[i].what);
}

/* What happened to a task, or to a process. */
static struct str tell_work(struct work *w, struct str kind, const struct json *data,
                            struct str *reason)
{
    struct str agent = json_get_text(data, "agent");
    long long task = (long long)json_get_int(data, "task", 0);
    *reason = kind;
    if (str_is(kind, "watch.tool.timeout") || str_is(kind, "watch.ledger.requeue"))
        return tell_tool(w, kind, data, reason);
    if (str_is(kind, "agent.task")) {
        *reason = json_get_text(data, "reason");
        return arena_printf(&w->arena, "task %lld of %.*s ended: %.*s", task, STR_ARG(agent),
                            STR_ARG(json_get_text(data, "status")));
    }
    if (str_is(kind, "agent.exited")) {
        const struct json *expected = data ? json_get(data, "expected") : NULL;
        *reason = expected && expected->type == JSON_BOOL && expected->boolean ? STR("asked_for")
                                                                               : STR("unasked");
        return tell_exit(w, agent, data);
    }
    if (str_is(kind, "watch.command.expired")) {
        *reason = STR("not_confirmed");
        return arena_printf(&w->arena, "%.*s of %.*s was not confirmed within %lld ms",
                            STR_ARG(json_get_text(data, "type")), STR_ARG(agent),
                            (long long)json_get_int(data, "limit", 0));
    }
    if (str_is(kind, "watch.agent.exited")) {
        *reason = STR("waited");
        return arena_printf(&w->arena, "%.*s is restarted after a wait of %lld ms", STR_ARG(agent),
                            (long long)json_get_int(data, "limit", 0));
    }
    if (str_is(kind, "watch.task.unattended")) {
        *reason = STR("nobody_listens");
        if (str_is(json_get_text(data, "reason"), "unmanaged"))
            return arena_printf(&w->arena,
                                "task %lld waits, nobody listens for %.*s, and nothing can be "
                                "started for it: it is unmanaged",
                                task, STR_ARG(agent));
        return arena_printf(&w->arena, "task %lld waits and nobody listens for %.*s: it is started",
                            task, STR_ARG(agent));
    }
    if (str_is(kind, "watch.task.unresumed")) {
        *reason = STR("nobody_resumes");
        return arena_printf(
            &w->arena, "task %lld has its results and nobody resumes it%s: %.*s %s", task,
            json_get_bool(data, "listens") ? ", though somebody listens" : "", STR_ARG(agent),
            str_is(json_get_text(data, "reason"), "unmanaged") ? "is unmanaged, nothing is started"
                                                               : "is started anew");
    }
    if (str_starts(kind, STR("watch.inbox.")) || str_is(kind, "watch.dispatch.retry"))
        return tell_inbox(w, kind, data, reason);
    if (str_is(kind, "watch.queue.sweep")) {
        *reason = STR("queued_and_idle");
        return arena_printf(&w->arena, "task %lld was queued and %.*s had nothing to do", task,
                            STR_ARG(agent));
    }
    if (str_starts(kind, STR("watch.task."))) {
        *reason = STR("worker_lease_over");
        return arena_printf(&w->arena, "task %lld was taken back from %.*s; %lld attempts lost",
                            task, STR_ARG(agent), (long long)json_get_int(data, "attempts", 0));
    }
    return kind;
}

/* What an event of the server's says, in words, and the reason it gives. */
static struct str tell(struct work *w, const char *rule, struct str kind, const struct json *data,
                       struct str *reason)
{
    if (str_is(kind, "idle_timeout")) {
        bool is_global = strcmp(rule, rule_name(RULE_GLOBAL_IDLE)) == 0;
        *reason = is_global ? STR("global_idle_timeout") : kind;
        return arena_printf(&w->arena, "nobody wrote for %lld ms, since %.*s",
                            (long long)json_get_int(data, "idleMs", 0),
                            STR_ARG(json_get_text(data, "lastEventTs")));
    }
    if (str_is(kind, "runtime.watchdog.cancel")) {
        *reason = STR("watchdog_wall_clock_exceeded");
        return arena_printf(&w->arena, "blocked: window %lld used its budget of %lld s",
                            (long long)json_get_int(data, "window", 0),
                            (long long)json_get_int(data, "configured_budget_seconds", 0));
    }
    if (str_is(kind, "runtime.watchdog.notice")) {
        *reason = STR("wall_clock_notice");
        return arena_printf(&w->arena, "80 %% of the budget of %lld s is used; it ends at %.*s",
                            (long long)json_get_int(data, "configured_budget_seconds", 0),
                            STR_ARG(json_get_text(data, "budget_ends_at")));
    }
    if (str_is(kind, "runtime.resumed")) {
        *reason = STR("resumed");
        return arena_printf(&w->arena, "resumed: window %lld, after %lld s blocked",
                            (long long)json_get_int(data, "window", 0),
                            (long long)json_get_int(data, "blocked_seconds", 0));
    }
    if (str_is(kind, "agent.state")) {
        *reason = json_get_text(data, "reason");
        return arena_printf(&w->arena, "%.*s is %.*s", STR_ARG(json_get_text(data, "agent")),
                            STR_ARG(json_get_text(data, "status")));
    }
    if (str_is(kind, "watch.participant.expire")) {
        *reason = STR("listener_lease_over");
        return arena_printf(&w->arena, "%.*s was not heard of since %.*s; its lease is %lld ms",
                            STR_ARG(json_get_text(data, "agent")),
                            STR_ARG(json_get_text(data, "lastSeenAt")),
                            (long long)json_get_int(data, "ttlMs", 0));
    }
    return tell_work(w, kind, data, reason);
}

/* A terminal message: who ended it, in which words, and why, if that was said. */
static struct str tell_end(struct work *w, const struct event *e, const struct json *payload)
{
    struct str text = json_get_text(payload, "text"),
               reason = json_get_text(json_get(payload, "outcome"), "reason");
    text.n = MIN(text.n, (size_t)TEXT_BYTES_MAX);
    return arena_printf(&w->arena, "ended by %.*s: %.*s%s%.*s%s", STR_ARG(e->agent_id),
                        STR_ARG(text), reason.n ? " (" : "", STR_ARG(reason), reason.n ? ")" : "");
}

/* Is it told of another agent than this one? agent.p == NULL: all are wanted. */
static bool is_of_another(const struct json *payload, struct str agent)
{
    struct str told = json_get_text(json_get(payload, "data"), "agent");
    return agent.p && told.n && !str_eq(told, agent);
}

static int write_move(struct work *w, struct json_out *out, const char *rule, const struct event *e,
                      const struct head *h, struct str agent, struct err *err)
{
    const struct json *payload;
    struct str reason = STR_NONE, what;
    int r = json_parse(&w->arena, e->payload, JSON_DEPTH_MAX, &payload, err);
    if (r < 0 || is_of_another(payload, agent))
        return r;
    if (e->type == EVENT_SYSTEM) {
        what = tell(w, rule, json_get_text(payload, "kind"), json_get(payload, "data"), &reason);
    } else {
        what = tell_end(w, e, payload);
        reason = str_of(stop_reason_name(h->stop_reason));
    }
    json_object(out, NULL);
    json_time(out, "at", e->ts_ms);
    json_stringz(out, "rule", rule);
    json_string(out, "what", what);
    json_string(out, "reason", reason);
    json_end(out);
    return 0;
}

struct move {
    const char *rule;
    struct event event;
};

/* The newest moves, newest first; copied, since telling them needs statements of its own. */
static int list_moves(struct work *w, int64_t conversation, bool of_lifecycle, struct move *ret,
                      size_t *ret_count, struct err *err)
{
    struct query *q = store_query(w->store, SQL_MOVE_LIST);
    query_int(q, 1, conversation);
    query_int(q, 2, MOVES_MAX + 1);
    query_int(q, 3, of_lifecycle);
    int r;
    *ret_count = 0;
    while ((r = query_step(q, err)) == STORE_ROW) {
        struct move *m = &ret[(*ret_count)++];
        struct str rule = query_get_text(q, 10);
        m->rule = arena_strndup(&w->arena, rule.p, rule.n);
        r = event_from_row(q, &m->event, err);
        if (r < 0) {
            query_end(q);
            return r;
        }
        m->event.agent_id = arena_str(&w->arena, m->event.agent_id);
        m->event.payload = arena_str(&w->arena, m->event.payload);
    }
    return r;
}

static int by_id(const void *a, const void *b)
{
    const struct move *x = a, *y = b;
    return (x->event.id > y->event.id) - (x->event.id < y->event.id);
}

/* Both kinds, oldest first. *ret_cut: there were more. */
static int list_history(struct work *w, int64_t conversation, struct move **ret, size_t *ret_count,
                        bool *ret_cut, struct err *err)
{
    struct move *list = arena_alloc(&w->arena, 2 * (MOVES_MAX + 1) * sizeof *list);
    size_t rules, lifecycle = 0;
    int r = list_moves(w, conversation, false, list, &rules, err);
    *ret_cut = rules > MOVES_MAX;
    rules = MIN(rules, (size_t)MOVES_MAX);
    if (r == 0)
        r = list_moves(w, conversation, true, list + rules, &lifecycle, err);
    *ret_cut |= lifecycle > MOVES_MAX;
    *ret_count = rules + MIN(lifecycle, (size_t)MOVES_MAX);
    *ret = list;
    qsort(list, *ret_count, sizeof *list, by_id);
    return r;
}

/* The end is the last event, whoever wrote it. */
static int write_end(struct work *w, const struct head *h, struct json_out *out, int64_t told_id,
                     struct err *err)
{
    struct event e;
    enum rule_id rule = moved_by(h);
    int r = log_get(w, h->conversation, h->last_seq, &e, err);
    if (r <= 0 || e.id == told_id)
        return r < 0 ? r : 0;
    return write_move(w, out, rule == RULE_COUNT ? NULL : rule_name(rule), &e, h, STR_NONE, err);
}

static int write_history(struct work *w, const struct head *h, struct str agent,
                         struct json_out *out, struct err *err)
{
    struct move *moves;
    size_t count;
    bool end_told = h->status != CONVERSATION_COMPLETED, is_cut;
    int r = list_history(w, h->conversation, &moves, &count, &is_cut, err);
    if (r < 0)
        return r;
    json_bool(out, "historyIsCut", is_cut);
    json_array(out, "history");
    for (size_t i = 0; r == 0 && i < count; i++) {
        const struct event *e = &moves[i].event;
        if (!end_told && e->conversation != h->conversation) { /* observed after the end */
            r = write_end(w, h, out, i ? moves[i - 1].event.id : 0, err);
            end_told = true;
        }
        if (r == 0)
            r = write_move(w, out, moves[i].rule, e, h, agent, err);
    }
    if (r == 0 && !end_told)
        r = write_end(w, h, out, count ? moves[count - 1].event.id : 0, err);
    json_end(out);
    return r;
}

/* Who ended it: the author of the last event. */
static int write_ended_by(struct work *w, const struct head *h, struct json_out *out,
                          struct err *err)
{
    struct event e;
    int r = h->status == CONVERSATION_COMPLETED ? log_get(w, h->conversation, h->last_seq, &e, err)
                                                : STORE_DONE;
    if (r < 0)
        return r;
    json_string(out, "endedBy", r == STORE_ROW ? e.agent_id : STR_NONE);
    return 0;
}

int why_write_conversation(struct work *w, int64_t conversation, struct json_out *out,
                           struct err *err)
{
    struct head *h;
    int r = head_get(w, conversation, &h, err);
    if (r < 0)
        return r;
    json_int(out, "conversation", conversation);
    json_stringz(out, "status", conversation_status_name(h->status));
    json_stringz(out, "outcome", outcome_name(h->outcome));
    json_stringz(out, "stop_reason_code", stop_reason_name(h->stop_reason));
    json_time(out, "now", w->now_ms);
    r = write_ended_by(w, h, out, err);
    if (r == 0)
        r = write_all_evidence(w, h, out, err);
    if (r < 0)
        return r;
    write_standing(w, h, out);
    write_clocks(w, h, out);
    return write_history(w, h, STR_NONE, out, err);
}

/* ---- an agent ---- */

static struct str listener_text(struct work *w, const struct agent *a)
{
    if (!a->is_listening)
        return STR("nobody listens");
    return arena_printf(&w->arena, "%s listens", a->connection);
}

static void write_tools(struct work *w, const struct tool_list *tools, struct json_out *out)
{
    for (; tools; tools = tools->next) {
        const struct tool *tool = &tools->tool;
        write_evidence(
            w, out, "tool",
            arena_printf(&w->arena, "tool call %.*s (%.*s) is %s%s", STR_ARG(tool->id),
                         STR_ARG(tool->name), tool_status_name(tool->status),
                         tool->ledger == LEDGER_PROCESSING ? ", taken by who resumes" : ""),
            tool->settled_ms ? tool->settled_ms : tool->since_ms, "tool");
    }
}

/* The oldest open rows of its inbox. */
struct inbox_page {
    struct inbox_row rows[INBOX_ROWS_MAX];
    size_t count;
};

static void write_inbox_evidence(struct work *w, const struct inbox_page *inbox,
                                 struct json_out *out)
{
    for (size_t i = 0; i < inbox->count; i++) {
        const struct inbox_row *row = &inbox->rows[i];
        write_evidence(w, out, "inbox",
                       arena_printf(&w->arena, "row %lld: %s %.*s is %s; %lld ring%s",
                                    (long long)row->inbox, inbox_type_name(row->type),
                                    STR_ARG(row->correlation), inbox_status_name(row->status),
                                    (long long)row->ring_count, row->ring_count == 1 ? "" : "s"),
                       row->last_rung_ms, "bell");
    }
}

static void write_agent_evidence(struct work *w, const struct agent *a, const struct task *t,
                                 const struct tool_list *tools, const struct inbox_page *inbox,
                                 struct json_out *out)
{
    json_array(out, "evidence");
    write_evidence(w, out, "view", str_of(agent_view_name(a->view)), 0, "lifecycle");
    write_evidence(w, out, "desired", str_of(agent_desired_name(a->desired)), 0, "agent");
    write_evidence(w, out, "listener", listener_text(w, a), a->last_seen_ms, "heartbeat");
    if (t)
        write_evidence(w, out, "task",
                       arena_printf(&w->arena, "task %lld is %s, epoch %lld, %lld attempts lost",
                                    (long long)t->task, task_status_name(t->status),
                                    (long long)t->epoch, (long long)t->attempts),
                       t->pending_ms, "task");
    if (t && t->beat_ms)
        write_evidence(w, out, "worker", str_of(t->claimed_by), t->beat_ms, "heartbeat");
    if (t && t->progress_ms)
        write_evidence(w, out, "progress", STR("the work moved"), t->progress_ms, "task");
    if (a->spawn_id[0])
        write_evidence(w, out, "process", str_of(a->spawn_id), a->process_ms, "machine");
    if (a->restarts)
        write_evidence(w, out, "restarts",
                       arena_printf(&w->arena, "%lld%s", (long long)a->restarts,
                                    a->breaker_is_open ? ", the breaker is open" : ""),
                       0, "lifecycle");
    write_tools(w, tools, out);
    write_inbox_evidence(w, inbox, out);
    json_end(out);
}

static void write_next_rule(struct json_out *out, const char *what, int64_t since_ms,
                            enum rule_id rule, int64_t due_ms)
{
    json_object(out, NULL);
    json_stringz(out, "what", what);
    write_rule(out, RULE_COUNT);
    if (since_ms)
        json_time(out, "since", since_ms);
    else
        json_null(out, "since");
    json_object(out, "next");
    write_rule(out, rule);
    json_time(out, "dueAt", due_ms);
    json_end(out);
    json_end(out);
}

/* When it came to where it stands. */
static int64_t task_since_ms(const struct task *t)
{
    return t->status == TASK_SUSPENDED ? t->suspended_ms : t->pending_ms;
}

/* Each call that it waits for, with its deadline, and each result that was lent. */
static int write_tool_standing(struct work *w, const struct tool_list *tools, struct json_out *out,
                               struct err *err)
{
    for (; tools; tools = tools->next) {
        const struct tool *tool = &tools->tool;
        enum rule_id rule;
        int64_t due_ms;
        int r = tool_due_ms(w, tool, &rule, &due_ms, err);
        if (r < 0)
            return r;
        if (due_ms == NEVER_MS)
            continue;
        struct str what = arena_printf(&w->arena, "its tool call %.*s", STR_ARG(tool->id));
        write_next_rule(out, what.p, rule == RULE_TOOL_TIMEOUT ? tool->since_ms : tool->leased_ms,
                        rule, due_ms);
    }
    return 0;
}

static int write_inbox_standing(struct work *w, const struct inbox_page *inbox,
                                struct json_out *out, struct err *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < inbox->count; i++) {
        const struct inbox_row *row = &inbox->rows[i];
        bool is_pending = row->status == INBOX_IS_PENDING;
        int64_t due_ms;
        r = inbox_due_ms(w, row, &due_ms, err);
        if (r == 0 && due_ms != NEVER_MS)
            write_next_rule(out,
                            arena_printf(&w->arena, "its inbox row %lld", (long long)row->inbox).p,
                            is_pending ? row->pending_ms : row->processed_ms,
                            is_pending ? RULE_INBOX_PENDING : RULE_INBOX_PROCESSING, due_ms);
    }
    return r;
}

static int write_agent_standing(struct work *w, const struct agent *a, const struct task *t,
                                const struct tool_list *tools, const struct inbox_page *inbox,
                                struct json_out *out, struct err *err)
{
    int r = 0;
    json_array(out, "standing");
    if (a->is_listening)
        write_next_rule(out, "its listener", a->beat_ms, RULE_PARTICIPANT_EXPIRE,
                        agent_ready_until_ms(w, a) + 1);
    if (a->restart_ms)
        write_next_rule(out, "its process", 0, RULE_AGENT_EXITED, a->restart_ms);
    for (enum rule_id rule = FIRST_TASK_RULE; t && r == 0 && rule <= LAST_TASK_RULE; rule++) {
        int64_t due_ms;
        r = rule_task_due_ms(w, rule, t, &due_ms, err);
        if (r == 0 && due_ms != NEVER_MS)
            write_next_rule(out, "its task", task_since_ms(t), rule, due_ms);
    }
    if (r == 0)
        r = write_tool_standing(w, tools, out, err);
    if (r == 0)
        r = write_inbox_standing(w, inbox, out, err);
    json_end(out);
    return r;
}

int why_write_agent(struct work *w, const struct agent *a, struct json_out *out, struct err *err)
{
    struct task *t = NULL;
    struct tool_list *tools = NULL;
    struct head *h;
    struct inbox_page inbox = {.count = INBOX_ROWS_MAX};
    int r = a->active_task ? task_get(w, a->active_task, &t, err) : 0;
    if (r == 0)
        r = head_get(w, a->conversation, &h, err);
    if (r == 0 && t && t->status == TASK_SUSPENDED)
        r = tools_list(w, t->task, t->epoch, &tools, err);
    if (r == 0)
        r = inbox_list_open(w, a, inbox.rows, &inbox.count, err);
    if (r < 0)
        return r;
    struct str name = arena_printf(&w->arena, "%lld:%s", (long long)a->conversation, a->role);
    json_string(out, "agent", name);
    json_stringz(out, "view", agent_view_name(a->view));
    json_time(out, "now", w->now_ms);
    write_agent_evidence(w, a, t, tools, &inbox, out);
    r = write_agent_standing(w, a, t, tools, &inbox, out, err);
    return r < 0 ? r : write_history(w, h, name, out, err);
}
