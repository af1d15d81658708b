"""The auditor of a fleet: what reeve says against what the two witnesses saw (real_fleet.py).

Pure functions over plain data, as in audit.py. What they hold reeve to:

    P7   one terminal event for each task that was acknowledged, with a reason; all succeeded
    P8   what a dead attempt hands in has no effect
    P21  two attempts of a task never run at the same time, nor two processes of an agent
    P22  every process that was seen is known, and told to have ended if and only if it has; once
    P4   one start for each process, one process for each start, never two starts open
         one restart is counted for each unexpected end; nobody ends unless he is hit himself
    attempts: each begins with an epoch of its own, the last one's is the one that ended the task,
         and every one that was lost is in the log
"""
import collections

from audit import audit_conversation, audit_starts


def system_events(log, *kinds):
    """`data` of every system event of these kinds, in every log."""
    return [e["payload"]["data"] | {"kind": e["payload"]["kind"]}
            for events in log.values() for e in events
            if e["type"] == "system" and e["payload"]["kind"] in kinds]


def audit_ends(found):
    """Each task ends once, and well."""
    ends = collections.defaultdict(list)
    for data in system_events(found["log"], "agent.task"):
        ends[data["task"]].append(data)
    complaints = [f"{len(x)} terminal events of task {t}: {x}" for t, x in ends.items()
                  if len(x) > 1]
    for number, task in found["tasks"].items():
        if task["status"] != "completed" or number not in ends:
            complaints.append(f"task {number} has not been completed: {task}")
            continue
        (end,) = ends[number][:1]
        if end["status"] != "success" or not end["reason"]:
            complaints.append(f"task {number} ended otherwise: {end}")
    return complaints, {t: x[0]["epoch"] for t, x in ends.items()}


def audit_attempts(task, lines, lost, last_epoch):
    """What the attempts at one task wrote, in the order in which they wrote it."""
    complaints = [f"task {task['task']}: {word} by {spawn}, epoch {epoch}, process {pid}"
                  for word, epoch, spawn, pid in lines if word in ("overlap", "ghost")]
    epochs = [epoch for word, epoch, _, _ in lines if word == "begin"]
    if sorted(set(epochs)) != epochs:
        complaints.append(f"task {task['task']}: attempts with epochs {epochs}")
    if not epochs or epochs[-1] != last_epoch:
        complaints.append(f"task {task['task']}: ended with epoch {last_epoch}, begun with {epochs}")
    elif ("end", *lines_of(lines, last_epoch)) not in lines:
        complaints.append(f"task {task['task']}: completed, but its work was not done: {lines}")
    if task["attempts"] != lost:
        complaints.append(f"task {task['task']}: {task['attempts']} attempts, {lost} lost in the log")
    if len(epochs) > task["attempts"] + 1:
        complaints.append(f"task {task['task']}: begun {len(epochs)} times,"
                          f" {task['attempts']} attempts")
    return complaints


def lines_of(lines, epoch):
    return next(rest for word, *rest in lines if word == "begin" and rest[0] == epoch)


def audit_work(found):
    complaints, epochs = audit_ends(found)
    lost = collections.Counter(data["task"] for data in system_events(
        found["log"], "watch.task.acknowledged", "watch.task.orphaned"))
    for number, task in found["tasks"].items():
        complaints += audit_attempts(task, found["journal"].get(number, []), lost[number],
                                     epochs.get(number))
    return complaints + [f"nobody gave task {t}" for t in found["journal"].keys() -
                         found["tasks"].keys()]


def audit_processes(found):
    """Starts, processes and their ends, one of each."""
    exits = system_events(found["log"], "agent.exited")
    times = collections.Counter(x["spawnId"] for x in exits)
    complaints = [f"the end of spawn {s} was told {n} times" for s, n in times.items() if n > 1]
    complaints += [f"{x['agent']} ended although nothing had hit it: {x}" for x in exits
                   if x["spawnId"] not in found["hurt"]]
    alive, starts = set(found["current"].values()), found["starts"]
    complaints += [f"spawn {s} lives, and is told to have ended" for s in alive & times.keys()]
    complaints += [f"spawn {s} has ended, and nobody was told" for s in found["seen"]
                   if s not in alive and s not in times]
    complaints += [f"spawn {s} of {a} was started by nobody" for s, a in found["seen"].items()
                   if s not in starts]
    complaints += [f"start {c['command']} of {c['conversation']}:{c['role']} never had a process,"
                   f" nor an end: {c}" for s, c in starts.items()
                   if s not in alive | times.keys() and c["outcome"] != "machine_offline"]
    for name, agent in found["agents"].items():
        unexpected = sum(x["agent"] == name and not x["expected"] for x in exits)
        if agent["restarts"] != unexpected:
            complaints.append(f"{name}: {agent['restarts']} restarts, {unexpected} unexpected ends")
    return complaints


def audit_fleet(found):
    complaints = audit_work(found) + audit_processes(found) + audit_starts(found["history"])
    for number, events in found["log"].items():
        complaints += audit_conversation(number, events, found["summaries"][number])
    return complaints
