"""Agents that a test plays by hand: they join, beat, claim and work, and the clock is the test's.

Everything a test says about time is exact: a lease that ends at t is alive at t and over at t + 1.
"""
import json
import threading

from reeve_test import BELL, ERRORS, RpcError, Socket, check, eq, wait_for
from watch_model import advance, ms, now

ERRORS.setdefault("SUPERSEDED", -32017)
ERRORS.setdefault("STALE_EPOCH", -32018)

TTL_MS = ACTIVE_MS = 60_000  # liveness.ttl_seconds, .active_ttl_seconds
ACKNOWLEDGED_MS = 120_000    # liveness.acknowledged_timeout_seconds
UNATTENDED_MS = 300_000      # liveness.pending_timeout_seconds
UNATTENDED_WORK_MS = 900_000
DISPATCH_MS = 900_000        # pmo.dispatched_timeout_seconds
REAP_MS = 1_800_000          # pmo.active_reap_seconds
RINGS = ("inbox.pending", "dispatch.retry")
OPEN = ("queued", "pending", "acknowledged", "in_progress", "suspended")


def keep_beating(s, c, task, until_ms, every_ms=30_000, **more):
    """The holder beats until then, the last time in that millisecond."""
    while now(s) < until_ms:
        advance(s, min(every_ms, until_ms - now(s)))
        beat(s, c, task["role"], task["claimedBy"], epoch=task["epoch"], **more)


def talk(s, *roles, kind=None, **more):
    """A conversation without budget and silence limits, so that only the rules of work act."""
    more.setdefault("runtime_controls", {"session_wall_clock_seconds": 0})
    more.setdefault("watchdog", {"disabled": True})
    agents = [{"role": r} | ({"kind": kind} if kind else {}) for r in roles or ("a", "b")]
    return s.call("conversation.create", agents=agents, **more)["conversation"]


# ---- participants ----

def join(s, c, role="a", connection="c1"):
    return s.call("participant.join", conversation=c, role=role, connectionId=connection)


def beat(s, c, role="a", connection="c1", **more):
    return s.call("participant.heartbeat", conversation=c, role=role, connectionId=connection,
                  **more)


def leave(s, c, role="a", connection="c1"):
    return s.call("participant.leave", conversation=c, role=role, connectionId=connection)


def participant(s, c, role="a"):
    found = s.call("participant.list", conversation=c)["participants"]
    (one,) = [p for p in found if p["role"] == role]
    return one


def view(s, c, role="a"):
    agents = s.call("conversation.get", conversation=c)["agents"]
    (one,) = [a for a in agents if a["role"] == role]
    return one["view"]


# ---- tasks ----

def give(s, c, role="a", content="work", **more):
    return s.call("task.create", conversation=c, role=role, content=content, **more)["task"]


def poll(s, c, role="a", connection="c1", timeout_ms=0, **more):
    return s.call("task.wait", conversation=c, role=role, connectionId=connection,
                  timeoutMs=timeout_ms, **more)


def claim(s, c, role="a", connection="c1", **more):
    answer = s.call("task.claim", conversation=c, role=role, connectionId=connection, **more)
    eq(answer["epoch"], answer["task"]["epoch"], "the epoch of a claim")
    return answer["task"]


def start(s, task, epoch=None):
    return move(s, "start", task, epoch)


def complete(s, task, epoch=None, **more):
    return s.call("task.complete", task=task["task"],
                  epoch=task["epoch"] if epoch is None else epoch, **more)


def move(s, verb, task, epoch=None, **more):
    return s.call(f"task.{verb}", task=task["task"],
                  epoch=task["epoch"] if epoch is None else epoch, **more)["task"]


def task_of(s, task):
    return s.call("task.get", task=task["task"] if isinstance(task, dict) else task)["task"]


def status(s, task):
    return task_of(s, task)["status"]


def tasks(s, **only):
    found, after = [], 0
    while after is not None:
        page = s.call("task.list", after=after, **only)
        found += page["tasks"]
        after = page["next"]
    return found


def put_to_work(s, c, role="a", connection="c1", **more):
    """A task of this role in progress."""
    join(s, c, role, connection)
    give(s, c, role)
    return start(s, claim(s, c, role, connection, **more))


# ---- the log ----

def said(s, c, *kinds):
    """The data of the system events of these kinds, in order, each with its kind and time."""
    return [e["payload"]["data"] | {"kind": e["payload"]["kind"], "at": ms(e["ts"])}
            for e in s.events(c) if e["type"] == "system" and e["payload"]["kind"] in kinds]


def ends(s, c):
    """(task, status, reason) of every agent.task."""
    return [(e["task"], e["status"], e["reason"]) for e in said(s, c, "agent.task")]


def moves(s, c, with_rings=False):
    """(rule, when) of what the rules of work wrote. A ring moves nothing."""
    found = [(e["payload"]["kind"].removeprefix("watch."), ms(e["ts"])) for e in s.events(c)
             if e["type"] == "system" and e["payload"]["kind"].startswith("watch.")]
    return [m for m in found if with_rings or m[0] not in RINGS]


def check_once_at(s, c, rule, due_ms, happened):
    """Nothing the millisecond before it is due, and all of it at that millisecond."""
    advance(s, due_ms - 1 - now(s))
    eq(happened(), False, f"{rule} a millisecond early")
    advance(s, 1)
    eq(happened(), True, f"{rule} when it is due")


# ---- at the same time ----

class Poll:
    """A task.wait under way on a WebSocket of its own."""

    ids = iter(range(1, 1 << 30))

    def __init__(self, s, c, role="a", connection="c1", timeout_ms=60_000, token=None, **more):
        self.socket = Socket(s.port, token or s.token)
        self.id = next(self.ids)
        self.send("task.wait", self.id, conversation=c, role=role, connectionId=connection,
                  timeoutMs=timeout_ms, **more)
        # An answer to what was sent after it on the same connection: it is registered.
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
            return self.read()
        for _ in range(100):
            if not self.is_waiting():
                return self.read()
        raise AssertionError("the poll is not answered")

    def read(self):
        """Waits for the answer, however long."""
        message = self.early or json.loads(self.socket.text_in())
        eq(message["id"], self.id, "id of the poll")
        if "error" in message:
            raise RpcError(message["error"])
        return message["result"]

    def drop(self):
        """Gone without a word."""
        self.socket.sock.close()


def metric(s, name):
    for line in s.get("/metrics").body.decode().splitlines():
        if line.split(" ")[0] == name:
            return float(line.split(" ")[1])
    raise AssertionError(f"no metric {name}")


def outcome(call):
    """The result of a call, or the name of its error."""
    try:
        return call()
    except RpcError as e:
        return e.name


def in_thread(fn):
    """Runs fn beside the test; returns a function that waits for its result, or what it raised."""
    box = []

    def run():
        try:
            box.append(outcome(fn))
        except Exception as e:  # noqa: BLE001 - handed to the caller
            box.append(repr(e))

    threading.Thread(target=run, daemon=True).start()

    def result():
        wait_for(lambda: box, "a call in another thread")
        return box[0]

    return result


def check_agrees(s, c):
    """Invariants that hold at any time: one active task per role, and the log tells each end."""
    every = tasks(s, conversation=c)
    for role in {t["role"] for t in every}:
        active = [t for t in every if t["role"] == role and t["status"] in OPEN[1:]]
        queued = [t for t in every if t["role"] == role and t["status"] == "queued"]
        check(len(active) <= 1, f"active tasks of {role}: {active}")
        check(active or not queued or status_of(s, c) != "active", f"{role} is idle with a queue")
        check(all(q["task"] > active[0]["task"] for q in queued) if active else True, "the order")
    over = sorted(t["task"] for t in every if t["status"] not in OPEN)
    eq(sorted(e[0] for e in ends(s, c)), over, "tasks whose end was told, once each")


def status_of(s, c):
    return s.call("conversation.get", conversation=c)["status"]


# ---- tools ----

SUSPEND_MS, LEASE_MS = 30_000, 10_000  # worker.suspend_timeout_seconds; of a resume
SUSPENDED_REAP_MS = 7_200_000          # pmo.suspended_reap_seconds


def suspend(s, task, *calls, **more):
    """Waits for these calls: ids, or whole members of `tools`."""
    tools = [{"toolCallId": x, "name": f"tool-{x}"} if isinstance(x, str) else x for x in calls]
    return s.call("task.suspend", task=task["task"], epoch=task["epoch"], tools=tools, **more)


def report(s, task, call, status="success", **more):
    return s.call("tool.report", task=task["task"], toolCallId=call, status=status, **more)


def resume(s, task, **more):
    return s.call("task.resume", task=task["task"], epoch=task["epoch"], **more)


def taken(s, task):
    """(id, status) of what a resume takes."""
    return [(r["toolCallId"], r["status"]) for r in resume(s, task)["results"]]


def applied(s, task, *calls, **more):
    answer = s.call("task.applied", task=task["task"], epoch=task["epoch"],
                    toolCallIds=list(calls), **more)
    eq(answer["epoch"], answer["task"]["epoch"], "the epoch of an apply")
    return answer["task"]


def suspended(s, c, *calls, role="a", **more):
    """A task of this role that waits for these calls."""
    return suspend(s, put_to_work(s, c, role, **more), *calls)["task"]


def cards(s, c, kind, **only):
    """The contents of a conversation's cards of this type, in order."""
    found, after = [], 0
    while after is not None:
        page = s.call("card.list", conversation=c, type=kind, after=after, **only)
        found += page["cards"]
        after = page["next"]
    return [x["content"] for x in found]


def deliverable_of(s, task):
    """The content of the card that a task left."""
    card = task_of(s, task)["outcome"]["deliverableCardId"]
    return s.call("card.get", card=card)["card"]["content"] if card else None
