"""A machine that a test plays by hand: it registers, polls, and says what happened to processes.

Nothing runs. A process is an entry in `processes`, spawn id to the command that asked for it, from
the moment the machine says `spawned` until it says `exited` or `stopped`. Facts are counted as a
real machine counts them. With the manual clock everything is exact: poll() does not wait.

Names for what tests do again and again: boot() brings agents of one conversation up, work() lets
an agent's process take a task in hand, with the token it was given.
"""
import itertools
import json

from crew import give, join
from fleet import commands
from reeve_test import BELL, Client, RpcError, Socket, check, eq
from watch_model import ms

TTL_MS = 90_000         # machine.ttl_seconds
FENCE_MS = 300_000      # machine.fence_seconds
DEADLINE_MS = 120_000   # restart.command_deadline_seconds
STABLE_MS = 600_000     # restart.stable_seconds
WINDOW_MS = 600_000     # restart.window_seconds
BURST = 5               # restart.burst
CRASH = {"code": 1}
CLEAN = {"code": 0}
KILLED = {"code": None, "signal": 9}


def kind(name="worker", **more):
    return {"name": name} | more


def starts_of(answer):
    return [c for c in answer if c["type"] != "stop-agent"]


class Machine:
    """One instance of a machine of this name."""

    instances = itertools.count(1)

    def __init__(self, s, name="m1", kinds=None, register=True, instance=None):
        self.s, self.name = s, name
        self.kinds = [kind()] if kinds is None else kinds
        self.instance = instance or f"i{next(self.instances)}"
        self.client = s.as_token(scope="machine", machine=name)
        self.processes = {}   # spawn id -> the command that asked for it
        self.tokens = {}      # spawn id -> the token of its process, also after its end
        self.n = itertools.count(1)
        self.pids = itertools.count(1000)
        self.registered = self.register() if register else None

    def reconnect(self):
        """The server was started again, and listens somewhere else."""
        self.client = Client(self.s.port, self.client.token)

    # ---- what it says ----

    def identity(self):
        return {"machine": self.name, "instance": self.instance}

    def register(self, ended=(), **more):
        """Registers with what it has; `ended` [(spawn id, exit)]. The commands it was given."""
        processes = [{"spawnId": x, "pid": 1, "startTime": 1, "state": "running"}
                     for x in self.processes]
        processes += [{"spawnId": x, "state": "exited", "exit": e} for x, e in ended]
        answer = self.client.call("machine.register", **self.identity(), hostname="host",
                                  bootId="boot", kinds=self.kinds, processes=processes, **more)
        eq(answer["ttlMs"], TTL_MS, "ttlMs")
        return self.note(answer["commands"])

    def poll(self, alive=None, timeout_ms=0, **more):
        """What it is to do now."""
        answer = self.client.call("machine.poll", **self.identity(), timeoutMs=timeout_ms,
                                  alive=list(self.processes) if alive is None else alive, **more)
        return self.note(answer["commands"])

    def note(self, given):
        self.tokens |= {c["spawnId"]: c["token"] for c in given if "token" in c}
        return given

    def facts(self, *facts):
        """Each (what, spawn id, members): numbered, and sent in one report. The answer."""
        numbered = [{"n": next(self.n), "fact": f, "spawnId": x} | more for f, x, more in facts]
        answer = self.client.call("machine.report", **self.identity(), facts=numbered)
        if numbered:
            eq(answer["acceptedTo"], numbered[-1]["n"], "acceptedTo")
        return answer

    def report(self, fact, spawn, **more):
        """One fact, which must be accepted."""
        answer = self.facts((fact, spawn, more))
        eq(answer["rejected"], [], f"{fact} of {spawn}")

    # ---- what it does ----

    def spawn(self, command):
        """Does what a start asks for; what it replaces is proven dead first."""
        if command["type"] == "restart-agent":
            self.end_others(command)
        self.processes[command["spawnId"]] = command
        self.report("spawned", command["spawnId"], pid=next(self.pids), startTime=1)
        return command["spawnId"]

    def end_others(self, command):
        for spawn, other in list(self.processes.items()):
            if (other["conversation"], other["role"]) == (command["conversation"], command["role"]):
                self.stopped(spawn)

    def fail(self, command, error="no such program"):
        self.report("start_failed", command["spawnId"], error=error)

    def exited(self, spawn, exit=CRASH):
        self.processes.pop(spawn, None)
        self.report("exited", spawn, exit=exit)

    def stopped(self, spawn, exit=KILLED):
        self.processes.pop(spawn, None)
        self.report("stopped", spawn, exit=exit)

    def ready(self, spawn):
        self.report("notify", spawn, ready=True)

    def obey(self):
        """Polls once and does all it is told. The commands."""
        given = self.poll()
        for command in given:
            if command["type"] == "stop-agent":
                self.stopped(command["spawnId"])
            else:
                self.spawn(command)
        return given

    def start_given(self):
        """The one start it is given now; nothing else comes with it."""
        given = self.poll()
        eq([c["type"] for c in given], ["start-agent"], "what the machine is told")
        return given[0]

    def boot(self):
        """Takes the one start or restart there is, and runs it. Its spawn id."""
        (command,) = starts_of(self.poll())
        return self.spawn(command)

    def agent(self, spawn):
        """A client with the token of this process."""
        return Client(self.s.port, self.tokens[spawn])


class MachinePoll:
    """A machine.poll under way on a WebSocket of its own."""

    ids = itertools.count(1)

    def __init__(self, machine, timeout_ms=60_000):
        self.socket = Socket(machine.s.port, machine.client.token)
        self.id = next(self.ids)
        self.send("machine.poll", self.id, **machine.identity(), timeoutMs=timeout_ms,
                  alive=list(machine.processes))
        self.early = None
        self.round_trip()

    def send(self, method, number, **params):
        self.socket.text_out(json.dumps({"jsonrpc": "2.0", "id": number, "method": method,
                                         "params": params}))

    def round_trip(self):
        self.send("server.info", 0)
        while (message := json.loads(self.socket.text_in()))["id"] != 0:
            self.early = message

    def is_waiting(self):
        self.round_trip()
        return self.early is None

    def answer(self):
        """It is there after a few round trips, or it does not come; without a bell, some time."""
        if BELL == "never":
            self.early = self.early or json.loads(self.socket.text_in())
        for _ in range(100):
            if not self.is_waiting():
                if "error" in self.early:
                    raise RpcError(self.early["error"])
                return self.early["result"]["commands"]
        raise AssertionError("the poll is not answered")


# ---- what the server says ----

def agent_of(s, c, role="a"):
    (found,) = [a for a in s.call("agent.list", conversation=c)["agents"] if a["role"] == role]
    return found


def sight(s, c, role="a"):
    """The view, which must be the same wherever it is shown."""
    shown = agent_of(s, c, role)["view"]
    (other,) = [a for a in s.call("conversation.get", conversation=c)["agents"]
                if a["role"] == role]
    eq(other["view"], shown, "view in conversation.get and agent.list")
    eq(s.call("agent.why", conversation=c, role=role)["view"], shown, "view in agent.why")
    return shown


def command(s, number):
    (found,) = [x for x in commands(s) if x["command"] == number]
    return found


def restart_at(s, c, role="a"):
    at = agent_of(s, c, role)["breaker"].get("restartAt")
    return ms(at) if at else None


def told(s, c):
    """(spawn id, expected, code) of every agent.exited, wherever it was written."""
    data = [e["payload"]["data"] for e in s.events(c) + s.events(0)
            if e["type"] == "system" and e["payload"]["kind"] == "agent.exited"]
    return [(d["spawnId"], d["expected"], d["code"]) for d in data if d["conversation"] == c]


def boot(s, machine, c):
    """Takes every open start of the conversation: {role: spawn id}."""
    given = starts_of(machine.poll())
    check(all(x["conversation"] == c for x in given), f"starts of others: {given}")
    return {x["role"]: machine.spawn(x) for x in given}


def work(s, machine, c, spawn, role="a", connection="p1"):
    """A task of this role in progress, in the hands of this process. (task, its client)"""
    agent = machine.agent(spawn)
    join(agent, c, role, connection)
    if not agent_of(s, c, role).get("task"):
        give(s, c, role)
    got = agent.call("task.claim", conversation=c, role=role, connectionId=connection)["task"]
    return agent.call("task.start", task=got["task"], epoch=got["epoch"])["task"], agent
