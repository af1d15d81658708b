"""`reeve backtest` of the rules of tasks and tools: what other limits would have done to recorded
work, by which evidence, and which settings are refused. Conversations: test_cli_watch.py."""
import json
import random
import re

from crew import (applied, claim, complete, give, join, put_to_work, report, resume, said, start,
                  status, suspend, talk, task_of)
from fleet import edit_store
from reeve_test import RpcError, Server, check, eq, main, reeve
from watch_model import advance, gap, iso, manual, ms, now

SECOND, MINUTE = 1000, 60_000
ALIVE = "liveness.active_ttl_seconds=100000"  # nobody is lost: what is judged is progress
NO_DEADLINE = "worker.suspend_timeout_seconds=0"


def ok(*args, **options):
    done = reeve(*args, **options)
    eq((done.returncode, done.stderr), (0, ""), f"reeve {args}")
    return done.stdout


def backtest(s, *settings):
    """(task, rule, when, truth) of the moves of tasks, and the summary."""
    sets = [x for setting in settings for x in ("--set", setting)]
    answer = json.loads(ok("backtest", *sets, "--json", data=s.data))
    return ([(m["task"], m["rule"], ms(m["at"]), m["truth"]) for m in answer["moves"]
             if m["task"] is not None], answer)


def progress(s, t):
    s.call("task.progress", task=t["task"], epoch=t["epoch"])


# ---- each rule ----

@manual(ALIVE)
def test_a_shorter_reap_ends_work_that_was_silent_and_ended_well(s):
    """The case that used to say `Nothing would have been moved`."""
    c = talk(s)
    t = put_to_work(s, c)
    began = now(s)
    advance(s, 20 * MINUTE)
    complete(s, t)
    got, answer = backtest(s, "pmo.active_reap_seconds=600")
    eq(got, [(t["task"], "running.reap", began + 600_001, "healthy")], "the move")
    (m,) = answer["moves"]
    eq((m["conversation"], m["limitMs"], ms(m["since"]), m["silentMs"], m["wroteAgainAfterMs"]),
       (c, 600_000, began, 600_001, 20 * MINUTE - 600_001), "what it saw, and what came after")
    eq((m["recorded"]["status"], m["recorded"]["rule"]), ("completed", None), "what is recorded")
    eq({k: v for k, v in answer["summary"].items() if k.startswith("tasks")},
       {"tasks": 1, "tasksMoved": 1, "tasksHealthy": 1, "tasksSpared": 0, "tasksUnrecorded": 0},
       "summary")
    eq(backtest(s, "pmo.active_reap_seconds=1200")[0], [], "at the limit it is not exceeded")
    eq(backtest(s)[0], [], "by the limits in force")


@manual(ALIVE)
def test_the_first_silence_that_is_longer_than_the_limit_counts(s):
    c = talk(s)
    t = put_to_work(s, c)
    began = {}
    for minutes in (5, 2, 12, 11, 20, 1):
        began[minutes] = now(s)
        advance(s, minutes * MINUTE)
        progress(s, t)
    complete(s, t)
    for limit, minutes in ((30, 5), (200, 5), (300, 12), (600, 12), (719, 12), (720, 20), (1199, 20)):
        eq(backtest(s, f"pmo.active_reap_seconds={limit}")[0],
           [(t["task"], "running.reap", began[minutes] + limit * SECOND + 1, "healthy")], f"{limit} s")
    eq(backtest(s, "pmo.active_reap_seconds=1200")[0], [], "the longest")


@manual(ALIVE)
def test_silence_that_goes_on_is_judged_until_now(s):
    c = talk(s)
    t = put_to_work(s, c)
    began = now(s)
    advance(s, 11 * MINUTE)
    eq(backtest(s, "pmo.active_reap_seconds=600")[0],
       [(t["task"], "running.reap", began + 600_001, "silent")], "open")
    eq(backtest(s, "pmo.active_reap_seconds=660")[0], [], "not yet")


@manual(ALIVE)
def test_P16_time_in_which_nobody_watched_is_left_out(s):
    c = talk(s)
    t = put_to_work(s, c)
    began = now(s)
    advance(s, 5 * MINUTE)
    gap(s, 30 * MINUTE)
    advance(s, 6 * MINUTE)
    progress(s, t)
    s.restart()
    gaps = sum(e["ms"] for e in said(s, 0, "watch.gap"))
    check(gaps >= 30 * MINUTE, "gaps")
    complete(s, t)
    eq(backtest(s, "pmo.active_reap_seconds=600")[0],
       [(t["task"], "running.reap", began + 600_001 + 30 * MINUTE, "healthy")], "shifted")
    eq(backtest(s, "pmo.active_reap_seconds=660")[0], [], "eleven minutes were watched")


@manual(ALIVE)
def test_dispatch_reap_judges_pending_and_claimed_work(s):
    c = talk(s)
    began = now(s)
    t = give(s, c)
    advance(s, 3 * MINUTE)
    join(s, c)
    claim(s, c)
    claimed = now(s)
    advance(s, 5 * MINUTE)
    complete(s, start(s, task_of(s, t)))
    key = "pmo.dispatched_timeout_seconds"
    eq(backtest(s, f"{key}=120")[0],
       [(t["task"], "dispatch.reap", began + 120_001, "healthy")], "pending")
    eq(backtest(s, f"{key}=200")[0],
       [(t["task"], "dispatch.reap", claimed + 200_001, "healthy")], "claimed")
    eq(backtest(s, f"{key}=300")[0], [], "neither")


@manual(ALIVE, NO_DEADLINE)
def test_suspended_reap_judges_waits_without_a_deadline(s):
    c = talk(s)
    t = put_to_work(s, c)
    suspend(s, t, "x", "y")
    advance(s, 10 * MINUTE)
    report(s, t, "x")
    settled = now(s)
    advance(s, 30 * MINUTE)
    report(s, t, "y")
    resume(s, t)
    complete(s, applied(s, t, "x", "y"))
    eq(backtest(s, "pmo.suspended_reap_seconds=1200")[0],
       [(t["task"], "suspended.reap", settled + 1_200_001, "healthy")], "since the last result")
    eq(backtest(s, "pmo.suspended_reap_seconds=1800")[0], [], "at the limit")


@manual(ALIVE)
def test_tool_timeout_judges_open_calls_and_what_they_asked_for(s):
    c = talk(s)
    t = put_to_work(s, c)
    began = now(s)
    suspend(s, t, {"toolCallId": "x", "name": "x"},
            {"toolCallId": "y", "name": "y", "options": {"timeout_seconds": 60}})
    advance(s, 20 * SECOND)
    report(s, t, "x")
    advance(s, 35 * SECOND)
    report(s, t, "y")
    resume(s, t)
    complete(s, applied(s, t, "x", "y"))
    eq(backtest(s, "worker.suspend_timeout_seconds=10")[0],
       [(t["task"], "tool.timeout", began + 10_001, "healthy")], "x; y asked for a minute")
    eq(backtest(s, "worker.suspend_timeout_seconds=20")[0], [], "in time")


@manual(ALIVE)
def test_task_max_seconds_counts_from_the_first_dispatch(s):
    c = talk(s)
    began = now(s)
    first, queued = give(s, c), give(s, c)
    advance(s, 5 * MINUTE)
    join(s, c)
    complete(s, start(s, claim(s, c)))
    dispatched = now(s)
    advance(s, 2 * MINUTE)
    complete(s, start(s, claim(s, c)))
    eq(backtest(s, "task.max_seconds=200")[0],
       [(first["task"], "task.max_seconds", began + 200_001, "healthy")], "the first")
    eq(backtest(s, "task.max_seconds=100")[0],
       [(first["task"], "task.max_seconds", began + 100_001, "healthy"),
        (queued["task"], "task.max_seconds", dispatched + 100_001, "healthy")], "in the queue: not yet")


@manual()
def test_task_exhausted_counts_lost_attempts(s):
    c = talk(s)
    t = give(s, c)
    lost = []
    for _ in range(2):
        join(s, c)
        start(s, claim(s, c))
        advance(s, MINUTE + 1)
        lost.append(now(s))
    advance(s, SECOND)
    join(s, c)
    complete(s, start(s, claim(s, c)))
    eq(status(s, t), "completed", "the third attempt")
    for limit in (1, 2):
        eq(backtest(s, f"liveness.max_attempts={limit}")[0],
           [(t["task"], "task.exhausted", lost[limit - 1], "healthy")], f"{limit} attempts")
    eq(backtest(s, "liveness.max_attempts=3")[0], [], "as it was")


# ---- beside the record ----

@manual(ALIVE, "task.max_seconds=3600", "pmo.dispatched_timeout_seconds=300",
        "pmo.active_reap_seconds=600", "pmo.suspended_reap_seconds=600")
def test_the_limits_in_force_find_what_the_rules_of_tasks_did(s):
    c = talk(s, "a", "b", "d", "e")
    want = []

    def ended(t, rule):
        want.append((t["task"], rule, ms(task_of(s, t)["completedAt"]), "same"))

    pending = give(s, c, "b")
    advance(s, 5 * MINUTE + 1)
    ended(pending, "dispatch.reap")
    silent = put_to_work(s, c)
    advance(s, 10 * MINUTE + 1)
    ended(silent, "running.reap")
    waits = put_to_work(s, c, "d", "c3")
    suspend(s, waits, "x")
    advance(s, 30 * SECOND + 1)
    want.append((waits["task"], "tool.timeout", now(s), "same"))
    advance(s, 10 * MINUTE + 1)
    ended(waits, "suspended.reap")
    old = put_to_work(s, c, "e", "c4")
    for _ in range(13):
        advance(s, 5 * MINUTE)
        if status(s, old) == "in_progress":
            progress(s, old)
    ended(old, "task.max_seconds")
    got, answer = backtest(s)
    eq(got, want, "moves")
    eq(answer["summary"]["tasksMoved"], 4, "tasks")


@manual(ALIVE, "pmo.active_reap_seconds=600")
def test_a_longer_limit_does_not_know_what_would_have_come(s):
    c = talk(s)
    t = put_to_work(s, c)
    began = now(s)
    advance(s, 30 * MINUTE)
    eq(status(s, t), "failed", "reaped")
    eq(backtest(s, "pmo.active_reap_seconds=900")[0],
       [(t["task"], "running.reap", began + 900_001, "unknown")], "longer")
    got, answer = backtest(s, "pmo.active_reap_seconds=0")
    eq((got, answer["summary"]["tasksSpared"]), ([], 1), "off")
    eq(backtest(s, "pmo.active_reap_seconds=300")[0],
       [(t["task"], "running.reap", began + 300_001, "silent")], "shorter: nobody was there")


@manual(ALIVE, "runtime_controls.session_wall_clock_seconds=600", "task.max_seconds=0")
def test_blocked_time_is_left_out(s):
    c = talk(s, runtime_controls={"session_wall_clock_seconds": 600})
    t = give(s, c)
    began = now(s)
    advance(s, 10 * MINUTE + 1)
    blocked = now(s)
    advance(s, 60 * MINUTE)
    s.call("conversation.resume", conversation=c, runtime_controls=None)
    away = now(s) - blocked
    advance(s, 2 * MINUTE)
    join(s, c)
    complete(s, start(s, claim(s, c)))
    key = "pmo.dispatched_timeout_seconds"
    eq(backtest(s, f"{key}=300")[0], [(t["task"], "dispatch.reap", began + 300_001, "silent")], "before")
    eq(backtest(s, f"{key}=660")[0],
       [(t["task"], "dispatch.reap", began + 660_001 + away, "healthy")], "after")
    eq(backtest(s, f"{key}=720")[0], [], "never")


@manual(ALIVE, "watchdog.idle_ms=0")
def test_a_conversation_is_not_silent_while_it_has_work(s):
    c = talk(s, watchdog=None)
    s.say(c, "user", "please")
    t = put_to_work(s, c)
    advance(s, 20 * MINUTE)
    complete(s, t)
    ended = now(s)
    advance(s, 11 * MINUTE)
    answer = backtest(s, "watchdog.idle_ms=600000")[1]
    eq([(m["rule"], ms(m["at"])) for m in answer["moves"]],
       [("conversation.idle", ended + 600_001)], "silent since the work ended")


@manual(ALIVE, "watchdog.idle_ms=0")
def test_a_conversation_that_would_have_ended_takes_its_tasks_along(s):
    c = talk(s, watchdog=None)
    s.say(c, "user", "please")
    advance(s, 20 * MINUTE)
    t = put_to_work(s, c)
    advance(s, 20 * MINUTE)
    complete(s, t)
    eq(len(backtest(s, "pmo.active_reap_seconds=600")[0]), 1, "of the task")
    got, answer = backtest(s, "pmo.active_reap_seconds=600", "watchdog.idle_ms=600000")
    eq((got, [m["rule"] for m in answer["moves"]]), ([], ["conversation.idle"]), "not begun")


def edit(s, statement):
    s.stop()
    edit_store(s, statement)
    s.start()


@manual(ALIVE)
def test_tasks_of_an_older_reeve_are_counted_and_not_called_healthy(s):
    c = talk(s)
    began = now(s)
    t = put_to_work(s, c)
    advance(s, 20 * MINUTE)
    complete(s, t)
    edit(s, "UPDATE tasks SET spans = '?'")
    got, answer = backtest(s, "pmo.active_reap_seconds=600")
    eq((got, answer["summary"]["tasksUnrecorded"]), ([], 1), "its silence is not known")
    check("1 of these tasks" in ok("backtest", data=s.data), "said")
    eq(backtest(s, "task.max_seconds=600")[0],
       [(t["task"], "task.max_seconds", began + 600_001, "healthy")], "its age is")
    edit(s, "UPDATE tasks SET spans = 'damaged'")
    eq(backtest(s)[1]["summary"]["tasksUnrecorded"], 1, "nor that of a damaged row")


@manual(ALIVE)
def test_in_words(s):
    c = talk(s)
    t = put_to_work(s, c)
    began = now(s)
    advance(s, 20 * MINUTE)
    complete(s, t)
    lines = ok("backtest", "--set", "pmo.active_reap_seconds=600", data=s.data).splitlines()
    eq([re.split(r"\s{2,}", x) for x in lines[:2]],
       [["CONVERSATION", "TASK", "RULE", "MOVED AT", "WHY", "IN TRUTH"],
        ["1", "1", "running.reap", iso(began + 600_001), "no progress for 10m 00s",
         "healthy: it went on 9m 59s later"]], "the table")
    eq(lines[-1], "1 task replayed, 1 would have been moved, 1 of them healthy, 0 moved by the limits "
       "in force but not by these", "the sum")


# ---- another server ----

LIMITS = {"pmo.active_reap_seconds": 1000, "pmo.dispatched_timeout_seconds": 900,
          "pmo.suspended_reap_seconds": 300, "worker.suspend_timeout_seconds": 100,
          "task.max_seconds": 5400}
OFF = [f"{key}=0" for key in LIMITS]
AGENTS = 16


def live(servers, seed):
    """The same random work of one agent in each of many conversations, on each server."""
    dice = random.Random(seed)
    for s in servers:
        for _ in range(AGENTS):
            c = talk(s, "a")
            join(s, c)
            give(s, c)

    def do(method, **params):
        for s in servers:
            try:
                s.call(method, **params)
            except RpcError as e:
                check(e.name in ("INVALID_TRANSITION", "STALE_EPOCH", "NOT_FOUND",
                                 "PRECONDITION_FAILED", "IDEMPOTENCY_CONFLICT"), f"{method}: {e}")

    epochs = {c: 1 for c in range(1, AGENTS + 1)}
    for c in range(1, AGENTS // 2):
        do("task.claim", conversation=c, role="a", connectionId="c1")
        do("task.start", task=c, epoch=1)
    for _ in range(600):
        c = dice.randrange(1, AGENTS + 1)
        task = {"task": c, "epoch": epochs[c]}
        act = dice.random()
        if act < 0.15:
            do("task.claim", conversation=c, role="a", connectionId="c1")
        elif act < 0.3:
            do("task.start", **task)
        elif act < 0.42:
            do("task.progress", **task)
        elif act < 0.46:
            do("task.suspend", **task, tools=[{"toolCallId": n, "name": n} | (
                {"options": {"timeout_seconds": 45}} if dice.random() < 0.3 else {})
                for n in ("x", "y")])
        elif act < 0.62:
            do("tool.report", task=c, toolCallId=dice.choice("xy"), status="success")
        elif act < 0.7:
            do("task.resume", **task)
            do("task.applied", **task, toolCallIds=["x", "y"])
            epochs[c] = servers[0].call("task.get", task=c)["task"]["epoch"]
        elif act < 0.71:
            do("task.complete", **task)
        elif act < 0.73:
            do("clock.gap", ms=dice.randrange(1, 10 * MINUTE))
            do("clock.advance", ms=1)  # who came first, worker or ladder, is in no log
        else:
            do("clock.advance", ms=dice.choice((1, 999, 7 * SECOND, 30 * SECOND, 2 * MINUTE)))


@manual(ALIVE, *OFF, "liveness.ttl_seconds=100000", deadline=180)
def test_backtest_of_tasks_foretells_another_server(s):
    """The same life on a server without limits and on one with: a backtest of the first says what
    the second did first to each task, to the millisecond."""
    limits = [f"{key}={value}" for key, value in LIMITS.items()]
    strict = Server(args=["--clock=manual", *(x for v in (ALIVE, "liveness.ttl_seconds=100000",
                                                          *limits) for x in ("--set", v))]).start()
    live([s, strict], 2)
    got = backtest(s, *limits)[0]

    def age(server_, at):
        return at - ms(server_.events(1)[0]["ts"])

    want = {}
    for c in range(1, AGENTS + 1):
        for e in said(strict, c, "agent.force_terminated", "watch.tool.timeout"):
            want.setdefault(e["task"], (e.get("rule", "tool.timeout"), age(strict, e["at"])))
    rules = {rule for rule, _ in want.values()}
    eq(rules, {"dispatch.reap", "running.reap", "suspended.reap", "task.max_seconds", "tool.timeout"},
       "rules that moved")
    first = {}
    for task, rule, at, _ in got:
        first.setdefault(task, (rule, age(s, at)))
    eq(first, want, "the first moves")
    strict.stop()


# ---- what cannot be replayed ----

@manual()
def test_a_setting_that_cannot_be_replayed_is_refused_by_name(s):
    rules = s.call("watchdog.rules")["rules"]
    replayed = {r["key"] for r in rules if r["rule"] in (
        "session.wall_clock", "conversation.idle", "conversation.global_idle", "tool.timeout",
        "dispatch.reap", "running.reap", "suspended.reap", "task.exhausted", "task.max_seconds")}
    others = {r["key"] for r in rules if r["key"]} - replayed
    check(len(others) >= 10, f"{others}")
    for key in others | {"net.ping_seconds", "machine.fence_seconds", "watch.gap_seconds"}:
        done = reeve("backtest", "--set", f"{key}=1000", data=s.data)
        eq((done.returncode, done.stdout), (2, ""), key)
        check(f"{key} cannot be replayed: " in done.stderr, done.stderr)
    listed = re.search(r"can be replayed: ([^:]*?)\. Others", ok("help", "backtest"), re.S)[1]
    eq(set(re.split(r",\s+", listed)), replayed | {"watchdog.enabled"}, "those of the help")
    for key in replayed:
        ok("backtest", "--set", f"{key}=1000", data=s.data)
    done = reeve("backtest", "--set", "liveness.ttl_seconds=100", data=s.data)
    check("the beats of listeners are kept in memory only" in done.stderr, done.stderr)


if __name__ == "__main__":
    main()
