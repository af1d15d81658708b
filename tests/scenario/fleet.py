"""Conversations with managed agents: to make them, and to see what became of them.

There is no machine yet that takes commands. A start that one would have taken is marked in the
store while no server runs: deliver(). The clock is by hand unless a test says otherwise, and
settle() returns when the server has nothing left to do.
"""
import json
import os
import sqlite3

from reeve_test import check, eq

MANUAL = ("--clock=manual",)


def managed(s, *roles, desired="running", **more):
    """A new conversation whose agents have a kind."""
    agents = [{"role": r, "kind": "worker", "desired": desired} for r in roles]
    return s.call("conversation.create", agents=agents, **more)["conversation"]


def settle(s, ms=0):
    """Lets time pass, and waits until everything due is done."""
    return s.call("clock.advance", ms=ms)["now"]


def batch(s, *calls):
    """(method, params) in one request; a list of results, or names of errors."""
    body = [{"jsonrpc": "2.0", "id": i, "method": m, "params": p} for i, (m, p) in enumerate(calls)]
    answers = s.post(json.dumps(body).encode()).json()
    eq([a["id"] for a in answers], list(range(len(calls))), "ids of a batch")
    return [a["result"] if "result" in a else a["error"]["data"]["name"] for a in answers]


# ---- what the server says ----

def ensured(s, conversation):
    answer = s.call("lifecycle.getEnsured", conversation=conversation)
    return {a["role"]: a["view"] for a in answer["ensured"]}


def commands(s, conversation=None, **only):
    """All commands with these members, page by page."""
    found, after = [], 0
    where = {} if conversation is None else {"conversation": conversation}
    while after is not None:
        page = s.call("command.list", after=after, limit=100, **where)
        found += page["commands"]
        after = page["next"]
    return [c for c in found if all(c[k] == v for k, v in only.items())]


def starts(s, conversation, **only):
    return [c for c in commands(s, conversation, **only) if c["type"] != "stop-agent"]


def open_starts(s, conversation):
    return starts(s, conversation, closedAt=None)


def kind_of(event):
    return event["payload"].get("kind") if event["type"] == "system" else None


def states(s, conversation):
    """(role, status, reason) of every agent.state, wherever it was written, in order."""
    return states_in(s.events(conversation), s.events(0), conversation)


def states_in(own, server, conversation):
    found = [e for e in own + server if kind_of(e) == "agent.state"
             and e["payload"]["data"]["conversation"] == conversation]
    ends = [e["id"] for e in own if e["finality"] == "conversation"]
    for e in found:
        is_after = bool(ends) and e["id"] > ends[0]
        eq(e["conversation"], 0 if is_after else conversation, f"the log that holds {e}")
    data = [e["payload"]["data"] for e in sorted(found, key=lambda e: e["id"])]
    roles = [d["agent"].removeprefix(f"{conversation}:") for d in data]
    return [(r, d["status"], d["reason"]) for r, d in zip(roles, data)]


def terminal(s, conversation):
    """The terminal message: there is one, and nothing follows it."""
    return terminal_in(s.events(conversation))


def terminal_in(events):
    ends = [e for e in events if e["finality"] == "conversation"]
    eq(len(ends), 1, f"terminal messages of {events[0]['conversation']}")
    eq(events[-1], ends[0], "the last event")
    return ends[0]


class Picture:
    """All that a server says of its conversations, or of some, at one time. Two can be compared."""

    def __init__(self, s, *conversations):
        self.numbers = list(conversations) or every_conversation(s)
        self.summaries = {c: s.call("conversation.get", conversation=c) for c in self.numbers}
        self.ensured = {c: ensured(s, c) for c in self.numbers}
        self.log = {c: s.events(c) for c in (0, *self.numbers)}
        self.commands = [x for x in commands(s) if x["conversation"] in self.summaries]

    def __eq__(self, other):
        return vars(self) == vars(other)

    def status(self, conversation):
        return self.summaries[conversation]["status"]

    def states(self, conversation):
        return states_in(self.log[conversation], self.log[0], conversation)

    def of(self, conversation, *types):
        return [c for c in self.commands
                if c["conversation"] == conversation and c["type"] in types]


def every_conversation(s):
    numbers, after = [], 0
    while after is not None:
        page = s.call("conversation.list", after=after, limit=500)
        numbers += [c["conversation"] for c in page["conversations"]]
        after = page["next"]
    return numbers


def check_stopped(picture, c, reason, spawns=None):
    """Nothing of it runs or is about to, and everything was said and asked for once. `spawns`
    {role: spawnId} are the starts that a machine had taken when the end came."""
    spawns = spawns or {}
    eq(picture.ensured[c], {role: "stopping" for role in spawns}, f"who of {c} is still there")
    begun = picture.of(c, "start-agent", "restart-agent")
    eq([x for x in begun if x["status"] != "failed"], [], f"open starts of {c}")
    stops = picture.of(c, "stop-agent")
    eq(sorted((x["role"], x["spawnId"], x["status"], x["reason"]) for x in stops),
       sorted((r, spawn, "pending", reason) for r, spawn in spawns.items()), f"stops of {c}")
    ends = [x for x in picture.states(c) if x[1] != "starting"]
    want = [(r, "stopping" if r in spawns else "stopped", reason)
            for r in sorted({x["role"] for x in begun})]
    eq(sorted(ends), want, f"what was said about agents of {c}")


# ---- behind the server's back ----

def edit_store(s, *statements):
    """Runs SQL on the store of a server that is down."""
    check(s.process is None, "the server must be down")
    db = sqlite3.connect(os.path.join(s.data, "reeve.db"))
    for statement in statements:
        db.execute(*statement) if isinstance(statement, tuple) else db.execute(statement)
    db.commit()
    db.close()


def deliver(s, *conversations, role=None):
    """A machine takes the open starts of these, or of this role in them. The server is down."""
    where = "type <> 'stop-agent' AND status = 'pending' AND conversation = ?"
    where += " AND role = ?" if role else ""
    for c in conversations:
        edit_store(s, ("UPDATE machine_commands SET status = 'delivered', delivered_at = created_at"
                       f" WHERE {where}", (c, role) if role else (c,)))
