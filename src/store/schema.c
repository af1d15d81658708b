/*
 * schema.c: see schema.h.
 *
 * Two choices carry the write path:
 *
 *   - The log is a table keyed by a global integer id that only grows, so appending touches the
 *     right edge of one b-tree and nothing else; its indexes are written behind, in batches.
 *   - What an append changes about a conversation (its head: counters, open turn, last activity)
 *     is a few integers in a narrow row without any index on them. Title and metadata are not in
 *     the row but in the log, in the `meta_created` event that opens every conversation.
 *
 * And one trap: SQLite builds a b-tree of its own, each time, for `x IN (a, b, c)` with three or
 * more constants. In the CHECKs of what every append writes that was a third of its cost, so those
 * are spelt with OR.
 */
#include "store/schema.h"

#include "base/macro.h"

static const char version_1[] =
    "CREATE TABLE conversations ("
    "  conversation INTEGER PRIMARY KEY,"
    "  status TEXT NOT NULL"
    "    CHECK (status = 'active' OR status = 'blocked' OR status = 'completed'),"
    "  outcome TEXT CHECK (outcome = 'completed' OR outcome = 'canceled' OR outcome = 'failed'),"
    "  stop_reason_code TEXT,"
    "  starting_role TEXT,"
    "  max_turns INTEGER NOT NULL,"         /* 0: no limit */
    "  session_wall_clock_seconds INTEGER," /* NULL: as configured */
    "  watchdog_disabled INTEGER NOT NULL,"
    "  idle_ms INTEGER,"        /* NULL: as configured */
    "  global_idle_ms INTEGER," /* NULL: as configured */
    "  window_number INTEGER NOT NULL,"
    "  window_started_at INTEGER NOT NULL,"
    "  last_seq INTEGER NOT NULL,"
    "  last_turn INTEGER NOT NULL,"
    "  last_closed_seq INTEGER NOT NULL,"
    "  turn_is_open INTEGER NOT NULL,"
    "  turn_is_cleared INTEGER NOT NULL,"  /* open, and the next writer's */
    "  turn_owner TEXT,"                   /* who opened the last turn; NULL before the first */
    "  turn_events INTEGER NOT NULL,"      /* in the last turn */
    "  system_events INTEGER NOT NULL,"    /* in turn 0 */
    "  last_activity_at INTEGER NOT NULL," /* last event not written by the system */
    "  created_at INTEGER NOT NULL,"
    "  updated_at INTEGER NOT NULL,"
    "  CHECK ((status = 'completed') = (outcome IS NOT NULL)),"
    "  CHECK (status = 'active' OR stop_reason_code IS NOT NULL)"
    ");"
    "CREATE INDEX conversations_by_status ON conversations (status, conversation);"

    "CREATE TABLE agents ("
    "  conversation INTEGER NOT NULL,"
    "  role TEXT NOT NULL,"
    "  position INTEGER NOT NULL," /* order of `agents` at creation: round robin */
    "  kind TEXT,"
    "  machine TEXT,"
    "  desired TEXT NOT NULL CHECK (desired IN ('auto', 'running', 'stopped')),"
    "  PRIMARY KEY (conversation, role)"
    ");"

    "CREATE TABLE conversation_events ("
    "  id INTEGER PRIMARY KEY," /* global, in commit order */
    "  conversation INTEGER NOT NULL,"
    "  seq INTEGER NOT NULL," /* per conversation, gapless from 1 */
    "  turn INTEGER NOT NULL,"
    "  event INTEGER NOT NULL," /* within the turn, from 1 */
    "  ts INTEGER NOT NULL,"
    "  type TEXT NOT NULL CHECK (type = 'message' OR type = 'trace' OR type = 'system'),"
    "  finality TEXT NOT NULL"
    "    CHECK (finality = 'none' OR finality = 'turn' OR finality = 'conversation'),"
    "  agent_id TEXT NOT NULL,"
    "  payload TEXT NOT NULL,"
    "  client_request_id TEXT,"
    "  request_hash BLOB," /* of the canonical params, if there is a request id */
    "  CHECK (type = 'message' OR finality = 'none')"
    ");"

    /* Written behind: events up to the cursor `log_index` are in these two. domain/log_index.h */
    "CREATE TABLE log_by_seq ("
    "  conversation INTEGER NOT NULL,"
    "  seq INTEGER NOT NULL,"
    "  id INTEGER NOT NULL,"
    "  PRIMARY KEY (conversation, seq)"
    ") WITHOUT ROWID;"
    "CREATE TABLE log_by_request ("
    "  conversation INTEGER NOT NULL,"
    "  agent_id TEXT NOT NULL,"
    "  client_request_id TEXT NOT NULL,"
    "  id INTEGER NOT NULL,"
    "  PRIMARY KEY (conversation, agent_id, client_request_id)"
    ") WITHOUT ROWID;"

    "CREATE TABLE cursors ("
    "  name TEXT PRIMARY KEY,"
    "  id INTEGER NOT NULL"
    ");"
    "INSERT INTO cursors (name, id) VALUES ('log_index', 0);"

    "CREATE TABLE attachments ("
    "  attachment INTEGER PRIMARY KEY,"
    "  conversation INTEGER NOT NULL,"
    "  event_id INTEGER NOT NULL,"
    "  name TEXT NOT NULL,"
    "  content_type TEXT NOT NULL,"
    "  content BLOB NOT NULL"
    ");"

    "CREATE TABLE idempotency_keys ("
    "  subject TEXT NOT NULL,"
    "  method TEXT NOT NULL,"
    "  request_key TEXT NOT NULL,"
    "  request_hash BLOB NOT NULL,"
    "  result TEXT NOT NULL,"
    "  created_at INTEGER NOT NULL,"
    "  PRIMARY KEY (subject, method, request_key)"
    ");"
    "CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);"

    "CREATE TABLE tokens ("
    "  token INTEGER PRIMARY KEY,"
    "  hash BLOB NOT NULL UNIQUE," /* SHA-256; the token itself is never stored */
    "  scope TEXT NOT NULL CHECK (scope IN ('operator', 'machine', 'agent', 'read')),"
    "  conversation INTEGER,"
    "  role TEXT,"
    "  machine TEXT,"
    "  created_at INTEGER NOT NULL,"
    "  expires_at INTEGER,"
    "  revoked_at INTEGER"
    ");"

    "CREATE TABLE servers ("
    "  server TEXT PRIMARY KEY,"
    "  started_at INTEGER NOT NULL,"
    "  last_tick_at INTEGER NOT NULL" /* the greatest time in the store */
    ");";

/*
 * What is watched. A *_look_at column says when the ladder must next look at the conversation for
 * that rule (domain/rule.h); its index holds only conversations that have such a time, so finding
 * what is due does not depend on how many there are.
 */
static const char version_2[] =
    "ALTER TABLE conversations ADD COLUMN notice_given INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE conversations ADD COLUMN blocked_at INTEGER;"
    "ALTER TABLE conversations ADD COLUMN notice_look_at INTEGER;"
    "ALTER TABLE conversations ADD COLUMN wall_clock_look_at INTEGER;"
    "ALTER TABLE conversations ADD COLUMN idle_look_at INTEGER;"
    "ALTER TABLE conversations ADD COLUMN global_idle_look_at INTEGER;"
    "CREATE INDEX look_for_notice ON conversations (notice_look_at, conversation)"
    "  WHERE notice_look_at IS NOT NULL;"
    "CREATE INDEX look_for_wall_clock ON conversations (wall_clock_look_at, conversation)"
    "  WHERE wall_clock_look_at IS NOT NULL;"
    "CREATE INDEX look_for_idle ON conversations (idle_look_at, conversation)"
    "  WHERE idle_look_at IS NOT NULL;"
    "CREATE INDEX look_for_global_idle ON conversations (global_idle_look_at, conversation)"
    "  WHERE global_idle_look_at IS NOT NULL;"

    "CREATE TABLE watch_limits (" /* those the look_at columns were computed with */
    "  rule TEXT PRIMARY KEY,"
    "  limit_ms INTEGER NOT NULL"
    ");"
    "CREATE TABLE watch_gaps (" /* time in which nobody watched */
    "  from_at INTEGER PRIMARY KEY,"
    "  to_at INTEGER NOT NULL CHECK (to_at > from_at)"
    ");"
    /* The events that tell what was done to a conversation and its agents, wherever they are: the
     * conversation's own log, or the server's after its end. */
    "CREATE TABLE moves ("
    "  conversation INTEGER NOT NULL,"
    "  id INTEGER NOT NULL,"
    "  rule TEXT NOT NULL,"
    "  PRIMARY KEY (conversation, id)"
    ") WITHOUT ROWID;"

    "ALTER TABLE agents ADD COLUMN ensured INTEGER NOT NULL DEFAULT 0;" /* lifecycle wants it up */
    "ALTER TABLE agents ADD COLUMN view TEXT NOT NULL DEFAULT 'stopped';"
    "CREATE INDEX agents_ensured ON agents (conversation, role) WHERE ensured = 1;"
    "UPDATE agents SET ensured = 1 WHERE desired = 'running' AND conversation IN"
    "  (SELECT conversation FROM conversations WHERE status = 'active');"

    "CREATE TABLE machine_commands ("
    "  command INTEGER PRIMARY KEY,"
    "  type TEXT NOT NULL CHECK (type = 'start-agent' OR type = 'stop-agent' OR type = "
    "'restart-agent'),"
    "  conversation INTEGER NOT NULL,"
    "  role TEXT NOT NULL,"
    "  kind TEXT NOT NULL,"
    "  machine TEXT,"
    "  spawn_id TEXT NOT NULL," /* the process it starts or stops */
    "  status TEXT NOT NULL CHECK (status = 'pending' OR status = 'delivered' OR status = "
    "'booting' OR "
    "    status = 'done' OR status = 'failed' OR status = 'expired'),"
    "  reason TEXT NOT NULL,"
    "  created_at INTEGER NOT NULL,"
    "  deadline_at INTEGER NOT NULL,"
    "  delivered_at INTEGER," /* a machine has it: a process may exist */
    "  closed_at INTEGER,"
    "  outcome TEXT," /* why it failed or expired */
    "  CHECK ((closed_at IS NULL) ="
    "    (status = 'pending' OR status = 'delivered' OR status = 'booting'))"
    ");"
    "CREATE INDEX commands_taken ON machine_commands (conversation, role, command)"
    "  WHERE type <> 'stop-agent' AND delivered_at IS NOT NULL;"
    "CREATE INDEX commands_by_spawn ON machine_commands (spawn_id);"
    "CREATE INDEX commands_by_conversation ON machine_commands (conversation, command);"
    /* P4: at most one open start per agent, ever. */
    "CREATE UNIQUE INDEX one_open_start ON machine_commands (conversation, role)"
    "  WHERE type <> 'stop-agent' AND closed_at IS NULL;"
    "CREATE UNIQUE INDEX one_open_stop ON machine_commands (spawn_id)"
    "  WHERE type = 'stop-agent' AND closed_at IS NULL;"

    /* What ended before this version had no agents to stop. */
    "INSERT INTO cursors (name, id)"
    "  SELECT 'lifecycle', COALESCE(MAX(id), 0) FROM conversation_events;";

/*
 * Work, and who does it. Leases are kept in memory (domain/lease.h); what is stored here of them is
 * who holds one, so that a start can grant it anew. Each time in `tasks` is the clock of one rule
 * and is written by nobody else; look_at is when the ladder must next look at the task.
 */
static const char version_3[] =
    "ALTER TABLE conversations ADD COLUMN open_tasks INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE conversations ADD COLUMN last_task_at INTEGER NOT NULL DEFAULT 0;"

    "ALTER TABLE agents RENAME TO agents_before;"
    "DROP INDEX agents_ensured;"
    "CREATE TABLE agents ("
    "  conversation INTEGER NOT NULL,"
    "  role TEXT NOT NULL,"
    "  position INTEGER NOT NULL," /* round robin */
    "  kind TEXT,"
    "  machine TEXT,"
    "  desired TEXT NOT NULL"
    "    CHECK (desired = 'auto' OR desired = 'running' OR desired = 'stopped'),"
    "  ensured INTEGER NOT NULL DEFAULT 0," /* lifecycle wants it up */
    "  view TEXT NOT NULL DEFAULT 'stopped',"
    "  view_at INTEGER NOT NULL DEFAULT 0," /* of its last change */
    "  is_removed INTEGER NOT NULL DEFAULT 0,"
    "  turn_epoch INTEGER NOT NULL DEFAULT 0,"
    "  active_task INTEGER,"
    "  connection_id TEXT," /* the newest that joined */
    "  is_listening INTEGER NOT NULL DEFAULT 0,"
    "  listener_spawn TEXT," /* that the listener belongs to */
    "  last_seen_at INTEGER NOT NULL DEFAULT 0,"
    "  process TEXT NOT NULL DEFAULT 'none',"
    "  spawn_id TEXT,"                         /* its process, or the one on its way */
    "  process_at INTEGER NOT NULL DEFAULT 0," /* seen since */
    "  is_fenced INTEGER NOT NULL DEFAULT 0,"
    "  is_crashed INTEGER NOT NULL DEFAULT 0,"
    "  breaker_open INTEGER NOT NULL DEFAULT 0,"
    "  restart_count INTEGER NOT NULL DEFAULT 0," /* since stable */
    "  restarts INTEGER NOT NULL DEFAULT 0,"      /* ever */
    "  restart_at INTEGER,"                       /* not before */
    "  PRIMARY KEY (conversation, role)"
    ");"
    "INSERT INTO agents (conversation, role, position, kind, machine, desired, ensured, view,"
    "  process) SELECT conversation, role, position, kind, machine, desired, ensured, view,"
    "  CASE WHEN view = 'stopped' THEN 'none' ELSE view END FROM agents_before;"
    "DROP TABLE agents_before;"
    "CREATE INDEX agents_ensured ON agents (conversation, role) WHERE ensured = 1;"
    "CREATE INDEX agents_by_position ON agents (conversation, position, role);"
    "CREATE INDEX agents_restarting ON agents (conversation, role) WHERE restart_at IS NOT NULL;"
    "CREATE INDEX agents_by_machine ON agents (machine, conversation, role)"
    "  WHERE process <> 'none';"
    "CREATE TABLE agent_failures ("
    "  failure INTEGER PRIMARY KEY,"
    "  conversation INTEGER NOT NULL,"
    "  role TEXT NOT NULL,"
    "  at INTEGER NOT NULL"
    ");"
    "CREATE INDEX agent_failures_by_agent ON agent_failures (conversation, role, at);"
    "CREATE TABLE machines ("
    "  machine TEXT PRIMARY KEY,"
    "  instance TEXT NOT NULL,"
    "  hostname TEXT NOT NULL,"
    "  boot_id TEXT NOT NULL,"
    "  kinds TEXT NOT NULL," /* JSON, as registered */
    "  is_online INTEGER NOT NULL,"
    "  registered_at INTEGER NOT NULL"
    ");"
    "CREATE TABLE processes ("
    "  spawn_id TEXT PRIMARY KEY,"
    "  conversation INTEGER NOT NULL,"
    "  role TEXT NOT NULL,"
    "  machine TEXT NOT NULL,"
    "  pid INTEGER NOT NULL,"
    "  start_time INTEGER NOT NULL,"
    "  started_at INTEGER NOT NULL,"
    "  ended_at INTEGER,"
    "  exit_code INTEGER,"
    "  exit_signal INTEGER"
    ");"
    "CREATE INDEX processes_open ON processes (machine, spawn_id) WHERE ended_at IS NULL;"
    "CREATE INDEX commands_open ON machine_commands (machine, command) WHERE closed_at IS NULL;"
    "CREATE INDEX look_for_commands ON machine_commands (deadline_at, command)"
    "  WHERE closed_at IS NULL AND machine IS NOT NULL;"
    "ALTER TABLE tokens ADD COLUMN spawn_id TEXT;" /* of the process it was made for */
    "CREATE INDEX tokens_by_spawn ON tokens (spawn_id) WHERE spawn_id IS NOT NULL;"
    "CREATE INDEX tokens_of_spawns ON tokens (expires_at) WHERE spawn_id IS NOT NULL;"
    "CREATE INDEX agents_listening ON agents (conversation, role) WHERE is_listening = 1;"

    "CREATE TABLE tasks ("
    "  task INTEGER PRIMARY KEY,"
    "  conversation INTEGER NOT NULL,"
    "  role TEXT NOT NULL," /* the assignee; kept for ever */
    "  status TEXT NOT NULL CHECK (status = 'queued' OR status = 'pending' OR status = "
    "'acknowledged' OR "
    "    status = 'in_progress' OR status = 'suspended' OR "
    "    status = 'completed' OR status = 'failed' OR status = 'timeout' OR "
    "    status = 'canceled'),"
    "  content TEXT NOT NULL," /* JSON */
    "  channel TEXT NOT NULL,"
    "  epoch INTEGER NOT NULL,"
    "  attempts INTEGER NOT NULL,"           /* that were lost */
    "  claimed_by TEXT,"                     /* connection */
    "  claimed_spawn TEXT,"                  /* process, if it has one here */
    "  lease_ms INTEGER NOT NULL DEFAULT 0," /* of the claim */
    "  held TEXT CHECK (held = 'process' OR held = 'machine'),"
    "  held_spawn TEXT," /* the process that must be proven dead first */
    "  created_at INTEGER NOT NULL,"
    "  dispatched_at INTEGER," /* first time pending */
    "  pending_at INTEGER,"
    "  restarted_at INTEGER," /* its agent, because nobody attended */
    "  acknowledged_at INTEGER,"
    "  started_at INTEGER,"
    "  progress_at INTEGER,"
    "  suspended_at INTEGER,"
    "  completed_at INTEGER,"
    "  end_trigger TEXT,"
    "  stop_reason_code TEXT,"
    "  error TEXT,"
    "  deliverable INTEGER," /* card */
    "  note TEXT,"           /* the last progress */
    "  look_at INTEGER,"
    "  CHECK ((completed_at IS NULL) = (stop_reason_code IS NULL))"
    ");"
    "CREATE UNIQUE INDEX one_active_task ON tasks (conversation, role)"
    "  WHERE status = 'pending' OR status = 'acknowledged' OR status = 'in_progress'"
    "    OR status = 'suspended';"
    "CREATE INDEX tasks_queued ON tasks (conversation, role, task) WHERE status = 'queued';"
    "CREATE INDEX tasks_by_conversation ON tasks (conversation, task);"
    "CREATE INDEX tasks_open ON tasks (conversation, task) WHERE completed_at IS NULL;"
    "CREATE INDEX tasks_by_agent ON tasks (conversation, role, task);"
    "CREATE INDEX tasks_by_status ON tasks (status, task);"
    "CREATE INDEX look_for_tasks ON tasks (look_at, task) WHERE look_at IS NOT NULL;"

    "CREATE TABLE agent_inbox ("
    "  inbox INTEGER PRIMARY KEY,"
    "  conversation INTEGER NOT NULL,"
    "  role TEXT NOT NULL,"
    "  type TEXT NOT NULL CHECK (type = 'turn' OR type = 'tool_result' OR type = 'timeout' OR "
    "    type = 'stop' OR type = 'ui_action'),"
    "  correlation_id TEXT NOT NULL,"
    "  epoch INTEGER NOT NULL,"
    "  status TEXT NOT NULL CHECK (status = 'pending' OR status = 'processing' OR status = "
    "'consumed' OR "
    "    status = 'skipped' OR status = 'error'),"
    "  channel TEXT,"
    "  payload TEXT NOT NULL,"
    "  created_at INTEGER NOT NULL,"
    "  processed_at INTEGER,"
    "  archived_at INTEGER"
    ");"
    "CREATE UNIQUE INDEX inbox_once ON agent_inbox (conversation, role, type, correlation_id, "
    "epoch);"

    "CREATE TABLE cards ("
    "  card INTEGER PRIMARY KEY,"
    "  type TEXT NOT NULL CHECK (type = 'task.deliverable' OR type = 'tool.call' OR "
    "    type = 'tool.result'),"
    "  conversation INTEGER NOT NULL,"
    "  task INTEGER NOT NULL,"
    "  content TEXT NOT NULL," /* JSON */
    "  created_at INTEGER NOT NULL"
    ");"
    "CREATE INDEX cards_by_task ON cards (task, card);"
    "CREATE INDEX cards_by_conversation ON cards (conversation, card);";

static const char version_4[] =
    /* ---- tools that a suspended task waits for (domain/tool.h) ----
     *
     * A row is a tool call and, once there is one, its result: the waiting set and the resume
     * ledger are one table, so that a result without a ledger entry cannot be stored, and
     * ledger.reconcile has nothing to do. A call is named by task, epoch and id (L67). */
    "CREATE TABLE turn_waiting_tools ("
    "  wait INTEGER PRIMARY KEY,"
    "  task INTEGER NOT NULL,"
    "  epoch INTEGER NOT NULL," /* of the suspension */
    "  tool_call_id TEXT NOT NULL,"
    "  name TEXT,"         /* NULL: the result came before the task was suspended */
    "  call_card INTEGER," /* NULL: the same */
    "  wait_status TEXT NOT NULL CHECK (wait_status = 'waiting' OR wait_status = 'received' OR "
    "    wait_status = 'applied' OR wait_status = 'expired' OR wait_status = 'interrupted'),"
    "  since_at INTEGER NOT NULL," /* its own deadline counts from here */
    "  timeout_ms INTEGER,"        /* NULL: it has none */
    "  settled_at INTEGER,"        /* waits no longer since */
    "  result_status TEXT,"
    "  result_card INTEGER,"
    "  ledger_status TEXT CHECK (ledger_status = 'pending' OR ledger_status = 'processing' OR "
    "    ledger_status = 'applied'),"
    "  leased_at INTEGER," /* by whoever resumes */
    "  lease_ms INTEGER,"
    "  deliveries INTEGER NOT NULL DEFAULT 0,"
    "  look_at INTEGER,"
    "  CHECK ((result_card IS NULL) = (ledger_status IS NULL)),"
    "  CHECK ((result_card IS NULL) = (result_status IS NULL)),"
    "  CHECK ((wait_status = 'waiting') = (settled_at IS NULL)),"
    "  CHECK ((wait_status = 'waiting' OR wait_status = 'expired') = (result_card IS NULL)),"
    "  CHECK ((COALESCE(ledger_status, '') = 'processing') = (leased_at IS NOT NULL))"
    ");"
    "CREATE UNIQUE INDEX one_wait_per_call ON turn_waiting_tools (task, tool_call_id, epoch);"
    "CREATE INDEX waits_by_suspension ON turn_waiting_tools (task, epoch, wait);"
    "CREATE INDEX look_for_waits ON turn_waiting_tools (look_at, wait) WHERE look_at IS NOT NULL;"
    "CREATE INDEX deliverables ON cards (task, card) WHERE type = 'task.deliverable';"

    /* queue.sweep: an agent that has a queue and nothing to do (domain/queue.h). */
    "ALTER TABLE agents ADD COLUMN first_queued INTEGER;"
    "UPDATE agents SET first_queued = (SELECT MIN(task) FROM tasks WHERE status = 'queued'"
    "  AND tasks.conversation = agents.conversation AND tasks.role = agents.role);"
    "CREATE INDEX agents_stranded ON agents (first_queued)"
    "  WHERE active_task IS NULL AND first_queued IS NOT NULL;"

    /* The inbox, and what rings for it (domain/inbox.h). An open row has no archived_at. */
    "ALTER TABLE agent_inbox ADD COLUMN pending_at INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE agent_inbox ADD COLUMN processed_by TEXT;"                   /* connection */
    "ALTER TABLE agent_inbox ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;" /* that were lost */
    "ALTER TABLE agent_inbox ADD COLUMN woken_at INTEGER;"                    /* by inbox.pending */
    "ALTER TABLE agent_inbox ADD COLUMN wakeups INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE agent_inbox ADD COLUMN last_rung_at INTEGER;" /* by anybody */
    "ALTER TABLE agent_inbox ADD COLUMN ring_count INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE agent_inbox ADD COLUMN watchdog_error TEXT;"
    "ALTER TABLE agent_inbox ADD COLUMN watchdog_at INTEGER;"
    "ALTER TABLE agent_inbox ADD COLUMN look_at INTEGER;"
    "UPDATE agent_inbox SET pending_at = created_at;" /* its limits are new: looked at at once */
    "CREATE INDEX inbox_by_conversation ON agent_inbox (conversation, inbox);"
    "CREATE INDEX inbox_open ON agent_inbox (conversation, inbox) WHERE archived_at IS NULL;"
    "CREATE INDEX inbox_open_of_agent ON agent_inbox (conversation, role, inbox)"
    "  WHERE archived_at IS NULL;"
    "CREATE INDEX inbox_receivable ON agent_inbox (conversation, role, inbox)"
    "  WHERE status = 'pending' AND type <> 'turn';"
    "CREATE INDEX look_for_inbox_pending ON agent_inbox (look_at, inbox)"
    "  WHERE status = 'pending' AND look_at IS NOT NULL;"
    "CREATE INDEX look_for_inbox_processing ON agent_inbox (look_at, inbox)"
    "  WHERE status = 'processing' AND look_at IS NOT NULL;"
    "ALTER TABLE tasks ADD COLUMN retried_at INTEGER;" /* by dispatch.retry */
    "ALTER TABLE tasks ADD COLUMN retries INTEGER NOT NULL DEFAULT 0;";

static const char version_5[] =
    /* What is left of an agent when its newest process is gone (domain/process.c). */
    "CREATE INDEX processes_of_agent ON processes (conversation, role) WHERE ended_at IS NULL;";

static const char version_6[] =
    /* Where an agent runs, and where a person wants it to run, are two facts. Until now they were
     * one, so nobody knows any more who asked for what: an agent stays where it was. */
    "ALTER TABLE agents ADD COLUMN pinned_machine TEXT;"
    "UPDATE agents SET pinned_machine = machine;"
    /* A deadline is a time since which it counts, and a limit (domain/gaps.h); look_at is when the
     * ladder must look. */
    "DROP INDEX look_for_commands;"
    "ALTER TABLE machine_commands RENAME COLUMN deadline_at TO look_at;"
    "ALTER TABLE machine_commands ADD COLUMN since_at INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE machine_commands ADD COLUMN sends INTEGER NOT NULL DEFAULT 0;" /* after the first */
    /* Of a start: nobody waits any more for the process to be seen to end (domain/process.h). */
    "ALTER TABLE machine_commands ADD COLUMN given_up_at INTEGER;"
    "UPDATE machine_commands SET since_at = COALESCE(delivered_at, created_at);"
    "CREATE INDEX look_for_commands ON machine_commands (look_at, command)"
    "  WHERE closed_at IS NULL AND machine IS NOT NULL;"
    "ALTER TABLE machines ADD COLUMN offline_at INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE machines ADD COLUMN is_fenced INTEGER NOT NULL DEFAULT 0;"

    /* The task that a completed one was handed on to (domain/task_end.h). */
    "ALTER TABLE tasks ADD COLUMN handoff INTEGER;"

    /* How long it waited, for backtests (domain/task_span.h): of a task from before, not known. */
    "ALTER TABLE tasks ADD COLUMN spans TEXT;"
    "UPDATE tasks SET spans = '?';"
    "ALTER TABLE turn_waiting_tools ADD COLUMN asked_ms INTEGER;";

const char *const schema_migrations[] = {
    version_1, version_2, version_3, version_4, version_5, version_6,
};

const size_t schema_version_latest = ARRAY_LEN(schema_migrations);
