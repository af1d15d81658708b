"""Budgets: session.wall_clock blocks, conversation.resume opens a fresh window."""
import os

from reeve_test import Closed, Server, check, eq, folder, main
from watch_model import (ACTIVE, BLOCKED, THOUGHT, advance, clocks, edit_store, get, iso, manual,
                         ms, now, rules, state, system, trace)

CANCEL, NOTICE, RESUMED = ("runtime.watchdog.cancel", "runtime.watchdog.notice",
                           "runtime.resumed")


def budget(seconds):
    return {"runtime_controls": {"session_wall_clock_seconds": seconds}}


def cancels(s, c):
    return system(s.events(c), CANCEL)


def blocked_talk(s, *roles, **more):
    """A conversation whose budget of 10 s is over."""
    c = s.talk(*roles, **budget(10), **more)
    advance(s, 10_001)
    eq(state(s, c), BLOCKED, "state")
    return c


# ---- when ----

@manual()
def test_boundaries(s):
    """Strictly more than the budget, to the millisecond."""
    c, free = s.talk(**budget(60)), s.talk(**budget(0))
    started = now(s)
    for step, at_ms, want in ((30_000, 30_000, ACTIVE), (30_000, 60_000, ACTIVE),
                              (1, 60_001, BLOCKED), (998, 60_999, BLOCKED)):
        eq(advance(s, step), started + at_ms, "now")
        eq(state(s, c), want, f"{at_ms} ms after the start, of 60000")
    eq(cancels(s, c)[0]["payload"]["data"]["elapsed_seconds"], 60, "whole seconds")
    advance(s, 7 * 86_400_000)
    eq(state(s, free), ACTIVE, "no budget, after a week")
    eq(len(cancels(s, c)), 1, "cancels")


@manual()
def test_two_sessions_have_two_budgets(s):
    first = s.talk(**budget(60))
    advance(s, 20_000)
    second = s.talk(**budget(60))
    advance(s, 3600_000)
    eq([len(cancels(s, c)) for c in (first, second)], [1, 1], "cancels")
    eq(ms(cancels(s, second)[0]["ts"]) - ms(cancels(s, first)[0]["ts"]), 20_000, "apart")


@manual()
def test_the_cancel_event_is_exactly_what_the_contract_says(s):
    c = s.talk(**budget(600))
    started = s.events(c)[0]["ts"]
    s.say(c, "a", "half")
    advance(s, 480_001)
    log = s.events(c)
    advance(s, 119_999)
    eq(s.events(c), log, "at the budget nothing happens")
    at_ms = advance(s, 1)
    event = s.events(c)[-1]
    eq(event["payload"], {"kind": CANCEL, "data": {
        "aggregate_type": "runtime_control", "aggregate_id": str(c), "event_kind": CANCEL,
        "reason": "wall_clock_exceeded", "session_started_at": started, "fired_at": iso(at_ms),
        "elapsed_seconds": 600, "configured_budget_seconds": 600, "window": 1}}, "payload")
    eq((event["seq"], event["turn"], event["type"], event["finality"], event["agentId"],
        event["ts"]), (len(log) + 1, 0, "system", "none", "system-watchdog", iso(at_ms)), "place")
    eq(state(s, c), BLOCKED, "state")
    eq(get(s, c)["head"]["hasOpenTurn"], True, "the turn stays open")


@manual("runtime_controls.session_wall_clock_seconds=100")
def test_notice_at_four_fifths_once_per_window(s):
    c = s.talk()
    started = now(s)
    advance(s, 80_000)
    eq(system(s.events(c), NOTICE), [], "at 80 %")
    advance(s, 1)
    said = system(s.events(c), NOTICE)
    eq([(e["ts"], e["agentId"], e["turn"]) for e in said],
       [(iso(started + 80_001), "system-watchdog", 0)], "first past it")
    data = said[0]["payload"]["data"]
    eq(data["configured_budget_seconds"], 100, "budget")
    eq(ms(data["session_started_at"]), started, "window")
    for again in (lambda: advance(s, 5000), s.restart, lambda: s.call("watchdog.runOnce")):
        again()
        eq(system(s.events(c), NOTICE), said, "it is said once")
    advance(s, 14_999)
    eq(state(s, c), ACTIVE, "at the budget")
    advance(s, 5000)
    eq(ms(s.call("conversation.resume", conversation=c)["windowStartedAt"]), now(s), "resumed")
    advance(s, 80_000)
    eq(len(system(s.events(c), NOTICE)), 1, "not yet in the new window")
    advance(s, 1)
    eq(len(system(s.events(c), NOTICE)), 2, "once in the new window")
    eq(rules(s)["session.wall_clock_notice"]["fired"], 1, "fired since the start")


@manual("watchdog.idle_ms=0")
def test_L71_a_hang_inside_a_turn_is_seen_without_any_entry(s):
    """Nobody calls, nobody resumes, nobody asks: the clock alone."""
    silent, busy = s.talk(**budget(10)), s.talk(**budget(10))
    s.say(silent, "a", "and then it hung")
    for _ in range(5):
        trace(s, busy)
        advance(s, 2000)
    advance(s, 1)
    eq([state(s, silent), state(s, busy)], [BLOCKED, BLOCKED], "a hang and a busy loop")


@manual("watchdog.idle_ms=1")
def test_L73_finished_ones_are_never_touched(s):
    ended = [s.talk(**budget(1)) for _ in range(3)]
    for c, outcome in zip(ended, ("completed", "canceled", "failed")):
        s.call("conversation.end", conversation=c, outcome=outcome)
    idle, message = s.talk(**budget(1)), s.talk(**budget(1))
    s.say(idle, "a", "half")
    s.say(message, "a", "that is all", "conversation")
    advance(s, 2)
    talks = [*ended, idle, message]
    logs = [s.events(c) for c in talks]
    for again in (lambda: advance(s, 30 * 86_400_000), lambda: s.call("watchdog.runOnce"),
                  s.restart, lambda: advance(s, 86_400_000)):
        again()
        eq([s.events(c) for c in talks], logs, "their logs")
    eq({get(s, c)["status"] for c in talks}, {"completed"}, "status")
    eq({r["errors"] for r in rules(s).values()}, {0}, "errors")


# ---- resume ----

@manual()
def test_L72_resume_again_and_again(s):
    c = s.talk(**budget(10))
    s.say(c, "a", "half")
    for window in range(1, 6):
        started = ms(get(s, c)["windowStartedAt"])
        advance(s, 10_000)
        eq(state(s, c), ACTIVE, f"window {window}, at the budget")
        advance(s, 5000 * window)
        data = cancels(s, c)[-1]["payload"]["data"]
        eq((data["window"], ms(data["session_started_at"]), ms(data["fired_at"])),
           (window, started, started + 10_001), f"cancel of window {window}")
        eq(s.call("conversation.resume", conversation=c),
           {"conversation": c, "status": "active", "window": window + 1,
            "windowStartedAt": iso(now(s))}, "answer")
        last = s.events(c)[-1]
        eq((last["payload"]["kind"], last["payload"]["data"]["window"], last["ts"], last["turn"]),
           (RESUMED, window + 1, iso(now(s)), 0), "the event")
        got = get(s, c)
        eq((state(s, c), got["window"], ms(got["windowStartedAt"])),
           (ACTIVE, window + 1, now(s)), "state")
        s.say(c, "a", "on we go")
    eq(len(cancels(s, c)), 5, "one cancel per window")


@manual("runtime_controls.session_wall_clock_seconds=10")
def test_L72_resume_with_another_budget(s):
    c = s.talk()
    advance(s, 10_001)
    s.call("conversation.resume", conversation=c, **budget(100))
    eq(get(s, c)["runtime_controls"], {"session_wall_clock_seconds": 100}, "the new budget")
    advance(s, 100_000)
    eq(state(s, c), ACTIVE, "at it")
    advance(s, 1)
    eq(cancels(s, c)[-1]["payload"]["data"]["configured_budget_seconds"], 100, "budget")
    s.call("conversation.resume", conversation=c)
    advance(s, 100_000)
    eq(state(s, c), ACTIVE, "a resume without one keeps it")
    advance(s, 1)
    s.call("conversation.resume", conversation=c, **budget(0))
    s.restart()
    advance(s, 365 * 86_400_000)
    eq(state(s, c), ACTIVE, "0: none")
    eq(len(cancels(s, c)), 3, "cancels")
    for wrong in (-1, 1.5, True, "60", None):
        s.refused("INVALID_PARAMS", "conversation.resume", conversation=c, **budget(wrong))


@manual("watchdog.idle_ms=20000")
def test_L72_the_silence_of_a_blocked_time_counts_for_nothing(s):
    c = blocked_talk(s, "a")
    advance(s, 3600_000)
    s.call("conversation.resume", conversation=c, **budget(0))
    s.say(c, "a", "half")
    advance(s, 20_000)
    eq(state(s, c), ACTIVE, "at the idle limit")
    d = s.talk(**budget(10))
    s.say(d, "a", "half")
    advance(s, 3600_000)
    s.call("conversation.resume", conversation=d, **budget(0))
    eq(clocks(s, d), {"conversation.idle": now(s) + 20_001}, "idle clock from the resume on")


@manual()
def test_resume_only_from_blocked(s):
    active, ended, c = s.talk(), s.talk(), blocked_talk(s)
    s.call("conversation.end", conversation=ended)
    e = s.refused("INVALID_TRANSITION", "conversation.resume", conversation=active)
    eq((e.data["from"], e.data["trigger"]), ("active", "resume"), "data")
    check("allowed" in e.data, f"{e.data}")
    s.refused("CONVERSATION_FINALIZED", "conversation.resume", conversation=ended)
    s.refused("NOT_FOUND", "conversation.resume", conversation=999)
    s.refused("FORBIDDEN", "conversation.resume", conversation=0)
    for scope in ({"scope": "read"}, {"scope": "agent", "conversation": c, "role": "a"}):
        s.as_token(**scope).refused("FORBIDDEN", "conversation.resume", conversation=c)
    eq(state(s, c), BLOCKED, "after those")


@manual()
def test_a_repeated_resume_has_one_answer(s):
    c = blocked_talk(s)
    first = s.call("conversation.resume", conversation=c, idempotencyKey="r1")
    advance(s, 3000)
    again = s.call("conversation.resume", conversation=c, idempotencyKey="r1")
    eq(again, first, "the same key, while active")
    advance(s, 20_000)
    s.restart()
    eq(s.call("conversation.resume", conversation=c, idempotencyKey="r1"), first,
       "the same key, while blocked again")
    eq(state(s, c), BLOCKED, "it had no effect")
    s.refused("IDEMPOTENCY_CONFLICT", "conversation.resume", conversation=c, idempotencyKey="r1",
              **budget(5))
    eq(s.call("conversation.resume", conversation=c, idempotencyKey="r2")["window"], 3, "another")
    eq(len(system(s.events(c), RESUMED)), 2, "resumed")


@manual()
def test_guidance_comes_after_resume(s):
    c = s.talk(startingRole="a", **budget(10))
    s.say(c, "a", "done", "turn")
    with s.socket() as ws:
        seen = s.events(c)[-1]["seq"]
        ws.subscribe(conversation=c, afterSeq=seen, includeGuidance=True)
        advance(s, 60_000)
        ws.call("conversation.get", conversation=c)
        before = list(ws.pushed)
        ws.pushed.clear()
        check(not [p for p in before if p["method"] == "guidance"
                   and p["params"]["turn"] != 2], f"guidance while blocked {before}")
        s.call("conversation.resume", conversation=c)
        ws.call("conversation.get", conversation=c)
        said = [p["params"] for p in ws.pushed if p["method"] == "guidance"]
        kinds = [p["params"]["payload"]["kind"] for p in ws.pushed if p["method"] == "event"]
    eq(kinds, [RESUMED], "events")
    eq([(g["nextAgentId"], g["kind"], g["turn"]) for g in said], [("b", "start_turn", 2)],
       "guidance")
    check(ms(said[0]["deadline"]) > now(s), "its deadline is ahead")


# ---- while blocked ----

@manual()
def test_writes_are_refused_while_blocked(s):
    c = s.talk("a", "b", **budget(10))
    first = s.say(c, "a", "half", clientRequestId="k")
    thought = s.call("trace.append", conversation=c, agentId="a", payload=THOUGHT,
                     clientRequestId="t")
    advance(s, 10_001)
    log = s.events(c)
    for method, params in (("message.send", {"agentId": "a", "text": "x"}),
                           ("message.send", {"agentId": "a", "text": "x", "finality": "turn"}),
                           ("message.send", {"agentId": "a", "text": "x",
                                             "finality": "conversation"}),
                           ("trace.append", {"agentId": "a", "payload": THOUGHT}),
                           ("turn.clear", {"agentId": "a"}), ("lifecycle.ensure", {}),
                           ("lifecycle.ensure", {"roles": ["a"]})):
        e = s.refused("CONVERSATION_BLOCKED", method, conversation=c, **params)
        eq(e.data["stop_reason_code"], BLOCKED[2], f"data of {method}")
    eq(s.say(c, "a", "half", clientRequestId="k"), first, "a repeat has its first answer")
    eq(s.call("trace.append", conversation=c, agentId="a", payload=THOUGHT, clientRequestId="t"),
       thought, "a repeated trace too")
    s.refused("IDEMPOTENCY_CONFLICT", "message.send", conversation=c, agentId="a", text="other",
              clientRequestId="k")
    s.call("lifecycle.stop", conversation=c)
    eq(s.events(c), log, "the log")
    eq(s.call("conversation.list", status="blocked")["conversations"][0]["conversation"], c,
       "reads work")


@manual()
def test_a_blocked_one_can_be_ended(s):
    for outcome, code in (("completed", "completed"), ("failed", "failed"),
                          ("canceled", "canceled_by_user")):
        for is_open in (True, False):
            c = s.talk(**budget(10))
            s.say(c, "a", "x", "none" if is_open else "turn")
            advance(s, 10_001)
            s.call("conversation.end", conversation=c, outcome=outcome)
            eq(state(s, c), ("completed", outcome, code), "state")
            eq(s.events(c)[-1]["turn"], 1 if is_open else 2, "turn of the message")
            s.refused("CONVERSATION_FINALIZED", "conversation.resume", conversation=c)


@manual()
def test_why_tells_of_the_budget(s):
    c = s.talk(**budget(10))
    started = now(s)
    why = s.call("conversation.why", conversation=c)
    check({"evidence", "standing", "history"} <= set(why), f"{sorted(why)}")
    eq(why["standing"][0]["next"], {"rule": "session.wall_clock_notice", "rung": "ring",
                                    "dueAt": iso(started + 8001)}, "next")
    advance(s, 8001)
    eq(s.call("conversation.why", conversation=c)["standing"][0]["next"],
       {"rule": "session.wall_clock", "rung": "cancel", "dueAt": iso(started + 10_001)}, "next")
    advance(s, 2000)
    why = s.call("conversation.why", conversation=c)
    standing = why["standing"][0]
    eq((standing["rule"], standing["rung"], standing["next"]),
       ("session.wall_clock", "cancel", None), "standing")
    s.call("conversation.resume", conversation=c)
    history = s.call("conversation.why", conversation=c)["history"]
    eq([(h["rule"], ms(h["at"]) - started) for h in history],
       [("session.wall_clock_notice", 8001), ("session.wall_clock", 10_001),
        ("conversation.resume", 10_001)], "history")
    check(all(h["what"] and h["reason"] for h in history), f"words and reasons: {history}")
    s.refused("NOT_FOUND", "conversation.why", conversation=99)


# ---- once ----

FAIL_POINTS = ("ladder.within_move", "ladder.between_moves", "tick.before_commit",
               "tick.before_commit:2", "tick.before_commit:3", "tick.after_commit",
               "tick.after_commit:2", "tick.after_commit:3", "lifecycle.end_committed",
               "lifecycle.before_stop", "lifecycle.between_stops", "lifecycle.before_cursor",
               "lifecycle.stop_committed")


class Mortal(Server):
    """A server that may kill itself at a fail point."""

    def start_to_die(self, fail_point):
        self.env["REEVE_FAIL_POINT"] = fail_point
        try:
            self.start()
        except (AssertionError, Closed, OSError):
            pass
        del self.env["REEVE_FAIL_POINT"]

    def advance_to_die(self, by_ms):
        """True if it died on the way."""
        if self.process.poll() is None:
            try:
                self.call("clock.advance", ms=by_ms)
            except (Closed, OSError):
                eq(self.wait(), -9, "exit status")
                return True
        if self.process.poll() is None:
            self.kill()
            return False
        self.wait()
        return True


def test_L74_one_cancel_per_window_whatever_dies():
    s = Mortal(args=["--clock=manual"]).start()
    died = []
    for place in FAIL_POINTS:
        agents = [{"role": r, "kind": "k", "desired": "running"} for r in "ab"]
        talks = [s.call("conversation.create", agents=agents, **budget(10))["conversation"]
                 for _ in range(3)]
        idle = s.talk(watchdog={"idleMs": 10_000}, **budget(0))
        s.say(idle, "a", "half")
        target = now(s) + 10_001
        s.stop()
        s.start_to_die(place)
        if s.advance_to_die(10_001):
            died.append(place)
        s.start()
        s.call("clock.advance", ms=max(0, target - now(s)))
        for c in talks:
            eq([(e["ts"], e["payload"]["data"]["window"]) for e in cancels(s, c)],
               [(iso(target), 1)], f"{place}: cancels of {c}")
            eq((state(s, c), {a["view"] for a in get(s, c)["agents"]}),
               (BLOCKED, {"stopped"}), f"{place}: conversation {c}")
        eq(len(system(s.events(idle), "idle_timeout")), 1, f"{place}: advisories")
        eq(sum(e["finality"] == "conversation" for e in s.events(idle)), 1, f"{place}: ends")
        eq(s.events(idle)[-1]["ts"], iso(target), f"{place}: time of the end")
    eq(died, list(FAIL_POINTS), "the places at which it was killed")
    s.stop()


@manual()
def test_L74_kill_and_restart_around_the_cancel(s):
    c = s.talk(**budget(10))
    for window in (1, 2, 3):
        advance(s, 10_000)
        s.restart()
        advance(s, 1)
        s.restart()
        advance(s, 0)
        s.call("watchdog.runOnce")
        s.restart()
        advance(s, 100_000)
        eq([e["payload"]["data"]["window"] for e in cancels(s, c)], list(range(1, window + 1)),
           "windows")
        s.call("conversation.resume", conversation=c)
        s.restart()
        eq((state(s, c), get(s, c)["window"]), (ACTIVE, window + 1), "resumed, after a kill")


# ---- the setting ----

KEY = "runtime_controls.session_wall_clock_seconds"
VARIABLE = "REEVE_SESSION_WALL_CLOCK_SECONDS"


def config(text):
    path = os.path.join(folder(), "reeve.conf")
    with open(path, "w") as f:
        f.write(text)
    return path


def test_L75_the_budget_is_read_from_file_environment_and_flag():
    path = config("runtime_controls {\n  session_wall_clock_seconds = 30\n}\n")
    for args, env, want in (([], {}, 14_400), (["--config", path], {}, 30),
                            (["--config", path], {VARIABLE: "20"}, 20),
                            (["--config", path, "--set", f"{KEY}=10"], {VARIABLE: "20"}, 10)):
        s = Server(args=["--clock=manual", *args], env=env).start()
        c = s.talk()
        eq(get(s, c)["runtime_controls"], {"session_wall_clock_seconds": want}, "what it shows")
        eq(rules(s)["session.wall_clock"]["limit"], want, "what the rule shows")
        advance(s, want * 1000)
        eq(state(s, c), ACTIVE, f"{want} s later")
        advance(s, 1)
        eq(state(s, c), BLOCKED, "a millisecond more")
        s.stop()


def refuses(word, *args, env=None):
    s = Server(args=["--clock=manual", *args], env=env)
    s.spawn()
    eq(s.wait(), 2, f"exit status for {args} {env}")
    check(word in s.log(), f"{args} {env}: no {word!r} in {s.log()!r}")


def test_L75_a_budget_that_is_no_number_is_refused():
    for wrong in ("true", "NaN", "nan", "-1", "1.5", "1e3", "inf", "soon", ""):
        refuses(KEY, "--set", f"{KEY}={wrong}")
        refuses(VARIABLE, env={VARIABLE: wrong})
    for wrong in ("true", "NaN", "-1", "1.5", "\"60\""):
        path = config("runtime_controls {\n  session_wall_clock_seconds = " + wrong + "\n}\n")
        refuses("reeve.conf:2", "--config", path)
    s = Server(args=["--clock=manual"]).start()
    for wrong in (True, -1, 1.5, "60", None):
        e = s.refused("INVALID_PARAMS", "conversation.create", agents=[], **budget(wrong))
        eq(e.data["path"], KEY, f"path for {wrong}")
    body = ('{"jsonrpc":"2.0","id":1,"method":"conversation.create","params":{"agents":[],'
            '"runtime_controls":{"session_wall_clock_seconds":NaN}}}')
    eq(s.post(body.encode()).json()["error"]["data"]["name"], "PARSE", "NaN is not JSON")
    s.stop()


@manual()
def test_a_default_budget_changed_across_a_restart_holds_for_all(s):
    def again(seconds):
        s.args = ["--clock=manual", "--set", f"{KEY}={seconds}"]
        s.restart("stop")
        advance(s, 0)
    again(100)
    c, own = s.talk(), s.talk(**budget(1000))
    advance(s, 50_000)
    again(50)
    eq(state(s, c), ACTIVE, "shorter, at it")
    again(49)
    eq((state(s, c), cancels(s, c)[0]["payload"]["data"]["configured_budget_seconds"]),
       (BLOCKED, 49), "shorter, over at start")
    s.call("conversation.resume", conversation=c)
    again(0)
    advance(s, 500_000)
    eq((state(s, c), state(s, own)), (ACTIVE, ACTIVE), "from on to off")
    again(600)
    advance(s, 100_000)
    eq(state(s, c), ACTIVE, "from off to on, at it")
    advance(s, 1)
    eq((state(s, c), state(s, own)), (BLOCKED, ACTIVE), "from off to on, over")
    advance(s, 349_999)
    eq(state(s, own), ACTIVE, "its own, at it")
    advance(s, 1)
    eq(state(s, own), BLOCKED, "its own, over")


# ---- clocks and reasons ----

@manual("watchdog.idle_ms=1000")
def test_L70_all_times_are_the_servers(s):
    """The clock stands years ahead of the machine's; nothing that is stored is of another one."""
    jump = 10 * 365 * 86_400_000
    began = advance(s, jump)
    c = s.talk(**budget(10))
    s.say(c, "a", "half")
    trace(s, c)
    eq({ms(e["ts"]) for e in s.events(c)}, {began}, "times of events")
    got = get(s, c)
    eq({ms(got[k]) for k in ("createdAt", "updatedAt", "windowStartedAt")}, {began}, "columns")
    old = "2001-01-01T00:00:00.000Z"
    for method, params in (("message.send", {"agentId": "a", "text": "x", "ts": old}),
                           ("trace.append", {"agentId": "a", "payload": THOUGHT, "ts": old}),
                           ("conversation.resume", {"windowStartedAt": old}),
                           ("conversation.end", {"ts": old})):
        s.refused("INVALID_PARAMS", method, conversation=c, **params)
    s.call("trace.append", conversation=c, agentId="a", payload=THOUGHT | {"ts": old})
    s.say(c, "a", "x", metadata={"ts": old, "lastEventTs": old})
    eq({ms(e["ts"]) for e in s.events(c)}, {began}, "what a payload says is nobody's clock")
    advance(s, 1001)
    end = s.events(c)[-1]
    eq((ms(end["ts"]), end["payload"]["metadata"]["lastEventTs"]), (began + 1001, iso(began)),
       "the end")
    s.restart()
    eq(now(s), began + 1001, "the clock goes on from the greatest stored time")


def ways_to_stop(s):
    """Every way a conversation ends or is blocked: name → (conversation, code)."""
    def opened(**more):
        c = s.talk(**more)
        s.say(c, "a", "half")
        return c
    found = {}
    for outcome, by_end, by_message in (("completed", "completed", "completed"),
                                        ("failed", "failed", "failed"),
                                        ("canceled", "canceled_by_user", "canceled_by_client")):
        c, d = opened(), opened()
        s.call("conversation.end", conversation=c, outcome=outcome)
        s.say(d, "a", "that is all", "conversation", outcome={"status": outcome})
        found["end " + outcome], found["message " + outcome] = (c, by_end), (d, by_message)
    c, d = opened(), opened(maxTurns=1)
    s.say(c, "a", "no outcome given", "conversation")
    s.say(d, "a", "the last turn", "turn")
    found["message"], found["max turns"] = (c, "completed"), (d, "max_turns")
    found["idle"] = opened(watchdog={"idleMs": 1}), "idle_timeout"
    found["global idle"] = s.talk(watchdog={"globalIdleMs": 1}), "global_idle_timeout"
    found["budget"] = s.talk(**budget(1)), "watchdog_wall_clock_exceeded"
    advance(s, 1001)
    return found


@manual()
def test_L76_whatever_stops_has_a_reason(s):
    found = ways_to_stop(s)
    for again in (lambda: None, s.restart):
        again()
        for name, (c, code) in found.items():
            got = get(s, c)
            eq(got["stop_reason_code"], code, name)
            eq(got["status"], "blocked" if name == "budget" else "completed", name)
            eq(got["outcome"] is None, name == "budget", f"{name}: an outcome")
            eq(s.call("conversation.why", conversation=c)["stop_reason_code"], code, f"why {name}")
    listed, after = [], 0
    while after is not None:
        page = s.call("conversation.list", after=after, limit=5)
        listed, after = listed + page["conversations"], page["next"]
    eq([t for t in listed if t["status"] != "active" and not t["stop_reason_code"]], [],
       "stopped without a reason")
    eq(len([t for t in listed if t["status"] != "active"]), len(found), "stopped")
    active = s.talk()
    eq(get(s, active)["stop_reason_code"], None, "an active one has none")


# ---- agents ----

@manual()
def test_L77_not_called_stopped_while_a_process_may_run(s):
    """Of two starts one was delivered to a machine when the budget ended."""
    agents = [{"role": "given", "kind": "k"}, {"role": "waiting", "kind": "k"}]
    c = s.call("conversation.create", agents=agents, **budget(10))["conversation"]
    s.call("lifecycle.ensure", conversation=c)
    s.stop()
    edit_store(s, "UPDATE machine_commands SET status = 'delivered', delivered_at = created_at"
                  " WHERE role = 'given'")
    s.start()
    advance(s, 10_001)
    eq(state(s, c), BLOCKED, "state")
    views = {a["role"]: a["view"] for a in get(s, c)["agents"]}
    eq(views, {"given": "stopping", "waiting": "stopped"}, "views")
    said = [(e["payload"]["data"]["agent"], e["payload"]["data"]["status"])
            for e in system(s.events(c), "agent.state")]
    eq(sorted(said[2:]), [(f"{c}:given", "stopping"), (f"{c}:waiting", "stopped")], "told")
    commands = s.call("command.list", conversation=c)["commands"]
    stops = [k for k in commands if k["type"] == "stop-agent"]
    starts = {k["role"]: k for k in commands if k["type"] == "start-agent"}
    eq([(k["role"], k["status"], k["spawnId"]) for k in stops],
       [("given", "pending", starts["given"]["spawnId"])], "one stop, for the process")
    for again in (s.restart, lambda: advance(s, 3600_000)):
        again()
        eq({a["role"]: a["view"] for a in get(s, c)["agents"]}, views, "later")
        eq(s.call("command.list", conversation=c)["commands"], commands, "commands")
    ensured = s.call("lifecycle.getEnsured", conversation=c)["ensured"]
    eq(ensured, [{"role": "given", "view": "stopping"}], "ensured")


@manual()
def test_L77_nor_when_it_is_blocked_again_before_the_old_one_is_gone(s):
    """The process of window 1 was never seen to end; a replacement in window 2 was not begun."""
    c = s.call("conversation.create", agents=[{"role": "a", "kind": "k"}],
               **budget(10))["conversation"]
    s.call("lifecycle.ensure", conversation=c)
    s.stop()
    edit_store(s, "UPDATE machine_commands SET status = 'delivered', delivered_at = created_at")
    s.start()
    advance(s, 10_001)
    eq(get(s, c)["agents"][0]["view"], "stopping", "blocked")
    s.call("conversation.resume", conversation=c)
    commands = s.call("command.list", conversation=c)["commands"]
    eq([k["type"] for k in commands], ["start-agent", "stop-agent", "restart-agent"], "commands")
    eq(get(s, c)["agents"][0]["view"], "starting", "resumed")
    advance(s, 10_001)
    eq(state(s, c), BLOCKED, "state")
    eq(get(s, c)["agents"][0]["view"], "stopping", "blocked again")


@manual()
def test_resume_starts_those_that_should_run(s):
    agents = [{"role": "wanted", "kind": "k", "desired": "running"}, {"role": "auto", "kind": "k"},
              {"role": "never", "kind": "k", "desired": "stopped"}]
    c = s.call("conversation.create", agents=agents, **budget(10))["conversation"]
    advance(s, 10_001)
    eq({a["view"] for a in get(s, c)["agents"]}, {"stopped"}, "all are stopped")
    s.call("conversation.resume", conversation=c)
    eq({a["role"]: a["view"] for a in get(s, c)["agents"]},
       {"wanted": "starting", "auto": "stopped", "never": "stopped"}, "after the resume")
    kinds = [e["payload"]["kind"] for e in system(s.events(c))]
    check(kinds.index(RESUMED) < len(kinds) - 1 - kinds[::-1].index("agent.state"),
          "resumed before it is started")


if __name__ == "__main__":
    main()
