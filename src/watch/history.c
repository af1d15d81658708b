/* history.c: see history.h. An event is put into words here, by its kind. */
#include "watch/history.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "domain/head.h"
#include "domain/log_index.h"
#include "domain/rule.h"
#include "domain/work.h"

/* Of the rules and people, and of the lifecycle: a hundred agents must not hide why they stopped.
 */
enum { MOVES_MAX = 100, TEXT_BYTES_MAX = 4096 };

enum rule_id history_moved_by(const struct head *h)
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
    enum rule_id rule = history_moved_by(h);
    int r = log_get(w, h->conversation, h->last_seq, &e, err);
    if (r <= 0 || e.id == told_id)
        return r < 0 ? r : 0;
    return write_move(w, out, rule == RULE_COUNT ? NULL : rule_name(rule), &e, h, STR_NONE, err);
}

int history_write(struct work *w, const struct head *h, struct str agent, struct json_out *out,
                  struct err *err)
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
