"""inbox.pending, dispatch.retry, inbox.processing: just before the limit, at it, after it, twice, raced
by the agent, with a failing neighbour, with limit 0. Seed 002, sections 2.1, 2.4 and 2.7.
"""
from crew import (DISPATCH_MS, REAP_MS, RINGS, Poll, beat, claim, complete, ends, give, join, moves,
                  now, said, start, status, talk, task_of)
from reeve_test import Server, check, eq, main, together
from test_inbox import consume, put, receive, row, rows, turns
from watch_model import advance, edit_store, gap, manual, ms, rules

WAKEUP_MS, SKIP_MS, RETRY_MS = 5_000, 300_000, 10_000
PROCESSING_MS = 300_000
MINUTE_MS = 60_000


def quiet_but(*on):
    """Settings that turn off the rules of rings, except these."""
    off = {"pmo.pending_wakeup_seconds": 5, "pmo.pending_wakeup_skip_seconds": 300,
           "pmo.dispatched_retry_seconds": 10, "worker.inbox_processing_timeout_seconds": 300}
    return [f"{key}=0" for key in off if key not in on]


def ring_times(s, inbox, until_ms):
    """When it is rung for, from now until then, to the millisecond."""
    times, rung = [], row(s, inbox)["lastRungAt"]
    while now(s) < until_ms:
        advance(s, min(2500, until_ms - now(s)))
        if row(s, inbox)["lastRungAt"] != rung:
            rung = row(s, inbox)["lastRungAt"]
            times.append(ms(rung))
    return times


def doubling(first_ms, begin_ms, until_ms):
    times, wait_ms, at_ms = [], first_ms, begin_ms
    while (at_ms := at_ms + wait_ms + 1) <= until_ms:
        times.append(at_ms)
        wait_ms = min(2 * wait_ms, max(first_ms, MINUTE_MS))
    return times


# ---- inbox.pending ----

@manual()
def test_a_pending_row_is_rung_for_when_the_limit_has_passed(s):
    c = talk(s)
    inbox = put(s, c)["inboxId"]
    eq((row(s, inbox)["ringCount"], ms(row(s, inbox)["lastRungAt"])), (1, now(s)), "put in, and rung")
    advance(s, WAKEUP_MS)
    eq(row(s, inbox)["ringCount"], 1, "at the limit: not yet")
    advance(s, 1)
    eq((row(s, inbox)["ringCount"], row(s, inbox)["status"]), (2, "pending"), "after it, and no more")
    (e,) = said(s, c, "watch.inbox.pending")
    eq((e["inboxId"], e["agent"], e["messageType"], e["correlationId"], e["limit"], e["status"]),
       (inbox, f"{c}:a", "ui_action", "k1", WAKEUP_MS, "pending"), "the first is told, with evidence")


@manual(*quiet_but("pmo.pending_wakeup_seconds"))
def test_rings_double_up_to_a_minute_and_are_told_once(s):
    c = talk(s)
    begin = now(s)
    inbox = put(s, c)["inboxId"]
    until = begin + 600_000
    eq(ring_times(s, inbox, until), doubling(WAKEUP_MS, begin, until), "times of the rings")
    eq(len(said(s, c, "watch.inbox.pending")), 1, "events")
    eq(row(s, inbox)["ringCount"], 1 + len(doubling(WAKEUP_MS, begin, until)), "counted")


@manual("pmo.pending_wakeup_seconds=120", *quiet_but("pmo.pending_wakeup_seconds"))
def test_an_interval_of_more_than_a_minute_does_not_double(s):
    c = talk(s)
    begin = now(s)
    inbox = put(s, c)["inboxId"]
    until = begin + 500_000
    eq(ring_times(s, inbox, until), [begin + n * 120_001 for n in (1, 2, 3, 4)], "times")


@manual()
def test_who_was_received_or_consumed_is_not_rung_for(s):
    c = talk(s)
    taken, done = put(s, c, "k1")["inboxId"], put(s, c, "k2")["inboxId"]
    advance(s, WAKEUP_MS)
    receive(s, c)  # in the last millisecond: evidence wins
    consume(s, done)
    advance(s, 200_000)
    eq([row(s, i)["ringCount"] for i in (taken, done)], [1, 1], "rings")


@manual()
def test_seed_2_7_without_a_channel_it_is_skipped_in_time(s):
    c = talk(s)
    lost, known = put(s, c, "k1", channel=None)["inboxId"], put(s, c, "k2")["inboxId"]
    t = give(s, c)
    advance(s, SKIP_MS)
    eq(row(s, lost)["status"], "pending", "at the limit: not yet")
    advance(s, 1)
    one = row(s, lost)
    eq((one["status"], one["watchdog_error"], ms(one["watchdog_at"]), ms(one["archivedAt"])),
       ("skipped", "missing_channel", now(s), now(s)), "after it")
    eq((row(s, known)["status"], turns(s, c)[0]["status"], status(s, t)),
       ("pending", "pending", "pending"), "nobody else")
    told = said(s, c, "watch.inbox.pending")[-1]
    eq((told["inboxId"], told["did"], told["limit"]), (lost, "missing_channel", SKIP_MS), "told")
    rung = one["ringCount"]
    advance(s, SKIP_MS)
    eq((row(s, lost)["ringCount"], receive(s, c, limit=1)[0]["inboxId"]), (rung, known), "it is over")


@manual("pmo.pending_wakeup_seconds=0")
def test_L69_without_rings_a_row_is_skipped_all_the_same(s):
    c = talk(s)
    lost, known = put(s, c, "k1", channel=None)["inboxId"], put(s, c, "k2")["inboxId"]
    advance(s, SKIP_MS + 1)
    eq([(row(s, i)["status"], row(s, i)["ringCount"]) for i in (lost, known)],
       [("skipped", 1), ("pending", 1)], "each has a limit of its own")


@manual(*quiet_but())
def test_L69_a_limit_of_0_rings_skips_and_takes_nothing_back(s):
    c = talk(s)
    lost, taken = put(s, c, "k1", channel=None)["inboxId"], put(s, c, "k2", role="b")["inboxId"]
    t = give(s, c)
    receive(s, c, "b")
    advance(s, DISPATCH_MS - 1)
    eq([(row(s, i)["status"], row(s, i)["ringCount"]) for i in (lost, taken)],
       [("pending", 1), ("processing", 1)], "untouched")
    eq((turns(s, c)[0]["ringCount"], status(s, t)), (1, "pending"), "the task's too")
    eq([rules(s)[r]["fired"] for r in (*RINGS, "inbox.processing")], [0, 0, 0], "fired")


# ---- dispatch.retry ----

@manual(*quiet_but("pmo.dispatched_retry_seconds"))
def test_seed_2_4_a_dispatched_task_is_announced_again(s):
    c = talk(s)
    begin = now(s)
    t = give(s, c)
    (one,) = turns(s, c)
    until = begin + 500_000
    eq(ring_times(s, one["inboxId"], until), doubling(RETRY_MS, begin, until), "when")
    (e,) = said(s, c, "watch.dispatch.retry")
    eq((e["inboxId"], e["correlationId"], e["limit"]), (one["inboxId"], str(t["task"]), RETRY_MS),
       "the first ring is told")
    eq((status(s, t), task_of(s, t)["epoch"]), ("pending", t["epoch"]), "nothing else changes")


@manual()
def test_L60_retransmission_leaves_no_extra_row_and_no_second_run(s):
    c = talk(s)
    join(s, c)
    t = give(s, c)
    for _ in range(20):
        advance(s, 30_000)
        beat(s, c)
    eq(len(turns(s, c)), 1, "one row after ten minutes of rings")
    claim(s, c)
    start(s, t)
    complete(s, t)
    advance(s, DISPATCH_MS + REAP_MS)
    eq(([m["status"] for m in turns(s, c)], ends(s, c)),
       (["consumed"], [(t["task"], "success", "completed")]), "it ran once")


@manual()
def test_L59_with_every_rule_on_the_reap_comes_in_time(s):
    """With the default settings, to the millisecond, whatever rings before it."""
    c = talk(s)
    begin = now(s)
    t, following = give(s, c), give(s, c)
    advance(s, DISPATCH_MS)
    eq(status(s, t), "pending", "at the limit: not yet")
    check(turns(s, c)[0]["ringCount"] > 20, "it was rung for all the time")
    advance(s, 1)
    eq((status(s, t), status(s, following)), ("timeout", "pending"), "reaped, and the next dispatched")
    eq([(e["task"], e["at"]) for e in said(s, c, "agent.task")],
       [(t["task"], begin + DISPATCH_MS + 1)], "when")
    eq([m["status"] for m in turns(s, c)], ["consumed", "pending"], "its row with it")


def test_L59_whatever_the_retry_the_reap_comes_in_time():
    for retry in (1, 3, 29, 30):
        s = Server(args=["--clock=manual", "--set", f"pmo.dispatched_retry_seconds={retry}",
                         "--set", "pmo.dispatched_timeout_seconds=30"]).start()
        c = talk(s)
        t = give(s, c)
        advance(s, 30_000)
        eq(status(s, t), "pending", f"retry {retry}: at the limit")
        advance(s, 1)
        eq(status(s, t), "timeout", f"retry {retry}: after it")
        s.stop()


@manual()
def test_the_row_of_a_pending_task_is_put_right(s):
    """It cannot be lost by any request; if it is, the retry finds out."""
    c = talk(s, "a", "b", "d")
    made = {r: give(s, c, r) for r in "abd"}
    s.stop()
    edit_store(s, "DELETE FROM agent_inbox WHERE role = 'a'",
               "UPDATE agent_inbox SET status = 'skipped', archived_at = 1, look_at = NULL"
               " WHERE role = 'b'")
    s.start()
    advance(s, RETRY_MS + 1)
    eq({m["role"]: (m["status"], m["archivedAt"], m["epoch"]) for m in turns(s, c)},
       {r: ("pending", None, made[r]["epoch"]) for r in "abd"}, "one pending row each")
    eq({e["agent"]: e.get("did") for e in said(s, c, "watch.dispatch.retry")},
       {f"{c}:a": "missing", f"{c}:b": "skipped"}, "what was put right is told")
    join(s, c, "b", "c2")
    eq(start(s, claim(s, c, "b", "c2"))["status"], "in_progress", "and can be worked on")
    eq([m["status"] for m in turns(s, c, role="b")], ["consumed"], "with its row")


@manual()
def test_a_claim_in_the_last_millisecond_is_not_announced(s):
    c = talk(s)
    give(s, c)
    advance(s, RETRY_MS)
    rung = turns(s, c)[0]["ringCount"]
    claim(s, c)
    advance(s, 50_000)
    eq((turns(s, c)[0]["ringCount"], rules(s)["dispatch.retry"]["fired"]), (rung, 0), "rings")


# ---- inbox.processing ----

@manual()
def test_seed_2_1_what_was_taken_and_not_consumed_is_pending_again(s):
    c = talk(s)
    inbox = put(s, c)["inboxId"]
    receive(s, c)
    advance(s, PROCESSING_MS)
    eq(row(s, inbox)["status"], "processing", "at the limit: not yet")
    advance(s, 1)
    one = row(s, inbox)
    eq((one["status"], one["processedAt"], one["archivedAt"], one["attempts"], one["ringCount"]),
       ("pending", None, None, 1, 2), "after it: as new, and rung for")
    (e,) = said(s, c, "watch.inbox.processing")
    eq((e["inboxId"], e["limit"], e["status"], e["did"]),
       (inbox, PROCESSING_MS, "processing", "pending_again"), "told, with what was seen")
    eq([m["inboxId"] for m in receive(s, c, connection="c2")], [inbox], "another takes it")
    eq(consume(s, inbox), {"refused": [inbox], "consumed": 0}, "the first one is too late (P8)")
    eq(consume(s, inbox, connection="c2")["consumed"], 1, "the second is not")
    check("agent.task" not in [e["payload"].get("kind") for e in s.events(c)], "and no task ended")


@manual()
def test_who_is_late_and_was_not_overtaken_may_consume(s):
    c = talk(s)
    inbox = put(s, c)["inboxId"]
    receive(s, c)
    advance(s, PROCESSING_MS + 1)
    eq(row(s, inbox)["status"], "pending", "taken back")
    eq((consume(s, inbox)["consumed"], row(s, inbox)["status"]), (1, "consumed"), "it was done")
    eq(receive(s, c, connection="c2"), [], "and is not done twice")


@manual()
def test_consumed_in_the_last_millisecond_is_consumed(s):
    c = talk(s)
    inbox = put(s, c)["inboxId"]
    receive(s, c)
    advance(s, PROCESSING_MS)
    consume(s, inbox)
    advance(s, PROCESSING_MS)
    eq((row(s, inbox)["status"], said(s, c, "watch.inbox.processing")), ("consumed", []), "once")


@manual("liveness.max_attempts=2")
def test_L42_a_message_that_is_lost_again_and_again_is_an_error(s):
    c = talk(s)
    inbox = put(s, c)["inboxId"]
    for _ in range(2):
        eq(len(receive(s, c)), 1, "it is handed out")
        advance(s, PROCESSING_MS + 1)
    one = row(s, inbox)
    eq((one["status"], one["watchdog_error"], ms(one["watchdog_at"]), one["attempts"]),
       ("error", "attempts_exhausted", now(s), 2), "given up")
    eq((receive(s, c), said(s, c, "watch.inbox.processing")[-1]["did"]), ([], "attempts_exhausted"),
       "and not handed out again")


@manual("liveness.acknowledged_timeout_seconds=0")
def test_a_turn_is_taken_back_only_if_nobody_works_on_it(s):
    c = talk(s)
    join(s, c)
    give(s, c)
    t = claim(s, c)
    while now(s) < ms(t["acknowledgedAt"]) + PROCESSING_MS + 100_000:
        advance(s, 50_000)
        beat(s, c, epoch=t["epoch"])
    eq(status(s, t), "acknowledged", "it beats")
    advance(s, MINUTE_MS)
    eq(status(s, t), "acknowledged", "its lease lasts")
    advance(s, 1)
    eq((status(s, t), task_of(s, t)["attempts"], task_of(s, t)["epoch"]),
       ("pending", 1, t["epoch"] + 1), "recoverStuckAcknowledged")
    eq([m["status"] for m in turns(s, c)], ["consumed", "pending"], "old row consumed, a new one")
    (e,) = said(s, c, "watch.inbox.processing")
    eq((e["task"], e["trigger"], e["limit"]),
       (t["task"], "recoverStuckAcknowledged", PROCESSING_MS), "told")


@manual()
def test_processing_without_a_time_is_not_for_ever(s):
    """As an older program may have left it."""
    c = talk(s)
    inbox = put(s, c)["inboxId"]
    receive(s, c)
    s.stop()
    edit_store(s, "UPDATE agent_inbox SET processed_at = NULL, look_at = 0")
    s.start()
    advance(s, 0)
    eq(row(s, inbox)["status"], "pending", "it is due")


# ---- raced by the agent ----

@manual()
def test_a_consume_that_crosses_the_rule_has_one_outcome(s):
    c = talk(s)
    for i in range(15):
        inbox = put(s, c, f"k{i}")["inboxId"]
        receive(s, c)
        advance(s, PROCESSING_MS)
        got = {}

        def second():
            advance(s, 1)
            got["second"] = receive(s, c, connection="c2")

        def first():
            got["first"] = consume(s, inbox)["consumed"]

        together(first, second)
        one = row(s, inbox)
        eq((got["first"], len(got["second"])), (1, 0) if one["status"] == "consumed" else (0, 1),
           f"who has it: {one}")
        eq(one["receivedBy"], "c1" if got["first"] else "c2", "and the row says so")
        consume(s, inbox, connection="c2")


@manual()
def test_a_claim_that_crosses_the_retry_is_a_claim(s):
    for _ in range(15):
        c = talk(s)
        t = give(s, c)
        advance(s, RETRY_MS)
        together(lambda c=c: claim(s, c), lambda: advance(s, 1))
        eq((status(s, t), [m["status"] for m in turns(s, c)]), ("acknowledged", ["processing"]),
           "one row, and it is claimed")


@manual()
def test_a_second_pass_at_the_same_moment_does_nothing(s):
    c = talk(s)
    inbox, taken = put(s, c)["inboxId"], put(s, c, role="b")["inboxId"]
    t = give(s, c)
    receive(s, c, "b")
    advance(s, PROCESSING_MS + 1)
    before = [row(s, inbox), row(s, taken), turns(s, c), task_of(s, t), s.events(c)]
    for rule in (None, *RINGS, "inbox.processing"):
        s.call("watchdog.runOnce", **({"rule": rule} if rule else {}))
    eq([row(s, inbox), row(s, taken), turns(s, c), task_of(s, t), s.events(c)], before, "all of it")


# ---- all three ----

@manual()
def test_L61_P17_a_damaged_row_keeps_no_other_waiting(s):
    c = talk(s)
    ids = [put(s, c, f"k{i}")["inboxId"] for i in range(3)]
    taken = [put(s, c, f"t{i}", role="b")["inboxId"] for i in range(3)]
    receive(s, c, "b")
    s.stop()
    edit_store(s, "PRAGMA ignore_check_constraints = 1",
               f"UPDATE agent_inbox SET type = 'bad' WHERE inbox IN ({ids[0]}, {taken[0]})")
    s.start()
    advance(s, PROCESSING_MS + 1)
    eq([row(s, i)["ringCount"] > 2 for i in ids[1:]], [True, True], "its neighbours are rung for")
    eq([row(s, i)["status"] for i in taken[1:]], ["pending"] * 2, "and handed out again")
    got = rules(s)
    check(got["inbox.pending"]["errors"] and got["inbox.processing"]["errors"], "errors are counted")


@manual()
def test_P16_time_in_which_nobody_watched_counts_for_nobody(s):
    c = talk(s)
    pending, taken = put(s, c)["inboxId"], put(s, c, role="b", channel=None)["inboxId"]
    receive(s, c, "b")
    advance(s, WAKEUP_MS - 1000)
    gap(s, 10 * PROCESSING_MS)
    advance(s, 1000)
    eq((row(s, pending)["ringCount"], row(s, taken)["status"]), (1, "processing"), "at the limit")
    advance(s, 1)
    eq(row(s, pending)["ringCount"], 2, "after it")
    advance(s, PROCESSING_MS - WAKEUP_MS - 1)
    eq(row(s, taken)["status"], "processing", "at the limit")
    advance(s, 1)
    eq(row(s, taken)["status"], "pending", "after it")


@manual()
def test_L70_all_times_are_the_servers(s):
    """One clock: what is compared was written by it, and a restart goes on with it."""
    c = talk(s)
    inbox, born = put(s, c)["inboxId"], now(s)
    eq(ms(row(s, inbox)["createdAt"]), born, "created")
    s.restart("stop")
    receive(s, c)
    eq(ms(row(s, inbox)["processedAt"]), now(s), "received")
    advance(s, PROCESSING_MS)
    s.restart("stop")
    eq(row(s, inbox)["status"], "processing", "at the limit, after a restart")
    advance(s, 1)
    eq(row(s, inbox)["status"], "pending", "after it")


def test_limits_that_change_across_a_restart_hold_for_what_is_there():
    s = Server(args=["--clock=manual", *(x for k in quiet_but() for x in ("--set", k))]).start()
    c = talk(s)
    lost, taken = put(s, c, channel=None)["inboxId"], put(s, c, role="b")["inboxId"]
    give(s, c)
    receive(s, c, "b")
    advance(s, PROCESSING_MS + 1)
    s.stop()
    s.args = ["--clock=manual", "--set", "pmo.pending_wakeup_seconds=0"]
    s.start()
    advance(s, 0)
    eq([row(s, i)["status"] for i in (lost, taken)], ["skipped", "pending"], "at once")
    eq(turns(s, c)[0]["ringCount"], 2, "and announced")
    s.stop()


@manual("runtime_controls.session_wall_clock_seconds=60")
def test_a_resumed_conversation_goes_on_where_its_clocks_stood(s):
    c = s.call("conversation.create", agents=[{"role": "a"}, {"role": "b"}])["conversation"]
    begin = now(s)
    inbox, taken = put(s, c)["inboxId"], put(s, c, role="b")["inboxId"]
    receive(s, c, "b")
    advance(s, 60_001)
    at = ms(s.call("conversation.get", conversation=c)["updatedAt"])
    advance(s, 1_000_000)
    s.call("conversation.resume", conversation=c,
           runtime_controls={"session_wall_clock_seconds": 0})
    paused = now(s) - at
    advance(s, begin + PROCESSING_MS + paused - now(s))
    eq(row(s, taken)["status"], "processing", "at the limit")
    advance(s, 1)
    eq(row(s, taken)["status"], "pending", "after it")
    check(row(s, inbox)["ringCount"] > 3, "and it is rung for again")


@manual()
def test_rings_write_no_events_and_a_pass_costs_what_is_due(s):
    c = talk(s)
    for i in range(100):
        put(s, c, f"k{i}")
    consume(s, *(m["inboxId"] for m in receive(s, c, limit=50)))
    advance(s, WAKEUP_MS + 1)
    before = len(s.events(c))
    advance(s, 10 * MINUTE_MS)
    eq(len(s.events(c)), before, "events of ten minutes of rings")
    check("rule=inbox.pending" not in s.log(), "nor is the log of the server full of them")
    s.call("watchdog.runOnce")
    eq(s.call("watchdog.runOnce")["checked"], 0, "what is not due is not looked at")


@manual()
def test_why_shows_rings_and_what_comes_next(s):
    c = talk(s)
    put(s, c)
    give(s, c)
    advance(s, WAKEUP_MS + 1)
    why = s.call("agent.why", conversation=c, role="a")
    seen = [e for e in why["evidence"] if e["kind"] == "inbox"]
    eq([(e["value"], e["ageMs"]) for e in seen],
       [("row 1: ui_action k1 is pending; 2 rings", 0),
        ("row 2: turn 1 is pending; 2 rings", 0)], "evidence")
    due = {(x["what"], x["next"]["rule"]): ms(x["next"]["dueAt"]) - now(s) for x in why["standing"]}
    eq((due["its inbox row 1", "inbox.pending"], due["its task", "dispatch.retry"]),
       (2 * WAKEUP_MS + 1, RETRY_MS - WAKEUP_MS), "what is next, and when")
    eq([h["rule"] for h in why["history"]], ["inbox.pending"] * 2, "what was done")
    eq([m[0] for m in moves(s, c)], [], "a ring moves nothing")


@manual()
def test_a_ring_wakes_a_poll_that_looks_again(s):
    """The ladder's rings go the way of all others."""
    c = talk(s)
    join(s, c)
    p = Poll(s, c)
    t = give(s, c)
    eq(p.answer()["task"]["task"], t["task"], "the first ring")
    p = Poll(s, c, timeout_ms=1)
    eq(p.answer()["status"], "task", "nobody claimed it: it is there at once")
    eq(rows(s, c)[0]["status"], "pending", "its row waits")


if __name__ == "__main__":
    main()
