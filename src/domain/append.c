/*
 * append.c: see append.h.
 *
 * The head decides everything, so the log itself is only ever written, never read, here (but for
 * the lookup of a request id, an index probe). The order of checks is the contract's: exists →
 * repeat → ended → precondition → turn → owner.
 */
#include "domain/append.h"

#include "base/mem.h"
#include "domain/agent.h"
#include "domain/command.h"
#include "domain/guidance.h"
#include "domain/inbox.h"
#include "domain/log_index.h"
#include "domain/task.h"
#include "domain/work.h"

enum { CLEAR_PAYLOAD_BYTES_MAX = 16384 }; /* a reason of 1000 bytes, each escaped */

static int insert_event(struct work *w, const struct event *e, const struct request_key *key,
                        struct err *err)
{
    struct query *q = store_query(w->store, SQL_EVENT_INSERT);
    query_int(q, 1, e->id);
    query_int(q, 2, e->conversation);
    query_int(q, 3, e->seq);
    query_int(q, 4, e->turn);
    query_int(q, 5, e->event);
    query_int(q, 6, e->ts_ms);
    query_text(q, 7, str_of(event_type_name(e->type)));
    query_text(q, 8, str_of(finality_name(e->finality)));
    query_text(q, 9, e->agent_id);
    query_text(q, 10, e->payload);
    if (key && key->id.p) {
        query_text(q, 11, key->id);
        query_blob(q, 12, key->hash, sizeof key->hash);
    }
    return query_run(q, NULL, err);
}

/* Numbers the event in its lane, stores and publishes it, and moves the head. */
static int push(struct work *w, struct head *h, struct event *e, const struct request_key *key,
                struct err *err)
{
    REQUIRE(h->status != CONVERSATION_COMPLETED);
    head_edit(w, h);
    int64_t before = e->turn == 0 ? h->system_events : e->turn == h->last_turn ? h->turn_events : 0;
    e->id = w->last.event + 1;
    e->conversation = h->conversation;
    e->seq = h->last_seq + 1;
    e->event = before + 1;
    e->ts_ms = w->now_ms;
    int r = insert_event(w, e, key, err);
    if (r < 0)
        return r;
    w->last.event = e->id;
    log_index_add(w->log_index, e, key ? key->id : STR_NONE);
    head_apply(h, e);
    work_publish_event(w, e);
    return 0;
}

/* ---- checks ---- */

static int check_precondition(const struct head *h, int64_t expected, struct err *err)
{
    if (expected < 0 || expected == h->last_closed_seq)
        return 0;
    err_set(err, ERR_PRECONDITION_FAILED, "lastClosedSeq is %lld", (long long)h->last_closed_seq);
    err_int(err, "expected", expected);
    return err_int(err, "actual", h->last_closed_seq);
}

/* The roles that there are, for who has mistaken one. */
static int unknown_role(struct work *w, const struct append *a, struct err *err)
{
    _cleanup_buf_ struct buf names = BUF_INIT(ERR_MESSAGE_BYTES);
    struct agent_role *roles;
    int r = agent_roles(w, a->conversation, &roles, err);
    if (r < 0)
        return r;
    for (; roles; roles = roles->next)
        buf_addf(&names, "%s%.*s", names.len ? ", " : "", STR_ARG(roles->name));
    err_set(err, ERR_PRECONDITION_FAILED, "conversation %lld has no role %.*s; it has %s",
            (long long)a->conversation, STR_ARG(a->agent_id), buf_str(&names).p);
    return err_str(err, "actual", a->agent_id);
}

static int check_known_role(struct work *w, const struct append *a, struct err *err)
{
    struct agent *agent;
    if (!a->precondition_known_role)
        return 0;
    int r = agent_get(w, a->conversation, a->agent_id, &agent, err);
    return r == -ERR_NOT_FOUND ? unknown_role(w, a, err) : r;
}

static int check_turn(const struct head *h, int64_t turn, struct err *err)
{
    int64_t expected = h->turn_is_open ? h->last_turn : h->last_turn + 1;
    if (turn == 0 || turn == expected)
        return 0;
    if (h->turn_is_open)
        err_set(err, ERR_TURN_ALREADY_OPEN, "turn %lld is open", (long long)expected);
    else
        err_set(err, ERR_INVALID_TURN, "the next turn is %lld", (long long)expected);
    return err_int(err, "expectedTurn", expected);
}

static bool owns_turn(const struct head *h, struct str agent_id)
{
    return !h->turn_is_open || h->turn_is_cleared || str_is(agent_id, h->turn_owner);
}

static int check_owner(const struct head *h, const struct append *a, struct err *err)
{
    if (a->finality == FINALITY_NONE || a->is_from_above || owns_turn(h, a->agent_id))
        return 0;
    err_set(err, ERR_FORBIDDEN, "turn %lld belongs to %s", (long long)h->last_turn, h->turn_owner);
    return err_str(err, "owner", str_of(h->turn_owner));
}

static int check_all(struct work *w, const struct head *h, const struct append *a, struct err *err)
{
    int r = head_check_active(h, err);
    if (r == -ERR_CONVERSATION_BLOCKED && a->is_from_above)
        r = 0;
    if (r == 0)
        r = check_precondition(h, a->precondition_closed_seq, err);
    if (r == 0)
        r = check_known_role(w, a, err);
    if (r == 0)
        r = check_turn(h, a->turn, err);
    if (r == 0)
        r = check_owner(h, a, err);
    return r;
}

/* ---- repeats ---- */

int append_find_repeat(struct work *w, int64_t conversation, struct str agent_id,
                       const struct request_key *key, struct event *ret, bool *ret_found,
                       struct err *err)
{
    *ret_found = false;
    if (!key || !key->id.p)
        return 0;
    struct str hash;
    int r = log_find_request(w, conversation, agent_id, key->id, ret, &hash, err);
    if (r <= 0)
        return r;
    if (hash.n != sizeof key->hash || memcmp(hash.p, key->hash, hash.n) != 0)
        return err_set(err, ERR_IDEMPOTENCY_CONFLICT, "%s", err_text(ERR_IDEMPOTENCY_CONFLICT));
    *ret_found = true;
    return 0;
}

/* ---- appending ---- */

static int finish_conversation(struct work *w, struct head *h, enum outcome outcome,
                               enum stop_reason reason, struct err *err)
{
    REQUIRE(outcome != OUTCOME_NONE && reason != STOP_REASON_NONE);
    h->status = CONVERSATION_COMPLETED;
    h->outcome = outcome;
    h->stop_reason = reason;
    h->blocked_ms = 0;
    return head_write_state(w, h, err);
}

/* The whole end, whoever makes it: what is open is closed, the terminal message, the status. */
static int append_terminal(struct work *w, struct head *h, const struct append *a,
                           struct event *ret, struct err *err)
{
    int r = agents_touch(w, h->conversation, err);
    if (r == 0)
        r = tasks_cancel_open(w, h->conversation, err);
    if (r == 0)
        r = inbox_skip_open(w, h->conversation, STR_NONE, err);
    if (r == 0)
        r = commands_fail_open_starts(w, h->conversation, "conversation_ended", err);
    if (r == 0)
        r = push(w, h, ret, a->key, err);
    if (r == 0)
        r = finish_conversation(w, h, a->outcome, a->stop_reason, err);
    return r;
}

/* What an agent writes is progress of what it works on. */
static int note_progress(struct work *w, const struct head *h, struct str role, struct err *err)
{
    struct agent *a;
    struct task *t;
    int r = agent_get(w, h->conversation, role, &a, NULL);
    if (r == -ERR_NOT_FOUND) /* a person */
        return 0;
    if (r == 0 && a->active_task)
        r = task_get(w, a->active_task, &t, err);
    if (r < 0 || !a->active_task)
        return r;
    return task_note_progress(w, t, err);
}

/* The gate for messages and traces. */
static int append_to_turn(struct work *w, struct head *h, enum event_type type,
                          const struct append *a, struct event *ret, struct err *err)
{
    int r = check_all(w, h, a, err);
    if (r < 0)
        return r;
    *ret = (struct event){.turn = h->turn_is_open ? h->last_turn : h->last_turn + 1,
                          .type = type,
                          .finality = a->finality,
                          .agent_id = a->agent_id,
                          .payload = a->payload};
    if (a->finality == FINALITY_CONVERSATION)
        return append_terminal(w, h, a, ret, err);
    if (a->is_whole_request && a->finality == FINALITY_NONE && h->open_tasks == 0 &&
        !head_watch_would_write(w, h))
        store_waive_savepoint(w->store);
    r = push(w, h, ret, a->key, err);
    if (r == 0)
        r = head_watch(w, h, err);
    return r < 0 || h->open_tasks == 0 ? r : note_progress(w, h, a->agent_id, err);
}

static int end_at_max_turns(struct work *w, struct head *h, struct err *err)
{
    struct str payload = arena_printf(&w->arena,
                                      "{\"text\":\"Auto-closed: reached maxTurns=%lld.\","
                                      "\"outcome\":{\"status\":\"canceled\","
                                      "\"reason\":\"max_turns\"}}",
                                      (long long)h->max_turns);
    struct append a = {.conversation = h->conversation,
                       .agent_id = STR("system-orchestrator"),
                       .finality = FINALITY_CONVERSATION,
                       .payload = payload,
                       .precondition_closed_seq = -1,
                       .outcome = OUTCOME_CANCELED,
                       .stop_reason = STOP_MAX_TURNS,
                       .is_from_above = true};
    struct event e;
    int r = append_to_turn(w, h, EVENT_MESSAGE, &a, &e, err);
    work_count_rule(w, RULE_MAX_TURNS);
    return r < 0 ? r : work_note_move(w, h->conversation, &e, rule_name(RULE_MAX_TURNS), err);
}

static int find_or_repeat(struct work *w, const struct append *a, struct head **ret_head,
                          struct event *ret, bool *ret_repeat, struct err *err)
{
    int r = head_get(w, a->conversation, ret_head, err);
    if (r < 0)
        return r;
    return append_find_repeat(w, a->conversation, a->agent_id, a->key, ret, ret_repeat, err);
}

int append_message(struct work *w, const struct append *a, struct event *ret, struct err *err)
{
    struct head *h;
    bool repeat;
    int r = find_or_repeat(w, a, &h, ret, &repeat, err);
    if (r < 0 || repeat)
        return r;
    r = append_to_turn(w, h, EVENT_MESSAGE, a, ret, err);
    if (r < 0 || a->finality != FINALITY_TURN)
        return r;
    if (h->max_turns > 0 && h->last_turn >= h->max_turns)
        return end_at_max_turns(w, h, err);
    return guidance_publish(w, h, err);
}

int append_trace(struct work *w, const struct append *a, struct event *ret, struct err *err)
{
    struct head *h;
    bool repeat;
    int r = find_or_repeat(w, a, &h, ret, &repeat, err);
    if (r < 0 || repeat)
        return r;
    if (a->finality != FINALITY_NONE)
        return err_set(err, ERR_FINALITY_RULE, "%s", err_text(ERR_FINALITY_RULE));
    return append_to_turn(w, h, EVENT_TRACE, a, ret, err);
}

int append_system(struct work *w, int64_t conversation, const char *agent_id, const char *kind,
                  struct str data, const char *once, struct event *ret, struct err *err)
{
    struct head *h;
    struct request_key key = {.id = once ? str_of(once) : STR_NONE};
    bool is_there = false;
    int r = head_get(w, conversation, &h, err);
    if (r == 0)
        r = append_find_repeat(w, conversation, str_of(agent_id), &key, ret, &is_there, err);
    if (r < 0)
        return r;
    if (is_there)
        return err_set(err, ERR_INTERNAL, "conversation %lld has an event %s already",
                       (long long)conversation, once);
    if (h->status == CONVERSATION_COMPLETED)
        return err_set(err, ERR_CONVERSATION_FINALIZED, "conversation %lld has ended",
                       (long long)conversation);
    *ret = (struct event){
        .type = EVENT_SYSTEM,
        .agent_id = str_of(agent_id),
        .payload = arena_printf(&w->arena, "{\"kind\":\"%s\",\"data\":%.*s}", kind, STR_ARG(data))};
    return push(w, h, ret, &key, err);
}

static int append_clear_trace(struct work *w, struct head *h, struct str agent_id,
                              struct str reason, struct err *err)
{
    struct buf payload = BUF_INIT(CLEAR_PAYLOAD_BYTES_MAX);
    struct json_out j = JSON_OUT(&payload);
    json_object(&j, NULL);
    json_stringz(&j, "type", "turn_cleared");
    json_string(&j, "abortedBy", agent_id);
    if (reason.p)
        json_string(&j, "reason", reason);
    json_end(&j);
    struct append a = {.agent_id = agent_id,
                       .payload = arena_str(&w->arena, buf_str(&payload)),
                       .precondition_closed_seq = -1};
    buf_release(&payload);
    struct event e;
    return append_to_turn(w, h, EVENT_TRACE, &a, &e, err);
}

int append_turn_cleared(struct work *w, int64_t conversation, struct str agent_id, bool is_operator,
                        struct str reason, int64_t *ret_turn, struct err *err)
{
    struct head *h;
    int r = head_get(w, conversation, &h, err);
    if (r == 0)
        r = head_check_active(h, err);
    if (r < 0)
        return r;
    if (!h->turn_is_open || h->turn_is_cleared) {
        *ret_turn = h->turn_is_open ? h->last_turn : h->last_turn + 1;
        return 0;
    }
    if (!is_operator && !str_is(agent_id, h->turn_owner)) {
        err_set(err, ERR_FORBIDDEN, "turn %lld belongs to %s", (long long)h->last_turn,
                h->turn_owner);
        return err_str(err, "owner", str_of(h->turn_owner));
    }
    r = append_clear_trace(w, h, agent_id, reason, err);
    if (r < 0)
        return r;
    *ret_turn = h->last_turn;
    return guidance_publish(w, h, err);
}
