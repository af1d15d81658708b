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
#define INBOX_COLUMNS                                                                              \
    "inbox, conversation, role, type, correlation_id, epoch, status, channel, payload,"            \
    " created_at, pending_at, processed_at, archived_at, woken_at, wakeups, last_rung_at,"         \
    " ring_count, attempts, watchdog_at, look_at, processed_by, watchdog_error"

#define COMMAND_COLUMNS                                                                            \
    "command, type, conversation, role, kind, machine, spawn_id, status, reason, created_at,"      \
    " since_at, sends, closed_at, outcome, look_at"

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
      " turn_owner, turn_events, system_events, last_activity_at, created_at, updated_at,"         \
      " notice_given, blocked_at, notice_look_at, wall_clock_look_at, idle_look_at,"               \
      " global_idle_look_at, open_tasks, last_task_at FROM conversations WHERE conversation = ?1") \
    X(CONVERSATION_TASKS, WRITE,                                                                   \
      "UPDATE conversations SET open_tasks = ?2, last_task_at = ?3 WHERE conversation = ?1")       \
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
    X(STATE_UPDATE, WRITE,                                                                         \
      "UPDATE conversations SET status = ?2, outcome = ?3, stop_reason_code = ?4,"                 \
      " session_wall_clock_seconds = ?5, window_number = ?6, window_started_at = ?7,"              \
      " notice_given = ?8, blocked_at = ?9, notice_look_at = ?10, wall_clock_look_at = ?11,"       \
      " idle_look_at = ?12, global_idle_look_at = ?13, last_seq = ?14, last_turn = ?15,"           \
      " last_closed_seq = ?16, turn_is_open = ?17, turn_is_cleared = ?18, turn_owner = ?19,"       \
      " turn_events = ?20, system_events = ?21, last_activity_at = ?22, updated_at = ?23"          \
      " WHERE conversation = ?1")                                                                  \
    X(LOOK_UPDATE_NOTICE, WRITE,                                                                   \
      "UPDATE conversations SET notice_look_at = ?2 WHERE conversation = ?1")                      \
    X(LOOK_DUE_NOTICE, READ,                                                                       \
      "SELECT conversation, notice_look_at FROM conversations WHERE notice_look_at <= ?1"          \
      " AND (notice_look_at, conversation) > (?2, ?3)"                                             \
      " ORDER BY notice_look_at, conversation LIMIT ?4")                                           \
    X(LOOK_NEXT_NOTICE, READ,                                                                      \
      "SELECT MIN(notice_look_at) FROM conversations WHERE notice_look_at > ?1")                   \
    X(LOOK_UPDATE_WALL_CLOCK, WRITE,                                                               \
      "UPDATE conversations SET wall_clock_look_at = ?2 WHERE conversation = ?1")                  \
    X(LOOK_DUE_WALL_CLOCK, READ,                                                                   \
      "SELECT conversation, wall_clock_look_at FROM conversations WHERE wall_clock_look_at <= ?1"  \
      " AND (wall_clock_look_at, conversation) > (?2, ?3)"                                         \
      " ORDER BY wall_clock_look_at, conversation LIMIT ?4")                                       \
    X(LOOK_NEXT_WALL_CLOCK, READ,                                                                  \
      "SELECT MIN(wall_clock_look_at) FROM conversations WHERE wall_clock_look_at > ?1")           \
    X(LOOK_UPDATE_IDLE, WRITE,                                                                     \
      "UPDATE conversations SET idle_look_at = ?2 WHERE conversation = ?1")                        \
    X(LOOK_DUE_IDLE, READ,                                                                         \
      "SELECT conversation, idle_look_at FROM conversations WHERE idle_look_at <= ?1"              \
      " AND (idle_look_at, conversation) > (?2, ?3)"                                               \
      " ORDER BY idle_look_at, conversation LIMIT ?4")                                             \
    X(LOOK_NEXT_IDLE, READ,                                                                        \
      "SELECT MIN(idle_look_at) FROM conversations WHERE idle_look_at > ?1")                       \
    X(LOOK_UPDATE_GLOBAL_IDLE, WRITE,                                                              \
      "UPDATE conversations SET global_idle_look_at = ?2 WHERE conversation = ?1")                 \
    X(LOOK_DUE_GLOBAL_IDLE, READ,                                                                  \
      "SELECT conversation, global_idle_look_at FROM conversations WHERE global_idle_look_at <= ?1"\
      " AND (global_idle_look_at, conversation) > (?2, ?3)"                                        \
      " ORDER BY global_idle_look_at, conversation LIMIT ?4")                                      \
    X(LOOK_NEXT_GLOBAL_IDLE, READ,                                                                 \
      "SELECT MIN(global_idle_look_at) FROM conversations WHERE global_idle_look_at > ?1")         \
    X(LOOK_AGAIN_NOTICE, WRITE,                                                                    \
      "UPDATE conversations SET notice_look_at ="                                                  \
      " CASE WHEN notice_given = 1 OR COALESCE(session_wall_clock_seconds * 800, ?1) = 0 THEN NULL"\
      " ELSE window_started_at + COALESCE(session_wall_clock_seconds * 800, ?1) + 1 END"           \
      " WHERE status = 'active' AND conversation > 0")                                             \
    X(LOOK_AGAIN_WALL_CLOCK, WRITE,                                                                \
      "UPDATE conversations SET wall_clock_look_at ="                                              \
      " CASE WHEN COALESCE(session_wall_clock_seconds * 1000, ?1) = 0 THEN NULL"                   \
      " ELSE window_started_at + COALESCE(session_wall_clock_seconds * 1000, ?1) + 1 END"          \
      " WHERE status = 'active' AND conversation > 0")                                             \
    X(LOOK_AGAIN_IDLE, WRITE,                                                                      \
      "UPDATE conversations SET idle_look_at ="                                                    \
      " CASE WHEN ?1 < 0 OR watchdog_disabled = 1 OR COALESCE(idle_ms, ?1) = 0"                    \
      " OR turn_is_open = 0 THEN NULL ELSE last_activity_at + COALESCE(idle_ms, ?1) + 1 END"       \
      " WHERE status = 'active' AND conversation > 0")                                             \
    X(LOOK_AGAIN_GLOBAL_IDLE, WRITE,                                                               \
      "UPDATE conversations SET global_idle_look_at ="                                             \
      " CASE WHEN ?1 < 0 OR watchdog_disabled = 1 OR COALESCE(global_idle_ms, ?1) = 0"             \
      " OR turn_is_open = 1 THEN NULL ELSE last_activity_at + COALESCE(global_idle_ms, ?1) + 1 END"\
      " WHERE status = 'active' AND conversation > 0")                                             \
    X(LIMIT_GET, READ, "SELECT limit_ms FROM watch_limits WHERE rule = ?1")                        \
    X(LIMIT_PUT, WRITE,                                                                            \
      "INSERT INTO watch_limits (rule, limit_ms) VALUES (?1, ?2)"                                  \
      " ON CONFLICT (rule) DO UPDATE SET limit_ms = ?2")                                           \
    X(GAP_INSERT, WRITE, "INSERT INTO watch_gaps (from_at, to_at) VALUES (?1, ?2)")                \
    X(GAP_LIST, SCAN, "SELECT from_at, to_at FROM watch_gaps ORDER BY from_at")                    \
    X(MOVE_INSERT, WRITE,                                                                          \
      "INSERT INTO moves (conversation, id, rule) VALUES (?1, ?2, ?3)")                            \
    X(MOVE_LIST, READ,                                                                             \
      "SELECT e.id, e.conversation, e.seq, e.turn, e.event, e.ts, e.type, e.finality, e.agent_id," \
      " e.payload, m.rule FROM moves m JOIN conversation_events e ON e.id = m.id"                  \
      " WHERE m.conversation = ?1 AND (m.rule = 'lifecycle') = ?3 ORDER BY m.id DESC LIMIT ?2")    \
    X(MOVE_LIST_EXITS, READ,                                                                       \
      "SELECT e.payload FROM moves m JOIN conversation_events e ON e.id = m.id"                    \
      " WHERE m.conversation = ?1 AND m.rule IN ('agent.exited', 'command.expired')"               \
      " ORDER BY m.id DESC LIMIT ?2")                                                              \
    X(AGENT_INSERT, WRITE,                                                                         \
      "INSERT INTO agents (conversation, role, position, kind, pinned_machine, desired)"           \
      " VALUES (?1, ?2, ?3, ?4, ?5, ?6)")                                                          \
    X(AGENT_ROLES, READ,                                                                           \
      "SELECT role FROM agents WHERE conversation = ?1 AND is_removed = 0 ORDER BY position")      \
    X(AGENT_ROLES_UP, READ,                                                                        \
      "SELECT role FROM agents WHERE conversation = ?1 AND (ensured = 1 OR process = 'starting')"  \
      " ORDER BY position")                                                                        \
    X(AGENT_GET, READ,                                                                             \
      "SELECT kind, machine, desired, ensured, process, view, turn_epoch, active_task,"            \
      " connection_id, is_listening, last_seen_at, spawn_id, process_at, listener_spawn,"          \
      " is_crashed, breaker_open, restart_count, restarts, restart_at, is_removed, view_at,"       \
      " is_fenced, first_queued, pinned_machine FROM agents"                                       \
      " WHERE conversation = ?1 AND role = ?2")                                                    \
    X(AGENT_UPDATE, WRITE,                                                                         \
      "UPDATE agents SET desired = ?3, ensured = ?4, view = ?5, turn_epoch = ?6, active_task = ?7,"\
      " connection_id = ?8, is_listening = ?9, last_seen_at = ?10, process = ?11, spawn_id = ?12," \
      " process_at = ?13, listener_spawn = ?14, is_crashed = ?15, breaker_open = ?16,"             \
      " restart_count = ?17, restarts = ?18, restart_at = ?19, kind = ?20, machine = ?21,"         \
      " is_removed = ?22, view_at = ?23, is_fenced = ?24, first_queued = ?25,"                     \
      " pinned_machine = ?26"                                                                      \
      " WHERE conversation = ?1 AND role = ?2")                                                    \
    X(AGENT_LIST_RESTARTING, READ,                                                                 \
      "SELECT conversation, role FROM agents WHERE restart_at IS NOT NULL"                         \
      " AND (conversation, role) > (?1, ?2) ORDER BY conversation, role LIMIT ?3")                 \
    X(AGENT_LIST_ON_MACHINE, READ,                                                                 \
      "SELECT conversation, role FROM agents WHERE machine = ?4 AND process <> 'none'"             \
      " AND (conversation, role) > (?1, ?2) ORDER BY conversation, role LIMIT ?3")                 \
    X(AGENT_COUNT_ON_MACHINE, READ,                                                                \
      "SELECT COUNT(*) FROM agents WHERE machine = ?1 AND process <> 'none'")                      \
    X(AGENT_LAST_POSITION, READ,                                                                   \
      "SELECT MAX(position) FROM agents WHERE conversation = ?1")                                  \
    X(FAILURE_INSERT, WRITE,                                                                       \
      "INSERT INTO agent_failures (conversation, role, at) VALUES (?1, ?2, ?3)")                   \
    X(FAILURE_COUNT, READ,                                                                         \
      "SELECT COUNT(*) FROM agent_failures WHERE conversation = ?1 AND role = ?2")                 \
    X(FAILURE_PRUNE, WRITE,                                                                        \
      "DELETE FROM agent_failures WHERE conversation = ?1 AND role = ?2 AND at <= ?3")             \
    X(FAILURE_CLEAR, WRITE, "DELETE FROM agent_failures WHERE conversation = ?1 AND role = ?2")    \
    X(MACHINE_PUT, WRITE,                                                                          \
      "INSERT INTO machines (machine, instance, hostname, boot_id, kinds, is_online,"              \
      " registered_at, offline_at, is_fenced) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"         \
      " ON CONFLICT (machine) DO UPDATE SET instance = ?2, hostname = ?3, boot_id = ?4,"           \
      " kinds = ?5, is_online = ?6, registered_at = ?7, offline_at = ?8, is_fenced = ?9")          \
    X(MACHINE_DELETE, WRITE, "DELETE FROM machines WHERE machine = ?1")                            \
    X(MACHINE_LIST, SCAN,                                                                          \
      "SELECT machine, instance, hostname, boot_id, kinds, is_online, registered_at, offline_at,"  \
      " is_fenced FROM machines ORDER BY registered_at, machine")                                  \
    X(PROCESS_INSERT, WRITE,                                                                       \
      "INSERT INTO processes (spawn_id, conversation, role, machine, pid, start_time, started_at)" \
      " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (spawn_id) DO NOTHING")                    \
    X(PROCESS_GET, READ,                                                                           \
      "SELECT machine, pid, started_at, ended_at, exit_code, exit_signal FROM processes"           \
      " WHERE spawn_id = ?1")                                                                      \
    X(PROCESS_OPEN_ON, READ,                                                                       \
      "SELECT spawn_id FROM processes WHERE machine = ?1 AND ended_at IS NULL AND spawn_id > ?2"   \
      " ORDER BY spawn_id LIMIT ?3")                                                               \
    X(PROCESS_OPEN_OF, READ,                                                                       \
      "SELECT spawn_id, machine FROM processes p WHERE conversation = ?1 AND role = ?2"            \
      " AND ended_at IS NULL AND NOT EXISTS (SELECT 1 FROM machine_commands c"                     \
      " WHERE c.spawn_id = p.spawn_id AND c.given_up_at IS NOT NULL) LIMIT 1")                     \
    X(PROCESS_END, WRITE,                                                                          \
      "UPDATE processes SET ended_at = ?2, exit_code = ?3, exit_signal = ?4"                       \
      " WHERE spawn_id = ?1 AND ended_at IS NULL")                                                 \
    X(AGENT_LIST_SEEN, SCAN,                                                                       \
      "SELECT conversation, role FROM agents WHERE last_seen_at > 0"                               \
      " ORDER BY conversation, role LIMIT ?1")                                                     \
    X(AGENT_LIST_LISTENING, READ,                                                                  \
      "SELECT conversation, role FROM agents WHERE is_listening = 1"                               \
      " AND (conversation, role) > (?1, ?2) ORDER BY conversation, role LIMIT ?3")                 \
    X(AGENT_LIST_ENSURED, READ,                                                                    \
      "SELECT conversation, role FROM agents WHERE ensured = 1"                                    \
      " AND (conversation, role) > (?1, ?2) ORDER BY conversation, role LIMIT ?3")                 \
    X(COMMAND_INSERT, WRITE,                                                                       \
      "INSERT INTO machine_commands (command, type, conversation, role, kind, machine, spawn_id,"  \
      " status, reason, created_at, since_at, look_at)"                                            \
      " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'pending', ?8, ?9, ?9, ?10)")                          \
    X(COMMAND_OPEN_START, READ,                                                                    \
      "SELECT command FROM machine_commands WHERE conversation = ?1 AND role = ?2"                 \
      " AND type <> 'stop-agent' AND closed_at IS NULL")                                           \
    X(COMMAND_LAST_TAKEN, READ,                                                                    \
      "SELECT spawn_id, given_up_at IS NOT NULL"                                                   \
      " OR EXISTS (SELECT 1 FROM machine_commands e WHERE e.spawn_id = s.spawn_id"                 \
      " AND e.type = 'stop-agent' AND e.status = 'done')"                                          \
      " OR EXISTS (SELECT 1 FROM processes p WHERE p.spawn_id = s.spawn_id"                        \
      " AND p.ended_at IS NOT NULL), machine FROM machine_commands s"                              \
      " WHERE conversation = ?1 AND role = ?2 AND type <> 'stop-agent'"                            \
      " AND delivered_at IS NOT NULL ORDER BY command DESC LIMIT 1")                               \
    X(COMMAND_FAIL, WRITE,                                                                         \
      "UPDATE machine_commands SET status = 'failed', outcome = ?2, closed_at = ?3"                \
      " WHERE command = ?1 AND closed_at IS NULL")                                                 \
    X(COMMAND_OF_SPAWN, READ,                                                                      \
      "SELECT command, conversation, role, closed_at, machine, given_up_at FROM machine_commands"  \
      " WHERE spawn_id = ?1 AND type <> 'stop-agent'")                                             \
    X(COMMAND_SET, WRITE,                                                                          \
      "UPDATE machine_commands SET status = ?2, closed_at = ?3, outcome = ?4 WHERE command = ?1")  \
    X(COMMAND_DELIVER, WRITE,                                                                      \
      "UPDATE machine_commands SET status = CASE WHEN status = 'pending' THEN 'delivered'"         \
      " ELSE status END, delivered_at = COALESCE(delivered_at, ?2), machine = ?3"                  \
      " WHERE command = ?1")                                                                       \
    X(COMMAND_CLOSE_STOPS, WRITE,                                                                  \
      "UPDATE machine_commands SET status = 'done', closed_at = ?2 WHERE spawn_id = ?1"            \
      " AND type = 'stop-agent' AND closed_at IS NULL")                                            \
    X(COMMAND_HAS_STOP, READ,                                                                      \
      "SELECT 1 FROM machine_commands WHERE spawn_id = ?1 AND type = 'stop-agent' LIMIT 1")        \
    X(COMMAND_OPEN_ON_MACHINE, READ,                                                               \
      "SELECT " COMMAND_COLUMNS " FROM machine_commands"                                           \
      " WHERE machine = ?1 AND closed_at IS NULL AND command > ?2"                                 \
      " AND (?4 = 1 OR status = 'pending') ORDER BY command LIMIT ?3")                             \
    X(COMMAND_OPEN_NOWHERE, READ,                                                                  \
      "SELECT command, kind FROM machine_commands WHERE machine IS NULL AND closed_at IS NULL"     \
      " AND command > ?1 ORDER BY command LIMIT ?2")                                               \
    X(COMMAND_ASSIGN, WRITE,                                                                       \
      "UPDATE machine_commands SET machine = ?2 WHERE command = ?1")                               \
    X(COMMAND_BEGIN, WRITE,                                                                        \
      "UPDATE machine_commands SET since_at = ?2, look_at = ?3, sends = ?4 WHERE command = ?1")    \
    X(COMMAND_LOOK_UPDATE, WRITE, "UPDATE machine_commands SET look_at = ?2 WHERE command = ?1")   \
    X(COMMAND_TO_SEND, WRITE, "UPDATE machine_commands SET status = 'pending' WHERE command = ?1") \
    X(COMMAND_GIVE_UP, WRITE,                                                                      \
      "UPDATE machine_commands SET given_up_at = ?2 WHERE spawn_id = ?1 AND type <> 'stop-agent'") \
    X(COMMAND_CLOSE_STOP, WRITE,                                                                   \
      "UPDATE machine_commands SET status = 'expired', outcome = ?2, closed_at = ?3"               \
      " WHERE spawn_id = ?1 AND type = 'stop-agent' AND closed_at IS NULL")                        \
    X(COMMAND_EXPIRE_ON, WRITE,                                                                    \
      "UPDATE machine_commands SET status = 'expired', outcome = ?3, closed_at = ?2"               \
      " WHERE machine = ?1 AND closed_at IS NULL")                                                 \
    X(COMMAND_GET, READ,                                                                           \
      "SELECT " COMMAND_COLUMNS " FROM machine_commands WHERE command = ?1")                       \
    X(LOOK_DUE_COMMAND, READ,                                                                      \
      "SELECT command, look_at FROM machine_commands WHERE closed_at IS NULL"                      \
      " AND machine IS NOT NULL AND look_at <= ?1 AND (look_at, command) > (?2, ?3)"               \
      " ORDER BY look_at, command LIMIT ?4")                                                       \
    X(LOOK_NEXT_COMMAND, READ,                                                                     \
      "SELECT MIN(look_at) FROM machine_commands WHERE closed_at IS NULL"                          \
      " AND machine IS NOT NULL AND look_at > ?1")                                                 \
    X(COMMAND_HAS_OPEN_START, READ,                                                                \
      "SELECT 1 FROM machine_commands WHERE conversation = ?1 AND type <> 'stop-agent'"            \
      " AND closed_at IS NULL LIMIT 1")                                                            \
    X(COMMAND_FAIL_OPEN_STARTS, WRITE,                                                             \
      "UPDATE machine_commands SET status = 'failed', outcome = ?2, closed_at = ?3"                \
      " WHERE conversation = ?1 AND type <> 'stop-agent' AND closed_at IS NULL")                   \
    X(COMMAND_OPEN_STOP, READ,                                                                     \
      "SELECT command FROM machine_commands WHERE spawn_id = ?1 AND type = 'stop-agent'"           \
      " AND closed_at IS NULL")                                                                    \
    X(COMMAND_LAST, READ, "SELECT MAX(command) FROM machine_commands")                             \
    X(COMMAND_LIST, READ,                                                                          \
      "SELECT " COMMAND_COLUMNS " FROM machine_commands"                                           \
      " WHERE command > ?1 AND (?3 IS NULL OR machine = ?3) AND (?4 IS NULL OR status = ?4)"       \
      " ORDER BY command LIMIT ?2")                                                                \
    X(COMMAND_LIST_OF_CONVERSATION, READ,                                                          \
      "SELECT " COMMAND_COLUMNS " FROM machine_commands"                                           \
      " WHERE conversation = ?5 AND command > ?1 AND (?3 IS NULL OR machine = ?3)"                 \
      " AND (?4 IS NULL OR status = ?4) ORDER BY command LIMIT ?2")                                \
    X(TASK_INSERT, WRITE,                                                                          \
      "INSERT INTO tasks (task, status, epoch, attempts, claimed_by, lease_ms, held,"              \
      " dispatched_at, pending_at, restarted_at, acknowledged_at, started_at, progress_at,"        \
      " suspended_at, completed_at, end_trigger, stop_reason_code, deliverable, look_at,"          \
      " claimed_spawn, held_spawn, retried_at, retries, conversation, role, content, channel,"     \
      " created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15,"     \
      " ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28)")                         \
    X(TASK_GET, READ,                                                                              \
      "SELECT conversation, role, status, channel, epoch, attempts, claimed_by, lease_ms, held,"   \
      " created_at, dispatched_at, pending_at, restarted_at, acknowledged_at, started_at,"         \
      " progress_at, suspended_at, completed_at, end_trigger, stop_reason_code, deliverable,"      \
      " look_at, claimed_spawn, held_spawn, retried_at, retries FROM tasks WHERE task = ?1")       \
    X(TASK_TEXTS, READ, "SELECT content, error, note FROM tasks WHERE task = ?1")                  \
    X(TASK_UPDATE, WRITE,                                                                          \
      "UPDATE tasks SET status = ?2, epoch = ?3, attempts = ?4, claimed_by = ?5, lease_ms = ?6,"   \
      " held = ?7, dispatched_at = ?8, pending_at = ?9, restarted_at = ?10, acknowledged_at = ?11,"\
      " started_at = ?12, progress_at = ?13, suspended_at = ?14, completed_at = ?15,"              \
      " end_trigger = ?16, stop_reason_code = ?17, deliverable = ?18, look_at = ?19,"              \
      " claimed_spawn = ?20, held_spawn = ?21, retried_at = ?22, retries = ?23,"                   \
      " spans = COALESCE(spans || ?24, ?24, spans) WHERE task = ?1")                               \
    X(TASK_LOOK_UPDATE, WRITE, "UPDATE tasks SET look_at = ?2 WHERE task = ?1")                    \
    X(TASK_LOOK_AGAIN, WRITE,                                                                      \
      "UPDATE tasks SET look_at = 0 WHERE status IN"                                               \
      " ('pending', 'acknowledged', 'in_progress', 'suspended')")                                  \
    X(TASK_ERROR_UPDATE, WRITE, "UPDATE tasks SET error = ?2 WHERE task = ?1")                     \
    X(TASK_NOTE_UPDATE, WRITE, "UPDATE tasks SET note = ?2 WHERE task = ?1")                       \
    X(TASK_SPANS, READ, "SELECT spans FROM tasks WHERE task = ?1")                                 \
    X(TASK_HANDOFF, READ, "SELECT handoff FROM tasks WHERE task = ?1")                             \
    X(TASK_HANDOFF_UPDATE, WRITE, "UPDATE tasks SET handoff = ?2 WHERE task = ?1")                 \
    X(TASK_QUEUED_BEFORE, READ,                                                                    \
      "SELECT COUNT(*) FROM tasks WHERE conversation = ?1 AND role = ?2 AND status = 'queued'"     \
      " AND task < ?3")                                                                            \
    X(TASK_NEXT_QUEUED, READ,                                                                      \
      "SELECT task FROM tasks WHERE conversation = ?1 AND role = ?2 AND status = 'queued'"         \
      " ORDER BY task LIMIT 1")                                                                    \
    X(TASK_OPEN, READ,                                                                             \
      "SELECT task FROM tasks WHERE conversation = ?1 AND completed_at IS NULL AND task > ?2"      \
      " ORDER BY task LIMIT ?3")                                                                   \
    X(TASK_LAST, READ, "SELECT MAX(task) FROM tasks")                                              \
    X(TASK_LIST, READ, "SELECT task FROM tasks WHERE task > ?1 ORDER BY task LIMIT ?2")            \
    X(TASK_LIST_OF_CONVERSATION, READ,                                                             \
      "SELECT task FROM tasks WHERE conversation = ?3 AND task > ?1 ORDER BY task LIMIT ?2")       \
    X(TASK_LIST_OF_AGENT, READ,                                                                    \
      "SELECT task FROM tasks WHERE conversation = ?3 AND role = ?4 AND task > ?1"                 \
      " ORDER BY task LIMIT ?2")                                                                   \
    X(TASK_LIST_BY_STATUS, READ,                                                                   \
      "SELECT task FROM tasks WHERE status = ?3 AND task > ?1 ORDER BY task LIMIT ?2")             \
    X(LOOK_DUE_TASK, READ,                                                                         \
      "SELECT task, look_at FROM tasks WHERE look_at <= ?1 AND (look_at, task) > (?2, ?3)"         \
      " ORDER BY look_at, task LIMIT ?4")                                                          \
    X(LOOK_NEXT_TASK, READ, "SELECT MIN(look_at) FROM tasks WHERE look_at > ?1")                   \
    X(LOOK_DUE_QUEUE, READ,                                                                        \
      "SELECT first_queued, 0 FROM agents a WHERE active_task IS NULL AND first_queued > ?3"       \
      " AND ?2 <= ?1 AND EXISTS (SELECT 1 FROM conversations c"                                    \
      " WHERE c.conversation = a.conversation AND c.status = 'active')"                            \
      " ORDER BY first_queued LIMIT ?4")                                                           \
    X(INBOX_INSERT, WRITE,                                                                         \
      "INSERT INTO agent_inbox (inbox, conversation, role, type, correlation_id, epoch, status,"   \
      " channel, payload, created_at, pending_at, last_rung_at, ring_count, look_at)"              \
      " VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'pending', ?7, ?8, ?9, ?9, ?9, 1, ?10)")                   \
    X(INBOX_MOVE_TURN, WRITE,                                                                      \
      "UPDATE agent_inbox SET status = ?5, processed_at = COALESCE(?6, processed_at),"             \
      " processed_by = COALESCE(?7, processed_by), archived_at = ?8, look_at = ?9"                 \
      " WHERE conversation = ?1 AND role = ?2 AND type = 'turn' AND correlation_id = ?3"           \
      " AND epoch = ?4 AND archived_at IS NULL")                                                   \
    X(INBOX_UPDATE, WRITE,                                                                         \
      "UPDATE agent_inbox SET status = ?2, epoch = ?3, pending_at = ?4, processed_at = ?5,"        \
      " processed_by = ?6, archived_at = ?7, attempts = ?8, woken_at = ?9, wakeups = ?10,"         \
      " last_rung_at = ?11, ring_count = ?12, watchdog_error = ?13, watchdog_at = ?14,"            \
      " look_at = ?15 WHERE inbox = ?1")                                                           \
    X(INBOX_GET, READ,                                                                             \
      "SELECT " INBOX_COLUMNS " FROM agent_inbox WHERE inbox = ?1")                                \
    X(INBOX_FIND, READ,                                                                            \
      "SELECT " INBOX_COLUMNS " FROM agent_inbox WHERE conversation = ?1 AND role = ?2"            \
      " AND type = ?3 AND correlation_id = ?4 AND epoch = ?5")                                     \
    X(INBOX_RECEIVABLE, READ,                                                                      \
      "SELECT " INBOX_COLUMNS " FROM agent_inbox WHERE conversation = ?1 AND role = ?2"            \
      " AND status = 'pending' AND type <> 'turn' ORDER BY inbox LIMIT ?3")                        \
    X(INBOX_OPEN_OF_AGENT, READ,                                                                   \
      "SELECT " INBOX_COLUMNS " FROM agent_inbox WHERE conversation = ?1 AND role = ?2"            \
      " AND archived_at IS NULL ORDER BY inbox LIMIT ?3")                                          \
    X(INBOX_OPEN_OF_CONVERSATION, READ,                                                            \
      "SELECT " INBOX_COLUMNS " FROM agent_inbox WHERE conversation = ?1 AND archived_at IS NULL"  \
      " AND inbox > ?2 ORDER BY inbox LIMIT ?3")                                                   \
    X(INBOX_OPEN_STOP, READ,                                                                       \
      "SELECT " INBOX_COLUMNS " FROM agent_inbox WHERE conversation = ?1 AND role = ?2"            \
      " AND archived_at IS NULL AND type = 'stop' ORDER BY inbox LIMIT 1")                         \
    X(INBOX_SKIP_OPEN, WRITE,                                                                      \
      "UPDATE agent_inbox SET status = 'skipped', archived_at = ?3, look_at = NULL"                \
      " WHERE conversation = ?1 AND archived_at IS NULL AND (?2 IS NULL OR role = ?2)")            \
    X(INBOX_LIST, READ,                                                                            \
      "SELECT " INBOX_COLUMNS " FROM agent_inbox WHERE conversation = ?1 AND inbox > ?4"           \
      " AND (?2 IS NULL OR role = ?2) AND (?3 IS NULL OR status = ?3) ORDER BY inbox LIMIT ?5")    \
    X(INBOX_LOOK_AGAIN, WRITE,                                                                     \
      "UPDATE agent_inbox SET look_at = 0 WHERE archived_at IS NULL AND conversation >= 0")        \
    X(LOOK_DUE_INBOX_PENDING, READ,                                                                \
      "SELECT inbox, look_at FROM agent_inbox WHERE status = 'pending' AND look_at <= ?1"          \
      " AND (look_at, inbox) > (?2, ?3) ORDER BY look_at, inbox LIMIT ?4")                         \
    X(LOOK_NEXT_INBOX_PENDING, READ,                                                               \
      "SELECT MIN(look_at) FROM agent_inbox WHERE status = 'pending' AND look_at > ?1")            \
    X(LOOK_DUE_INBOX_PROCESSING, READ,                                                             \
      "SELECT inbox, look_at FROM agent_inbox WHERE status = 'processing' AND look_at <= ?1"       \
      " AND (look_at, inbox) > (?2, ?3) ORDER BY look_at, inbox LIMIT ?4")                         \
    X(LOOK_NEXT_INBOX_PROCESSING, READ,                                                            \
      "SELECT MIN(look_at) FROM agent_inbox WHERE status = 'processing' AND look_at > ?1")         \
    X(INBOX_LAST, READ, "SELECT MAX(inbox) FROM agent_inbox")                                      \
    X(TOOL_INSERT, WRITE,                                                                          \
      "INSERT INTO turn_waiting_tools (task, epoch, tool_call_id, wait_status, since_at)"          \
      " VALUES (?1, ?2, ?3, 'waiting', ?4)")                                                       \
    X(TOOL_GET, READ,                                                                              \
      "SELECT wait, task, epoch, tool_call_id, name, call_card, wait_status, since_at, timeout_ms,"\
      " settled_at, result_status, result_card, ledger_status, leased_at, lease_ms, deliveries,"   \
      " look_at, asked_ms FROM turn_waiting_tools WHERE wait = ?1")                                          \
    X(TOOL_FIND, READ,                                                                             \
      "SELECT wait, task, epoch, tool_call_id, name, call_card, wait_status, since_at, timeout_ms,"\
      " settled_at, result_status, result_card, ledger_status, leased_at, lease_ms, deliveries,"   \
      " look_at, asked_ms FROM turn_waiting_tools WHERE task = ?1 AND tool_call_id = ?2"                     \
      " AND (?3 IS NULL OR epoch = ?3) ORDER BY epoch DESC LIMIT 1")                               \
    X(TOOL_LIST, READ,                                                                             \
      "SELECT wait, task, epoch, tool_call_id, name, call_card, wait_status, since_at, timeout_ms,"\
      " settled_at, result_status, result_card, ledger_status, leased_at, lease_ms, deliveries,"   \
      " look_at, asked_ms FROM turn_waiting_tools WHERE task = ?1 AND epoch = ?2 AND call_card IS NOT NULL"  \
      " ORDER BY wait")                                                                            \
    X(TOOL_LIST_RESULTS, READ,                                                                     \
      "SELECT tool_call_id, name, result_status, result_card FROM turn_waiting_tools"              \
      " WHERE task = ?1 AND result_card IS NOT NULL ORDER BY epoch DESC, wait DESC LIMIT ?2")      \
    X(TOOL_COUNT_RESULTS, READ,                                                                    \
      "SELECT COUNT(*) FROM turn_waiting_tools WHERE task = ?1 AND result_card IS NOT NULL"        \
      " AND result_status <> 'interrupted'")                                                       \
    X(TOOL_SUMMARY, READ,                                                                          \
      "SELECT COUNT(*), COUNT(*) FILTER (WHERE wait_status = 'waiting'),"                          \
      " COUNT(*) FILTER (WHERE wait_status = 'received'),"                                         \
      " COUNT(*) FILTER (WHERE ledger_status = 'pending'), MAX(settled_at),"                       \
      " MAX(since_at) FILTER (WHERE wait_status = 'waiting'),"                                     \
      " MIN(timeout_ms) FILTER (WHERE wait_status = 'waiting'),"                                   \
      " MAX(timeout_ms) FILTER (WHERE wait_status = 'waiting')"                                    \
      " FROM turn_waiting_tools WHERE task = ?1 AND epoch = ?2 AND call_card IS NOT NULL")         \
    X(TOOL_UPDATE, WRITE,                                                                          \
      "UPDATE turn_waiting_tools SET name = ?2, call_card = ?3, wait_status = ?4, since_at = ?5,"  \
      " timeout_ms = ?6, settled_at = ?7, result_status = ?8, result_card = ?9,"                   \
      " ledger_status = ?10, leased_at = ?11, lease_ms = ?12, deliveries = ?13, look_at = ?14,"    \
      " asked_ms = ?15 WHERE wait = ?1")                                                                          \
    X(LOOK_DUE_TOOL, READ,                                                                         \
      "SELECT wait, look_at FROM turn_waiting_tools WHERE look_at <= ?1"                           \
      " AND (look_at, wait) > (?2, ?3) ORDER BY look_at, wait LIMIT ?4")                           \
    X(LOOK_NEXT_TOOL, READ, "SELECT MIN(look_at) FROM turn_waiting_tools WHERE look_at > ?1")      \
    X(CARD_LAST_DELIVERABLE, READ,                                                                 \
      "SELECT MAX(card) FROM cards WHERE task = ?1 AND type = 'task.deliverable'")                 \
    X(CARD_INSERT, WRITE,                                                                          \
      "INSERT INTO cards (card, type, conversation, task, content, created_at)"                    \
      " VALUES (?1, ?2, ?3, ?4, ?5, ?6)")                                                          \
    X(CARD_LAST, READ, "SELECT MAX(card) FROM cards")                                              \
    X(CARD_GET, READ,                                                                              \
      "SELECT card, type, conversation, task, content, created_at FROM cards WHERE card = ?1")     \
    X(CARD_LIST_OF_CONVERSATION, READ,                                                             \
      "SELECT card, type, conversation, task, content, created_at FROM cards"                      \
      " WHERE conversation = ?1 AND (?2 IS NULL OR task = ?2) AND (?3 IS NULL OR type = ?3)"       \
      " AND card > ?4 ORDER BY card LIMIT ?5")                                                     \
    X(CURSOR_GET, READ, "SELECT id FROM cursors WHERE name = ?1")                                  \
    X(CURSOR_PUT, WRITE, "UPDATE cursors SET id = ?2 WHERE name = ?1")                             \
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
      " expires_at, spawn_id) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")                        \
    X(TOKEN_LIST, SCAN,                                                                            \
      "SELECT token, hash, scope, conversation, role, machine, created_at, expires_at, revoked_at,"\
      " spawn_id FROM tokens ORDER BY token")                                                      \
    X(TOKEN_EXPIRE_OF_SPAWN, WRITE, "UPDATE tokens SET expires_at = ?2 WHERE spawn_id = ?1")       \
    X(TOKEN_PRUNE, WRITE,                                                                          \
      "DELETE FROM tokens WHERE spawn_id IS NOT NULL AND expires_at < ?1")                         \
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
