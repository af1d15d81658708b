/*
 * inbox.c: see inbox.h.
 *
 * Every change is: read the row, change it, inbox_store(). A ring is no change of state: it is a
 * request to the bell that goes out after the commit (work_touch()), and a note on the row.
 */
#include "domain/inbox.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/names.h"
#include "base/planted.h"
#include "domain/head.h"
#include "domain/work.h"

enum { PAGE_ROWS = 64 };

static const char *const type_names[] = {
#define X(name, text) [INBOX_OF_##name] = text,
    INBOX_TYPE_LIST(X)
#undef X
};
_Static_assert(ARRAY_LEN(type_names) == INBOX_TYPE_COUNT, "a name for each type");

static const char *const status_names[] = {
#define X(name, text) [INBOX_IS_##name] = text,
    INBOX_STATUS_LIST(X)
#undef X
};
_Static_assert(ARRAY_LEN(status_names) == INBOX_STATUS_COUNT, "a name for each status");

const char *inbox_type_name(enum inbox_type type)
{
    return type_names[type];
}

const char *inbox_status_name(enum inbox_status status)
{
    return status_names[status];
}

/* ---- reading ---- */

static struct str text_at(struct work *w, struct query *q, int column)
{
    return query_is_null(q, column) ? STR_NONE : arena_str(&w->arena, query_get_text(q, column));
}

int inbox_from_row(struct work *w, struct query *q, struct inbox_row *ret, struct err *err)
{
    int type = names_find(type_names, INBOX_TYPE_COUNT, query_get_text(q, 3)),
        status = names_find(status_names, INBOX_STATUS_COUNT, query_get_text(q, 6));
    *ret = (struct inbox_row){.inbox = query_get_int(q, 0), .conversation = query_get_int(q, 1)};
    if (type < 0 || status < 0)
        return err_set(err, ERR_INTERNAL, "inbox row %lld is damaged", (long long)ret->inbox);
    snprintf(ret->role, sizeof ret->role, "%.*s", STR_ARG(query_get_text(q, 2)));
    ret->type = (enum inbox_type)type;
    ret->correlation = text_at(w, q, 4);
    ret->epoch = query_get_int(q, 5);
    ret->status = (enum inbox_status)status;
    ret->channel = text_at(w, q, 7);
    ret->payload = text_at(w, q, 8);
    int64_t *const numbers[] = {&ret->created_ms,   &ret->pending_ms, &ret->processed_ms,
                                &ret->archived_ms,  &ret->woken_ms,   &ret->wakeups,
                                &ret->last_rung_ms, &ret->ring_count, &ret->attempts,
                                &ret->watchdog_ms};
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        *numbers[i] = query_get_int(q, 9 + (int)i);
    ret->look_ms = query_is_null(q, 19) ? NEVER_MS : query_get_int(q, 19);
    ret->processed_by = text_at(w, q, 20);
    if (!query_is_null(q, 21)) {
        struct str error = query_get_text(q, 21);
        ret->watchdog_error = arena_strndup(&w->arena, error.p, error.n);
    }
    return 0;
}

int inbox_not_found(int64_t inbox, struct err *err)
{
    err_set(err, ERR_NOT_FOUND, "there is no inbox row %lld", (long long)inbox);
    err_str(err, "what", STR("inbox"));
    return err_int(err, "id", inbox);
}

int inbox_get(struct work *w, int64_t inbox, struct inbox_row *ret, struct err *err)
{
    struct query *q = store_query(w->store, SQL_INBOX_GET);
    query_int(q, 1, inbox);
    int r = query_one(q, err);
    if (r < 0)
        return r;
    if (r == STORE_DONE)
        return inbox_not_found(inbox, err);
    r = inbox_from_row(w, q, ret, err);
    query_end(q);
    return r;
}

static int find(struct work *w, int64_t conversation, const char *role, enum inbox_type type,
                struct str correlation, int64_t epoch, struct inbox_row *ret, bool *ret_found,
                struct err *err)
{
    struct query *q = store_query(w->store, SQL_INBOX_FIND);
    query_int(q, 1, conversation);
    query_text(q, 2, str_of(role));
    query_text(q, 3, str_of(type_names[type]));
    query_text(q, 4, correlation);
    query_int(q, 5, epoch);
    int r = query_one(q, err);
    if (r < 0)
        return r;
    *ret_found = r == STORE_ROW;
    r = *ret_found ? inbox_from_row(w, q, ret, err) : 0;
    query_end(q);
    return r;
}

static struct str correlate(struct work *w, const struct task *t)
{
    return arena_printf(&w->arena, "%lld", (long long)t->task);
}

int inbox_of_task(struct work *w, const struct task *t, int64_t epoch, struct inbox_row *ret,
                  bool *ret_found, struct err *err)
{
    return find(w, t->conversation, t->role, INBOX_OF_TURN, correlate(w, t), epoch, ret, ret_found,
                err);
}

/* The rows a statement lists, read whole: what is done with them has statements of its own. */
static int list(struct work *w, struct query *q, struct inbox_row *ret, size_t *ret_count,
                struct err *err)
{
    int r;
    *ret_count = 0;
    while ((r = query_step(q, err)) == STORE_ROW) {
        r = inbox_from_row(w, q, &ret[(*ret_count)++], err);
        if (r < 0) {
            query_end(q);
            return r;
        }
    }
    return r;
}

int inbox_list_open(struct work *w, const struct agent *a, struct inbox_row *ret, size_t *count,
                    struct err *err)
{
    struct query *q = store_query(w->store, SQL_INBOX_OPEN_OF_AGENT);
    query_int(q, 1, a->conversation);
    query_text(q, 2, str_of(a->role));
    query_int(q, 3, (int64_t)*count);
    return list(w, q, ret, count, err);
}

/* ---- due ---- */

static int64_t skip_limit_ms(const struct work *w)
{
    return option_get(w->options, pmo, pending_wakeup_skip_seconds) * 1000;
}

int64_t inbox_skip_due_ms(const struct work *w, const struct inbox_row *row)
{
    if (row->type == INBOX_OF_TURN || row->channel.p || skip_limit_ms(w) == 0)
        return NEVER_MS;
    return gaps_due_ms(&w->gaps, row->pending_ms, skip_limit_ms(w));
}

static int64_t due_pending(const struct work *w, const struct inbox_row *row)
{
    int64_t limit = rule_task_limit(RULE_INBOX_PENDING, w->options),
            skip_ms = inbox_skip_due_ms(w, row);
    if (limit == 0)
        return skip_ms;
    int64_t wait_ms = rule_repeat_ms(limit, row->wakeups);
    return MIN(skip_ms, gaps_due_ms(&w->gaps, MAX(row->pending_ms, row->woken_ms), wait_ms));
}

/* Whoever has it may take its time; of a turn, as long as somebody works on it. */
static int due_processing(struct work *w, const struct inbox_row *row, int64_t *ret,
                          struct err *err)
{
    int64_t limit = rule_task_limit(RULE_INBOX_PROCESSING, w->options), task;
    struct task *t;
    *ret = limit ? gaps_due_ms(&w->gaps, row->processed_ms, limit) : NEVER_MS;
    if (planted(MESSAGE_STUCK))
        *ret = NEVER_MS;
    if (limit == 0 || row->type != INBOX_OF_TURN || !str_to_int(row->correlation, &task))
        return 0;
    int r = task_get(w, task, &t, err);
    if (r < 0)
        return r;
    bool is_its_own = t->status == TASK_ACKNOWLEDGED && t->epoch == row->epoch;
    *ret = is_its_own ? MAX(*ret, task_active_until_ms(w, t) + 1) : NEVER_MS;
    return 0;
}

int inbox_due_ms(struct work *w, const struct inbox_row *row, int64_t *ret, struct err *err)
{
    struct head *h;
    *ret = NEVER_MS;
    int r = head_get(w, row->conversation, &h, err);
    if (r < 0 || h->status != CONVERSATION_ACTIVE)
        return r;
    if (row->status == INBOX_IS_PENDING)
        *ret = due_pending(w, row);
    else if (row->status == INBOX_IS_PROCESSING)
        return due_processing(w, row, ret, err);
    return 0;
}

/* ---- writing ---- */

static void bind_time(struct query *q, int param, int64_t ms)
{
    if (ms)
        query_int(q, param, ms);
}

int inbox_store(struct work *w, struct inbox_row *row, struct err *err)
{
    int r = inbox_due_ms(w, row, &row->look_ms, err);
    if (r < 0)
        return r;
    w->next_look_ms = MIN(w->next_look_ms, row->look_ms);
    struct query *q = store_query(w->store, SQL_INBOX_UPDATE);
    query_int(q, 1, row->inbox);
    query_text(q, 2, str_of(status_names[row->status]));
    query_int(q, 3, row->epoch);
    query_int(q, 4, row->pending_ms);
    bind_time(q, 5, row->processed_ms);
    query_text(q, 6, row->processed_by);
    bind_time(q, 7, row->archived_ms);
    query_int(q, 8, row->attempts);
    bind_time(q, 9, row->woken_ms);
    query_int(q, 10, row->wakeups);
    bind_time(q, 11, row->last_rung_ms);
    query_int(q, 12, row->ring_count);
    query_text(q, 13, str_of(row->watchdog_error));
    bind_time(q, 14, row->watchdog_ms);
    if (row->look_ms != NEVER_MS)
        query_int(q, 15, row->look_ms);
    work_mark_written(w);
    return query_run(q, NULL, err);
}

void inbox_set_pending(const struct work *w, struct inbox_row *row)
{
    row->status = INBOX_IS_PENDING;
    row->pending_ms = w->now_ms;
    row->processed_ms = row->archived_ms = row->woken_ms = row->wakeups = 0;
}

void inbox_archive(const struct work *w, struct inbox_row *row, enum inbox_status status)
{
    row->status = status;
    row->archived_ms = w->now_ms;
}

void inbox_ring(struct work *w, struct inbox_row *row)
{
    row->last_rung_ms = w->now_ms;
    row->ring_count++;
    work_touch(w, agent_key_of(row->conversation, str_of(row->role)));
}

static int insert(struct work *w, struct inbox_row *row, struct err *err)
{
    row->inbox = w->last.inbox + 1;
    row->created_ms = w->now_ms;
    inbox_set_pending(w, row);
    inbox_ring(w, row);
    int r = inbox_due_ms(w, row, &row->look_ms, err);
    if (r < 0)
        return r;
    struct query *q = store_query(w->store, SQL_INBOX_INSERT);
    query_int(q, 1, row->inbox);
    query_int(q, 2, row->conversation);
    query_text(q, 3, str_of(row->role));
    query_text(q, 4, str_of(type_names[row->type]));
    query_text(q, 5, row->correlation);
    query_int(q, 6, row->epoch);
    query_text(q, 7, row->channel);
    query_text(q, 8, row->payload);
    query_int(q, 9, row->created_ms);
    if (row->look_ms != NEVER_MS)
        query_int(q, 10, row->look_ms);
    work_mark_written(w);
    r = query_run(q, NULL, err);
    if (r < 0)
        return r;
    w->last.inbox++;
    w->next_look_ms = MIN(w->next_look_ms, row->look_ms);
    return 0;
}

int inbox_put(struct work *w, const struct agent *a, enum inbox_type type, struct str correlation,
              struct str channel, struct str payload, int64_t *ret, bool *ret_duplicate,
              struct err *err)
{
    struct inbox_row row;
    int r = find(w, a->conversation, a->role, type, correlation, a->turn_epoch, &row, ret_duplicate,
                 err);
    if (r < 0)
        return r;
    if (!*ret_duplicate) {
        row = (struct inbox_row){.conversation = a->conversation,
                                 .type = type,
                                 .correlation = correlation,
                                 .epoch = a->turn_epoch,
                                 .channel = channel,
                                 .payload = payload};
        snprintf(row.role, sizeof row.role, "%s", a->role);
        r = insert(w, &row, err);
    }
    *ret = row.inbox;
    return r;
}

int inbox_put_result(struct work *w, const struct task *t, enum inbox_type type,
                     struct str correlation, struct str payload, struct err *err)
{
    struct inbox_row row;
    bool found;
    int r = find(w, t->conversation, t->role, type, correlation, t->epoch, &row, &found, err);
    if (r < 0 || found)
        return r;
    row = (struct inbox_row){.conversation = t->conversation,
                             .type = type,
                             .correlation = correlation,
                             .epoch = t->epoch,
                             .channel = str_of(t->channel),
                             .payload = payload};
    snprintf(row.role, sizeof row.role, "%s", t->role);
    return insert(w, &row, err);
}

int inbox_end_result(struct work *w, const struct task *t, int64_t epoch, enum inbox_type type,
                     struct str correlation, enum inbox_status status, struct err *err)
{
    struct inbox_row row;
    bool found;
    int r = find(w, t->conversation, t->role, type, correlation, epoch, &row, &found, err);
    if (r < 0 || !found || row.archived_ms)
        return r;
    if (!row.processed_ms)
        row.processed_ms = w->now_ms;
    inbox_archive(w, &row, status);
    return inbox_store(w, &row, err);
}

/* ---- received, consumed ---- */

int inbox_receive(struct work *w, const struct agent *a, struct str connection,
                  struct inbox_row *ret, size_t *count, struct err *err)
{
    struct query *q = store_query(w->store, SQL_INBOX_RECEIVABLE);
    query_int(q, 1, a->conversation);
    query_text(q, 2, str_of(a->role));
    query_int(q, 3, (int64_t)*count);
    int r = list(w, q, ret, count, err);
    for (size_t i = 0; r == 0 && i < *count; i++) {
        ret[i].status = planted(MESSAGE_TWICE) ? INBOX_IS_PENDING : INBOX_IS_PROCESSING;
        ret[i].processed_ms = w->now_ms;
        ret[i].processed_by = connection;
        r = inbox_store(w, &ret[i], err);
    }
    return r;
}

int inbox_consume(struct work *w, struct inbox_row *row, struct str connection, bool *ret_done,
                  struct err *err)
{
    bool is_its_own =
        row->type != INBOX_OF_TURN && row->processed_by.p && str_eq(row->processed_by, connection);
    *ret_done = is_its_own && row->status != INBOX_IS_SKIPPED && row->status != INBOX_IS_ERROR;
    if (!*ret_done || row->status == INBOX_IS_CONSUMED)
        return 0;
    inbox_archive(w, row, INBOX_IS_CONSUMED);
    return inbox_store(w, row, err);
}

/* ---- with its task ---- */

static int insert_turn(struct work *w, const struct task *t, struct inbox_row *ret, struct err *err)
{
    *ret = (struct inbox_row){.conversation = t->conversation,
                              .type = INBOX_OF_TURN,
                              .correlation = correlate(w, t),
                              .epoch = t->epoch,
                              .channel = str_of(t->channel),
                              .payload =
                                  arena_printf(&w->arena, "{\"task\":%lld}", (long long)t->task)};
    snprintf(ret->role, sizeof ret->role, "%s", t->role);
    return insert(w, ret, err);
}

static int refence(struct work *w, const struct task *t, int64_t old_epoch, struct err *err)
{
    struct inbox_row row;
    bool found;
    int r = inbox_of_task(w, t, old_epoch, &row, &found, err);
    if (r < 0 || !found)
        return r;
    row.epoch = t->epoch;
    row.processed_by = str_of(t->claimed_by);
    return inbox_store(w, &row, err);
}

/* The row of the old epoch, if it is open, as the change wants it. It need not be read for that:
 * what the change leaves alone, it leaves as it is. */
static int change_row(struct work *w, const struct task *t, int64_t old_epoch,
                      enum inbox_change change, struct err *err)
{
    struct inbox_row row = {.conversation = t->conversation,
                            .type = INBOX_OF_TURN,
                            .correlation = correlate(w, t),
                            .epoch = old_epoch};
    if (change == INBOX_REFENCED)
        return refence(w, t, old_epoch, err);
    if (change == INBOX_PROCESSING) {
        row.status = INBOX_IS_PROCESSING;
        row.processed_ms = w->now_ms;
        row.processed_by = str_of(t->claimed_by);
    } else {
        inbox_archive(w, &row, change == INBOX_SKIPPED ? INBOX_IS_SKIPPED : INBOX_IS_CONSUMED);
    }
    int r = inbox_due_ms(w, &row, &row.look_ms, err);
    if (r < 0)
        return r;
    w->next_look_ms = MIN(w->next_look_ms, row.look_ms);
    struct query *q = store_query(w->store, SQL_INBOX_MOVE_TURN);
    query_int(q, 1, row.conversation);
    query_text(q, 2, str_of(t->role));
    query_text(q, 3, row.correlation);
    query_int(q, 4, row.epoch);
    query_text(q, 5, str_of(status_names[row.status]));
    bind_time(q, 6, row.processed_ms);
    query_text(q, 7, row.processed_by);
    bind_time(q, 8, row.archived_ms);
    if (row.look_ms != NEVER_MS)
        query_int(q, 9, row.look_ms);
    work_mark_written(w);
    return query_run(q, NULL, err);
}

int inbox_follow(struct work *w, const struct task *t, int64_t old_epoch, enum inbox_change change,
                 struct err *err)
{
    struct inbox_row row;
    int r = 0;
    if (change != INBOX_STAYS && change != INBOX_NEW)
        r = change_row(w, t, old_epoch, change, err);
    if (r == 0 && (change == INBOX_NEW || change == INBOX_RENEWED))
        r = insert_turn(w, t, &row, err);
    return r;
}

int inbox_renew(struct work *w, const struct task *t, struct inbox_row *ret, const char **ret_was,
                struct err *err)
{
    bool found;
    int r = inbox_of_task(w, t, t->epoch, ret, &found, err);
    *ret_was = NULL;
    if (r < 0)
        return r;
    if (!found) {
        *ret_was = "missing";
        return insert_turn(w, t, ret, err);
    }
    if (ret->status != INBOX_IS_PENDING) {
        *ret_was = status_names[ret->status];
        inbox_set_pending(w, ret);
    }
    inbox_ring(w, ret);
    return inbox_store(w, ret, err);
}

/* ---- a person's stop ---- */

static int find_stop(struct work *w, const struct agent *a, struct inbox_row *ret, bool *ret_found,
                     struct err *err)
{
    struct query *q = store_query(w->store, SQL_INBOX_OPEN_STOP);
    query_int(q, 1, a->conversation);
    query_text(q, 2, str_of(a->role));
    int r = query_one(q, err);
    if (r < 0)
        return r;
    *ret_found = r == STORE_ROW;
    r = *ret_found ? inbox_from_row(w, q, ret, err) : 0;
    query_end(q);
    return r;
}

int inbox_tell_stop(struct work *w, const struct agent *a, const char *reason, struct err *err)
{
    struct inbox_row row;
    bool found;
    int64_t inbox;
    struct head *h;
    int r = head_get(w, a->conversation, &h, err);
    if (r == 0)
        r = find_stop(w, a, &row, &found, err);
    if (r < 0 || found || h->status == CONVERSATION_COMPLETED)
        return r;
    return inbox_put(
        w, a, INBOX_OF_STOP, arena_printf(&w->arena, "stop-%lld", (long long)w->last.inbox + 1),
        STR("public"), arena_printf(&w->arena, "{\"reason\":\"%s\"}", reason), &inbox, &found, err);
}

int inbox_end_stop(struct work *w, const struct agent *a, enum inbox_status status, struct err *err)
{
    struct inbox_row row;
    bool found;
    int r = find_stop(w, a, &row, &found, err);
    if (r < 0 || !found)
        return r;
    inbox_archive(w, &row, status);
    return inbox_store(w, &row, err);
}

/* ---- all of a conversation ---- */

int inbox_skip_open(struct work *w, int64_t conversation, struct str role, struct err *err)
{
    struct query *q = store_query(w->store, SQL_INBOX_SKIP_OPEN);
    query_int(q, 1, conversation);
    query_text(q, 2, role);
    query_int(q, 3, w->now_ms);
    return query_run(q, NULL, err);
}

static int resume_one(struct work *w, struct inbox_row *row, int64_t blocked_at_ms, struct err *err)
{
    int64_t *const clocks[] = {&row->pending_ms, &row->woken_ms, &row->processed_ms};
    for (size_t i = 0; i < ARRAY_LEN(clocks); i++)
        *clocks[i] = gaps_after_block_ms(&w->gaps, *clocks[i], blocked_at_ms, w->now_ms);
    return inbox_store(w, row, err);
}

int inbox_resume(struct work *w, int64_t conversation, int64_t blocked_at_ms, struct err *err)
{
    struct inbox_row page[PAGE_ROWS];
    int64_t after = 0;
    size_t n = PAGE_ROWS;
    int r = 0;
    while (r == 0 && n == PAGE_ROWS) {
        struct query *q = store_query(w->store, SQL_INBOX_OPEN_OF_CONVERSATION);
        query_int(q, 1, conversation);
        query_int(q, 2, after);
        query_int(q, 3, PAGE_ROWS);
        r = list(w, q, page, &n, err);
        for (size_t i = 0; r == 0 && i < n; i++) {
            r = resume_one(w, &page[i], blocked_at_ms, err);
            after = page[i].inbox;
        }
    }
    return r;
}

/* ---- showing ---- */

static void write_members(const struct inbox_row *row, struct json_out *out)
{
    json_int(out, "inboxId", row->inbox);
    json_stringz(out, "messageType", type_names[row->type]);
    json_string(out, "correlationId", row->correlation);
    json_raw(out, "payload", row->payload);
    json_int(out, "epoch", row->epoch);
    json_time(out, "createdAt", row->created_ms);
}

void inbox_write_message(const struct inbox_row *row, struct json_out *out, const char *key)
{
    json_object(out, key);
    write_members(row, out);
    json_end(out);
}

static void write_time(struct json_out *out, const char *key, int64_t ms)
{
    if (ms)
        json_time(out, key, ms);
    else
        json_null(out, key);
}

void inbox_write(const struct inbox_row *row, struct json_out *out, const char *key)
{
    json_object(out, key);
    write_members(row, out);
    json_int(out, "conversation", row->conversation);
    json_stringz(out, "role", row->role);
    json_stringz(out, "status", status_names[row->status]);
    json_string(out, "channel", row->channel);
    json_string(out, "receivedBy", row->processed_by);
    json_int(out, "attempts", row->attempts);
    write_time(out, "processedAt", row->processed_ms);
    write_time(out, "archivedAt", row->archived_ms);
    json_int(out, "ringCount", row->ring_count);
    write_time(out, "lastRungAt", row->last_rung_ms);
    json_stringz(out, "watchdog_error", row->watchdog_error);
    write_time(out, "watchdog_at", row->watchdog_ms);
    json_end(out);
}
