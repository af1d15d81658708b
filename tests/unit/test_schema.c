/*
 * test_schema.c: what the schema promises to those who build on it: which index answers what, what
 * can never be stored, and what becomes of a store that an earlier version wrote.
 */
#include "base/log.h"
#include "base/macro.h"
#include "base/mem.h"
#include "store/schema.h"
#include "store/sqlite_store.h"
#include "tap.h"

enum { NOW_MS = 1700000000 };

static const char *file_path(void)
{
    static char path[300];
    snprintf(path, sizeof path, "%s/a.db", tap_folder());
    return path;
}

static struct store *open_store(void)
{
    struct store *s = NULL;
    struct err err = ERR_INIT;
    _cleanup_free_ char *url = mem_printf("sqlite:%s", file_path());
    log_set_level(LOG_ERROR + 1);
    if (store_open(url, NULL, NOW_MS, &s, &err) < 0)
        tap_fail(__FILE__, __LINE__, "%s", err.message);
    return s;
}

/* ---- indexes ---- */

/* Not only no scan (test_store.c asks that of all): the index that was made for it. */
TEST(L05_what_the_ladder_asks_is_answered_by_its_indexes)
{
    static const struct {
        enum statement statement;
        const char *index;
    } rows[] = {
        {SQL_LOOK_DUE_NOTICE, "look_for_notice"},
        {SQL_LOOK_NEXT_NOTICE, "look_for_notice"},
        {SQL_LOOK_DUE_WALL_CLOCK, "look_for_wall_clock"},
        {SQL_LOOK_NEXT_WALL_CLOCK, "look_for_wall_clock"},
        {SQL_LOOK_DUE_IDLE, "look_for_idle"},
        {SQL_LOOK_NEXT_IDLE, "look_for_idle"},
        {SQL_LOOK_DUE_GLOBAL_IDLE, "look_for_global_idle"},
        {SQL_LOOK_NEXT_GLOBAL_IDLE, "look_for_global_idle"},
        {SQL_LOOK_AGAIN_IDLE, "conversations_by_status"},
        {SQL_AGENT_LIST_ENSURED, "agents_ensured"},
        {SQL_LOOK_DUE_QUEUE, "agents_stranded"},
        {SQL_LOOK_DUE_INBOX_PENDING, "look_for_inbox_pending"},
        {SQL_LOOK_NEXT_INBOX_PENDING, "look_for_inbox_pending"},
        {SQL_LOOK_DUE_INBOX_PROCESSING, "look_for_inbox_processing"},
        {SQL_LOOK_NEXT_INBOX_PROCESSING, "look_for_inbox_processing"},
        {SQL_INBOX_FIND, "inbox_once"},
        {SQL_INBOX_RECEIVABLE, "inbox_receivable"},
        {SQL_INBOX_OPEN_OF_AGENT, "inbox_open_of_agent"},
        {SQL_INBOX_OPEN_OF_CONVERSATION, "inbox_open"},
        {SQL_INBOX_SKIP_OPEN, "inbox_open"},
        {SQL_INBOX_LIST, "inbox_by_conversation"},
        {SQL_PROCESS_OPEN_ON, "processes_open"},
        {SQL_PROCESS_OPEN_OF, "processes_of_agent"},
        {SQL_COMMAND_OPEN_START, "one_open_start"},
        {SQL_COMMAND_LAST_TAKEN, "commands_taken"},
        {SQL_COMMAND_HAS_OPEN_START, "one_open_start"},
        {SQL_COMMAND_OPEN_STOP, "one_open_stop"},
        {SQL_COMMAND_FAIL_OPEN_STARTS, "one_open_start"},
        {SQL_COMMAND_LIST_OF_CONVERSATION, "commands_by_conversation"},
        {SQL_COMMAND_LIST, "INTEGER PRIMARY KEY"},
        {SQL_COMMAND_FAIL, "INTEGER PRIMARY KEY"},
        {SQL_MOVE_LIST, "PRIMARY KEY"},
        {SQL_LOOK_DUE_TOOL, "look_for_waits"},
        {SQL_LOOK_NEXT_TOOL, "look_for_waits"},
        {SQL_TOOL_FIND, "one_wait_per_call"},
        {SQL_TOOL_LIST, "waits_by_suspension"},
        {SQL_TOOL_SUMMARY, "waits_by_suspension"},
        {SQL_CARD_LAST_DELIVERABLE, "deliverables"},
    };
    struct store *s = open_store();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        _cleanup_buf_ struct buf plan = BUF_INIT(4096);
        const char *name = statement_rows[rows[i].statement].name;
        CHECK_INT(store_explain(s, rows[i].statement, &plan, NULL), 0);
        if (!strstr(plan.data, rows[i].index) || strstr(plan.data, "TEMP B-TREE"))
            tap_fail(__FILE__, __LINE__, "%s: %s", name, plan.data);
    }
    store_close(s);
}

/* ---- constraints ---- */

static int put_command(struct store *s, int64_t command, const char *type, const char *role,
                       const char *spawn_id)
{
    struct query *q = store_query(s, SQL_COMMAND_INSERT);
    query_int(q, 1, command);
    query_text(q, 2, str_of(type));
    query_int(q, 3, 1);
    query_text(q, 4, str_of(role));
    query_text(q, 5, STR("shell"));
    query_text(q, 7, str_of(spawn_id));
    query_text(q, 8, STR("test"));
    query_int(q, 9, NOW_MS);
    query_int(q, 10, NOW_MS + 1000);
    return query_run(q, NULL, NULL);
}

static void fail_command(struct store *s, int64_t command)
{
    struct query *q = store_query(s, SQL_COMMAND_FAIL);
    query_int(q, 1, command);
    query_text(q, 2, STR("test"));
    query_int(q, 3, NOW_MS);
    int64_t changes;
    CHECK_INT(query_run(q, &changes, NULL), 0);
    CHECK_INT(changes, 1);
}

TEST(an_agent_has_one_open_start_and_a_process_one_open_stop)
{
    struct store *s = open_store();
    CHECK_INT(store_begin(s, NULL), 0);
    CHECK_INT(put_command(s, 1, "start-agent", "a", "p1"), 0);
    CHECK_INT(put_command(s, 2, "start-agent", "a", "p2"), -ERR_INTERNAL);
    CHECK_INT(put_command(s, 2, "restart-agent", "a", "p2"), -ERR_INTERNAL);
    CHECK_INT(put_command(s, 2, "start-agent", "b", "p2"), 0);
    CHECK_INT(put_command(s, 3, "stop-agent", "a", "p1"), 0);
    CHECK_INT(put_command(s, 4, "stop-agent", "a", "p1"), -ERR_INTERNAL);
    CHECK_INT(put_command(s, 4, "stop-agent", "a", "p0"), 0);
    CHECK_INT(put_command(s, 5, "dance", "c", "p5"), -ERR_INTERNAL);
    fail_command(s, 1);
    fail_command(s, 3);
    CHECK_INT(put_command(s, 5, "restart-agent", "a", "p5"), 0);
    CHECK_INT(put_command(s, 6, "stop-agent", "a", "p1"), 0);
    CHECK_INT(store_commit(s, NULL), 0);
    store_close(s);
}

/* What a row of the waiting tools may be: see its columns. */
struct wait {
    const char *wait_status, *settled_at, *result_status, *result_card, *ledger_status, *leased_at;
};

static int put_wait(struct store *s, const struct wait *row)
{
    _cleanup_free_ char *sql = mem_printf(
        "INSERT INTO turn_waiting_tools (task, epoch, tool_call_id, since_at, wait_status,"
        " settled_at, result_status, result_card, ledger_status, leased_at)"
        " VALUES (1, 1, 'x', 1, '%s', %s, %s, %s, %s, %s)",
        row->wait_status, row->settled_at, row->result_status, row->result_card, row->ledger_status,
        row->leased_at);
    int r = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
    sqlite3_exec(s->db, "DELETE FROM turn_waiting_tools", NULL, NULL, NULL);
    return r;
}

/* ledger.reconcile has nothing to do: a result is never without its entry, nor an entry without its
 * result; and nothing is lent that is not there. */
TEST(a_result_and_its_entry_in_the_ledger_are_one)
{
    static const struct wait good[] = {
        {"waiting", "NULL", "NULL", "NULL", "NULL", "NULL"},
        {"received", "2", "'success'", "7", "'pending'", "NULL"},
        {"received", "2", "'timeout'", "7", "'processing'", "3"},
        {"applied", "2", "'success'", "7", "'applied'", "NULL"},
        {"interrupted", "2", "'interrupted'", "7", "'applied'", "NULL"},
        {"expired", "2", "NULL", "NULL", "NULL", "NULL"},
    };
    static const struct wait bad[] = {
        {"received", "2", "'success'", "7", "NULL", "NULL"},
        {"received", "2", "'success'", "NULL", "'pending'", "NULL"},
        {"received", "2", "NULL", "7", "'pending'", "NULL"},
        {"received", "NULL", "'success'", "7", "'pending'", "NULL"},
        {"received", "2", "'success'", "7", "'processing'", "NULL"},
        {"received", "2", "'success'", "7", "'pending'", "3"},
        {"received", "2", "NULL", "NULL", "NULL", "NULL"},
        {"waiting", "NULL", "'success'", "7", "'pending'", "NULL"},
        {"waiting", "2", "NULL", "NULL", "NULL", "NULL"},
        {"applied", "2", "'success'", "7", "NULL", "NULL"},
        {"lost", "2", "NULL", "NULL", "NULL", "NULL"},
    };
    struct store *s = open_store();
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        CHECK_INT(put_wait(s, &good[i]), SQLITE_OK);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK_INT(put_wait(s, &bad[i]), SQLITE_CONSTRAINT_CHECK);
    store_close(s);
}

TEST(a_gap_ends_after_it_begins)
{
    struct store *s = open_store();
    static const int64_t gaps[][3] = {{5, 9, 0}, {5, 10, -ERR_INTERNAL}, {12, 12, -ERR_INTERNAL}};
    CHECK_INT(store_begin(s, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(gaps); i++) {
        struct query *q = store_query(s, SQL_GAP_INSERT);
        query_int(q, 1, gaps[i][0]);
        query_int(q, 2, gaps[i][1]);
        CHECK_INT(query_run(q, NULL, NULL), gaps[i][2]);
    }
    CHECK_INT(store_commit(s, NULL), 0);
    store_close(s);
}

/* ---- migrations ---- */

/* A store as version 1 left it: an active and an ended conversation, each with two agents. */
static void make_version_1(void)
{
    sqlite3 *db = NULL;
    CHECK_INT(sqlite3_open(file_path(), &db), SQLITE_OK);
    static const char content[] =
        "INSERT INTO conversations (conversation, status, outcome, stop_reason_code, max_turns,"
        " watchdog_disabled, window_number, window_started_at, last_seq, last_turn,"
        " last_closed_seq, turn_is_open, turn_is_cleared, turn_events, system_events,"
        " last_activity_at, created_at, updated_at) VALUES"
        " (1, 'active', NULL, NULL, 0, 0, 1, 5, 1, 0, 0, 0, 0, 0, 1, 5, 5, 5),"
        " (2, 'completed', 'completed', 'completed', 0, 0, 1, 5, 1, 0, 0, 0, 0, 0, 1, 5, 5, 5);"
        "INSERT INTO agents (conversation, role, position, kind, desired) VALUES"
        " (1, 'a', 0, 'shell', 'running'), (1, 'b', 1, 'shell', 'auto'),"
        " (2, 'a', 0, 'shell', 'running'), (2, 'b', 1, 'shell', 'stopped');"
        "INSERT INTO conversation_events (id, conversation, seq, turn, event, ts, type, finality,"
        " agent_id, payload) VALUES (1, 1, 1, 0, 1, 5, 'system', 'none', 'x', '{}'),"
        " (2, 2, 1, 0, 1, 5, 'system', 'none', 'x', '{}');"
        "CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL);"
        "INSERT INTO schema_version VALUES (1, 5);";
    static const char id[] = "PRAGMA application_id = 0x72656576"; /* "reev" */
    CHECK_INT(sqlite3_exec(db, schema_migrations[0], NULL, NULL, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db, content, NULL, NULL, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db, id, NULL, NULL, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_close(db), SQLITE_OK);
}

static int64_t number(struct store *s, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    CHECK_INT(sqlite3_prepare_v2(s->db, sql, -1, &stmt, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_step(stmt), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return value;
}

TEST(version_1_becomes_version_2_with_all_it_had)
{
    make_version_1();
    struct store *s = open_store();
    CHECK_INT(number(s, "SELECT MAX(version) FROM schema_version"), (int64_t)schema_version_latest);
    CHECK_INT(number(s, "SELECT COUNT(*) FROM conversations WHERE notice_given = 0"), 2);
    /* Who wanted to run, in what still runs, is resumed; what had ended is never looked at. */
    CHECK_INT(number(s, "SELECT COUNT(*) FROM agents WHERE ensured = 1"), 1);
    CHECK_INT(number(s, "SELECT conversation FROM agents WHERE ensured = 1"), 1);
    CHECK_INT(number(s, "SELECT COUNT(*) FROM agents WHERE view = 'stopped'"), 4);
    CHECK_INT(number(s, "SELECT id FROM cursors WHERE name = 'lifecycle'"), 2);
    CHECK_INT(number(s, "SELECT COUNT(*) FROM watch_limits"), 0); /* so looks are set anew */
    store_close(s);
}

/* An agent with work and a queue, an idle one, and what is in their inboxes. */
static void make_version_3(void)
{
    sqlite3 *db = NULL;
    make_version_1();
    CHECK_INT(sqlite3_open(file_path(), &db), SQLITE_OK);
    static const char content[] =
        "INSERT INTO tasks (task, conversation, role, status, content, channel, epoch, attempts,"
        " created_at) VALUES (1, 1, 'a', 'pending', '1', 'public', 1, 0, 5),"
        " (2, 1, 'a', 'queued', '1', 'public', 0, 0, 6), (3, 1, 'a', 'queued', '1', 'public', 0, "
        "0, 7);"
        "UPDATE agents SET active_task = 1 WHERE conversation = 1 AND role = 'a';"
        "INSERT INTO agent_inbox (inbox, conversation, role, type, correlation_id, epoch, status,"
        " channel, payload, created_at) VALUES (1, 1, 'a', 'turn', '1', 1, 'pending', 'public', "
        "'{}', 5);"
        "INSERT INTO schema_version VALUES (2, 5), (3, 5);";
    CHECK_INT(sqlite3_exec(db, schema_migrations[1], NULL, NULL, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db, schema_migrations[2], NULL, NULL, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db, content, NULL, NULL, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_close(db), SQLITE_OK);
}

TEST(version_3_becomes_version_4_with_its_queues_and_inboxes)
{
    make_version_3();
    struct store *s = open_store();
    CHECK_INT(number(s, "SELECT MAX(version) FROM schema_version"), (int64_t)schema_version_latest);
    CHECK_INT(number(s, "SELECT first_queued FROM agents WHERE conversation = 1 AND role = 'a'"),
              2);
    CHECK_INT(number(s, "SELECT COUNT(*) FROM agents WHERE first_queued IS NOT NULL"), 1);
    CHECK_INT(number(s, "SELECT pending_at FROM agent_inbox"), 5);
    CHECK_INT(number(s, "SELECT ring_count + wakeups + attempts FROM agent_inbox"), 0);
    CHECK_INT(number(s, "SELECT retries FROM tasks WHERE task = 1"), 0);
    store_close(s);
}
