"""Many conversations at once, straight into the database of a server that is stopped.

Each is what conversation.create and one message.send leave behind: two events in the log, indexed,
a turn open, the columns that tell the ladder when to look. All were last written to at one moment,
which is also the last that the server knows of. It lies ahead of the clock: a server's time never
goes back, so it begins there, and not a moment was unwatched.
"""

import sqlite3
import time

AHEAD_MS = 3000
META = ('{"kind":"meta_created","data":{"agents":[{"role":"a","desired":"auto"}],"maxTurns":40}}')

EACH = "WITH RECURSIVE each(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM each WHERE n < :count) "

STEPS = (
    EACH + """
    INSERT INTO conversations (conversation, status, max_turns, watchdog_disabled, idle_ms,
        window_number, window_started_at, last_seq, last_turn, last_closed_seq, turn_is_open,
        turn_is_cleared, turn_owner, turn_events, system_events, last_activity_at, created_at,
        updated_at, notice_look_at, wall_clock_look_at, idle_look_at)
    SELECT :conversation + n, 'active', 40, 0, CASE WHEN n <= :due THEN :idle_ms END, 1, :at, 2, 1,
        0, 1, 0, 'a', 1, 1, :at, :at, :at, :at + :notice_ms + 1, :at + :wall_clock_ms + 1,
        :at + 1 + CASE WHEN n <= :due THEN :idle_ms ELSE :idle_default_ms END FROM each""",
    EACH + """
    INSERT INTO agents (conversation, role, position, desired)
    SELECT :conversation + n, 'a', 0, 'auto' FROM each""",
    EACH + """
    INSERT INTO conversation_events (id, conversation, seq, turn, event, ts, type, finality,
        agent_id, payload)
    SELECT :event + 2 * n - 1, :conversation + n, 1, 0, 1, :at, 'system', 'none',
        'system-orchestrator', :meta FROM each""",
    EACH + """
    INSERT INTO conversation_events (id, conversation, seq, turn, event, ts, type, finality,
        agent_id, payload)
    SELECT :event + 2 * n, :conversation + n, 2, 1, 1, :at, 'message', 'none', 'a',
        '{"text":"working"}' FROM each""",
    """
    INSERT INTO log_by_seq (conversation, seq, id)
    SELECT conversation, seq, id FROM conversation_events
    WHERE id > (SELECT id FROM cursors WHERE name = 'log_index') ORDER BY id""",
    # The server's own conversation is written behind together with the index.
    """
    UPDATE conversations SET (last_seq, system_events, updated_at) =
        (SELECT COUNT(*), COUNT(*), MAX(ts) FROM conversation_events
         WHERE id <= :event AND conversation = 0)
    WHERE conversation = 0""",
    "UPDATE cursors SET id = :event + 2 * :count",
    "UPDATE servers SET last_tick_at = :at",
)


def one(db, sql):
    return db.execute(sql).fetchone()[0]


def open_store(folder):
    return sqlite3.connect(folder + "/reeve.db", isolation_level=None)


def fill(folder, count, due, idle_ms):
    """`count` conversations, of which the first `due` have an idle limit of their own; the number
    of the first. They are due that long after the next start, which must follow at once."""
    db = open_store(folder)
    db.execute("PRAGMA synchronous = OFF")
    db.execute("PRAGMA cache_size = -65536")
    limits = dict(db.execute("SELECT rule, limit_ms FROM watch_limits"))
    values = {
        "count": count, "due": due, "idle_ms": idle_ms, "meta": META,
        "at": int(time.time() * 1000) + AHEAD_MS + count // 10,  # by then they are written
        "conversation": one(db, "SELECT MAX(conversation) FROM conversations"),
        "event": one(db, "SELECT MAX(id) FROM conversation_events"),
        "notice_ms": limits["session.wall_clock_notice"],
        "wall_clock_ms": limits["session.wall_clock"],
        "idle_default_ms": limits["conversation.idle"],
    }
    db.execute("BEGIN")
    for step in STEPS:
        db.execute(step, values)
    db.execute("COMMIT")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return values["conversation"] + 1
