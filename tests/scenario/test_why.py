"""`why`: every cause there is, with its sentence, its remedy and the next move, which then happens.

Each cause of docs/why.md has a test here that brings it about on a real server; the last test looks
for those that have none. What is promised is waited for: nothing happens the millisecond before, and
at that millisecond the rule that was named has moved what it was said to move.
"""
import os
import re

from crew import (beat, claim, complete, give, join, keep_beating, leave, put_to_work, report, resume,
                  start, suspend, talk)
from reeve_test import check, eq, main, reeve
from scripted_machine import (BURST, CRASH, DEADLINE_MS, FENCE_MS, TTL_MS, Machine, kind, work)
from watch_model import advance, iso, manual, ms, now

HERE = os.path.dirname(os.path.abspath(__file__))
MINUTE = 60_000
START = "reeve agent start {c}:a"


UNLIMITED = {"runtime_controls": {"session_wall_clock_seconds": 0}, "watchdog": {"disabled": True}}


def wanted(s, **more):
    """A person wants its one agent up."""
    agents = [{"role": "a", "kind": "worker", "desired": "running"} | more]
    return s.call("conversation.create", agents=agents, **UNLIMITED)["conversation"]


def up(s, **of_kind):
    m = Machine(s, kinds=[kind(**of_kind)])
    c = wanted(s)
    return m, c, m.boot()


def person(s, verb, c, role="a"):
    return s.call(f"agent.{verb}", conversation=c, role=role)


def why(s, c=None, role="a", task=None, machine=None):
    if task:
        return s.call("task.why", task=task["task"])
    if machine:
        return s.call("machine.why", machine=machine)
    return s.call("agent.why", conversation=c, role=role) if role \
        else s.call("conversation.why", conversation=c)


def done_by(s, c, rule):
    """When the rule has moved something of this conversation; the offline of machines is elsewhere."""
    if rule == "machine.offline":
        return [ms(e["ts"]) for e in s.events(0) if e["payload"].get("kind") == "machine.offline"]
    return [ms(h["at"]) for h in s.call("conversation.why", conversation=c)["history"]
            if h["rule"] == rule]


def keeps(s, c, rule, due_ms):
    """The promise: not before, and then."""
    advance(s, due_ms - 1 - now(s))
    before = done_by(s, c, rule)
    advance(s, 1)
    eq(done_by(s, c, rule), before + [due_ms], f"what {rule} has done")


def tells(s, cause, says, remedy=None, next=None, keep=True, **who):
    """The answer has this cause, sentence (a pattern) and remedy; next is (rule, in ms) or None, and
    comes true."""
    got = why(s, **who)
    eq(got["cause"], cause, f"the cause: {got['says']}")
    check(re.fullmatch(says, got["says"]), f"{cause} says: {got['says']}\nwanted: {says}")
    eq(got["remedy"], remedy and remedy.format(c=who.get("c")), "the remedy")
    if remedy:
        check(f"`{got['remedy']}`" in got["says"], f"the remedy is part of it: {got['says']}")
    promised = got["next"] and (got["next"]["rule"], ms(got["next"]["dueAt"]) - now(s))
    eq(promised, next, f"the next move: {got['says']}")
    if next:
        check(f"({next[0]})" in got["says"], f"the next move is part of it: {got['says']}")
    if next and keep and not got["next"]["assumes"]:
        keeps(s, who.get("c", 0), next[0], ms(got["next"]["dueAt"]))
    return got


def go_offline(s):
    """Every machine falls silent, long enough."""
    advance(s, TTL_MS + 1)


def crash(s, m, c, times=1):
    for _ in range(times):
        m.exited(m.boot(), {"code": 2, "tail": "line one\nno such module: x\n"})
        advance(s, 0)


# ---- tasks ----

@manual()
def test_task_over(s):
    c = talk(s)
    t = put_to_work(s, c)
    complete(s, t)
    tells(s, "task_over", rf"task 1 ended at {iso(now(s))}, 0ms ago: completed \(completed\)", task=t)


@manual()
def test_task_queued(s):
    c = talk(s)
    give(s, c)
    give(s, c)
    t = give(s, c)
    got = tells(s, "task_queued", rf"task 3 is number 2 in the queue of {c}:a, behind task 1, which is "
                r"pending; task 1 fails in 15m 00s \(dispatch.reap\)",
                next=("dispatch.reap", 900_001), keep=False, task=t)
    eq((got["task"], got["status"], got["agent"]), (3, "queued", f"{c}:a"), "of what")
    keeps(s, c, "dispatch.reap", ms(got["next"]["dueAt"]))


@manual()
def test_a_task_that_is_active_has_the_cause_of_its_agent(s):
    c = talk(s)
    t = give(s, c)
    eq(why(s, task=t)["says"], why(s, c)["says"], "the sentence")
    s.refused("NOT_FOUND", "task.why", task=99)
    s.refused("NOT_FOUND", "machine.why", machine="nobody")
    s.as_token(scope="agent", conversation=talk(s), role="a").refused("NOT_FOUND", "task.why", task=1)


# ---- a process that must go ----

@manual()
def test_stopping(s):
    m, c, spawn = up(s)
    person(s, "stop", c)
    tells(s, "stopping", r"is being stopped: process 1000 on m1 has not ended yet; the stop is sent "
          r"again in 2m 00s \(command.expired\)", next=("command.expired", DEADLINE_MS + 1), keep=False,
          c=c)
    m.obey()
    eq(why(s, c)["cause"], "stopped_by_person", "once it has ended")


@manual()
def test_stopping_machine_away(s):
    m, c, spawn = up(s)
    person(s, "stop", c)
    at = iso(now(s) + TTL_MS + 1)
    go_offline(s)
    tells(s, "stopping_machine_away", rf"cannot be stopped yet: machine m1 is offline since {at}, and "
          r"process 1000 on m1 is stopped when the machine returns; nobody waits for it any more in 5m 00s "
          rf"\(machine.offline\); `reeve agent stop {c}:a --force` does not wait for it",
          "reeve agent stop {c}:a --force", ("machine.offline", FENCE_MS + 1), keep=False, c=c)
    advance(s, FENCE_MS + 1)
    eq(why(s, c)["cause"], "stopped_by_person", "after the fence")


@manual()
def test_unstoppable(s):
    m, c, spawn = up(s)
    person(s, "stop", c)
    while why(s, c)["next"]:
        advance(s, min(30_000, ms(why(s, c)["next"]["dueAt"]) - now(s)))
        m.poll()
    tells(s, "unstoppable", r"cannot be stopped: machine m1 has not confirmed that process 1000 on m1 ended, "
          r"after 5 orders to stop it; `kill -9 1000` ends it if typed on m1", "kill -9 1000", c=c)


@manual()
def test_leaving(s):
    c = talk(s)
    join(s, c)
    person(s, "stop", c)
    tells(s, "leaving", rf"stopped by a person: c1 was asked to leave and still listens; `reeve agent "
          rf"start {c}:a` lets it work again", START, c=c)
    advance(s, 50_000)
    tells(s, "leaving", r"stopped by a person: .*; the listener is disconnected in 10s "
          r"\(participant.expire\) unless it beats; .*", START, ("participant.expire", 10_001), c=c)


# ---- what may not run ----

@manual()
def test_conversation_over(s):
    c = talk(s)
    at = iso(now(s))
    s.call("conversation.end", conversation=c, outcome="failed")
    says = rf" ended at {at}, 0ms ago: failed by operator \(failed\)"
    tells(s, "conversation_over", f"conversation {c}" + says, c=c)
    tells(s, "conversation_over", "it" + says, c=c, role=None)


@manual()
def test_conversation_blocked(s):
    c = talk(s, runtime_controls={"session_wall_clock_seconds": 600})
    t = give(s, c)
    at = iso(now(s) + 600_001)
    tells(s, "unmanaged", r".*; conversation 1 is blocked in 10m 00s \(session.wall_clock\).*",
          f"reeve wait-for-task --conversation {c} --role a", ("session.wall_clock", 600_001), c=c)
    says = rf"(conversation {c}|it) is blocked since {at}, 0ms ago, by session.wall_clock " \
        rf"\(watchdog_wall_clock_exceeded\); nothing in it runs until somebody resumes or ends it; " \
        rf"`reeve conversation resume {c}` lets it go on"
    for who in ({"c": c}, {"c": c, "role": None}, {"task": t, "c": c}):
        tells(s, "conversation_blocked", says, f"reeve conversation resume {c}", **who)
    done = reeve(*why(s, c)["remedy"].split()[1:], data=s.data)
    eq((done.returncode, why(s, c)["cause"]), (0, "unmanaged"), "what the remedy does")


@manual()
def test_stopped_by_person(s):
    Machine(s)
    c = talk(s, kind="worker")
    person(s, "stop", c)
    tells(s, "stopped_by_person", rf"stopped by a person, and started again by nobody else; `reeve agent "
          rf"start {c}:a` starts it again", START, c=c)
    give(s, c)
    tells(s, "stopped_by_person", rf"stopped by a person, .*; task 1 fails in 15m 00s "
          rf"\(dispatch.reap\); .*", START, ("dispatch.reap", 900_001), c=c)


# ---- somebody has the task ----

@manual()
def test_working(s):
    c = talk(s)
    t = put_to_work(s, c)
    advance(s, 10_000)
    got = tells(s, "working", r"working on task 1; its last progress was 10s ago; task 1 is ended in "
                r"29m 50s \(running.reap\) unless it reports progress",
                next=("running.reap", 1_790_001), c=c)
    eq(got["next"]["assumes"], "beats", "what it takes for granted")
    eq(got["pid"], None, "no process of ours")
    tells(s, "working", ".*", next=("running.reap", 1_790_001), task=t)


@manual()
def test_worker_silent(s):
    c = talk(s)
    put_to_work(s, c)
    advance(s, 46_000)
    tells(s, "worker_silent", r"c1, who has task 1, gave its last sign of life 46s ago; the listener is "
          r"disconnected in 14s \(participant.expire\) unless it beats",
          next=("participant.expire", 14_001), keep=False, c=c)
    beat(s, c)
    tells(s, "worker_silent", r"c1, who has task 1, gave its last sign of life 46s ago; task 1 is taken "
          r"back in 14s \(task.orphaned\) unless its worker beats",
          next=("task.orphaned", 14_001), keep=False, c=c)
    keeps(s, c, "task.orphaned", now(s) + 14_001)


@manual()
def test_claimed(s):
    c = talk(s)
    join(s, c)
    give(s, c)
    t = claim(s, c)
    got = tells(s, "claimed", r"c1 has claimed task 1 and has not begun; task 1 fails in 15m 00s "
                r"\(dispatch.reap\)", next=("dispatch.reap", 900_001), c=c)
    eq(got["next"]["assumes"], "beats", "what it takes for granted")
    keep_beating(s, c, t, now(s) + 900_000)
    advance(s, 1)
    eq(why(s, task=t)["cause"], "task_over", "kept, for it went on beating")


@manual()
def test_no_progress_though_it_beats(s):
    c = talk(s)
    t = put_to_work(s, c)
    keep_beating(s, c, t, now(s) + 12 * MINUTE)
    tells(s, "no_progress", r"working on task 1 without progress for 12m 00s; task 1 is ended in 18m 00s "
          r"\(running.reap\) unless it reports progress", next=("running.reap", 18 * MINUTE + 1), c=c)
    keep_beating(s, c, t, now(s) + 18 * MINUTE)
    advance(s, 1)
    eq(done_by(s, c, "running.reap")[-1:], [now(s)], "it is kept")


@manual()
def test_tool_wait(s):
    c = talk(s)
    t = put_to_work(s, c)
    suspend(s, t, {"toolCallId": "c1", "name": "search"}, {"toolCallId": "c2", "name": "read"})
    leave(s, c)
    got = why(s, c)
    due = ms(got["next"]["dueAt"]) - now(s)
    tells(s, "tool_wait", rf"task 1 waits for tool call c1 \(search\) and 1 more; a tool call times out "
          r"in \w+( \w+)? \(tool.timeout\) unless its result is reported; `reeve task report 1 c1 TEXT` "
          "reports its result", "reeve task report 1 c1 TEXT", ("tool.timeout", due), keep=False, c=c)
    advance(s, due)
    check(why(s, c)["cause"] != "tool_wait", "it timed out")


@manual()
def test_results_taken(s):
    c = talk(s)
    t = put_to_work(s, c)
    suspend(s, t, {"toolCallId": "c1", "name": "search"})
    report(s, t, "c1", result=1)
    resume(s, t)
    due = ms(why(s, c)["next"]["dueAt"]) - now(s)
    tells(s, "results_taken", r"the results that task 1 waited for were taken and are not applied yet; "
          r"another may take the results in \w+( \w+)? \(ledger.requeue\) unless they are applied",
          next=("ledger.requeue", due), keep=False, c=c)


@manual()
def test_results_ready(s):
    c = talk(s)
    t = put_to_work(s, c)
    suspend(s, t, {"toolCallId": "c1", "name": "search"})
    report(s, t, "c1", result=1)
    due = ms(why(s, c)["next"]["dueAt"]) - now(s)
    tells(s, "results_ready", r"the results that task 1 waited for are there, and c1 has not taken them; "
          r"task 1 is ended in .* \(suspended.reap\)", next=("suspended.reap", due), c=c)
    leave(s, c)
    eq(why(s, c)["cause"], "unmanaged", "nobody is there to take them")


# ---- nobody has it ----

@manual()
def test_held_for_machine(s):
    m, c, spawn = up(s)
    t, agent = work(s, m, c, spawn)
    go_offline(s)
    at = iso(now(s))
    got = tells(s, "held_for_machine", rf"task 1 is held: machine m1 is offline since {at}, and process "
                rf"1000 on m1 may still work on it; another may take task 1 in 5m 00s \(machine.offline\)",
                next=("machine.offline", FENCE_MS + 1), keep=False, c=c)
    advance(s, FENCE_MS)
    check("held" in s.call("task.get", task=1)["task"], "held until then")
    advance(s, 1)
    check("held" not in s.call("task.get", task=1)["task"], "and not any more")


@manual()
def test_held_for_process(s):
    m, c, spawn = up(s)
    work(s, m, c, spawn)
    for _ in range(7):
        advance(s, 10_000)
        m.client.call("machine.poll", **m.identity(), timeoutMs=0, alive=[])
    eq(s.call("task.get", task=1)["task"]["held"], "process", "it is held")
    tells(s, "held_for_process", r"task 1 is held until the process that had it is proven dead; the "
          r"start is given up and tried again in .* \(command.expired\)",
          next=("command.expired", ms(why(s, c)["next"]["dueAt"]) - now(s)), keep=False, c=c)


@manual()
def test_machine_away(s):
    m, c, spawn = up(s)
    go_offline(s)
    at = iso(now(s))
    remedy = f"reeve agent set {c}:a --any-machine --force"
    says = rf"machine m1 is offline since {at}; what process 1000 on m1 does is not known until the machine " \
        "returns"
    tells(s, "machine_away", rf"{says}; `{remedy}` does not wait for it", remedy, c=c)
    other = Machine(s, "m2")
    tells(s, "machine_away", rf"{says}; {c}:a is started on another machine in 5m 00s \(machine.offline\); .*",
          remedy, ("machine.offline", FENCE_MS + 1), keep=False, c=c)
    for _ in range(FENCE_MS // 30_000):
        advance(s, 30_000)
        eq(other.poll(), [], "nothing before the fence")
    advance(s, 1)
    eq(len(other.poll()), 1, "it is started there")


@manual()
def test_a_pinned_agent_waits_for_its_machine(s):
    Machine(s, "m2")
    m = Machine(s)
    c = wanted(s, machine="m1")
    m.boot()
    go_offline(s)
    at = iso(now(s))
    Machine(s, "m2")
    advance(s, FENCE_MS + 1)
    remedy = f"reeve agent set {c}:a --machine MACHINE"
    tells(s, "machine_offline", rf"cannot start: machine m1 is offline since {at}; {c}:a starts when it "
          rf"returns; `{remedy}` moves it", remedy, c=c)
    Machine(s, "m2")
    eq(reeve(*remedy.replace("MACHINE", "m2").split()[1:], data=s.data).returncode, 0, "the remedy")
    eq(why(s, c)["cause"], "starting", "what it did")


@manual()
def test_listener_silent(s):
    c = talk(s)
    join(s, c)
    advance(s, 50_000)
    tells(s, "listener_silent", rf"c1, who listens for {c}:a, gave its last sign of life 50s ago; the "
          r"listener is disconnected in 10s \(participant.expire\) unless it beats",
          next=("participant.expire", 10_001), c=c)


@manual()
def test_offered(s):
    c = talk(s)
    join(s, c)
    t = give(s, c)
    tells(s, "offered", r"task 1 is offered to c1, who has not claimed it; task 1 fails in 15m 00s "
          r"\(dispatch.reap\)", next=("dispatch.reap", 900_001), task=t)


@manual()
def test_waiting(s):
    c = talk(s)
    join(s, c)
    tells(s, "waiting", "c1 listens, and there is no work for it", c=c)


@manual()
def test_unmanaged(s):
    c = talk(s)
    give(s, c)
    remedy = f"reeve wait-for-task --conversation {c} --role a"
    tells(s, "unmanaged", rf"nobody listens for {c}:a and reeve cannot start it \(no kind\); task 1 fails "
          rf"in 15m 00s \(dispatch.reap\); `{remedy}` takes its work", remedy,
          ("dispatch.reap", 900_001), c=c)


@manual()
def test_what_fired_and_could_change_nothing_is_not_promised(s):
    """task.unattended finds nobody to start, writes its event and counts anew."""
    c = talk(s)
    give(s, c)
    for _ in range(2):
        eq(why(s, c)["next"]["rule"], "dispatch.reap", "the next move")
        advance(s, 300_001)
    eq(len(done_by(s, c, "task.unattended")), 1, "it has fired")


@manual()
def test_breaker_open(s):
    m = Machine(s)
    c = talk(s, kind="worker")
    give(s, c)
    for i in range(BURST):
        crash(s, m, c)
        if i < BURST - 1:
            at = s.call("agent.list", conversation=c)["agents"][0]["breaker"].get("restartAt")
            advance(s, max(ms(at) - now(s), 0) if at else 0)
    got = why(s, c)
    left = ms(got["next"]["dueAt"]) - now(s)
    tells(s, "breaker_open", rf'stopped after 5 crashes in 10m \(last: exit 2, "no such module: x"\); '
          rf"task 1 fails in 14m \w+ \(dispatch.reap\); `reeve agent start {c}:a` starts it again", START,
          ("dispatch.reap", left), c=c)
    eq(reeve(*got["remedy"].split()[1:], data=s.data).returncode, 0, "what the remedy does")


@manual()
def test_breaker_closed_by_its_remedy(s):
    m = Machine(s)
    c = wanted(s)
    for i in range(BURST):
        crash(s, m, c)
        advance(s, 20_000)
    got = why(s, c)
    eq(got["cause"], "breaker_open", got["says"])
    eq(reeve(*got["remedy"].split()[1:], data=s.data).returncode, 0, "the command")
    eq(why(s, c)["cause"], "starting", "what it did")


@manual()
def test_crashed(s):
    m = Machine(s)
    c = talk(s, kind="worker")
    give(s, c)
    crash(s, m, c, 2)
    tells(s, "crashed", rf'crashed \(exit 2, "no such module: x"\), the 2nd time; {c}:a is started again '
          r"in 1s \(agent.exited\)", next=("agent.exited", 1000), c=c)


@manual()
def test_crashed_because_its_start_failed(s):
    m = Machine(s)
    c = talk(s, kind="worker")
    give(s, c)
    m.fail(m.start_given(), "no such program: /bin/nope")
    m.fail(m.start_given(), "no such program: /bin/nope")
    tells(s, "crashed", r"crashed \(no such program: /bin/nope\), the 2nd time; .*",
          next=("agent.exited", 1000), c=c)


@manual()
def test_no_machine(s):
    c = talk(s, kind="worker")
    give(s, c)
    tells(s, "no_machine", r"cannot start: no machine has registered; task 1 fails in 15m 00s "
          r"\(dispatch.reap\); `reeve machine` runs agents on this host", "reeve machine",
          ("dispatch.reap", 900_001), c=c)


@manual()
def test_kind_not_offered(s):
    Machine(s, "build-1", kinds=[kind("bashy"), kind("nodey")])
    c = talk(s, kind="unknwon")
    give(s, c)
    remedy = f"reeve agent set {c}:a --kind KIND"
    tells(s, "kind_not_offered", r"cannot start: no machine offers kind 'unknwon' \(build-1 offers bashy, "
          rf"nodey\); task 1 fails in 15m 00s \(dispatch.reap\); `{remedy}` gives it another kind", remedy,
          ("dispatch.reap", 900_001), keep=False, c=c)
    eq(reeve(*remedy.replace("KIND", "nodey").split()[1:], data=s.data).returncode, 0, "the remedy")
    eq(why(s, c)["cause"], "starting", "what it did")


@manual()
def test_machine_unknown(s):
    Machine(s)
    c = wanted(s, machine="othermachine")
    remedy = f"reeve agent set {c}:a --machine MACHINE"
    tells(s, "machine_unknown", rf"cannot start: machine othermachine is not known; {c}:a starts when it "
          rf"registers; `{remedy}` moves it", remedy, c=c)
    give(s, c)
    tells(s, "machine_unknown", r".*; task 1 fails in 15m 00s \(dispatch.reap\); .*", remedy,
          ("dispatch.reap", 900_001), c=c)


@manual()
def test_machine_offline(s):
    Machine(s, "othermachine")
    go_offline(s)
    c = wanted(s, machine="othermachine")
    remedy = f"reeve agent set {c}:a --machine MACHINE"
    tells(s, "machine_offline", rf"cannot start: machine othermachine is offline since {iso(now(s))}; "
          rf"{c}:a starts when it returns; `{remedy}` moves it", remedy, c=c)
    Machine(s, "m2")
    eq(reeve(*remedy.replace("MACHINE", "m2").split()[1:], data=s.data).returncode, 0, "the remedy")
    eq(why(s, c)["cause"], "starting", "what it did")


@manual()
def test_kind_offline(s):
    Machine(s, "build-1")
    Machine(s, "build-2")
    Machine(s, "other", kinds=[kind("x")])
    go_offline(s)
    Machine(s, "other", kinds=[kind("x")])
    c = wanted(s)
    tells(s, "kind_offline", rf"cannot start: every machine that offers kind 'worker' is offline "
          rf"\(build-1, build-2\); {c}:a starts when one returns", c=c)


@manual()
def test_starting(s):
    m = Machine(s)
    c = wanted(s)
    tells(s, "starting", r"machine m1 was told to start it and has not confirmed it yet; the start is "
          r"given up and tried again in 2m 00s \(command.expired\)",
          next=("command.expired", DEADLINE_MS + 1), keep=False, c=c)
    for _ in range(6):
        advance(s, 20_000)
        m.client.call("machine.poll", **m.identity(), timeoutMs=0, alive=[])
    advance(s, 1)
    eq(done_by(s, c, "command.expired"), [now(s)], "it is kept")


@manual()
def test_not_ready(s):
    m, c, spawn = up(s, ready="notify")
    tells(s, "not_ready", r"process 1000 on m1 has begun and has not said that it is ready; the start is "
          r"given up and tried again in 2m 00s \(command.expired\)",
          next=("command.expired", DEADLINE_MS + 1), keep=False, c=c)


@manual()
def test_not_listening_and_replacing(s):
    m, c, spawn = up(s)
    give(s, c)
    due = now(s) + 300_001
    tells(s, "not_listening", r"process 1000 on m1 runs and does not listen for task 1; process 1000 on "
          r"m1 is replaced in 5m 00s \(task.unattended\) unless it listens",
          next=("task.unattended", 300_001), keep=False, c=c)
    while now(s) < due:
        advance(s, min(30_000, due - now(s)))
        if now(s) < due:
            m.poll()
    eq(done_by(s, c, "task.unattended"), [due], "it is kept")
    tells(s, "replacing", r"machine m1 was told to replace process 1000 on m1 and has not confirmed it "
          r"yet; the start is given up and tried again in 2m 00s \(command.expired\)",
          next=("command.expired", DEADLINE_MS + 1), keep=False, c=c)
    m.boot()
    eq(why(s, c)["cause"], "not_listening", "the new one")


@manual()
def test_running(s):
    m, c, spawn = up(s)
    got = tells(s, "running", "process 1000 on m1 runs, and there is no work for it", c=c)
    eq(got["pid"], 1000, "the number of its process")
    check(spawn not in str(got), "the spawn id is for machines")


@manual()
def test_ended(s):
    m, c, spawn = up(s, restart="never")
    m.exited(spawn, {"code": 0, "tail": "bye"})
    tells(s, "ended", rf'ended by itself \(exit 0, "bye"\), and its kind does not start it again; `reeve '
          rf"agent start {c}:a` starts it again", START, c=c)


@manual()
def test_unattended(s):
    m = Machine(s)
    c = talk(s, kind="worker")
    join(s, c)
    give(s, c)
    leave(s, c)
    tells(s, "unattended", rf"nobody listens for {c}:a; {c}:a is started in 5m 00s \(task.unattended\) "
          "unless somebody listens", next=("task.unattended", 300_001), keep=False, c=c)
    for _ in range(10):
        advance(s, 30_000)
        eq(m.poll(), [], "nothing before it is due")
    advance(s, 1)
    eq(len(m.poll()), 1, "it is started then")


@manual()
def test_crashed_and_idle(s):
    m = Machine(s, kinds=[kind(restart="never")])
    c = talk(s, kind="worker")
    t = give(s, c)
    spawn = m.boot()
    s.call("task.cancel", task=t["task"], reason="test")
    m.exited(spawn, {"code": 2, "tail": "no such module: x"})
    advance(s, 1000)
    tells(s, "crashed_and_idle", r'crashed \(exit 2, "no such module: x"\); there is no work for it, and '
          "it is started when there is", c=c)


@manual()
def test_absent_and_idle(s):
    c = talk(s)
    tells(s, "absent", rf"nobody listens for {c}:a, and there is no work for it", c=c)
    Machine(s)
    c = talk(s, kind="worker")
    tells(s, "idle", rf"there is no work for {c}:a; it is started when there is", c=c)


# ---- conversations and machines ----

@manual()
def test_quiet_turn_open_turn_free_busy(s):
    c = s.talk("a", "b", watchdog={"globalIdleMs": 600_000, "idleMs": 900_000})
    advance(s, 1000)
    tells(s, "quiet", rf"no turn is open, and nobody has written for 1s; it is canceled in "
          r"9m 59s \(conversation.global_idle\) unless somebody writes",
          next=("conversation.global_idle", 599_001), keep=False, c=c, role=None)
    s.say(c, "a", "hello")
    tells(s, "turn_open", rf"a has turn 1, and nobody has written for 0ms; it is canceled "
          r"in 15m 00s \(conversation.idle\) unless somebody writes",
          next=("conversation.idle", 900_001), keep=False, c=c, role=None)
    s.call("turn.clear", conversation=c, agentId="a")
    tells(s, "turn_free", r"turn 1 is open and free to take, and nobody has written for 0ms; .*",
          next=("conversation.idle", 900_001), keep=False, c=c, role=None)
    give(s, c)
    tells(s, "busy", rf"1 task is open, and nobody has written for 0ms; it is blocked in "
          r".* \(session.wall_clock\)", next=("session.wall_clock", 14_400_001 - 1000), keep=False, c=c,
          role=None)


@manual()
def test_machine_online_silent_held_gone(s):
    Machine(s)
    advance(s, 30_000)
    tells(s, "machine_online", "it polls, the last time 30s ago", machine="m1")
    advance(s, 31_000)
    tells(s, "machine_silent", r"it polled 1m 01s ago, and a poll is missing; machine m1 counts as "
          r"offline in 29s \(machine.offline\) unless it polls", next=("machine.offline", 29_001),
          machine="m1")
    at = iso(now(s))
    tells(s, "machine_held", rf"offline since {at}; what its processes do is not known, and their work is "
          r"held; it is lost, and its work goes to others in 5m 00s \(machine.offline\)",
          next=("machine.offline", FENCE_MS + 1), keep=False, machine="m1")
    advance(s, FENCE_MS + 1)
    tells(s, "machine_gone", rf"offline since {at}; .*, and no work is held for it any more; `reeve machine "
          r"forget m1` lets go of it", "reeve machine forget m1", machine="m1")
    eq(reeve("machine", "forget", "m1", data=s.data).returncode, 0, "the remedy")


# ---- a warning when a conversation is made ----

@manual()
def test_a_kind_that_no_machine_offers_is_warned_of(s):
    spec = ("conversation", "create", "--agent", "a:unknwon", "--agent", "b:bashy", "--agent", "d")
    eq(reeve(*spec, data=s.data).stderr, "", "no machine is known: one may come")
    Machine(s, "build-1", kinds=[kind("bashy"), kind("nodey")])
    done = reeve(*spec, data=s.data)
    eq((done.returncode, done.stdout), (0, "2\n"), "it is made all the same")
    eq(done.stderr, "reeve conversation create: warning: a cannot start: no machine offers kind 'unknwon' "
       "(build-1 offers bashy, nodey)\n", "the warning")
    Machine(s, "build-2", kinds=[kind("unknwon")])
    eq(reeve(*spec, data=s.data).stderr, "", "offered")
    agents = [{"role": "a", "kind": "bashy", "machine": "build-2"}]
    eq(s.call("conversation.create", agents=agents)["warnings"],
       ["a cannot start: no machine offers kind 'bashy' (build-2 offers unknwon)"], "of its machine")
    agents[0]["machine"] = "build-1"
    check("warnings" not in s.call("conversation.create", agents=agents), "none")


# ---- on a terminal ----

def shown(s, *words, columns=80):
    done = reeve("why", *words, data=s.data, env={"COLUMNS": str(columns)} if columns else None)
    eq((done.returncode, done.stderr), (0, ""), f"reeve why {words}")
    return done.stdout


@manual()
def test_twenty_lines_on_a_terminal_of_80_columns(s):
    m = Machine(s)
    c = talk(s, kind="worker")
    give(s, c)
    for i in range(BURST):
        crash(s, m, c)
        advance(s, 20_000)
    for words in ((f"{c}:a",), ("task", 1), (c,), ("machine", "m1")):
        text = shown(s, *words)
        lines = text.splitlines()
        check(len(lines) <= 20, f"{len(lines)} lines:\n{text}")
        check(all(len(x) <= 80 for x in lines), f"80 columns:\n{text}")
        check(all(len(x) <= 50 for x in shown(s, *words, columns=50).splitlines()), "50 columns")
    text = shown(s, f"{c}:a")
    check(text.startswith(f"Agent {c}:a (breaker_open): stopped after 5 crashes in 10m (last: exit 2,"),
          text)
    check(f"\nTo type: reeve agent start {c}:a\n" in text, text)
    check(text.endswith(f"\nAll of it: reeve why {c}:a --all\n") and "inbox.pending" not in text, text)
    whole = shown(s, f"{c}:a", "--all")
    check(len(whole.splitlines()) > 20 and "inbox.pending" in whole, f"all of it: {whole}")
    eq(shown(s, f"{c}:a", columns=None), reeve("why", f"{c}:a", "--all", data=s.data).stdout,
       "into a pipe goes all of it")
    check(shown(s, "task", 1).startswith(f"Task 1 (pending) of {c}:a: stopped after"), "of a task")
    check(shown(s, "machine", "m1").startswith("Machine m1 (online): it polls"), "of a machine")


@manual()
def test_the_process_number_is_shown_and_not_the_spawn(s):
    m, c, spawn = up(s)
    text = shown(s, f"{c}:a")
    check("process 1000 on m1" in text and spawn not in text, text)


def test_wrong_words():
    for words in (("task",), ("task", "x"), ("task", "-1"), ("tusk", "1"), ("task", "1", "2"), ()):
        eq(reeve("why", *words).returncode, 2, f"reeve why {words}")


# ---- all of them ----

def test_every_cause_has_a_test():
    with open(os.path.join(HERE, "../../docs/why.md")) as f:
        causes = re.findall(r"^\| `(\w+)` \|", f.read(), re.M)
    with open(__file__) as f:
        text = f.read()
    check(len(causes) > 30, f"causes {causes}")
    eq([x for x in causes if f'tells(s, "{x}"' not in text], [], "causes that no test brings about")


if __name__ == "__main__":
    main()
