"""Who is started again, when, how often, and who is not: one decision for everything that asks.

Wishes of people, failures and their waits, the breaker, policies, and work that is taken back from
a process. A scripted machine plays the processes; the clock is the test's.
"""
from crew import (ACTIVE_MS, UNATTENDED_MS, beat, claim, give, join, leave, participant, said,
                  status, talk, task_of)
from fleet import batch, commands, open_starts, starts
from reeve_test import check, eq, main, together
from scripted_machine import (BURST, CLEAN, CRASH, DEADLINE_MS, FENCE_MS, KILLED, STABLE_MS, TTL_MS,
                              WINDOW_MS, Machine, agent_of, command, kind, restart_at, sight,
                              starts_of, told, work)
from watch_model import advance, manual, now


def wanted(s, *roles, desired="running", **more):
    """A conversation without limits of its own; its agents are of kind `worker`."""
    more.setdefault("runtime_controls", {"session_wall_clock_seconds": 0})
    more.setdefault("watchdog", {"disabled": True})
    agents = [{"role": r, "kind": "worker", "desired": desired} for r in roles or ("a",)]
    return s.call("conversation.create", agents=agents, **more)["conversation"]


def up(s, desired="running", **of_kind):
    """A machine, a conversation with agent `a`, its process: (machine, conversation, spawn id)."""
    m = Machine(s, kinds=[kind(**of_kind)])
    c = wanted(s, desired=desired)
    if desired == "auto":
        give(s, c)
    return m, c, m.boot()


def person(s, verb, c, role="a"):
    return s.call(f"agent.{verb}", conversation=c, role=role)


def keep_alive(s, m, by_ms):
    """Time passes, and the machine polls often enough. What it was told meanwhile."""
    given = []
    while by_ms:
        step = min(by_ms, TTL_MS - 1000)
        advance(s, step)
        given += m.poll()
        by_ms -= step
    return given


def crash_until_open(s, m, spawn):
    """Fails again and again until the breaker opens. The time of the last failure."""
    for i in range(BURST - 1):
        m.exited(spawn)
        (at,) = [restart_at(s, m.c)] if i else [now(s)]
        advance(s, at - now(s))
        spawn = m.boot()
    m.exited(spawn)
    return now(s)


def broken(s):
    """An agent whose breaker is open: (machine, conversation)."""
    m, c, spawn = up(s)
    m.c = c
    crash_until_open(s, m, spawn)
    eq(sight(s, c), "breaker_open", "view")
    return m, c


# ---- L43, P14: a person's stop ----

@manual()
def test_L43_an_exit_after_a_persons_stop_starts_nothing(s):
    m, c, spawn = up(s)
    t, _ = work(s, m, c, spawn)
    answer = person(s, "stop", c)
    eq(answer["desired"], "stopped", "desired")
    (stop,) = m.poll()
    eq((stop["type"], stop["spawnId"], stop["command"], stop["reason"]),
       ("stop-agent", spawn, answer["command"], "stopped_by_user"), "the stop")
    eq(sight(s, c), "stopping", "until it is seen to end")
    m.stopped(spawn)
    eq(sight(s, c), "stopped", "seen to end")
    eq((status(s, t), task_of(s, t)["assignedTo"]), ("pending", "a"), "L43: released, and kept")
    eq(keep_alive(s, m, UNATTENDED_MS + DEADLINE_MS + STABLE_MS), [], "what came of it")
    eq((len(starts(s, c)), sight(s, c)), (1, "stopped"), "the one start there was")


@manual()
def test_L43_work_and_messages_queue_behind_a_stop(s):
    m, c, spawn = up(s)
    person(s, "stop", c)
    m.obey()
    give(s, c)
    s.say(c, "user", "do", to="a")
    eq(m.poll(), [], "work does not wake it")
    eq(keep_alive(s, m, UNATTENDED_MS + 1), [], "unattended work does not wake it")
    eq(agent_of(s, c)["desired"], "stopped", "desired")
    answer = person(s, "start", c)
    eq(answer["desired"], "running", "a person's start")
    eq([x["command"] for x in m.poll()], [answer["command"]], "passes at once")
    eq(len(starts(s, c)), 2, "starts in all")


@manual()
def test_L43_a_resume_or_a_restart_of_the_server_does_not_undo_a_stop(s):
    m = Machine(s)
    c = wanted(s, "a", "b", runtime_controls={"session_wall_clock_seconds": 60})
    spawns = {x["role"]: m.spawn(x) for x in m.poll()}
    eq(sorted(spawns), ["a", "b"], "both run")
    person(s, "stop", c)
    m.obey()
    give(s, c)
    advance(s, 60_001)
    eq(s.call("conversation.get", conversation=c)["status"], "blocked", "status")
    m.obey()
    s.call("conversation.resume", conversation=c)
    eq([x["role"] for x in m.poll()], ["b"], "who is started by a resume")
    for how in ("kill", "stop"):
        s.restart(how)
        m.reconnect()
        m.register()
        advance(s, 1000)
        eq([x for x in starts(s, c, role="a") if not x["closedAt"]], [], f"{how}: open starts")
        eq(sight(s, c), "stopped", f"{how}: view")


@manual()
def test_L43_a_new_instance_of_the_machine_does_not_undo_a_stop(s):
    m, c, spawn = up(s)
    person(s, "stop", c)
    m.obey()
    eq(Machine(s).registered, [], "what it is told")
    advance(s, TTL_MS + 1)
    eq(Machine(s).registered, [], "nor after it was offline")


@manual()
def test_P14_a_stop_takes_back_a_start_that_is_pending_delivered_or_booting(s):
    for taken in ("pending", "delivered", "booting"):
        m = Machine(s, f"m-{taken}", kinds=[kind(taken, ready="notify")])
        c = s.call("conversation.create", agents=[
            {"role": "a", "kind": taken, "desired": "running"}])["conversation"]
        (begun,) = open_starts(s, c)
        if taken != "pending":
            (given,) = m.poll()
            if taken == "booting":
                m.spawn(given)
        eq(command(s, begun["command"])["status"], taken, "the start")
        person(s, "stop", c)
        closed = command(s, begun["command"])
        eq((closed["status"], closed["outcome"]), ("failed", "stopped_by_user"), taken)
        stops = m.poll()
        eq([(x["type"], x["spawnId"]) for x in stops],
           [] if taken == "pending" else [("stop-agent", begun["spawnId"])], f"{taken}: stops")
        eq(sight(s, c), "stopped" if taken == "pending" else "stopping", taken)
        if stops:
            m.stopped(begun["spawnId"])
        eq(sight(s, c), "stopped", taken)
        eq(m.poll(), [], f"{taken}: nothing more")


@manual()
def test_P14_a_late_spawned_does_not_bring_a_stopped_agent_back(s):
    m = Machine(s)
    c = wanted(s)
    given = m.start_given()
    person(s, "stop", c)
    m.spawn(given)
    eq(sight(s, c), "stopping", "it was seen, and is to end")
    (stop,) = m.poll()
    m.stopped(stop["spawnId"])
    eq((sight(s, c), m.poll()), ("stopped", []), "and did")


@manual()
def test_P15_the_late_end_of_a_start_does_not_make_the_next_one_an_orphan(s):
    m = Machine(s, kinds=[kind(restart="never")])
    c = wanted(s)
    first = m.start_given()
    keep_alive(s, m, DEADLINE_MS)
    advance(s, 1)
    (again,) = open_starts(s, c)
    m.fail(first)
    eq([x["spawnId"] for x in open_starts(s, c)], [again["spawnId"]], "the next is on its way")
    (given,) = m.poll()
    m.spawn(given)
    s.call("conversation.end", conversation=c)
    eq([(x["type"], x["spawnId"]) for x in m.poll()], [("stop-agent", given["spawnId"])], "stopped")


@manual()
def test_P15_a_stop_that_was_given_up_is_given_again_though_the_agent_might_run(s):
    for back in ("poll", "register"):
        m = Machine(s)
        c = wanted(s, desired="auto", runtime_controls={"session_wall_clock_seconds": 60})
        task = give(s, c)
        spawn = m.boot()
        s.call("task.cancel", task=task["task"], reason="no")
        advance(s, 60_001)
        (stop,) = m.poll()
        advance(s, TTL_MS + 1)
        eq((command(s, stop["command"])["status"], sight(s, c)), ("expired", "stopping"), f"{back}: away")
        s.call("conversation.resume", conversation=c)
        (again,) = m.poll() if back == "poll" else m.register()
        eq((again["type"], again["spawnId"]), ("stop-agent", spawn), back)
        m.stopped(spawn)
        eq((sight(s, c), m.poll()), ("stopped", []), f"{back}: ended")
        s.call("conversation.end", conversation=c)


@manual()
def test_P15_what_was_to_be_replaced_is_stopped_though_the_machine_never_heard_of_its_successor(s):
    """The answer with the restart was lost on the way; then nobody wanted the agent any more."""
    m, c, spawn = up(s)
    person(s, "restart", c)
    (lost,) = m.poll()
    s.call("conversation.end", conversation=c)
    eq([(x["type"], x["spawnId"]) for x in m.poll()], [("stop-agent", lost["spawnId"])], "first")
    m.report("stopped", lost["spawnId"])
    eq(sight(s, c), "stopping", "its process is there (P22)")
    eq([(x["type"], x["spawnId"]) for x in m.poll()], [("stop-agent", spawn)], "then")
    m.stopped(spawn)
    eq((sight(s, c), m.poll(), commands(s, c, closedAt=None)), ("stopped", [], []), "gone")


@manual()
def test_P15_what_was_to_be_replaced_is_stopped_when_the_breaker_opens(s):
    """Its successors never begin, one after the other."""
    m, c, spawn = up(s)
    person(s, "restart", c)
    given = []
    while sight(s, c) != "breaker_open":
        given = starts_of(m.poll()) or given
        advance(s, DEADLINE_MS // 4)
    eq(sorted((x["type"], x["spawnId"]) for x in m.poll()),
       sorted([("stop-agent", given[-1]["spawnId"]), ("stop-agent", spawn)]), "both")


# ---- L44, L45, P4: one start ----

@manual()
def test_L44_messages_while_a_start_is_pending_delivered_booting_and_done_make_no_other(s):
    m = Machine(s, kinds=[kind(ready="notify")])
    c = wanted(s, desired="auto")
    seen = []

    def push():
        for _ in range(5):
            s.say(c, "user", "do", to="a")
        person(s, "start", c)
        seen.append(commands(s, c)[0]["status"])
        eq(len(commands(s, c)), 1, f"commands while it is {seen[-1]}")

    push()
    given = m.start_given()
    push()
    spawn = m.spawn(given)
    push()
    m.ready(spawn)
    push()
    eq(seen, ["pending", "delivered", "booting", "done"], "seen on the way")
    eq(m.poll(), [], "the process that boots is not killed")


@manual()
def test_L44_a_repeated_start_says_that_it_is_the_same(s):
    Machine(s)
    c = wanted(s, desired="auto")
    first = person(s, "start", c)
    eq(first.get("deduplicated"), None, "the first")
    again = person(s, "start", c)
    eq((again["command"], again["deduplicated"]), (first["command"], True), "the second")


@manual()
def test_a_repeated_stop_says_that_it_is_the_same(s):
    m, c, spawn = up(s)
    first = person(s, "stop", c)
    again = person(s, "stop", c)
    eq((again["command"], again.get("deduplicated")), (first["command"], True), "the second stop")
    eq(len(commands(s, c, type="stop-agent")), 1, "stops")


@manual()
def test_L45_many_triggers_in_one_tick_make_one_start(s):
    """Message, task, person, lapsed listener and a death, in one request and one tick."""
    m, c, spawn = up(s, desired="auto")
    work(s, m, c, spawn)
    m.processes.clear()
    exits = {"machine": "m1", "instance": m.instance, "facts": [
        {"n": i, "fact": "exited", "spawnId": spawn, "exit": CRASH} for i in range(50, 55)]}
    calls = [("machine.report", exits)]
    for i in range(20):
        calls += [("message.send", {"conversation": c, "agentId": "user", "text": "x", "to": "a"}),
                  ("task.create", {"conversation": c, "role": "a", "content": "x"}),
                  ("lifecycle.ensure", {"conversation": c}),
                  ("agent.start", {"conversation": c, "role": "a"})]
    batch(s, *calls)
    advance(s, 0)
    eq(len(open_starts(s, c)), 1, "P4: open starts")
    eq(len(starts(s, c)), 2, "starts in all")
    eq(len(m.poll()), 1, "what the machine is told")


def test_P4_a_hundred_messages_at_once_to_an_offline_agent_make_one_start(s):
    m = Machine(s)
    c = wanted(s, desired="auto")
    together(*[lambda: s.say(c, "user", "do", to="a") for _ in range(100)])
    eq(len(commands(s, c)), 1, "commands")
    spawn = m.boot()
    together(*[lambda: s.say(c, "user", "do", to="a") for _ in range(100)])
    eq((len(commands(s, c)), m.poll()), (1, []), "while it runs and has not joined")
    check(spawn, "it was started")


def test_P4_a_hundred_observers_of_one_death_make_one_restart(s):
    m, c, spawn = up(s)
    t, _ = work(s, m, c, spawn)
    m.processes.clear()
    body = {"machine": "m1", "instance": m.instance}

    def observe(n):
        facts = [{"n": n, "fact": "exited", "spawnId": spawn, "exit": CRASH}]
        eq(m.client.call("machine.report", **body, facts=facts)["rejected"], [], "rejected")

    together(*[lambda n=n: observe(n) for n in range(100, 200)])
    eq(len(starts(s, c)), 2, "the first, and one restart")
    eq((agent_of(s, c)["restarts"], len(told(s, c))), (1, 1), "counted and told once")
    eq((task_of(s, t)["attempts"], status(s, t)), (1, "pending"), "one attempt lost")
    eq(len(m.poll()), 1, "what the machine is told")


@manual()
def test_L50_only_the_assignee_is_started(s):
    m = Machine(s)
    c = wanted(s, "a", "b", "x", desired="auto")
    give(s, c, "b")
    eq([x["role"] for x in m.poll()], ["b"], "who is started")
    advance(s, 1)
    eq({x["role"] for x in commands(s, c)}, {"b"}, "and nobody else")
    eq([sight(s, c, r) for r in ("a", "x")], ["stopped", "stopped"], "the others")


@manual()
def test_L40_work_queued_behind_a_dead_agents_task_does_not_hide_it(s):
    m, c, spawn = up(s, desired="auto")
    t, _ = work(s, m, c, spawn)
    give(s, c)
    m.exited(spawn)
    eq([x["role"] for x in starts_of(m.poll())], ["a"], "it is started")
    eq(status(s, t), "pending", "its task goes first")


# ---- L46: crash loops ----

@manual("restart.burst=0")
def test_L46_waits_are_none_then_one_second_doubling_to_the_limit(s):
    m, c, spawn = up(s)
    waits = []
    for _ in range(10):
        m.exited(spawn)
        at, died = restart_at(s, c), now(s)
        if at is None:
            waits.append(0)
        else:
            waits.append(at - died)
            eq(m.poll(), [], "before the wait is over")
            advance(s, at - died - 1)
            eq(open_starts(s, c), [], "a millisecond early")
            eq(sight(s, c), "crashed", "while it waits")
            advance(s, 1)
        eq(len(open_starts(s, c)), 1, f"started after {waits}")
        spawn = m.boot()
    eq(waits, [0, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000, 60000], "waits")
    eq(agent_of(s, c)["restarts"], 10, "restarts")


@manual("restart.burst=0", "restart.backoff_first_ms=300", "restart.backoff_max_ms=1000")
def test_L46_the_waits_are_configured(s):
    m, c, spawn = up(s)
    waits = []
    for _ in range(5):
        m.exited(spawn)
        waits.append((restart_at(s, c) or now(s)) - now(s))
        advance(s, waits[-1])
        spawn = m.boot()
    eq(waits, [0, 300, 600, 1000, 1000], "waits")


@manual()
def test_L46_the_breaker_opens_at_the_failure_that_is_one_too_many(s):
    m, c, spawn = up(s)
    for i in range(1, BURST):
        m.exited(spawn)
        eq(agent_of(s, c)["breaker"]["open"], False, f"after {i} failures")
        advance(s, (restart_at(s, c) or now(s)) - now(s))
        spawn = m.boot()
    m.exited(spawn)
    got = agent_of(s, c)
    eq((got["breaker"], got["view"], got["restarts"]), ({"open": True}, "breaker_open", BURST - 1),
       "after the last")
    give(s, c)
    eq(keep_alive(s, m, UNATTENDED_MS + WINDOW_MS), [], "it stays open, whatever waits")
    eq(sight(s, c), "breaker_open", "view")


@manual()
def test_L46_only_failures_within_the_window_count(s):
    """Four, then one when the first has just left the window; then the next opens it."""
    m, c, spawn = up(s)
    first = now(s)
    for _ in range(BURST - 1):
        m.exited(spawn)
        advance(s, (restart_at(s, c) or now(s)) - now(s))
        spawn = m.boot()
    keep_alive(s, m, first + WINDOW_MS + 1 - now(s))
    m.exited(spawn)
    eq(agent_of(s, c)["breaker"]["open"], False, "the first no longer counts")
    advance(s, restart_at(s, c) - now(s))
    m.exited(m.boot())
    check(agent_of(s, c)["breaker"]["open"] is False, "the second has left it too")


@manual()
def test_L46_a_persons_start_always_passes_and_closes_the_breaker(s):
    m, c = broken(s)
    answer = person(s, "start", c)
    eq((answer["desired"], agent_of(s, c)["breaker"]), ("running", {"open": False}), "the breaker")
    (given,) = m.poll()
    eq(given["command"], answer["command"], "the start")
    eq(sight(s, c), "starting", "no failed predecessor: it was reset")
    m.exited(m.spawn(given))
    eq((restart_at(s, c), len(open_starts(s, c))), (None, 1), "the first failure again: at once")


@manual()
def test_L46_a_persons_restart_passes_too(s):
    m, c = broken(s)
    person(s, "restart", c)
    m.boot()
    eq((sight(s, c), agent_of(s, c)["breaker"]["open"]), ("running", False), "it runs")


@manual()
def test_L46_a_persons_start_does_not_wait(s):
    m, c, spawn = up(s)
    m.exited(spawn)
    m.exited(m.boot())
    check(restart_at(s, c), "it waits")
    person(s, "start", c)
    eq((len(m.poll()), restart_at(s, c)), (1, None), "started now")


@manual()
def test_L46_a_persons_stop_resets_the_breaker(s):
    """DESIGN: starts and stops by people count for nothing and reset it."""
    m, c = broken(s)
    person(s, "stop", c)
    eq((sight(s, c), agent_of(s, c)["breaker"]), ("stopped", {"open": False}), "after a stop")


@manual()
def test_L46_stops_and_restarts_by_people_count_for_nothing(s):
    m, c, spawn = up(s)
    for i in range(2 * BURST):
        if i % 2:
            person(s, "stop", c)
            m.obey()
            person(s, "start", c)
        else:
            person(s, "restart", c)
        eq([x["type"] for x in m.obey()], ["start-agent" if i % 2 else "restart-agent"], "told")
        got = agent_of(s, c)
        eq((got["view"], got["restarts"], got["breaker"]), ("running", 0, {"open": False}),
           f"after {i + 1}")
    check(all(is_expected for _, is_expected, _ in told(s, c)), f"no crash: {told(s, c)}")


@manual()
def test_L46_the_breaker_and_the_waits_outlive_the_server(s):
    m, c = broken(s)
    m2 = Machine(s, "m2", kinds=[kind("other")])
    d = s.call("conversation.create", agents=[
        {"role": "a", "kind": "other", "desired": "running"}])["conversation"]
    m2.exited(m2.boot())
    m2.exited(m2.boot())
    due = restart_at(s, d)
    for how in ("kill", "stop"):
        s.restart(how)
        for machine in (m, m2):
            machine.reconnect()
            eq(machine.register(), [], f"{how}: what {machine.name} is told")
        eq((sight(s, c), restart_at(s, d)), ("breaker_open", due), f"{how}: kept")
    advance(s, due - now(s) - 1)
    eq(m2.poll(), [], "a millisecond early")
    advance(s, 1)
    eq(len(m2.poll()), 1, "when it is due")
    eq(m.poll(), [], "the broken one stays")


@manual()
def test_L46_a_resume_does_not_pass_an_open_breaker(s):
    m = Machine(s)
    c = wanted(s, runtime_controls={"session_wall_clock_seconds": 600})
    m.c = c
    crash_until_open(s, m, m.boot())
    keep_alive(s, m, 600_001)
    eq(s.call("conversation.get", conversation=c)["status"], "blocked", "status")
    s.call("conversation.resume", conversation=c)
    eq((m.poll(), agent_of(s, c)["breaker"]["open"]), ([], True), "only a person closes it")


@manual("restart.burst=0")
def test_L46_stability_resets_the_waits(s):
    m, c, spawn = up(s)
    for _ in range(4):
        m.exited(spawn)
        advance(s, (restart_at(s, c) or now(s)) - now(s))
        spawn = m.boot()
    keep_alive(s, m, STABLE_MS - 1)
    m.exited(spawn)
    eq(restart_at(s, c) - now(s), 8000, "a millisecond too short")
    advance(s, 8000)
    spawn = m.boot()
    keep_alive(s, m, STABLE_MS)
    m.exited(spawn)
    eq((restart_at(s, c), len(open_starts(s, c))), (None, 1), "stable: at once")


# ---- L47: nothing is stuck, everything is told ----

@manual()
def test_L47_a_failed_start_is_told_and_tried_again(s):
    m = Machine(s)
    c = wanted(s)
    given = m.start_given()
    eq(sight(s, c), "starting", "before")
    m.fail(given, "no such file")
    got = command(s, given["command"])
    eq((got["status"], got["outcome"]), ("failed", "no such file"), "the command")
    eq(sight(s, c), "crashed", "until a process is seen")
    again = m.start_given()
    check(again["spawnId"] != given["spawnId"], "another process")
    m.fail(again)
    eq((sight(s, c), restart_at(s, c)), ("crashed", now(s) + 1000), "the second waits")
    advance(s, 1000)
    m.boot()
    eq(sight(s, c), "running", "seen")


@manual()
def test_L47_failed_starts_open_the_breaker(s):
    m = Machine(s)
    c = wanted(s)
    for _ in range(BURST):
        advance(s, (restart_at(s, c) or now(s)) - now(s))
        m.fail(m.poll()[0])
    eq(sight(s, c), "breaker_open", "view")


@manual()
def test_L47_a_start_that_nobody_confirms_expires_and_becomes_a_restart(s):
    m = Machine(s)
    c = wanted(s)
    given = m.start_given()
    eq(given["ttlMs"], DEADLINE_MS, "ttlMs")
    at = now(s)
    advance(s, 60_000)
    eq(m.poll(), [], "not told twice")
    advance(s, DEADLINE_MS + 1 - 60_000)
    got = command(s, given["command"])
    eq((got["status"], sight(s, c), now(s)), ("expired", "crashed", at + DEADLINE_MS + 1), "over")
    (again,) = m.poll()
    eq(again["type"], "restart-agent", "there may be a process: proven dead first")
    m.spawn(again)
    eq(sight(s, c), "running", "seen")


@manual()
def test_a_command_is_over_after_its_deadline_not_at_it(s):
    """DESIGN 6: a limit is exceeded when more than it has passed."""
    m = Machine(s)
    c = wanted(s)
    given = m.start_given()
    keep_alive(s, m, DEADLINE_MS)
    eq(command(s, given["command"])["status"], "delivered", "in the millisecond of its deadline")
    m.spawn(given)
    eq((sight(s, c), agent_of(s, c)["restarts"]), ("running", 0), "evidence then still wins")


@manual()
def test_L47_expired_starts_open_the_breaker(s):
    m = Machine(s)
    c = wanted(s)
    for _ in range(40):
        if sight(s, c) == "breaker_open":
            break
        keep_alive(s, m, DEADLINE_MS // 2)
    eq((sight(s, c), len(starts(s, c, status="expired"))), ("breaker_open", BURST), "in the end")


@manual()
def test_P15_what_may_have_begun_is_stopped_when_the_breaker_opens(s):
    """It never said that it was ready, and no next start will end it."""
    m = Machine(s, kinds=[{"name": "worker", "ready": "notify"}])
    c = wanted(s)
    spawns = []
    while sight(s, c) != "breaker_open":
        spawns += [m.spawn(x) for x in starts_of(m.poll())]
        advance(s, DEADLINE_MS // 4)
    (stop,) = m.poll()
    eq((stop["type"], stop["spawnId"]), ("stop-agent", spawns[-1]), "what the machine is told")
    m.stopped(stop["spawnId"])
    eq((sight(s, c), commands(s, c, closedAt=None)), ("breaker_open", []), "gone")


@manual()
def test_L47_a_stop_of_something_idle_is_answered(s):
    m = Machine(s)
    c = wanted(s, desired="auto")
    answer = person(s, "stop", c)
    eq((answer["command"], answer["desired"]), (None, "stopped"), "nothing to stop")
    eq((sight(s, c), m.poll()), ("stopped", []), "and nothing is")


@manual()
def test_L47_a_start_that_fails_after_a_stop_is_no_process(s):
    m = Machine(s)
    c = wanted(s)
    given = m.start_given()
    person(s, "stop", c)
    m.fail(given)
    eq(sight(s, c), "stopped", "there is no process: that is known")
    eq(commands(s, c, closedAt=None), [], "open commands")


@manual()
def test_L47_a_stop_is_sent_again_until_the_process_is_seen_to_end(s):
    m, c, spawn = up(s)
    person(s, "stop", c)
    (stop,) = m.poll()
    for i in range(3):
        keep_alive(s, m, DEADLINE_MS * 2 ** i)
        eq(m.poll(), [], "not before its deadline, which is twice as long each time")
        advance(s, 1)
        (again,) = m.poll()
        eq((again["type"], again["spawnId"]), ("stop-agent", spawn), "sent again")
        eq(sight(s, c), "stopping", "until it is seen to end")
        stop = again
    m.stopped(spawn)
    eq((sight(s, c), command(s, stop["command"])["status"]), ("stopped", "done"), "seen")
    eq(keep_alive(s, m, 2 * DEADLINE_MS), [], "nothing more")


# ---- L48: what a restart keeps ----

@manual()
def test_L48_a_restart_keeps_kind_and_machine(s):
    first = Machine(s, "m1")
    other = Machine(s, "m0", kinds=[kind("other"), kind()])
    c = wanted(s)
    spawn = first.boot()
    for _ in range(3):
        first.exited(spawn)
        advance(s, (restart_at(s, c) or now(s)) - now(s))
        eq(other.poll(), [], "another machine is not asked")
        (given,) = first.poll()
        eq((given["kind"], given["role"]), ("worker", "a"), "what is started")
        spawn = first.spawn(given)
    person(s, "restart", c)
    (given,) = first.poll()
    eq((given["type"], given["kind"]), ("restart-agent", "worker"), "by a person")
    eq((other.poll(), agent_of(s, c)["machine"]), ([], "m1"), "where")


# ---- policies ----

@manual()
def test_policy_on_failure(s):
    m, c, spawn = up(s, restart="on-failure")
    m.exited(spawn, CLEAN)
    eq((m.poll(), sight(s, c), agent_of(s, c)["restarts"]), ([], "stopped", 0), "a clean end")
    eq(keep_alive(s, m, 60_000), [], "nor later")
    give(s, c)
    spawn = m.boot()
    s.call("task.cancel", task=agent_of(s, c)["task"], reason="x")
    m.exited(spawn, CRASH)
    eq(len(m.poll()), 1, "a failure")
    for exit in (KILLED, None):
        m2, d, spawn = up_other(s, f"x{exit is None}")
        m2.exited(spawn, exit)
        eq(len(m2.poll()), 1, f"exit {exit}")


def up_other(s, name, **of_kind):
    m = Machine(s, name, kinds=[kind(name, **of_kind)])
    c = s.call("conversation.create", agents=[{"role": "a", "kind": name, "desired": "running"}])
    return m, c["conversation"], m.boot()


@manual()
def test_policy_always(s):
    m, c, spawn = up(s, restart="always")
    m.exited(spawn, CLEAN)
    m.exited(m.boot(), CRASH)
    advance(s, 1000)
    m.boot()
    eq(sight(s, c), "running", "again and again")


@manual()
def test_policy_never(s):
    m, c, spawn = up(s, restart="never")
    m.exited(spawn, CRASH)
    eq(m.poll(), [], "a failure")
    eq(keep_alive(s, m, 60_000), [], "nor later")
    eq(len(starts(s, c)), 1, "starts")


@manual()
def test_policy_never_does_not_keep_work_from_starting_it(s):
    m, c, spawn = up(s, desired="auto", restart="never")
    work(s, m, c, spawn)
    m.exited(spawn, CRASH)
    eq(len(starts_of(m.poll())), 1, "its work wants it")


@manual()
def test_an_auto_agent_that_ends_cleanly_without_work_is_left_alone(s):
    m, c, spawn = up(s, desired="auto")
    t, agent = work(s, m, c, spawn)
    agent.call("task.complete", task=t["task"], epoch=t["epoch"])
    m.exited(spawn, CLEAN)
    eq((sight(s, c), m.poll()), ("stopped", []), "done")
    give(s, c)
    m.boot()
    eq(sight(s, c), "running", "work starts it")


# ---- readiness ----

@manual()
def test_ready_none_is_done_when_spawned(s):
    m, c, spawn = up(s, ready="none")
    eq(starts(s, c)[0]["status"], "done", "status")


@manual()
def test_ready_notify_is_done_when_it_says_so(s):
    m, c, spawn = up(s, ready="notify")
    eq(starts(s, c)[0]["status"], "booting", "spawned")
    m.report("notify", spawn, ready=False)
    eq(starts(s, c)[0]["status"], "booting", "another message")
    m.ready(spawn)
    eq(starts(s, c)[0]["status"], "done", "ready")
    eq(keep_alive(s, m, 2 * DEADLINE_MS), [], "nothing expires")


@manual()
def test_ready_notify_that_never_comes_expires(s):
    m, c, spawn = up(s, ready="notify")
    given = keep_alive(s, m, DEADLINE_MS + 1)
    eq([x["type"] for x in given], ["restart-agent"], "told")
    eq([x["status"] for x in starts(s, c)], ["expired", "delivered"], "starts")


@manual()
def test_ready_heartbeat_is_done_when_its_process_joins(s):
    m, c, spawn = up(s, ready="heartbeat")
    eq(starts(s, c)[0]["status"], "booting", "spawned")
    join(s, c, connection="somebody")
    eq(starts(s, c)[0]["status"], "booting", "somebody else is not its process")
    join(m.agent(spawn), c, connection="p1")
    eq(starts(s, c)[0]["status"], "done", "its first sign of life")
    eq(keep_alive(s, m, DEADLINE_MS + 1), [], "nothing expires")


# ---- P21, P22: work of a process, and proof of its death ----

@manual()
def test_an_exit_releases_work_and_leases_at_once(s):
    m, c, spawn = up(s)
    t, agent = work(s, m, c, spawn)
    at = now(s)
    m.exited(spawn, KILLED)
    got = task_of(s, t)
    eq((got["status"], got["assignedTo"], got["claimedBy"], got.get("held"), got["attempts"],
        got["epoch"], now(s)), ("pending", "a", None, None, 1, t["epoch"] + 1, at), "at once")
    eq(participant(s, c)["status"], "disconnected", "its listener")
    eq(told(s, c), [(spawn, False, -1)], "told")
    spawn = m.boot()
    join(m.agent(spawn), c, connection="p2")
    got = claim(m.agent(spawn), c, connection="p2")
    eq(got["task"], t["task"], "its successor has it")


@manual()
def test_an_exit_ends_the_leases_of_that_process_only(s):
    """Another listens, then another has claimed: both stay."""
    m, c, spawn = up(s)
    t, _ = work(s, m, c, spawn)
    join(s, c, connection="other")
    m.exited(spawn)
    eq(participant(s, c)["status"], "waiting", "the listener is somebody else's")
    eq(status(s, t), "pending", "the work was its own")
    m, c, spawn = up_other(s, "m2")
    join(s, c, connection="other")
    give(s, c)
    t = claim(s, c, connection="other")
    m.exited(spawn)
    eq((status(s, t), task_of(s, t)["claimedBy"]), ("acknowledged", "other"), "somebody else's")
    eq(participant(s, c)["status"], "active", "who goes on")


@manual()
def test_a_process_that_claimed_and_did_not_start_is_released_too(s):
    m, c, spawn = up(s, desired="auto")
    agent = m.agent(spawn)
    join(agent, c, connection="p1")
    t = claim(agent, c, connection="p1")
    m.exited(spawn)
    eq((status(s, t), task_of(s, t)["attempts"]), ("pending", 1), "at once")


def silent(s, m, c, spawn):
    """Its work is taken back while its process lives. The task."""
    t, _ = work(s, m, c, spawn)
    advance(s, ACTIVE_MS + 1)
    eq((status(s, t), task_of(s, t).get("held")), ("pending", "process"), "taken back, held")
    return t


@manual()
def test_P21_work_of_a_live_process_is_held_until_it_is_proven_dead(s):
    m, c, spawn = up(s)
    t = silent(s, m, c, spawn)
    other = "other"
    join(s, c, connection=other)
    s.refused("PRECONDITION_FAILED", "task.claim", conversation=c, role="a", connectionId=other)
    (given,) = m.poll(alive=[spawn])
    eq((given["type"], given["reason"]), ("restart-agent", "task.orphaned"), "it is replaced")
    eq(task_of(s, t)["held"], "process", "delivered is no proof")
    s.refused("PRECONDITION_FAILED", "task.claim", conversation=c, role="a", connectionId=other)
    m.stopped(spawn)
    eq(task_of(s, t).get("held"), None, "proof of death")
    eq(claim(s, c, connection=other)["task"], t["task"], "and it may be claimed")
    eq(agent_of(s, c)["restarts"], 0, "a replacement is no crash")


@manual()
def test_P21_news_of_an_older_process_is_no_proof(s):
    m, c, first = up(s)
    m.exited(first)
    second = m.boot()
    t = silent(s, m, c, second)
    m.exited(first)
    eq(task_of(s, t).get("held"), "process", "the first's death, told twice, proves nothing")


@manual()
def test_P21_work_of_a_process_that_a_person_replaces_goes_to_its_successor(s):
    """The restart is taken, the old process ends: its work is free at once, one attempt is lost,
    and the new process is not taken for the old one."""
    m, c, first = up(s)
    t, _ = work(s, m, c, first)
    person(s, "restart", c)
    (given,) = m.poll()
    second = m.spawn(given)
    eq((status(s, t), task_of(s, t)["attempts"]), ("pending", 1), "when the old one has ended")
    eq(participant(s, c)["status"], "disconnected", "its listener")
    agent = m.agent(second)
    join(agent, c, connection="p2")
    got = claim(agent, c, connection="p2")
    eq(got["task"], t["task"], "the same work")
    advance(s, 30_000)
    eq([x["type"] for x in m.poll()], [], "nobody is replaced")


@manual()
def test_P21_a_new_process_is_not_replaced_for_the_silence_of_the_old_one(s):
    m, c, first = up(s)
    work(s, m, c, first)
    person(s, "restart", c)
    m.obey()
    advance(s, ACTIVE_MS + 1)
    eq(m.poll(), [], "what the machine is told")
    eq(len(starts(s, c)), 2, "starts")


@manual()
def test_P21_an_unreachable_machine_holds_and_convicts_nobody(s):
    m, c, spawn = up(s)
    t, _ = work(s, m, c, spawn)
    at = now(s)
    m.poll()
    advance(s, TTL_MS)
    eq((sight(s, c), status(s, t)), ("working", "in_progress"),
       "a lease fed by a machine lasts as long as the machine's")
    advance(s, 1)
    eq(now(s), at + TTL_MS + 1, "now")
    eq(sight(s, c), "unknown", "unknown is not dead")
    eq((status(s, t), task_of(s, t).get("held")), ("pending", "machine"), "its work is held")
    eq(commands(s, c, closedAt=None), [], "no command for an offline machine")


def machine_status(s):
    return s.call("machine.list")["machines"][0]["status"]


@manual()
def test_P22_a_worker_that_beats_while_its_machine_is_away_is_working(s):
    m, c, spawn = up(s)
    t, agent = work(s, m, c, spawn)
    states = len(said(s, c, "agent.state"))
    for _ in range(4):
        advance(s, TTL_MS // 3)
        beat(agent, c, connection="p1", epoch=t["epoch"])
    eq((machine_status(s), sight(s, c)), ("offline", "working"), "it is heard")
    eq((status(s, t), task_of(s, t).get("held")), ("in_progress", None), "and keeps its work")
    eq(len(said(s, c, "agent.state")), states, "nothing has changed for it")
    advance(s, ACTIVE_MS + 1)
    eq((sight(s, c), task_of(s, t).get("held")), ("unknown", "machine"), "silent as well")


@manual()
def test_P22_who_listens_while_its_machine_is_away_is_waiting(s):
    m, c, spawn = up(s)
    agent = m.agent(spawn)
    join(agent, c, connection="p1")
    for _ in range(4):
        advance(s, TTL_MS // 3)
        beat(agent, c, connection="p1")
    eq((machine_status(s), sight(s, c)), ("offline", "waiting"), "it is heard")
    advance(s, TTL_MS)
    eq(sight(s, c), "unknown", "silent as well")


@manual()
def test_P21_a_hold_for_a_machine_ends_at_the_fence(s):
    m, c, spawn = up(s)
    t, agent = work(s, m, c, spawn)
    m.poll()
    at = now(s)
    advance(s, TTL_MS + FENCE_MS + 1)
    eq(task_of(s, t).get("held"), "machine", "at the fence")
    advance(s, 1)
    eq((task_of(s, t).get("held"), now(s)), (None, at + TTL_MS + FENCE_MS + 2), "after it")
    join(s, c, connection="other")
    eq(claim(s, c, connection="other")["task"], t["task"], "somebody else may have it")
    agent.refused("STALE_EPOCH", "task.complete", task=t["task"], epoch=t["epoch"])


@manual()
def test_P21_a_process_whose_work_was_given_to_another_is_stopped_when_it_is_seen_again(s):
    m, c, spawn = up(s)
    t, _ = work(s, m, c, spawn)
    advance(s, TTL_MS + FENCE_MS + 2)
    join(s, c, connection="other")
    got = claim(s, c, connection="other")
    given = m.register()
    check([x for x in given if x["type"] == "restart-agent" or x["spawnId"] == spawn],
          f"it is to end: {given}")
    eq((got["task"], status(s, t)), (t["task"], "acknowledged"), "the other keeps the work")


@manual()
def test_P21_a_hold_for_a_process_becomes_one_for_its_machine_and_back(s):
    m, c, spawn = up(s)
    t = silent(s, m, c, spawn)
    advance(s, TTL_MS - ACTIVE_MS)
    eq((task_of(s, t).get("held"), sight(s, c)), ("machine", "unknown"), "offline")
    given = m.register()
    eq(task_of(s, t).get("held"), "process", "back, and it is alive")
    ends = [x for x in given if x["type"] == "restart-agent" or x["spawnId"] == spawn]
    check(ends, f"its work was taken back while nobody could ask: it is to end: {given}")


@manual()
def test_P21_a_machine_that_comes_back_without_the_process_is_proof(s):
    m, c, spawn = up(s)
    t, _ = work(s, m, c, spawn)
    advance(s, TTL_MS + 1)
    m.processes.clear()
    given = m.register()
    eq((status(s, t), task_of(s, t).get("held")), ("pending", None), "free")
    eq([x["type"] for x in given], ["start-agent"], "one start")
    eq(len(told(s, c)), 1, "its end is told")


@manual()
def test_P21_a_machine_that_comes_back_with_the_process_changes_nothing(s):
    m, c, spawn = up(s)
    agent = m.agent(spawn)
    join(agent, c, connection="p1")
    advance(s, TTL_MS + 1)
    eq(sight(s, c), "unknown", "offline")
    eq((m.poll(), sight(s, c)), ([], "running"), "alive")
    eq((len(starts(s, c)), agent_of(s, c)["restarts"]), (1, 0), "as if nothing had been")


@manual()
def test_P21_a_machine_that_lost_a_process_before_its_restart_frees_its_work(s):
    m, c, spawn = up(s)
    t, _ = work(s, m, c, spawn)
    person(s, "restart", c)
    m.processes.clear()
    given = m.register()
    eq(len(starts_of(given)), 1, "one start")
    eq((status(s, t), len(told(s, c))), ("pending", 1), "its end is known")
    m.spawn(starts_of(given)[0])
    advance(s, ACTIVE_MS + 1)
    eq(starts_of(m.poll()), [], "its successor is left alone")


def check_replaced(s, m, c, spawn, task, following):
    """The task is over, its process is to be replaced, and what follows waits for its death."""
    check(status(s, task) in ("failed", "canceled", "timeout"), "the task is over")
    eq([x["type"] for x in m.poll()], ["restart-agent"], "its process is replaced")
    got = task_of(s, following)
    eq((got["status"], got.get("held")), ("pending", "process"), "what follows is held")
    m.stopped(spawn)
    eq(task_of(s, following).get("held"), None, "until the process is proven dead")


@manual()
def test_P21_work_that_is_canceled_in_a_process_replaces_it(s):
    m, c, spawn = up(s)
    t, _ = work(s, m, c, spawn)
    following = give(s, c)
    s.call("task.cancel", task=t["task"], reason="x")
    check_replaced(s, m, c, spawn, t, following)


@manual("pmo.active_reap_seconds=100")
def test_P21_work_that_is_reaped_in_a_process_replaces_it(s):
    m, c, spawn = up(s)
    t, agent = work(s, m, c, spawn)
    following = give(s, c)
    for _ in range(4):
        advance(s, 25_000)
        m.poll()
    advance(s, 1)
    check_replaced(s, m, c, spawn, t, following)


@manual("task.max_seconds=50")
def test_P21_work_that_took_too_long_in_a_process_replaces_it(s):
    m, c, spawn = up(s)
    t, agent = work(s, m, c, spawn)
    following = give(s, c)
    advance(s, 50_001)
    check_replaced(s, m, c, spawn, t, following)


@manual()
def test_P21_a_hold_passes_on_to_the_next_task(s):
    m, c, spawn = up(s)
    t = silent(s, m, c, spawn)
    following = give(s, c)
    s.call("task.cancel", task=t["task"], reason="x")
    got = task_of(s, following)
    eq((got["status"], got.get("held")), ("pending", "process"), "the next")
    m.obey()
    eq(task_of(s, following).get("held"), None, "after its death")


@manual()
def test_P14_a_stop_of_an_agent_whose_work_is_held(s):
    """The process is stopped instead of replaced, its work is freed by its death, and stays."""
    m, c, spawn = up(s)
    t = silent(s, m, c, spawn)
    person(s, "stop", c)
    eq([(x["type"], x["spawnId"]) for x in m.poll()], [("stop-agent", spawn)], "told")
    m.stopped(spawn)
    eq((task_of(s, t).get("held"), status(s, t), sight(s, c)), (None, "pending", "stopped"), "then")
    eq(keep_alive(s, m, UNATTENDED_MS + 1), [], "nothing starts it")


@manual()
def test_people_may_stop_a_blocked_conversation_but_not_start_it(s):
    m = Machine(s)
    c = wanted(s, "a", "b", runtime_controls={"session_wall_clock_seconds": 60})
    for x in m.poll():
        m.spawn(x)
    advance(s, 60_001)
    eq(sorted(x["type"] for x in m.obey()), ["stop-agent"] * 2, "its agents are stopped")
    eq(agent_of(s, c)["restarts"], 0, "which is no crash")
    for verb in ("start", "restart"):
        s.refused("CONVERSATION_BLOCKED", f"agent.{verb}", conversation=c, role="a")
    eq(person(s, "stop", c)["desired"], "stopped", "a stop passes")
    s.call("conversation.resume", conversation=c)
    eq([x["role"] for x in m.poll()], ["b"], "who is started again")
    s.call("conversation.end", conversation=c)
    for verb in ("start", "restart"):
        s.refused("CONVERSATION_FINALIZED", f"agent.{verb}", conversation=c, role="b")


# ---- P22: what a view is derived from ----

@manual()
def test_P22_each_view_is_derived_from_evidence(s):
    m = Machine(s)
    c = wanted(s, desired="auto")
    seen = [sight(s, c)]
    give(s, c)
    seen.append(sight(s, c))
    given = m.start_given()
    seen.append(sight(s, c))
    spawn = m.spawn(given)
    seen.append(sight(s, c))
    agent = m.agent(spawn)
    join(agent, c, connection="p1")
    seen.append(sight(s, c))
    t = claim(agent, c, connection="p1")
    t = agent.call("task.start", task=t["task"], epoch=t["epoch"])["task"]
    seen.append(sight(s, c))
    agent.call("task.complete", task=t["task"], epoch=t["epoch"])
    leave(agent, c, connection="p1")
    seen.append(sight(s, c))
    person(s, "stop", c)
    seen.append(sight(s, c))
    m.obey()
    seen.append(sight(s, c))
    eq(seen, ["stopped", "starting", "starting", "running", "waiting", "working", "running",
              "stopping", "stopped"], "views")
    events = [e["payload"]["data"]["status"] for e in s.events(c)
              if e["type"] == "system" and e["payload"]["kind"] == "agent.state"]
    eq(events, ["starting", "running", "waiting", "working", "waiting", "running", "stopping",
                "stopped"], "agent.state: each change once")


@manual()
def test_P22_a_start_after_a_failure_is_a_crash_until_a_process_is_seen(s):
    m, c, spawn = up(s)
    m.exited(spawn)
    eq(sight(s, c), "crashed", "asked for")
    (given,) = m.poll()
    eq(sight(s, c), "crashed", "taken")
    m.spawn(given)
    eq(sight(s, c), "running", "seen")


# ---- unmanaged ----

@manual()
def test_unmanaged_agents_are_told_and_not_commanded(s):
    Machine(s)
    c = talk(s, "a")
    for verb in ("start", "restart"):
        answer = person(s, verb, c)
        eq((answer["command"], answer["reason"]), (None, "unmanaged"), verb)
    join(s, c)
    person(s, "stop", c)
    eq(sight(s, c), "stopping", "until it leaves")
    beat = s.call("participant.heartbeat", conversation=c, role="a", connectionId="c1")
    eq(beat.get("directive"), "stop", "its heartbeat says so")
    leave(s, c)
    eq((sight(s, c), commands(s, c)), ("stopped", []), "gone")


main()
