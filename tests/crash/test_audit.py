"""The auditor must be able to fail: doctored logs, each with one wound, each found."""
import copy
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "scenario"))

from audit import audit, audit_tasks, head_of, text_hash  # noqa: E402
from reeve_test import check, eq, main  # noqa: E402


def healthy():
    """Two conversations, written alternately; the first has ended."""
    log, acks, ids = {1: [], 2: []}, [], iter(range(10, 100))

    def put(c, turn, number, kind, finality, payload, agent="a"):
        event = {"id": next(ids), "conversation": c, "turn": turn, "event": number,
                 "seq": len(log[c]) + 1, "ts": "", "type": kind, "finality": finality,
                 "agentId": agent, "payload": payload}
        log[c].append(event)
        if kind != "system":
            text = payload.get("text") or payload["content"]
            acks.append({"key": text.split()[0], "conversation": c, "seq": event["seq"],
                         "id": event["id"], "turn": turn, "text": text_hash(text),
                         "sent": 10 * event["id"], "acked": 10 * event["id"] + 5})

    for c in log:
        put(c, 0, 1, "system", "none", {"kind": "meta_created"}, "system-orchestrator")
    for i in range(1, 5):
        for c in log:
            close = "turn" if i == 3 else "none"
            put(c, 1 if i <= 3 else 2, i if i <= 3 else 1, "message", close, {"text": f"k{c}{i} x"})
    put(1, 2, 2, "trace", "none", {"type": "thought", "content": "t1 y"})
    put(1, 2, 3, "message", "conversation", {"text": "end bye"})
    summaries = {c: {"status": "completed" if c == 1 else "active", "head": head_of(log[c]),
                     "stop_reason_code": "completed" if c == 1 else None} for c in log}
    followed = sorted((copy.deepcopy(e) for events in log.values() for e in events),
                      key=lambda e: e["id"])
    return {"log": log, "summaries": summaries, "acks": acks,
            "attempted": {a["key"] for a in acks}, "followed": followed}


def wounded(wound, *words):
    case = healthy()
    wound(case)
    complaints = audit(**case)
    check(complaints, "the auditor noticed nothing")
    for word in words:
        check(any(word in c for c in complaints), f"no word of {word!r} in {complaints}")


def renumber(events):
    for i, e in enumerate(events, 1):
        e["seq"] = i


def test_a_healthy_log_passes():
    eq(audit(**healthy()), [], "complaints")


def test_a_lost_event_at_the_end_is_found():
    wounded(lambda case: case["log"][2].pop(), "LOST", "head", "is not in the log")


def test_a_lost_event_in_the_middle_is_found():
    wounded(lambda case: case["log"][2].pop(2), "gapless", "LOST")


def test_a_lost_event_whose_place_was_taken_is_found():
    def wound(case):
        case["log"][2].pop(2)
        renumber(case["log"][2])
    wounded(wound, "LOST")


def test_a_doubled_event_is_found():
    def wound(case):
        events = case["log"][2]
        events.append(dict(events[-1], id=99, event=2))
        renumber(events)
    wounded(wound, "took effect 2 times")


def test_a_reordered_log_is_found():
    def wound(case):
        events = case["log"][2]
        events[2], events[3] = events[3], events[2]
        renumber(events)
    wounded(wound, "ids do not grow", "LOST")


def test_a_changed_text_is_found():
    wounded(lambda case: case["log"][2][2]["payload"].update(text="k22 other"), "LOST",
            "as something else")


def test_a_shared_id_is_found():
    def wound(case):
        case["log"][1][1]["id"] = case["log"][2][1]["id"]
    wounded(wound, "is shared by 2")


def test_an_event_nobody_sent_is_found():
    def wound(case):
        case["attempted"].discard("k22")
    wounded(wound, "nobody sent request k22")


def test_two_ends_are_found():
    def wound(case):
        events = case["log"][1]
        events.append(dict(events[-1], seq=len(events) + 1, id=99, event=4,
                           payload={"text": "end2 bye"}))
        case["attempted"].add("end2")
    wounded(wound, "2 terminal messages", "follows the terminal message")


def test_an_end_without_its_status_is_found():
    wounded(lambda case: case["summaries"][1].update(status="active"), "status active")
    wounded(lambda case: case["summaries"][2].update(status="completed"), "status completed")
    wounded(lambda case: case["summaries"][1].update(stop_reason_code=None), "without a reason")


def test_a_wrong_head_is_found():
    wounded(lambda case: case["summaries"][2].update(head=dict(case["summaries"][2]["head"],
                                                               hasOpenTurn=False)), "head")


def test_ids_against_the_order_of_commits_are_found():
    def wound(case):
        a, b = case["acks"][0], case["acks"][-1]
        a["sent"], a["acked"] = b["sent"] + 100, b["acked"] + 100
    wounded(wound, "was sent after")


def test_what_a_follower_missed_saw_twice_or_invented_is_found():
    wounded(lambda case: case["followed"].pop(3), "never saw")
    wounded(lambda case: case["followed"].insert(3, case["followed"][3]), "twice")
    wounded(lambda case: case["followed"][4].update(id=98), "not in the log")


# ---- tasks ----

def healthy_tasks():
    """One is completed after a tool, one is being worked on."""
    end = {"type": "system", "payload": {"kind": "agent.task",
                                         "data": {"task": 1, "reason": "completed"}}}
    tasks = [{"task": 1, "content": "one", "status": "completed", "epoch": 2},
             {"task": 2, "content": "two", "status": "in_progress", "epoch": 3}]
    cards = [{"card": 1, "task": 1, "type": "tool.call", "content": {"toolCallId": "t"}},
             {"card": 2, "task": 1, "type": "tool.result",
              "content": {"toolCallId": "t", "result": "t"}},
             {"card": 3, "task": 1, "type": "task.deliverable", "content": "one"}]

    def ack(content, method, task=None, status=None, epoch=None, card=None, tool=None):
        return {"key": f"k-{method}", "content": content, "method": method, "task": task,
                "status": status, "epoch": epoch, "card": card, "tool": tool}

    acks = [ack("one", "task.create", 1, "pending", 1), ack("one", "tool.report", tool="t"),
            ack("one", "task.complete", 1, "completed", 2, 3),
            ack("two", "task.start", 2, "in_progress", 3)]
    return {"log": {1: [end]}, "tasks": tasks, "cards": cards, "acks": acks,
            "attempted": {"one", "two"}}


def hurt(wound, word):
    case = healthy_tasks()
    wound(case)
    complaints = audit_tasks(**case)
    check(any(word in c for c in complaints), f"no word of {word!r} in {complaints}")


def test_healthy_tasks_pass():
    eq(audit_tasks(**healthy_tasks()), [], "complaints")


def test_P7_a_task_with_no_end_two_ends_or_no_reason_is_found():
    hurt(lambda case: case["log"][1].pop(), "0 terminal events")
    hurt(lambda case: case["log"][1].append(case["log"][1][0]), "2 terminal events")
    hurt(lambda case: case["tasks"][0].update(status="in_progress"), "1 terminal events")
    hurt(lambda case: case["log"][1][0]["payload"]["data"].update(reason=None), "without a reason")


def test_P8_an_epoch_that_went_back_is_found():
    hurt(lambda case: case["tasks"][1].update(epoch=2), "epoch 2, after 3")


def test_P10_a_lost_or_doubled_card_is_found():
    hurt(lambda case: case["cards"].pop(), "deliverables are []")
    hurt(lambda case: case["cards"].append(case["cards"][2]), "deliverables are")
    hurt(lambda case: case["cards"].append(case["cards"][1] | {"card": 9}), "took effect twice")
    hurt(lambda case: case["cards"].pop(1), "LOST: the result of t")


def test_P12_a_lost_task_or_end_is_found():
    hurt(lambda case: case["tasks"].pop(), "there is no two")
    hurt(lambda case: case["tasks"][0].update(status="failed"), "LOST: k-task.complete")


def test_P19_a_task_that_was_made_twice_or_by_nobody_is_found():
    hurt(lambda case: case["tasks"].append(case["tasks"][1] | {"task": 3}), "created 2 times")
    hurt(lambda case: case["attempted"].discard("two"), "nobody asked for two")


if __name__ == "__main__":
    main()
