"""A host that is lost for good does not take its agents with it (P3, P9, P21).

Offline is not dead: until the fence nobody acts. After it an agent that nobody pinned is started on
another machine that offers its kind, under a new epoch; what the lost host still runs is not believed,
and is stopped when the host comes back. A pinned agent waits, and a person can move, stop or remove it.
Scripted machines play the hosts; the clock is the test's.
"""
from crew import give, join, status
from fleet import commands, edit_store, kind_of, open_starts
from reeve_test import check, eq, main
from scripted_machine import DEADLINE_MS, FENCE_MS, TTL_MS, Machine, agent_of, kind, sight, starts_of, work
from watch_model import advance, manual

UNLIMITED = {"runtime_controls": {"session_wall_clock_seconds": 0}, "watchdog": {"disabled": True}}
LOST_MS = TTL_MS + FENCE_MS + 2


def wanted(s, *roles, desired="running", **more):
    agents = [{"role": r, "kind": "worker", "desired": desired} | more for r in roles or ("a",)]
    return s.call("conversation.create", agents=agents, **UNLIMITED)["conversation"]


def two(s, **more):
    """m1 runs agent `a`; m2 offers the same kind: (m1, m2, conversation, spawn id)."""
    m1 = Machine(s, "m1")
    c = wanted(s, **more)
    spawn = m1.boot()
    return m1, Machine(s, "m2"), c, spawn


def lose(s, gone, *others, by_ms=LOST_MS):
    """Time passes in which `gone` is silent and the others poll. What they were told."""
    given = []
    while by_ms:
        step = min(by_ms, TTL_MS - 1000)
        advance(s, step)
        for m in others:
            given += m.poll()
        by_ms -= step
    return given


def server_events(s, *kinds):
    return [e["payload"]["data"] for e in s.events(0) if kind_of(e) in kinds]


# ---- an agent that nobody pinned ----

@manual()
def test_P21_before_the_fence_nobody_is_started_elsewhere(s):
    m1, m2, c, spawn = two(s)
    eq(lose(s, m1, m2, by_ms=LOST_MS - 1), [], "what m2 is told")
    eq(sight(s, c), "unknown", "unknown is not dead")


@manual()
def test_P3_after_the_fence_an_agent_is_started_on_another_machine(s):
    m1, m2, c, spawn = two(s)
    (start,) = lose(s, m1, m2)
    eq((start["type"], start["role"]), ("start-agent", "a"), "what m2 is told")
    new = m2.spawn(start)
    got = agent_of(s, c)
    eq((got["view"], got["machine"], got["process"]["spawnId"]), ("running", "m2", new), "it runs there")
    eq([d["machine"] for d in server_events(s, "machine.fenced")], ["m1"], "the fence is told")
    (given_up,) = [e["payload"]["data"] for e in s.events(c) if kind_of(e) == "agent.given_up"]
    eq((given_up["spawnId"], given_up["machine"]), (spawn, "m1"), "so is what was given up")


@manual()
def test_P9_the_work_of_a_lost_host_is_done_by_another_under_a_new_epoch(s):
    m1, m2, c, spawn = two(s)
    t, old = work(s, m1, c, spawn)
    new = m2.spawn(*lose(s, m1, m2))
    eq(status(s, t), "pending", "it was taken back")
    again, agent = work(s, m2, c, new, connection="p2")
    eq(again["task"], t["task"], "the same task")
    check(again["epoch"] > t["epoch"], "a new epoch")
    agent.call("task.complete", task=t["task"], epoch=again["epoch"])
    eq(status(s, t), "completed", "done once")
    old.refused("SUPERSEDED", "task.complete", task=t["task"], epoch=t["epoch"])


@manual()
def test_a_lost_host_that_returns_is_not_believed_and_its_process_is_stopped(s):
    m1, m2, c, spawn = two(s)
    new = m2.spawn(*lose(s, m1, m2))
    given = m1.register()
    eq([(x["type"], x["spawnId"]) for x in given], [("stop-agent", spawn)], "what it is told")
    m1.agent(spawn).refused("SUPERSEDED", "participant.join", conversation=c, role="a", connectionId="x")
    m1.stopped(spawn)
    got = agent_of(s, c)
    eq((got["view"], got["machine"], got["process"]["spawnId"]), ("running", "m2", new), "the new one stays")
    eq(commands(s, c, closedAt=None), [], "nothing is left to do")


@manual()
def test_a_lost_host_that_returns_before_its_replacement_began_is_not_believed(s):
    m1, m2, c, spawn = two(s)
    advance(s, TTL_MS - 1000)
    m2.poll()
    for _ in range(5):          # m2 polls, and takes nothing in the end
        advance(s, TTL_MS - 1000)
        m2.client.call("server.info")
        if agent_of(s, c)["machine"] == "m2":
            break
        m2.poll()
    eq((agent_of(s, c)["machine"], sight(s, c)), ("m2", "starting"), "on its way")
    eq([x["spawnId"] for x in m1.register()], [spawn], "the old one is to stop")
    (start,) = m2.poll()
    m2.spawn(start)
    eq(sight(s, c), "running", "one process")


@manual()
def test_an_idle_agent_of_a_lost_host_moves_when_work_comes(s):
    m1 = Machine(s, "m1")
    c = wanted(s, desired="auto")
    t = give(s, c)
    spawn = m1.boot()
    join(m1.agent(spawn), c, connection="p1")
    got = m1.agent(spawn).call("task.claim", conversation=c, role="a", connectionId="p1")["task"]
    m1.agent(spawn).call("task.start", task=got["task"], epoch=got["epoch"])
    m1.agent(spawn).call("task.complete", task=got["task"], epoch=got["epoch"])
    m2 = Machine(s, "m2")
    eq(lose(s, m1, m2), [], "nobody needs it")
    eq(sight(s, c), "unknown", "nobody has seen it end (P22)")
    give(s, c)
    (start,) = m2.poll()
    m2.spawn(start)
    eq(sight(s, c), "running", "work brought it up elsewhere")


@manual()
def test_who_comes_later_gets_what_a_lost_host_had(s):
    m1 = Machine(s, "m1")
    c = wanted(s)
    m1.boot()
    advance(s, LOST_MS)
    eq(sight(s, c), "unknown", "there is no other machine")
    m2 = Machine(s, "m2", register=False)
    m2.spawn(*starts_of(m2.register()))
    eq((sight(s, c), agent_of(s, c)["machine"]), ("running", "m2"), "the first that offers its kind")


@manual()
def test_a_start_that_was_not_taken_goes_elsewhere_when_its_machine_goes_offline(s):
    m1, m2 = Machine(s, "m1"), Machine(s, "m2")
    c = wanted(s)
    eq(agent_of(s, c)["machine"], "m1", "chosen")
    given = lose(s, m1, m2, by_ms=TTL_MS + 1)
    eq([x["type"] for x in given + m2.poll()], ["start-agent"], "no process of it can be on m1")


@manual()
def test_a_worker_that_proves_itself_directly_is_not_replaced(s):
    m1, m2, c, spawn = two(s)
    t, agent = work(s, m1, c, spawn)
    for _ in range(LOST_MS // 20_000 + 1):
        advance(s, 20_000)
        m2.poll()
        agent.call("participant.heartbeat", conversation=c, role="a", connectionId="p1",
                   task=t["task"], epoch=t["epoch"])
    eq(open_starts(s, c), [], "its machine is lost, and it works")
    agent.call("task.complete", task=t["task"], epoch=t["epoch"])
    eq(status(s, t), "completed", "and completes")


@manual()
def test_a_conversation_that_ends_does_not_wait_for_a_lost_host(s):
    m1, m2, c, spawn = two(s)
    advance(s, TTL_MS + 1)
    s.call("conversation.end", conversation=c)
    eq(sight(s, c), "stopping", "until the fence")
    lose(s, m1, m2, by_ms=FENCE_MS + 1)
    eq((sight(s, c), commands(s, c, closedAt=None)), ("stopped", []), "after it nothing is open")
    eq([(x["type"], x["spawnId"]) for x in m1.register()], [("stop-agent", spawn)], "if it returns")


# ---- the fence counts watched time, also over a restart ----

@manual()
def test_P16_a_restart_of_the_server_does_not_move_the_fence(s):
    m1, m2, c, spawn = two(s)
    given = lose(s, m1, m2, by_ms=TTL_MS + FENCE_MS // 2)
    s.restart()
    m1.reconnect(), m2.reconnect()
    m2.poll()
    given += lose(s, m1, m2, by_ms=FENCE_MS // 2 + 2)
    eq([x["type"] for x in given], ["start-agent"], "what m2 is told")


@manual()
def test_P16_a_machine_that_an_older_version_left_offline_has_the_whole_fence(s):
    m1, m2, c, spawn = two(s)
    lose(s, m1, m2, by_ms=TTL_MS + 1)
    s.stop()
    edit_store(s, "UPDATE machines SET offline_at = 0 WHERE machine = 'm1'")
    s.start()
    m1.reconnect(), m2.reconnect()
    m2.poll()
    eq(lose(s, m1, m2, by_ms=FENCE_MS - 1000), [], "what m2 is told")
    eq((sight(s, c), m1.register()), ("unknown", []), "it may come back")
    eq(sight(s, c), "running", "and has")


# ---- a pinned agent ----

@manual()
def test_a_pinned_agent_waits_for_its_machine(s):
    m1, m2, c, spawn = two(s, machine="m1")
    eq(lose(s, m1, m2), [], "what m2 is told")
    eq((sight(s, c), agent_of(s, c)["pinned"]), ("unknown", True), "it is pinned")
    eq(m1.register(), [], "its process is its process")
    eq(sight(s, c), "running", "it is back")


@manual()
def test_P21_a_person_moves_a_pinned_agent_after_the_fence_or_by_force(s):
    for force in (False, True):
        m1, m2, c, spawn = two(s, machine="m1")
        if force:
            advance(s, TTL_MS + 1)
            m2.register()
            for more in ({"machine": "m2"}, {"machine": None, "kind": "other"}):
                error = s.refused("INVALID_TRANSITION", "agent.set", conversation=c, role="a", **more)
                eq(error.data["allowed"], ["force"], "what is allowed")
            s.call("agent.set", conversation=c, role="a", machine="m2", force=True)
        else:
            lose(s, m1, m2)
            s.call("agent.set", conversation=c, role="a", machine="m2")
        (start,) = m2.poll()
        m2.spawn(start)
        got = agent_of(s, c)
        eq((got["view"], got["machine"], got["pinned"]), ("running", "m2", True), f"force={force}")
        eq([x["spawnId"] for x in m1.register()], [spawn], "the old one is stopped")
        m1.stopped(spawn)
        s.call("conversation.end", conversation=c)


@manual()
def test_P21_a_person_stops_an_agent_of_a_lost_host(s):
    m1, m2, c, spawn = two(s)
    advance(s, TTL_MS + 1)
    s.call("agent.stop", conversation=c, role="a")
    eq(sight(s, c), "stopping", "its machine may come back")
    s.call("agent.stop", conversation=c, role="a", force=True)
    eq((sight(s, c), commands(s, c, closedAt=None)), ("stopped", []), "by force")
    s.call("agent.start", conversation=c, role="a")
    (start,) = m2.register()
    m2.spawn(start)
    eq(sight(s, c), "running", "and starts it elsewhere")
    eq([x["spawnId"] for x in m1.register()], [spawn], "never two")


@manual()
def test_a_person_stops_starts_and_removes_after_the_fence_at_once(s):
    m1, m2, c, spawn = two(s, machine="m1")
    lose(s, m1, m2)
    s.call("agent.stop", conversation=c, role="a")
    eq((sight(s, c), commands(s, c, closedAt=None)), ("stopped", []), "stopped")
    s.call("agent.set", conversation=c, role="a", machine=None)
    s.call("agent.start", conversation=c, role="a")
    (start,) = m2.poll()
    m2.spawn(start)
    lose(s, m2)
    s.call("agent.set", conversation=c, role="a", removed=True)
    eq((s.call("agent.list", conversation=c)["agents"], commands(s, c, closedAt=None)), ([], []), "removed")


@manual()
def test_P21_who_may_have_a_process_that_can_be_asked_is_not_moved(s):
    """A start that was not confirmed in time has come to a process all the same, and that listens."""
    m1 = Machine(s, "m1", kinds=[kind(ready="notify")])
    c = wanted(s)
    spawn = m1.boot()
    m2 = Machine(s, "m2", kinds=[kind(ready="notify")])
    agent = m1.agent(spawn)
    join(agent, c, connection="p")
    for _ in range(DEADLINE_MS // 30_000 + 1):
        advance(s, 30_000)
        m1.poll(), m2.poll()
        agent.call("participant.heartbeat", conversation=c, role="a", connectionId="p")
    check([e for e in s.events(c) if kind_of(e) == "watch.command.expired"], "its start has expired")
    error = s.refused("INVALID_TRANSITION", "agent.set", conversation=c, role="a", machine="m2")
    eq(error.data["allowed"], ["agent.stop"], "what is allowed")
    s.call("agent.stop", conversation=c, role="a")
    m1.obey()
    s.call("agent.set", conversation=c, role="a", machine="m2")
    s.call("agent.start", conversation=c, role="a")
    m2.spawn(*m2.poll())
    eq((spawn in m1.processes, agent_of(s, c)["machine"]), (False, "m2"), "one after the other")


# ---- machine.forget ----

@manual()
def test_machine_forget_lets_go_of_a_host(s):
    m1, m2, c, spawn = two(s)
    pinned = wanted(s, machine="m1")
    m1.boot()
    error = s.refused("INVALID_TRANSITION", "machine.forget", machine="m1")
    check("online" in str(error), error)
    s.refused("NOT_FOUND", "machine.forget", machine="m3")
    advance(s, TTL_MS + 1)
    m2.register()
    error = s.refused("INVALID_TRANSITION", "machine.forget", machine="m1")
    eq(error.data["allowed"], ["force"], "before the fence")
    s.call("machine.forget", machine="m1", force=True)
    eq([m["machine"] for m in s.call("machine.list")["machines"]], ["m2"], "machines")
    m2.spawn(*m2.poll())
    eq((sight(s, c), sight(s, pinned)), ("running", "stopped"), "who is not pinned goes on elsewhere")
    s.restart()
    m1.reconnect(), m2.reconnect()
    eq([m["machine"] for m in s.call("machine.list")["machines"]], ["m2"], "after a restart")
    m1.client.refused("NOT_FOUND", "machine.poll", **m1.identity(), alive=[])
    given = m1.register()
    check(("stop-agent", spawn) in [(x["type"], x["spawnId"]) for x in given], "what it runs is stopped")
    eq([x["conversation"] for x in starts_of(given)], [pinned], "and whom it is for is started anew")


# ---- which machine ----

@manual()
def test_the_least_loaded_machine_that_offers_the_kind_is_chosen(s):
    m1, m2 = Machine(s, "m1"), Machine(s, "m2")
    Machine(s, "m3", kinds=[kind("other")])
    c = wanted(s, *"abcdef")
    where = [a["machine"] for a in s.call("agent.list", conversation=c)["agents"]]
    eq(sorted(where), ["m1"] * 3 + ["m2"] * 3, "each has as many")
    for m in (m1, m2):
        m.obey()
    for a in s.call("agent.list", conversation=c)["agents"]:
        if a["machine"] == "m1":
            s.call("agent.stop", conversation=c, role=a["role"])
    m1.obey()
    d = wanted(s, *"ghi")
    where = [a["machine"] for a in s.call("agent.list", conversation=d)["agents"]]
    eq(where, ["m1"] * 3, "m1 had none")


@manual()
def test_an_agent_that_ran_somewhere_starts_there_again(s):
    m1, m2 = Machine(s, "m1"), Machine(s, "m2")
    c = wanted(s, "a", "b")
    for m in (m1, m2):
        m.obey()
    where = {a["role"]: a["machine"] for a in s.call("agent.list", conversation=c)["agents"]}
    (spawn,) = m1.processes
    m1.exited(spawn)
    m1.obey()
    eq({a["role"]: a["machine"] for a in s.call("agent.list", conversation=c)["agents"]}, where,
       "what it left on that host is there")


if __name__ == "__main__":
    main()
