"""kill -9 under load, again and again: nothing acknowledged is lost, nothing happens twice.

Workers write over HTTP (one request at a time) and over WebSocket (many in flight): messages, some
of which close their turn, traces, ends of conversations and new conversations. Others work on tasks:
create, claim, start, suspend for tools, report, resume, complete or fail, and now and then a call
with an old epoch. Each worker appends what it was told to a file of its own before it goes on. The server is killed at a random moment and
started again on the same folder; whatever had no answer by then is sent again with its key, and now
and then something that had. A follower reads the event stream across all of it. audit.py then
compares log, acknowledgements and follower; every 20 rounds, and at the end with everything read
afresh.

    REEVE_KILLS=300  kills        REEVE_SEED=1  a run to repeat as far as timing allows
"""
import collections
import json
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "scenario"))

from audit import audit, audit_tasks, text_hash  # noqa: E402
from reeve_test import (Closed, EventStream, Http, Server, Socket, check, eq, folder,  # noqa: E402
                        main)

KILLS = int(os.environ.get("REEVE_KILLS", "300"))
SEED = int(os.environ.get("REEVE_SEED", "1"))
GONE = (Closed, OSError)
# However slow the machine: nothing here is about time.
PATIENT = [x for key in ("liveness.active_ttl_seconds", "liveness.acknowledged_timeout_seconds",
                         "worker.suspend_timeout_seconds")
           for x in ("--set", f"{key}=86400")]


class Request:
    """One thing to be done once, however often it has to be sent."""

    def __init__(self, key, method, params, text=None):
        self.key, self.method, self.params, self.text = key, method, params, text
        self.sent, self.answer = None, None

    def body(self):
        self.sent = self.sent or time.monotonic()
        return json.dumps({"jsonrpc": "2.0", "id": self.key, "method": self.method,
                           "params": self.params})


class Worker(threading.Thread):
    """Makes requests and keeps the books; how they travel is its subclasses' matter."""

    def __init__(self, run, name):
        super().__init__(name=name, daemon=True)
        self.all, self.rng = run, random.Random(f"{SEED}/{name}")
        self.path = os.path.join(folder(), f"{name}.acks")
        self.file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.made = self.resent = self.repeated = 0
        self.attempted = set()
        self.unanswered = collections.OrderedDict()  # key -> Request, in order of sending
        self.answered = collections.deque(maxlen=50)
        self.repeating = {}
        self.conversation = None
        self.failure = None

    def run(self):
        try:
            while not self.all.over.is_set():
                try:
                    if self.all.up.wait(0.05):
                        self.work(self.all.server.port)
                except GONE:
                    continue
        except BaseException as e:  # noqa: B036 - raised again by Run.check_threads
            self.failure = e

    def next_request(self):
        """A new thing to do, or sometimes one that was done before."""
        dice = self.rng.random()
        if dice < 0.05 and self.answered:
            self.repeated += 1
            request = self.rng.choice(self.answered)
            self.repeating[request.key] = request
            return request
        self.made += 1
        request = self.make(f"{self.name}-{self.made}", dice)
        self.unanswered[request.key] = request
        return request

    def make(self, key, dice):
        self.attempted.add(key)
        if self.conversation is None:
            return Request(key, "conversation.create", {
                "agents": [{"role": self.name}], "maxTurns": self.rng.choice((3, 8, 1000)),
                "metadata": {"key": key}, "idempotencyKey": key})
        text = key + " " + "x" * self.rng.choice((0, 10, 100, 2000))
        mine = {"conversation": self.conversation, "agentId": self.name, "clientRequestId": key}
        shared = mine | {"conversation": self.all.shared}
        if dice < 0.09:
            self.conversation = None
            return Request(key, "conversation.end", {
                "conversation": mine["conversation"], "authorId": self.name, "text": text,
                "idempotencyKey": key}, text)
        if dice < 0.25:
            payload = {"type": "thought", "content": text}
            return Request(key, "trace.append", shared | {"payload": payload}, text)
        if dice < 0.55:
            return Request(key, "message.send", shared | {"text": text}, text)
        finality = "turn" if dice < 0.8 else "none"
        return Request(key, "message.send", mine | {"text": text, "finality": finality}, text)

    def settle(self, answer):
        request = self.unanswered.pop(answer["id"], None)
        if request is None:
            request = self.repeating[answer["id"]]
            eq(answer, request.answer, f"the answer to a repeat of {request.params}")
        elif "error" in answer:
            # Nothing else may be refused than what came after maxTurns had ended it.
            eq(answer["error"]["data"]["name"], "CONVERSATION_FINALIZED", f"{request.params}")
            if request.params["conversation"] == self.conversation:
                self.conversation = None
        else:
            self.acknowledge(request, answer)

    def acknowledge(self, request, answer):
        result = answer["result"]
        line = {"key": request.key, "sent": request.sent, "acked": time.monotonic(),
                "conversation": result["conversation"]}
        if request.text is not None:
            line |= {k: result[k] for k in ("seq", "id", "turn")}
            line["text"] = text_hash(request.text)
        os.write(self.file, json.dumps(line).encode() + b"\n")
        request.answer = answer
        self.answered.append(request)
        if request.text is None:
            self.conversation = result["conversation"]


class HttpWorker(Worker):
    """One request at a time."""

    def work(self, port):
        with Http(port, self.all.server.token) as http:
            def exchange(request):
                self.settle(http.request("POST", "/rpc", request.body().encode()).json())

            for request in list(self.unanswered.values()):
                self.resent += 1
                exchange(request)
            while not self.all.over.is_set():
                exchange(self.next_request())


class TaskWorker(HttpWorker):
    """One task after the other, from create to its end, every call with a key."""

    def __init__(self, run, name, conversation):
        super().__init__(run, name)
        self.conversation, self.last, self.script = conversation, None, self.lives()

    def make(self, key, dice):
        method, params, task, refusal = self.script.send(self.last)
        request = Request(key, method, params | {"idempotencyKey": key})
        request.task, request.refusal = task, refusal
        return request

    def settle(self, answer):
        request = self.unanswered.get(answer["id"])
        if request is None or "error" not in answer:
            super().settle(answer)
            if request is not None:
                self.last = answer["result"]
            return
        eq(answer["error"]["data"]["name"], request.refusal, f"{request.method} {request.params}")
        self.last = self.unanswered.pop(answer["id"])

    def acknowledge(self, request, answer):
        result = answer["result"]
        check(request.refusal is None, f"{request.params} was not refused")
        task = result.get("task") or {}
        line = {"key": request.key, "content": request.task, "method": request.method,
                "task": task.get("task"), "status": task.get("status"), "epoch": task.get("epoch"),
                "card": result.get("deliverableCardId"), "tool": request.params.get("toolCallId")}
        os.write(self.file, json.dumps(line).encode() + b"\n")
        request.answer = answer
        self.answered.append(request)

    def lives(self):
        """Yields (method, params, whose task, the error that is to come); gets the results."""
        agent = {"conversation": self.conversation, "role": self.name, "connectionId": self.name}
        while True:
            name = f"task-{self.name}-{self.made}"
            self.attempted.add(name)
            got = yield ("task.create", {"conversation": self.conversation, "role": self.name,
                                         "content": name}, name, None)
            task = got["task"]["task"]
            epoch = (yield "task.claim", agent, name, None)["epoch"]
            yield "task.start", {"task": task, "epoch": epoch}, name, None
            for tool in range(self.rng.randrange(3)):
                epoch = yield from self.wait_for_tool(task, epoch, name, f"{name}/{tool}")
            if self.rng.random() < 0.2:
                yield "task.complete", {"task": task, "epoch": epoch + 1}, name, "STALE_EPOCH"
            if self.rng.random() < 0.2:
                yield "task.fail", {"task": task, "epoch": epoch, "reason": name}, name, None
            else:
                yield ("task.complete", {"task": task, "epoch": epoch, "deliverable": name}, name,
                       None)

    def wait_for_tool(self, task, epoch, name, tool):
        number = {"task": task, "epoch": epoch}
        yield "task.suspend", number | {"tools": [{"toolCallId": tool, "name": "x"}]}, name, None
        yield ("tool.report", {"task": task, "toolCallId": tool, "status": "success",
                               "result": tool}, name, None)
        got = yield "task.resume", number, name, None
        eq([r["result"] for r in got["results"]], [tool], "what was resumed with")
        got = yield "task.applied", number | {"toolCallIds": [tool]}, name, None
        return got["epoch"]


class SocketWorker(Worker):
    """Many in flight; what decides where the next ones go (create, end) travels alone."""

    DEPTH = 8

    def work(self, port):
        with Socket(port, self.all.server.token) as ws:
            flying = 0

            def land(most):
                nonlocal flying
                while flying > most:
                    self.settle(json.loads(ws.text_in()))
                    flying -= 1

            for request in list(self.unanswered.values()):
                self.resent += 1
                ws.text_out(request.body())
                flying += 1
            land(0)
            while not self.all.over.is_set():
                request = self.next_request()
                alone = request.method.startswith("conversation.")
                land(0 if alone else self.DEPTH - 1)
                ws.text_out(request.body())
                flying += 1
                land(0 if alone else self.DEPTH)
            land(0)


class Follower(threading.Thread):
    """Reads /events from the beginning, coming back with Last-Event-ID after each crash."""

    def __init__(self, run):
        super().__init__(name="follower", daemon=True)
        self.all, self.seen, self.failure = run, [], None

    def run(self):
        try:
            while not self.all.over.is_set():
                try:
                    if self.all.up.wait(0.05):
                        self.follow(self.all.server.port)
                except GONE:
                    continue
        except BaseException as e:  # noqa: B036 - raised again by Run.check_threads
            self.failure = e

    def follow(self, port, until=None):
        last = {"Last-Event-ID": str(self.seen[-1]["id"])} if self.seen else None
        with EventStream(port, self.all.server.token, "?after=0", headers=last) as sse:
            while until is None or self.seen[-1]["id"] < until:
                number, event = sse.next()
                eq(number, event["id"], "id line")
                self.seen.append(event)


class Run:
    def __init__(self):
        self.server = Server(args=PATIENT).start()
        self.rng = random.Random(SEED)
        self.over, self.up = threading.Event(), threading.Event()
        self.shared = self.server.talk("shared", maxTurns=1_000_000)
        self.workers = [HttpWorker(self, "http0"), HttpWorker(self, "http1"),
                        SocketWorker(self, "ws0"), SocketWorker(self, "ws1")]
        self.workers += [TaskWorker(self, name, self.server.talk(name, maxTurns=0))
                         for name in ("task0", "task1")]
        self.kills = 0
        self.follower = Follower(self)
        self.log = collections.defaultdict(list)

    def crash(self):
        """A random time of load, kill -9, and a start; one start in ten is killed as well."""
        self.up.set()
        self.over.wait(self.rng.uniform(0, 0.15))
        self.up.clear()
        self.server.kill()
        self.kills += 1
        if self.rng.random() < 0.1:
            self.server.spawn()
            self.over.wait(self.rng.uniform(0, 0.03))
            self.server.kill()
            self.kills += 1
        self.server.start()
        self.check_threads()

    def check_threads(self):
        for thread in (*self.workers, self.follower):
            if thread.failure:
                raise thread.failure

    def finish(self):
        """Lets the workers come to an end, crashes a last time, and reads the follower up to it."""
        self.up.set()
        self.over.set()
        for worker in self.workers:
            worker.join(60)
            check(not worker.is_alive(), f"{worker.name} does not end")
        self.up.clear()
        self.server.kill()
        self.follower.join(60)
        check(not self.follower.is_alive(), "the follower does not end")
        self.server.start()
        self.check_threads()

    def read(self, log):
        """Adds what is new in every conversation; returns the summaries. Nobody writes now."""
        summaries, after = {0: self.server.call("conversation.get", conversation=0)}, 0
        while after is not None:
            page = self.server.call("conversation.list", limit=500, after=after)
            summaries |= {c["conversation"]: c for c in page["conversations"]}
            after = page["next"]
        for number in summaries:
            while page := self.server.call("event.list", conversation=number, limit=1000,
                                           afterSeq=len(log[number]))["events"]:
                log[number] += page
        return summaries

    def acks(self):
        lines = []
        for worker in self.workers:
            with open(worker.path) as f:
                lines += map(json.loads, f)
        return lines

    def audit(self, log, followed=()):
        summaries, acks = self.read(log), self.acks()
        attempted = set().union(*(w.attempted for w in self.workers))
        complaints = audit(log, summaries, [a for a in acks if "seq" in a], attempted, followed)
        made = {n: (c["metadata"] or {}).get("key") for n, c in summaries.items()}
        twice = [k for k, n in collections.Counter(made.values()).items() if k and n > 1]
        complaints += [f"create {k} took effect twice" for k in twice]
        complaints += [f"LOST: conversation {a['conversation']} of {a['key']}" for a in acks
                       if not {"seq", "method"} & a.keys() and made.get(a["conversation"]) != a["key"]]
        complaints += self.audit_tasks(log, [a for a in acks if "method" in a], attempted)
        check(not complaints, f"{len(complaints)} complaints:\n" + "\n".join(complaints[:20]))
        return len(acks)


    def audit_tasks(self, log, acks, attempted):
        tasks, cards = [], []
        for worker in self.workers:
            if isinstance(worker, TaskWorker):
                tasks += self.pages("task.list", "tasks", conversation=worker.conversation)
                cards += self.pages("card.list", "cards", conversation=worker.conversation)
        return audit_tasks(log, tasks, cards, acks, attempted)

    def pages(self, method, what, **params):
        rows, after = [], 0
        while after is not None:
            page = self.server.call(method, after=after, limit=500, **params)
            rows, after = rows + page[what], page["next"]
        return rows


def test_P12_nothing_acknowledged_is_lost_by_kill_9():
    run = Run()
    for thread in (*run.workers, run.follower):
        thread.start()
    while run.kills < KILLS - 1:  # the last one is finish()'s
        before = run.kills
        run.crash()
        if run.kills // 25 > before // 25:
            run.audit(run.log)
    run.finish()
    fresh = collections.defaultdict(list)
    run.read(fresh)
    run.follower.follow(run.server.port, until=max(e["id"] for x in fresh.values() for e in x))
    acks = run.audit(fresh, run.follower.seen)
    for number, events in run.log.items():
        eq(fresh[number][:len(events)], events, f"what conversation {number} held earlier")
    print(f"proof weapon=kill9 kills={run.kills + 1} acks={acks} failures=0")
    print(f"{run.kills + 1} kills, {acks} acknowledgements, {sum(len(e) for e in fresh.values())} events in"
          f" {len(fresh)} conversations, {sum(w.resent for w in run.workers)} requests sent again,"
          f" {sum(w.repeated for w in run.workers)} repeated, {len(run.follower.seen)} followed,"
          f" 0 lost, 0 doubled")
    run.server.stop()


if __name__ == "__main__":
    main(seconds=150 + KILLS)
