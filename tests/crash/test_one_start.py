"""One start, one restart, however many ask for it and whatever dies meanwhile (P4).

Threads ask at once while the server is killed and started again on the same folder; whatever had
no answer is asked again. What is counted in the end is what a machine was told, and the store's
own rows.

    REEVE_ROUNDS=6  kills for each test
"""
import itertools
import os
import random
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "scenario"))

from audit import audit_starts, starts_in  # noqa: E402
from crew import give, task_of  # noqa: E402
from fleet import commands, starts  # noqa: E402
from reeve_test import Client, Closed, RpcError, check, eq, main, server, wait_for  # noqa: E402
from scripted_machine import CRASH, Machine, agent_of, starts_of, told, work  # noqa: E402

ROUNDS = int(os.environ.get("REEVE_ROUNDS", "6"))
SEED = int(os.environ.get("REEVE_SEED", "1"))
GONE = (Closed, OSError)


def insist(s, call):
    """Does it until it is answered, on whatever port the server has then."""
    while True:
        try:
            return call(Client(s.port, s.token))
        except GONE:
            wait_for(lambda: s.process and s.process.poll() is None, "the server")
        except RpcError as e:
            check(e.name == "UNAVAILABLE", f"refused: {e}")


def under_kills(s, calls, kills):
    """Many at once, each until it is answered; the server is killed that often on the way."""
    rng = random.Random(SEED)
    answered, failed = itertools.count(), []
    done = []

    def run(call):
        try:
            insist(s, call)
            done.append(next(answered))
        except BaseException as e:  # noqa: B036 - raised below
            failed.append(e)

    threads = [threading.Thread(target=run, args=(c,), daemon=True) for c in calls]
    marks = sorted(rng.randrange(len(calls)) for _ in range(kills))
    for t in threads:
        t.start()
    for mark in marks:
        wait_for(lambda: len(done) >= mark or failed, f"{mark} answers")
        s.restart("kill")
    for t in threads:
        t.join(60)
    if failed:
        raise failed[0]
    eq(len(done), len(calls), "answers")


def check_store(s):
    """No agent has ever had two open starts at a time, and each spawn is of one start."""
    s.stop()
    eq(audit_starts(starts_in(s.data)), [], "complaints")
    s.start()


def new(s, desired):
    return s.call("conversation.create", agents=[
        {"role": "a", "kind": "worker", "desired": desired}])["conversation"]


def message(c, i):
    return lambda client: client.say(c, "user", "do", to="a", clientRequestId=f"m{i}")


@server(deadline=120)
def test_P4_a_hundred_messages_and_a_crash_in_between_make_one_start(s):
    m = Machine(s)
    for round_ in range(ROUNDS):
        c = new(s, "auto")
        under_kills(s, [message(c, i) for i in range(100)], 1 + round_ % 3)
        eq(len(commands(s, c)), 1, "commands")
        m.reconnect()
        given = [x for x in m.register() if x["conversation"] == c]
        eq([x["type"] for x in given], ["start-agent"], "what the machine is told")
        m.spawn(given[0])
        under_kills(s, [message(c, 100 + i) for i in range(30)], 1)
        m.reconnect()
        eq((m.poll(), len(commands(s, c))), ([], 1), "it runs: no other")
    check_store(s)


@server(deadline=120)
def test_P4_a_start_that_was_taken_before_a_crash_is_the_same_after_it(s):
    """Pending, delivered and booting survive, and messages after it add nothing."""
    m = Machine(s, kinds=[{"name": "worker", "ready": "notify"}])
    for taken in ("pending", "delivered", "booting", "done"):
        c = new(s, "auto")
        give(s, c)
        if taken != "pending":
            (begun,) = starts_of(m.poll())
        if taken in ("booting", "done"):
            m.spawn(begun)
        if taken == "done":
            m.ready(begun["spawnId"])
        s.restart("kill")
        m.reconnect()
        under_kills(s, [message(c, i) for i in range(20)], 1)
        m.reconnect()
        (now,) = commands(s, c)
        eq(now["status"], taken, "the start")
        for x in starts_of(m.register()):
            eq(x["conversation"], c, "handed over again")
            if x["status"] != "booting":
                m.ready(m.spawn(x))
        if taken == "booting":
            m.ready(now["spawnId"])
        eq((agent_of(s, c)["view"], len(commands(s, c))), ("running", 1), taken)
    check_store(s)


@server(deadline=120)
def test_P4_a_hundred_observers_and_a_crash_in_between_make_one_restart(s):
    m = Machine(s)
    for round_ in range(ROUNDS):
        c = new(s, "running")
        (begun,) = starts_of(m.poll())
        spawn = m.spawn(begun)
        t, _ = work(s, m, c, spawn)
        del m.processes[spawn]

        def death(n):
            fact = {"n": n, "fact": "exited", "spawnId": spawn, "exit": CRASH}
            return lambda client: client.call("machine.report", **m.identity(), facts=[fact])

        under_kills(s, [death(1000 + i) for i in range(100)], 1 + round_ % 3)
        m.reconnect()
        eq(len(starts(s, c)), 2, "the first, and one restart")
        eq((agent_of(s, c)["restarts"], len(told(s, c))), (1, 1), "counted and told once")
        eq((task_of(s, t)["status"], task_of(s, t)["attempts"]), ("pending", 1), "its work")
        given = [x for x in m.register() if x["conversation"] == c]
        eq(len(starts_of(given)), 1, "what the machine is told")
        m.spawn(given[0])
        eq(agent_of(s, c)["view"], "running", "its successor")
    check_store(s)


@server(deadline=120)
def test_P14_a_stop_survives_crashes_and_whatever_asks(s):
    m = Machine(s)
    c = new(s, "running")
    (begun,) = starts_of(m.poll())
    m.spawn(begun)
    s.call("agent.stop", conversation=c, role="a")
    under_kills(s, [message(c, i) for i in range(50)], 3)
    m.reconnect()
    eq([x["type"] for x in m.register()], ["stop-agent"], "what the machine is told")
    m.stopped(begun["spawnId"])
    under_kills(s, [message(c, 50 + i) for i in range(50)], 3)
    m.reconnect()
    eq((m.register(), m.poll(), len(starts(s, c))), ([], [], 1), "nothing starts it")
    check_store(s)


main(seconds=120)
