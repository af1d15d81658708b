"""Agents are started when they should run, and stopped when their conversation ends, whoever ends
it: by one follower of the log, after any crash, each on its own."""
import json
import os
import signal
import sqlite3
import threading

from fleet import (MANUAL, Picture, batch, check_stopped, commands, deliver, edit_store, ensured,
                   kind_of, managed, open_starts, settle, starts, states, terminal)
from reeve_test import (Client, Closed, RpcError, Server, check, eq, main, server, together,
                        wait_for)
from wire import TEXT, frame

HERE = os.path.dirname(os.path.abspath(__file__))


# ---- the methods ----

@server(args=MANUAL)
def test_create_starts_those_that_are_desired_running(s):
    s.call("machine.register", machine="m1", instance="1", kinds=[{"name": "worker"}])
    agents = [{"role": "a", "kind": "worker", "machine": "m1", "desired": "running"},
              {"role": "b", "kind": "worker"},
              {"role": "c", "kind": "worker", "desired": "stopped"}]
    c = s.call("conversation.create", agents=agents)["conversation"]
    eq(ensured(s, c), {"a": "starting"}, "ensured")
    (start,) = commands(s)
    eq({k: start[k] for k in ("command", "type", "conversation", "role", "kind", "machine",
                              "status", "reason", "closedAt", "outcome")},
       {"command": 1, "type": "start-agent", "conversation": c, "role": "a", "kind": "worker",
        "machine": "m1", "status": "pending", "reason": "conversation_created", "closedAt": None,
        "outcome": None}, "the command")
    check(len(start["spawnId"]) == 32 and start["deadline"] > start["createdAt"], start)
    eq(states(s, c), [("a", "starting", "conversation_created")], "what was said")


@server(args=MANUAL)
def test_ensure_and_stop_do_what_they_say_once(s):
    c = managed(s, "a", "b", desired="auto")
    eq(ensured(s, c), {}, "at first")
    answer = s.call("lifecycle.ensure", conversation=c, roles=["a"])
    eq(answer, {"ensured": [{"role": "a", "view": "starting"}]}, "ensure of one")
    eq(s.call("lifecycle.ensure", conversation=c, roles=["a"]), answer, "ensure again")
    eq(ensured(s, c), {"a": "starting"}, "one of two")
    eq(s.call("lifecycle.getEnsured", conversation=c, roles=["b"]), {"ensured": []}, "the other")
    eq(s.call("lifecycle.ensure", conversation=c, roles=None),
       {"ensured": [{"role": r, "view": "starting"} for r in "ab"]}, "ensure of all")
    eq(len(starts(s, c)), 2, "starts")
    for _ in range(2):
        eq(s.call("lifecycle.stop", conversation=c, roles=["a"]), {}, "stop")
        eq(ensured(s, c), {"b": "starting"}, "after the stop")
    check_one = [(x["role"], x["status"], x["outcome"]) for x in starts(s, c)]
    eq(check_one, [("a", "failed", "stopped_by_user"), ("b", "pending", None)], "commands")
    eq(s.call("lifecycle.stop", conversation=c), {}, "stop of all")
    eq(states(s, c), [("a", "starting", "ensured_by_user"), ("b", "starting", "ensured_by_user"),
                      ("a", "stopped", "stopped_by_user"), ("b", "stopped", "stopped_by_user")],
       "each change, once")
    agents = s.call("conversation.get", conversation=c)["agents"]
    eq([(a["desired"], a["view"]) for a in agents], [("stopped", "stopped")] * 2, "agents")


@server(args=MANUAL)
def test_roles_are_found_in_any_case_and_all_or_none(s):
    c = managed(s, "Builder", "b", desired="auto")
    eq(s.call("lifecycle.ensure", conversation=c, roles=["BUILDER", "builder"])["ensured"],
       [{"role": "builder", "view": "starting"}], "named twice")
    eq(len(commands(s)), 1, "commands of an agent named twice")
    for method in ("lifecycle.ensure", "lifecycle.stop", "lifecycle.getEnsured"):
        error = s.refused("NOT_FOUND", method, conversation=c, roles=["b", "ghost"])
        eq((error.data["what"], error.data["id"]), ("agent", "ghost"), "what is missing")
        s.refused("NOT_FOUND", method, conversation=99)
        s.refused("INVALID_PARAMS", method, conversation=c, roles=["not a name"])
        s.refused("INVALID_PARAMS", method, conversation=c, roles="b")
        s.refused("INVALID_PARAMS", method)
    eq(ensured(s, c), {"builder": "starting"}, "after what was refused")
    eq(len(commands(s)), 1, "commands after what was refused")
    eq(s.call("lifecycle.ensure", conversation=c, roles=[]), {"ensured": []}, "of nobody")


@server(args=MANUAL)
def test_a_key_makes_an_ensure_happen_once(s):
    c = managed(s, "a", desired="auto")
    first = s.call("lifecycle.ensure", conversation=c, idempotencyKey="k")
    s.call("lifecycle.stop", conversation=c)
    eq(s.call("lifecycle.ensure", conversation=c, idempotencyKey="k"), first, "the repeat")
    eq(ensured(s, c), {}, "and nothing was started by it")
    s.refused("IDEMPOTENCY_CONFLICT", "lifecycle.ensure", conversation=c, roles=["a"],
              idempotencyKey="k")


@server(args=MANUAL)
def test_only_an_operator_ensures_and_stops(s):
    c, other = managed(s, "a"), managed(s, "a")
    agent = s.as_token(scope="agent", conversation=c, role="a")
    for who in (agent, s.as_token(scope="read")):
        for method in ("lifecycle.ensure", "lifecycle.stop"):
            who.refused("FORBIDDEN", method, conversation=c)
        who.refused("FORBIDDEN", "command.list")
        eq(ensured(who, c), {"a": "starting"}, "everybody may look")
    agent.refused("NOT_FOUND", "lifecycle.getEnsured", conversation=other)
    eq(len(commands(s)), 2, "commands")


@server(args=MANUAL)
def test_an_agent_without_a_kind_gets_no_command(s):
    agents = [{"role": "a", "desired": "running"}, {"role": "b", "kind": "worker"}]
    c = s.call("conversation.create", agents=agents)["conversation"]
    eq(ensured(s, c), {"a": "stopped"}, "wanted, and nobody starts it for us")
    s.call("lifecycle.ensure", conversation=c)
    s.restart("stop")
    settle(s)
    eq([x["role"] for x in commands(s)], ["b"], "commands")
    s.call("conversation.end", conversation=c)
    settle(s)
    eq(ensured(s, c), {}, "after the end")
    eq([x[0] for x in states(s, c)], ["b", "b"], "nothing is claimed about the unmanaged one")


@server(args=MANUAL)
def test_commands_are_listed_in_pages(s):
    numbers = [managed(s, "a", "b") for _ in range(3)]
    everything = commands(s)
    eq([x["command"] for x in everything], list(range(1, 7)), "in order")
    page = s.call("command.list", limit=4)
    eq((len(page["commands"]), page["next"]), (4, 4), "a page")
    page = s.call("command.list", after=4, limit=4)
    eq([x["command"] for x in page["commands"]], [5, 6], "the next")
    eq(s.call("command.list", after=6), {"commands": [], "next": None}, "after the last")
    eq(commands(s, numbers[1]), everything[2:4], "of one conversation")
    for wrong in ({"limit": 0}, {"limit": 501}, {"after": -1}):
        s.refused("INVALID_PARAMS", "command.list", **wrong)


# ---- at the same time ----

@server(args=MANUAL)
def test_L15_ensure_of_two_agents_at_the_same_time_starts_both(s):
    for _ in range(20):
        c = managed(s, "a", "b", desired="auto")
        together(*(lambda r=r: s.call("lifecycle.ensure", conversation=c, roles=[r]) for r in "ab"))
        eq(ensured(s, c), {"a": "starting", "b": "starting"}, "by two threads")
        c = managed(s, "a", "b", desired="auto")
        batch(s, *(("lifecycle.ensure", {"conversation": c, "roles": [r]}) for r in "ab"))
        eq(ensured(s, c), {"a": "starting", "b": "starting"}, "in one batch")
        eq(sorted(x["role"] for x in open_starts(s, c)), ["a", "b"], "starts")


@server(args=MANUAL)
def test_P4_a_hundred_ensures_at_once_make_one_start(s):
    c = managed(s, "a", desired="auto")
    call = ("lifecycle.ensure", {"conversation": c})
    together(*([lambda: batch(s, *[call] * 20)] * 4), *([lambda: s.call(call[0], **call[1])] * 20))
    eq(len(commands(s)), 1, "commands")
    eq(states(s, c), [("a", "starting", "ensured_by_user")], "what was said")


@server(args=MANUAL)
def test_P4_never_more_than_one_open_start(s):
    """Ensure and stop from all sides; whoever is last, the commands agree with the view."""
    c = managed(s, "a", desired="auto")
    calls = [(f"lifecycle.{verb}", {"conversation": c}) for verb in ("ensure", "stop")]

    def churn():
        for _ in range(10):
            batch(s, *calls * 3)
            batch(s, *calls[::-1] * 3)

    together(*[churn] * 4)
    eq(len(open_starts(s, c)), len(ensured(s, c)), "open starts")
    s.call("lifecycle.stop", conversation=c)
    eq((open_starts(s, c), ensured(s, c)), ([], {}), "after a last stop")


# ---- the end ----

def ways_to_end():
    """name: (what the conversation needs, how it ends)"""
    def say(finality):
        return lambda c: ("message.send", {"conversation": c, "agentId": "a", "text": "x",
                                           "finality": finality})

    def wait(_):
        return ("clock.advance", {"ms": 1001})

    return {
        "end": ({}, lambda c: ("conversation.end", {"conversation": c, "outcome": "failed"})),
        "message": ({}, say("conversation")),
        "max_turns": ({"maxTurns": 1}, say("turn")),
        "idle_timeout": ({"watchdog": {"idleMs": 1000}}, wait),
        "global_idle_timeout": ({"watchdog": {"globalIdleMs": 1000}}, wait),
        "blocked": ({"runtime_controls": {"session_wall_clock_seconds": 1}}, wait),
    }


def begin(s, needs, *roles, desired="running"):
    """A conversation for that way; it has an open turn unless only silence is to end it."""
    c = managed(s, *roles, desired=desired, **needs)
    if "globalIdleMs" not in needs.get("watchdog", {}) and "maxTurns" not in needs:
        s.say(c, "a", "hello")
    return c


@server(args=MANUAL)
def test_L16_no_agent_outlives_its_conversation_however_it_ends(s):
    for name, (needs, how) in ways_to_end().items():
        c = begin(s, needs, "a", "b", "c")
        s.call("lifecycle.stop", conversation=c, roles=["c"])
        method, params = how(c)
        s.call(method, **params)
        settle(s)
        reason = "conversation_blocked" if name == "blocked" else "conversation_ended"
        eq(ensured(s, c), {}, f"ensured after {name}")
        eq([(x["status"], x["outcome"]) for x in starts(s, c)],
           [("failed", reason)] * 2 + [("failed", "stopped_by_user")], f"starts after {name}")
        eq(states(s, c)[3:], [("c", "stopped", "stopped_by_user"), ("a", "stopped", reason),
                              ("b", "stopped", reason)], f"said after {name}")
        eq(commands(s, c, type="stop-agent"), [], "no machine had them: there is nothing to stop")
        if name != "blocked":
            terminal(s, c)
        desired = [a["desired"] for a in s.call("conversation.get", conversation=c)["agents"]]
        eq(desired, ["running", "running", "stopped"], "what people want is theirs")


@server(args=MANUAL)
def test_L16_an_ensure_around_the_end_leaves_nobody(s):
    """Ensure, the end, and ensure again, in one batch: before the follower has had its turn."""
    for name, (needs, how) in ways_to_end().items():
        c = begin(s, needs, "a", "b", desired="auto")
        ensure = ("lifecycle.ensure", {"conversation": c})
        answers = batch(s, ensure, how(c), ensure)
        eq(len(answers[0]["ensured"]), 2, "the first is in time")
        check(isinstance(answers[1], dict), f"{name} gave {answers[1]}")
        eq(answers[2], "CONVERSATION_BLOCKED" if name == "blocked" else "CONVERSATION_FINALIZED",
           f"an ensure after {name}")
        settle(s)
        eq((ensured(s, c), open_starts(s, c)), ({}, []), f"after {name}")
        eq(len(starts(s, c)), 2, f"starts after {name}")


@server(args=MANUAL)
def test_L16_ensure_and_end_race(s):
    def try_to_ensure(c):
        try:
            s.call("lifecycle.ensure", conversation=c)
        except RpcError as e:
            eq(e.name, "CONVERSATION_FINALIZED", "why not")

    for _ in range(20):
        c = managed(s, "a", "b", desired="auto")
        together(*[lambda c=c: try_to_ensure(c)] * 3,
                 lambda c=c: s.call("conversation.end", conversation=c))
        settle(s)
        eq((ensured(s, c), open_starts(s, c)), ({}, []), "after the end")
        terminal(s, c)


@server(args=MANUAL)
def test_L16_what_has_ended_is_never_ensured_or_resumed(s):
    c = managed(s, "a")
    s.call("conversation.end", conversation=c)
    s.refused("CONVERSATION_FINALIZED", "lifecycle.ensure", conversation=c)
    s.refused("FORBIDDEN", "lifecycle.ensure", conversation=0)
    eq(s.call("lifecycle.stop", conversation=c), {}, "a stop is always possible")
    s.restart()
    settle(s)
    s.refused("CONVERSATION_FINALIZED", "lifecycle.ensure", conversation=c)
    eq((ensured(s, c), len(commands(s))), ({}, 1), "after a restart")


def test_agents_are_stopped_without_anybody_asking(s):
    """On the real clock."""
    c = managed(s, "a", "b", watchdog={"globalIdleMs": 30})
    wait_for(lambda: ensured(s, c) == {}, "the end of its agents")
    eq(s.call("conversation.get", conversation=c)["stop_reason_code"], "global_idle_timeout", "why")
    eq(open_starts(s, c), [], "open starts")


@server(args=MANUAL)
def test_the_server_log_tells_of_agents_after_the_end(s):
    c = managed(s, "a")
    end = s.call("conversation.end", conversation=c)
    settle(s)
    eq(terminal(s, c)["id"], end["id"], "the last event of the conversation")
    (told,) = [e for e in s.events(0) if kind_of(e) == "agent.state"]
    check(told["id"] > end["id"], "it comes after the end")
    eq((told["agentId"], told["payload"]["data"]),
       ("system-lifecycle", {"agent": f"{c}:a", "conversation": c, "status": "stopped",
                             "reason": "conversation_ended", "epoch": 0}), "the event")


# ---- blocked, resumed ----

def on_a_budget(s, *roles):
    """A conversation that is blocked after 1001 ms."""
    return managed(s, *roles, runtime_controls={"session_wall_clock_seconds": 1})


@server(args=MANUAL)
def test_a_blocked_conversation_is_resumed_with_those_that_should_run(s):
    c = on_a_budget(s, "a", "b", "c")
    s.call("lifecycle.stop", conversation=c, roles=["b"])
    settle(s, 1001)
    eq(ensured(s, c), {}, "while blocked")
    s.refused("CONVERSATION_BLOCKED", "lifecycle.ensure", conversation=c)
    eq(s.call("lifecycle.stop", conversation=c, roles=["c"]), {}, "a person may stop one")
    s.call("conversation.resume", conversation=c)
    eq(ensured(s, c), {"a": "starting"}, "P14: a person's stop is not undone")
    (start,) = open_starts(s, c)
    eq((start["type"], start["role"], start["reason"]),
       ("start-agent", "a", "conversation_resumed"), "the new start")
    settle(s, 1001)
    s.call("conversation.resume", conversation=c)
    eq([x[1] for x in states(s, c) if x[0] == "a"], ["starting", "stopped"] * 2 + ["starting"],
       "window after window")
    spawns = [x["spawnId"] for x in starts(s, c)]
    eq(len(spawns), len(set(spawns)), "each start is another process")


@server(args=MANUAL)
def test_P14_a_stop_by_a_person_survives_everything(s):
    c = on_a_budget(s, "a")
    s.call("lifecycle.stop", conversation=c)
    settle(s, 1001)
    s.call("conversation.resume", conversation=c)
    s.restart()
    settle(s)
    eq((ensured(s, c), len(commands(s))), ({}, 1), "never started again")
    s.call("lifecycle.ensure", conversation=c)
    eq(ensured(s, c), {"a": "starting"}, "but by a person")


def resume_before_the_follower(s, c, crowd):
    """Blocked, and resumed before the follower knows, because it is pages of the log behind: a
    crowd is stopped and started many times in the tick that blocks c. A pass of the watchdog takes
    what is behind it in the batch to the next tick. True if the log shows that it was in time."""
    settle(s, 1000)  # the notice, which would come in between
    noise = [("lifecycle." + verb, {"conversation": crowd}) for verb in ("stop", "ensure")] * 10
    next_tick, resume = ("watchdog.runOnce", {}), ("conversation.resume", {"conversation": c})
    calls = [next_tick, *noise, next_tick, resume, next_tick, resume]
    requests = [{"jsonrpc": "2.0", "id": i, "method": m, "params": p}
                for i, (m, p) in enumerate([("clock.advance", {"ms": 1}), *calls])]
    with s.socket() as ws:
        texts = json.dumps(requests[0]), json.dumps(requests[1:])
        ws.send(b"".join(frame(TEXT, t.encode()) for t in texts))
        answers = [json.loads(ws.text_in()) for _ in texts]
    (answers,) = [a for a in answers if isinstance(a, list)]
    check(any("result" in a for a in answers if calls[a["id"] - 1][0] == "conversation.resume"),
          f"resumed: {answers[-4:]}")
    settle(s)
    return not [x for x in states(s, c) if x[1] in ("stopped", "stopping")]


@server(args=MANUAL)
def test_resumed_before_the_follower_came_they_are_left_alone(s):
    crowd, early = managed(s, *(f"r{i}" for i in range(100))), 0
    for _ in range(3):
        c = on_a_budget(s, "a", "b")
        early += resume_before_the_follower(s, c, crowd)
        eq(ensured(s, c), {"a": "starting", "b": "starting"}, "after the resume")
        eq(sorted(x["role"] for x in open_starts(s, c)), ["a", "b"], "open starts")
        eq([x["outcome"] for x in starts(s, c)][:2], ["conversation_blocked"] * 2, "the old ones")
    check(early > 0, "the follower always came first: this tests nothing")


@server(args=MANUAL)
def test_resumed_before_the_follower_came_a_process_is_replaced_not_joined(s):
    crowd, early = managed(s, *(f"r{i}" for i in range(100))), 0
    for _ in range(3):
        c = on_a_budget(s, "a")
        s.stop()
        deliver(s, c)
        s.start()
        early += resume_before_the_follower(s, c, crowd)
        (start,) = open_starts(s, c)
        eq(start["type"], "restart-agent", "there may be a process: it is proven dead first")
    check(early > 0, "the follower always came first: this tests nothing")


# ---- a machine had the start ----

@server(args=MANUAL)
def test_a_start_that_was_taken_is_stopped_by_a_command(s):
    ended, blocked = managed(s, "a", "b"), on_a_budget(s, "a", "b")
    s.stop()
    deliver(s, ended, blocked, role="a")
    s.start()
    settle(s)
    taken = {c: {x["role"]: x["spawnId"] for x in starts(s, c, status="delivered")}
             for c in (ended, blocked)}
    eq([list(t) for t in taken.values()], [["a"]] * 2, "who was taken")
    s.call("conversation.end", conversation=ended)
    settle(s, 1001)
    check_stopped(Picture(s, ended), ended, "conversation_ended", taken[ended])
    check_stopped(Picture(s, blocked), blocked, "conversation_blocked", taken[blocked])
    terminal(s, ended)
    for method in ("lifecycle.stop", "lifecycle.stop"):
        s.call(method, conversation=ended)
    eq(len(commands(s, ended, type="stop-agent")), 1, "stops of one process, whoever asks")


@server(args=MANUAL)
def test_a_process_that_may_still_be_there_is_replaced_not_joined(s):
    c, d = on_a_budget(s, "a"), managed(s, "a")
    s.stop()
    deliver(s, c, d)
    s.start()
    settle(s, 1001)
    s.call("conversation.resume", conversation=c)
    s.call("lifecycle.stop", conversation=d)
    eq(ensured(s, d), {"a": "stopping"}, "until it is seen to end")
    s.call("lifecycle.ensure", conversation=d)
    for number in (c, d):
        (start,) = open_starts(s, number)
        eq(start["type"], "restart-agent", f"{number}: the old one is proven dead first")
        eq(ensured(s, number), {"a": "starting"}, "view")
        old, new = starts(s, number)
        check(old["spawnId"] != new["spawnId"], "another process")


@server(args=MANUAL)
def test_P22_a_taken_start_is_not_forgotten_by_a_later_one(s):
    """Taken, stopped, ensured, stopped again: nobody has seen the first process end."""
    c = managed(s, "a")
    s.stop()
    deliver(s, c)
    s.start()
    for verb in ("stop", "ensure", "stop"):
        s.call(f"lifecycle.{verb}", conversation=c)
    eq(len(commands(s, c, type="stop-agent", closedAt=None)), 1, "it is still told to stop")
    eq(ensured(s, c), {"a": "stopping"}, "so it is not stopped yet")
    s.call("lifecycle.ensure", conversation=c)
    eq(open_starts(s, c)[0]["type"], "restart-agent", "and the next one replaces it")


# ---- crashes (more of them: tests/crash/test_fail_points.py) ----

@server(args=MANUAL, env={"REEVE_FAIL_POINT": "lifecycle.end_committed"})
def test_L17_a_crash_between_ended_and_stopped_revives_nobody(s):
    c, other = managed(s, "a", "b"), managed(s, "a")
    try:
        s.call("conversation.end", conversation=c)
    except (Closed, OSError):
        pass
    eq(s.wait(), -signal.SIGKILL, "it dies there")
    s.env = {}
    s.start()
    settle(s)
    terminal(s, c)
    check_stopped(Picture(s, c), c, "conversation_ended")
    eq(ensured(s, other), {"a": "starting"}, "the other one")
    eq(len(commands(s)), 3, "nothing was started twice")


@server(args=MANUAL)
def test_L17_a_follower_that_is_behind_catches_up_and_repeats_nothing(s):
    """Its cursor is set back to the beginning, over more than a page of events. One agent is left
    as a crash would; another as wanted, though its conversation has ended."""
    numbers = [managed(s, "a") for _ in range(200)]
    for c in numbers[:100]:
        s.call("conversation.end", conversation=c)
    settle(s)
    before = (commands(s), s.events(0))
    s.stop()
    edit_store(s, "UPDATE cursors SET id = 0 WHERE name = 'lifecycle'",
               ("UPDATE agents SET ensured = 1, view = 'starting', process = 'starting' WHERE conversation = ?",
                (numbers[99],)),
               ("UPDATE agents SET ensured = 1 WHERE conversation = ?", (numbers[98],)))
    s.start()
    settle(s)
    eq(commands(s), before[0], "commands")
    new = s.events(0)[len(before[1]):]
    eq([e["payload"]["data"]["agent"] for e in new], [f"{numbers[99]}:a"], "what it found to do")
    eq([c for c in numbers if ensured(s, c)], numbers[100:], "who runs")


@server(args=MANUAL)
def test_an_end_is_found_between_pages_of_other_events(s):
    crowd, c = managed(s, *(f"r{i}" for i in range(100))), managed(s, "a")
    noise = [("lifecycle." + verb, {"conversation": crowd}) for verb in ("stop", "ensure")] * 10
    batch(s, *noise, ("conversation.end", {"conversation": c}), *noise)
    settle(s)
    check_stopped(Picture(s, c), c, "conversation_ended")
    eq(len(ensured(s, crowd)), 100, "the crowd")


@server(args=MANUAL)
def test_all_that_should_run_are_started_at_start_once(s):
    """More than a page of them, and more in one conversation than a page."""
    roles = [f"r{i}" for i in range(100)]
    large, small = managed(s, *roles), [managed(s, "a", "b") for _ in range(30)]
    s.stop()
    edit_store(s, "DELETE FROM machine_commands", "UPDATE agents SET view = 'stopped', process = 'none', spawn_id = NULL")
    for _ in range(2):
        s.start()
        settle(s)
        eq(len(open_starts(s, large)), 100, "starts of the large one")
        eq(sorted(x["conversation"] for x in commands(s) if x["conversation"] != large),
           sorted(small * 2), "starts of the small ones")
        eq({x["reason"] for x in commands(s)}, {"server_started"}, "why")
        s.stop()
    s.start()


# ---- one that cannot be handled ----

def retries(s):
    return [line for line in s.log().splitlines() if " error lifecycle agent_failed " in line]


@server(args=MANUAL)
def test_L18_a_damaged_agent_keeps_nobody_from_being_resumed_or_stopped(s):
    c, other, over = managed(s, "a", "bad", "z"), managed(s, "a"), managed(s, "a", "bad", "z")
    s.stop()
    damage = "UPDATE agents SET view = 'nonsense' WHERE role = 'bad' AND conversation = ?"
    edit_store(s, "DELETE FROM machine_commands", "UPDATE agents SET view = 'stopped', process = 'none', spawn_id = NULL",
               (damage, (c,)))
    s.start()
    settle(s)
    eq(sorted(x["role"] for x in open_starts(s, c)), ["a", "z"], "the others are resumed")
    eq(ensured(s, other), {"a": "starting"}, "the conversation after it")
    eq(len(ensured(s, over)), 3, "and the last")
    s.call("conversation.end", conversation=c)
    s.call("conversation.end", conversation=over)
    settle(s)
    eq([x for x in states(s, c) if x[1] == "stopped"],
       [(r, "stopped", "conversation_ended") for r in ("a", "z")], "the others are stopped")
    eq((ensured(s, over), open_starts(s, c)), ({}, []), "everywhere")
    check(retries(s), "and the log tells")
    s.stop()
    edit_store(s, "UPDATE agents SET view = 'starting' WHERE view = 'nonsense'")
    s.start()
    settle(s)
    eq([x for x in states(s, c) if x[0] == "bad"][-1][1], "stopped", "mended, it is stopped")


def start_with_a_trap(s, index, *before):
    """An index of ours in the store makes one statement fail, until its cause goes away."""
    s.stop()
    edit_store(s, *before, index)
    s.start()
    settle(s)


@server(args=MANUAL)
def test_L18_one_that_cannot_be_started_is_tried_again_later(s):
    holder, c = managed(s, "bad", desired="auto"), managed(s, "a", "bad", "z")
    other = managed(s, "a")
    start_with_a_trap(
        s, "CREATE UNIQUE INDEX trap ON machine_commands (role)"
           " WHERE role = 'bad' AND closed_at IS NULL",
        "DELETE FROM machine_commands", "UPDATE agents SET view = 'stopped', process = 'none', spawn_id = NULL",
        ("UPDATE agents SET ensured = 1, desired = 'running' WHERE conversation = ?", (holder,)))
    eq(ensured(s, holder), {"bad": "starting"}, "it comes first")
    eq(ensured(s, c), {"a": "starting", "bad": "stopped", "z": "starting"}, "the others run")
    eq(ensured(s, other), {"a": "starting"}, "the conversation after it too")
    tried = 1
    eq(len(retries(s)), tried, "tries")
    for wait in (1000, 2000, 4000, 8000):
        settle(s, wait - 1)
        eq(len(retries(s)), tried, f"not before {wait} ms")
        settle(s, 1)
        tried += 1
        eq(len(retries(s)), tried, f"after {wait} ms")
    settle(s, 15_000)
    s.call("lifecycle.stop", conversation=holder)
    eq(len(open_starts(s, c)), 2, "its cause is gone, its time has not come")
    settle(s, 1000)
    eq(ensured(s, c), {"a": "starting", "bad": "starting", "z": "starting"}, "now it runs")
    eq(len(starts(s, c)), 3, "each was started once")
    settle(s, 900_000)
    eq(len(retries(s)), tried, "and that is the end of it")


@server(args=MANUAL)
def test_L18_one_that_cannot_be_stopped_is_tried_again_later(s):
    holder, c = managed(s, "bad", desired="auto"), managed(s, "a", "bad", "z")
    other = managed(s, "a")
    start_with_a_trap(s, "CREATE UNIQUE INDEX trap ON agents (role)"
                         " WHERE role = 'bad' AND view = 'stopped'")
    for number in (c, other):
        s.call("conversation.end", conversation=number)
    settle(s)
    eq(ensured(s, c), {"bad": "starting"}, "the others are stopped")
    eq(ensured(s, other), {}, "the conversation after it too")
    eq(open_starts(s, c), [], "its start is closed all the same")
    settle(s, 1000)
    eq(len(retries(s)), 2, "tries")
    s.call("lifecycle.ensure", conversation=holder)
    settle(s, 1999)
    eq(ensured(s, c), {"bad": "starting"}, "its time has not come")
    settle(s, 1)
    eq(ensured(s, c), {}, "now it is stopped")
    check_stopped(Picture(s, c), c, "conversation_ended")
    terminal(s, c)


# ---- stopping the server ----

def errors_in(log):
    return [line for line in log.splitlines() if " error " in line]


def answered_or_closed(s, method, answers, **params):
    """Calls until the server is gone; what came back goes to `answers`."""
    caller = Client(s.port, s.token)
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    try:
        while True:
            answer = caller.exchange(request)
            answers.append(answer.get("result") or answer["error"]["data"]["name"])
    except (Closed, OSError):
        answers.append("closed")


def stop_under(s, sig, *calls):
    """Ends the server while each of `calls` is being made over and over."""
    lists = [[] for _ in calls]
    threads = [threading.Thread(target=answered_or_closed, args=(s, m, a), kwargs=p, daemon=True)
               for (m, p), a in zip(calls, lists)]
    for t in threads:
        t.start()
    wait_for(lambda: any(lists), "the first answer")
    s.stop(sig)
    for t in threads:
        t.join(20)
        check(not t.is_alive(), "a request was neither answered nor closed")
    eq([a[-1] for a in lists], ["closed"] * len(calls), "the last of each")
    eq(errors_in(s.log()), [], "errors in the log")
    names = {x for a in lists for x in a if isinstance(x, str)}
    check(names <= {"closed", "UNAVAILABLE"}, f"answers {names}")


def check_intact(s, numbers):
    for c in numbers:
        events = s.events(c)
        eq([e["seq"] for e in events], list(range(1, len(events) + 1)), f"seq of {c}")
        kinds = [kind_of(e) for e in events]
        is_over = events[-1]["finality"] == "conversation"
        eq(kinds.count("idle_timeout"), int(is_over), f"advisories of {c}")
        eq(ensured(s, c), {} if is_over else {"a": "starting"}, f"agents of {c}")


def test_L19_signals_with_deadlines_armed(s):
    """The real clock; silence falls due before, while and after the server ends."""
    for sig in (signal.SIGTERM, signal.SIGINT):
        numbers = [managed(s, "a", watchdog={"idleMs": 5 * i + 1}) for i in range(60)]
        for c in numbers:
            s.say(c, "a", "hello")
        wait_for(lambda c=numbers[0]: ensured(s, c) == {}, "the first to fall due")
        stop_under(s, sig, ("watchdog.runOnce", {}), ("lifecycle.getEnsured",
                                                      {"conversation": numbers[-1]}))
        s.start()
        wait_for(lambda: not any(ensured(s, c) for c in numbers), "the rest")
        check_intact(s, numbers)


@server(args=MANUAL)
def test_L19_signals_while_the_clock_is_advanced(s):
    for sig in (signal.SIGTERM, signal.SIGINT):
        numbers = [managed(s, "a", watchdog={"idleMs": 1000 * i + 1}) for i in range(200)]
        for c in numbers:
            s.say(c, "a", "hello")
        stop_under(s, sig, ("clock.advance", {"ms": 40_000}),
                   ("watchdog.runOnce", {"rule": "conversation.idle"}))
        s.start()
        settle(s)
        check_intact(s, numbers)
        settle(s, 1_000_000)
        check_intact(s, numbers)
        check(not any(ensured(s, c) for c in numbers), "in the end all are over")


@server(args=MANUAL)
def test_L19_a_call_under_way_is_answered(s):
    numbers = [managed(s, "a", watchdog={"globalIdleMs": 1000 * i + 1}) for i in range(400)]
    with s.socket() as ws:
        ws.text_out(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "clock.advance",
                                "params": {"ms": 1_000_000}}))
        wait_for(lambda: ensured(s, numbers[1]) == {}, "the second end")
        s.stop()
        answer = json.loads(ws.text_in())
        eq(answer["id"], 1, "id of the answer")
        eq(answer["error"]["data"]["name"], "UNAVAILABLE", "it could not be finished")
        eq(ws.wait_close(), 1001, "and then the connection is closed")
    s.start()
    settle(s)
    left = [c for c in numbers if ensured(s, c)]
    check(0 < len(left) < len(numbers), f"{len(left)} are left")
    settle(s, 1_000_000)
    eq([c for c in numbers if ensured(s, c)], [], "in the end")


# ---- a store of before ----

OPEN, CLOSED, ENDED, MAXED, QUIET, SPARED = range(1, 7)  # fixtures/store_v1.sql


def server_on_v1(*args):
    s = Server(args=args)
    os.makedirs(s.data)
    db = sqlite3.connect(os.path.join(s.data, "reeve.db"))
    with open(os.path.join(HERE, "fixtures", "store_v1.sql")) as f:
        db.executescript(f.read())
    log = {c: db.execute("SELECT id, seq, payload FROM conversation_events WHERE conversation = ?"
                         " ORDER BY seq", (c,)).fetchall() for c in range(1, 7)}
    db.close()
    s.start()
    return s, log


def check_old_log(s, log):
    """What was there is there, in its place."""
    for c, rows in log.items():
        events = s.events(c)
        eq([(e["id"], e["seq"], e["payload"]) for e in events[:len(rows)]],
           [(i, n, json.loads(p)) for i, n, p in rows], f"the old log of {c}")


def check_started(s):
    eq(ensured(s, OPEN), {"builder": "starting", "person": "stopped"}, "agents of the open one")
    eq({c: ensured(s, c) for c in (CLOSED, ENDED, MAXED, QUIET, SPARED)},
       {CLOSED: {"builder": "starting"}, ENDED: {}, MAXED: {}, QUIET: {},
        SPARED: {"builder": "starting"}}, "agents of the others")
    eq([(x["conversation"], x["role"], x["type"], x["reason"]) for x in commands(s)],
       [(c, "builder", "start-agent", "server_started") for c in (OPEN, CLOSED, SPARED)], "starts")


def statuses(s):
    return [s.call("conversation.get", conversation=c)["status"] for c in range(1, 7)]


def test_a_store_of_version_1_is_watched_from_where_it_was():
    s, log = server_on_v1(*MANUAL)
    eq(settle(s), "2023-11-14T22:13:30.000Z", "the time of its last tick")
    check_started(s)
    check_old_log(s, log)
    ended = [s.call("conversation.get", conversation=c) for c in (ENDED, MAXED)]
    settle(s, 55_000)
    eq(statuses(s)[QUIET - 1], "active", "60 s of silence are allowed")
    settle(s, 1)
    eq(terminal(s, QUIET)["ts"], "2023-11-14T22:14:25.001Z", "and not more")
    settle(s, 900_000 - 64_001)
    eq(statuses(s)[OPEN - 1], "active", "15 minutes are allowed by default")
    settle(s, 1)
    end = terminal(s, OPEN)
    eq((end["ts"], end["payload"]["metadata"]),
       ("2023-11-14T22:28:21.001Z",
        {"reason": "idle_timeout", "lastEventTs": "2023-11-14T22:13:21.000Z"}), "and not more")
    eq(ensured(s, OPEN), {}, "its agents")
    settle(s, 3_000_000)
    eq(statuses(s), ["completed", "active", "completed", "completed", "completed", "active"],
       "a closed turn and a disabled watchdog wait for ever")
    settle(s, 14_400_000)
    eq([statuses(s)[c - 1] for c in (CLOSED, SPARED)], ["blocked"] * 2, "but for the budget")
    eq([s.call("conversation.get", conversation=c) for c in (ENDED, MAXED)], ended, "the ended")
    check_old_log(s, log)
    s.stop()


def test_a_store_of_version_1_is_not_convicted_for_the_time_between():
    s, log = server_on_v1("--set", "runtime_controls.session_wall_clock_seconds=0")
    wait_for(lambda: len(commands(s)) == 3, "those that should run")
    answer = s.call("watchdog.runOnce")
    eq((answer["canceled"], answer["errors"]), (0, 0), "nobody is due")
    check_started(s)
    check_old_log(s, log)
    eq(statuses(s), ["active", "active", "completed", "completed", "active", "active"], "statuses")
    (gap,) = [e["payload"]["data"] for e in s.events(0) if kind_of(e) == "watch.gap"]
    eq((gap["kind"], gap["from"]), ("down", "2023-11-14T22:13:30.000Z"), "the gap")
    (clock,) = [x for x in s.call("conversation.why", conversation=QUIET)["clocks"]
                if x["rule"] == "conversation.idle"]
    check(0 < clock["leftMs"] <= 55_001, f"5 s of 60 were used when it went down: {clock}")
    s.stop()
    version = sqlite3.connect(os.path.join(s.data, "reeve.db")).execute(
        "SELECT MAX(version) FROM schema_version").fetchone()
    check(version[0] > 1, "migrated")


def test_a_store_of_version_1_is_over_its_budget():
    """Wall-clock time is wall-clock time: nobody watched, and it was used up all the same."""
    s, _ = server_on_v1()
    wait_for(lambda: statuses(s) == ["blocked", "blocked", "completed", "completed", "active",
                                     "blocked"], "the budgets")
    wait_for(lambda: not any(ensured(s, c) for c in range(1, 7)), "the end of their agents")
    check(not any(x["closedAt"] is None for x in commands(s)), "open commands")
    s.call("conversation.resume", conversation=OPEN)
    eq(ensured(s, OPEN), {"builder": "starting", "person": "stopped"}, "resumed")
    s.stop()


if __name__ == "__main__":
    main()
