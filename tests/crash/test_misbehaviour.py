"""Agents that misbehave, end to end (W8): a server, a machine, shims, real processes.

Each agent is given a task under short limits, and does one thing wrong: KINDS, by lib/misbehave.c.
The log must show that its task reached its end for the right cause, and how each of its processes
ended; and a witness that asks reeve nothing looks through /proc for what is left of it, by a mark in
command lines and in environments.

    REEVE_AGENTS=n   so many, of random kinds (default: each kind once)
    REEVE_SEED=1     which
"""
import collections
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "scenario"))

from daemon import Daemon, exits, sh  # noqa: E402
from fleet import commands, kind_of, starts  # noqa: E402
from real_fleet import OVER, all_pids, environment_of  # noqa: E402
from reeve_test import Server, check, eq, main, wait_for  # noqa: E402
from spawn import MISBEHAVE, no_survivors  # noqa: E402

AGENTS = int(os.environ.get("REEVE_AGENTS", "0"))
SEED = int(os.environ.get("REEVE_SEED", "1"))
AT_ONCE = 12
LOG_BYTES = 1 << 20
SLOW = int(os.environ.get("TAP_SLOW", "1"))  # with a sanitizer a start takes longer
LIMITS = (f"pmo.active_reap_seconds={2 * SLOW}", f"pmo.dispatched_retry_seconds={2 * SLOW}",
          f"pmo.dispatched_timeout_seconds={12 * SLOW}", "liveness.max_attempts=2",
          "restart.backoff_first_ms=1", "restart.backoff_max_ms=10", "restart.burst=3",
          f"restart.command_deadline_seconds={4 * SLOW}")

# ---- the agents ----

# Takes its task, to become then what misbehaves. One that has nothing to do waits.
TAKE = r"""
me='"conversation":'$REEVE_CONVERSATION',"role":"'$REEVE_ROLE'","connectionId":"'$REEVE_SPAWN'"'
words='s/.*"task":{"task":\([0-9]*\).*"epoch":\([0-9]*\).*/"task":\1,"epoch":\2/p'
reeve rpc participant.join "{$me}" >/dev/null
task=$(reeve rpc task.claim "{$me}" 2>/dev/null | sed -n "$words")
[ "$task" ] || exec tail --pid=$TEST -f /dev/null
reeve rpc task.start "{$task}" >/dev/null
"""
BECOME = 'exec "$0" "$1" "$2" "$3-$REEVE_CONVERSATION"'
SAY_MUCH = '"$0" long-line 1024 "$3-$REEVE_CONVERSATION"\n'

# script; what of misbehave.c, with which number; settings of the kind; the rule that ends its task, and
# what it says; events that must be there; how its first processes end: (status, signal, expected).
Kind = collections.namedtuple("Kind", "script does number settings rule reason events ends")


def works(does, number, end, script=TAKE + BECOME):
    """Takes its task and makes no progress, while it lives: it is reaped, and ended."""
    return Kind(script, does, number, {}, "running.reap", "timeout_reaped_by_watchdog", (), [end])


TERM, KILL = (-1, 15, True), (-1, 9, True)
KINDS = {
    "sigstop": works("stopped", 5, (5, 0, True)),
    "spin": works("spins", 0, KILL),
    "silence": works("waits", 0, TERM),
    "1 GB line": works("waits", 0, TERM, TAKE + SAY_MUCH + BECOME),
    "closed output": works("closes-output", 0, TERM),
    "fork bomb": works("bomb", 40, KILL),
    "deaf": works("deaf", 0, KILL),
    "setsid": works("escapee", 0, TERM),
    "tree": works("tree", 1, TERM),
    "crash": Kind(TAKE + BECOME, "crashes", 11, {}, "task.exhausted", "attempts_exhausted",
                  ("watch.task.orphaned",), [(-1, 11, False)] * 2),
    "gone in 1 ms": Kind(BECOME, "ends", 3, {}, "dispatch.reap", "dispatch_timeout",
                         ("watch.agent.exited",), [(3, 0, False)] * 3),
    "never ready": Kind(BECOME, "never-ready", 0, {"ready": "notify"}, "dispatch.reap",
                        "dispatch_timeout", ("watch.command.expired",), [TERM]),
}
if os.geteuid() != 0:
    del KINDS["fork bomb"]  # only root can give it a user, and so a process limit, of its own


def machine_kinds(mark):
    common = {"stop_grace": "300ms", "env": [f"TEST={os.getpid()}"], "log_bytes_max": LOG_BYTES}
    return {name.replace(" ", "-").lower(): (sh(k.script, MISBEHAVE, k.does, str(k.number), mark),
                                             common | k.settings) for name, k in KINDS.items()}


class Suspect:
    def __init__(self, s, d, name):
        self.s, self.d, self.name, self.kind = s, d, name, KINDS[name]
        self.number = s.call("conversation.create", watchdog={"disabled": True}, agents=[
            {"role": "a", "kind": name.replace(" ", "-").lower()}])["conversation"]
        self.task = s.call("task.create", conversation=self.number, role="a",
                           content=name)["task"]["task"]
        self.has_ended = False

    def is_over(self):
        """Its task first; then the conversation is ended, and all its processes must be."""
        if not self.has_ended:
            if self.s.call("task.get", task=self.task)["task"]["status"] not in OVER:
                return False
            self.s.call("conversation.end", conversation=self.number)
            self.has_ended = True
        told = commands(self.s, self.number)
        folders = os.listdir(os.path.join(self.d.data, "spawns"))  # until its end was accepted
        return all(x["closedAt"] and x["spawnId"] not in folders for x in told)

    # ---- the verdict ----

    def check(self, mark):
        try:
            self.check_cause()
            self.check_ends()
            self.check_nothing_is_left(mark)
            self.check_output()
        except AssertionError as e:
            told = "\n".join(f"{kind_of(x)} {x['payload']['data']}" for x in self.events())
            raise AssertionError(f"{self.name}, REEVE_SEED={SEED}: {e}\n{told}\n"
                                 f"{commands(self.s, self.number)}") from None

    def events(self):
        """What the system wrote about it, in its own log and after its end in the server's."""
        after = (e for e in self.s.events(0)
                 if kind_of(e) and e["payload"]["data"].get("conversation") == self.number)
        return [e for e in self.s.events(self.number) if kind_of(e)] + list(after)

    def of(self, kind):
        return [e["payload"]["data"] for e in self.events() if kind_of(e) == kind]

    def check_cause(self):
        eq([x["reason"] for x in self.of("agent.task")], [self.kind.reason], "reasons of the end")
        eq([x["rule"] for x in self.of("agent.force_terminated")], [self.kind.rule], "rules")
        told = {kind_of(e) for e in self.events()}
        eq(set(self.kind.events) - told, set(), "events that are missing")

    def check_ends(self):
        """In the order of their starts; of each start at most one."""
        spawns = [x["spawnId"] for x in starts(self.s, self.number)]
        ends = exits(self.s, self.number)
        told = {x["spawnId"]: (x["code"], x["signal"], x["expected"]) for x in ends}
        eq([told.get(x) for x in spawns[:len(self.kind.ends)]], self.kind.ends, "ends")
        eq(len(told), len(ends), "ends that are told once")
        eq(set(told) - set(spawns), set(), "ends of what was never started")

    def check_nothing_is_left(self, mark):
        no_survivors(f"{mark}-{self.number}")
        spawns = {x["spawnId"] for x in starts(self.s, self.number)}
        left = [p for p in all_pids() if (env := environment_of(p)).get("REEVE_SPAWN") in spawns
                and "REEVE_ROLE" in env]  # a shim that has said its last word may still go
        eq(left, [], "processes with its mark")

    def check_output(self):
        folder = os.path.join(self.d.data, "logs", str(self.number))
        sizes = [os.path.getsize(os.path.join(folder, x)) for x in os.listdir(folder)]
        check(sum(sizes) <= 3 * LOG_BYTES, f"{sizes} bytes of logs")


def names():
    if not AGENTS:
        return list(KINDS)
    rng = random.Random(SEED)
    return [rng.choice(list(KINDS)) for _ in range(AGENTS)]


def test_W8_P9_P13_P15_every_kind_ends_for_its_cause_and_leaves_nothing():
    mark = f"w8-{os.urandom(4).hex()}"
    waiting, running, judged = names(), [], 0
    s = Server(args=[x for limit in LIMITS for x in ("--set", limit)]).start()

    def some_are_over():
        return [x for x in running if x.is_over()]

    with Daemon(s, machine_kinds(mark)) as d:
        while waiting or running:
            while waiting and len(running) < AT_ONCE:
                running.append(Suspect(s, d, waiting.pop()))
            over = wait_for(some_are_over, f"an end of {[x.name for x in running]}", 60)
            for suspect in over:
                running.remove(suspect)
                suspect.check(mark)
                judged += 1
    s.stop()
    print(f"proof weapon=misbehaviour agents={judged} failures=0")


if __name__ == "__main__":
    main(seconds=120 + 2 * AGENTS)
