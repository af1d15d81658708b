"""A fleet of real processes under load, and ways to kill every part of it.

One server, one or more machines, agents in shell and in Python (agents/), and a Giver that keeps a
few tasks open for each of them. Faults hit the server, a machine, a shim or an agent; what they took
down is brought up again, as a service manager would, and then everybody must get on with his work.
Two witnesses watch all the time, independently of what reeve says:

    the journal   a file for each task, locked by each attempt while any process of it lives
    /proc         which processes carry the mark of which spawn (Sampler)

finish() waits until all work is done and hands everything to fleet_audit.py.
"""
import collections
import os
import random
import signal
import tempfile
import threading

from audit import starts_in
from daemon import Daemon
from fleet import commands
from reeve_test import Client, Closed, RpcError, Server, check, eq, folder, wait_for

AGENTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "agents")
SETTINGS = ("restart.backoff_first_ms=1", "restart.backoff_max_ms=10", "restart.burst=0",
            "liveness.max_attempts=1000")
GONE = (Closed, OSError)
OPEN_PER_ROLE = 3
PARTS = ("agent", "shim", "machine", "server")
OVER = ("completed", "failed", "timeout", "canceled")


# ---- processes ----

def stat_of(pid):
    """(state, start time) or None."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            fields = f.read().rpartition(")")[2].split()
        return fields[0], int(fields[19])
    except OSError:
        return None


def is_same(pid, start_time):
    stat = stat_of(pid)
    return stat is not None and stat[0] not in "ZX" and stat[1] == start_time


def environment_of(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as f:
            pairs = (x.partition(b"=") for x in f.read().split(b"\0"))
            return {k.decode(errors="replace"): v.decode(errors="replace") for k, _, v in pairs}
    except OSError:
        return {}


def all_pids():
    return {int(x) for x in os.listdir("/proc") if x.isdigit()}


Process = collections.namedtuple("Process", "pid start_time spawn agent")  # agent None: a shim


class Sampler(threading.Thread):
    """Looks through /proc again and again: no agent may have processes of two spawns at a time."""

    def __init__(self, fleet):
        super().__init__(name="sampler", daemon=True)
        self.fleet = fleet
        self.strangers = all_pids()  # older than the fleet
        self.spawns = {}             # every spawn that was ever seen to live -> its agent
        self.complaints = []
        self.samples = 0

    def run(self):
        while not self.fleet.over.wait(0.03):
            self.look()

    def scan(self):
        """Every process of the fleet, shims included."""
        pids = all_pids()
        self.strangers &= pids
        found = []
        for pid in pids - self.strangers:
            stat, env = stat_of(pid), environment_of(pid)
            if not stat or stat[0] in "ZX" or "REEVE_SPAWN" not in env:
                continue
            if "REEVE_URL" not in env:
                found.append(Process(pid, stat[1], env["REEVE_SPAWN"], None))
            elif env["REEVE_URL"] == self.fleet.server.url:
                agent = f"{env['REEVE_CONVERSATION']}:{env['REEVE_ROLE']}"
                found.append(Process(pid, stat[1], env["REEVE_SPAWN"], agent))
        return found

    def scan_of(self, spawns):
        return [p for p in self.scan() if p.spawn in spawns]

    def look(self):
        found = [p for p in self.scan() if p.agent]
        by_agent = collections.defaultdict(dict)
        for p in found:
            self.spawns[p.spawn] = p.agent
            by_agent[p.agent].setdefault(p.spawn, []).append(p)
        for agent, spawns in by_agent.items():
            # All that is still there now was there while the last of them was looked at.
            alive = [s for s, ps in spawns.items() if any(is_same(p.pid, p.start_time) for p in ps)]
            if len(alive) > 1:
                self.complaints.append(f"{agent} has processes of {len(alive)} spawns: {spawns}")
        self.samples += 1


# ---- load ----

class Giver(threading.Thread):
    """Keeps OPEN_PER_ROLE tasks of each agent open, and counts those that reached their end."""

    def __init__(self, fleet):
        super().__init__(name="giver", daemon=True)
        self.fleet, self.failure = fleet, None
        self.client = Client(fleet.server.port, fleet.server.token)
        self.made = 0
        self.open = {agent: collections.deque() for agent in fleet.agents}
        self.done = collections.Counter()
        self.given = {}  # task -> agent: what was acknowledged
        self.enough = threading.Event()

    def run(self):
        try:
            while not self.enough.is_set() or any(self.open.values()):
                for agent, tasks in self.open.items():
                    self.serve(agent, tasks)
                self.count_starts()
                if self.fleet.over.wait(0.02):
                    return
        except BaseException as e:  # noqa: B036 - raised again by Fleet.check
            self.failure = e

    def insist(self, method, **params):
        """Until it is answered."""
        while not self.fleet.over.is_set():
            try:
                return self.client.call(method, **params)
            except GONE:
                self.fleet.over.wait(0.01)
            except RpcError as e:
                check(e.name == "UNAVAILABLE", f"refused: {e}")
        raise AssertionError("the test is over")

    def serve(self, agent, tasks):
        if tasks and self.insist("task.get", task=tasks[0])["task"]["status"] in OVER:
            tasks.popleft()
            self.done[agent] += 1
        if len(tasks) < OPEN_PER_ROLE and not self.enough.is_set():
            self.made += 1
            conversation, _, role = agent.partition(":")
            made = self.insist("task.create", conversation=int(conversation), role=role,
                               content={"number": self.made}, idempotencyKey=f"t{self.made}")
            self.given[made["task"]["task"]] = agent
            tasks.append(made["task"]["task"])

    def count_starts(self):
        """P4, as anybody can see it. What was open at any time is audited from the store."""
        for status in ("pending", "delivered", "booting"):
            found = self.insist("command.list", status=status)["commands"]
            agents = [(c["conversation"], c["role"]) for c in found if c["type"] != "stop-agent"]
            eq(len(set(agents)), len(agents), f"agents with a {status} start: {found}")


# ---- the fleet ----

def kinds(journal):
    env = [f"FLEET_TEST={os.getpid()}", f"FLEET_AGENTS={AGENTS}", f"FLEET_JOURNAL={journal}"]
    common = {"stop_grace": "1s", "restart": "always", "env": env}
    return {"shell": (["sh", os.path.join(AGENTS, "agent.sh")], common),
            "python": (["python3", os.path.join(AGENTS, "agent.py")],
                       common | {"ready": "heartbeat"})}


class Fleet:
    """Each machine has a conversation of three agents."""

    CREW = (("sh1", "shell", "running"), ("sh2", "shell", "auto"), ("py", "python", "auto"))

    def __init__(self, machines=1, seed=1, settings=()):
        self.rng = random.Random(seed)
        self.over = threading.Event()
        self.told = []  # the faults, for whoever has to find out why
        self.hurt = set()  # spawns that one of them hit
        self.kills = 0  # that hit something
        self.journal = tempfile.mkdtemp(prefix="journal-", dir=folder())
        self.server = Server(args=[x for s in (*SETTINGS, *settings)
                                   for x in ("--set", s)]).start()
        self.server.listen = f"127.0.0.1:{self.server.port}"
        self.sampler = Sampler(self)
        self.daemons = [Daemon(self.server, kinds(self.journal), name=f"m{i}") for i in range(machines)]
        self.agents = {}  # "12:py" -> its machine
        for daemon in self.daemons:
            c = self.server.call("conversation.create", watchdog={"disabled": True}, agents=[
                {"role": r, "kind": k, "machine": daemon.name, "desired": d}
                for r, k, d in self.CREW])["conversation"]
            self.agents |= {f"{c}:{r}": daemon for r, _, _ in self.CREW}
        self.giver = Giver(self)
        self.giver.start()
        self.sampler.start()
        self.everybody_works()

    def check(self):
        if self.giver.failure:
            raise self.giver.failure
        check(not self.sampler.complaints, "\n".join(self.sampler.complaints[:5]))

    def everybody_works(self):
        """Each agent brings another task to its end."""
        want = {agent: self.giver.done[agent] + 1 for agent in self.agents}

        def have():
            self.check()
            return all(self.giver.done[a] >= n for a, n in want.items())
        try:
            wait_for(have, "everybody to work")
        except AssertionError as e:
            raise AssertionError(f"{e}\n{self.picture(want)}") from None

    def picture(self, want):
        idle = [a for a, n in want.items() if self.giver.done[a] < n]
        text, s = [f"after {self.told[-3:]} {idle} does nothing"], self.client()
        for agent in idle:
            c, _, role = agent.partition(":")
            why = s.call("agent.why", conversation=int(c), role=role)
            text += [f"{agent}: {k}: {x}" for k in ("evidence", "standing") for x in why[k]]
            text += [f"{agent}: {x}" for x in why["history"][-6:]]
            text += [f"{x}" for x in commands(s, int(c)) if x["role"] == role][-3:]
            text.append(self.agents[agent].agent_log(c, role)[-1500:])
        text += [d.log()[-2500:] for d in self.daemons]
        return "\n".join(text)

    def client(self):
        """On a connection that no server before this one has closed."""
        return Client(self.server.port, self.server.token)

    # ---- what can be hit ----

    def signal_seen(self, agent, who, sig):
        """Signals the agent's main process or its shim, as the machine's folder names it; False if
        there is none at the moment."""
        daemon = self.agents[agent]
        for spawn, seen in daemon.spawns().items():
            pid = seen[who]["pid"]
            try:
                fd = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            try:
                if self.sampler.spawns.get(spawn) == agent and is_same(pid, seen[who]["startTime"]):
                    self.hurt.add(spawn)
                    signal.pidfd_send_signal(fd, sig)
                    return True
            except ProcessLookupError:
                pass
            finally:
                os.close(fd)
        return False

    def hit(self, what, agent, sig=signal.SIGKILL):
        """One fault. Of what is not there just now nothing needs to be killed."""
        self.told.append((what, agent, sig.name))
        if what == "server":
            has_hit = self.signal_ours(self.server, sig)
        elif what == "machine":
            has_hit = self.signal_ours(self.agents[agent], sig)
        else:
            has_hit = self.signal_seen(agent, what, sig)
        self.kills += has_hit and sig == signal.SIGKILL

    def signal_ours(self, owner, sig):
        if not owner.process:
            return False
        owner.process.send_signal(sig)
        if sig == signal.SIGKILL:
            owner.wait()
        return True

    def pause(self, longest):
        self.over.wait(self.rng.uniform(0, longest))

    def mend(self):
        """Starts what is down, in any order, after a short while."""
        down = [x for x in (self.server, *self.daemons) if x.process is None]
        self.rng.shuffle(down)
        for one in down:
            self.pause(0.2)
            one.spawn()
        if self.server in down:
            wait_for(self.server.ready, "the server")

    def fault(self, first, second=None):
        agent = self.rng.choice(list(self.agents))
        self.hit(first, agent)
        if second:
            self.pause(0.1)
            if self.rng.random() < 0.3:
                self.mend()
            self.hit(second, agent)
        self.mend()
        self.everybody_works()

    def storm(self, hits):
        """One after the other, faster than anything is up again."""
        for _ in range(hits):
            self.hit(self.rng.choice(("agent", "shim", "agent", "shim", "machine", "server")),
                     self.rng.choice(list(self.agents)))
            self.pause(0.05)
            if self.rng.random() < 0.5:
                self.mend()
        self.mend()
        self.everybody_works()

    def freeze(self, what, seconds):
        """SIGSTOP, and SIGCONT after a while; now and then something else dies meanwhile."""
        agent = self.rng.choice(list(self.agents))
        self.hit(what, agent, signal.SIGSTOP)
        self.over.wait(seconds / 2)
        if self.rng.random() < 0.5:
            self.hit(self.rng.choice(("agent", "shim")), agent)
        self.over.wait(seconds / 2)
        self.hit(what, agent, signal.SIGCONT)
        self.everybody_works()

    def anything(self):
        """One of these, at a random moment."""
        self.pause(0.1)
        kind = self.rng.random()
        if kind < 0.6:
            self.storm(self.rng.randint(1, 12))
        elif kind < 0.95:
            self.fault(*self.rng.choices(PARTS, k=self.rng.randint(1, 2)))
        else:
            self.freeze(self.rng.choice(PARTS), 0.2)

    # ---- the end ----

    def finish(self):
        """All that was given is done; then everything is stopped. What was found, for the audit."""
        self.giver.enough.set()
        self.giver.join(60)
        check(not self.giver.is_alive(), f"open tasks: {self.giver.open}\n"
              f"{self.picture({a: 1 << 30 for a, t in self.giver.open.items() if t})}")
        self.check()
        found = self.gather()
        self.over.set()
        self.sampler.join(20)
        self.check()
        for daemon in self.daemons:
            daemon.down()
        eq(self.sampler.scan_of(found["starts"]), [], "processes after reeve down")
        self.server.stop()
        found["history"] = starts_in(self.server.data)
        return found

    def gather(self):
        s = self.client()
        started = {c["spawnId"]: c for c in commands(s) if c["type"] != "stop-agent"}
        agents = {a["agent"]: a for a in s.call("agent.list")["agents"]}
        current = {a: x["process"]["spawnId"] for a, x in agents.items()}
        wait_for(lambda: {p.spawn for p in self.sampler.scan_of(started)} == set(current.values()),
                 "no process of an older spawn")
        numbers = {0, *(int(a.split(":")[0]) for a in agents)}
        return {"agents": agents, "current": current, "starts": started,
                "summaries": {c: s.call("conversation.get", conversation=c) for c in numbers},
                "tasks": {t: s.call("task.get", task=t)["task"] for t in self.giver.given},
                "log": {c: s.events(c) for c in numbers},
                "seen": dict(self.sampler.spawns), "hurt": self.hurt,
                "journal": self.read_journal()}

    def read_journal(self):
        """task -> [(word, epoch, spawn, pid)]"""
        found = {}
        for task in os.listdir(self.journal):
            with open(os.path.join(self.journal, task)) as f:
                lines = (line.split() for line in f)
                found[int(task)] = [(w, int(e), spawn, int(pid)) for w, e, spawn, pid in lines]
        return found
