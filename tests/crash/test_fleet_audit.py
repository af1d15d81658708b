"""The auditor of the fleet must be able to fail: one wound at a time, each found."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "scenario"))

from audit import head_of  # noqa: E402
from fleet_audit import audit_fleet  # noqa: E402
from reeve_test import check, eq, main  # noqa: E402

AGENT = "1:a"


def healthy():
    """Task 7 at its second attempt: its first process, s1, was killed; s2 runs."""
    log = {0: [], 1: []}

    def put(kind, **data):
        log[1].append({"id": len(log[1]) + 1, "conversation": 1, "turn": 0, "seq": len(log[1]) + 1,
                       "event": len(log[1]) + 1, "type": "system", "finality": "none",
                       "agentId": "system", "payload": {"kind": kind, "data": data}})

    put("agent.exited", agent=AGENT, spawnId="s1", expected=False)
    put("watch.task.orphaned", task=7)
    put("agent.task", task=7, status="success", reason="completed", epoch=2)
    start = {"command": 1, "conversation": 1, "role": "a", "outcome": None}
    return {
        "log": log, "hurt": {"s1"}, "seen": {"s1": AGENT, "s2": AGENT}, "current": {AGENT: "s2"},
        "summaries": {c: {"status": "active", "head": head_of(log[c])} for c in log},
        "agents": {AGENT: {"restarts": 1}}, "starts": {"s1": start, "s2": start},
        "tasks": {7: {"task": 7, "status": "completed", "attempts": 1}},
        "journal": {7: [("begin", 1, "s1", 10), ("begin", 2, "s2", 20), ("end", 2, "s2", 20)]},
        "history": [(1, "a", 100, 110, "s1"), (1, "a", 120, None, "s2")],
    }


def wounded(wound, *words):
    found = healthy()
    wound(found)
    complaints = audit_fleet(found)
    for word in words:
        check(any(word in c for c in complaints), f"no word of {word!r} in {complaints}")


def event(found, number):
    return found["log"][1][number]["payload"]["data"]


def test_a_healthy_fleet_passes():
    eq(audit_fleet(healthy()), [], "complaints")


def test_P7_an_end_that_is_missing_doubled_or_another_is_found():
    wounded(lambda f: f["tasks"][7].update(status="in_progress"), "has not been completed")
    wounded(lambda f: f["log"][1].pop(2), "has not been completed")
    wounded(lambda f: f["log"][0].append(f["log"][1][2]), "2 terminal events")
    wounded(lambda f: event(f, 2).update(status="failed"), "ended otherwise")
    wounded(lambda f: event(f, 2).update(reason=None), "ended otherwise")


def test_P8_P21_attempts_side_by_side_and_dead_ones_that_are_heard_are_found():
    wounded(lambda f: f["journal"][7].insert(1, ("overlap", 2, "s2", 20)), "overlap by s2")
    wounded(lambda f: f["journal"][7].insert(1, ("ghost", 1, "s2", 20)), "ghost by s2")


def test_attempts_that_do_not_add_up_are_found():
    wounded(lambda f: f["journal"].update({7: [("begin", 2, "s1", 10), *f["journal"][7][1:]]}),
            "attempts with epochs [2, 2]")
    wounded(lambda f: event(f, 2).update(epoch=1), "ended with epoch 1")
    wounded(lambda f: f["journal"].pop(7), "ended with epoch 2, begun with []")
    wounded(lambda f: f["journal"][7].pop(), "its work was not done")
    wounded(lambda f: f["tasks"][7].update(attempts=0), "0 attempts, 1 lost", "begun 2 times")
    wounded(lambda f: f["tasks"].pop(7), "nobody gave task 7")


def test_P22_processes_and_ends_that_do_not_match_are_found():
    wounded(lambda f: f["log"][0].append(f["log"][1][0]), "was told 2 times")
    wounded(lambda f: f["log"][1].pop(0), "has ended, and nobody was told")
    wounded(lambda f: event(f, 0).update(spawnId="s2"), "lives, and is told to have ended")
    wounded(lambda f: f["hurt"].clear(), "nothing had hit it")


def test_P4_starts_that_do_not_match_are_found():
    wounded(lambda f: f["starts"].pop("s1"), "started by nobody")
    wounded(lambda f: f["starts"].update(s3=f["starts"]["s1"]), "never had a process")
    wounded(lambda f: f["agents"][AGENT].update(restarts=2), "2 restarts, 1 unexpected")
    wounded(lambda f: f["history"].__setitem__(1, (1, "a", 105, None, "s2")), "two open starts")
    wounded(lambda f: f["history"].__setitem__(1, (1, "a", 120, None, "s1")), "2 starts of spawn s1")


def test_P6_the_log_is_audited_as_well():
    wounded(lambda f: f["log"][1][1].update(seq=5), "gapless")


main()
