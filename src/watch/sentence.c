/* sentence.c: see sentence.h. */
#include "watch/sentence.h"

#include <stdlib.h>
#include <string.h>

#include "base/age.h"
#include "base/clock.h"
#include "base/mem.h"
#include "domain/log_index.h"
#include "domain/machine.h"
#include "domain/offer.h"
#include "domain/work.h"
#include "watch/history.h"

enum { EXITS_MAX = 50, WORDS_BYTES_MAX = 60 };

struct telling {
    struct buf *out;
    const struct situation *s;
    const struct clock_ahead *clock;
};

/* ---- times ---- */

static void add_time(struct buf *out, int64_t ms)
{
    char iso[CLOCK_ISO_BYTES];
    clock_iso(ms, iso);
    buf_addz(out, iso);
}

static void add_age_of(const struct telling *t, int64_t since_ms)
{
    age_add(t->out, t->s->w->now_ms - since_ms);
}

static void add_in(const struct telling *t)
{
    int64_t left_ms = t->clock->due_ms - t->s->w->now_ms;
    if (left_ms > 0) {
        buf_addz(t->out, "in ");
        age_add(t->out, left_ms);
    } else {
        buf_addz(t->out, "now");
    }
    buf_addf(t->out, " (%s)", rule_name(t->clock->rule));
}

static void add_progress_age(const struct telling *t)
{
    add_age_of(t, t->s->task->progress_ms);
}

static void add_silence(const struct telling *t)
{
    add_age_of(t, MAX(t->s->task->beat_ms, t->s->task->machine_beat_ms));
}

static void add_listener_silence(const struct telling *t)
{
    add_age_of(t, t->s->agent->beat_ms);
}

static void add_quiet(const struct telling *t)
{
    add_age_of(t, MAX(t->s->head->last_activity_ms, t->s->head->created_ms));
}

static void add_machine_silence(const struct telling *t)
{
    add_age_of(t, t->s->machine->beat_ms);
}

/* "2026-11-15T09:30:00.123Z, 49m 59s ago" */
static void add_past(const struct telling *t, int64_t at_ms)
{
    add_time(t->out, at_ms);
    buf_addz(t->out, ", ");
    add_age_of(t, at_ms);
    buf_addz(t->out, " ago");
}

static void add_blocked_at(const struct telling *t)
{
    add_past(t, t->s->head->blocked_ms);
}

static void add_ended_at(const struct telling *t)
{
    add_past(t, t->s->head->updated_ms);
}

static void add_task_ended_at(const struct telling *t)
{
    add_past(t, t->s->asked->completed_ms);
}

/* ---- names ---- */

static void add_agent(const struct telling *t)
{
    buf_addf(t->out, "%lld:%s", (long long)t->s->agent->conversation, t->s->agent->role);
}

static void add_role(const struct telling *t)
{
    buf_addz(t->out, t->s->agent->role);
}

static void add_conversation(const struct telling *t)
{
    buf_add_int(t->out, t->s->head->conversation);
}

/* The conversation, said of itself or of an agent in it. */
static void add_talk(const struct telling *t)
{
    if (t->s->agent)
        buf_addf(t->out, "conversation %lld", (long long)t->s->head->conversation);
    else
        buf_addz(t->out, "it");
}

static void add_task(const struct telling *t)
{
    if (t->s->task)
        buf_addf(t->out, "task %lld", (long long)t->s->task->task);
    else
        buf_addz(t->out, "its work");
}

static void add_task_number(const struct telling *t)
{
    buf_add_int(t->out, t->s->task->task);
}

static void add_asked(const struct telling *t)
{
    buf_addf(t->out, "task %lld", (long long)t->s->asked->task);
}

static void add_kind(const struct telling *t)
{
    buf_addz(t->out, t->s->agent->kind);
}

static void add_offers(const struct telling *t)
{
    buf_add_str(t->out, offer_text(t->s->w, STR("")));
}

static void add_offering(const struct telling *t)
{
    buf_add_str(t->out, offer_machines(t->s->w, t->s->agent->kind));
}

static void add_worker(const struct telling *t)
{
    buf_addz(t->out, t->s->task->claimed_by);
}

static void add_listener(const struct telling *t)
{
    buf_addz(t->out, t->s->agent->connection);
}

static void add_owner(const struct telling *t)
{
    buf_addz(t->out, t->s->head->turn_owner);
}

static void add_turn(const struct telling *t)
{
    buf_add_int(t->out, t->s->head->last_turn);
}

/* ---- machines and processes ---- */

static const char *machine_name(const struct situation *s)
{
    if (s->machine)
        return s->machine->name;
    return s->start.machine.n ? s->start.machine.p : s->place;
}

static void add_machine(const struct telling *t)
{
    buf_addz(t->out, machine_name(t->s));
}

static void add_offline(const struct telling *t)
{
    const struct machine *m = t->s->machine;
    buf_addz(t->out, m ? "offline since " : "not known");
    if (m)
        add_time(t->out, m->offline_ms);
}

static void add_process(const struct telling *t)
{
    if (t->s->pid)
        buf_addf(t->out, "process %lld", (long long)t->s->pid);
    else
        buf_addz(t->out, "its process");
    if (t->s->agent->machine[0])
        buf_addf(t->out, " on %s", t->s->agent->machine);
}

static void add_pid(const struct telling *t)
{
    if (t->s->pid)
        buf_add_int(t->out, t->s->pid);
    else
        buf_addz(t->out, "PID");
}

static void add_sends(const struct telling *t)
{
    buf_add_int(t->out, t->s->stop.sends);
}

/* ---- the last exit ---- */

/* The last line of what it printed, from its beginning. */
static void add_last_words(struct buf *out, struct str tail)
{
    while (tail.n && (tail.p[tail.n - 1] == '\n' || tail.p[tail.n - 1] == ' '))
        tail.n--;
    const char *before = tail.n ? memrchr(tail.p, '\n', tail.n) : NULL;
    if (before)
        tail = str_skip(tail, (size_t)(before + 1 - tail.p));
    if (!tail.n)
        return;
    size_t n = MIN(tail.n, (size_t)WORDS_BYTES_MAX);
    while (n < tail.n && n > 0 && ((unsigned char)tail.p[n] & 0xc0) == 0x80)
        n--; /* not within a character */
    buf_addf(out, ", \"%.*s%s\"", (int)n, tail.p, n < tail.n ? "…" : "");
}

static void add_status(struct buf *out, const struct json *data)
{
    const struct json *code = json_get(data, "code");
    struct str text = json_get_text(data, "text");
    int64_t signal = json_get_int(data, "signal", 0);
    if (code && code->type == JSON_INT && code->integer >= 0)
        buf_addf(out, "exit %lld", (long long)code->integer);
    else if (text.n)
        buf_add_str(out, text);
    else if (signal)
        buf_addf(out, "signal %lld", (long long)signal);
    else
        buf_addz(out, "nobody saw it end");
}

/* False: the event is not about an end of this agent's process, or of its start. */
static bool add_exit_of(const struct telling *t, struct str payload, struct str agent)
{
    const struct json *event;
    struct err err = ERR_INIT;
    if (json_parse(&t->s->w->arena, payload, JSON_DEPTH_MAX, &event, &err) < 0)
        return false;
    const struct json *data = json_get(event, "data");
    struct str kind = json_get_text(event, "kind");
    if (!str_eq(json_get_text(data, "agent"), agent))
        return false;
    if (str_is(kind, "watch.command.expired")) {
        buf_addz(t->out, "its start was not confirmed");
        return true;
    }
    if (!str_is(kind, "agent.exited"))
        return false;
    add_status(t->out, data);
    add_last_words(t->out, json_get_text(data, "tail"));
    return true;
}

static void add_exit(const struct telling *t)
{
    struct work *w = t->s->w;
    struct str payloads[EXITS_MAX],
        agent = arena_printf(&w->arena, "%lld:%s", (long long)t->s->agent->conversation,
                             t->s->agent->role);
    size_t count = 0;
    struct query *q = store_query(w->store, SQL_MOVE_LIST_EXITS);
    query_int(q, 1, t->s->agent->conversation);
    query_int(q, 2, EXITS_MAX);
    while (query_step(q, NULL) == STORE_ROW)
        payloads[count++] = arena_str(&w->arena, query_get_text(q, 0));
    query_end(q);
    for (size_t i = 0; i < count; i++)
        if (add_exit_of(t, payloads[i], agent))
            return;
    buf_addz(t->out, "nobody saw it end");
}

static void add_times(const struct telling *t)
{
    int64_t n = MAX(t->s->agent->restart_count, INT64_C(1)), last = n % 10;
    bool is_teen = n % 100 >= 11 && n % 100 <= 13;
    const char *th = is_teen ? "th" : last == 1 ? "st" : last == 2 ? "nd" : last == 3 ? "rd" : "th";
    buf_addf(t->out, "the %lld%s time", (long long)n, th);
}

static void add_burst(const struct telling *t)
{
    buf_add_int(t->out, option_get(t->s->w->options, restart, burst));
}

static void add_window(const struct telling *t)
{
    age_add_exactly(t->out, option_get(t->s->w->options, restart, window_seconds) * 1000);
}

/* ---- work ---- */

static const struct tool *first_waiting(const struct situation *s)
{
    for (const struct tool_list *at = s->tools; at; at = at->next)
        if (at->tool.status == TOOL_WAITING)
            return &at->tool;
    return NULL;
}

static void add_call(const struct telling *t)
{
    const struct tool *tool = first_waiting(t->s);
    buf_add_str(t->out, tool ? tool->id : STR("CALL"));
}

static void add_calls(const struct telling *t)
{
    const struct tool *tool = first_waiting(t->s);
    if (tool)
        buf_addf(t->out, "tool call %.*s (%.*s)", STR_ARG(tool->id), STR_ARG(tool->name));
    if (t->s->calls.waiting > 1)
        buf_addf(t->out, " and %lld more", (long long)t->s->calls.waiting - 1);
}

static void add_place(const struct telling *t)
{
    struct query *q = store_query(t->s->w->store, SQL_TASK_QUEUED_BEFORE);
    query_int(q, 1, t->s->asked->conversation);
    query_text(q, 2, str_of(t->s->asked->role));
    query_int(q, 3, t->s->asked->task);
    int64_t before = query_one(q, NULL) == STORE_ROW ? query_get_int(q, 0) : 0;
    query_end(q);
    buf_add_int(t->out, before + 1);
}

static void add_front(const struct telling *t)
{
    if (t->s->task)
        buf_addf(t->out, "behind task %lld, which is %s", (long long)t->s->task->task,
                 task_status_name(t->s->task->status));
    else
        buf_addz(t->out, "and no other task is in hand");
}

static void add_outcome(const struct telling *t)
{
    const char *reason = stop_reason_name(t->s->asked->stop_reason);
    buf_addf(t->out, "%s (%s)", task_status_name(t->s->asked->status), reason ? reason : "unknown");
}

/* "by conversation.idle (idle_timeout)": the rule, or who wrote the last event. */
static void add_by(const struct telling *t)
{
    const struct head *h = t->s->head;
    enum rule_id rule = history_moved_by(h);
    struct event e = {0};
    if (rule == RULE_COUNT && log_get(t->s->w, h->conversation, h->last_seq, &e, NULL) <= 0)
        e.agent_id = STR("nobody");
    struct str by = rule == RULE_COUNT ? e.agent_id : str_of(rule_name(rule));
    const char *reason = stop_reason_name(h->stop_reason);
    buf_addf(t->out, "by %.*s (%s)", STR_ARG(by), reason ? reason : "unknown");
}

static void add_conversation_outcome(const struct telling *t)
{
    const char *outcome = outcome_name(t->s->head->outcome);
    buf_addz(t->out, outcome ? outcome : "ended");
}

static void add_open_tasks(const struct telling *t)
{
    long long n = (long long)t->s->head->open_tasks;
    buf_addf(t->out, "%lld task%s", n, n == 1 ? " is" : "s are");
}

/* ---- the table ---- */

static const struct {
    const char *name;
    void (*add)(const struct telling *t);
} words[] = {
    {"in", add_in},
    {"agent", add_agent},
    {"role", add_role},
    {"conversation", add_conversation},
    {"talk", add_talk},
    {"task", add_task},
    {"number", add_task_number},
    {"asked", add_asked},
    {"kind", add_kind},
    {"offers", add_offers},
    {"offering", add_offering},
    {"worker", add_worker},
    {"listener", add_listener},
    {"owner", add_owner},
    {"turn", add_turn},
    {"machine", add_machine},
    {"offline", add_offline},
    {"process", add_process},
    {"pid", add_pid},
    {"sends", add_sends},
    {"exit", add_exit},
    {"times", add_times},
    {"burst", add_burst},
    {"window", add_window},
    {"call", add_call},
    {"calls", add_calls},
    {"place", add_place},
    {"front", add_front},
    {"outcome", add_outcome},
    {"by", add_by},
    {"ended", add_conversation_outcome},
    {"open", add_open_tasks},
    {"progress", add_progress_age},
    {"silent", add_silence},
    {"unheard", add_listener_silence},
    {"unpolled", add_machine_silence},
    {"quiet", add_quiet},
    {"blocked_at", add_blocked_at},
    {"ended_at", add_ended_at},
    {"task_ended_at", add_task_ended_at},
};

static void add_word(const struct telling *t, struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (str_is(name, words[i].name)) {
            words[i].add(t);
            return;
        }
    REQUIRE(!"a word of the table");
}

void sentence_add(struct buf *out, const struct situation *s, const struct clock_ahead *clock,
                  const char *template)
{
    const struct telling t = {out, s, clock};
    while (*template) {
        size_t plain = strcspn(template, "{");
        buf_add(out, template, plain);
        template += plain;
        if (!*template)
            return;
        size_t n = strcspn(++template, "}");
        add_word(&t, (struct str){template, n});
        template += n + 1;
    }
}
