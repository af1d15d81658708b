"""`reeve wait-for-task`: a shell script as an agent, and all the ways in which it may end."""
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import threading
import time

from crew import (ACTIVE_MS, TTL_MS, UNATTENDED_WORK_MS, give, join, leave, participant, status,
                  talk, task_of)
from reeve_test import (BIN, Server, Skip, check, die_with_parent, eq, folder, main, reeve, server,
                        wait_for)
from watch_model import advance, ms, now
from wire import PATIENCE

MANUAL = ("--clock=manual",)
BEATS = "liveness.heartbeat_seconds=1"
# A minute at most: what a failing test leaves behind must not stay.
LOOP = "n=0; while [ $n -lt 1200 ]; do sleep 0.05; n=$((n+1)); done"


class Agent:
    """A running `reeve wait-for-task`."""

    def __init__(self, s, c, role="a", *, command=None, stdout=None, where=None, env=None,
                 json_flag=False):
        argv = [BIN, "wait-for-task", "--conversation", str(c), "--role", role]
        argv += where or ["--data", s.data]
        argv += ["--json"] if json_flag else []
        argv += ["--exec", *command] if command else []
        clean = {k: v for k, v in os.environ.items() if not k.startswith("REEVE_")}
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE if stdout is None else stdout,
                                        stderr=subprocess.PIPE, env=clean | (env or {}),
                                        preexec_fn=die_with_parent)

    def signal(self, sig):
        self.process.send_signal(sig)

    def end(self):
        """(exit status, output, messages)"""
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, (out or b"").decode(), err.decode()

    def task(self):
        """It must end well; what it printed."""
        code, out, err = self.end()
        eq((code, err), (0, ""), "its end")
        eq(out.count("\n"), 1, f"lines of {out!r}")
        return json.loads(out)

    def is_running(self):
        return self.process.poll() is None


def waiting(s, c, role="a", *, besides=None):
    """Waits until somebody listens (other than `besides`) and returns who."""
    def look():
        p = participant(s, c, role)
        fresh = p["status"] == "waiting" and p["connectionId"] != besides
        return p["connectionId"] if fresh else None
    return wait_for(look, f"a listener for {role}")


def gone(s, c, role="a"):
    """Nobody listens for it, and that was said, not found out."""
    p = participant(s, c, role)
    eq(p["readyUntil"], None, f"the listener's lease of {p}")


def deliverable(s, task):
    """What was handed in. From a backup: there is no method for cards yet."""
    path = marker(f"cards{next(s.ids)}.db")
    s.call("server.backup", path=path)
    db = sqlite3.connect(path)
    (content,) = db.execute("SELECT content FROM cards WHERE task = ?", (task["task"],)).fetchone()
    db.close()
    return json.loads(content)


def marker(name):
    return os.path.join(folder(), name)


def exists(name):
    return os.path.exists(marker(name))


def is_alive(pid):
    """Runs, and is not merely unburied."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def pid_in(name):
    def look():
        try:
            with open(marker(name)) as f:
                text = f.read()
        except FileNotFoundError:
            return None
        return int(text) if text.endswith("\n") else None
    return wait_for(look, f"a pid in {name}")


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


def test_usage():
    where = ("--data", folder())
    for args in ((), ("--conversation", "1"), ("--role", "a"),
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
    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
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


# ---- --exec ----

@server(BEATS, args=MANUAL)
def test_exec_completes_with_the_output(s):
    c = talk(s)
    t = give(s, c, content={"text": "héllo"})
    script = 'echo "$REEVE_CONVERSATION $REEVE_ROLE"; cat; printf %s "$REEVE_TASK"; echo log >&2'
    code, out, err = Agent(s, c, command=["sh", "-c", script]).end()
    eq((code, out, err), (0, f"task {t['task']} completed\n", "log\n"))
    eq(status(s, t), "completed")
    first, stdin, variable = deliverable(s, t).split("\n")
    eq(first, f"{c} a")
    eq(stdin, variable, "the task twice")
    eq((json.loads(stdin)["task"], json.loads(stdin)["content"]), (t["task"], {"text": "héllo"}))
    eq(json.loads(stdin)["status"], "in_progress", "it was started")
    gone(s, c)


@server(args=MANUAL)
def test_exec_takes_all_that_follows(s):
    c = talk(s)
    for dashes in ((), ("--",)):
        t = give(s, c)
        agent = Agent(s, c, command=[*dashes, "echo", "--data", "-x", "--", "--json"],
                      json_flag=True)
        code, out, err = agent.end()
        eq((code, err), (0, ""), out)
        eq(json.loads(out)["status"], "completed", "with --json: the task as it ended")
        eq(deliverable(s, t), "--data -x -- --json")


@server(args=MANUAL)
def test_exec_fails_with_the_last_lines(s):
    c = talk(s)
    script = 'seq 10000; echo "it is broken" >&2; exit 3'
    t = give(s, c)
    code, out, err = Agent(s, c, command=["sh", "-c", script]).end()
    eq((code, out), (1, f"task {t['task']} failed\n"), err)
    outcome = task_of(s, t)["outcome"]
    eq((outcome["status"], outcome["stop_reason_code"]), ("failed", "failed"))
    reason = outcome["error"].split("\n")
    eq(reason[0], "exit status 3:")
    check("it is broken" in reason, reason)
    check("10000" in reason and "100" not in reason, "the last lines, whole ones")
    t = give(s, c)
    eq(Agent(s, c, command=["sh", "-c", "kill -KILL $$"]).end()[0], 1)
    eq(task_of(s, t)["outcome"]["error"], "killed by SIGKILL")


@server(args=MANUAL)
def test_exec_output_of_any_size_and_kind(s):
    """Cut where the server's limit is, whatever the escaping makes of it."""
    c = talk(s)
    for script, begins in (("yes | head -c 5000000", "y\ny\n"),
                           ("head -c 900000 /dev/zero | tr '\\0' '\\1'", "\x01\x01"),
                           ("head -c 900000 /dev/zero | tr '\\0' '\\377'", "\ufffd\ufffd")):
        t = give(s, c)
        code, out, err = Agent(s, c, command=["sh", "-c", script]).end()
        eq((code, err), (0, ""), script)
        text = deliverable(s, t)
        check(text.startswith(begins) and len(text) > 100_000, f"{len(text)} of {script}")
        check(re.search(r"\[reeve: cut here, \d+ bytes in all\]$", text), text[-60:])
    t = give(s, c)
    eq(Agent(s, c, command=["true"]).end()[0], 0)
    eq(deliverable(s, t), "", "no output is an empty text")


@server("net.body_bytes_max=4096", args=MANUAL)
def test_exec_output_that_the_server_refuses_fails_the_task(s):
    c = talk(s)
    t = give(s, c)
    code, out, err = Agent(s, c, command=["sh", "-c", "seq 2000"]).end()
    eq((code, out), (1, ""), err)
    eq(status(s, t), "failed")
    check("refused" in task_of(s, t)["outcome"]["error"], task_of(s, t)["outcome"])


@server(args=MANUAL)
def test_exec_with_a_large_task(s):
    """More than the environment holds: all of it on standard input."""
    c = talk(s)
    t = give(s, c, content="x" * 300_000)
    script = 'wc -c; printf %s "$REEVE_TASK"'
    code, out, err = Agent(s, c, command=["sh", "-c", script]).end()
    eq((code, err), (0, ""), out)
    size, variable = deliverable(s, t).split("\n")
    check(int(size) > 300_000, size)
    eq((json.loads(variable)["task"], "content" in json.loads(variable)), (t["task"], False))
    t = give(s, c, content="x" * 300_000)
    eq(Agent(s, c, command=["true"]).end()[0], 0, "and one that does not read it")


@server(args=MANUAL)
def test_exec_of_what_does_not_exist(s):
    """Known before anything is claimed; or, if the file is there but cannot be run, told."""
    c = talk(s)
    t = give(s, c)
    for command in ("/no/such/command", "no-such-command", folder()):
        code, out, err = Agent(s, c, command=[command]).end()
        if command != folder():  # a folder may be entered, which looks like being run
            eq((code, out), (2, ""), err)
            eq(status(s, t), "pending")
    script = marker("script")
    with open(script, "w") as f:
        f.write("#!/no/such/interpreter\n")
    os.chmod(script, 0o755)
    t = give(s, c)
    code, out, err = Agent(s, c, command=[script]).end()
    eq((code, out), (1, ""), err)
    check("No such file" in task_of(s, t)["outcome"]["error"], task_of(s, t))
    gone(s, c)


@server(BEATS, args=MANUAL)
def test_exec_beats_while_the_command_runs(s):
    """Ten leases long; the worker's lease is renewed by the epoch, the listener's with it."""
    c = talk(s)
    t = give(s, c)
    os.mkfifo(marker("go"))
    agent = Agent(s, c, command=["sh", "-c", f"echo > {marker('on')}; read x < {marker('go')}"])
    wait_for(lambda: exists("on"), "the command")
    for _ in range(10):
        advance(s, ACTIVE_MS)
        wait_for(lambda: ms(participant(s, c)["activeUntil"]) - now(s) == ACTIVE_MS, "a beat")
        eq(status(s, t), "in_progress")
    with open(marker("go"), "w") as f:
        f.write("\n")
    eq(agent.end()[0], 0)
    eq((status(s, t), task_of(s, t)["attempts"]), ("completed", 0))


def run_until_told(s, c, then, trap="exit 0"):
    """A command that runs until SIGTERM, then `then`. Its end, and whether it was told."""
    t = give(s, c)
    script = f"trap 'echo > {marker('told')}; {trap}' TERM; echo $$ > {marker('pid')}; " \
             + LOOP
    agent = Agent(s, c, command=["sh", "-c", script])
    pid = pid_in("pid")
    then(t, agent)
    code, out, err = agent.end()
    check(not is_alive(pid), "the command is gone")
    eq(out, "")
    os.unlink(marker("pid"))
    return code, exists("told"), t


@server(BEATS, args=MANUAL)
def test_exec_ends_the_command_when_its_task_is_taken_away(s):
    c = talk(s)
    code, told, t = run_until_told(
        s, c, lambda t, _: s.call("task.cancel", task=t["task"], reason="enough"))
    eq((code, told, status(s, t)), (1, True, "canceled"))
    code, told, t = run_until_told(s, c, lambda t, _: advance(s, ACTIVE_MS + 1))
    eq((code, told), (1, True), "the lease was over before the beat")
    eq((status(s, t), task_of(s, t)["attempts"]), ("pending", 1), "to be had again")
    gone(s, c)


@server(BEATS, args=MANUAL)
def test_exec_told_to_stop_is_5_and_the_end_is_4(s):
    c = talk(s)
    code, told, t = run_until_told(
        s, c, lambda *_: s.call("agent.stop", conversation=c, role="a"))
    eq((code, told, status(s, t)), (5, True, "in_progress"), "neither completed nor failed")
    c = talk(s)
    code, told, t = run_until_told(s, c, lambda *_: s.call("conversation.end", conversation=c))
    eq((code, told, status(s, t)), (4, True, "canceled"))


@server(BEATS, args=MANUAL)
def test_exec_a_signal_ends_the_command_and_leaves(s):
    c = talk(s)
    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        code, told, t = run_until_told(s, c, lambda _, agent, sig=sig: agent.signal(sig))
        eq((code, told, status(s, t)), (128 + sig, True, "in_progress"), sig.name)
        gone(s, c)
        s.call("task.cancel", task=t["task"], reason="next")


@server(BEATS, args=MANUAL)
def test_exec_a_command_that_ignores_sigterm_is_killed(s):
    """With the helper it started: SIGKILL goes to the group."""
    c = talk(s)
    give(s, c)
    script = f"trap '' TERM; sh -c 'echo $$ > {marker('helper')}; {LOOP}' & " \
             f"echo $$ > {marker('pid')}; {LOOP}"
    agent = Agent(s, c, command=["sh", "-c", script])
    pids = pid_in("pid"), pid_in("helper")
    agent.signal(signal.SIGTERM)
    eq(agent.end()[0], 128 + signal.SIGTERM)
    wait_for(lambda: not any(map(is_alive, pids)), "both to be gone")
    gone(s, c)


@server(BEATS, args=MANUAL)
def test_exec_a_second_signal_does_not_wait(s):
    c = talk(s)
    give(s, c)
    script = f"trap 'echo > {marker('told')}' TERM; echo $$ > {marker('pid')}; " \
             + LOOP
    agent = Agent(s, c, command=["sh", "-c", script])
    pid = pid_in("pid")
    agent.signal(signal.SIGINT)
    wait_for(lambda: exists("told"), "SIGTERM to arrive")
    agent.signal(signal.SIGINT)
    eq(agent.end()[0], 128 + signal.SIGINT)
    check(not is_alive(pid), "the command is gone")


@server(BEATS, args=MANUAL)
def test_exec_after_kill_9_the_command_is_told_and_the_lease_runs_out(s):
    c = talk(s)
    t = give(s, c)
    script = f"trap 'exit 0' TERM; echo $$ > {marker('pid')}; {LOOP}"
    agent = Agent(s, c, command=["sh", "-c", script])
    pid = pid_in("pid")
    agent.signal(signal.SIGKILL)
    agent.end()
    wait_for(lambda: not is_alive(pid), "the kernel to end the command")
    eq(status(s, t), "in_progress")
    advance(s, ACTIVE_MS + 1)
    eq((status(s, t), task_of(s, t)["attempts"]), ("pending", 1))


@server(args=MANUAL)
def test_exec_does_not_wait_for_what_the_command_leaves_behind(s):
    """A helper in the background keeps the pipes open; the task is done all the same."""
    c = talk(s)
    t = give(s, c)
    script = f"(echo $$; exec sleep 60) > {marker('x')} & exec 3>&1; sleep 60 & " \
             f"echo $! > {marker('pid')}; echo done"
    code, out, err = Agent(s, c, command=["bash", "-c", script]).end()
    helper = pid_in("pid")
    check(is_alive(helper), "it was left alone")
    os.killpg(os.getpgid(helper), signal.SIGKILL)
    eq((code, deliverable(s, t)), (0, "done"), err)


@server(BEATS, args=MANUAL)
def test_exec_survives_a_restart_of_the_server(s):
    """Nothing is lost: the command goes on, and its end is told to the new server."""
    c = talk(s)
    t = give(s, c)
    os.mkfifo(marker("go"))
    script = f"echo > {marker('on')}; read x < {marker('go')}; echo result"
    agent = Agent(s, c, command=["sh", "-c", script])
    wait_for(lambda: exists("on"), "the command")
    s.kill()
    with open(marker("go"), "w") as f:
        f.write("\n")
    line = agent.process.stderr.readline().decode()
    check("again" in line, line)
    s.start()
    eq(agent.end()[:2], (0, f"task {t['task']} completed\n"))
    eq((status(s, t), deliverable(s, t)), ("completed", "result"))


@server(BEATS, args=MANUAL)
def test_L22_exec_joins_again_while_it_works(s):
    """After a restart the server knows no listener; the next beat brings it back."""
    c = talk(s)
    t = give(s, c)
    os.mkfifo(marker("go"))
    script = f"echo > {marker('on')}; read x < {marker('go')}"
    agent = Agent(s, c, command=["sh", "-c", script])
    wait_for(lambda: exists("on"), "the command")
    connection = participant(s, c)["connectionId"]
    leave(s, c, "a", connection)
    gone(s, c)
    wait_for(lambda: participant(s, c)["readyUntil"], "it to join again")
    eq(participant(s, c)["connectionId"], connection)
    with open(marker("go"), "w") as f:
        f.write("\n")
    eq(agent.end()[0], 0)
    eq(status(s, t), "completed")
    gone(s, c)


@server(BEATS, args=MANUAL)
def test_exec_a_newer_listener_does_not_take_the_work(s):
    c = talk(s)
    t = give(s, c)
    os.mkfifo(marker("go"))
    script = f"echo > {marker('on')}; read x < {marker('go')}"
    agent = Agent(s, c, command=["sh", "-c", script])
    wait_for(lambda: exists("on"), "the command")
    holder = participant(s, c)["connectionId"]
    newer = Agent(s, c)
    wait_for(lambda: participant(s, c)["connectionId"] != holder, "the newer one")
    advance(s, ACTIVE_MS)
    wait_for(lambda: ms(participant(s, c)["activeUntil"]) - now(s) == ACTIVE_MS, "a beat")
    with open(marker("go"), "w") as f:
        f.write("\n")
    eq(agent.end()[0], 0)
    eq(status(s, t), "completed")
    check(newer.is_running(), "the newer one still listens")
    t = give(s, c)
    eq(newer.task()["task"]["task"], t["task"])


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
    eq(deliverable(s, t), {"steps": 1})
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
