"""The machine's side of the contract: it registers, polls, reports, goes and comes back.

Commands handed over once and in order, facts about processes that are old, strange or told twice,
instances, tokens, reconciliation both ways, and the methods about agents that people use.
"""
from crew import claim, ends, give, join, tasks
from fleet import commands, open_starts, starts
from reeve_test import RpcError, check, eq, main, together, wait_for
from scripted_machine import (CLEAN, CRASH, DEADLINE_MS, FENCE_MS, TTL_MS, Machine, MachinePoll, agent_of,
                              boot, command, kind, restart_at, sight, starts_of, told, work)
from watch_model import advance, gap, manual, ms, now

UNLIMITED = {"runtime_controls": {"session_wall_clock_seconds": 0}, "watchdog": {"disabled": True}}


def wanted(s, *roles, desired="running", of_kind="worker", **more):
    agents = [{"role": r, "kind": of_kind, "desired": desired} | more for r in roles or ("a",)]
    return s.call("conversation.create", agents=agents, **UNLIMITED)["conversation"]


def up(s, **of_kind):
    m = Machine(s, kinds=[kind(**of_kind)])
    c = wanted(s)
    return m, c, m.boot()


def machine_of(s, name="m1"):
    (found,) = [m for m in s.call("machine.list")["machines"] if m["machine"] == name]
    return found


def person(s, verb, c, role="a"):
    return s.call(f"agent.{verb}", conversation=c, role=role)


def status_of(s, name="m1"):
    return machine_of(s, name)["status"]


# ---- registering ----

@manual()
def test_a_machine_registers_with_what_it_may_run(s):
    at = now(s)
    Machine(s, kinds=[kind("worker", restart="always", ready="notify", stopGraceMs=1), kind("b")])
    got = machine_of(s)
    eq((got["status"], got["hostname"], got["bootId"], ms(got["registeredAt"]),
        ms(got["leaseUntil"])), ("online", "host", "boot", at, at + TTL_MS), "the machine")
    eq(got["kinds"], [
        {"name": "worker", "restart": "always", "ready": "notify", "stopGraceMs": 1},
        {"name": "b", "restart": "on-failure", "ready": "none", "stopGraceMs": 5000}], "kinds")


@manual()
def test_what_is_said_wrongly_is_refused_and_changes_nothing(s):
    m = Machine(s)
    for kinds in ([{"name": "a", "restart": "sometimes"}], [{"restart": "never"}], "worker",
                  [{"name": "a", "ready": 1}]):
        m.client.refused("INVALID_PARAMS", "machine.register", machine="m1", instance="x",
                         hostname="h", bootId="b", kinds=kinds, processes=[])
    m.client.refused("INVALID_PARAMS", "machine.report", **m.identity(), facts=[{"n": 1}])
    m.client.refused("INVALID_PARAMS", "machine.report", **m.identity(),
                     facts=[{"n": 1, "fact": "burnt", "spawnId": "x"}])
    eq(m.poll(), [], "the instance is still the first")


@manual()
def test_a_machine_token_is_for_its_own_name(s):
    m = Machine(s)
    Machine(s, "m2")
    for method, more in (("register", {"hostname": "h", "bootId": "b", "kinds": [],
                                       "processes": []}),
                         ("poll", {"timeoutMs": 0, "alive": []}), ("report", {"facts": []})):
        m.client.refused("FORBIDDEN", f"machine.{method}", machine="m2", instance="x", **more)
    agent = s.as_token(scope="agent", conversation=wanted(s), role="a")
    agent.refused("FORBIDDEN", "machine.poll", **m.identity(), timeoutMs=0, alive=[])
    m.client.refused("FORBIDDEN", "agent.start", conversation=1, role="a")


@manual()
def test_polling_without_registering_is_not_found(s):
    m = Machine(s, register=False)
    error = m.client.refused("NOT_FOUND", "machine.poll", **m.identity(), timeoutMs=0, alive=[])
    eq((error.data["what"], error.data["id"]), ("machine", "m1"), "what")
    m.client.refused("NOT_FOUND", "machine.report", **m.identity(), facts=[])


@manual()
def test_an_older_instance_is_superseded(s):
    old, c, spawn = up(s)
    new = Machine(s)
    old.client.refused("SUPERSEDED", "machine.poll", **old.identity(), timeoutMs=0, alive=[])
    old.client.refused("SUPERSEDED", "machine.report", **old.identity(), facts=[
        {"n": 99, "fact": "exited", "spawnId": spawn, "exit": CRASH}])
    eq(new.instance, machine_of(s)["instance"], "the instance")


@manual()
def test_a_register_of_an_older_instance_that_was_held_up_is_refused(s):
    old = [Machine(s) for _ in range(4)]
    new = Machine(s)
    for m in old:
        m.client.refused("SUPERSEDED", "machine.register", **m.identity(), hostname="h", bootId="b",
                         kinds=m.kinds, processes=[])
    eq(new.instance, machine_of(s)["instance"], "the instance")
    eq(new.poll(), [], "its commands: it goes on")
    eq(new.register(), [], "what it says again")


def test_a_poll_of_an_older_instance_is_told_at_once(s):
    old = Machine(s)
    waiting = MachinePoll(old)
    check(waiting.is_waiting(), "it waits")
    Machine(s)
    try:
        waiting.answer()
    except RpcError as e:
        eq(e.name, "SUPERSEDED", "the answer")
    else:
        raise AssertionError("it was not told")


# ---- commands ----

def test_a_long_poll_is_answered_by_a_new_command_at_once(s):
    m = Machine(s)
    for begin in (lambda: wanted(s), lambda: s.say(idle, "user", "x", to="a"),
                  lambda: person(s, "start", other), lambda: person(s, "stop", running)):
        idle, other = wanted(s, desired="auto"), wanted(s, desired="auto")
        running = wanted(s)
        m.obey()
        waiting = MachinePoll(m)
        check(waiting.is_waiting(), "it waits")
        begin()
        eq(len(waiting.answer()), 1, "commands")
        m.register()


def test_a_long_poll_without_commands_ends_empty(s):
    m = Machine(s)
    eq(m.poll(timeout_ms=30), [], "commands")
    eq(wait_for(lambda: m.poll(timeout_ms=1) == [], "a short poll"), True, "again")


@manual()
def test_a_command_names_everything_that_is_needed(s):
    m = Machine(s)
    c = wanted(s, "builder")
    given = m.start_given()
    eq({k: given[k] for k in ("conversation", "role", "kind", "status", "ttlMs", "type")},
       {"conversation": c, "role": "builder", "kind": "worker", "status": "delivered",
        "ttlMs": DEADLINE_MS, "type": "start-agent"}, "the command")
    eq(ms(given["deadline"]), now(s) + DEADLINE_MS, "deadline")
    check(given["token"] and given["spawnId"] and given["reason"], f"{given}")
    listed = command(s, given["command"])
    check("token" not in listed, "a token is shown to its machine only")
    eq((listed["machine"], listed["closedAt"]), ("m1", None), "where")


@manual()
def test_ttl_is_the_time_that_is_left_at_delivery(s):
    m = Machine(s)
    wanted(s)
    advance(s, 50_000)
    eq(m.start_given()["ttlMs"], DEADLINE_MS - 50_000, "ttlMs")


@manual()
def test_a_command_is_handed_over_once_and_again_after_a_register(s):
    m = Machine(s)
    c = wanted(s)
    first = m.start_given()
    eq(m.poll(), [], "once")
    (again,) = m.register()
    eq((again["command"], again["spawnId"], again["status"]),
       (first["command"], first["spawnId"], "delivered"), "the machine may have lost it")
    join(m.agent(m.spawn(again)), c)
    eq(len(commands(s, c)), 1, "commands")


@manual()
def test_L49_more_commands_than_fit_one_poll_are_all_handed_over(s):
    """None waits for the confirmation of another."""
    m = Machine(s)
    for _ in range(25):
        wanted(s, *[f"r{i}" for i in range(10)])
    got = []
    for _ in range(10):
        got += m.poll()
    eq(len(got), 250, "commands of ten polls")
    eq([x["command"] for x in got], sorted({x["command"] for x in got}), "in order, once each")
    again = m.register()
    for _ in range(10):
        again += m.poll()
    eq(len({x["command"] for x in again}), 250, "and after a register")


@manual()
def test_L49_a_command_after_its_deadline_is_not_handed_over(s):
    m = Machine(s)
    c = wanted(s)
    (first,) = open_starts(s, c)
    for _ in range(2):
        advance(s, 60_000)
        m.client.call("machine.report", **m.identity(), facts=[])  # alive, but takes nothing
    advance(s, 2)
    eq(command(s, first["command"])["status"], "expired", "the first")
    (given,) = starts_of(m.poll())
    check(given["command"] > first["command"], "a new one")
    eq(given["type"], "start-agent", "the first was never taken: there is no process to prove dead")


@manual()
def test_L49_stops_and_starts_of_others_do_not_hide_each_other(s):
    m = Machine(s)
    c = wanted(s, "a", "b", "x")
    spawns = boot(s, m, c)
    person(s, "stop", c, "a")
    d = wanted(s)
    person(s, "stop", c, "x")
    eq([(x["type"], x["conversation"], x["role"]) for x in m.poll()],
       [("stop-agent", c, "a"), ("start-agent", d, "a"), ("stop-agent", c, "x")], "in order")
    eq(sight(s, c, "b"), "running", f"the third of {spawns}")


@manual()
def test_an_unassigned_start_is_taken_by_the_first_that_offers_its_kind(s):
    c = wanted(s)
    (begun,) = open_starts(s, c)
    eq((begun["machine"], sight(s, c)), (None, "starting"), "nobody offers it yet")
    advance(s, 10 * DEADLINE_MS)
    eq(len(open_starts(s, c)), 1, "it does not expire while nobody can take it")
    eq(Machine(s, "m1", kinds=[kind("other")]).registered, [], "another kind")
    second = Machine(s, "m2")
    third = Machine(s, "m3")
    eq(([x["command"] for x in second.registered], third.registered), ([begun["command"]], []),
       "the first that offers it")
    eq(second.registered[0]["ttlMs"], DEADLINE_MS, "with all the time there is")
    second.spawn(second.registered[0])
    eq(agent_of(s, c)["machine"], "m2", "it stays there")


@manual()
def test_no_command_for_an_offline_machine_the_wish_fires_at_register(s):
    m = Machine(s)
    advance(s, TTL_MS + 1)
    c = wanted(s)
    d = wanted(s, desired="auto")
    give(s, d)
    answer = person(s, "start", c)
    eq((answer["command"], answer["desired"]), (None, "running"), "a person's start waits too")
    eq(commands(s), [], "commands")
    eq(sorted(x["conversation"] for x in Machine(s).registered), [c, d], "at register")


@manual()
def test_a_wish_bound_to_a_machine_that_never_came_waits_for_it(s):
    Machine(s, "m1")
    c = wanted(s, machine="m2")
    eq(commands(s), [], "not for another")
    eq([x["conversation"] for x in Machine(s, "m2").registered], [c], "when it comes")


@manual()
def test_L43_a_wish_that_was_taken_back_does_not_fire(s):
    Machine(s)
    advance(s, TTL_MS + 1)
    c = wanted(s)
    d = wanted(s)
    person(s, "stop", c)
    s.call("conversation.end", conversation=d)
    eq(Machine(s).registered, [], "at register")


# ---- offline ----

@manual()
def test_a_machine_is_offline_when_it_has_not_polled_for_its_lease(s):
    m, c, spawn = up(s)
    at = now(s)
    advance(s, TTL_MS)
    eq((status_of(s), sight(s, c)), ("online", "running"), "at the end of its lease")
    advance(s, 1)
    eq((status_of(s), sight(s, c)), ("offline", "unknown"), "after it")
    (event,) = [e for e in s.events(0) if e["payload"]["kind"] == "machine.offline"]
    eq((event["payload"]["data"]["machine"], ms(event["ts"])), ("m1", at + TTL_MS + 1), "told")
    eq(machine_of(s)["leaseUntil"], None, "no lease")


@manual()
def test_L28_a_machine_that_was_offline_comes_back_by_polling(s):
    m, c, spawn = up(s)
    d = wanted(s, desired="auto")
    advance(s, TTL_MS + 1)
    give(s, d)
    given = m.poll()
    eq((status_of(s), sight(s, c)), ("online", "running"), "at once")
    eq([x["conversation"] for x in given], [d], "and what waited for it is told")
    check(spawn in m.processes, "nothing was stopped")


@manual()
def test_L28_a_machine_that_comes_back_with_a_report_is_back_as_well(s):
    """Facts are often the first that it says."""
    m, c, spawn = up(s)
    d = wanted(s, desired="auto")
    gone = wanted(s)
    lost = m.boot()
    advance(s, TTL_MS + 1)
    give(s, d)
    del m.processes[lost]
    m.facts()
    eq(status_of(s), "online", "status")
    given = m.poll()
    eq(sorted(x["conversation"] for x in given), [d, gone], "what it is told then")
    eq((sight(s, c), sight(s, gone)), ("running", "crashed"), "what is known then")


@manual()
def test_P16_a_machine_is_not_offline_for_time_in_which_nobody_watched(s):
    Machine(s)
    gap(s, 10 * TTL_MS)
    advance(s, TTL_MS)
    eq(status_of(s), "online", "shifted by the gap")
    advance(s, 1)
    eq(status_of(s), "offline", "and no more")


@manual()
def test_P16_a_restart_of_the_server_renews_the_lease(s):
    m, c, spawn = up(s)
    advance(s, TTL_MS - 1)
    s.restart()
    advance(s, TTL_MS)
    eq((status_of(s), sight(s, c)), ("online", "running"), "a whole lease")
    m.reconnect()
    eq(m.poll(), [], "it goes on")


@manual()
def test_going_offline_expires_open_commands_and_counts_them_for_nobody(s):
    """Pending, delivered, booting, and a stop."""
    m = Machine(s, kinds=[kind(ready="notify")])
    booting, stopping, delivered = wanted(s), wanted(s), wanted(s)
    given = {x["conversation"]: x for x in m.poll()}
    m.spawn(given[booting])
    m.ready(m.spawn(given[stopping]))
    person(s, "stop", stopping)
    pending = wanted(s)
    advance(s, TTL_MS + 1)
    eq([x["status"] for x in commands(s)], ["expired", "done", "expired", "expired", "expired"],
       "commands")
    for c in (booting, stopping, delivered, pending):
        got = agent_of(s, c)
        eq((got["restarts"], got["breaker"]), (0, {"open": False}), f"counted: {c}")


@manual()
def test_L47_a_start_that_its_machine_never_took_is_a_wish_again(s):
    m = Machine(s)
    c = wanted(s)
    advance(s, TTL_MS + 1)
    eq(sight(s, c), "stopped", "nothing is on its way any more")
    eq([(x["type"], x["conversation"]) for x in m.register()], [("start-agent", c)], "at register")


@manual()
def test_a_start_that_its_machine_took_and_did_not_do_is_told_again_and_not_counted(s):
    m = Machine(s)
    c = wanted(s)
    m.start_given()
    advance(s, TTL_MS + 1)
    eq(sight(s, c), "unknown", "it may have been started")
    eq([x["conversation"] for x in m.register()], [c], "at register")
    got = agent_of(s, c)
    eq((got["restarts"], got["view"]), (0, "starting"), "no process was seen, and none failed")


@manual()
def test_a_start_that_its_machine_did_while_offline_is_believed(s):
    m = Machine(s)
    c = wanted(s)
    given = m.start_given()
    advance(s, TTL_MS + 1)
    m.processes[given["spawnId"]] = given
    eq((m.register(), sight(s, c)), ([], "running"), "it has it")


@manual()
def test_a_start_that_its_machine_registers_as_running_is_not_told_again(s):
    """The machine was killed before it could say `spawned`. Another token would lock the process
    out that has the first one."""
    m = Machine(s)
    c = wanted(s)
    given = m.start_given()
    m.processes[given["spawnId"]] = given
    again = Machine(s, register=False)
    again.processes = m.processes
    eq(again.register(), [], "what it is told")
    eq((sight(s, c), command(s, given["command"])["status"]), ("running", "done"))
    join(m.agent(given["spawnId"]), c, "a", "p1")


@manual()
def test_a_stop_that_its_machine_did_not_do_is_sent_again_when_it_is_back(s):
    m, c, spawn = up(s)
    person(s, "stop", c)
    advance(s, TTL_MS + 1)
    eq([(x["type"], x["spawnId"]) for x in m.poll()], [("stop-agent", spawn)], "told")
    m.stopped(spawn)
    eq((sight(s, c), m.poll()), ("stopped", []), "seen to end")


@manual()
def test_a_stop_while_its_machine_is_offline_is_done_when_it_is_back(s):
    m, c, spawn = up(s)
    advance(s, TTL_MS + 1)
    person(s, "stop", c)
    advance(s, FENCE_MS - 1)
    check(sight(s, c) in ("stopping", "unknown"), "nobody has seen it end")
    eq([(x["type"], x["spawnId"]) for x in m.register()], [("stop-agent", spawn)], "told once")
    m.stopped(spawn)
    eq((sight(s, c), m.poll()), ("stopped", []), "seen to end")


# ---- facts ----

@manual()
def test_L57_a_rejected_fact_blocks_nobody(s):
    m = Machine(s)
    c = wanted(s, "a", "b")
    given = {x["role"]: x["spawnId"] for x in m.poll()}
    answer = m.facts(("spawned", given["a"], {"pid": 1}), ("exited", "nobody", {"exit": CRASH}),
                     ("start_failed", "nothing", {"error": "x"}), ("notify", "x", {"ready": True}),
                     ("stopped", "y", {}), ("spawned", given["b"], {"pid": 2}))
    eq([r["n"] for r in answer["rejected"]], [2, 3, 4, 5], "rejected")
    check(all(r["error"] for r in answer["rejected"]), "with a reason")
    eq([sight(s, c, r) for r in "ab"], ["running", "running"], "the others count")


@manual()
def test_facts_of_another_machines_process_are_rejected(s):
    m, c, spawn = up(s)
    other = Machine(s, "m2")
    for fact in ("exited", "stopped", "spawned", "start_failed", "notify"):
        answer = other.facts((fact, spawn, {"ready": True} if fact == "notify" else {}))
        eq(len(answer["rejected"]), 1, fact)
    other.processes[spawn] = {}
    eq(other.register(), [], "nor may it say that it has it")
    eq((sight(s, c), len(told(s, c))), ("running", 0), "untouched")


@manual()
def test_facts_of_an_older_process_change_nothing(s):
    m, c, old = up(s)
    m.exited(old)
    new = m.boot()
    t, _ = work(s, m, c, new)
    before = agent_of(s, c), s.call("task.get", task=t["task"]), len(s.events(c))
    for fact, more in (("exited", {"exit": CRASH}), ("stopped", {}), ("spawned", {"pid": 3}),
                       ("start_failed", {"error": "x"}), ("notify", {"ready": True})):
        m.report(fact, old, **more)
    eq((agent_of(s, c), s.call("task.get", task=t["task"]), len(s.events(c))), before, "as before")
    eq(m.poll(), [], "and nothing follows")


@manual()
def test_facts_told_twice_count_once(s):
    m = Machine(s)
    c = wanted(s)
    given = m.start_given()
    for _ in range(3):
        m.report("spawned", given["spawnId"], pid=1)
    since = agent_of(s, c)["process"]["since"]
    advance(s, 1000)
    m.report("spawned", given["spawnId"], pid=1)
    eq(agent_of(s, c)["process"]["since"], since, "since")
    for _ in range(3):
        m.report("exited", given["spawnId"], exit=CRASH)
    eq((agent_of(s, c)["restarts"], len(told(s, c)), len(starts(s, c))), (1, 1, 2), "counted once")
    again = m.poll()[0]
    for _ in range(3):
        m.report("start_failed", again["spawnId"], error="x")
    eq((agent_of(s, c)["restarts"], restart_at(s, c)), (2, now(s) + 1000), "the same for a start")


@manual()
def test_facts_out_of_order_come_to_the_same(s):
    """It was over before anybody heard of it."""
    m = Machine(s)
    c = wanted(s)
    given = m.start_given()
    m.report("exited", given["spawnId"], exit=CRASH)
    eq((sight(s, c), command(s, given["command"])["status"]), ("crashed", "failed"), "it ended")
    m.report("spawned", given["spawnId"], pid=1)
    m.report("notify", given["spawnId"], ready=True)
    eq(sight(s, c), "crashed", "late news does not wake the dead")
    eq(len(open_starts(s, c)), 1, "one start")
    m.boot()
    eq(sight(s, c), "running", "its successor")


@manual()
def test_an_exit_of_a_booting_process_is_a_failed_start(s):
    m, c, spawn = up(s, ready="notify")
    m.exited(spawn, CLEAN)
    eq(starts(s, c)[0]["status"], "failed", "the start")
    check(sight(s, c) in ("crashed", "stopped"), "not booting any more")


# ---- reconciliation ----

@manual()
def test_register_ends_what_the_server_thought_was_there(s):
    m, c, spawn = up(s)
    t, _ = work(s, m, c, spawn)
    m.processes.clear()
    (given,) = m.register()
    eq((given["type"], given["role"]), ("start-agent", "a"), "it is started again, once")
    eq(told(s, c), [(spawn, False, None)], "its end: nobody saw how")
    eq(s.call("task.get", task=t["task"])["task"]["status"], "pending", "its work")
    eq(m.poll(), [], "once")


@manual()
def test_register_tells_of_those_that_ended_meanwhile(s):
    m, c, spawn = up(s)
    m.processes.clear()
    eq(m.register(ended=[(spawn, CLEAN)]), [], "a clean end is no failure")
    eq((told(s, c), sight(s, c)), ([(spawn, False, 0)], "stopped"), "told once, with its status")


@manual()
def test_register_ends_a_process_that_was_booting(s):
    m, c, spawn = up(s, ready="notify")
    m.processes.clear()
    given = starts_of(m.register())
    eq(len(told(s, c)), 1, "its end is told")
    eq([x["spawnId"] != spawn for x in given], [True], "another is started now, not at a deadline")


@manual()
def test_L56_register_keeps_what_runs_and_is_wanted(s):
    m, c, spawn = up(s)
    t, agent = work(s, m, c, spawn)
    eq(m.register(), [], "what it is told")
    eq((sight(s, c), agent_of(s, c)["process"]["spawnId"]), ("working", spawn), "as before")
    agent.call("task.complete", task=t["task"], epoch=t["epoch"])
    new = Machine(s, register=False)
    new.processes = m.processes
    eq((new.register(), sight(s, c)), ([], "waiting"), "nor by a new instance")


@manual()
def test_L56_register_keeps_what_was_started_for_work_and_has_none_now(s):
    m = Machine(s)
    c = wanted(s, desired="auto")
    give(s, c)
    spawn = m.boot()
    t, agent = work(s, m, c, spawn)
    agent.call("task.complete", task=t["task"], epoch=t["epoch"])
    new = Machine(s, register=False)
    new.processes = m.processes
    eq((new.register(), sight(s, c)), ([], "waiting"), "what it is told, and what is shown")
    person(s, "stop", c)
    eq([x["type"] for x in new.register()], ["stop-agent"], "a person's stop")


@manual()
def test_register_stops_what_belongs_to_an_ended_conversation(s):
    m, c, spawn = up(s)
    advance(s, TTL_MS + 1)
    s.call("conversation.end", conversation=c)
    given = m.register()
    eq([(x["type"], x["spawnId"]) for x in given], [("stop-agent", spawn)], "told")
    m.stopped(spawn)
    eq((m.poll(), commands(s, c, closedAt=None)), ([], []), "and that is all")


@manual()
def test_register_stops_again_what_was_not_stopped_before_its_machine_went(s):
    m, c, spawn = up(s)
    s.call("conversation.end", conversation=c)
    eq([x["type"] for x in m.poll()], ["stop-agent"], "told, and not done")
    advance(s, TTL_MS + 1)
    eq(commands(s, c, closedAt=None), [], "closed with the machine")
    eq([(x["type"], x["spawnId"]) for x in m.register()], [("stop-agent", spawn)], "told again")


@manual()
def test_register_stops_a_process_that_is_not_its_agents_current_one(s):
    m, c, old = up(s)
    m.exited(old)
    new = m.boot()
    m.processes[old] = {}
    eq([(x["type"], x["spawnId"]) for x in m.register()], [("stop-agent", old)], "told")
    m.stopped(old)
    eq((sight(s, c), m.poll(), agent_of(s, c)["process"]["spawnId"]), ("running", [], new), "kept")


@manual()
def test_register_leaves_alone_what_it_does_not_know(s):
    m, c, spawn = up(s)
    m.processes["somebody-elses"] = {}
    eq((m.register(), sight(s, c)), ([], "running"), "what it is told")


@manual()
def test_the_end_of_a_conversation_stops_its_processes(s):
    m = Machine(s)
    c = wanted(s, "a", "b")
    spawns = boot(s, m, c)
    d = wanted(s)
    spawns[""] = m.spawn(m.start_given())
    s.call("conversation.end", conversation=c)
    advance(s, 0)
    given = m.obey()
    eq(sorted((x["type"], x["spawnId"]) for x in given),
       sorted(("stop-agent", spawns[r]) for r in "ab"), "stops")
    eq((m.poll(), sight(s, d)), ([], "running"), "nothing more, nobody else")
    eq({x["view"] for x in s.call("agent.list", conversation=c)["agents"]}, {"stopped"}, "views")


# ---- tokens of agents ----

@manual()
def test_an_agents_token_is_its_process_and_ends_with_it(s):
    m, c, spawn = up(s)
    first = m.agent(spawn)
    join(first, c, connection="p1")
    first.refused("NOT_FOUND", "participant.join", conversation=wanted(s, desired="auto"),
                  role="a", connectionId="p1")
    m.exited(spawn)
    first.refused("SUPERSEDED", "participant.join", conversation=c, role="a", connectionId="p1")
    second = m.agent(m.boot())
    join(second, c, connection="p2")
    first.refused("SUPERSEDED", "task.wait", conversation=c, role="a", connectionId="p1",
                  timeoutMs=0)
    first.refused("SUPERSEDED", "message.send", conversation=c, agentId="a", text="x")
    second.say(c, "a", "hello")


@manual()
def test_an_agents_token_is_superseded_when_its_successor_is_handed_over(s):
    m, c, spawn = up(s)
    old = m.agent(spawn)
    join(old, c, connection="p1")
    person(s, "restart", c)
    old.say(c, "a", "still here")
    m.poll()
    old.refused("SUPERSEDED", "message.send", conversation=c, agentId="a", text="x")


@manual()
def test_an_agents_token_is_superseded_when_its_conversation_has_ended(s):
    m, c, spawn = up(s)
    agent = m.agent(spawn)
    s.call("conversation.end", conversation=c)
    agent.refused("SUPERSEDED", "message.send", conversation=c, agentId="a", text="x")


def test_an_agents_token_outlives_the_server(s):
    m, c, spawn = up(s)
    s.restart()
    join(m.agent(spawn), c, connection="p1")
    eq(agent_of(s, c)["view"], "waiting", "view")


@manual()
def test_tokens_are_not_in_the_store(s):
    m, c, spawn = up(s)
    s.stop()
    with open(f"{s.data}/reeve.db", "rb") as f:
        check(m.tokens[spawn].encode() not in f.read(), "the token itself is stored")
    s.start()


# ---- evidence of a machine ----

@manual()
def test_a_poll_is_evidence_for_the_work_of_live_processes_only(s):
    m = Machine(s)
    c = wanted(s, "a", "b", "x")
    spawns = boot(s, m, c)
    mine, _ = work(s, m, c, spawns["a"], "a")
    silent, _ = work(s, m, c, spawns["b"], "b")
    join(s, c, "x", "other")
    give(s, c, "x")
    other = claim(s, c, "x", "other")
    s.call("task.start", task=other["task"], epoch=other["epoch"])
    for _ in range(5):
        advance(s, 30_000)
        m.poll(alive=[spawns["a"], spawns["x"]])
    eq([s.call("task.get", task=t["task"])["task"]["attempts"] for t in (mine, silent, other)],
       [0, 1, 1], "attempts lost: its own; a process not named; work claimed by somebody else")


# ---- methods of people ----

@manual()
def test_agent_set_adds_and_changes_a_role(s):
    m = Machine(s)
    c = wanted(s, desired="auto")
    eq(s.call("agent.set", conversation=c, role="b", kind="worker")["agent"], f"{c}:b", "added")
    got = agent_of(s, c, "b")
    eq((got["kind"], got["machine"], got["desired"], got["view"]),
       ("worker", None, "auto", "stopped"), "the new role")
    give(s, c, "b")
    eq([x["role"] for x in m.poll()], ["b"], "work starts it")
    s.call("agent.set", conversation=c, role="a", machine="m2")
    give(s, c, "a")
    eq(m.poll(), [], "it is bound elsewhere")
    eq([x["role"] for x in Machine(s, "m2").registered], ["a"], "where it is started")
    error = s.refused("INVALID_TRANSITION", "agent.set", conversation=c, role="a", kind=None)
    eq(error.data["allowed"], ["agent.stop"], "its process belongs where it is")
    s.call("agent.set", conversation=c, role="c", kind="worker")
    s.call("agent.set", conversation=c, role="c", kind=None)
    eq(person(s, "start", c, "c")["reason"], "unmanaged", "without a kind")
    s.refused("INVALID_PARAMS", "agent.set", conversation=c, role="system-x")


@manual()
def test_agent_set_removes_a_role_with_its_work(s):
    m, c, spawn = up(s)
    t, _ = work(s, m, c, spawn)
    queued = give(s, c)
    answer = s.call("agent.set", conversation=c, role="a", removed=True)
    eq(sorted(ends(s, c)), sorted((x["task"], "canceled", "agent_removed") for x in (t, queued)),
       "its work")
    eq([(x["type"], x["spawnId"]) for x in m.poll()], [("stop-agent", spawn)], "its process")
    m.stopped(spawn)
    eq([x for x in tasks(s, conversation=c) if x["status"] in ("queued", "pending")], [], "open")
    eq((m.poll(), open_starts(s, c)), ([], []), "nobody starts it again")
    eq(answer.get("agent"), f"{c}:a", "the answer")


@manual()
def test_a_removed_role_takes_no_work(s):
    c = wanted(s, "a", "b", desired="auto")
    s.call("agent.set", conversation=c, role="a", removed=True)
    s.refused("NOT_FOUND", "task.create", conversation=c, role="a", content="x")
    s.refused("NOT_FOUND", "message.send", conversation=c, agentId="user", text="x", to="a")
    eq([a["role"] for a in s.call("agent.list", conversation=c)["agents"]], ["b"], "roles")


@manual()
def test_agent_list_shows_what_is_known(s):
    m, c, spawn = up(s)
    at = now(s)
    d = wanted(s, "x", desired="auto")
    t, _ = work(s, m, c, spawn)
    got = agent_of(s, c)
    eq({k: got[k] for k in ("agent", "conversation", "role", "desired", "view", "kind", "machine",
                            "task", "restarts", "breaker")},
       {"agent": f"{c}:a", "conversation": c, "role": "a", "desired": "running", "view": "working",
        "kind": "worker", "machine": "m1", "task": t["task"], "restarts": 0,
        "breaker": {"open": False}}, "the agent")
    eq((got["process"]["spawnId"], ms(got["process"]["since"])), (spawn, at), "its process")
    eq(got["participant"]["status"], "active", "its participant")
    every = s.call("agent.list")["agents"]
    eq([a["agent"] for a in every], [f"{c}:a", f"{d}:x"], "of all conversations")
    check("task" not in every[1] and "process" not in every[1], "what there is not is not shown")


@manual()
def test_agent_why_tells_evidence_standing_and_history(s):
    m, c, spawn = up(s)
    work(s, m, c, spawn)
    m.exited(spawn)
    m.exited(m.boot())
    answer = s.call("agent.why", conversation=c, role="a")
    eq((answer["agent"], answer["view"]), (f"{c}:a", "crashed"), "whom")
    for item in answer["evidence"]:
        eq(sorted(item), ["ageMs", "kind", "source", "value"], "evidence")
    due = [x["next"] for x in answer["standing"] if x["next"]]
    check(any(x["rule"] == "agent.exited" and ms(x["dueAt"]) == now(s) + 1000 for x in due),
          f"what happens next: {due}")
    eq(len([x for x in answer["history"] if "exited" in x["what"] or "exited" in (x["rule"] or "")])
       >= 2, True, f"both ends: {answer['history']}")


@manual()
def test_command_list_is_filtered(s):
    m = Machine(s)
    Machine(s, "m2", kinds=[kind("other")])
    c, d = wanted(s), wanted(s, of_kind="other")
    m.boot()

    def listed(**only):
        return [x["conversation"] for x in s.call("command.list", **only)["commands"]]

    eq((listed(), listed(conversation=d), listed(machine="m1"), listed(status="pending")),
       ([c, d], [d], [c], [d]), "commands")


def test_methods_of_people_can_be_repeated_with_a_key(s):
    m, c, spawn = up(s)
    for verb in ("stop", "start", "restart"):
        first = s.call(f"agent.{verb}", conversation=c, role="a", idempotencyKey=verb)
        eq(s.call(f"agent.{verb}", conversation=c, role="a", idempotencyKey=verb), first, verb)


def test_many_machines_at_once_share_the_work(s):
    """Twenty machines race for forty unassigned starts: each is taken once."""
    for _ in range(4):
        wanted(s, *[f"r{i}" for i in range(10)])
    given = []
    machines = [Machine(s, f"m{i}", register=False) for i in range(20)]
    together(*[lambda m=m: given.extend(m.register() + m.poll()) for m in machines])
    eq(len(given), 40, "commands")
    eq(len({x["spawnId"] for x in given}), 40, "each once")


main()
