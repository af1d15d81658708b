"""Deadlines of orders to machines: they count watched time, and a stop that is never confirmed is not
repeated for ever.

Time in which nobody watched convicts nobody (P16): a start that its machine could not confirm because the
server was away is not a failure, and a fence does not end early. A scripted machine plays the processes;
the clock is the test's.
"""
from crew import give
from fleet import commands, kind_of, states
from reeve_test import check, eq, main
from scripted_machine import (BURST, DEADLINE_MS, FENCE_MS, STABLE_MS, TTL_MS, WINDOW_MS, Machine, agent_of,
                              kind, restart_at, sight, starts_of)
from watch_model import advance, gap, manual, now

UNLIMITED = {"runtime_controls": {"session_wall_clock_seconds": 0}, "watchdog": {"disabled": True}}
TEN_MINUTES_MS = 600_000


def wanted(s, *roles, desired="running", **more):
    agents = [{"role": r, "kind": "worker", "desired": desired} | more for r in roles or ("a",)]
    return s.call("conversation.create", agents=agents, **UNLIMITED)["conversation"]


def booting(s):
    """A start that its machine has taken and not confirmed: (machine, conversation, command)."""
    m = Machine(s, kinds=[kind(ready="notify")])
    c = wanted(s)
    (start,) = m.poll()
    m.spawn(start)
    return m, c, start


def stay_up(s, m, by_ms):
    while by_ms:
        step = min(by_ms, TTL_MS - 1000)
        advance(s, step)
        m.poll()
        by_ms -= step


def kinds_in(s, c, *kinds):
    return [e["payload"]["data"] for e in s.events(c) if kind_of(e) in kinds]


# ---- starts ----

@manual()
def test_P16_a_gap_does_not_convict_an_agent_that_boots(s):
    m, c, start = booting(s)
    stay_up(s, m, DEADLINE_MS - 1000)
    gap(s, TEN_MINUTES_MS)
    m.poll()
    eq((sight(s, c), kinds_in(s, c, "watch.command.expired")), ("running", []), "nobody watched")
    advance(s, 999)
    eq(kinds_in(s, c, "watch.command.expired"), [], "its time is not over")
    m.ready(start["spawnId"])
    stay_up(s, m, DEADLINE_MS)
    eq((sight(s, c), agent_of(s, c)["restarts"]), ("running", 0), "it was healthy")


@manual()
def test_P16_a_restart_of_the_server_does_not_convict_an_agent_that_boots(s):
    m, c, start = booting(s)
    stay_up(s, m, DEADLINE_MS - 1000)
    s.restart()
    m.reconnect()
    m.poll()
    eq(kinds_in(s, c, "watch.command.expired"), [], "nobody watched")
    m.ready(start["spawnId"])
    eq((sight(s, c), agent_of(s, c)["restarts"]), ("running", 0), "it was healthy")


@manual()
def test_a_start_that_is_not_confirmed_in_watched_time_is_a_failure(s):
    m, c, start = booting(s)
    gap(s, TEN_MINUTES_MS)
    m.poll()
    stay_up(s, m, DEADLINE_MS)
    eq(kinds_in(s, c, "watch.command.expired"), [], "not before more than the limit has passed")
    advance(s, 1)
    eq([x["command"] for x in kinds_in(s, c, "watch.command.expired")], [start["command"]], "in time")


@manual()
def test_the_deadline_of_a_command_that_is_closed_does_not_move(s):
    m, c, start = booting(s)
    before = [x["deadline"] for x in commands(s, c)]
    gap(s, 5000)
    m.poll()
    check([x["deadline"] for x in commands(s, c)] != before, "of one that is open it does")
    m.ready(start["spawnId"])
    before = [x["deadline"] for x in commands(s, c)]
    gap(s, 5000)
    eq([x["deadline"] for x in commands(s, c)], before, "deadlines")


# ---- fences ----

@manual()
def test_P16_a_gap_does_not_end_a_fence(s):
    m1 = Machine(s, "m1")
    c = wanted(s)
    m1.boot()
    m2 = Machine(s, "m2")
    advance(s, TTL_MS - 1000)
    m2.poll()
    advance(s, 1001)
    eq(sight(s, c), "unknown", "m1 is offline")
    gap(s, FENCE_MS)
    eq(m2.poll(), [], "nobody watched: m1 may come back")
    stay_up(s, m2, FENCE_MS)
    eq(sight(s, c), "unknown", "not before more than the fence has passed")
    advance(s, 1)
    eq([x["type"] for x in m2.poll()], ["start-agent"], "now it is lost")


# ---- the breaker ----

@manual()
def test_P16_a_gap_does_not_make_failures_old(s):
    m = Machine(s)
    c = wanted(s)
    spawn = m.boot()
    for i in range(BURST):
        m.exited(spawn)
        if i + 1 == BURST:
            break
        gap(s, WINDOW_MS)
        at = restart_at(s, c)
        if at and at > now(s):
            advance(s, at - now(s))
        spawn = m.boot()
    eq(sight(s, c), "breaker_open", f"{BURST} failures in the window that was watched")


@manual()
def test_P16_a_gap_does_not_make_a_process_stable(s):
    m = Machine(s)
    c = wanted(s)
    m.exited(m.boot())
    spawn = m.boot()
    gap(s, STABLE_MS)
    m.exited(spawn)
    check(restart_at(s, c) > now(s), "it was not watched for long enough to begin anew")


# ---- stops that nobody confirms ----

@manual()
def test_a_stop_that_is_never_confirmed_backs_off_and_is_told_once(s):
    m = Machine(s)
    c = wanted(s)
    spawn = m.boot()
    s.call("agent.stop", conversation=c, role="a")
    m.poll()
    for i in range(5):
        stay_up(s, m, DEADLINE_MS * 2 ** i + 1)
    eq([x["sends"] for x in kinds_in(s, c, "watch.command.expired")], [0, 1, 2, 3, 4], "with growing waits")
    (told,) = kinds_in(s, c, "agent.unstoppable")
    eq((told["machine"], told["spawnId"]), ("m1", spawn), "who must be looked at")
    check("look at the process" in told["error"], told)
    before = s.events(c)
    stay_up(s, m, 24 * 3_600_000)
    eq(s.events(c), before, "nothing more is said for a day")
    eq(sight(s, c), "stopping", "nobody has seen it end")
    m.stopped(spawn)
    eq((sight(s, c), commands(s, c, closedAt=None)), ("stopped", []), "until it ends")


@manual()
def test_a_stop_for_an_offline_machine_does_not_expire(s):
    m = Machine(s)
    c = wanted(s, machine="m1")
    spawn = m.boot()
    advance(s, TTL_MS + 1)
    s.call("agent.stop", conversation=c, role="a")
    advance(s, FENCE_MS - 1000)
    eq(kinds_in(s, c, "watch.command.expired"), [], "nobody can confirm it")
    eq([x["spawnId"] for x in m.register()], [spawn], "it is told when it is back")
    stay_up(s, m, DEADLINE_MS)
    eq(kinds_in(s, c, "watch.command.expired"), [], "and has the whole time")
    advance(s, 1)
    eq(len(kinds_in(s, c, "watch.command.expired")), 1, "which then is over")


# ---- what is told of an end ----

def idle(s, **of_kind):
    """An agent that was started for work, and has none: (machine, conversation, spawn id)."""
    m = Machine(s, kinds=[kind(**of_kind)])
    c = wanted(s, desired="auto")
    give(s, c)
    spawn = m.boot()
    agent = m.agent(spawn)
    agent.call("participant.join", conversation=c, role="a", connectionId="p")
    got = agent.call("task.claim", conversation=c, role="a", connectionId="p")["task"]
    for verb in ("start", "complete"):
        agent.call(f"task.{verb}", task=got["task"], epoch=got["epoch"])
    eq(sight(s, c), "waiting", "it listens, and has nothing to do")
    return m, c, spawn


@manual()
def test_an_idle_agent_that_fails_comes_back_as_its_kind_says(s):
    for policy, code, comes_back in (("on-failure", 1, True), ("on-failure", 0, False), ("always", 0, True),
                                     ("always", 1, True), ("never", 1, False)):
        m, c, spawn = idle(s, restart=policy)
        m.exited(spawn, {"code": code})
        advance(s, 1)
        what = f"{policy}, code {code}"
        eq(len(starts_of(m.poll())), int(comes_back), f"{what}: starts")
        eq(agent_of(s, c)["restarts"], int(comes_back and code != 0), f"{what}: failures that are counted")
        told = kinds_in(s, c, "watch.agent.exited")
        eq(told, [], f"{what}: no restart is told that was not waited for")
        s.call("conversation.end", conversation=c)
        m.obey()


@manual()
def test_a_process_that_ends_after_its_task_is_done_has_not_failed(s):
    """One process for each task: as many as there are tasks, and the breaker stays closed."""
    for policy in ("always", "on-failure"):
        m = Machine(s, kinds=[kind(restart=policy)])
        c = wanted(s, desired="auto")
        for _ in range(2 * BURST):
            give(s, c)
        for i in range(2 * BURST):
            spawn = m.boot()
            agent = m.agent(spawn)
            agent.call("participant.join", conversation=c, role="a", connectionId=f"p{i}")
            got = agent.call("task.claim", conversation=c, role="a", connectionId=f"p{i}")["task"]
            for verb in ("start", "complete"):
                agent.call(f"task.{verb}", task=got["task"], epoch=got["epoch"])
            m.exited(spawn, {"code": 0})
        eq(agent_of(s, c)["restarts"], 0, "failures")
        eq(len(starts_of(m.poll())), int(policy == "always"), f"{policy}: is it up when all is done")
        s.call("conversation.end", conversation=c)
        m.obey()


@manual()
def test_P22_the_end_of_a_process_is_told_once_and_after_it_is_decided(s):
    m, c, spawn = idle(s)
    before = len(states(s, c))
    m.exited(spawn)
    eq(states(s, c)[before:], [("a", "crashed", "exited")], "what is said of it")
    m.boot()
    eq(states(s, c)[before + 1:], [("a", "running", "spawned")], "and then")


@manual()
def test_a_restart_that_was_waited_for_is_told_when_it_is_made(s):
    m, c, spawn = idle(s)
    m.exited(spawn)
    m.exited(m.boot())
    eq(kinds_in(s, c, "watch.agent.exited"), [], "it waits")
    advance(s, restart_at(s, c) - now(s))
    eq([(x["restart"], x["did"]) for x in kinds_in(s, c, "watch.agent.exited")], [(2, "started")], "made")
    eq(len(starts_of(m.poll())), 1, "a start")


@manual()
def test_a_restart_that_nobody_wants_any_more_is_not_told(s):
    m, c, spawn = idle(s, restart="never")
    t = give(s, c)
    m.exited(spawn)
    m.exited(m.boot())
    check(restart_at(s, c), "it waits, for it has work")
    s.call("task.cancel", task=t["task"], reason="never mind")
    advance(s, DEADLINE_MS)
    eq((kinds_in(s, c, "watch.agent.exited"), starts_of(m.poll())), ([], []), "nobody wants it")


if __name__ == "__main__":
    main()
