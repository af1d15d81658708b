"""`reeve wait-for-task`: a shell script as an agent, and all the ways in which it may end.

With --exec: test_exec.py. Tasks that were suspended: test_resume.py.
"""
import json
import os
import signal
import socket
import subprocess
import threading
import time

from crew import (TTL_MS, UNATTENDED_WORK_MS, deliverable_of, give, join, leave, participant, status, talk,
                  task_of)
from reeve_test import (BIN, Server, Skip, check, die_with_parent, eq, folder, main, reeve, server,
                        wait_for)
from waiter import BEATS, MANUAL, Agent, gone, waiting
from watch_model import advance, ms, now
from wire import PATIENCE


# ---- taking a task ----

@server(args=MANUAL)
def test_takes_the_task_that_is_there(s):
    c = talk(s)
    t = give(s, c, content={"do": "it"})
    got = Agent(s, c).task()
    eq(set(got), {"task", "epoch"}, "members")
    eq((got["task"]["task"], got["task"]["content"], got["epoch"]), (t["task"], {"do": "it"}, 1))
    eq(status(s, t), "acknowledged")
    gone(s, c)
    p = participant(s, c)
    eq(p["status"], "active", "unattended, but in hand")
    eq(ms(p["activeUntil"]) - now(s), UNATTENDED_WORK_MS, "the lease of an unattended claim")


@server(args=MANUAL)
def test_waits_for_one(s):
    c = talk(s)
    agent = Agent(s, c)
    waiting(s, c)
    check(agent.is_running(), "it waits")
    t = give(s, c)
    eq(agent.task()["task"]["task"], t["task"])
    gone(s, c)


@server(args=MANUAL)
def test_what_it_prints_is_enough_to_work_with(s):
    c = talk(s)
    give(s, c)
    got = Agent(s, c).task()
    number, epoch = got["task"]["task"], got["epoch"]
    for args in (("start", number), ("complete", number, "done")):
        done = reeve("task", *args, "--epoch", epoch, data=s.data)
        eq((done.returncode, done.stderr), (0, ""), f"reeve task {args}")
    eq(status(s, number), "completed")


@server(args=MANUAL)
def test_the_environment_says_for_whom_and_options_win(s):
    """What a machine gives to its agents is all it needs."""
    c = talk(s)
    token = s.call("token.create", scope="agent", conversation=c, role="a")["secret"]
    given = {"REEVE_URL": s.url, "REEVE_TOKEN": token, "REEVE_CONVERSATION": str(c),
             "REEVE_ROLE": "a"}
    t = give(s, c)
    got = reeve("wait-for-task", env=given)
    eq((got.returncode, got.stderr, json.loads(got.stdout)["task"]["task"]), (0, "", t["task"]))
    t = give(s, c, "b")
    other = given | {"REEVE_CONVERSATION": "99", "REEVE_TOKEN": s.token}
    got = reeve("wait-for-task", "--conversation", c, "--role", "b", env=other)
    eq((got.returncode, got.stderr, json.loads(got.stdout)["task"]["task"]), (0, "", t["task"]))
    for wrong, word in (({"REEVE_CONVERSATION": "x"}, "REEVE_CONVERSATION"),
                        ({"REEVE_CONVERSATION": ""}, "--conversation N"),
                        ({"REEVE_ROLE": ""}, "--role ROLE")):
        got = reeve("wait-for-task", env=given | wrong)
        eq((got.returncode, got.stdout), (2, ""), wrong)
        check(word in got.stderr, got.stderr)


def test_usage():
    where = ("--data", folder())
    for args in ((), ("--conversation", "1"), ("--role", "a"),
                 ("--conversation", "1", "--role", "a", "--progress", "cpu"),
                 ("--conversation", "1", "--role", "a", "--progress", "x", "--exec", "true"),
                 ("--conversation", "0", "--role", "a"), ("--conversation", "x", "--role", "a"),
                 ("--conversation", "1", "--role", "a", "word"),
                 ("--conversation", "1", "--role", "a", "--exec")):
        eq(reeve("wait-for-task", *where, *args).returncode, 2, f"exit status of {args}")


@server(args=MANUAL)
def test_refusals_are_not_tried_again(s):
    c = talk(s)
    for conversation, role in ((99, "a"), (c, "nobody")):
        code, out, err = Agent(s, conversation, role).end()
        eq((code, out), (1, ""), err)
        check("NOT_FOUND" in err, err)
    wrong = {"REEVE_URL": s.url, "REEVE_TOKEN": "f" * 64}
    code, out, err = Agent(s, c, where=["--json"], env=wrong).end()
    eq((code, json.loads(err)["error"]["data"]["name"]), (1, "UNAUTHENTICATED"))
    token = s.call("token.create", scope="agent", conversation=c, role="a")["secret"]
    right = {"REEVE_URL": s.url, "REEVE_TOKEN": token}
    give(s, c)
    eq(Agent(s, c, where=["--json"], env=right).task()["task"]["role"], "a")


# ---- leaving ----

@server(args=MANUAL)
def test_L26_leaves_on_a_signal(s):
    """P5. With a clock that stands still a lease does not run out: it was ended."""
    c = talk(s)
    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        agent = Agent(s, c)
        waiting(s, c)
        agent.signal(sig)
        eq(agent.end(), (128 + sig, "", ""), f"end by {sig.name}")
        gone(s, c)
        eq(participant(s, c)["status"], "disconnected")


@server(args=MANUAL)
def test_P5_leaves_when_nobody_reads_it_and_claims_nothing(s):
    c = talk(s)
    reader, writer = os.pipe()
    agent = Agent(s, c, stdout=writer)
    os.close(writer)
    waiting(s, c)
    os.close(reader)
    eq(agent.end()[0], -signal.SIGPIPE, "it ends like any tool in a pipeline")
    gone(s, c)
    eq(status(s, give(s, c)), "pending")


@server(args=MANUAL)
def test_P5_full_output_leaves_too(s):
    """The write fails, not the pipe: the task is claimed, the listener is not left behind."""
    c = talk(s)
    t = give(s, c)
    with open("/dev/full", "wb") as full:
        check(Agent(s, c, stdout=full).end()[0] != 0, "it says that it did not work")
    eq(status(s, t), "acknowledged")
    gone(s, c)


@server(args=MANUAL)
def test_P5_after_kill_9_the_lease_runs_out(s):
    c = talk(s)
    agent = Agent(s, c)
    waiting(s, c)
    agent.signal(signal.SIGKILL)
    eq(agent.end()[0], -signal.SIGKILL)
    eq(participant(s, c)["status"], "waiting", "nobody has said anything")
    advance(s, TTL_MS + 1)
    eq(participant(s, c)["status"], "disconnected")
    gone(s, c)


@server(args=MANUAL)
def test_leaves_within_two_seconds_of_a_server_that_hangs(s):
    c = talk(s)
    agent = Agent(s, c)
    waiting(s, c)
    s.process.send_signal(signal.SIGSTOP)
    agent.signal(signal.SIGTERM)
    eq(agent.end()[0], 128 + signal.SIGTERM, "it did not wait for an answer that never comes")
    s.process.send_signal(signal.SIGCONT)


# ---- what the server says ----

@server(args=MANUAL)
def test_L25_the_newer_one_wins_and_the_older_leaves_no_trace(s):
    c = talk(s)
    older = Agent(s, c)
    first = waiting(s, c)
    newer = Agent(s, c)
    second = waiting(s, c, besides=first)
    code, out, err = older.end()
    eq((code, out), (3, ""), err)
    check(newer.is_running(), "the newer one listens")
    eq(participant(s, c)["connectionId"], second, "its place was not wiped by the older's leave")
    t = give(s, c)
    eq(newer.task()["task"]["task"], t["task"])


@server(args=MANUAL)
def test_the_end_of_the_conversation_is_4(s):
    c = talk(s)
    agent = Agent(s, c)
    waiting(s, c)
    s.call("conversation.end", conversation=c)
    eq(agent.end()[:2], (4, ""), "its end")
    eq(Agent(s, c).end()[:2], (4, ""), "of one that comes too late")


@server(args=MANUAL)
def test_told_to_stop_is_5(s):
    c = talk(s)
    agent = Agent(s, c)
    waiting(s, c)
    s.call("agent.stop", conversation=c, role="a")
    eq(agent.end()[:2], (5, ""), "its end")
    gone(s, c)


@server(args=MANUAL)
def test_blocked_goes_on_waiting(s):
    c = talk(s, runtime_controls={"session_wall_clock_seconds": 60})
    agents = [Agent(s, c, "a")]
    waiting(s, c, "a")
    advance(s, 60_001)
    eq(s.call("conversation.get", conversation=c)["status"], "blocked")
    agents.append(Agent(s, c, "b"))
    s.call("conversation.resume", conversation=c,
           runtime_controls={"session_wall_clock_seconds": 0})
    for role, agent in zip("ab", agents):
        t = give(s, c, role)
        eq(agent.task()["task"]["task"], t["task"], role)


@server(args=MANUAL)
def test_L22_a_late_beat_is_cheap(s):
    """The lease is over while it waits: it is back at once, and a task finds it."""
    c = talk(s)
    agent = Agent(s, c)
    first = waiting(s, c)
    advance(s, TTL_MS + 1)
    wait_for(lambda: participant(s, c)["status"] == "waiting", "it to join again")
    eq(waiting(s, c), first, "the same connection")
    t = give(s, c)
    eq(agent.task()["task"]["task"], t["task"])


@server(args=MANUAL)
def test_L22_a_task_that_came_meanwhile_is_not_lost(s):
    c = talk(s)
    agent = Agent(s, c)
    waiting(s, c)
    agent.signal(signal.SIGSTOP)
    advance(s, TTL_MS + 1)
    eq(participant(s, c)["status"], "disconnected")
    t = give(s, c)
    agent.signal(signal.SIGCONT)
    eq(agent.task()["task"]["task"], t["task"])


@server(args=MANUAL)
def test_L23_somebody_else_came_and_went(s):
    """Its row is still there, another's: no reason to die."""
    c = talk(s)
    agent = Agent(s, c)
    first = waiting(s, c)
    agent.signal(signal.SIGSTOP)
    advance(s, TTL_MS + 1)
    join(s, c, "a", "other")
    leave(s, c, "a", "other")
    agent.signal(signal.SIGCONT)
    wait_for(lambda: participant(s, c)["connectionId"] == first, "it to join again")
    t = give(s, c)
    eq(agent.task()["task"]["task"], t["task"])


# ---- without a server ----

@server(args=MANUAL)
def test_survives_a_restart_of_the_server(s):
    c = talk(s)
    for how in ("kill", "stop"):
        agent = Agent(s, c)
        waiting(s, c)
        s.kill() if how == "kill" else s.stop()
        s.start()
        t = give(s, c)
        code, out, err = agent.end()
        eq((code, json.loads(out)["task"]["task"]), (0, t["task"]), err)
        check(err.count("\n") <= 1, f"one line about the outage: {err!r}")
        gone(s, c)
        s.call("task.cancel", task=t["task"], reason="next")


@server(args=MANUAL)
def test_waits_for_a_server_that_is_not_there_yet(s):
    c = talk(s)
    s.stop()
    agent = Agent(s, c)
    line = agent.process.stderr.readline().decode()
    check("server" in line and "again" in line, line)
    s.start()
    t = give(s, c)
    eq(agent.task()["task"]["task"], t["task"], "and nothing more was said")


def test_L78_without_a_server_it_neither_spins_nor_chatters():
    """Whoever listens there hangs up at once. Waits grow: six attempts take more than a second on
    any machine."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        env = {"REEVE_URL": f"http://127.0.0.1:{door.getsockname()[1]}", "REEVE_TOKEN": "f" * 64}
        agent = Agent(None, 1, where=["--json"], env=env)
        times = []
        door.settimeout(PATIENCE)
        while len(times) < 6:
            peer, _ = door.accept()
            times.append(time.monotonic())
            peer.close()
        check(times[-1] - times[0] > 1.0, f"attempts at {times}")
        agent.signal(signal.SIGTERM)
        code, out, err = agent.end()
    eq((code, out, err.count("\n")), (128 + signal.SIGTERM, "", 1), err)


# ---- libreeve, and many ----

@server(BEATS, args=MANUAL)
def test_the_example_worker_takes_part(s):
    """examples/worker.c, a program that links libreeve: two tasks, a restart, Ctrl-C."""
    program = os.path.join(os.path.dirname(BIN), "example-worker")
    if not os.path.exists(program):
        raise Skip("example-worker is not built")
    c = talk(s)
    token = s.call("token.create", scope="agent", conversation=c, role="a")["secret"]
    s.listen = f"127.0.0.1:{s.port}"  # after the restart it must be where it was
    worker = subprocess.Popen([program, str(c), "a"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, preexec_fn=die_with_parent,
                              env=os.environ | {"REEVE_URL": s.url, "REEVE_TOKEN": token})
    waiting(s, c)
    t = give(s, c, content=1)
    wait_for(lambda: status(s, t) == "completed", "the first task")
    eq(deliverable_of(s, t), {"steps": 1})
    s.restart()
    t = give(s, c, content=0)
    wait_for(lambda: status(s, t) == "completed", "the second task")
    t = give(s, c, content=1_000_000)
    wait_for(lambda: status(s, t) == "in_progress", "the third task")
    worker.send_signal(signal.SIGINT)
    out, err = worker.communicate(timeout=PATIENCE)
    eq((worker.returncode, out), (0, b"task 1 done\ntask 2 done\n"), err)
    gone(s, c)


def test_a_crowd_shares_the_work():
    """Twenty agents of twenty roles, a restart in the middle: every task once."""
    s = Server(args=MANUAL).start()
    roles = [f"r{i}" for i in range(20)]
    c = talk(s, *roles)
    agents = [Agent(s, c, r, command=["cat"]) for r in roles]
    for r in roles:
        waiting(s, c, r)
    given = [give(s, c, r) for r in roles[:10]]
    s.restart()
    given += [give(s, c, r) for r in roles[10:]]
    ends = []
    threads = [threading.Thread(target=lambda a=a: ends.append(a.end()[0])) for a in agents]
    for t in threads:
        t.start()
    for t in threads:
        t.join(PATIENCE)
    eq(ends, [0] * 20, "exit statuses")
    for t in given:
        eq((status(s, t), task_of(s, t)["attempts"]), ("completed", 0))
    s.stop()


if __name__ == "__main__":
    main()
