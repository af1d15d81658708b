"""Tools that a task waits for: suspend, report, resume, apply, in every order they can come; who
may resume; leases; and what a blocked or ended conversation makes of it."""
import json
import random
import sqlite3

from crew import (ACTIVE_MS, LEASE_MS, SUSPEND_MS, Poll, applied, beat, cards, claim, complete, ends,
                  give, join, leave, move, poll, put_to_work, report, resume, said, start, status,
                  suspend, suspended, taken, talk, task_of, view)
from fleet import edit_store, managed
from reeve_test import check, eq, main, together
from scripted_machine import Machine, work
from tool_model import Suspending
from watch_model import advance, gap, get, iso, manual, ms, now


def inbox(s, c):
    """(type, correlation, epoch, status) of the agents' rows that are no turns; it stops the server."""
    s.stop()
    store = sqlite3.connect(s.data + "/reeve.db")
    rows = store.execute("SELECT type, correlation_id, epoch, status, payload FROM agent_inbox WHERE"
                         " conversation = ? AND type <> 'turn' ORDER BY inbox", (c,)).fetchall()
    store.close()
    return rows


# ---- the way through ----

@manual()
def test_suspend_report_resume_apply(s):
    c = talk(s)
    t = put_to_work(s, c)
    tool = {"toolCallId": "tc1", "name": "search", "arguments": {"q": [1, "x"]},
            "options": {"color": "red"}}
    answer = suspend(s, t, tool)
    eq((answer["task"]["status"], answer["task"]["epoch"], ms(answer["resumeDeadline"])),
       ("suspended", t["epoch"], now(s) + SUSPEND_MS), "suspended, in the same epoch")
    eq(view(s, c), "suspended", "the agent")
    eq(cards(s, c, "tool.call"), [tool | {"epoch": 1}], "the call")
    eq(poll(s, c)["status"], "none", "nothing to resume with")
    eq(resume(s, t), {"results": [], "leaseUntil": None}, "nothing to take")
    eq(report(s, t, "tc1", result={"found": None}), {"accepted": True}, "the report")
    told = poll(s, c)
    eq((told["status"], told["task"]["task"], told["task"]["epoch"]), ("resume", 1, 1), "the poll")
    eq(resume(s, t), {"results": [{"toolCallId": "tc1", "status": "success",
                                   "result": {"found": None}}],
                      "leaseUntil": iso(now(s) + LEASE_MS)}, "what was taken")
    eq(poll(s, c)["status"], "none", "it is taken")
    got = applied(s, t, "tc1")
    eq((got["status"], got["epoch"], got["attempts"]), ("in_progress", 2, 0), "goes on, fenced anew")
    eq(cards(s, c, "tool.result"), [{"toolCallId": "tc1", "name": "search", "status": "success",
                                     "result": {"found": None}, "epoch": 1}], "the result")
    eq(complete(s, got, deliverable="done")["task"]["status"], "completed", "the end")
    eq([(x[0], x[1], x[2], x[3]) for x in inbox(s, c)], [("tool_result", "tc1", 1, "consumed")],
       "its row in the inbox")


@manual()
def test_several_results_in_any_order_and_piece_by_piece(s):
    c = talk(s)
    t = suspended(s, c, "x", "y", "z")
    report(s, t, "z", "failed", error={"code": "E1", "message": "no"})
    eq(resume(s, t)["results"], [{"toolCallId": "z", "status": "failed",
                                  "error": {"code": "E1", "message": "no"}}], "the first that came")
    eq(applied(s, t, "z")["status"], "suspended", "others are open")
    report(s, t, "x", "canceled")
    report(s, t, "y", result=0)
    eq(taken(s, t), [("x", "canceled"), ("y", "success")], "in the order of the calls")
    eq(applied(s, t, "y")["status"], "suspended", "x is not applied")
    got = applied(s, t, "x", "y")
    eq((got["status"], got["epoch"]), ("in_progress", t["epoch"] + 1), "all are")


@manual()
def test_a_result_that_comes_before_the_suspend_is_kept_for_it(s):
    c = talk(s)
    t = put_to_work(s, c)
    eq(report(s, t, "quick", result=1), {"accepted": True, "early": True}, "early")
    eq(report(s, t, "quick", result=2), {"accepted": True, "duplicate": True}, "once")
    report(s, t, "unasked")
    eq(status(s, t), "in_progress", "it changes nothing yet")
    answer = suspend(s, t, "quick", "slow")
    eq(ms(answer["resumeDeadline"]), now(s) + SUSPEND_MS, "of what is still open")
    eq(resume(s, t)["results"], [{"toolCallId": "quick", "status": "success", "result": 1}], "first")
    applied(s, t, "quick")
    s.refused("NOT_FOUND", "task.applied", task=t["task"], epoch=1, toolCallIds=["unasked"])
    report(s, t, "slow")
    eq(applied(s, t, "slow")["status"], "in_progress", "what nobody waits for holds up nothing")


@manual()
def test_all_results_early_is_resumed_at_once(s):
    c = talk(s)
    t = put_to_work(s, c)
    report(s, t, "x")
    eq(suspend(s, t, "x")["resumeDeadline"], None, "no deadline is open")
    eq(poll(s, c)["status"], "resume", "at once")
    taken(s, t)
    eq(applied(s, t, "x")["status"], "in_progress", "goes on")


@manual()
def test_late_duplicate_and_stale_results_are_told_so_and_change_nothing(s):
    c = talk(s)
    t = suspended(s, c, "x", "y")
    eq(report(s, t, "x", result=1), {"accepted": True}, "the first")
    eq(report(s, t, "x", "failed"), {"accepted": True, "duplicate": True}, "another")
    s.refused("NOT_FOUND", "tool.report", task=t["task"], toolCallId="z", status="success")
    advance(s, SUSPEND_MS + 1)
    eq(report(s, t, "y"), {"accepted": False, "late": True}, "after its deadline")
    eq(resume(s, t)["results"][0], {"toolCallId": "x", "status": "success", "result": 1}, "the first")
    got = applied(s, t, "x", "y")
    eq(report(s, t, "x"), {"accepted": True, "duplicate": True}, "of the suspension before")
    eq(report(s, t, "y"), {"accepted": False, "late": True}, "of the suspension before")
    eq(report(s, t, "new", epoch=1), {"accepted": False, "late": True}, "of another epoch")
    eq(report(s, t, "new", epoch=7), {"accepted": False, "late": True}, "of none")
    complete(s, got)
    eq(report(s, t, "x"), {"accepted": True, "duplicate": True}, "after the end")
    eq(report(s, t, "w"), {"accepted": False, "late": True}, "after the end, never heard of")
    eq(len(cards(s, c, "tool.result")), 2, "results")
    s.refused("NOT_FOUND", "tool.report", task=99, toolCallId="x", status="success")


@manual()
def test_L67_an_id_may_repeat_from_task_to_task_and_suspension_to_suspension(s):
    c, other = talk(s), talk(s)
    every = [suspended(s, c, "call_1"), suspended(s, c, "call_1", role="b", connection="c2"),
             suspended(s, other, "call_1")]
    for n, t in enumerate(every):
        eq(report(s, t, "call_1", result=n), {"accepted": True}, f"of task {n}")
    for n, t in enumerate(every):
        eq(resume(s, t)["results"][0]["result"], n, f"of task {n}")
    t = applied(s, every[0], "call_1")
    suspend(s, t, "call_1")
    eq(report(s, t, "call_1", result="again"), {"accepted": True}, "the newest of this id")
    eq(resume(s, t)["results"][0]["result"], "again", "of the second suspension")
    t = applied(s, t, "call_1")
    eq(report(s, t, "call_1", result="early", epoch=t["epoch"]), {"accepted": True, "early": True},
       "early, and of a name that was used before")
    suspend(s, t, "call_1")
    eq(resume(s, t)["results"][0]["result"], "early", "kept")


@manual()
def test_a_repeat_of_a_suspend_is_no_move_and_another_is_refused(s):
    c = talk(s)
    t = put_to_work(s, c)
    first = suspend(s, t, "x", "y")
    advance(s, 1000)
    eq(suspend(s, t, "x", "y"), first, "again: the deadlines are where they were")
    s.refused("INVALID_TRANSITION", "task.suspend", task=1, epoch=1,
              tools=[{"toolCallId": "z", "name": "n"}])
    eq(len(cards(s, c, "tool.call")), 2, "calls")


@manual()
def test_P19_a_repeat_of_suspend_with_another_call_of_the_same_id_is_refused(s):
    c = talk(s)
    t = put_to_work(s, c)
    call = {"toolCallId": "x", "name": "n", "arguments": {"a": 1, "b": 2}}
    first = suspend(s, t, call)
    eq(suspend(s, t, call | {"arguments": {"b": 2, "a": 1}}), first, "the same, written otherwise")
    for other in ({"name": "m"}, {"arguments": {"a": 1}}, {"options": {"timeout_seconds": 9}}):
        s.refused("IDEMPOTENCY_CONFLICT", "task.suspend", task=t["task"], epoch=t["epoch"],
                  tools=[call | other])
    eq(len(cards(s, c, "tool.call")), 1, "calls")


@manual()
def test_L65_each_tool_has_its_own_deadline_and_no_result_moves_it(s):
    c = talk(s)
    t = put_to_work(s, c)

    def tool(name, **options):
        return {"toolCallId": name, "name": name, "options": options}

    suspend(s, t, tool("long", suspend_timeout_seconds=120), tool("short", timeout_seconds=10),
            tool("both", timeout_seconds=60, suspend_timeout_seconds=40), tool("none"), "first")
    at = now(s)
    advance(s, 20_000)
    report(s, t, "first")  # a partial result
    taken(s, t)
    applied(s, t, "first")
    timeouts = {"short": 30_000, "none": 30_000, "both": 60_000, "long": 120_000}
    for due in (30_000, 60_000, 120_000):
        advance(s, at + due - now(s))
        seen = {e["toolCallId"] for e in said(s, c, "watch.tool.timeout")}
        eq(seen, {n for n, at_ms in timeouts.items() if at_ms < due}, f"{due} ms after the suspend")
    advance(s, 1)
    eq({e["toolCallId"]: e["at"] - at - 1 for e in said(s, c, "watch.tool.timeout")}, timeouts,
       "each at its own time")
    eq([(e["limit"], e["since"] and ms(e["since"])) for e in said(s, c, "watch.tool.timeout")][-1],
       (120_000, at), "P13: evidence and limit")


@manual()
def test_params_of_tools_are_checked(s):
    c = talk(s)
    t = put_to_work(s, c)
    number = {"task": t["task"], "epoch": 1}
    x = {"toolCallId": "x", "name": "n"}
    for tools in ([], [x, x], [{"toolCallId": "x"}], [{"name": "n"}], [x | {"toolCallId": ""}],
                  [x | {"options": {"timeout_seconds": -5}}],
                  [x | {"options": {"timeout_seconds": "abc"}}],
                  [{"toolCallId": str(i), "name": "n"} for i in range(257)]):
        s.refused("INVALID_PARAMS", "task.suspend", **number, tools=tools)
    for wrong in ({"status": "timeout"}, {"status": "interrupted"}, {"status": "success", "x": 1},
                  {"status": "failed", "error": {"code": "x"}}):
        s.refused("INVALID_PARAMS", "tool.report", task=1, toolCallId="x", **wrong)
    eq(status(s, t), "in_progress", "nothing happened")
    suspend(s, t, *[{"toolCallId": str(i), "name": "n"} for i in range(256)])
    s.refused("PRECONDITION_FAILED", "task.applied", **number, toolCallIds=["0"])


@manual()
def test_states_and_epochs(s):
    """STALE_EPOCH wins over INVALID_TRANSITION; each is refused where it makes no sense."""
    c = talk(s)
    x = {"tools": [{"toolCallId": "x", "name": "n"}]}
    calls = (("task.suspend", x), ("task.resume", {}), ("task.applied", {"toolCallIds": ["x"]}))

    def all_refused(name, epoch, *methods):
        for method, more in calls:
            if method in methods:
                s.refused(name, method, task=1, epoch=epoch, **more)

    every = [m for m, _ in calls]
    give(s, c)
    all_refused("STALE_EPOCH", 0, *every)
    all_refused("INVALID_TRANSITION", 1, *every)
    join(s, c)
    t = claim(s, c)
    all_refused("INVALID_TRANSITION", 1, *every)
    start(s, t)
    all_refused("INVALID_TRANSITION", 1, "task.resume", "task.applied")
    suspend(s, t, "x")
    all_refused("STALE_EPOCH", 2, *every)
    s.refused("INVALID_TRANSITION", "task.complete", task=1, epoch=1)
    s.refused("INVALID_TRANSITION", "task.claim", conversation=c, role="a", connectionId="c1")
    s.refused("INVALID_TRANSITION", "task.progress", task=1, epoch=1)
    report(s, t, "x")
    applied(s, t, "x")
    all_refused("STALE_EPOCH", 1, *every)
    eq(s.refused("STALE_EPOCH", "task.applied", task=1, epoch=1, toolCallIds=[]).data["epoch"], 2,
       "the current one")


@manual()
def test_P19_a_repeat_with_the_same_key_has_the_same_answer(s):
    c = talk(s)
    t = put_to_work(s, c)

    def twice(method, other, **params):
        first = s.call(method, **params, idempotencyKey=method)
        eq(s.call(method, **params, idempotencyKey=method), first, method)
        s.refused("IDEMPOTENCY_CONFLICT", method, **params | other, idempotencyKey=method)

    twice("task.suspend", {"epoch": 9}, task=1, epoch=1,
          tools=[{"toolCallId": "x", "name": "n"}])
    twice("tool.report", {"status": "failed"}, task=1, toolCallId="x", status="success")
    twice("task.resume", {"epoch": 9}, task=1, epoch=1)
    twice("task.applied", {"epoch": 9}, task=1, epoch=1, toolCallIds=["x"])
    eq((task_of(s, t)["epoch"], len(cards(s, c, "tool.result"))), (2, 1), "one effect")


# ---- who resumes ----

@manual()
def test_a_suspended_task_needs_no_worker(s):
    c = talk(s)
    t = suspended(s, c, {"toolCallId": "x", "name": "n", "options": {"timeout_seconds": 3600}})
    advance(s, 10 * ACTIVE_MS)
    eq((status(s, t), task_of(s, t)["attempts"]), ("suspended", 0), "nobody beats")
    eq(view(s, c), "suspended", "the agent")


@manual()
def test_a_fresh_process_picks_it_up_and_the_old_one_is_fenced_out(s):
    c = talk(s)
    t = suspended(s, c, "x", "y")
    report(s, t, "x")
    old = resume(s, t)["results"]  # and it hangs
    leave(s, c)
    join(s, c, connection="c2")
    eq(poll(s, c, connection="c2")["status"], "none", "x is lent to the old one")
    report(s, t, "y")
    told = poll(s, c, connection="c2")
    eq((told["status"], told["task"]["epoch"]), ("resume", 1), "the newcomer is told the epoch")
    eq(taken(s, told["task"]), [("y", "success")], "what nobody was lent")
    advance(s, LEASE_MS + 1)
    eq(taken(s, told["task"]), [("x", "success"), ("y", "success")], "leases are over: all of it")
    got = applied(s, told["task"], "x", "y")
    eq((got["status"], got["epoch"], got["claimedBy"]), ("in_progress", 2, "c2"), "its holder now")
    s.refused("STALE_EPOCH", "task.applied", task=1, epoch=1,
              toolCallIds=[r["toolCallId"] for r in old])
    s.refused("STALE_EPOCH", "task.complete", task=1, epoch=1)
    eq(beat(s, c, connection="c2", epoch=2).get("staleEpoch"), None, "the new one beats")


@manual()
def test_of_two_who_apply_the_same_one_wins(s):
    c = talk(s)
    t = suspended(s, c, "x")
    report(s, t, "x")
    taken(s, t)
    won = []

    def race():
        try:
            won.append(applied(s, t, "x")["epoch"])
        except Exception as e:  # noqa: BLE001 - looked at below
            won.append(e.name)

    together(*[race] * 8)
    eq(sorted(map(str, won)), ["2"] + ["STALE_EPOCH"] * 7, "one goes on")


@manual()
def test_a_process_that_resumes_is_the_one_whose_exit_releases_the_task(s):
    """Claimed by one process, resumed by the next: evidence and exit of the next one count."""
    m = Machine(s)
    c = managed(s, "a", desired="auto", runtime_controls={"session_wall_clock_seconds": 0})
    give(s, c)
    first = m.boot()
    t, agent = work(s, m, c, first)
    suspend(agent, t, "x")
    m.exited(first)
    eq(status(s, t), "suspended", "its process is not needed")
    second = m.boot()
    agent = m.agent(second)
    join(agent, c, connection="p2")
    report(s, t, "x")
    eq(poll(agent, c, connection="p2")["status"], "resume", "the next one is told")
    eq(taken(agent, t), [("x", "success")], "and takes it")
    got = applied(agent, t, "x")
    eq((got["status"], got["claimedBy"]), ("in_progress", "p2"), "its holder")
    m.exited(second)
    eq((status(s, t), task_of(s, t)["attempts"]), ("pending", 1), "released at once")


@manual()
def test_a_poll_under_way_is_woken_by_each_result(s):
    c = talk(s)
    t = suspended(s, c, "x", "y")
    waiting = Poll(s, c)
    check(waiting.is_waiting(), "nothing yet")
    report(s, t, "y")
    eq(waiting.answer()["status"], "resume", "woken by a report")
    taken(s, t)
    applied(s, t, "y")
    waiting = Poll(s, c)
    advance(s, SUSPEND_MS + 1)
    eq(waiting.answer()["status"], "resume", "woken by a timeout")
    taken(s, t)
    waiting = Poll(s, c)
    advance(s, LEASE_MS + 1)
    eq(waiting.answer()["status"], "resume", "woken when the lease is over")


@manual()
def test_results_are_the_agents_own(s):
    c, other = talk(s), talk(s)
    t = suspended(s, c, "x")
    mine = s.as_token(scope="agent", conversation=c, role="a")
    neighbour = s.as_token(scope="agent", conversation=c, role="b")
    stranger = s.as_token(scope="agent", conversation=other, role="a")
    reader = s.as_token(scope="read")
    number = {"task": t["task"], "toolCallId": "x", "status": "success"}
    neighbour.refused("FORBIDDEN", "tool.report", **number)
    stranger.refused("NOT_FOUND", "tool.report", **number)
    reader.refused("FORBIDDEN", "tool.report", **number)
    for method, more in (("task.resume", {}), ("task.applied", {"toolCallIds": []})):
        neighbour.refused("FORBIDDEN", method, task=1, epoch=1, **more)
        stranger.refused("NOT_FOUND", method, task=1, epoch=1, **more)
    eq(mine.call("tool.report", **number), {"accepted": True}, "its own")


# ---- blocked, ended, unwatched ----

@manual()
def test_P16_unwatched_time_times_nothing_out(s):
    c = talk(s)
    t = suspended(s, c, "x")
    advance(s, 10_000)
    gap(s, 1_000_000)
    advance(s, 20_000)
    eq((status(s, t), said(s, c, "watch.tool.timeout")), ("suspended", []), "30 s of watched time")
    s.restart("kill")
    advance(s, 0)
    eq(said(s, c, "watch.tool.timeout"), [], "after a restart")
    advance(s, 1)
    eq([e["toolCallId"] for e in said(s, c, "watch.tool.timeout")], ["x"], "and one more")
    taken(s, t)
    gap(s, 1_000_000)
    advance(s, LEASE_MS)
    eq(said(s, c, "watch.ledger.requeue"), [], "nor is a resumer convicted")
    advance(s, 1)
    eq(len(said(s, c, "watch.ledger.requeue")), 1, "but in time")


@manual()
def test_blocked_keeps_the_waits_and_takes_reports(s):
    c = talk(s, runtime_controls={"session_wall_clock_seconds": 20})
    t = suspended(s, c, "x", "y")
    at = now(s)
    advance(s, 20_001)
    eq((get(s, c)["status"], status(s, t)), ("blocked", "suspended"), "blocked")
    eq(report(s, t, "x", result=5), {"accepted": True}, "stored")
    for method, more in (("task.resume", {}), ("task.applied", {"toolCallIds": ["x"]})):
        s.refused("CONVERSATION_BLOCKED", method, task=1, epoch=1, **more)
    advance(s, 1_000_000)
    eq(said(s, c, "watch.tool.timeout"), [], "no rule acts meanwhile")
    s.call("conversation.resume", conversation=c,
           runtime_controls={"session_wall_clock_seconds": 0})
    join(s, c)
    eq(poll(s, c)["status"], "resume", "x has come")
    left = at + SUSPEND_MS - (at + 20_001)
    advance(s, left)
    eq(said(s, c, "watch.tool.timeout"), [], "the wait goes on where it stood")
    advance(s, 1)
    eq([e["toolCallId"] for e in said(s, c, "watch.tool.timeout")], ["y"], "and ends")
    eq(taken(s, t), [("x", "success"), ("y", "timeout")], "what came of it")


def closed_calls(s, c):
    return [(x["toolCallId"], x["status"]) for x in cards(s, c, "tool.result")]


@manual()
def test_open_calls_are_interrupted_by_every_end(s):
    """fail, cancel, the end of the conversation, a reap: what is read is never a call without a
    result. What had come stays as it came."""
    for end in ("fail", "cancel", "conversation", "max_seconds"):
        c = talk(s)
        t = suspended(s, c, "x", {"toolCallId": "y", "name": "y",
                                  "options": {"timeout_seconds": 100_000}})
        report(s, t, "x")
        taken(s, t)
        if end == "fail":
            move(s, "fail", t, reason="no")
        elif end == "cancel":
            s.call("task.cancel", task=t["task"], reason="no")
        elif end == "conversation":
            s.call("conversation.end", conversation=c)
        else:
            advance(s, 10_800_001)
        eq(closed_calls(s, c), [("x", "success"), ("y", "interrupted")], end)
        (card,) = [x for x in cards(s, c, "tool.result") if x["status"] == "interrupted"]
        check("verify side effects" in card["error"]["message"], card)
        eq(report(s, t, "y"), {"accepted": False, "late": True}, f"after {end}")
        eq(len(ends(s, c)), 1, f"one end by {end}")


@manual()
def test_an_end_closes_the_rows_of_the_inbox(s):
    c, d = talk(s), talk(s)
    for conversation in (c, d):
        t = suspended(s, conversation, "x", "y")
        report(s, t, "x")
        if conversation == c:
            s.call("conversation.end", conversation=c)
        else:
            move(s, "fail", t, reason="no")
    eq([x[:4] for x in inbox(s, c)], [("tool_result", "x", 1, "skipped")], "canceled")
    s.start()
    eq([x[:4] for x in inbox(s, d)], [("tool_result", "x", 1, "consumed")], "failed")


@manual()
def test_what_the_inbox_says_of_results(s):
    c = talk(s)
    t = suspended(s, c, "x", "y")
    report(s, t, "x", "failed")
    advance(s, SUSPEND_MS + 1)
    eq([(x[0], x[1], x[3], json.loads(x[4])) for x in inbox(s, c)],
       [("tool_result", "x", "pending", {"status": "failed", "after_execution": "suspend",
                                         "tool_result_card_id": 3}),
        ("timeout", "y", "pending", {"status": "timeout", "after_execution": "suspend",
                                     "tool_result_card_id": 4})], "the rows")


@manual()
def test_L61_a_row_that_is_in_the_inbox_already_is_in_nobodys_way(s):
    """Somebody has put messages of these names there by hand."""
    c = talk(s)
    t = suspended(s, c, "x", "y")
    s.stop()
    edit_store(s, *["INSERT INTO agent_inbox (inbox, conversation, role, type, correlation_id, epoch,"
                    f" status, channel, payload, created_at) VALUES ({n}, {c}, 'a', '{kind}', '{call}',"
                    " 1, 'pending', 'public', '{}', 1)"
                    for n, kind, call in ((10, "tool_result", "x"), (11, "timeout", "y"))])
    s.start()
    eq(report(s, t, "x"), {"accepted": True}, "the report")
    advance(s, SUSPEND_MS + 1)
    eq(taken(s, t), [("x", "success"), ("y", "timeout")], "both results")
    applied(s, t, "x", "y")
    eq([row[:4] for row in inbox(s, c)], [("tool_result", "x", 1, "consumed"),
                                          ("timeout", "y", 1, "consumed")], "the rows")


@manual()
def test_why_shows_what_a_task_waits_for(s):
    c = talk(s)
    t = suspended(s, c, "x", {"toolCallId": "y", "name": "y", "options": {"timeout_seconds": 60}})
    at = now(s)
    report(s, t, "x")
    taken(s, t)

    def nexts():
        why = s.call("agent.why", conversation=c, role="a")
        return {x["what"] + " " + x["next"]["rule"]: ms(x["next"]["dueAt"]) for x in why["standing"]}

    got = nexts()
    eq((got["its tool call x ledger.requeue"], got["its tool call y tool.timeout"]),
       (at + LEASE_MS + 1, at + 60_001), "each with its time")
    eq(got["its task suspended.reap"], at + 7_200_001, "and the rung above")
    evidence = [e["value"] for e in s.call("agent.why", conversation=c, role="a")["evidence"]
                if e["kind"] == "tool"]
    eq(evidence, ["tool call x (tool-x) is received, taken by who resumes",
                  "tool call y (y) is waiting"], "evidence")
    advance(s, 60_001)
    history = [(h["rule"], h["reason"]) for h in
               s.call("agent.why", conversation=c, role="a")["history"]]
    check(("tool.timeout", "tool_timeout") in history, history)
    check(("ledger.requeue", "resume_lease_over") in history, history)


# ---- the model ----

@manual(deadline=120)
def test_property_tasks_that_wait_for_tools_and_a_model(s):
    for seed in range(8):
        rng = random.Random(seed)
        crew = Suspending(s, talk(s, "a", "b"), now(s), "ab")
        for step in range(150):
            what = crew.step(rng)
            try:
                crew.compare()
            except AssertionError as e:
                raise AssertionError(f"seed {seed}, step {step}, {what}: {e}") from None


main()
