"""The auditor: compares what the server says is in its log with what clients were told.

Pure functions over plain data, so that test_audit.py can hand them a doctored log and see them
complain. What they hold the server to:

    P6   seq is gapless from 1 in every conversation; nothing follows a terminal message
    P7   at most one terminal message, and it is there if and only if the status is `completed`; one
         terminal event for each ended task, with a reason
    P8   a task's epoch never goes back
    P10  a completed task has its deliverable, once
    P12  every acknowledged event is in the log, with the seq, id, turn and text of its answer
    P19  no request had its effect twice
    P4   no agent ever had two open starts, and no two starts were of one spawn
    ids  grow with seq, are never shared, and what was acknowledged before a request was sent has a
         smaller id than that request's event
    head the summary of conversation.get is what the log says
    the follower saw the log itself: nothing twice, nothing missing, nothing that is not there

An acknowledgement is a dict {key, conversation, seq, id, turn, text, sent, acked}, where text is a
hash and sent/acked are moments on one clock. Every text begins with its key and a blank, which is
how an event is traced back to the request that made it.
"""
import collections
import hashlib
import os
import sqlite3


def text_hash(text):
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def text_of(event):
    payload = event["payload"]
    return payload.get("text", payload.get("content", ""))


def key_of(event):
    """The request that made this event, or None if the server wrote it by itself."""
    if event["type"] == "system" or event["agentId"].startswith("system-"):
        return None
    return text_of(event).partition(" ")[0]


def head_of(events):
    turns = [e for e in events if e["type"] != "system"]
    closes = [e for e in events if e["type"] == "message" and e["finality"] != "none"]
    last = max((e["turn"] for e in turns), default=0)
    is_open = last > 0 and not any(e["turn"] == last for e in closes)
    return {"lastTurn": last, "lastClosedSeq": closes[-1]["seq"] if closes else 0,
            "hasOpenTurn": is_open}


def audit_conversation(number, events, summary):
    def say(what):
        complaints.append(f"conversation {number}: {what}")

    complaints = []
    if [e["seq"] for e in events] != list(range(1, len(events) + 1)):
        say("seq is not gapless from 1")
    if any(a["id"] >= b["id"] for a, b in zip(events, events[1:])):
        say("ids do not grow with seq")
    counts = collections.Counter()
    for e in events:
        counts[e["turn"]] += 1
        if e["event"] != counts[e["turn"]]:
            say(f"seq {e['seq']} is event {e['event']} of its turn, not {counts[e['turn']]}")
        if e["conversation"] != number:
            say(f"holds an event of conversation {e['conversation']}")
    ends = [e["seq"] for e in events if e["finality"] == "conversation"]
    if len(ends) > 1:
        say(f"{len(ends)} terminal messages")
    if ends and ends[0] != len(events):
        say("something follows the terminal message")
    if (summary["status"] == "completed") != bool(ends):
        say(f"status {summary['status']} with {len(ends)} terminal messages")
    if ends and not summary["stop_reason_code"]:
        say("ended without a reason")
    head = head_of(events)
    if {k: summary["head"][k] for k in head} != head:
        say(f"head {summary['head']}, but the log says {head}")
    return complaints


def audit_keys(log, attempted):
    """Each request at most once, and nothing that nobody asked for."""
    seen = collections.Counter(k for events in log.values() for e in events if (k := key_of(e)))
    complaints = [f"request {k} took effect {n} times" for k, n in seen.items() if n > 1]
    return complaints + [f"nobody sent request {k}" for k in seen if k not in attempted]


def audit_acks(log, acks):
    complaints = []
    for a in acks:
        events = log.get(a["conversation"], [])
        if not 0 < a["seq"] <= len(events):
            complaints.append(f"LOST: {a['key']}, acknowledged as {a['conversation']}/{a['seq']}")
            continue
        e = events[a["seq"] - 1]
        got = (e["seq"], e["id"], e["turn"], text_hash(text_of(e)))
        want = (a["seq"], a["id"], a["turn"], a["text"])
        if got != want:
            complaints.append(f"LOST: {a['key']}: acknowledged as {want}, the log has {got}")
    return complaints


def audit_order(acks):
    """Commit order: an event acknowledged before another was sent has the smaller id."""
    complaints, greatest = [], (0, None)
    by_ack = collections.deque(sorted(acks, key=lambda a: a["acked"]))
    for a in sorted(acks, key=lambda a: a["sent"]):
        while by_ack and by_ack[0]["acked"] < a["sent"]:
            known = by_ack.popleft()
            greatest = max(greatest, (known["id"], known["key"]))
        if a["id"] <= greatest[0]:
            complaints.append(f"{a['key']} has id {a['id']}, but was sent after {greatest[1]}"
                              f" was acknowledged with id {greatest[0]}")
    return complaints


def audit_follower(log, followed):
    """What a follower was pushed, across all crashes, up to the last it saw."""
    complaints = []
    if any(a["id"] >= b["id"] for a, b in zip(followed, followed[1:])):
        complaints.append("the follower was pushed an event twice or out of order")
    last = followed[-1]["id"] if followed else 0
    stored = {e["id"]: e for events in log.values() for e in events if e["id"] <= last}
    pushed = {e["id"]: e for e in followed}
    complaints += [f"the follower never saw id {i}" for i in stored.keys() - pushed.keys()]
    complaints += [f"id {i} was pushed and is not in the log"
                   for i in pushed.keys() - stored.keys()]
    complaints += [f"id {i} was pushed as something else" for i in pushed.keys() & stored.keys()
                   if pushed[i] != stored[i]]
    return complaints


def ends_of(log):
    """task -> the data of its terminal events."""
    ends = collections.defaultdict(list)
    for events in log.values():
        for e in events:
            if e["type"] == "system" and e["payload"].get("kind") == "agent.task":
                ends[e["payload"]["data"]["task"]].append(e["payload"]["data"])
    return ends


OVER = ("completed", "failed", "timeout", "canceled")


def audit_task(t, ends, cards):
    def say(what):
        complaints.append(f"task {t['task']} ({t['content']}): {what}")

    complaints, over = [], t["status"] in OVER
    if len(ends) != over:
        say(f"{len(ends)} terminal events, and it is {t['status']}")
    if any(not e["reason"] for e in ends):
        say("ended without a reason")
    deliverables = [c for c in cards if c["type"] == "task.deliverable"]
    if len(deliverables) > 1 or (t["status"] == "completed"
                                 and [c["content"] for c in deliverables] != [t["content"]]):
        say(f"its deliverables are {[c['content'] for c in deliverables]}")
    for kind in ("tool.call", "tool.result"):
        ids = [c["content"]["toolCallId"] for c in cards if c["type"] == kind]
        if len(ids) != len(set(ids)):
            say(f"a {kind} took effect twice")
    return complaints


def audit_task_ack(a, task, cards):
    """What somebody was told, and how it is now."""
    if a["status"] in OVER and (task["status"], task["epoch"]) != (a["status"], a["epoch"]):
        return [f"LOST: {a['key']} ended {a['content']} as {a['status']}, it is {task['status']}"]
    if a["epoch"] is not None and task["epoch"] < a["epoch"]:
        return [f"{a['content']}: epoch {task['epoch']}, after {a['epoch']} was told"]
    if a["card"] is not None and a["card"] not in [c["card"] for c in cards]:
        return [f"LOST: card {a['card']} of {a['content']}"]
    told = [c for c in cards if c["type"] == "tool.result"
            and c["content"]["toolCallId"] == a["tool"]]
    if a["method"] == "tool.report" and [c["content"].get("result") for c in told] != [a["tool"]]:
        return [f"LOST: the result of {a['tool']}"]
    return []


def audit_tasks(log, tasks, cards, acks, attempted):
    """Tasks, tools and cards (P6 P7 P8 P10 P12 P19). The content of a task is a name of its own, and
    that is also its deliverable; the result of a tool is the name of its call."""
    complaints, ends = [], ends_of(log)
    by_name, of_task = collections.defaultdict(list), collections.defaultdict(list)
    for c in cards:
        of_task[c["task"]].append(c)
    for t in tasks:
        by_name[t["content"]].append(t)
        complaints += audit_task(t, ends[t["task"]], of_task[t["task"]])
    complaints += [f"{n} was created {len(found)} times" for n, found in by_name.items()
                   if len(found) > 1]
    complaints += [f"nobody asked for {n}" for n in by_name if n not in attempted]
    for a in acks:
        found = by_name.get(a["content"])
        complaints += (audit_task_ack(a, found[0], of_task[found[0]["task"]]) if found
                       else [f"LOST: {a['key']}: there is no {a['content']}"])
    return complaints


def audit(log, summaries, acks, attempted, followed=()):
    """A list of complaints. log: number -> events; summaries: number -> conversation.get."""
    complaints = []
    for number, events in log.items():
        complaints += audit_conversation(number, events, summaries[number])
    ids = collections.Counter(e["id"] for events in log.values() for e in events)
    complaints += [f"id {i} is shared by {n} events" for i, n in ids.items() if n > 1]
    complaints += audit_keys(log, attempted)
    complaints += audit_acks(log, acks)
    complaints += audit_order(acks)
    complaints += audit_follower(log, followed)
    return complaints


def starts_in(data):
    """(conversation, role, created, closed, spawn) of every start in the store of a server that is
    down, in their order."""
    db = sqlite3.connect(os.path.join(data, "reeve.db"))
    rows = db.execute("SELECT conversation, role, created_at, closed_at, spawn_id FROM"
                      " machine_commands WHERE type <> 'stop-agent' ORDER BY command").fetchall()
    db.close()
    return rows


def audit_starts(rows):
    counts = collections.Counter(r[4] for r in rows)
    complaints = [f"{n} starts of spawn {spawn}" for spawn, n in counts.items() if n > 1]
    last = {}
    for conversation, role, created, closed, _ in rows:
        before = last.get((conversation, role), 0)
        if before is None or before > created:
            complaints.append(f"two open starts of {conversation}:{role}")
        last[conversation, role] = closed
    return complaints
