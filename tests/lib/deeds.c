/* deeds.c: see deeds.h. */
#include "lib/deeds.h"

#include <string.h>

#include "base/macro.h"
#include "base/mem.h"

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql, int64_t up_to)
{
    sqlite3_stmt *stmt = NULL;
    REQUIRE_F(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK, "%s: %s", sql,
              sqlite3_errmsg(db));
    sqlite3_bind_int64(stmt, 1, up_to);
    return stmt;
}

/* FNV-1a over the text of all columns. */
static uint64_t hash_row(uint64_t hash, sqlite3_stmt *stmt)
{
    for (int i = 0; i < sqlite3_column_count(stmt); i++) {
        const unsigned char *text = sqlite3_column_text(stmt, i);
        int n = sqlite3_column_bytes(stmt, i);
        for (int k = 0; k < n; k++)
            hash = (hash ^ text[k]) * UINT64_C(0x100000001b3);
        hash = (hash ^ 0xFF) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* Of all rows up to a number; *ret_last, if wanted, is the last there is. */
static uint64_t hash_rows(sqlite3 *db, const char *sql, int64_t up_to, int64_t *ret_last)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    sqlite3_stmt *stmt = prepare(db, sql, up_to);
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        hash = hash_row(hash, stmt);
        if (ret_last)
            *ret_last = sqlite3_column_int64(stmt, 0);
    }
    sqlite3_finalize(stmt);
    return hash;
}

static const char events_sql[] =
    "SELECT id, conversation, seq, turn, event, ts, type, finality, agent_id, payload,"
    " client_request_id FROM conversation_events WHERE id <= ?1 ORDER BY id";
static const char cards_sql[] = "SELECT card, type, conversation, task, content, created_at"
                                " FROM cards WHERE card <= ?1 ORDER BY card";
static const char tasks_sql[] =
    "SELECT task, epoch, completed_at IS NOT NULL, status, stop_reason_code, deliverable"
    " FROM tasks WHERE task <= ?1 ORDER BY task";

static int64_t read_tasks(sqlite3 *db, struct deed_task tasks[DEEDS_TASKS_MAX + 1])
{
    int64_t count = 0;
    sqlite3_stmt *stmt = prepare(db, tasks_sql, DEEDS_TASKS_MAX);
    while (sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_int64(stmt, 0) == count + 1)
        tasks[++count] = (struct deed_task){
            .epoch = sqlite3_column_int64(stmt, 1),
            .end_hash = sqlite3_column_int(stmt, 2) ? hash_row(1, stmt) | 1 : 0,
        };
    sqlite3_finalize(stmt);
    return count;
}

void deeds_read(struct deeds *d, sqlite3 *db)
{
    *d = (struct deeds){0};
    d->events_hash = hash_rows(db, events_sql, INT64_MAX, &d->last_event);
    d->cards_hash = hash_rows(db, cards_sql, INT64_MAX, &d->last_card);
    d->task_count = read_tasks(db, d->tasks);
}

const char *deeds_missing(const struct deeds *d, sqlite3 *db)
{
    struct deed_task tasks[DEEDS_TASKS_MAX + 1];
    if (d->last_event && hash_rows(db, events_sql, d->last_event, NULL) != d->events_hash)
        return "P12: events that were acknowledged";
    if (d->last_card && hash_rows(db, cards_sql, d->last_card, NULL) != d->cards_hash)
        return "P12: cards that were acknowledged";
    if (d->task_count && read_tasks(db, tasks) < d->task_count)
        return "P12: a task that was acknowledged";
    for (int64_t i = 1; i <= d->task_count; i++) {
        if (tasks[i].epoch < d->tasks[i].epoch)
            return "P8: the epoch of a task";
        if (d->tasks[i].end_hash && tasks[i].end_hash != d->tasks[i].end_hash)
            return "P7: the end of a task";
    }
    return NULL;
}

/* ---- what must hold in any store ---- */

/* Each counts what must not be. */
static const struct {
    const char *promise, *sql;
} rules[] = {
    {"P6: seq is gapless from 1, in the order of ids",
     "SELECT count(*) FROM (SELECT seq - row_number() OVER (PARTITION BY conversation ORDER BY id)"
     " AS d FROM conversation_events) WHERE d <> 0"},
    {"P6, P7: one terminal message, the last, if and only if it has ended",
     "SELECT count(*) FROM conversations c LEFT JOIN (SELECT conversation,"
     " sum(finality = 'conversation') AS n, max(seq) AS last,"
     " max(CASE finality WHEN 'conversation' THEN seq END) AS end"
     " FROM conversation_events GROUP BY conversation) e USING (conversation)"
     " WHERE e.n > 1 OR (e.n = 1 AND e.end <> e.last) OR (e.n = 1) <> (c.status = 'completed')"},
    {"P7: one terminal event for each ended task, none for others, with a reason",
     "SELECT count(*) FROM tasks t LEFT JOIN (SELECT json_extract(payload, '$.data.task') AS task,"
     " count(*) AS n, count(json_extract(payload, '$.data.reason')) AS reasons"
     " FROM conversation_events WHERE type = 'system' AND"
     " json_extract(payload, '$.kind') = 'agent.task' GROUP BY 1) e USING (task)"
     " WHERE COALESCE(e.n, 0) <> (t.completed_at IS NOT NULL) OR e.n <> e.reasons"},
    {"P10: an end by the ladder has a deliverable, or says why not",
     "SELECT count(*) FROM conversation_events WHERE type = 'system' AND"
     " json_extract(payload, '$.kind') = 'agent.task' AND json_extract(payload, '$.data.reason') IN"
     " ('dispatch_timeout', 'timeout_reaped_by_watchdog', 'task_deadline_exceeded',"
     " 'attempts_exhausted') AND json_extract(payload, '$.data.deliverable_card_id') IS NULL AND"
     " json_extract(payload, '$.data.deliverable_error') IS NULL"},
    {"head and task agree: an agent's active task is open and its own",
     "SELECT count(*) FROM agents a LEFT JOIN tasks t ON t.task = a.active_task"
     " WHERE a.active_task IS NOT NULL AND (t.task IS NULL OR t.completed_at IS NOT NULL OR"
     " t.status = 'queued' OR t.role <> a.role OR t.conversation <> a.conversation)"},
    {"head and task agree: an active task is its agent's, with no later epoch",
     "SELECT count(*) FROM tasks t LEFT JOIN agents a USING (conversation, role)"
     " WHERE t.completed_at IS NULL AND t.status <> 'queued' AND"
     " (a.active_task IS NOT t.task OR a.turn_epoch < t.epoch)"},
    {"a pending task has its inbox row",
     "SELECT count(*) FROM tasks t WHERE t.status = 'pending' AND NOT EXISTS (SELECT 1 FROM"
     " agent_inbox i WHERE i.conversation = t.conversation AND i.role = t.role AND"
     " i.type = 'turn' AND i.epoch = t.epoch AND i.status = 'pending')"},
    {"what has ended has no open task, and nothing waits for a tool",
     "SELECT count(*) FROM tasks t JOIN conversations c USING (conversation) LEFT JOIN"
     " turn_waiting_tools x ON x.task = t.task AND x.wait_status = 'waiting'"
     " WHERE (c.status = 'completed' AND t.completed_at IS NULL)"
     " OR (t.completed_at IS NOT NULL AND x.wait IS NOT NULL)"},
    {"open tasks are counted right",
     "SELECT count(*) FROM conversations c WHERE c.open_tasks <> (SELECT count(*) FROM tasks t"
     " WHERE t.conversation = c.conversation AND t.completed_at IS NULL AND t.status <> 'queued')"},
    {"cards that are named exist",
     "SELECT (SELECT count(*) FROM turn_waiting_tools x LEFT JOIN cards c ON c.card = x.result_card"
     " WHERE x.result_card IS NOT NULL AND c.card IS NULL) + (SELECT count(*) FROM tasks t LEFT"
     " JOIN cards c ON c.card = t.deliverable WHERE t.deliverable IS NOT NULL AND c.card IS NULL)"},
};

const char *store_rules_broken(sqlite3 *db)
{
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        sqlite3_stmt *stmt = prepare(db, rules[i].sql, 0);
        bool holds = sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_int64(stmt, 0) == 0;
        sqlite3_finalize(stmt);
        if (!holds)
            return rules[i].promise;
    }
    return NULL;
}
