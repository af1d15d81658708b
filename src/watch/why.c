/* why.c: see why.h. */
#include "watch/why.h"

#include "base/mem.h"
#include "domain/log_index.h"
#include "domain/machine.h"
#include "domain/offer.h"
#include "domain/work.h"
#include "watch/cause.h"
#include "watch/history.h"
#include "watch/ladder.h"

enum { SENTENCE_BYTES_MAX = 32 << 10 };

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

static void write_rule(struct json_out *out, enum rule_id rule)
{
    json_stringz(out, "rung", rule == RULE_COUNT ? NULL : rung_name(ladder_rules[rule].rung));
    json_stringz(out, "rule", rule == RULE_COUNT ? NULL : rule_name(rule));
}

static void write_time_or_null(struct json_out *out, const char *key, int64_t ms)
{
    if (ms)
        json_time(out, key, ms);
    else
        json_null(out, key);
}

static void write_next(struct json_out *out, const struct clocks *c)
{
    if (!c->next) {
        json_null(out, "next");
        return;
    }
    json_object(out, "next");
    write_rule(out, c->next->rule);
    json_stringz(out, "what", c->next->what);
    json_time(out, "dueAt", c->next->due_ms);
    json_stringz(out, "assumes", c->assumes_beats ? "beats" : NULL);
    json_end(out);
}

/* `cause`, `says`, `remedy` and `next`. */
static void write_cause(const struct situation *s, const struct clocks *c, struct json_out *out)
{
    _cleanup_buf_ struct buf says = BUF_INIT(SENTENCE_BYTES_MAX),
                             remedy = BUF_INIT(SENTENCE_BYTES_MAX);
    enum cause cause = cause_find(s);
    json_stringz(out, "cause", cause_name(cause));
    cause_add_sentence(&says, cause, s, c);
    json_string(out, "says", buf_str(&says));
    json_string(out, "remedy", cause_add_remedy(&remedy, cause, s) ? buf_str(&remedy) : STR_NONE);
    write_next(out, c);
}

/* Every clock, whether it will move something or not. */
static void write_standing(const struct clocks *c, struct json_out *out)
{
    json_array(out, "standing");
    for (size_t i = 0; i < c->count; i++) {
        const struct clock_ahead *clock = &c->list[i];
        json_object(out, NULL);
        json_stringz(out, "what", clock->what);
        write_rule(out, RULE_COUNT);
        write_time_or_null(out, "since", clock->since_ms);
        json_object(out, "next");
        write_rule(out, clock->rule);
        json_time(out, "dueAt", clock->due_ms);
        json_end(out);
        json_end(out);
    }
    json_end(out);
}

/* Of a conversation: one, whatever counts. */
static void write_head_standing(struct work *w, const struct head *h, struct json_out *out)
{
    int64_t due_ms;
    enum rule_id next = ladder_first_due(w->options, &w->gaps, h, &due_ms);
    json_array(out, "standing");
    json_object(out, NULL);
    json_string(out, "what",
                arena_printf(&w->arena, "conversation %lld", (long long)h->conversation));
    write_rule(out, history_moved_by(h));
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
    struct situation s;
    struct clocks c;
    int r = head_get(w, conversation, &h, err);
    if (r < 0)
        return r;
    situation_of_conversation(w, h, &s);
    r = clocks_read(&s, &c, err);
    if (r < 0)
        return r;
    json_int(out, "conversation", conversation);
    json_stringz(out, "status", conversation_status_name(h->status));
    json_stringz(out, "outcome", outcome_name(h->outcome));
    json_stringz(out, "stop_reason_code", stop_reason_name(h->stop_reason));
    json_time(out, "now", w->now_ms);
    write_cause(&s, &c, out);
    r = write_ended_by(w, h, out, err);
    if (r == 0)
        r = write_all_evidence(w, h, out, err);
    if (r < 0)
        return r;
    write_head_standing(w, h, out);
    write_clocks(w, h, out);
    return history_write(w, h, STR_NONE, out, err);
}

/* ---- an agent ---- */

static struct str listener_text(struct work *w, const struct agent *a)
{
    if (!a->is_listening)
        return STR("nobody listens");
    return arena_printf(&w->arena, "%s listens", a->connection);
}

static struct str process_text(const struct situation *s)
{
    const char *machine = s->agent->machine;
    struct str where = arena_printf(&s->w->arena, "%s%s", machine[0] ? " on " : "", machine);
    if (!s->pid)
        return arena_printf(&s->w->arena, "was ordered%.*s; nobody has seen it", STR_ARG(where));
    return arena_printf(&s->w->arena, "process %lld%.*s", (long long)s->pid, STR_ARG(where));
}

static void write_task_evidence(const struct situation *s, const struct task *t,
                                struct json_out *out)
{
    struct work *w = s->w;
    write_evidence(w, out, "task",
                   arena_printf(&w->arena, "task %lld is %s, epoch %lld, %lld attempts lost",
                                (long long)t->task, task_status_name(t->status),
                                (long long)t->epoch, (long long)t->attempts),
                   t->pending_ms, "task");
    if (t->beat_ms)
        write_evidence(w, out, "worker", str_of(t->claimed_by), t->beat_ms, "heartbeat");
    if (t->progress_ms)
        write_evidence(w, out, "progress", STR("the work moved"), t->progress_ms, "task");
}

static void write_tools(const struct situation *s, struct json_out *out)
{
    for (const struct tool_list *at = s->tools; at; at = at->next) {
        const struct tool *tool = &at->tool;
        write_evidence(
            s->w, out, "tool",
            arena_printf(&s->w->arena, "tool call %.*s (%.*s) is %s%s", STR_ARG(tool->id),
                         STR_ARG(tool->name), tool_status_name(tool->status),
                         tool->ledger == LEDGER_PROCESSING ? ", taken by who resumes" : ""),
            tool->settled_ms ? tool->settled_ms : tool->since_ms, "tool");
    }
}

static void write_inbox(const struct situation *s, struct json_out *out)
{
    for (size_t i = 0; i < s->inbox_count; i++) {
        const struct inbox_row *row = &s->inbox[i];
        write_evidence(s->w, out, "inbox",
                       arena_printf(&s->w->arena, "row %lld: %s %.*s is %s; %lld ring%s",
                                    (long long)row->inbox, inbox_type_name(row->type),
                                    STR_ARG(row->correlation), inbox_status_name(row->status),
                                    (long long)row->ring_count, row->ring_count == 1 ? "" : "s"),
                       row->last_rung_ms, "bell");
    }
}

static void write_agent_evidence(const struct situation *s, struct json_out *out)
{
    struct work *w = s->w;
    const struct agent *a = s->agent;
    json_array(out, "evidence");
    write_evidence(w, out, "view", str_of(agent_view_name(a->view)), a->view_ms, "lifecycle");
    write_evidence(w, out, "listener", listener_text(w, a), a->last_seen_ms, "heartbeat");
    if (s->asked && s->asked != s->task)
        write_task_evidence(s, s->asked, out);
    if (s->task)
        write_task_evidence(s, s->task, out);
    if (a->spawn_id[0])
        write_evidence(w, out, "process", process_text(s), a->process_ms, "machine");
    write_evidence(w, out, "desired", str_of(agent_desired_name(a->desired)), 0, "agent");
    if (a->restarts)
        write_evidence(w, out, "restarts",
                       arena_printf(&w->arena, "%lld%s", (long long)a->restarts,
                                    a->breaker_is_open ? ", the breaker is open" : ""),
                       0, "lifecycle");
    write_tools(s, out);
    write_inbox(s, out);
    json_end(out);
}

/* What agent.why and task.why share. */
static int write_of_agent(const struct situation *s, struct json_out *out, struct err *err)
{
    struct work *w = s->w;
    const struct agent *a = s->agent;
    struct clocks c;
    int r = clocks_read(s, &c, err);
    if (r < 0)
        return r;
    struct str name = arena_printf(&w->arena, "%lld:%s", (long long)a->conversation, a->role);
    json_string(out, "agent", name);
    json_stringz(out, "view", agent_view_name(a->view));
    json_time(out, "now", w->now_ms);
    write_cause(s, &c, out);
    if (s->pid)
        json_int(out, "pid", s->pid);
    else
        json_null(out, "pid");
    write_agent_evidence(s, out);
    write_standing(&c, out);
    return history_write(w, s->head, name, out, err);
}

int why_write_agent(struct work *w, const struct agent *a, struct json_out *out, struct err *err)
{
    struct situation s;
    int r = situation_of_agent(w, a, &s, err);
    return r < 0 ? r : write_of_agent(&s, out, err);
}

int why_write_task(struct work *w, const struct task *t, struct json_out *out, struct err *err)
{
    struct situation s;
    int r = situation_of_task(w, t, &s, err);
    if (r < 0)
        return r;
    json_int(out, "task", t->task);
    json_stringz(out, "status", task_status_name(t->status));
    return write_of_agent(&s, out, err);
}

/* ---- a machine ---- */

int why_write_machine(struct work *w, const struct machine *m, struct json_out *out,
                      struct err *err)
{
    struct situation s;
    struct clocks c;
    situation_of_machine(w, m, &s);
    int r = clocks_read(&s, &c, err);
    if (r < 0)
        return r;
    json_stringz(out, "machine", m->name);
    json_stringz(out, "status", m->is_online ? "online" : "offline");
    json_time(out, "now", w->now_ms);
    write_cause(&s, &c, out);
    json_array(out, "evidence");
    write_evidence(w, out, "poll", STR("it polled"), m->beat_ms, "heartbeat");
    write_evidence(w, out, "registered", str_of(m->hostname), m->registered_ms, "machine");
    write_evidence(w, out, "kinds", offer_text(w, str_of(m->name)), 0, "machine");
    json_end(out);
    write_standing(&c, out);
    return 0;
}
