"""The server dies while tasks wait for tools, are resumed, and are reaped by the thousand.

The life of a suspended task is played with the server killed at each commit in turn, before and
after it; whoever had no answer asks again with the same key. In the end everything has happened
once. Then a thousand stuck tasks fall due together and the server is killed in the middle of the
pass: each ends once, with one deliverable.
"""
import os
import shutil
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "scenario"))

from audit import audit_conversation  # noqa: E402
from crew import (DISPATCH_MS, SUSPENDED_REAP_MS, SUSPEND_MS, cards, ends,  # noqa: E402
                  put_to_work, said, talk, task_of)
from fleet import MANUAL, every_conversation, settle  # noqa: E402
from reeve_test import Closed, Server, check, eq, folder, main  # noqa: E402
from watch_model import batch  # noqa: E402

GONE = (Closed, OSError)
EVERY = int(os.environ.get("REEVE_WRITES", "1"))  # every so many commits only
COMMITS = ("tick.before_commit", "tick.after_commit")


def start(s, point=None):
    """False if it dies before it is ready."""
    s.env = {"REEVE_FAIL_POINT": point} if point else {}
    try:
        s.start()
        return True
    except AssertionError:
        if s.process.poll() is None:
            raise
        return False


def survive(s, what, *points):
    """Does it, starting the server again after each death. How often it died."""
    deaths, points = 0, list(points)
    while True:
        try:
            if start(s, points.pop(0) if points else None):
                what()
                s.stop()
                return deaths
        except GONE:
            pass
        eq(s.wait(), -signal.SIGKILL, "how it ended")
        deaths += 1


def copy(source, name):
    data = os.path.join(folder(), name)
    shutil.copytree(source, data)
    return Server(data=data, args=MANUAL)


# ---- one task ----

def life(s, c):
    """From suspend to the end, each call with a key: done again, it has no second effect."""
    keys = iter(range(100))

    def call(method, **params):
        return s.call(method, task=1, **params, idempotencyKey=f"k{next(keys)}")

    call("tool.report", toolCallId="early", status="success", result=0)
    call("task.suspend", epoch=1,
         tools=[{"toolCallId": n, "name": n} for n in ("early", "x", "y")])
    call("tool.report", toolCallId="y", status="failed")
    settle(s, 0 if said(s, c, "watch.tool.timeout") else SUSPEND_MS + 1)
    first = [r["toolCallId"] for r in call("task.resume", epoch=1)["results"]]
    eq(first, ["early", "x", "y"], "what was taken")
    call("task.applied", epoch=1, toolCallIds=["x", "early"])
    got = call("task.applied", epoch=1, toolCallIds=["y"])
    eq((got["task"]["status"], got["epoch"]), ("in_progress", 2), "goes on")


def check_life(s, c):
    start(s)
    got = task_of(s, 1)
    eq((got["status"], got["epoch"], got["attempts"]), ("in_progress", 2, 0), "the task")
    eq(sorted(x["toolCallId"] for x in cards(s, c, "tool.call")), ["early", "x", "y"], "calls")
    eq(sorted((x["toolCallId"], x["status"]) for x in cards(s, c, "tool.result")),
       [("early", "success"), ("x", "timeout"), ("y", "failed")], "results")
    eq(len(said(s, c, "watch.tool.timeout")), 1, "timeouts")
    summary = s.call("conversation.get", conversation=c)
    eq(audit_conversation(c, s.events(c), summary), [], "complaints")
    s.stop()


def test_P12_a_crash_at_every_commit_of_a_suspended_task():
    source = os.path.join(folder(), "template")
    s = Server(data=source, args=(*MANUAL, "--set", "liveness.active_ttl_seconds=86400")).start()
    c = talk(s)
    put_to_work(s, c)
    s.stop()
    for point in COMMITS:
        for count in range(1, 200, EVERY):
            s = copy(source, f"{point}-{count}")
            s.args = [*MANUAL, "--set", "liveness.active_ttl_seconds=86400"]
            died = survive(s, lambda s=s: life(s, c), f"{point}:{count}")
            check_life(s, c)
            shutil.rmtree(s.data)
            if not died:
                break
        print(f"{count - 1} deaths at {point}")
        check(count > 7, f"{point} was reached {count - 1} times")


# ---- the only terminal event ----

def test_L66_a_crash_after_the_commit_loses_no_end():
    """Nobody was told; whoever follows from where it stood is told once."""
    source = os.path.join(folder(), "template")
    s = Server(data=source, args=MANUAL).start()
    c = talk(s)
    s.call("task.create", conversation=c, role="a", content=1)
    last = s.events(c)[-1]["id"]
    s.stop()
    for count in range(1, 100):
        s = copy(source, f"after-{count}")
        died = survive(s, lambda s=s: settle(s, 0 if ends(s, c) else DISPATCH_MS + 1),
                       f"tick.after_commit:{count}")
        start(s)
        with s.socket() as ws:
            ws.subscribe(conversation=c, afterId=last)
            told = [ws.event() for e in s.events(c) if e["id"] > last]
        kinds = [e["payload"]["kind"] for e in told]
        eq((kinds.count("agent.task"), kinds.count("agent.force_terminated")), (1, 1), "told")
        s.stop()
        if not died:
            break
    check(count > 1, "it died at least once")


# ---- a thousand ----

COUNT = 1000
# Nobody rings: each ring is a due time of its own, and they are not what is looked at here.
ALONE = (*MANUAL, "--set", "task.max_seconds=0", "--set", "pmo.pending_wakeup_seconds=0",
         "--set", "pmo.dispatched_retry_seconds=0")


def thousand():
    """Half of them dispatched and never claimed, half suspended with what they wait for settled;
    all fall due within one advance."""
    s = Server(data=os.path.join(folder(), "thousand"),
               args=ALONE).start()
    quiet = {"agents": [{"role": "a"}], "watchdog": {"disabled": True},
             "runtime_controls": {"session_wall_clock_seconds": 0}}
    half = range(1, COUNT // 2 + 1)
    batch(s, [("conversation.create", quiet)] * COUNT)
    batch(s, [("task.create", {"conversation": c, "role": "a", "content": c}) for c in half])
    agent = {"role": "a", "connectionId": "p"}
    for t in half:
        number, tools = {"task": t, "epoch": 1}, [{"toolCallId": "x", "name": "x"}]
        batch(s, [("task.claim", agent | {"conversation": t}), ("task.start", number),
                  ("task.suspend", number | {"tools": tools}),
                  ("tool.report", {"task": t, "toolCallId": "x", "status": "success"})])
    settle(s, SUSPENDED_REAP_MS - DISPATCH_MS)
    batch(s, [("task.create", {"conversation": c, "role": "a", "content": c})
              for c in range(COUNT // 2 + 1, COUNT + 1)])
    s.stop()
    return s.data


def reap_all(s):
    settle(s, 0 if ends(s, 1) else DISPATCH_MS + 1)


def check_thousand(s):
    start(s)
    settle(s)
    told, left = [], []
    for c in every_conversation(s):
        told += said(s, c, "agent.task")
        left += [x["diagnostics"]["reason"] for x in cards(s, c, "task.deliverable")]
        eq(len(said(s, c, "agent.force_terminated")), 1, f"forced ends of {c}")
        eq(said(s, c, "agent.state")[-1].get("error"), said(s, c, "agent.task")[0]["reason"],
           f"the state of {c}")
    eq(sorted(e["task"] for e in told), list(range(1, COUNT + 1)), "terminal events")
    eq(len({e["deliverable_card_id"] for e in told} - {None}), COUNT, "deliverables they name")
    eq(sorted(left), ["dispatch_timeout"] * (COUNT // 2)
       + ["timeout_reaped_by_watchdog"] * (COUNT // 2), "deliverables there are")
    s.stop()


def test_P7_a_thousand_stuck_tasks_end_once_each_whatever_dies():
    source = thousand()
    for points in ((), ("ladder.between_moves:1",), ("ladder.between_moves:517",),
                   ("ladder.between_moves:999",), ("tick.before_commit:40", "tick.after_commit:40"),
                   ("ladder.between_moves:250", "ladder.between_moves:300", "tick.after_commit:9")):
        s = copy(source, "again")
        s.args = list(ALONE)
        died = survive(s, lambda s=s: reap_all(s), *points)
        eq(died, len(points), f"deaths at {points}")
        check_thousand(s)
        shutil.rmtree(s.data)


if __name__ == "__main__":
    main(seconds=300)
