"""The rules of suspended tasks, and what every end leaves behind.

tool.timeout, ledger.requeue, ledger.reconcile, task.unresumed, suspended.reap: each a millisecond
before its limit, at it, after it, twice, raced by the agent, turned off. Deliverables: of every way
a task can end that is not its worker's own.
"""
from crew import (DISPATCH_MS, LEASE_MS, REAP_MS, SUSPENDED_REAP_MS, SUSPEND_MS, TTL_MS,
                  UNATTENDED_MS, applied, beat, cards, check_once_at, claim, complete,
                  deliverable_of, ends, give, join, keep_beating, leave, move, poll, put_to_work,
                  report, resume, said, start, status, suspend, suspended, taken, talk, task_of, view)
from fleet import edit_store, open_starts, starts
from reeve_test import check, eq, main
from scripted_machine import Machine, work
from watch_model import advance, gap, manual, ms, now, rules

LONG = {"toolCallId": "long", "name": "n", "options": {"timeout_seconds": 100_000}}


def result_of(s, c, call):
    return [x for x in cards(s, c, "tool.result") if x["toolCallId"] == call]


# ---- tool.timeout ----

@manual()
def test_tool_timeout_once_at_its_deadline(s):
    c = talk(s)
    t = suspended(s, c, "x")
    at = now(s)
    check_once_at(s, c, "tool.timeout", at + SUSPEND_MS + 1,
                  lambda: bool(said(s, c, "watch.tool.timeout")))
    eq([(x["status"], x["error"]["code"]) for x in result_of(s, c, "x")],
       [("timeout", "tool_timeout")], "the result")
    eq((status(s, t), ends(s, c)), ("suspended", []), "it ends nothing")
    s.call("watchdog.runOnce", rule="tool.timeout")
    advance(s, 1_000_000)
    eq((len(result_of(s, c, "x")), rules(s)["tool.timeout"]["fired"]), (1, 1), "once")
    eq(taken(s, t), [("x", "timeout")], "it is resumed with")
    eq(applied(s, t, "x")["status"], "in_progress", "and goes on")


@manual()
def test_L61_a_result_that_is_there_is_used_instead(s):
    """Reported in the last millisecond; reported and not yet taken; taken and not yet applied."""
    c = talk(s)
    t = suspended(s, c, "x", "y", "z")
    report(s, t, "y")
    taken(s, t)
    advance(s, SUSPEND_MS)
    eq(report(s, t, "x"), {"accepted": True}, "in the millisecond of the deadline")
    advance(s, 1)
    eq([e["toolCallId"] for e in said(s, c, "watch.tool.timeout")], ["z"], "who timed out")
    eq({x["toolCallId"]: x["status"] for x in cards(s, c, "tool.result")},
       {"x": "success", "y": "success", "z": "timeout"}, "one result each")
    eq(rules(s)["tool.timeout"]["errors"], 0, "errors")


@manual()
def test_L64_a_timeout_leaves_the_other_waits_alone(s):
    c = talk(s)
    t = put_to_work(s, c)
    seconds = (40, 50, 60, 60)
    suspend(s, t, *[{"toolCallId": f"t{i}", "name": "n", "options": {"timeout_seconds": n}}
                    for i, n in enumerate(seconds)])
    at = now(s)
    for wait in sorted(set(seconds)):
        advance(s, at + wait * 1000 + 1 - now(s))
        eq(len(said(s, c, "watch.tool.timeout")), sum(n <= wait for n in seconds), f"{wait} s")
    eq(taken(s, t), [(f"t{i}", "timeout") for i in range(4)], "none is stranded")


@manual()
def test_P18_201_calls_time_out_in_one_pass(s):
    c = talk(s)
    t = suspended(s, c, *[f"t{i}" for i in range(201)])
    advance(s, SUSPEND_MS + 1)
    eq(len(said(s, c, "watch.tool.timeout")), 201, "timeouts")
    eq(len(taken(s, t)), 201, "results")


@manual("worker.suspend_timeout_seconds=0")
def test_L69_a_deadline_of_0_is_none(s):
    c = talk(s)
    t = put_to_work(s, c)
    answer = suspend(s, t, "x", {"toolCallId": "y", "name": "n", "options": {"timeout_seconds": 5}})
    eq(ms(answer["resumeDeadline"]), now(s) + 5000, "what a call asks for holds")
    advance(s, SUSPENDED_REAP_MS - 1)
    eq([e["toolCallId"] for e in said(s, c, "watch.tool.timeout")], ["y"], "x has none")
    eq(status(s, t), "suspended", "x may still come")


@manual()
def test_a_call_whose_card_is_lost_is_expired_and_told_once(s):
    c = talk(s)
    t = suspended(s, c, "x", "y")
    report(s, t, "y")
    taken(s, t)
    applied(s, t, "y")
    s.stop()
    edit_store(s, "DELETE FROM cards WHERE type = 'tool.call' AND content LIKE '%\"x\"%'")
    s.start()
    advance(s, SUSPEND_MS + 1)
    eq([(e["toolCallId"], e["status"]) for e in said(s, c, "watch.tool.timeout")],
       [("x", "expired")], "told")
    eq(result_of(s, c, "x"), [], "no result")
    advance(s, 100_000)
    eq(len(said(s, c, "watch.tool.timeout")), 1, "once")
    eq(s.log().count("tool_call_lost"), 1, "logged once")
    join(s, c)
    eq(poll(s, c)["status"], "resume", "nothing is left to wait for")
    eq(taken(s, t), [], "nor to take")
    eq(applied(s, t, "x")["status"], "in_progress", "it goes on without")


# ---- ledger.requeue, ledger.reconcile ----

@manual()
def test_ledger_requeue_once_when_the_lease_is_over(s):
    c = talk(s)
    t = suspended(s, c, "x", LONG)
    report(s, t, "x")
    until = ms(resume(s, t)["leaseUntil"])
    eq(until, now(s) + LEASE_MS, "the lease")
    check_once_at(s, c, "ledger.requeue", until + 1, lambda: poll(s, c)["status"] == "resume")
    (e,) = said(s, c, "watch.ledger.requeue")
    eq((e["toolCallId"], e["limit"], e["deliveries"]), ("x", LEASE_MS, 1), "P13: told")
    s.call("watchdog.runOnce", rule="ledger.requeue")
    advance(s, 5 * LEASE_MS)
    eq(len(said(s, c, "watch.ledger.requeue")), 1, "once for each time it is taken")
    taken(s, t)
    applied(s, t, "x")
    advance(s, 5 * LEASE_MS)
    eq(len(said(s, c, "watch.ledger.requeue")), 1, "not once it is applied")


@manual()
def test_ledger_requeue_raced_by_whoever_applies(s):
    c = talk(s)
    t = suspended(s, c, "x", LONG)
    report(s, t, "x")
    taken(s, t)
    advance(s, LEASE_MS)
    applied(s, t, "x")  # in the last millisecond of its lease
    advance(s, 1)
    eq(said(s, c, "watch.ledger.requeue"), [], "it was in time")
    u = suspended(s, talk(s), "x", LONG)
    report(s, u, "x")
    taken(s, u)
    advance(s, LEASE_MS + 1)
    applied(s, u, "x")  # late, and nobody else took it
    eq(taken(s, u), [], "it is applied all the same")


@manual("worker.watchdog_interval_seconds=30")
def test_the_lease_follows_the_interval(s):
    c = talk(s)
    t = suspended(s, c, "x")
    report(s, t, "x")
    eq(ms(resume(s, t)["leaseUntil"]), now(s) + 60_000, "twice the interval")


@manual()
def test_ledger_reconcile_has_nothing_to_do(s):
    """A result without an entry in the ledger cannot be stored: unit/test_schema.c. Here: whatever
    happened, all that was received and not applied can be taken."""
    c = talk(s)
    t = suspended(s, c, "a", "b", "c", LONG)
    report(s, t, "a")
    taken(s, t)
    report(s, t, "b")
    s.restart("kill")
    advance(s, SUSPEND_MS + 1)
    eq(sorted(taken(s, t)), [("a", "success"), ("b", "success"), ("c", "timeout")], "all of it")
    eq(s.call("watchdog.runOnce", rule="ledger.reconcile"),
       {"checked": 0, "candidates": 0, "canceled": 0, "skipped": 0, "errors": 0}, "the rule")
    eq(rules(s)["ledger.reconcile"]["rung"], "reclaim", "which is there to be seen")


@manual()
def test_L42_a_result_that_kills_whoever_takes_it_is_not_requeued_for_ever(s):
    c = talk(s)
    t = suspended(s, c, "poison")
    report(s, t, "poison")
    due = now(s) + SUSPENDED_REAP_MS + 1
    while now(s) < due:
        if status(s, t) == "suspended":
            taken(s, t)  # and dies
        advance(s, min(LEASE_MS + 1, due - now(s)))
    eq((status(s, t), task_of(s, t)["outcome"]["stop_reason_code"]),
       ("failed", "timeout_reaped_by_watchdog"), "no requeue postpones the reap")
    check(len(said(s, c, "watch.ledger.requeue")) > 100, "though it was taken again and again")


# ---- task.unresumed ----

@manual()
def test_task_unresumed_starts_the_agent_once_when_nobody_takes_the_results(s):
    c = talk(s, "a", "b", kind="worker")
    t = suspended(s, c, "x", LONG)
    leave(s, c)
    advance(s, 10_000)
    report(s, t, "x")
    advance(s, 3 * TTL_MS)  # whatever lease there was is over
    report(s, t, "long")
    settled = now(s)
    eq(starts(s, c), [], "nobody yet")
    check_once_at(s, c, "task.unresumed", settled + UNATTENDED_MS + 1,
                  lambda: bool(starts(s, c)))
    (one,) = starts(s, c)
    eq((one["role"], one["reason"]), ("a", "task.unresumed"), "the assignee alone")
    (e,) = said(s, c, "watch.task.unresumed")
    eq((e["task"], e["status"], e["limit"]), (t["task"], "suspended", UNATTENDED_MS), "P13: told")
    advance(s, UNATTENDED_MS + 1)
    eq(len(said(s, c, "watch.task.unresumed")), 2, "the clock begins anew")
    eq(status(s, t), "suspended", "it is not taken from it")


@manual()
def test_task_unresumed_not_while_calls_are_open(s):
    c = talk(s, kind="worker")
    t = suspended(s, c, "x", LONG)
    report(s, t, "x")
    leave(s, c)
    advance(s, 2 * UNATTENDED_MS)
    eq(said(s, c, "watch.task.unresumed"), [], "a call is open")


def listening(s, m, agent, c, until_ms):
    """Until then somebody listens and is told again and again to resume, which he does not."""
    while now(s) < until_ms:
        advance(s, min(30_000, until_ms - now(s)))
        m.poll()
        eq(poll(agent, c, connection="p1")["status"], "resume", "what the listener is told")


@manual()
def test_task_unresumed_replaces_a_listener_that_does_not_resume(s):
    """It listens and does not know `resume`: that was two hours of silence."""
    m = Machine(s)
    c = talk(s, kind="worker")
    give(s, c)
    t, agent = work(s, m, c, m.boot())
    suspend(agent, t, "x")
    report(s, t, "x")
    listening(s, m, agent, c, now(s) + UNATTENDED_MS)
    eq(open_starts(s, c), [], "a millisecond early")
    advance(s, 1)
    (one,) = open_starts(s, c)
    eq((one["type"], one["reason"]), ("restart-agent", "task.unresumed"), "replaced")
    (e,) = said(s, c, "watch.task.unresumed")
    eq((e["listens"], e["limit"]), (True, UNATTENDED_MS), "what the log tells")
    why = str(s.call("agent.why", conversation=c, role="a"))
    check("though somebody listens" in why, why)
    second = m.boot()
    join(m.agent(second), c, connection="p2")
    eq(taken(m.agent(second), t), [("x", "success")], "the new one goes on")


@manual()
def test_task_unresumed_is_told_once_of_a_listener_that_nobody_can_replace(s):
    """An unmanaged agent; and a managed one whose listener is no process of a machine."""
    for kind in (None, "worker"):
        c = talk(s, kind=kind)
        t = suspended(s, c, "x")
        report(s, t, "x")
        settled = now(s)
        while now(s) < settled + 3 * UNATTENDED_MS:
            advance(s, 50_000)
            beat(s, c)
        (e,) = said(s, c, "watch.task.unresumed")
        eq((e["at"], e["listens"]), (settled + UNATTENDED_MS + 1, True), f"kind {kind}")
        eq((starts(s, c), status(s, t)), ([], "suspended"), "nothing is moved")


@manual()
def test_task_unresumed_replaces_a_process_that_came_after_it_was_told(s):
    """Nobody could be replaced; then a process came up, beside a listener that is another's."""
    c = talk(s, kind="worker")
    t = suspended(s, c, "x")
    report(s, t, "x")

    def pass_ms(total):
        end = now(s) + total
        while now(s) < end:
            advance(s, min(30_000, end - now(s)))
            beat(s, c)
            if m:
                m.poll()

    m = None
    pass_ms(UNATTENDED_MS + 1)
    eq(len(said(s, c, "watch.task.unresumed")), 1, "told")
    m = Machine(s)
    s.call("agent.start", conversation=c, role="a")
    m.boot()
    pass_ms(UNATTENDED_MS)
    eq(open_starts(s, c), [], "a millisecond early")
    advance(s, 1)
    eq([x["reason"] for x in open_starts(s, c)], ["task.unresumed"], "replaced")


@manual()
def test_task_unresumed_waits_while_the_results_are_lent(s):
    """Who has just taken them is not replaced; who took them and died does not put it off."""
    c = talk(s, kind="worker")
    t = suspended(s, c, "x")
    report(s, t, "x")
    settled = now(s)
    advance(s, UNATTENDED_MS)
    taken(s, t)
    advance(s, LEASE_MS)
    eq(said(s, c, "watch.task.unresumed"), [], "somebody is at it")
    advance(s, 1)
    (e,) = said(s, c, "watch.task.unresumed")
    eq(e["at"], settled + UNATTENDED_MS + LEASE_MS + 1, "with the end of the lease")


@manual()
def test_task_unresumed_counts_for_results_that_are_left_lying(s):
    """One was taken and applied; the other came meanwhile, and nobody takes it."""
    c = talk(s, kind="worker")
    t = suspended(s, c, "x", "y")
    report(s, t, "x")
    taken(s, t)
    report(s, t, "y")
    settled = now(s)
    advance(s, 1)
    applied(s, t, "x")
    while now(s) < settled + UNATTENDED_MS:
        advance(s, min(50_000, settled + UNATTENDED_MS - now(s)))
        beat(s, c)
    eq(said(s, c, "watch.task.unresumed"), [], "a millisecond early")
    advance(s, 1)
    eq(len(said(s, c, "watch.task.unresumed")), 1, "when it is due")


@manual()
def test_task_unresumed_gives_a_new_process_the_whole_limit(s):
    m = Machine(s)
    c = talk(s, kind="worker")
    give(s, c)
    spawn = m.boot()
    t, agent = work(s, m, c, spawn)
    suspend(agent, t, "x")
    report(s, t, "x")
    settled = now(s)
    while now(s) < settled + UNATTENDED_MS - 1000:
        advance(s, min(30_000, settled + UNATTENDED_MS - 1000 - now(s)))
        m.poll()
        beat(agent, c, connection="p1")
    m.exited(spawn)
    second = m.boot()
    began = now(s)
    while now(s) < began + UNATTENDED_MS:
        advance(s, min(30_000, began + UNATTENDED_MS - now(s)))
        m.poll()
    eq(open_starts(s, c), [], f"{second} has had less than the limit")
    advance(s, 1)
    eq(len(said(s, c, "watch.task.unresumed")), 1, "and no more")


@manual("liveness.pending_timeout_seconds=0")
def test_L69_task_unresumed_of_0_is_off(s):
    c = talk(s, kind="worker")
    suspended(s, c, "x")
    leave(s, c)
    advance(s, 5 * UNATTENDED_MS)
    eq(said(s, c, "watch.task.unresumed"), [], "off")


@manual()
def test_task_unresumed_replaces_a_process_that_does_not_listen(s):
    """It lives, and so nothing else would ever start another."""
    m = Machine(s)
    c = talk(s, kind="worker")
    give(s, c)
    spawn = m.boot()
    t, agent = work(s, m, c, spawn)
    suspend(agent, t, "x")
    report(s, t, "x")
    leave(agent, c, connection="p1")
    at = now(s)
    while now(s) < at + UNATTENDED_MS:
        advance(s, min(30_000, at + UNATTENDED_MS - now(s)))
        m.poll()
    eq(open_starts(s, c), [], "a millisecond early")
    advance(s, 1)
    (one,) = open_starts(s, c)
    eq((one["type"], one["reason"]), ("restart-agent", "task.unresumed"), "replaced")
    second = m.boot()
    join(m.agent(second), c, connection="p2")
    eq(poll(m.agent(second), c, connection="p2")["status"], "resume", "the new one goes on")


# ---- suspended.reap ----

def check_reaped(s, c, t, status_before="suspended"):
    got = task_of(s, t)
    eq((got["status"], got["outcome"]["stop_reason_code"], got["epoch"]),
       ("failed", "timeout_reaped_by_watchdog", t["epoch"] + 1), "its end")
    eq(ends(s, c), [(t["task"], "failed", "timeout_reaped_by_watchdog")], "told once")
    (forced,) = said(s, c, "agent.force_terminated")
    eq((forced["task"], forced["reason"], forced["epoch"], forced["status"]),
       (t["task"], "timeout_reaped_by_watchdog", t["epoch"], status_before), "forced")
    state = said(s, c, "agent.state")[-1]
    eq((state["error"], state["epoch"]), ("timeout_reaped_by_watchdog", t["epoch"] + 1), "state")


@manual()
def test_L64_suspended_reap_counts_from_the_last_call_that_was_settled(s):
    c = talk(s)
    t = suspended(s, c, "x", "y", "z")
    advance(s, 5_000)
    report(s, t, "x")
    advance(s, SUSPEND_MS)  # the others time out
    settled = said(s, c, "watch.tool.timeout")[-1]["at"]
    check_once_at(s, c, "suspended.reap", settled + SUSPENDED_REAP_MS + 1,
                  lambda: status(s, t) == "failed")
    check_reaped(s, c, t)
    (forced,) = said(s, c, "agent.force_terminated")
    eq((ms(forced["lastSettledAt"]), forced["calls"], forced["waiting"], forced["limit"]),
       (settled, 3, 0, SUSPENDED_REAP_MS), "P13: what it saw, and its limit")
    eq(view(s, c), "stopped", "the agent is idle")


@manual()
def test_suspended_reap_not_while_a_deadline_is_ahead(s):
    c = talk(s, "a")
    t = suspended(s, c, {"toolCallId": "x", "name": "n", "options": {"timeout_seconds": 8000}})
    following = give(s, c)
    at = now(s)
    advance(s, SUSPENDED_REAP_MS + 1)
    eq(status(s, t), "suspended", "its tool has time until 8000 s")
    check_once_at(s, c, "tool.timeout", at + 8_000_001, lambda: bool(result_of(s, c, "x")))
    eq(status(s, t), "suspended", "and now whoever resumes")
    eq(status(s, following), "queued", "the next waits")


@manual("task.max_seconds=0")
def test_suspended_reap_dispatches_the_next(s):
    c = talk(s)
    t, following = suspended(s, c, "x"), give(s, c)
    advance(s, SUSPEND_MS + 1)
    check_once_at(s, c, "suspended.reap", now(s) + SUSPENDED_REAP_MS + 1,
                  lambda: status(s, t) == "failed")
    eq((status(s, following), ms(task_of(s, following)["pendingAt"])), ("pending", now(s)), "next")
    eq(result_of(s, c, "x")[0]["status"], "timeout", "what its tool came to")


@manual()
def test_suspended_reap_raced_by_whoever_applies(s):
    c = talk(s)
    t = suspended(s, c, "x")
    report(s, t, "x")
    advance(s, SUSPENDED_REAP_MS)
    got = applied(s, t, "x")  # in the last millisecond
    advance(s, 1)
    eq((status(s, t), ends(s, c)), ("in_progress", []), "it goes on")
    eq(complete(s, got)["task"]["status"], "completed", "to its end")
    eq(len(ends(s, c)), 1, "one end")


@manual("pmo.suspended_reap_seconds=0", "task.max_seconds=0")
def test_L69_suspended_reap_of_0_is_off(s):
    c = talk(s)
    t = suspended(s, c, "x")
    advance(s, 10 * SUSPENDED_REAP_MS)
    eq(status(s, t), "suspended", "off")


@manual("task.max_seconds=0", "worker.suspend_timeout_seconds=0")
def test_a_suspension_without_deadlines_is_reaped(s):
    c = talk(s)
    t = suspended(s, c, "x")
    check_once_at(s, c, "suspended.reap", now(s) + SUSPENDED_REAP_MS + 1,
                  lambda: status(s, t) == "failed")
    eq(result_of(s, c, "x")[0]["status"], "interrupted", "its call is closed")
    check_reaped(s, c, t)


@manual()
def test_P16_suspended_reap_leaves_out_unwatched_time(s):
    c = talk(s)
    t = suspended(s, c, "x")
    report(s, t, "x")
    advance(s, 1000)
    gap(s, 3_000_000)
    check_once_at(s, c, "suspended.reap", now(s) - 1000 + SUSPENDED_REAP_MS + 1,
                  lambda: status(s, t) == "failed")


@manual()
def test_suspended_reap_stands_still_while_blocked(s):
    """What was settled meanwhile counts from the resume."""
    c = talk(s, runtime_controls={"session_wall_clock_seconds": 100})
    d = talk(s, runtime_controls={"session_wall_clock_seconds": 100})
    t, u = suspended(s, c, LONG), suspended(s, d, "x")
    advance(s, SUSPEND_MS + 1)
    settled = now(s)  # of u
    advance(s, 100_001 - (SUSPEND_MS + 1))
    ran = now(s) - settled
    advance(s, 1_000_000)
    report(s, t, "long")
    advance(s, 1_000_000)
    for conversation in (c, d):
        s.call("conversation.resume", conversation=conversation,
               runtime_controls={"session_wall_clock_seconds": 0})
    at = now(s)
    check_once_at(s, d, "suspended.reap", at - ran + SUSPENDED_REAP_MS + 1,
                  lambda: status(s, u) == "failed")
    check_once_at(s, c, "suspended.reap", at + SUSPENDED_REAP_MS + 1,
                  lambda: status(s, t) == "failed")


@manual("pmo.suspended_reap_seconds=100")
def test_P9_a_limit_that_changed_holds_for_what_is_suspended(s):
    c = talk(s)
    t = suspended(s, c, "x")
    report(s, t, "x")
    at = now(s)
    s.args = ["--clock=manual", "--set", "pmo.suspended_reap_seconds=10"]
    s.restart("stop")
    advance(s, at + 10_000 - now(s))
    eq(status(s, t), "suspended", "at the new limit")
    advance(s, 1)
    eq(status(s, t), "failed", "past it")


@manual()
def test_L68_a_reap_of_running_work_does_not_touch_what_is_suspended(s):
    c = talk(s)
    t = put_to_work(s, c)
    keep_beating(s, c, t, now(s) + REAP_MS)  # the last millisecond of running.reap
    suspend(s, t, LONG)
    advance(s, 10 * TTL_MS)
    eq((status(s, t), ends(s, c)), ("suspended", []), "it has just been suspended")


@manual()
def test_L62_a_task_is_reaped_once_whatever_comes_after(s):
    """A second end of one task: by a rule, a person, its worker, the conversation's end."""
    c = talk(s)
    t = suspended(s, c, "x")
    advance(s, SUSPEND_MS + 1)
    advance(s, SUSPENDED_REAP_MS + 1)
    s.call("watchdog.runOnce")
    s.refused("INVALID_TRANSITION", "task.cancel", task=t["task"], reason="again")
    s.refused("STALE_EPOCH", "task.fail", task=t["task"], epoch=t["epoch"], reason="again")
    s.restart("kill")
    s.call("conversation.end", conversation=c)
    check_reaped(s, c, t)
    eq(len(cards(s, c, "task.deliverable")), 1, "one deliverable")


# ---- deliverables ----

def check_fallback(s, c, t, source, reason, **diagnostics):
    """The card of this end, and that the terminal event names it."""
    (end,) = [e for e in said(s, c, "agent.task") if e["task"] == t["task"]]
    card = s.call("card.get", card=end["deliverable_card_id"])["card"]
    eq((card["type"], card["task"], end["deliverable_error"]),
       ("task.deliverable", t["task"], None), "the card")
    content = card["content"]
    eq((content["schema_version"], content["kind"], content["status"]),
       (1, "fallback_deliverable", "partial"), "its kind")
    want = {"source": source, "reason": reason, "tool_result_count": 0, "attempts": 0,
            "last_progress": None} | diagnostics
    eq(content["diagnostics"], want, "diagnostics")
    check(reason in content["message"], content["message"])
    eq(content["fields"][2], {"name": "reason", "value": reason}, "fields")
    eq(deliverable_of(s, t), content, "the task's own")
    return content


@manual("task.max_seconds=1200")
def test_P10_every_end_by_a_rule_has_a_deliverable(s):
    c = talk(s)
    t = give(s, c)
    advance(s, DISPATCH_MS + 1)
    check_fallback(s, c, t, "dispatch.reap", "dispatch_timeout")
    eq(said(s, c, "agent.state")[-1]["error"], "dispatch_timeout", "told, though nobody was there")
    c = talk(s)
    t = put_to_work(s, c)
    s.call("task.progress", task=t["task"], epoch=t["epoch"], note="half of it")
    got = suspend(s, t, "x", LONG)["task"]
    report(s, t, "x", result=1)
    advance(s, 1_200_001)
    content = check_fallback(s, c, got, "task.max_seconds", "task_deadline_exceeded", attempts=1,
                             tool_result_count=1, last_progress="half of it")
    eq(content["fields"][1], {"name": "output", "value": "half of it"}, "what is known")
    eq([(r["toolCallId"], r["status"]) for r in content["fields"][3]["value"]],
       [("long", "interrupted"), ("x", "success")], "results so far")


@manual("liveness.max_attempts=2")
def test_P10_attempts_exhausted_and_reaps_have_a_deliverable(s):
    c = talk(s)
    t = give(s, c)
    for _ in range(2):
        join(s, c)
        start(s, claim(s, c))
        advance(s, TTL_MS + 1)
    check_fallback(s, c, t, "task.exhausted", "attempts_exhausted", attempts=2)
    c = talk(s)
    t = put_to_work(s, c)
    keep_beating(s, c, t, now(s) + REAP_MS + 1)
    check_fallback(s, c, t, "running.reap", "timeout_reaped_by_watchdog", attempts=1)
    c = talk(s)
    t = suspended(s, c, "x")
    advance(s, SUSPEND_MS + 1)
    advance(s, SUSPENDED_REAP_MS + 1)
    check_fallback(s, c, t, "suspended.reap", "timeout_reaped_by_watchdog", attempts=1,
                   tool_result_count=1)


@manual()
def test_P10_the_end_of_a_conversation_and_of_a_role_leave_deliverables(s):
    c = talk(s)
    every = [put_to_work(s, c), give(s, c), give(s, c, "b")]
    s.call("conversation.end", conversation=c)
    for t, attempts in zip(every, (1, 0, 0)):
        check_fallback(s, c, t, "cancelTask", "conversation_ended", attempts=attempts)
    eq(len(cards(s, c, "task.deliverable")), 3, "one each")
    d = talk(s)
    t = put_to_work(s, d)
    s.call("agent.set", conversation=d, role="a", removed=True)
    check_fallback(s, d, t, "cancelTask", "agent_removed", attempts=1)


@manual()
def test_P10_a_deliverable_that_is_there_is_used(s):
    c = talk(s)
    t = give(s, c)
    s.stop()
    edit_store(s, *["INSERT INTO cards (card, type, conversation, task, content, created_at)"
                    f" VALUES ({n}, 'task.deliverable', {c}, {t['task']}, '\"{n}\"', 1)"
                    for n in (1, 2)])
    s.start()
    advance(s, DISPATCH_MS + 1)
    eq((deliverable_of(s, t), len(cards(s, c, "task.deliverable"))), ("2", 2), "the newest")
    eq(said(s, c, "agent.task")[0]["deliverable_card_id"], 2, "as told")


@manual()
def test_what_its_worker_decides_has_what_it_gave(s):
    c = talk(s)
    for end in (lambda t: complete(s, t), lambda t: move(s, "fail", t, reason="no")):
        end(put_to_work(s, c))
    eq([(e["deliverable_card_id"], e["deliverable_error"]) for e in said(s, c, "agent.task")],
       [(None, "none was given")] * 2, "nothing")


main()
