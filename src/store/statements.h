/*
 * statements.h: every SQL statement of the program, written once, for all backends.
 *
 * Placeholders are ?1, ?2, … (SQLite's numbered form; the PostgreSQL backend rewrites them). The
 * list is walked by a test that asks the planner about each row: none may scan a table, unless its
 * kind is SCAN. Kinds: READ, WRITE (begins the savepoint of the request), SCAN (a READ whose
 * table is small or that runs once at start).
 */
#pragma once

// clang-format off
/* X(name, kind, text) */
#define STATEMENT_LIST(X)                                                                          \
    X(CONVERSATION_INSERT, WRITE,                                                                  \
      "INSERT INTO conversations (conversation, status, starting_role, max_turns,"                 \
      " session_wall_clock_seconds, watchdog_disabled, idle_ms, global_idle_ms, window_number,"    \
      " window_started_at, last_seq, last_turn, last_closed_seq, turn_is_open, turn_is_cleared,"   \
      " turn_events, system_events, last_activity_at, created_at, updated_at)"                     \
      " VALUES (?1, 'active', ?2, ?3, ?4, ?5, ?6, ?7, 1, ?8, 0, 0, 0, 0, 0, 0, 0, ?8, ?8, ?8)")    \
    X(CONVERSATION_GET, READ,                                                                      \
      "SELECT status, outcome, stop_reason_code, starting_role, max_turns,"                        \
      " session_wall_clock_seconds, watchdog_disabled, idle_ms, global_idle_ms, window_number,"    \
      " window_started_at, last_seq, last_turn, last_closed_seq, turn_is_open, turn_is_cleared,"   \
      " turn_owner, turn_events, system_events, last_activity_at, created_at, updated_at"          \
      " FROM conversations WHERE conversation = ?1")                                               \
    X(CONVERSATION_LIST, READ,                                                                     \
      "SELECT conversation FROM conversations WHERE conversation > ?1"                             \
      " ORDER BY conversation LIMIT ?2")                                                           \
    X(CONVERSATION_LIST_BY_STATUS, READ,                                                           \
      "SELECT conversation FROM conversations WHERE status = ?3 AND conversation > ?1"             \
      " ORDER BY conversation LIMIT ?2")                                                           \
    X(CONVERSATION_LAST, READ, "SELECT MAX(conversation) FROM conversations")                      \
    X(HEAD_UPDATE, WRITE,                                                                          \
      "UPDATE conversations SET last_seq = ?2, last_turn = ?3, last_closed_seq = ?4,"              \
      " turn_is_open = ?5, turn_is_cleared = ?6, turn_owner = ?7, turn_events = ?8,"               \
      " system_events = ?9, last_activity_at = ?10, updated_at = ?11 WHERE conversation = ?1")     \
    X(STATUS_UPDATE, WRITE,                                                                        \
      "UPDATE conversations SET status = ?2, outcome = ?3, stop_reason_code = ?4"                  \
      " WHERE conversation = ?1")                                                                  \
    X(AGENT_INSERT, WRITE,                                                                         \
      "INSERT INTO agents (conversation, role, position, kind, machine, desired)"                  \
      " VALUES (?1, ?2, ?3, ?4, ?5, ?6)")                                                          \
    X(AGENT_LIST, READ,                                                                            \
      "SELECT role, kind, machine, desired FROM agents WHERE conversation = ?1"                    \
      " ORDER BY position")                                                                        \
    X(EVENT_INSERT, WRITE,                                                                         \
      "INSERT INTO conversation_events (id, conversation, seq, turn, event, ts, type, finality,"   \
      " agent_id, payload, client_request_id, request_hash)"                                       \
      " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)")                               \
    X(EVENT_BY_ID, READ,                                                                           \
      "SELECT id, conversation, seq, turn, event, ts, type, finality, agent_id, payload,"          \
      " client_request_id, request_hash FROM conversation_events WHERE id = ?1")                   \
    X(EVENT_LIST, READ,                                                                            \
      "SELECT e.id, e.conversation, e.seq, e.turn, e.event, e.ts, e.type, e.finality, e.agent_id," \
      " e.payload FROM log_by_seq i JOIN conversation_events e ON e.id = i.id"                     \
      " WHERE i.conversation = ?1 AND i.seq > ?2 ORDER BY i.seq LIMIT ?3")                         \
    X(EVENT_LIST_ALL, READ,                                                                        \
      "SELECT id, conversation, seq, turn, event, ts, type, finality, agent_id, payload"           \
      " FROM conversation_events WHERE id > ?1 ORDER BY id LIMIT ?2")                              \
    X(LOG_ID_BY_SEQ, READ,                                                                         \
      "SELECT id FROM log_by_seq WHERE conversation = ?1 AND seq = ?2")                            \
    X(LOG_ID_BY_REQUEST, READ,                                                                     \
      "SELECT id FROM log_by_request"                                                              \
      " WHERE conversation = ?1 AND agent_id = ?2 AND client_request_id = ?3")                     \
    X(LOG_TAIL, READ,                                                                              \
      "SELECT id, conversation, seq, agent_id, client_request_id FROM conversation_events"         \
      " WHERE id > (SELECT id FROM cursors WHERE name = 'log_index') ORDER BY id")                 \
    X(LOG_INDEX_EVENTS, WRITE,                                                                     \
      "INSERT INTO log_by_seq (conversation, seq, id)"                                             \
      " SELECT conversation, seq, id FROM conversation_events"                                     \
      " WHERE id > (SELECT id FROM cursors WHERE name = 'log_index') AND id <= ?1")                \
    X(LOG_INDEX_REQUESTS, WRITE,                                                                   \
      "INSERT INTO log_by_request (conversation, agent_id, client_request_id, id)"                 \
      " SELECT conversation, agent_id, client_request_id, id FROM conversation_events"             \
      " WHERE id > (SELECT id FROM cursors WHERE name = 'log_index') AND id <= ?1"                 \
      " AND client_request_id IS NOT NULL")                                                        \
    X(LOG_INDEX_CURSOR, WRITE, "UPDATE cursors SET id = ?1 WHERE name = 'log_index'")              \
    X(EVENT_LAST, READ, "SELECT MAX(id) FROM conversation_events")                                 \
    X(ATTACHMENT_INSERT, WRITE,                                                                    \
      "INSERT INTO attachments (attachment, conversation, event_id, name, content_type, content)"  \
      " VALUES (?1, ?2, ?3, ?4, ?5, ?6)")                                                          \
    X(ATTACHMENT_GET, READ,                                                                        \
      "SELECT conversation, name, content_type, content FROM attachments WHERE attachment = ?1")   \
    X(ATTACHMENT_LAST, READ, "SELECT MAX(attachment) FROM attachments")                            \
    X(KEY_GET, READ,                                                                               \
      "SELECT request_hash, result FROM idempotency_keys"                                          \
      " WHERE subject = ?1 AND method = ?2 AND request_key = ?3")                                  \
    X(KEY_INSERT, WRITE,                                                                           \
      "INSERT INTO idempotency_keys (subject, method, request_key, request_hash, result,"          \
      " created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)")                                              \
    X(KEY_PRUNE, WRITE,                                                                            \
      "DELETE FROM idempotency_keys WHERE (subject, method, request_key) IN"                       \
      " (SELECT subject, method, request_key FROM idempotency_keys WHERE created_at < ?1"          \
      " ORDER BY created_at LIMIT ?2)")                                                            \
    X(TOKEN_INSERT, WRITE,                                                                         \
      "INSERT INTO tokens (token, hash, scope, conversation, role, machine, created_at,"           \
      " expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")                                      \
    X(TOKEN_LIST, SCAN,                                                                            \
      "SELECT token, hash, scope, conversation, role, machine, created_at, expires_at, revoked_at" \
      " FROM tokens ORDER BY token")                                                               \
    X(TOKEN_REVOKE, WRITE,                                                                         \
      "UPDATE tokens SET revoked_at = ?2 WHERE token = ?1 AND revoked_at IS NULL")                 \
    X(TOKEN_GET, READ, "SELECT revoked_at FROM tokens WHERE token = ?1")                           \
    X(TOKEN_LAST, READ, "SELECT MAX(token) FROM tokens")                                           \
    X(SERVER_STARTED, WRITE,                                                                       \
      "INSERT INTO servers (server, started_at, last_tick_at) VALUES (?1, ?2, ?2)"                 \
      " ON CONFLICT (server) DO UPDATE SET started_at = ?2, last_tick_at = ?2")                    \
    X(SERVER_TICKED, WRITE, "UPDATE servers SET last_tick_at = ?2 WHERE server = ?1")              \
    X(SERVER_GREATEST_TIME, SCAN, "SELECT MAX(last_tick_at) FROM servers")
// clang-format on

enum statement {
#define X(name, kind, text) SQL_##name,
    STATEMENT_LIST(X)
#undef X
        STATEMENT_COUNT
};

enum statement_kind { STATEMENT_READ, STATEMENT_WRITE, STATEMENT_SCAN };

struct statement_row {
    const char *name;
    enum statement_kind kind;
    const char *text;
};

extern const struct statement_row statement_rows[STATEMENT_COUNT];
