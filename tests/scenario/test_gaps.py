"""Time in which nobody watched convicts nobody (P16), and is told once."""
import os
import signal
import time

from reeve_test import Server, check, eq, main, server, wait_for
from watch_model import (ACTIVE, BLOCKED, GLOBAL_IDLE, IDLE, advance, clocks, gap, iso, manual, ms,
                         now, state, system, trace)

HOUR = 3600_000
NO_BUDGET = "runtime_controls.session_wall_clock_seconds=0"


def gaps(s):
    """What conversation 0 tells of them."""
    return [e["payload"]["data"] for e in system(s.events(0), "watch.gap")]


def opened(s, **more):
    c = s.talk(**more)
    s.say(c, "a", "half")
    return c


# ---- by hand ----

@manual("watchdog.idle_ms=10000", "watchdog.global_idle_ms=20000", NO_BUDGET)
def test_L30_a_gap_of_hours_convicts_nobody(s):
    c, waiting = opened(s), s.talk()
    began = now(s)
    advance(s, 4000)
    gap(s, 5 * HOUR)
    eq([state(s, c), state(s, waiting)], [ACTIVE, ACTIVE], "right after it")
    eq(clocks(s, c), {"conversation.idle": began + 5 * HOUR + 10_001}, "shifted by the gap")
    eq(clocks(s, waiting), {"conversation.global_idle": began + 5 * HOUR + 20_001}, "so is this")
    eq(s.call("watchdog.runOnce")["canceled"], 0, "by a pass")
    advance(s, 6000)
    eq(state(s, c), ACTIVE, "at the limit of watched time")
    advance(s, 1)
    eq((state(s, c), s.events(c)[-1]["ts"]), (IDLE, iso(began + 5 * HOUR + 10_001)), "past it")
    eq(s.events(c)[-1]["payload"]["metadata"]["lastEventTs"], iso(began), "what it saw last")
    advance(s, 10_000)
    eq(state(s, waiting), GLOBAL_IDLE, "the other one, past its own")


@manual("watchdog.idle_ms=10000")
def test_L30_budgets_count_unwatched_time(s):
    c = opened(s, runtime_controls={"session_wall_clock_seconds": 3600})
    on_time = opened(s, runtime_controls={"session_wall_clock_seconds": 2 * 3600})
    began = now(s)
    gap(s, HOUR)
    eq(state(s, c), ACTIVE, "at its budget")
    eq(len(system(s.events(c), "runtime.watchdog.notice")), 1, "the notice is late, not lost")
    advance(s, 1)
    eq((state(s, c), s.events(c)[-1]["ts"]), (BLOCKED, iso(began + HOUR + 1)), "over it")
    gap(s, 24 * HOUR)
    eq((state(s, on_time), s.events(on_time)[-1]["ts"]), (BLOCKED, iso(now(s))),
       "over it within a gap: blocked at its end")
    eq([e["payload"]["kind"] for e in system(s.events(on_time))][1:],
       ["runtime.watchdog.notice", "runtime.watchdog.cancel"], "first the notice")
    data = s.events(on_time)[-1]["payload"]["data"]
    eq(data["elapsed_seconds"], 25 * 3600, "elapsed")


@manual("watchdog.idle_ms=10000", NO_BUDGET)
def test_L31_after_a_gap_the_silent_and_the_living_look_alike(s):
    """Until one of them writes: a verdict needs the rest of the window, watched."""
    silent, living = opened(s), opened(s)
    advance(s, 9000)
    gap(s, HOUR)
    eq(clocks(s, silent), clocks(s, living), "clocks")
    eq((state(s, silent), state(s, living)), (ACTIVE, ACTIVE), "states")
    advance(s, 1000)
    eq((state(s, silent), state(s, living)), (ACTIVE, ACTIVE), "at the limit")
    trace(s, living)
    advance(s, 1)
    eq((state(s, silent), state(s, living)), (IDLE, ACTIVE), "one of them spoke")
    eq(clocks(s, living)["conversation.idle"], now(s) + 10_000, "a whole window from there")


@manual("watchdog.idle_ms=10000", NO_BUDGET)
def test_a_gap_is_told_once(s):
    c = opened(s)
    from_ms = advance(s, 1234)
    log = s.events(c)
    to_ms = gap(s, 77_777)
    told = [{"kind": "manual", "ms": 77_777, "from": iso(from_ms), "to": iso(to_ms)}]
    eq(gaps(s), told, "told")
    event = system(s.events(0), "watch.gap")[0]
    eq((event["conversation"], event["turn"], event["agentId"], event["ts"]),
       (0, 0, "system-watchdog", iso(to_ms)), "where")
    for again in (lambda: advance(s, 1), s.restart, lambda: s.restart("stop"),
                  lambda: s.call("watchdog.runOnce"), lambda: gap(s, 0)):
        again()
        eq(gaps(s), told, "told again")
    eq(s.events(c), log, "nothing in the conversation itself")
    for wrong in (-1, 1.5, "5", True, None, 10**18):
        s.refused("INVALID_PARAMS", "clock.gap", ms=wrong)


@manual("watchdog.idle_ms=10000", NO_BUDGET)
def test_several_gaps_in_one_silence_add_up(s):
    c = opened(s)
    began = now(s)
    for watched, unwatched in ((1000, HOUR), (2000, 1), (0, 500), (0, 700), (3000, 2 * HOUR)):
        advance(s, watched)
        gap(s, unwatched)
    missed = 3 * HOUR + 1201
    eq(clocks(s, c), {"conversation.idle": began + missed + 10_001}, "due")
    s.restart()
    advance(s, 0)
    eq(clocks(s, c), {"conversation.idle": began + missed + 10_001}, "due, after a restart")
    advance(s, 4000)
    eq(state(s, c), ACTIVE, "at the limit")
    advance(s, 1)
    eq(state(s, c), IDLE, "past it")
    eq([g["ms"] for g in gaps(s)], [HOUR, 1, 500, 700, 2 * HOUR], "told")


@manual("watchdog.idle_ms=10000", NO_BUDGET)
def test_a_gap_before_the_last_word_is_over(s):
    c = opened(s)
    gap(s, HOUR)
    s.say(c, "a", "in the millisecond in which it ended")
    d = opened(s)
    eq(clocks(s, c), {"conversation.idle": now(s) + 10_001}, "due")
    advance(s, 10_000)
    eq((state(s, c), state(s, d)), (ACTIVE, ACTIVE), "at the limit")
    advance(s, 1)
    eq((state(s, c), state(s, d)), (IDLE, IDLE), "past it")


@manual("watchdog.idle_ms=10000", NO_BUDGET)
def test_a_gap_just_before_and_just_at_the_verdict(s):
    """At the limit, not past it: the gap counts. One millisecond later it would be too late."""
    c = opened(s)
    advance(s, 10_000)
    gap(s, HOUR)
    eq(state(s, c), ACTIVE, "after the gap")
    eq(clocks(s, c), {"conversation.idle": now(s) + 1}, "due")
    gap(s, HOUR)
    gap(s, HOUR)
    eq(state(s, c), ACTIVE, "after two more")
    advance(s, 1)
    eq(state(s, c), IDLE, "one watched millisecond more")


@manual("watchdog.idle_ms=10000", NO_BUDGET)
def test_a_gap_in_which_nothing_is_due(s):
    gap(s, HOUR)
    c = s.talk()
    gap(s, HOUR)
    eq(clocks(s, c), {}, "no clock runs")
    s.say(c, "a", "half")
    d = opened(s)
    s.call("conversation.end", conversation=d)
    log = s.events(d)
    gap(s, HOUR)
    eq((s.events(d), len(gaps(s))), (log, 3), "an ended one is not touched")
    eq(clocks(s, c), {"conversation.idle": now(s) + 10_001}, "due")


@manual("watchdog.idle_ms=10000")
def test_a_gap_while_blocked_shifts_nothing_twice(s):
    c = opened(s, runtime_controls={"session_wall_clock_seconds": 5})
    advance(s, 5001)
    gap(s, HOUR)
    s.call("conversation.resume", conversation=c, runtime_controls={
        "session_wall_clock_seconds": 0})
    eq(clocks(s, c), {"conversation.idle": now(s) + 10_001}, "from the resume on")


@manual("watchdog.idle_ms=60000", NO_BUDGET)
def test_a_manual_clock_makes_no_gap_of_a_restart(s):
    c = opened(s)
    before = now(s), clocks(s, c)
    for how in ("kill", "stop", "kill"):
        s.restart(how)
        eq((now(s), clocks(s, c)), before, f"after {how}")
    eq(gaps(s), [], "gaps")


@manual("watchdog.idle_ms=3000", "watchdog.global_idle_ms=3000", NO_BUDGET)
def test_a_hundred_gaps_and_a_hundred_silences(s):
    """Each conversation leaves out exactly the gaps of its own silence."""
    talks, told = [], []
    for n in range(100):
        talks.append((opened(s) if n % 2 else s.talk(), now(s)))
        advance(s, n)
        told.append((now(s), 10 * n + 1))
        gap(s, 10 * n + 1)
        live = [(c, base) for c, base in talks if n % 10 == 9 and state(s, c) == ACTIVE]
        for c, base in live:
            missed = sum(length for at_ms, length in told if at_ms >= base)
            eq(list(clocks(s, c).values()), [base + 3001 + missed], f"due of {c}")
    eq([g["ms"] for g in gaps(s)], [length for _, length in told], "told")
    eq({state(s, c) for c, _ in talks}, {ACTIVE, IDLE, GLOBAL_IDLE}, "states in the end")


# ---- in truth ----

def process_state(s):
    with open(f"/proc/{s.process.pid}/stat") as f:
        return f.read().rpartition(")")[2].split()[0]


def silence_of(s, c):
    """Watched milliseconds between the last word and the cancel, as the log has them."""
    end = s.events(c)[-1]
    last_ms, end_ms = ms(end["payload"]["metadata"]["lastEventTs"]), ms(end["ts"])
    missed = sum(min(ms(g["to"]), end_ms) - max(ms(g["from"]), last_ms) for g in gaps(s)
                 if ms(g["to"]) > last_ms and g["kind"] != "wall_step")
    return end_ms - last_ms - missed


def long_gaps(s):
    """Those of a process that did not run; a busy machine may add short ones of its own."""
    return [g for g in gaps(s) if g["kind"] == "late" and g["ms"] >= 3000]


def down_times(s):
    return [g for g in gaps(s) if g["kind"] == "down"]


def pause(seconds):
    until = time.monotonic() + seconds
    wait_for(lambda: time.monotonic() >= until, "time to pass")


@server("watchdog.idle_ms=2000", NO_BUDGET)
def test_L30_a_stopped_server_wakes_without_killing_anybody(s):
    c = opened(s)
    last_ms = ms(s.events(c)[-1]["ts"])
    os.kill(s.process.pid, signal.SIGSTOP)
    try:
        wait_for(lambda: process_state(s) == "T", "it to stop")
        pause(3.2)
    finally:
        os.kill(s.process.pid, signal.SIGCONT)
    told = wait_for(lambda: long_gaps(s), "the gap to be told")
    eq(told[0]["ms"], ms(told[0]["to"]) - ms(told[0]["from"]), "length")
    wait_for(lambda: state(s, c) == IDLE, "the silent one to be cancelled")
    check(silence_of(s, c) > 2000, f"after {silence_of(s, c)} ms of watched silence")
    check(ms(s.events(c)[-1]["ts"]) > last_ms + 2000 + 3000, "the gap was left out")
    eq(long_gaps(s), told, "it is told once")


@server("watchdog.idle_ms=3000", NO_BUDGET)
def test_L31_who_speaks_after_the_wake_lives(s):
    silent, living = opened(s), opened(s)
    os.kill(s.process.pid, signal.SIGSTOP)
    try:
        wait_for(lambda: process_state(s) == "T", "it to stop")
        pause(2.6)
    finally:
        os.kill(s.process.pid, signal.SIGCONT)

    def talk_on():
        trace(s, living)
        return state(s, silent) == IDLE
    wait_for(talk_on, "the silent one to be cancelled")
    eq(state(s, living), ACTIVE, "the one that goes on talking")


def test_down_time_is_a_gap_told_once():
    for how in ("kill", "stop"):
        s = Server(args=["--set", "watchdog.idle_ms=2000", "--set", NO_BUDGET]).start()
        c = opened(s)
        s.kill() if how == "kill" else s.stop()
        pause(2.5)
        s.start()
        told = down_times(s)
        eq(len(told), 1, f"{how}: gaps")
        check(told[0]["ms"] >= 2400, f"{how}: length of {told}")
        eq(told[0]["ms"], ms(told[0]["to"]) - ms(told[0]["from"]), f"{how}: length")
        s.restart(how)
        eq(len(down_times(s)), 2, f"{how}: one per start")
        eq(down_times(s)[0], told[0], f"{how}: the first stays as it was")
        check(down_times(s)[1]["from"] >= told[0]["to"], f"{how}: no time is in two gaps")
        wait_for(lambda s=s, c=c: state(s, c) == IDLE, "the silent one to be cancelled")
        check(silence_of(s, c) > 2000, f"{how}: {silence_of(s, c)} ms of watched silence")
        s.stop()


if __name__ == "__main__":
    main()
