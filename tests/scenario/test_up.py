"""`reeve up`, as a newcomer runs it: server, machine and three demo agents, real processes all."""
import json
import os
import signal
import subprocess

from reeve_test import (BIN, Client, check, die_with_parent, eq, folder, main, reeve,
                        wait_for)

ROLES = ("planner", "builder", "checker")


class Up:
    def __init__(self, *args):
        self.data = os.path.join(folder(), "up")
        self.out = os.path.join(folder(), "out")
        with open(self.out, "ab") as out:
            self.process = subprocess.Popen(
                [BIN, "up", "--data", self.data, "--listen", "127.0.0.1:0", *args],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, preexec_fn=die_with_parent)
        where = wait_for(self.ready, "a server")
        self.url = where["url"]
        self.connect()

    def connect(self):
        with open(os.path.join(self.data, "operator.token")) as f:
            self.client = Client(int(self.url.rpartition(":")[2]), f.read().strip())

    def ready(self):
        check(self.process.poll() is None, self.said())
        try:
            with open(os.path.join(self.data, "server.json")) as f:
                return json.load(f)
        except FileNotFoundError:
            return None

    def said(self):
        with open(self.out, errors="replace") as f:
            return f.read()

    def agents(self):
        return {a["role"]: a for a in self.client.call("agent.list")["agents"]}

    def ended(self, status="completed"):
        return self.client.call("task.list", status=status)["tasks"]

    def history(self, role):
        why = self.client.call("agent.why", conversation=1, role=role)
        return "\n".join(h["what"] for h in why["history"])

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        """Ctrl-C, also after a failure: agents outlive a server and a machine that are killed.
        Nothing of it is left."""
        self.process.send_signal(signal.SIGINT)
        eq(self.process.wait(60), 0, f"exit status of up, which said\n{self.said()}\n")
        eq(processes_of(self.url), [], "processes that it leaves behind")


def processes_of(url):
    """Those that agents of this server are, or have started, by their environment."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                if f"REEVE_URL={url}".encode() in f.read().split(b"\0"):
                    found.append(int(pid))
        except OSError:
            continue
    return found


def pid_of(agent):
    return agent.get("process", {}).get("pid")


def at_work(up, role):
    """The agent with its process and task, once it has both."""
    def look():
        a = up.agents().get(role, {})
        return a if a.get("task") and a["view"] == "working" and pid_of(a) else None
    return wait_for(look, f"{role} at work", 60)


def test_three_agents_hand_each_other_work_and_ctrl_c_leaves_nothing():
    with Up() as up:
        wait_for(lambda: {t["role"] for t in up.ended()} == set(ROLES), "a task of each is done", 60)
        eq(sorted(up.agents()), sorted(ROLES), "agents")
        for words in ("reeve is up at", "ps", "why 1:builder", "logs -f 1:builder", "Ctrl-C stops it"):
            check(words in up.said(), f"it tells {words!r}")


def test_one_that_is_killed_comes_back_with_its_task_and_the_reason():
    with Up() as up:
        before = at_work(up, "builder")
        os.kill(pid_of(before), signal.SIGKILL)

        def is_back():
            a = up.agents()["builder"]
            return a["restarts"] and pid_of(a) not in (None, pid_of(before))
        wait_for(is_back, "another process", 60)
        wait_for(lambda: before["task"] in [t["task"] for t in up.ended()], "its task is done", 60)
        task = up.client.call("task.get", task=before["task"])["task"]
        eq(task["attempts"], 1, "attempts that were lost")
        check("killed by signal 9" in up.history("builder"), f"why: {up.history('builder')}")


def test_one_whose_reeve_is_killed_does_not_end_as_if_all_were_well():
    with Up() as up:
        agent = pid_of(at_work(up, "builder"))
        with open(f"/proc/{agent}/task/{agent}/children") as f:
            os.kill(int(f.read()), signal.SIGKILL)
        wait_for(lambda: "exited with status 137" in up.history("builder"), "its end and why", 60)


def child_of(up, verb):
    """The process of `reeve serve` or `reeve machine`; None while there is none."""
    pid = up.process.pid
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        for child in f.read().split():
            try:
                with open(f"/proc/{child}/cmdline", "rb") as c:
                    words = c.read().split(b"\0")
            except OSError:
                continue
            if len(words) > 1 and words[1] == verb.encode():
                return int(child)
    return None


def test_a_server_that_is_killed_is_started_again_where_it_was():
    with Up() as up:
        agent, server = at_work(up, "builder"), child_of(up, "serve")
        os.kill(server, signal.SIGKILL)
        wait_for(lambda: (up.ready() or {}).get("pid") not in (None, server), "another server")
        eq(up.ready()["url"], up.url, "its address")
        up.connect()
        check("the server was killed by signal 9 (Killed); starting it again" in up.said(), up.said())
        wait_for(lambda: agent["task"] in [t["task"] for t in up.ended()], "the task goes on", 60)
        task = up.client.call("task.get", task=agent["task"])["task"]
        eq(task["attempts"], 0, "attempts that were lost: the agent did not notice")


def test_a_machine_that_is_killed_is_started_again_and_has_its_agents():
    with Up() as up:
        agent, machine = at_work(up, "builder"), child_of(up, "machine")
        os.kill(machine, signal.SIGKILL)
        wait_for(lambda: child_of(up, "machine") not in (None, machine), "another machine")
        check("the machine was killed by signal 9 (Killed); starting it again" in up.said(),
              up.said())
        wait_for(lambda: agent["task"] in [t["task"] for t in up.ended()], "the task goes on", 60)
        wait_for(lambda: {t["role"] for t in up.ended()} == set(ROLES), "so does the rest", 60)


def kill_each(up, verb, until):
    """Kills each process of this verb that is there, until a condition holds."""
    killed = set()

    def is_over():
        if until():
            return True
        child = child_of(up, verb)
        if child and child not in killed:
            os.kill(child, signal.SIGKILL)
            killed.add(child)
        return False
    wait_for(is_over, f"what comes of killing each {verb}", 60)


def test_a_server_that_dies_again_and_again_is_given_up():
    up = Up()
    at_work(up, "planner")
    kill_each(up, "serve", lambda: up.process.poll() is not None)
    eq(up.process.returncode, 128 + signal.SIGKILL, f"exit status of up, which said\n{up.said()}\n")
    check("; starting it again in " in up.said(), f"it waits longer and longer: {up.said()}")
    check("for the 6th time in a row; giving up" in up.said(), up.said())
    eq(processes_of(up.url), [], "processes that it leaves behind")


def test_ctrl_c_while_the_machine_is_dead_stops_the_agents_too():
    with Up() as up:
        at_work(up, "builder")
        kill_each(up, "machine", lambda: "starting it again in 1000 ms" in up.said())


def test_ctrl_c_says_what_it_stops():
    with Up() as up:
        at_work(up, "planner")
    for words in ("Stopping the agents and the machine", "Stopping the server",
                  f"Stopped. The data stays in {up.data}"):
        check(words in up.said(), f"no {words!r} in {up.said()}")


def test_a_server_that_cannot_start_is_no_bug():
    with Up() as up:
        done = reeve("up", "--listen", up.url.rpartition(":")[2],
                     data=os.path.join(folder(), "other"))
        eq(done.returncode, 1, f"exit status: {done.stderr}")
        check("is in use; try --listen 127.0.0.1:0" in done.stderr, done.stderr)
        check("the server did not start" in done.stderr, done.stderr)


def test_what_was_begun_goes_on_after_up_is_started_again():
    with Up() as up:
        wait_for(up.ended, "work", 60)
    with Up() as up:
        count = len(up.ended())
        wait_for(lambda: len(up.ended()) > count, "the same conversation goes on", 60)
        eq({a["conversation"] for a in up.agents().values()}, {1}, "conversation")


def test_without_the_demo_there_is_a_machine_that_runs_what_it_is_told():
    config = os.path.join(folder(), "kinds.conf")
    with open(config, "w") as f:
        f.write('kind sleeper {\n    argv = {"sleep", "1000"}\n    stop_grace = "1s"\n}\n')
    with Up("--config", config) as up:
        up.client.call("conversation.create",
                       agents=[{"role": "a", "kind": "sleeper", "desired": "running"}])
        wait_for(lambda: up.agents()["a"]["view"] == "running", "its process", 60)
        eq(len(processes_of(up.url)), 1, "the sleeper")


main(seconds=150)
