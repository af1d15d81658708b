"""Silence: conversation.idle and conversation.global_idle, and how the ladder walks its rules."""
import json
import random

from reeve_test import Server, check, eq, main, server, wait_for
from watch_model import (ACTIVE, BLOCKED, GLOBAL_IDLE, IDLE, Limits, Model, Refused, advance, batch,
                         clocks, edit_store, gap, get, iso, manual, ms, now, rules, state, system,
                         trace)

MINUTE = 60_000
LIMIT = 15 * MINUTE


def idle_events(last_ts, idle_ms, reason="idle_timeout"):
    """The two payloads of PROTOCOL 3."""
    return [{"kind": "idle_timeout", "data": {"lastEventTs": last_ts, "idleMs": idle_ms}},
            {"text": "Auto-canceled after idle timeout.",
             "outcome": {"status": "canceled", "reason": reason},
             "metadata": {"reason": reason, "lastEventTs": last_ts}}]


# ---- who is idle ----

@manual()
def test_L01_what_is_written_in_the_open_turn_counts(s):
    """The last close is hours ago; a message or trace of this very second keeps it alive."""
    c = s.talk()
    s.say(c, "a", "done", "turn")
    s.say(c, "b", "long work")
    for write in 6 * [lambda: s.say(c, "b", "still here"), lambda: trace(s, c, "a")]:
        advance(s, LIMIT)
        eq(state(s, c), ACTIVE, "at the limit since the last word")
        write()
        eq(s.call("watchdog.runOnce")["canceled"], 0, "a pass in the same millisecond")
    advance(s, LIMIT + 1)
    eq(state(s, c), IDLE, "after the silence")


@manual("watchdog.idle_ms=1000", "runtime_controls.session_wall_clock_seconds=0")
def test_L02_a_closed_turn_waits_for_a_person(s):
    empty, closed = s.talk(), s.talk()
    s.say(closed, "a", "your turn", "turn")
    advance(s, 4 * 3600_000)
    eq(s.call("watchdog.runOnce")["canceled"], 0, "by a pass")
    eq((state(s, empty), state(s, closed)), (ACTIVE, ACTIVE), "after hours")
    s.say(closed, "b", "back again")
    advance(s, 1001)
    eq(state(s, closed), IDLE, "with an open turn it is watched again")


@manual()
def test_idle_cancel_is_exactly_what_the_contract_says(s):
    c = s.talk()
    s.say(c, "a", "done", "turn")
    s.say(c, "b", "half")
    last = s.events(c)[-1]
    before = get(s, c)
    advance(s, LIMIT)
    eq(s.events(c)[-1], last, "at the limit nothing happens")
    at_ms = advance(s, 1)
    advisory, terminal = s.events(c)[last["seq"]:]
    eq([advisory["payload"], terminal["payload"]], idle_events(last["ts"], LIMIT), "payloads")
    seq = last["seq"]
    eq([(e["seq"], e["turn"], e["event"], e["type"], e["finality"], e["agentId"], e["ts"])
        for e in (advisory, terminal)],
       [(seq + 1, 0, 2, "system", "none", "system-watchdog", iso(at_ms)),
        (seq + 2, 2, 2, "message", "conversation", "system-watchdog", iso(at_ms))], "places")
    eq(terminal["id"], advisory["id"] + 1, "nothing comes between")
    after = get(s, c)
    eq(state(s, c), IDLE, "state")
    eq(after["head"]["hasOpenTurn"], False, "the turn is closed by it")
    eq((after["window"], after["createdAt"]), (before["window"], before["createdAt"]), "the rest")
    eq(after["updatedAt"], iso(at_ms), "updatedAt")


@manual()
def test_global_idle_opens_a_turn_for_its_message(s):
    c = s.talk(watchdog={"globalIdleMs": 5000})
    s.say(c, "a", "your turn", "turn")
    last = s.events(c)[-1]
    at_ms = advance(s, 5000)
    eq(state(s, c), ACTIVE, "at the limit")
    at_ms = advance(s, 1)
    advisory, terminal = s.events(c)[last["seq"]:]
    eq([advisory["payload"], terminal["payload"]],
       idle_events(last["ts"], 5000, "global_idle_timeout"), "payloads")
    eq((terminal["turn"], terminal["event"], terminal["agentId"], terminal["ts"]),
       (2, 1, "system-watchdog", iso(at_ms)), "the message")
    eq(state(s, c), GLOBAL_IDLE, "state")


@manual("watchdog.global_idle_ms=5000")
def test_global_idle_of_a_conversation_in_which_nobody_spoke(s):
    c = s.talk()
    created = s.events(c)[0]["ts"]
    advance(s, 5001)
    advisory, terminal = s.events(c)[1:]
    eq([advisory["payload"], terminal["payload"]],
       idle_events(created, 5000, "global_idle_timeout"), "payloads")
    eq((terminal["turn"], terminal["seq"]), (1, 3), "place")


@manual("watchdog.idle_ms=1000")
def test_nothing_follows_the_terminal_message(s):
    c = s.talk()
    s.say(c, "a", "half", clientRequestId="k")
    advance(s, 1001)
    log = s.events(c)
    for method, params in (("message.send", {"agentId": "a", "text": "late"}),
                           ("trace.append", {"agentId": "a", "payload": {"type": "thought"}}),
                           ("turn.clear", {"agentId": "a"}), ("conversation.resume", {}),
                           ("lifecycle.ensure", {})):
        s.refused("CONVERSATION_FINALIZED", method, conversation=c, **params)
    eq(s.say(c, "a", "half", clientRequestId="k")["seq"], 2, "a repeat still has its answer")
    advance(s, 24 * 3600_000)
    s.call("watchdog.runOnce")
    s.restart()
    advance(s, 24 * 3600_000)
    eq(s.events(c), log, "the log")


@manual("watchdog.idle_ms=1000")
def test_evidence_in_the_same_millisecond_wins(s):
    """A message and a pass at one time: the message, although it came a limit later."""
    c = s.talk()
    s.say(c, "a", "half")
    advance(s, 1000)
    s.say(c, "a", "just in time")
    advance(s, 1000)
    eq(state(s, c), ACTIVE, "the clock began again with it")
    advance(s, 1)
    eq(state(s, c), IDLE, "and went on from there")


@manual("watchdog.idle_ms=10000")
def test_three_turns_of_several_agents(s):
    c = s.talk("a", "b", "c")
    for agent in "abc":
        advance(s, 9000)
        s.say(c, agent, "opens")
        advance(s, 9000)
        trace(s, c, "a")
        advance(s, 9000)
        s.say(c, agent, "closes", "turn")
    advance(s, 60_000)
    s.say(c, "b", "opens the fourth")
    advance(s, 9000)
    s.call("turn.clear", conversation=c, agentId="b")
    advance(s, 10_000)
    eq(state(s, c), ACTIVE, "clearing a turn is a sign of life")
    eq(clocks(s, c)["conversation.idle"], now(s) + 1, "due next")
    advance(s, 1)
    eq((state(s, c), s.events(c)[-1]["turn"]), (IDLE, 4), "the end")


@manual("watchdog.idle_ms=10000")
def test_what_the_system_writes_is_no_sign_of_life(s):
    """Notices, agent states and such must not keep a silent conversation alive."""
    c = s.call("conversation.create", agents=[{"role": "a", "kind": "k"}],
               runtime_controls={"session_wall_clock_seconds": 10})["conversation"]
    s.say(c, "a", "half")
    began = now(s)
    advance(s, 8001)
    eq(len(system(s.events(c), "runtime.watchdog.notice")), 1, "a notice in between")
    s.call("lifecycle.ensure", conversation=c)
    eq(len(system(s.events(c), "agent.state")), 1, "an agent's state in between")
    eq(clocks(s, c)["conversation.idle"], began + 10_001, "due as before")
    s.refused("FORBIDDEN", "message.send", conversation=c, agentId="system-watchdog",
              text="a client cannot pretend")


# ---- whose limit ----

@manual()
def test_a_conversation_may_have_its_own_limit(s):
    def opened(**watchdog):
        c = s.talk(watchdog=watchdog)
        s.say(c, "a", "half")
        return c
    shorter, longer = opened(idleMs=1000), opened(idleMs=2 * LIMIT)
    off, disabled = opened(idleMs=0), opened(disabled=True, idleMs=1000)
    other = opened(globalIdleMs=500)  # says nothing of open turns
    advance(s, 1000)
    eq(state(s, shorter), ACTIVE, "at its own limit")
    advance(s, 1)
    eq(state(s, shorter), IDLE, "past it")
    eq(s.events(shorter)[-2]["payload"]["data"]["idleMs"], 1000, "the limit that was used")
    advance(s, LIMIT - 1000)
    eq(state(s, other), IDLE, "past the default")
    advance(s, LIMIT)
    eq((state(s, longer), state(s, off), state(s, disabled)), (IDLE, ACTIVE, ACTIVE), "the others")
    advance(s, 100 * LIMIT)
    eq((state(s, off), state(s, disabled)), (BLOCKED, BLOCKED), "only the budget counts for them")


@manual("watchdog.enabled=false", "watchdog.global_idle_ms=1000",
        "runtime_controls.session_wall_clock_seconds=3600")
def test_disabled_watchdog_still_keeps_budgets(s):
    open_turn, closed, own = s.talk(), s.talk(), s.talk(watchdog={"idleMs": 5})
    s.say(open_turn, "a", "half")
    s.say(own, "a", "half")
    s.say(closed, "a", "done", "turn")
    advance(s, 3600_000)
    eq({state(s, c) for c in (open_turn, closed, own)}, {ACTIVE}, "none is cancelled")
    eq([rules(s)[r]["limit"] for r in ("conversation.idle", "conversation.global_idle",
                                       "session.wall_clock")], [0, 0, 3600], "limits in force")
    advance(s, 1)
    eq({state(s, c) for c in (open_turn, closed, own)}, {BLOCKED}, "all are blocked")


def year_of_silence(s, c):
    for finality in ("turn", "none"):
        s.say(c, "a", "x", finality)
        advance(s, 365 * 86_400_000)
        s.call("watchdog.runOnce")
        eq(state(s, c), ACTIVE, f"a year after a message that closes {finality}")
        eq(clocks(s, c), {}, "no clock runs")
    for _ in range(60):
        s.say(c, "a", "x", "turn")
    eq(state(s, c), ACTIVE, "after many turns")


@manual("watchdog.idle_ms=0", "watchdog.global_idle_ms=0",
        "runtime_controls.session_wall_clock_seconds=0")
def test_L69_zero_is_off_as_a_default(s):
    year_of_silence(s, s.talk(maxTurns=0))


@manual("watchdog.idle_ms=1", "watchdog.global_idle_ms=1",
        "runtime_controls.session_wall_clock_seconds=1")
def test_L69_zero_is_off_as_an_override(s):
    year_of_silence(s, s.talk(maxTurns=0, watchdog={"idleMs": 0, "globalIdleMs": 0},
                              runtime_controls={"session_wall_clock_seconds": 0}))


@manual()
def test_limits_that_are_none_are_refused(s):
    for watchdog in ({"idleMs": -1}, {"idleMs": 1.5}, {"idleMs": True}, {"idleMs": "5"},
                     {"globalIdleMs": -1}, {"disabled": 1}, {"idle": 5}):
        e = s.refused("INVALID_PARAMS", "conversation.create", agents=[{"role": "a"}],
                      watchdog=watchdog)
        check(e.data["path"].startswith("watchdog"), f"{watchdog}: {e.data}")


# ---- limits that change ----

def restart_with(s, *settings, how="stop"):
    s.args = ["--clock=manual", *(x for t in settings for x in ("--set", t))]
    return s.restart(how)


def changed(s, before, after, key):
    """Two silent conversations, limits changed across a restart; returns open and closed one."""
    restart_with(s, f"{key}={before}")
    mine, closed = s.talk(), s.talk()
    s.say(mine, "a", "half")
    s.say(closed, "a", "done", "turn")
    advance(s, 5000)
    eq((state(s, mine), state(s, closed)), (ACTIVE, ACTIVE), "before the change")
    restart_with(s, f"{key}={after}", how="kill")
    advance(s, 0)
    return mine, closed


@manual()
def test_limits_changed_across_a_restart_hold_for_all(s):
    for key, which, end in (("watchdog.idle_ms", 0, IDLE),
                            ("watchdog.global_idle_ms", 1, GLOBAL_IDLE)):
        both = changed(s, 60_000, 5001, key)
        eq([state(s, c) for c in both], [ACTIVE, ACTIVE], "shorter, not yet over")
        advance(s, 1)
        eq([state(s, c) for c in both], [ACTIVE, ACTIVE], "at the limit")
        advance(s, 1)
        eq([state(s, c) == end for c in both], [which == 0, which == 1], f"{key} shorter")
        c = changed(s, 60_000, 4999, key)[which]
        eq((state(s, c), s.events(c)[-1]["ts"]), (end, iso(now(s))), f"{key} over at start")
        c = changed(s, 5001, 20_000, key)[which]
        advance(s, 15_000)
        eq(state(s, c), ACTIVE, f"{key} longer")
        advance(s, 1)
        eq(state(s, c), end, f"{key} longer, over")
        c = changed(s, 0, 20_000, key)[which]
        advance(s, 15_000)
        eq(state(s, c), ACTIVE, f"{key} from off to on")
        advance(s, 1)
        eq(state(s, c), end, f"{key} from off to on, over")
        c = changed(s, 5001, 0, key)[which]
        advance(s, 60_000)
        eq(state(s, c), ACTIVE, f"{key} from on to off")


@manual("watchdog.idle_ms=5000", "runtime_controls.session_wall_clock_seconds=0")
def test_overrides_hold_when_defaults_change(s):
    own, off = s.talk(watchdog={"idleMs": 9000}), s.talk(watchdog={"idleMs": 0})
    default = s.talk()
    for c in (own, off, default):
        s.say(c, "a", "half")
    restart_with(s, "watchdog.idle_ms=7000", "runtime_controls.session_wall_clock_seconds=0")
    advance(s, 7001)
    eq([state(s, c) for c in (default, own, off)], [IDLE, ACTIVE, ACTIVE], "past the new default")
    restart_with(s, "watchdog.enabled=false", "runtime_controls.session_wall_clock_seconds=0")
    advance(s, 60_000)
    eq(state(s, own), ACTIVE, "the watchdog is off for those too that have limits of their own")
    restart_with(s, "runtime_controls.session_wall_clock_seconds=0")
    advance(s, 0)
    eq((state(s, own), state(s, off)), (IDLE, ACTIVE), "and on again")


# ---- failures ----

def plant(s, *talks):
    """From now on the second event that the ladder writes in these fails: the terminal one."""
    s.stop()
    edit_store(s, *(f"CREATE UNIQUE INDEX planted{c} ON conversation_events (conversation)"
                    f" WHERE conversation = {c} AND agent_id = 'system-watchdog'" for c in talks))
    s.start()


def counted_passes(s):
    lines = s.get("/metrics").body.decode().splitlines()
    return [line for line in lines if line.startswith("reeve_watch_passes_total")]


def mend(s, c):
    s.stop()
    edit_store(s, f"DROP INDEX planted{c}")
    s.start()


@manual("watchdog.idle_ms=1000")
def test_L03_advisory_and_terminal_message_both_or_none(s):
    c = s.talk()
    s.say(c, "a", "half")
    log = s.events(c)
    plant(s, c)
    advance(s, 1001)
    for _ in range(5):
        advance(s, 3000)
        s.call("watchdog.runOnce")
        eq(s.events(c), log, "no orphan advisory")
        eq(state(s, c), ACTIVE, "state")
    check(rules(s)["conversation.idle"]["errors"] > 5, "the failures are counted")
    eq(rules(s)["conversation.idle"]["fired"], 0, "nothing was done")
    s.restart()
    advance(s, 3000)
    eq(s.events(c), log, "nor after a restart")
    mend(s, c)
    advance(s, 0)
    eq(len(system(s.events(c), "idle_timeout")), 1, "one advisory")
    eq((len(s.events(c)), state(s, c)), (len(log) + 2, IDLE), "and one end")


@manual("watchdog.idle_ms=1000")
def test_L04_one_that_fails_does_not_hold_back_the_others(s):
    """Ten due at once, the first, a middle and the last fail; then ten more, at other times."""
    first = [s.talk() for _ in range(10)]
    bad = {first[0], first[5], first[9]}
    for c in first:
        s.say(c, "a", "half")
    plant(s, *bad)
    advance(s, 1001)
    eq({c for c in first if state(s, c) == ACTIVE}, bad, "those left behind")
    for wait in (1, 500, 1000, 7000):
        c = s.talk()
        s.say(c, "a", "half")
        advance(s, 1000 + wait)
        eq((state(s, c), s.events(c)[-1]["ts"]),
           (IDLE, iso(ms(s.events(c)[1]["ts"]) + 1001)), "a later one is cancelled in time")
    got = s.call("watchdog.runOnce")
    eq(got, {"checked": 3, "candidates": 3, "canceled": 0, "skipped": 0, "errors": 3}, "a pass")
    mend(s, first[5])
    advance(s, 0)
    eq({c for c in first if state(s, c) == ACTIVE}, bad - {first[5]}, "those left behind then")


@manual("watchdog.idle_ms=1000")
def test_L04_failures_are_tried_again_with_growing_waits(s):
    c = s.talk()
    s.say(c, "a", "half")
    plant(s, c)
    tries = []
    for step in (1001, 999, 1, 1999, 1, 3999, 1, 7999, 1):
        advance(s, step)
        tries.append(rules(s)["conversation.idle"]["errors"])
    eq(tries, [1, 1, 2, 2, 3, 3, 4, 4, 5], "tries by time: after 1, 2, 4, 8 s more")
    for _ in range(5):
        s.say(s.talk(), "a", "half")
        advance(s, 1001)
    got = rules(s)["conversation.idle"]
    eq((got["fired"], got["errors"]), (5, 5), "passes for others in the meantime try nothing")
    advance(s, 2 * 3600_000)
    tries = rules(s)["conversation.idle"]["errors"]
    check(24 <= tries - 5 <= 33, f"then every five minutes: {tries - 5} in two hours")
    eq(s.call("watchdog.runOnce")["errors"], 1, "whoever asks need not wait")


@manual("watchdog.idle_ms=1000")
def test_L04_a_failing_one_that_speaks_again_or_ends_is_forgotten(s):
    """Nothing is left that would be tried for ever, or that keeps the clock from going on."""
    speaks, ends = s.talk(), s.talk()
    for c in (speaks, ends):
        s.say(c, "a", "half")
    plant(s, speaks, ends)
    advance(s, 1001)
    eq(rules(s)["conversation.idle"]["errors"], 2, "both failed")
    s.call("conversation.end", conversation=ends)
    s.say(speaks, "a", "back", "turn")
    advance(s, 600_000)
    eq(rules(s)["conversation.idle"]["errors"], 2, "none is tried again")
    passes = counted_passes(s)
    advance(s, 0)
    eq(counted_passes(s), passes, "no pass without a cause")
    eq((state(s, speaks), state(s, ends)), (ACTIVE, ("completed",) * 3), "states")


# ---- many ----

def crowd(s, count, role="a"):
    made = batch(s, count * [("conversation.create", {"agents": [{"role": role}]})])
    return [m["conversation"] for m in made]


def all_speak(s, talks):
    batch(s, [("message.send", {"conversation": c, "agentId": "a", "text": "x"}) for c in talks])


@manual(deadline=120)
def test_L05_the_oldest_five_of_1005(s):
    talks = crowd(s, 1005)
    oldest, others = talks[:5], talks[5:]
    all_speak(s, oldest)
    advance(s, 10 * MINUTE)
    all_speak(s, others)
    advance(s, LIMIT - 10 * MINUTE)
    eq(s.call("watchdog.runOnce"),
       {"checked": 0, "candidates": 0, "canceled": 0, "skipped": 0, "errors": 0}, "before")
    advance(s, 1)
    ended = s.call("conversation.list", status="completed", limit=500)["conversations"]
    eq([e["conversation"] for e in ended], oldest, "exactly those")
    eq(rules(s)["conversation.idle"]["fired"], 5, "fired")
    eq({state(s, c) for c in (others[0], others[500], others[-1])}, {ACTIVE}, "others")


@manual(deadline=120)
def test_L05_many_due_at_one_millisecond_among_1005(s):
    talks = crowd(s, 1005)
    all_speak(s, talks[::25][:40])
    advance(s, 1)
    all_speak(s, [c for c in talks if c not in talks[::25][:40]])
    at_ms = advance(s, LIMIT)
    ended = s.call("conversation.list", status="completed", limit=500)["conversations"]
    eq([e["conversation"] for e in ended], talks[::25][:40], "all forty, nobody else")
    eq({e["updatedAt"] for e in ended}, {iso(at_ms)}, "at one time")
    ids = [s.events(c)[-1]["id"] for c in talks[::25][:40]]
    eq(ids, sorted(ids), "in order of their numbers")


@server("watchdog.idle_ms=300")
def test_at_start_a_pass_is_made_and_late_ones_are_found_by_the_real_clock(s):
    talks = [s.talk() for _ in range(40)]
    for c in talks:
        s.say(c, "a", "half")
    wait_for(lambda: all(state(s, c) == IDLE for c in talks), "all to be cancelled")
    for c in talks:
        first, terminal = s.events(c)[1], s.events(c)[-1]
        check(ms(terminal["ts"]) - ms(first["ts"]) > 300, "not before its time")


# ---- the methods ----

@manual("watchdog.idle_ms=1000", "watchdog.global_idle_ms=7000")
def test_watchdog_rules(s):
    names = ["session.wall_clock_notice", "session.wall_clock", "conversation.idle",
             "conversation.global_idle", "conversation.max_turns"]
    listed = s.call("watchdog.rules")["rules"]
    eq([r["rule"] for r in listed][:len(names)], names, "rules, in their order")
    for r in listed:
        check({"rule", "rung", "seed", "key", "limit", "lastRunAt", "nextDueAt", "fired", "errors"}
              <= set(r), f"{r}")
        check(r["rung"] in ("ring", "reclaim", "restart", "reap", "cancel"), f"{r}")
        eq((r["nextDueAt"], r["fired"], r["errors"]), (None, 0, 0), f"{r['rule']} at first")
    eq([(r["key"], r["limit"]) for r in listed][:len(names)],
       [("runtime_controls.session_wall_clock_seconds", 11_520)] +
       [("runtime_controls.session_wall_clock_seconds", 14_400), ("watchdog.idle_ms", 1000),
        ("watchdog.global_idle_ms", 7000), (None, None)], "limits, in the units of their keys")
    c, closed, last = s.talk(), s.talk(), s.talk(maxTurns=1)
    s.say(c, "a", "half")
    began = now(s)
    eq({n: ms(rules(s)[n]["nextDueAt"]) - began for n in names[:4]},
       dict(zip(names, (11_520_001, 14_400_001, 1001, 7001))), "next due")
    s.say(last, "a", "the only turn", "turn")
    advance(s, 7001)
    got = rules(s)
    eq({n: got[n]["fired"] for n in names}, dict(zip(names, (0, 0, 1, 1, 1))), "fired")
    eq(got["conversation.idle"]["lastRunAt"], iso(now(s)), "lastRunAt")
    eq((state(s, c), state(s, closed)), (IDLE, GLOBAL_IDLE), "states")


@manual("watchdog.idle_ms=1000")
def test_run_once(s):
    none = {"checked": 0, "candidates": 0, "canceled": 0, "skipped": 0, "errors": 0}
    c = s.talk()
    eq(s.call("watchdog.runOnce"), none, "nothing is due")
    s.say(c, "a", "half")
    for rule in rules(s):
        eq(s.call("watchdog.runOnce", rule=rule), none, f"nothing is due by {rule}")
    e = s.refused("INVALID_PARAMS", "watchdog.runOnce", rule="conversation.bogus")
    eq(e.data["path"], "rule", "path")
    s.refused("INVALID_PARAMS", "watchdog.runOnce", rule=5)
    advance(s, 1000)
    eq(s.call("watchdog.runOnce"), none, "at the limit")
    eq(state(s, c), ACTIVE, "state")
    s.say(c, "a", "more")
    advance(s, 1)
    eq(s.call("watchdog.runOnce")["canceled"], 0, "not due any more")
    reader = s.as_token(scope="read")
    reader.refused("FORBIDDEN", "watchdog.runOnce")


@manual("watchdog.idle_ms=1000")
def test_run_once_of_one_rule_leaves_the_others(s):
    """With the cancel made to fail once, a conversation stays due; then passes of each rule."""
    c = s.talk()
    s.say(c, "a", "half")
    plant(s, c)
    advance(s, 1001)
    eq(state(s, c), ACTIVE, "due, and failing")
    got = s.call("watchdog.runOnce", rule="session.wall_clock")
    eq((got["checked"], got["errors"]), (0, 0), "the budget has nothing to do with it")
    got = s.call("watchdog.runOnce", rule="conversation.idle")
    eq((got["checked"], got["candidates"], got["errors"], got["canceled"]), (1, 1, 1, 0), "idle")


@manual("watchdog.idle_ms=1000")
def test_two_passes_at_once_are_both_answered(s):
    for c in [s.talk() for _ in range(50)]:
        s.say(c, "a", "half")
    with s.socket() as ws:
        calls = [("clock.advance", {"ms": 1001}), ("watchdog.runOnce", {}),
                 ("watchdog.runOnce", {}), ("watchdog.runOnce", {"rule": "conversation.idle"})]
        for n, (method, params) in enumerate(calls):
            ws.text_out(json.dumps({"jsonrpc": "2.0", "id": n, "method": method,
                                    "params": params}))
        answers = {}
        while len(answers) < len(calls):
            a = json.loads(ws.text_in())
            answers[a["id"]] = a["result"]
    for n in (1, 2, 3):
        a = answers[n]
        eq(set(a) - {"running"}, {"checked", "candidates", "canceled", "skipped", "errors"},
           "members")
        if a.get("running"):
            eq([v for k, v in a.items() if k != "running"], 5 * [0], "zeros while one is running")
    eq(rules(s)["conversation.idle"]["fired"], 50, "each was cancelled once")


def test_passes_need_no_manual_clock_and_clocks_do():
    s = Server().start()
    eq(s.call("watchdog.runOnce")["errors"], 0, "a pass")
    s.refused("FORBIDDEN", "clock.gap", ms=1)
    s.stop()
    log = s.log()
    check(log.count("watch started") == 1 and log.count("watch stopped") == 1,
          f"a line at start and stop of the watchdog: {log}")


# ---- order ----

@manual("watchdog.idle_ms=10000")
def test_blocked_wins_if_both_are_due_together(s):
    c = s.talk(runtime_controls={"session_wall_clock_seconds": 10})
    s.say(c, "a", "in the millisecond of its creation")
    both = clocks(s, c)
    eq(both["conversation.idle"], both["session.wall_clock"], "due together")
    advance(s, 10_001)
    eq(state(s, c), BLOCKED, "state")
    eq(len(system(s.events(c), "idle_timeout")), 0, "no cancel")
    advance(s, 3600_000)
    eq(state(s, c), BLOCKED, "silence of a blocked one is nothing")


@manual("watchdog.idle_ms=10000")
def test_the_earlier_one_wins_in_one_long_step(s):
    idle_first = s.talk(runtime_controls={"session_wall_clock_seconds": 20})
    budget_first = s.talk(runtime_controls={"session_wall_clock_seconds": 20})
    s.say(idle_first, "a", "half")
    began = now(s)
    advance(s, 10_000)
    s.say(idle_first, "a", "last word")
    advance(s, 1)
    s.say(budget_first, "a", "half")
    advance(s, 3600_000)
    eq(state(s, idle_first), BLOCKED, "due together, in one step")
    eq(state(s, budget_first), BLOCKED, "the budget is a millisecond earlier")
    eq(s.events(budget_first)[-1]["ts"], iso(began + 20_001), "at its time")
    c = s.talk(runtime_controls={"session_wall_clock_seconds": 20})
    s.say(c, "a", "half")
    began = now(s)
    advance(s, 3600_000)
    eq((state(s, c), s.events(c)[-1]["ts"]), (IDLE, iso(began + 10_001)), "silence is earlier")


@manual("watchdog.idle_ms=10000", "watchdog.global_idle_ms=10000")
def test_moves_of_one_millisecond_come_in_the_order_of_the_table(s):
    talks = [s.talk() for _ in range(4)] + [
        s.talk(runtime_controls={"session_wall_clock_seconds": 10}) for _ in range(2)]
    for c in talks[2:4]:
        s.say(c, "a", "half")
    advance(s, 10_001)
    last = {c: s.events(c)[-1]["id"] for c in talks}
    want = [*talks[4:], *talks[2:4], *talks[:2]]
    eq(sorted(talks, key=last.get), want, "budgets, open turns, closed turns; by number")


# ---- anything ----

STEPS = (0, 1, 2, 499, 500, 501, 999, 1000, 1001, 2000, 3999, 4000, 4001)
SILENCES = (1, 500, 1000, 1001, 2000, 4000, 4001, 6000)
BUDGETS = (1, 2, 4, 5, 10, 25)


class Both:
    """Does the same things to the server and to the model."""

    def __init__(self, s, seed):
        self.s, self.dice = s, random.Random(seed)
        self.model = Model(now(s), Limits())
        self.done = []
        self.restart()

    def choice(self, values, *others):
        return self.dice.choice((*others, self.dice.choice(values)))

    def limits(self):
        d = self.dice
        return Limits(self.choice(SILENCES, 0), self.choice(SILENCES, 0),
                      self.choice(BUDGETS, 0), d.random() > 0.15)

    def restart(self):
        limits = self.limits()
        restart_with(self.s, *limits.settings(), how=self.dice.choice(("kill", "stop")))
        self.model.limits = limits
        self.model.fired = dict.fromkeys(self.model.fired, 0)
        self.advance(0)

    def create(self):
        d, watchdog = self.dice, {}
        for key in ("idleMs", "globalIdleMs"):
            if d.random() < 0.5:
                watchdog[key] = self.choice(SILENCES, 0)
        if d.random() < 0.1:
            watchdog["disabled"] = True
        budget_s = self.choice(BUDGETS, None, 0)
        if budget_s and d.random() < 0.5:
            watchdog["idleMs"] = watchdog["globalIdleMs"] = 1000 * budget_s
        controls = {} if budget_s is None else {
            "runtime_controls": {"session_wall_clock_seconds": budget_s}}
        turns = d.choice((0, 3, 40))
        c = self.s.talk("a", "b", maxTurns=turns, watchdog=watchdog, **controls)
        self.model.add(self.s, c, watchdog, budget_s, turns)
        if d.random() < 0.5:  # silence and budget then count from one millisecond
            self.say(c, "a", "none")

    def both(self, on_model, method, **params):
        """One call; the server must refuse it if and as the model does."""
        try:
            on_model()
        except Refused as e:
            self.s.refused(str(e), method, **params)
            return
        self.s.call(method, **params)

    def message(self):
        c, agent = self.pick(), self.dice.choice("ab")
        finality = self.dice.choice(("none", "none", "turn", "turn", "conversation"))
        more = {}
        if finality == "conversation":
            if self.dice.random() < 0.7:
                finality = "turn"
            else:
                more["outcome"] = {"status": self.dice.choice(("completed", "canceled",
                                                               "failed"))}
        self.say(c, agent, finality, **more)

    def say(self, c, agent, finality, **more):
        outcome = more.get("outcome", {}).get("status")
        self.both(lambda: self.model.message(c, agent, "x", finality, outcome), "message.send",
                  conversation=c, agentId=agent, text="x", finality=finality, **more)

    def trace(self):
        c, agent = self.pick(), self.dice.choice("ab")
        self.both(lambda: self.model.trace(c, agent), "trace.append", conversation=c,
                  agentId=agent, payload={"type": "thought", "content": "hm"})

    def clear(self):
        c, agent = self.pick(), self.dice.choice("ab")
        self.both(lambda: self.model.clear(c, agent), "turn.clear", conversation=c, agentId=agent)

    def end(self):
        c, outcome = self.pick(), self.dice.choice(("completed", "canceled", "failed"))
        self.both(lambda: self.model.end(c, outcome), "conversation.end", conversation=c,
                  outcome=outcome)

    def resume(self):
        blocked = [t.number for t in self.model.talks.values() if t.status == "blocked"]
        c = self.dice.choice(blocked) if blocked and self.dice.random() < 0.9 else self.pick()
        budget_s = self.choice(BUDGETS, None, None, 0)
        controls = {} if budget_s is None else {
            "runtime_controls": {"session_wall_clock_seconds": budget_s}}
        self.both(lambda: self.model.resume(c, budget_s), "conversation.resume", conversation=c,
                  **controls)

    def advance(self, by_ms=None):
        by_ms = self.dice.choice(STEPS) if by_ms is None else by_ms
        self.model.advance(by_ms)
        eq(advance(self.s, by_ms), self.model.now_ms, "now")

    def gap(self):
        by_ms = self.dice.choice(STEPS)
        self.model.gap(by_ms)
        eq(gap(self.s, by_ms), self.model.now_ms, "now")

    def pass_now(self):
        self.s.call("watchdog.runOnce")  # must change nothing: what is due was done

    def pick(self):
        """An active one mostly."""
        talks = list(self.model.talks.values())
        active = [t for t in talks if t.status == "active"]
        if not active or len(talks) < 4:
            self.create()
            return max(self.model.talks)
        return self.dice.choice(active if self.dice.random() < 0.85 else talks).number

    def step(self):
        what = self.dice.choices(
            (self.create, self.message, self.trace, self.clear, self.end, self.resume,
             self.advance, self.gap, self.restart, self.pass_now),
            (4, 30, 12, 5, 1, 8, 30, 8, 4, 3))[0]
        self.done.append(what.__name__)
        what()

    def compare(self, talks=None):
        self.model.compare(self.s, talks)
        fired = {rule: r["fired"] for rule, r in rules(self.s).items() if rule in self.model.fired}
        eq(fired, self.model.fired, "fired since the start")


def play(s, seed, steps=300):
    game = Both(s, seed)
    try:
        for n in range(steps):
            game.step()
            live = [t for t in game.model.talks.values() if t.status == "active"]
            game.compare(None if n % 25 == 24 else live)
        game.compare()
        told = [(e["payload"]["data"]["ms"], ms(e["payload"]["data"]["to"]))
                for e in system(s.events(0), "watch.gap")]
        eq(told, [(b - a, b) for a, b in game.model.gaps], "gaps told")
        moved = [e for c in game.model.talks for e in s.events(c)
                 if e["agentId"] == "system-watchdog"]
        eq([(e["conversation"], e["seq"]) for e in sorted(moved, key=lambda e: e["id"])],
           game.model.order, "order of the moves")
        ended = {t.stop for t in game.model.talks.values()}
    except BaseException:
        print(f"seed {seed}, step {len(game.done)}: … {' '.join(game.done[-12:])}")
        raise
    return ended


@manual(deadline=150)
def test_model_1(s):
    ended = play(s, 1)
    check(len(ended) >= 4, f"it saw too little: {ended}")


@manual(deadline=150)
def test_model_2(s):
    play(s, 2)


@manual(deadline=150)
def test_model_3(s):
    play(s, 3)


if __name__ == "__main__":
    main()
