"""`reeve machine` for tests: real processes on this host.

A Daemon is a folder with its configuration, and the machine that runs there now. The agents of
these tests are small shell scripts. Shims and agents survive the machine by design, so they would
survive a test that fails as well: every agent ends by itself when the process of the test has gone.
"""
import contextlib
import itertools
import json
import os
import signal
import subprocess

from reeve_test import BIN, check, die_with_parent, eq, folder, reeve, wait_for

def stay():
    """A script that stays until the test is over, or a signal comes."""
    return f"exec tail --pid={os.getpid()} -f /dev/null"


def sh(script, *words):
    """argv of a kind: a shell script, with further words as $0, $1…"""
    return ["/bin/sh", "-c", script, *words]


def quote(word):
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def kind_text(name, argv, env=(), **settings):
    lines = [f"argv = {{{', '.join(map(quote, argv))}}}"]
    if env:
        lines.append(f"env = {{{', '.join(map(quote, env))}}}")
    lines += [f"{key} = {quote(str(value))}" for key, value in settings.items()]
    return f"kind {name} {{\n" + "".join(f"    {x}\n" for x in lines) + "}\n"


class Daemon:
    """A machine in a folder of its own. `kinds` {name: argv or (argv, settings)}."""

    ids = itertools.count(1)

    def __init__(self, s, kinds, name="m1", start=True, url=None, token=None):
        self.s, self.name, self.url = s, name, url
        self.data = os.path.join(folder(), f"machine{next(self.ids)}")
        os.makedirs(self.data)
        self.configure(kinds)
        self.token_file = os.path.join(self.data, "token")
        self.set_token(token or s.call("token.create", scope="machine", machine=name)["secret"])
        self.process = None
        if start:
            self.start()

    def configure(self, kinds):
        with open(os.path.join(self.data, "machine.conf"), "w") as f:
            for name, what in kinds.items():
                argv, settings = what if isinstance(what, tuple) else (what, {})
                f.write(kind_text(name, argv, **settings))

    def set_token(self, token):
        with open(self.token_file, "w") as f:
            f.write(token)

    def where(self):
        """How it finds its server."""
        return ["--server", self.url or self.s.url, "--token-file", self.token_file]

    # ---- the machine ----

    def spawn(self, *args, env=None):
        """Starts a machine without waiting for anything."""
        with open(self.log_path(), "ab") as log:
            self.process = subprocess.Popen(
                [BIN, "machine", "--data", self.data, "--name", self.name, *self.where(), *args],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent,
                env=os.environ | (env or {}))
        return self

    def start(self, *args, env=None):
        before = self.log().count("link registered")
        self.spawn(*args, env=env)
        wait_for(lambda: self.log().count("link registered") > before or self.fail_if_ended(),
                 "the machine to register")
        return self

    def fail_if_ended(self):
        status = self.process.poll()
        check(status is None, f"the machine ended with {status}:\n{self.log()}")

    def wait(self):
        status = self.process.wait(20)
        self.process = None
        for mark in ("ERROR: AddressSanitizer", "runtime error:", "ThreadSanitizer: data race"):
            check(mark not in self.log(), self.log()[-3000:])
        return status

    def stop(self, sig=signal.SIGTERM):
        """Ends the machine; agents go on."""
        self.process.send_signal(sig)
        eq(self.wait(), 0, "exit status of the machine")

    def kill(self):
        self.process.kill()
        self.wait()

    def restart(self, how="kill", **more):
        self.kill() if how == "kill" else self.stop()
        return self.start(**more)

    def down(self):
        """Ends the machine and all agents, and leaves nothing."""
        pids = self.pids()
        done = reeve("down", data=self.data)
        eq(done.returncode, 0, f"reeve down: {done.stderr}")
        if self.process:
            eq(self.wait(), 0, "exit status of the machine")
        eq([p for p in pids if is_alive(p)], [], "processes after reeve down")

    def log_path(self):
        return f"{self.data}.log"

    def log(self):
        try:
            with open(self.log_path(), errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    # ---- its processes, from their folders ----

    def spawns(self):
        """{spawn id: seen} of every spawn that has begun and was not accepted as ended."""
        found = {}
        folders = os.path.join(self.data, "spawns")
        for spawn in os.listdir(folders) if os.path.exists(folders) else ():
            with contextlib.suppress(FileNotFoundError):
                with open(os.path.join(folders, spawn, "seen")) as f:
                    found[spawn] = json.load(f)
        return found

    def pids(self):
        """Of every shim and agent."""
        return [seen[who]["pid"] for seen in self.spawns().values() for who in ("shim", "agent")]

    def outbox(self):
        """The facts that the server has not accepted."""
        facts = []
        with open(os.path.join(self.data, "outbox")) as f:
            for line in f.read().split("\n")[:-1]:
                said = json.loads(line)
                facts = [x for x in facts if x["n"] > said.get("acceptedTo", 0)]
                facts += [said] if "n" in said else []
        return facts

    def agent_log(self, c, role="a"):
        path = os.path.join(self.data, "logs", str(c), f"{role}.log")
        with contextlib.suppress(FileNotFoundError), open(path) as f:
            return f.read()
        return ""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if error[0]:
            print(f"--- end of the machine's log ---\n{self.log()[-3000:]}")
            with contextlib.suppress(Exception):
                self.down()
        else:
            self.down()


def is_alive(pid):
    """A zombie is not."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def crew(s, *roles, kind="stay", desired="running", **more):
    """A conversation whose agents are wanted up."""
    agents = [{"role": r, "kind": kind, "desired": desired} | more for r in roles or ("a",)]
    return s.call("conversation.create", agents=agents,
                  watchdog={"disabled": True})["conversation"]


def agent(s, c, role="a"):
    (found,) = [a for a in s.call("agent.list", conversation=c)["agents"] if a["role"] == role]
    return found


def await_view(s, c, view, role="a"):
    return wait_for(lambda: (a := agent(s, c, role))["view"] == view and a,
                    f"{c}:{role} to be {view}: {agent(s, c, role)}")


def await_new(s, c, old, role="a"):
    """Until another process of it runs than `old`. It."""
    def new():
        a = agent(s, c, role)
        p = a.get("process")
        return a["view"] in ("running", "waiting", "working") and p and p["spawnId"] != old and p
    return wait_for(new, f"a new process of {c}:{role} in place of {old}")


def exits(s, c):
    """`data` of every agent.exited of the conversation, wherever it was written."""
    return [e["payload"]["data"] for e in s.events(c) + s.events(0) if e["type"] == "system" and
            e["payload"]["kind"] == "agent.exited" and e["payload"]["data"]["conversation"] == c]


def await_exit(s, c, spawn):
    return wait_for(lambda: next((x for x in exits(s, c) if x["spawnId"] == spawn), None),
                    f"the end of {spawn} to be told")
