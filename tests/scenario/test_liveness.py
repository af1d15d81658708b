"""What becomes of work whose agent is silent, dead, late, or told to stop: the rules of tasks,
blocked and ended conversations, crashes, and a model that is compared with all of it."""
import random
import threading

from crew import (ACKNOWLEDGED_MS, ACTIVE_MS, DISPATCH_MS, REAP_MS, RINGS, TTL_MS, UNATTENDED_MS,
                  beat, check_agrees, check_once_at, claim, complete, ends, give, join,
                  keep_beating, leave, move, moves, outcome, participant, poll, put_to_work, said,
                  start, status, status_of, talk, task_of, tasks, view)
from fleet import managed, open_starts, starts
from reeve_test import Closed, RpcError, check, eq, main, wait_for
from task_model import Crew
from watch_model import advance, clocks, gap, manual, ms, now, rules


# ---- seed 001: F1 to F6 ----

@manual()
def test_F1_an_agent_that_crashes_is_noticed_its_work_reset_and_a_start_asked_for(s):
    c = managed(s, "a", desired="auto", runtime_controls={"session_wall_clock_seconds": 0})
    join(s, c)
    give(s, c)
    t = start(s, claim(s, c))
    at = now(s)  # and now it is dead
    check_once_at(s, c, "task.orphaned", at + ACTIVE_MS + 1, lambda: status(s, t) == "pending")
    eq(participant(s, c)["status"], "disconnected", "the ghost is gone")
    got = task_of(s, t)
    eq((got["attempts"], got["epoch"], got["assignedTo"], got["claimedBy"]),
       (1, t["epoch"] + 1, "a", None), "the task: same assignee, nobody's")
    eq(len(open_starts(s, c)), 1, "P4: one start")
    eq(sorted(m[0] for m in moves(s, c)), ["participant.expire", "task.orphaned"], "told once each")
    (lost,) = said(s, c, "watch.task.orphaned")
    eq((lost["task"], lost["attempts"], lost["status"], ms(lost["activeUntil"]), lost["limit"]),
       (t["task"], 1, "in_progress", at + ACTIVE_MS, ACTIVE_MS), "P13: evidence and limit")
    eq(ends(s, c), [], "a lost attempt is no end")


@manual()
def test_F2_all_agents_of_a_dead_daemon_are_recovered_each_on_its_own(s):
    c = talk(s, "a", "b", "x", kind="worker")
    every = [put_to_work(s, c, r, r) for r in "abx"]
    advance(s, 30_000)
    beat(s, c, "x", "x", epoch=every[2]["epoch"])
    advance(s, 30_001)
    eq([status(s, t) for t in every], ["pending", "pending", "in_progress"], "two are silent")
    eq(sorted(x["role"] for x in open_starts(s, c)), ["a", "b"], "a start each")


@manual()
def test_F3_many_reasons_make_one_start(s):
    """Message, expiry, unattended work: whatever happens first, the start is the same one."""
    c = talk(s, "a", kind="worker")
    join(s, c)
    for i in range(5):
        s.say(c, "a", "do", to="a")
    advance(s, TTL_MS + 1)
    for _ in range(5):
        s.say(c, "a", "do", to="a")
        advance(s, UNATTENDED_MS // 5)
    eq(len(starts(s, c)), 1, "starts")
    eq(len(open_starts(s, c)), 1, "of which open")


@manual()
def test_F4_claimed_and_never_started_is_taken_back(s):
    c = talk(s, "a", kind="worker")
    give(s, c)
    join(s, c)
    t = claim(s, c)
    at = now(s)
    check_once_at(s, c, "task.acknowledged", at + ACKNOWLEDGED_MS + 1,
                  lambda: status(s, t) == "pending")
    got = task_of(s, t)
    eq((got["attempts"], got["epoch"], got["assignedTo"], got["acknowledgedAt"]),
       (1, t["epoch"] + 1, "a", None), "the task")
    eq([x["role"] for x in open_starts(s, c)], ["a"], "its agent is started")
    (lost,) = said(s, c, "watch.task.acknowledged")
    eq((lost["status"], lost["limit"], lost["trigger"]),
       ("acknowledged", ACKNOWLEDGED_MS, "recoverStuckAcknowledged"), "why")


@manual()
def test_F4_not_while_its_holder_beats(s):
    c = talk(s)
    give(s, c)
    join(s, c)
    t = claim(s, c)
    for _ in range(3):
        advance(s, 50_000)
        beat(s, c, epoch=t["epoch"])
    last = now(s)
    eq(status(s, t), "acknowledged", "150 s after the claim")
    check_once_at(s, c, "task.acknowledged", last + ACTIVE_MS + 1,
                  lambda: status(s, t) == "pending")


@manual()
def test_F5_a_lost_network_is_a_late_beat(s):
    c = talk(s)
    t = put_to_work(s, c)
    advance(s, 59_000)
    eq(beat(s, c, epoch=t["epoch"])["status"], "ok", "back in time: nothing happened")
    advance(s, ACTIVE_MS + 1)
    answer = beat(s, c, epoch=t["epoch"])
    eq((answer["status"], answer["staleEpoch"]), ("rejoin_required", True), "back too late: fenced")
    s.refused("STALE_EPOCH", "task.complete", task=t["task"], epoch=t["epoch"])
    join(s, c)
    again = start(s, claim(s, c))
    eq((again["task"], again["attempts"]), (t["task"], 1), "the same work, once more")


@manual()
def test_F6_leave_is_noticed_at_once(s):
    c = talk(s, "a", kind="worker")
    join(s, c)
    leave(s, c)
    give(s, c)
    eq(len(open_starts(s, c)), 1, "work after it left: no waiting for a lease")


@manual()
def test_F6_leave_with_work_waiting_is_unattended_from_then(s):
    c = talk(s, "a", kind="worker")
    join(s, c)
    t = give(s, c)
    at = now(s)
    advance(s, 30_000)
    leave(s, c)
    check_once_at(s, c, "task.unattended", at + UNATTENDED_MS + 1,
                  lambda: bool(open_starts(s, c)))
    eq(status(s, t), "pending", "the task")


@manual()
def test_invariant_3_whatever_dies_work_is_reset_and_its_agent_started_in_time(s):
    """Of every status, within its configured timeout; the seed allows four minutes."""
    for reach, limit_ms in (("pending", TTL_MS), ("acknowledged", ACKNOWLEDGED_MS),
                            ("in_progress", ACTIVE_MS)):
        c = talk(s, "a", kind="worker")
        join(s, c)
        t = give(s, c)
        if reach != "pending":
            claim(s, c)
        if reach == "in_progress":
            start(s, t)
        check_once_at(s, c, reach, now(s) + limit_ms + 1,
                      lambda c=c, t=t: status(s, t) == "pending" and bool(open_starts(s, c)))
        check(limit_ms < 240_000, "the seed's four minutes")
        eq(len(starts(s, c)), 1, "invariant 4: one start")


# ---- each rule ----

@manual()
def test_L37_task_unattended_starts_the_assignee(s):
    """Of the task, not whoever is first."""
    c = talk(s, "a", "b", kind="worker")
    join(s, c, "b", "c2")
    t = give(s, c, "b")
    leave(s, c, "b", "c2")
    eq(starts(s, c), [], "nobody yet")
    check_once_at(s, c, "task.unattended", now(s) + UNATTENDED_MS + 1,
                  lambda: bool(starts(s, c)))
    (one,) = starts(s, c)
    eq((one["role"], one["reason"]), ("b", "task.unattended"), "the assignee alone")
    (e,) = said(s, c, "watch.task.unattended")
    eq((e["task"], e["agent"], e["limit"]), (t["task"], f"{c}:b", UNATTENDED_MS), "told")


@manual()
def test_task_unattended_not_while_somebody_listens(s):
    c = talk(s, "a", kind="worker")
    join(s, c)
    give(s, c)
    for _ in range(12):
        advance(s, 50_000)
        beat(s, c)
    eq((starts(s, c), moves(s, c)), ([], []), "ten minutes with a listener")


@manual()
def test_P13_unattended_work_of_an_unmanaged_agent_is_told_once_while_it_waits(s):
    """Nothing can be started, but nothing stalls without a recorded reason."""
    c = talk(s)
    t = give(s, c)
    told = lambda: said(s, c, "watch.task.unattended")  # noqa: E731
    check_once_at(s, c, "task.unattended", now(s) + UNATTENDED_MS + 1, lambda: bool(told()))
    (e,) = told()
    eq((e["task"], e["agent"], e["limit"], e["reason"], e["status"]),
       (t["task"], f"{c}:a", UNATTENDED_MS, "unmanaged", "pending"), "evidence and limit")
    advance(s, UNATTENDED_MS + 1)
    s.restart()
    advance(s, 1)
    eq((len(told()), open_starts(s, c)), (1, []), "once, and nothing is started")
    (h,) = [h for h in s.call("agent.why", conversation=c, role="a")["history"]
            if h["rule"] == "task.unattended"]
    check("unmanaged" in h["what"], f"why says it: {h}")
    join(s, c)
    start(s, claim(s, c))  # a new time of waiting begins when it is taken back
    advance(s, ACTIVE_MS + 1)
    eq(status(s, t), "pending", "taken back")
    check_once_at(s, c, "task.unattended", now(s) + UNATTENDED_MS + 1, lambda: len(told()) == 2)


@manual()
def test_P14_no_rule_starts_whom_a_person_stopped(s):
    c = talk(s, "a", kind="worker")
    t = put_to_work(s, c)
    s.call("lifecycle.stop", conversation=c, roles=["a"])
    for _ in range(3):
        advance(s, UNATTENDED_MS + 1)
    eq(open_starts(s, c), [], "starts")
    check(status(s, t) in ("pending", "timeout"), "the work is released all the same")
    advance(s, DISPATCH_MS)
    eq(status(s, t), "timeout", "and reaches its end")
    eq(open_starts(s, c), [], "starts")
    check("task.unattended" not in [m[0] for m in moves(s, c)], "nor does it say so")


@manual()
def test_dispatch_reap_ends_what_nobody_takes_up(s):
    c = talk(s)
    t, following = give(s, c), give(s, c)
    at = now(s)
    check_once_at(s, c, "dispatch.reap", at + DISPATCH_MS + 1, lambda: status(s, t) == "timeout")
    got = task_of(s, t)
    eq((got["outcome"]["status"], got["outcome"]["stop_reason_code"], got["epoch"]),
       ("timeout", "dispatch_timeout", t["epoch"] + 1), "its end")
    eq((got["outcome"]["error"], said(s, c, "agent.task")[0]["error"]), ("dispatch_timeout",) * 2,
       "its error, in the seed's word")
    eq(ends(s, c), [(t["task"], "timeout", "dispatch_timeout")], "told once")
    (forced,) = said(s, c, "agent.force_terminated")
    eq((forced["task"], forced["reason"], forced["epoch"]),
       (t["task"], "dispatch_timeout", t["epoch"]), "and that it was forced")
    after = task_of(s, following)
    eq((after["status"], ms(after["pendingAt"])), ("pending", now(s)), "the next is dispatched")
    check_once_at(s, c, "dispatch.reap", now(s) + DISPATCH_MS + 1,
                  lambda: status(s, following) == "timeout")


@manual("liveness.acknowledged_timeout_seconds=0", "worker.inbox_processing_timeout_seconds=0")
def test_dispatch_reap_of_claimed_work_counts_from_the_claim(s):
    c = talk(s)
    t = give(s, c)
    advance(s, 500_000)
    claim(s, c)
    at = now(s)
    check_once_at(s, c, "dispatch.reap", at + DISPATCH_MS + 1, lambda: status(s, t) == "timeout")


@manual()
def test_L32_running_reap_looks_at_progress_not_at_beats(s):
    c = talk(s)
    t = put_to_work(s, c)
    queued = give(s, c)
    advance(s, 30_000)
    beat(s, c, epoch=t["epoch"], progress="stuck")  # a new value, once
    due = now(s) + REAP_MS + 1
    keep_beating(s, c, t, due - 1, progress="stuck")
    eq(status(s, t), "in_progress", "alive, a millisecond early")
    advance(s, 1)
    eq(status(s, t), "failed", "alive, and without progress")
    eq(task_of(s, t)["outcome"]["stop_reason_code"], "timeout_reaped_by_watchdog", "why")
    eq((task_of(s, t)["outcome"]["error"], said(s, c, "agent.task")[0]["error"]),
       ("timeout_reaped_by_watchdog",) * 2, "its error, in the seed's word")
    (forced,) = said(s, c, "agent.force_terminated")
    eq((forced["reason"], forced["epoch"]), ("timeout_reaped_by_watchdog", t["epoch"]), "forced")
    eq(status(s, queued), "pending", "the next")
    answer = beat(s, c, epoch=t["epoch"])
    eq(answer.get("staleEpoch"), True, "its holder is told")


@manual()
def test_L33_minutes_of_silence_are_healthy_while_somebody_beats(s):
    c = talk(s)
    t = put_to_work(s, c)
    for _ in range(50):
        advance(s, 30_000)
        beat(s, c, epoch=t["epoch"])
    eq((status(s, t), task_of(s, t)["attempts"]), ("in_progress", 0), "25 silent minutes")


@manual("task.max_seconds=0")
def test_what_counts_as_progress(s):
    """task.progress, a changed value, a message and a trace of that role; nobody else's."""
    c = talk(s)
    t = put_to_work(s, c)
    number = {"task": t["task"], "epoch": t["epoch"]}
    counts = [lambda: s.call("task.progress", **number),
              lambda: beat(s, c, epoch=t["epoch"], progress=1),
              lambda: beat(s, c, epoch=t["epoch"], progress=2),
              lambda: s.say(c, "a", "still here"),
              lambda: s.say(c, "A", "and here", finality="turn"),
              lambda: s.call("trace.append", conversation=c, agentId="a",
                             payload={"type": "thought", "content": "hm"})]

    value = "the same"
    beat(s, c, epoch=t["epoch"], progress=value)
    for sign in counts:
        keep_beating(s, c, t, now(s) + REAP_MS, ACTIVE_MS, progress=value)
        sign()
        value = {counts[1]: 1, counts[2]: 2}.get(sign, value)
        eq(status(s, t), "in_progress", "progress in the last moment")
    due = now(s) + REAP_MS + 1
    for not_one in (lambda: s.say(c, "b", "not me"), lambda: s.say(c, "user", "nor me"),
                    lambda: s.call("trace.append", conversation=c, agentId="b",
                                   payload={"type": "thought", "content": "hm"})):
        keep_beating(s, c, t, now(s) + REAP_MS // 4, progress=value)
        not_one()
    keep_beating(s, c, t, due - 1, progress=value)
    eq(status(s, t), "in_progress", "a millisecond early")
    advance(s, 1)
    eq(status(s, t), "failed", "when it is due")


@manual()
def test_L42_poison_work_is_given_up_with_its_history(s):
    c = talk(s)
    t, following = give(s, c), give(s, c)
    for attempt in range(3):
        join(s, c)
        got = claim(s, c)
        eq((got["task"], got["attempts"]), (t["task"], attempt), "the same work again")
        start(s, got)
        advance(s, ACTIVE_MS + 1)
    got = task_of(s, t)
    eq((got["status"], got["attempts"], got["outcome"]["stop_reason_code"]),
       ("failed", 3, "attempts_exhausted"), "given up")
    eq(got["outcome"]["error"], "attempts_exhausted", "its error")
    eq([e["attempts"] for e in said(s, c, "watch.task.orphaned")], [1, 2, 3], "each lost attempt")
    eq(ends(s, c), [(t["task"], "failed", "attempts_exhausted")], "one end")
    eq(status(s, following), "pending", "the next gets its turn")


@manual("liveness.max_attempts=1")
def test_L42_a_newcomers_claim_does_not_go_round_the_limit(s):
    """Each lost attempt counts, also the one that a newcomer's claim takes."""
    c = talk(s)
    t = give(s, c)
    join(s, c, connection="x")
    claim(s, c, connection="x")
    advance(s, ACTIVE_MS + 1)
    join(s, c, connection="y")
    got = outcome(lambda: claim(s, c, connection="y"))
    check(isinstance(got, str) or got["attempts"] <= 1, got)
    lost = task_of(s, t)["attempts"]
    advance(s, ACTIVE_MS + 1)
    join(s, c, connection="z")
    got = outcome(lambda: claim(s, c, connection="z"))
    check(isinstance(got, str), f"a claim after {lost} lost attempts of 1: {got}")


@manual("task.max_seconds=3600")
def test_task_max_seconds_counts_from_the_first_dispatch(s):
    c = talk(s)
    t = give(s, c)
    queued = give(s, c)
    at = now(s)
    for attempt in range(2):
        join(s, c)
        start(s, claim(s, c))
        advance(s, ACTIVE_MS + 1)
    gap(s, 1_000_000)
    join(s, c)
    got = start(s, claim(s, c))
    while now(s) < at + 3_600_000:
        advance(s, min(30_000, at + 3_600_000 - now(s)))
        s.call("task.progress", task=t["task"], epoch=got["epoch"])
    eq(status(s, t), "in_progress", "the last millisecond")
    advance(s, 1)
    eq((status(s, t), task_of(s, t)["outcome"]["stop_reason_code"]),
       ("failed", "task_deadline_exceeded"), "over, unwatched time and all")
    eq(ends(s, c), [(t["task"], "failed", "task_deadline_exceeded")], "told")
    eq(status(s, queued), "pending", "time in the queue does not count")
    check_once_at(s, c, "dispatch.reap", now(s) + DISPATCH_MS + 1,
                  lambda: status(s, queued) == "timeout")


OFF = ("liveness.acknowledged_timeout_seconds=0", "liveness.pending_timeout_seconds=0",
       "pmo.dispatched_timeout_seconds=0", "pmo.active_reap_seconds=0", "task.max_seconds=0",
       "pmo.pending_wakeup_seconds=0", "pmo.pending_wakeup_skip_seconds=0",
       "pmo.dispatched_retry_seconds=0", "worker.inbox_processing_timeout_seconds=0")


@manual(*OFF)
def test_L69_a_limit_of_0_is_off(s):
    c = talk(s, "a", "b", "x", kind="worker")
    idle = give(s, c, "x")
    give(s, c, "b")
    join(s, c, "b", "c2")
    held = claim(s, c, "b", "c2")
    t = put_to_work(s, c)
    for _ in range(100):
        advance(s, ACTIVE_MS)
        beat(s, c, epoch=t["epoch"])
    advance(s, 0)
    eq([status(s, x) for x in (idle, held, t)], ["pending", "acknowledged", "in_progress"],
       "100 minutes later")
    eq({m[0] for m in moves(s, c, with_rings=True)} - {"participant.expire"}, set(),
       "what the ladder did")
    off = {r["rule"]: r["limit"] for r in s.call("watchdog.rules")["rules"]}
    eq([off[r] for r in ("task.acknowledged", "task.unattended", "dispatch.reap", "running.reap",
                         "task.max_seconds", "inbox.pending", "dispatch.retry",
                         "inbox.processing")], [0] * 8, "as shown")


@manual()
def test_L59_no_rule_postpones_the_reap(s):
    """Restarts of unattended work come first, and the reap still comes when it is due."""
    c = talk(s, "a", kind="worker")
    join(s, c)
    leave(s, c)
    t = give(s, c)
    at = now(s)
    check_once_at(s, c, "dispatch.reap", at + DISPATCH_MS + 1, lambda: status(s, t) == "timeout")
    eq([m[0] for m in moves(s, c)].count("task.unattended"), 2, "rings before it")


@manual()
def test_rules_say_what_they_did(s):
    before = rules(s)
    c = talk(s)
    put_to_work(s, c)
    advance(s, ACTIVE_MS + 1)
    advance(s, DISPATCH_MS + 1)
    after = rules(s)
    fired = {r: after[r]["fired"] - before[r]["fired"] for r in after}
    eq({r: n for r, n in fired.items() if n and r not in RINGS},
       {"participant.expire": 1, "task.orphaned": 1, "task.unattended": 1, "dispatch.reap": 1},
       "fired")
    for rule in ("participant.expire", "task.orphaned", "dispatch.reap"):
        check(after[rule]["lastRunAt"], rule)


@manual()
def test_run_once_does_not_convict_early(s):
    c = talk(s)
    t = put_to_work(s, c)
    advance(s, ACTIVE_MS)
    for rule in (None, "task.orphaned", "participant.expire", "dispatch.reap"):
        got = s.call("watchdog.runOnce", **({"rule": rule} if rule else {}))
        eq((got["canceled"], got["errors"]), (0, 0), f"moves of {rule}")
    eq((status(s, t), participant(s, c)["status"]), ("in_progress", "active"), "all as before")


# ---- the conversation's own clock ----

@manual("watchdog.idle_ms=100000")
def test_L01_a_conversation_is_not_idle_while_a_task_is_open(s):
    c = talk(s, watchdog={})
    s.say(c, "b", "begin")
    t = give(s, c)
    for _ in range(5):
        advance(s, 100_001)
    eq((status_of(s, c), status(s, t)), ("active", "pending"), "pending")
    join(s, c)
    t = start(s, claim(s, c))
    for _ in range(10):
        advance(s, 50_000)
        beat(s, c, epoch=t["epoch"])
    eq(status_of(s, c), "active", "in progress")
    check("conversation.idle" not in clocks(s, c), "no clock runs")
    complete(s, t)
    at = now(s)
    eq(clocks(s, c)["conversation.idle"], at + 100_001, "it counts from the end of the last one")
    check_once_at(s, c, "conversation.idle", at + 100_001, lambda: status_of(s, c) == "completed")


@manual("watchdog.idle_ms=100000")
def test_a_queued_task_behind_an_active_one_keeps_it_open_too(s):
    c = talk(s, watchdog={})
    s.say(c, "b", "begin")
    give(s, c), give(s, c, "b"), give(s, c)
    advance(s, 2 * DISPATCH_MS + 3)
    eq((status_of(s, c), {t["status"] for t in tasks(s)}), ("active", {"timeout"}), "all reaped")
    advance(s, 100_000)
    eq(status_of(s, c), "completed", "and then it is idle")


@manual()
def test_the_end_cancels_open_tasks_before_the_terminal_message(s):
    c = talk(s, "a", "b", "x")
    every = [put_to_work(s, c, "a", "c1"), give(s, c, "a"), give(s, c, "b"), give(s, c, "a"),
             give(s, c, "b")]
    done = complete(s, put_to_work(s, c, "x", "c2"))["task"]
    before = [task_of(s, t) for t in every]
    s.call("conversation.end", conversation=c, outcome="canceled")
    eq([(t["status"], t["outcome"]["stop_reason_code"]) for t in tasks(s)],
       [("canceled", "conversation_ended")] * 5 + [("completed", "completed")], "their ends")
    log = s.events(c)
    check(log[-1]["finality"] == "conversation", "P6: nothing follows the terminal message")
    told = [e["payload"]["data"] for e in log
            if e["type"] == "system" and e["payload"]["kind"] == "agent.task"][1:]
    eq([(e["task"], e["epoch"]) for e in told], [(t["task"], t["epoch"]) for t in before],
       "one agent.task each, in the order of their numbers, with the epoch that ended")
    eq([e[0] for e in ends(s, c)].count(done["task"]), 1, "what was over is not told again")
    for t in every:
        s.refused("STALE_EPOCH", "task.complete", task=t["task"], epoch=t["epoch"])
    s.refused("CONVERSATION_FINALIZED", "task.create", conversation=c, role="a", content=1)
    eq(s.call("task.cancel", task=every[0]["task"], reason="x")["task"]["status"], "canceled",
       "a cancel of what was cancelled")


@manual("watchdog.idle_ms=100000")
def test_every_way_to_end_ends_the_tasks(s):
    def by_message(c):
        s.say(c, "a", "bye", finality="conversation")

    def by_max_turns(c):
        s.say(c, "a", "last", finality="turn")

    for end, more in ((by_message, {}), (by_max_turns, {"maxTurns": 1}),
                      (lambda c: s.call("conversation.end", conversation=c), {})):
        c = talk(s, **more)
        t, queued = put_to_work(s, c), give(s, c)
        end(c)
        eq([status(s, x) for x in (t, queued)], ["canceled"] * 2, "the tasks")
        eq(s.events(c)[-1]["finality"], "conversation", "the last event")
        eq(participant(s, c)["activeUntil"], None, "nobody works on it")
        check_agrees(s, c)


# ---- blocked ----

def blocked(s, **more):
    """(conversation, in progress, claimed, pending, queued), blocked just now."""
    c = talk(s, "a", "b", "x", runtime_controls={"session_wall_clock_seconds": 50}, **more)
    working = put_to_work(s, c, "a", "c1")
    queued = give(s, c, "a")
    give(s, c, "b")
    join(s, c, "b", "c2")
    claimed = claim(s, c, "b", "c2")
    pending = give(s, c, "x")
    advance(s, 50_001)
    eq(status_of(s, c), "blocked", "the conversation")
    return c, working, claimed, pending, queued


@manual()
def test_block_takes_work_back_without_loss(s):
    c, working, claimed, pending, queued = blocked(s)
    for t in (working, claimed):
        got = task_of(s, t)
        eq((got["status"], got["epoch"], got["attempts"], got["claimedBy"]),
           ("pending", t["epoch"] + 1, 0, None), "taken back, no attempt lost")
    eq((task_of(s, pending), task_of(s, queued)), (pending, queued), "the others are untouched")
    eq(ends(s, c), [], "no end")
    eq(participant(s, c)["activeUntil"], None, "nobody works")


@manual()
def test_while_blocked(s):
    c, working, claimed, pending, queued = blocked(s)
    current = task_of(s, working)
    number = {"task": working["task"], "epoch": current["epoch"]}
    eq(beat(s, c)["directive"], "stop", "a heartbeat")
    eq(beat(s, c)["status"], "ok", "whose lease lasts")
    eq(poll(s, c), {"status": "blocked"}, "a poll")
    agent = {"conversation": c, "role": "a", "connectionId": "c1"}
    for method, params in (("participant.join", agent), ("task.claim", agent),
                           ("task.create", {"conversation": c, "role": "a", "content": 1}),
                           ("task.start", number),
                           ("task.complete", number), ("task.fail", number | {"reason": "x"}),
                           ("message.send", {"conversation": c, "agentId": "a", "text": "x",
                                             "to": "b"})):
        eq(outcome(lambda m=method, p=params: s.call(m, **p)), "CONVERSATION_BLOCKED", method)
    s.refused("STALE_EPOCH", "task.complete", task=working["task"], epoch=working["epoch"])
    eq(leave(s, c), {}, "leave")
    eq(len(tasks(s, conversation=c)), 4, "reads work")
    eq(s.call("task.cancel", task=pending["task"], reason="x")["task"]["status"], "canceled",
       "a person may cancel")
    advance(s, 10_000_000)
    eq([status(s, t) for t in (working, claimed, queued)], ["pending", "pending", "queued"],
       "no rule acts")
    s.refused("CONVERSATION_BLOCKED", "task.progress", **number)


@manual()
def test_P8_a_blocked_holder_is_told_that_its_epoch_is_stale(s):
    c, working, *_ = blocked(s)
    answer = beat(s, c, task=working["task"], epoch=working["epoch"])
    eq((answer.get("staleEpoch"), answer.get("epoch")), (True, working["epoch"] + 1), "the beat")


@manual()
def test_a_cancel_while_blocked_promotes_at_resume(s):
    c, working, claimed, pending, queued = blocked(s)
    s.call("task.cancel", task=working["task"], reason="x")
    eq(status(s, queued), "queued", "nothing is promoted while blocked")
    s.call("conversation.resume", conversation=c)
    eq(status(s, queued), "pending", "now it is")
    check_agrees(s, c)


@manual()
def test_resume_shifts_the_clocks_of_work(s):
    c, working, claimed, pending, queued = blocked(s)
    at, made = now(s), ms(pending["pendingAt"])
    advance(s, 5_000_000)
    leave(s, c)
    s.call("conversation.resume", conversation=c,
           runtime_controls={"session_wall_clock_seconds": 0})
    check_once_at(s, c, "dispatch.reap", made + 5_000_000 + DISPATCH_MS + 1,
                  lambda: status(s, pending) == "timeout")
    eq(status(s, working), "pending", "taken back later, so due later")
    check_once_at(s, c, "dispatch.reap", at + 5_000_000 + DISPATCH_MS + 1,
                  lambda: status(s, working) == "timeout")


@manual()
def test_P16_a_gap_before_the_block_is_still_given_back_after_it(s):
    c = talk(s, runtime_controls={"session_wall_clock_seconds": 500})
    t = give(s, c)
    made = now(s)
    gap(s, 100_000)
    advance(s, 400_001)
    eq(status_of(s, c), "blocked", "a budget counts unwatched time")
    advance(s, 1_000_000)
    s.call("conversation.resume", conversation=c,
           runtime_controls={"session_wall_clock_seconds": 0})
    check_once_at(s, c, "dispatch.reap", made + 100_000 + 1_000_000 + DISPATCH_MS + 1,
                  lambda: status(s, t) == "timeout")


@manual()
def test_a_gap_while_blocked_counts_once(s):
    c = talk(s, runtime_controls={"session_wall_clock_seconds": 500})
    t = give(s, c)
    made = now(s)
    advance(s, 500_001)
    gap(s, 300_000)
    s.call("conversation.resume", conversation=c,
           runtime_controls={"session_wall_clock_seconds": 0})
    check_once_at(s, c, "dispatch.reap", made + 300_000 + DISPATCH_MS + 1,
                  lambda: status(s, t) == "timeout")


@manual()
def test_resume_announces_and_starts_what_waits(s):
    c = talk(s, "a", "b", kind="worker", runtime_controls={"session_wall_clock_seconds": 50})
    t = put_to_work(s, c)
    advance(s, 50_001)
    eq(open_starts(s, c), [], "nobody is started while blocked")
    s.call("conversation.resume", conversation=c)
    eq([x["role"] for x in open_starts(s, c)], ["a"], "who has work")
    join(s, c)
    eq(poll(s, c)["task"]["task"], t["task"], "and it is announced")
    got = start(s, claim(s, c))
    eq((got["attempts"], complete(s, got)["task"]["status"]), (0, "completed"), "and done")


@manual()
def test_the_end_of_a_blocked_conversation_cancels_its_tasks(s):
    c, *every = blocked(s)
    s.call("conversation.end", conversation=c)
    eq({status(s, t) for t in every}, {"canceled"}, "all of them")
    check_agrees(s, c)


# ---- lessons of the queue that need time ----

@manual()
def test_L36_a_task_that_is_taken_back_keeps_its_assignee(s):
    c = talk(s)
    t = put_to_work(s, c)
    join(s, c, "b", "c2")
    advance(s, ACTIVE_MS + 1)
    eq(task_of(s, t)["assignedTo"], "a", "assignee")
    join(s, c, "b", "c2")
    eq(poll(s, c, "b", "c2"), {"status": "none"}, "nothing for the other role")
    s.refused("NOT_FOUND", "task.claim", conversation=c, role="b", connectionId="c2",
              task=t["task"])
    join(s, c)
    eq(claim(s, c)["task"], t["task"], "its own")


@manual()
def test_L38_a_task_that_is_taken_back_goes_before_the_queue(s):
    c = talk(s)
    t = put_to_work(s, c)
    queued = give(s, c)
    advance(s, ACTIVE_MS + 1)
    eq((status(s, t), status(s, queued)), ("pending", "queued"), "no double promotion")
    check_agrees(s, c)
    join(s, c)
    eq(claim(s, c)["task"], t["task"], "the same one first")


@manual()
def test_L40_work_behind_a_dead_agents_task_is_reached(s):
    """Scenario 44: a message queued behind work whose agent is dead."""
    c = talk(s, "a", kind="worker")
    t = put_to_work(s, c)
    queued = s.say(c, "a", "more", to="a")["task"]
    advance(s, ACTIVE_MS + 1)
    eq(len(open_starts(s, c)), 1, "its agent is started")
    join(s, c)
    complete(s, start(s, claim(s, c)))
    eq((status(s, t), claim(s, c)["task"]), ("completed", queued["task"]), "and its turn comes")


@manual()
def test_L41_no_end_leaves_the_view_at_working(s):
    c = talk(s)
    for end in (lambda t: complete(s, t), lambda t: move(s, "fail", t, reason="x"),
                lambda t: s.call("task.cancel", task=t["task"], reason="x"),
                lambda t: advance(s, ACTIVE_MS + 1)):
        t = put_to_work(s, c)
        eq((view(s, c), participant(s, c)["status"]), ("working", "active"), "at work")
        end(t)
        check(view(s, c) in ("waiting", "stopped"), view(s, c))
        check(participant(s, c)["status"] != "active", "participant")
        for open_one in tasks(s, conversation=c, status="pending"):
            s.call("task.cancel", task=open_one["task"], reason="x")


@manual()
def test_P22_the_view_is_not_working_once_the_worker_lease_is_over(s):
    c = talk(s)
    give(s, c)
    join(s, c)
    claim(s, c)
    advance(s, ACTIVE_MS)
    beat(s, c)
    eq((view(s, c), participant(s, c)["status"]), ("working", "active"), "the last millisecond")
    advance(s, 1)
    eq((view(s, c), participant(s, c)["status"]), ("waiting", "waiting"), "both say the same")


# ---- crashes ----

@manual()
def test_P12_kill_9_loses_nothing_that_was_acknowledged(s):
    """At any moment: what was answered is there, and nothing is half there."""
    stop = threading.Event()
    known, c = {}, talk(s, "a", "b", "x")
    for round_number in range(6):
        stop.clear()
        threads = [threading.Thread(target=labour, args=(s, c, r, known, stop), daemon=True)
                   for r in "abx"]
        for t in threads:
            t.start()
        goal = len(known) + 15
        wait_for(lambda: len(known) >= goal, "some work")
        stop.set()
        s.kill()
        for t in threads:
            t.join()
        s.start()
        check_known(s, c, known)
    check_agrees(s, c)


RANK = {"queued": 0, "pending": 1, "acknowledged": 2, "in_progress": 3, "completed": 4}


def labour(s, c, role, known, stop):
    """Works until the server is gone; known: task → the last status that was acknowledged."""
    try:
        join(s, c, role, role)
        while not stop.is_set():
            t = give(s, c, role)
            known[t["task"]] = t["status"]
            got = claim(s, c, role, role)
            known[got["task"]] = got["status"]
            for step in (lambda g: start(s, g), lambda g: complete(s, g)["task"]):
                done = step(got)
                known[done["task"]] = done["status"]
    except (Closed, RpcError, OSError, ValueError):
        pass


def check_known(s, c, known):
    found = {t["task"]: t["status"] for t in tasks(s, conversation=c)}
    for task, told in known.items():
        check(task in found, f"task {task} was acknowledged and is lost")
        check(RANK[found[task]] >= RANK[told], f"task {task} was {told} and is {found[task]}")


@manual()
def test_a_stopped_server_keeps_every_task_and_its_clocks(s):
    c = talk(s)
    t = put_to_work(s, c)
    pending, queued = give(s, c, "b"), give(s, c, "b")
    before, due = tasks(s), now(s) + DISPATCH_MS + 1
    for how in ("stop", "kill"):
        s.restart(how)
        eq(tasks(s), before, f"after {how}")
        eq(beat(s, c, epoch=t["epoch"])["status"], "ok", "and its holder goes on")
    gaps = sum(e["ms"] for e in said(s, 0, "watch.gap"))
    check_once_at(s, c, "dispatch.reap", due + gaps, lambda: status(s, pending) == "timeout")
    eq(status(s, queued), "pending", "the next")


# ---- the model ----

def walk(s, seed, steps):
    rng = random.Random(seed)
    crew = Crew(s, talk(s, "a", "b", "x"), now(s), "abx")
    for step in range(steps):
        what = crew.step(rng)
        try:
            crew.compare()
        except AssertionError as e:
            raise AssertionError(f"seed {seed}, step {step}, {what}: {e}") from None


@manual(deadline=120)
def test_property_three_roles_and_a_model(s):
    for seed in range(8):
        walk(s, seed, 120)


if __name__ == "__main__":
    main()
