/* ring.c: see ring.h. */
#include "watch/ring.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/planted.h"
#include "domain/append.h"
#include "domain/inbox.h"
#include "domain/task.h"
#include "domain/work.h"
#include "watch/ladder.h"

enum { DATA_BYTES_MAX = 4096 };

/* What the rule saw of the row, and its limit; `did` if something was put right. The log is told,
 * and `why` (P13). */
static int tell(struct work *w, const struct inbox_row *row, enum rule_id rule, int64_t limit_ms,
                const char *did, struct err *err)
{
    _cleanup_buf_ struct buf data = BUF_INIT(DATA_BYTES_MAX);
    _cleanup_free_ char *kind = mem_printf("watch.%s", rule_name(rule));
    struct json_out j = JSON_OUT(&data);
    struct event e;
    json_object(&j, NULL);
    json_int(&j, "inboxId", row->inbox);
    json_string(&j, "agent",
                arena_printf(&w->arena, "%lld:%s", (long long)row->conversation, row->role));
    json_stringz(&j, "messageType", inbox_type_name(row->type));
    json_string(&j, "correlationId", row->correlation);
    json_int(&j, "epoch", row->epoch);
    json_stringz(&j, "status", inbox_status_name(row->status));
    json_time(&j, "pendingAt", row->pending_ms);
    if (row->processed_ms)
        json_time(&j, "processedAt", row->processed_ms);
    json_int(&j, "attempts", row->attempts);
    json_int(&j, "ringCount", row->ring_count);
    json_int(&j, "limit", limit_ms);
    if (did)
        json_stringz(&j, "did", did);
    json_end(&j);
    int r =
        append_system(w, row->conversation, "system-watchdog", kind, buf_str(&data), NULL, &e, err);
    return r < 0 ? r : work_note_move(w, row->conversation, &e, rule_name(rule), err);
}

/* Every row is rung for when it is put in; that ring is nobody's move. */
static bool is_first_ring(const struct inbox_row *row)
{
    return row->ring_count <= 1;
}

static int give_up(struct work *w, struct inbox_row *row, enum inbox_status status,
                   const char *error, struct err *err)
{
    inbox_archive(w, row, status);
    row->watchdog_error = error;
    row->watchdog_ms = w->now_ms;
    return inbox_store(w, row, err);
}

int ring_pending(struct work *w, const struct subject *s, enum rule_id rule, struct err *err)
{
    struct inbox_row *row = s->inbox;
    int64_t limit_ms = rule_task_limit(rule, w->options);
    int r = 0;
    if (inbox_skip_due_ms(w, row) <= w->now_ms) {
        limit_ms = option_get(w->options, pmo, pending_wakeup_skip_seconds) * 1000;
        r = tell(w, row, rule, limit_ms, "missing_channel", err);
        return r < 0 ? r : give_up(w, row, INBOX_IS_SKIPPED, "missing_channel", err);
    }
    if (is_first_ring(row))
        r = tell(w, row, rule, limit_ms, NULL, err);
    if (r < 0)
        return r;
    row->woken_ms = w->now_ms;
    row->wakeups++;
    inbox_ring(w, row);
    return inbox_store(w, row, err);
}

int ring_dispatched(struct work *w, const struct subject *s, enum rule_id rule, struct err *err)
{
    struct task *t = s->task;
    struct inbox_row row;
    const char *was;
    int r = inbox_renew(w, t, &row, &was, err);
    if (r < 0)
        return r;
    if (was || row.ring_count <= 2) /* this one is counted */
        r = tell(w, &row, rule, rule_task_limit(rule, w->options), was, err);
    if (r < 0)
        return r;
    task_edit(w, t);
    t->retried_ms = w->now_ms;
    t->retries++;
    return task_store(w, t, err);
}

int ring_taken(struct work *w, const struct subject *s, enum rule_id rule, struct err *err)
{
    struct inbox_row *row = s->inbox;
    int64_t most = rule_task_limit(RULE_TASK_EXHAUSTED, w->options);
    bool is_given_up = row->attempts + 1 >= most && !planted(MESSAGE_FOR_EVER); /* L42 */
    int r = tell(w, row, rule, rule_task_limit(rule, w->options),
                 is_given_up ? "attempts_exhausted" : "pending_again", err);
    if (r < 0)
        return r;
    row->attempts++;
    if (is_given_up)
        return give_up(w, row, INBOX_IS_ERROR, "attempts_exhausted", err);
    inbox_set_pending(w, row);
    inbox_ring(w, row);
    return inbox_store(w, row, err);
}
