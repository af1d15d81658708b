"""A model of participants and tasks, written from the contract (DESIGN 5 and 6, PROTOCOL 4 and 5).

It shares nothing with the server. step() does one random thing to both; compare() asks the server
for everything and checks that it is what the model says, down to the millisecond.
"""
from crew import ACKNOWLEDGED_MS, ACTIVE_MS, DISPATCH_MS, OPEN, REAP_MS, TTL_MS, ends, tasks
from reeve_test import RpcError, eq
from watch_model import advance, gap, ms

MAX_ATTEMPTS, MAX_MS = 3, 10_800_000
ACTIVE = OPEN[1:]
IN_HAND = ("acknowledged", "in_progress", "suspended")


class Refusal(Exception):
    """The name of the error that the server must answer."""


class Task:
    def __init__(self, number, role):
        self.number, self.role, self.status = number, role, "queued"
        self.epoch = self.attempts = 0
        self.holder = self.reason = self.body = None
        self.dispatched_ms = self.pending_ms = self.acknowledged_ms = None
        self.beat_ms = self.progress_ms = None

    def shown(self):
        return (self.number, self.role, self.status, self.epoch, self.attempts,
                self.holder, self.reason)


class Role:
    def __init__(self):
        self.epoch, self.queue, self.active = 0, [], None
        self.listener, self.beat_ms = None, None


class Crew:
    """One conversation, played on a server and in here."""

    def __init__(self, s, conversation, now_ms, roles):
        self.s, self.conversation, self.now_ms = s, conversation, now_ms
        self.roles = {r: Role() for r in roles}
        self.tasks, self.ended, self.gaps = [], [], []
        self.before = len(tasks(s))  # of other conversations

    # -- time --

    def due(self, base_ms, limit_ms):
        at_ms = base_ms + limit_ms + 1
        while (later := base_ms + limit_ms + 1 + sum(
                max(0, min(b, at_ms) - max(a, base_ms)) for a, b in self.gaps)) != at_ms:
            at_ms = later
        return at_ms

    def works(self, t):
        return (t.status in ("acknowledged", "in_progress")
                and self.now_ms < self.due(t.beat_ms, ACTIVE_MS))

    def listens(self, r):
        return r.listener is not None and self.now_ms < self.due(r.beat_ms, TTL_MS)

    def all_due(self):
        """(when, rung, the role or, of an end, the task, what to do)"""
        for name, r in self.roles.items():
            if r.listener is not None:
                yield self.due(r.beat_ms, TTL_MS), 1, name, self.expire, r
            if r.active:
                yield from self.due_of_task(r.active)

    def due_of_task(self, t):
        if t.status == "pending":
            if t.attempts >= MAX_ATTEMPTS:
                yield t.pending_ms, 3, t.number, self.reap, (t, "failed", "attempts_exhausted")
            yield (self.due(t.pending_ms, DISPATCH_MS), 3, t.number, self.reap,
                   (t, "timeout", "dispatch_timeout"))
        elif t.status == "acknowledged":
            over_ms = self.due(t.beat_ms, ACTIVE_MS)
            yield (max(over_ms, self.due(t.acknowledged_ms, ACKNOWLEDGED_MS)), 1, t.role,
                   self.take_back, t)
            yield (self.due(t.acknowledged_ms, DISPATCH_MS), 3, t.number, self.reap,
                   (t, "timeout", "dispatch_timeout"))
        else:
            yield self.due(t.beat_ms, ACTIVE_MS), 1, t.role, self.take_back, t
            yield (self.due(t.progress_ms, REAP_MS), 3, t.number, self.reap,
                   (t, "failed", "timeout_reaped_by_watchdog"))
        yield (t.dispatched_ms + MAX_MS + 1, 3, t.number, self.reap,
               (t, "failed", "task_deadline_exceeded"))

    def settle(self, until_ms):
        while (found := min(self.all_due(), key=lambda d: d[:3], default=None)):
            if found[0] > until_ms:
                break
            self.now_ms = max(self.now_ms, found[0])
            found[3](found[4])
        self.now_ms = max(self.now_ms, until_ms)

    # -- what rules do --

    def expire(self, r):
        r.listener = None

    def take_back(self, t):
        t.attempts += 1
        self.bump(t)
        self.pend(t)

    def reap(self, what):
        t, status, reason = what
        self.bump(t)
        self.end(t, status, reason)

    def bump(self, t):
        r = self.roles[t.role]
        r.epoch += 1
        t.epoch = r.epoch

    def pend(self, t):
        t.status, t.holder, t.pending_ms = "pending", None, self.now_ms
        t.dispatched_ms = t.dispatched_ms or self.now_ms

    def promote(self, r):
        if r.active is None and r.queue:
            r.active = r.queue.pop(0)
            self.bump(r.active)
            self.pend(r.active)

    def end(self, t, status, reason):
        r = self.roles[t.role]
        t.status, t.reason = status, reason
        self.ended.append((t.number, {"completed": "success"}.get(status, status), reason))
        if r.active is t:
            r.active = None
        else:
            r.queue.remove(t)
        self.promote(r)

    # -- what agents do; each answers as the server should --

    def create(self, role):
        r = self.roles[role]
        t = Task(self.before + len(self.tasks) + 1, role)
        self.tasks.append(t)
        r.queue.append(t)
        self.promote(r)
        return t.status

    def join(self, role, connection):
        r = self.roles[role]
        superseded = self.listens(r) and r.listener != connection
        r.listener, r.beat_ms = connection, self.now_ms
        return superseded

    def leave(self, role, connection):
        r = self.roles[role]
        if r.listener == connection:
            r.listener = None

    def beat(self, role, connection, epoch, names_task):
        """(status, until when the work is renewed or "stale", what was renewed)"""
        r, t = self.roles[role], self.roles[role].active
        status = ("rejoin_required" if not self.listens(r)
                  else "ok" if r.listener == connection else "superseded")
        if status == "ok":
            r.beat_ms = self.now_ms
        is_listener = status == "ok"
        if epoch is None and not (t and names_task):
            return status, None, (is_listener, False)
        if t is None or t.status not in IN_HAND or t.epoch != epoch:
            return status, "stale", (is_listener, False)
        t.beat_ms = self.now_ms
        return status, self.due(t.beat_ms, ACTIVE_MS) - 1, (is_listener, True)

    def wait(self, role, connection):
        r, t = self.roles[role], self.roles[role].active
        if not self.listens(r):
            return "rejoin_required"
        if r.listener != connection:
            return "superseded"
        r.beat_ms = self.now_ms
        free = t and (t.status == "pending" or (t.status == "acknowledged" and not self.works(t)))
        return "task" if free else "none"

    def claim(self, role, connection):
        r, t = self.roles[role], self.roles[role].active
        if self.listens(r) and r.listener != connection:
            raise Refusal("SUPERSEDED")
        if t is None:
            raise Refusal("NOT_FOUND")
        if t.status != "pending" and t.holder == connection:
            t.beat_ms = self.now_ms
            return t.epoch
        if t.status == "in_progress" or self.works(t):
            raise Refusal("INVALID_TRANSITION")
        if t.status == "acknowledged":
            t.attempts += 1
            self.bump(t)
        t.status, t.holder = "acknowledged", connection
        t.acknowledged_ms = t.beat_ms = self.now_ms
        return t.epoch

    def fenced(self, number, epoch):
        t = self.tasks[number - self.before - 1]
        if t.epoch != epoch:
            raise Refusal("STALE_EPOCH")
        return t

    def start(self, number, epoch):
        t = self.fenced(number, epoch)
        if t.status == "acknowledged":
            t.status, t.progress_ms, t.beat_ms = "in_progress", self.now_ms, self.now_ms
        elif t.status != "in_progress":
            raise Refusal("INVALID_TRANSITION")
        t.beat_ms = self.now_ms
        return t.status

    def progress(self, number, epoch):
        t = self.fenced(number, epoch)
        if t.status not in ("acknowledged", "in_progress"):
            raise Refusal("INVALID_TRANSITION")
        t.beat_ms = self.now_ms
        if t.status == "in_progress":
            t.progress_ms = self.now_ms
        return self.due(t.beat_ms, ACTIVE_MS) - 1

    def complete(self, number, epoch, body):
        return self.finish(number, epoch, "completed", "completed", ("in_progress",), body)

    def fail(self, number, epoch, body):
        return self.finish(number, epoch, "failed", "failed", ("acknowledged", "in_progress"), body)

    def finish(self, number, epoch, status, reason, allowed, body):
        t = self.fenced(number, epoch)
        if t.reason == reason and t.body != body:
            raise Refusal("IDEMPOTENCY_CONFLICT")
        if t.reason == reason:
            return t.status
        if t.status not in allowed:
            raise Refusal("INVALID_TRANSITION")
        self.end(t, status, reason)
        t.body = body
        return t.status

    def cancel(self, number):
        t = self.tasks[number - self.before - 1]
        if t.reason == "canceled_by_user":
            return t.status
        if t.status not in OPEN:
            raise Refusal("INVALID_TRANSITION")
        self.bump(t)
        self.end(t, "canceled", "canceled_by_user")
        return t.status

    # -- one step of both --

    def step(self, rng):
        role, connection = rng.choice(list(self.roles)), rng.choice("pq")
        agent = {"conversation": self.conversation, "role": role, "connectionId": connection}
        choice = rng.randrange(100)
        if choice < 20:
            return self.pass_time(rng)
        if choice < 32:
            return self.both("task.create", lambda: self.create(role),
                             {"conversation": self.conversation, "role": role, "content": 1},
                             lambda a: a["task"]["status"])
        if choice < 42:
            return self.both("participant.join", lambda: self.join(role, connection), agent,
                             lambda a: a.get("superseded", False))
        if choice < 45:
            return self.both("participant.leave", lambda: self.leave(role, connection), agent,
                             lambda a: None)
        if choice < 60:
            epoch = rng.choice([None, self.roles[role].epoch, max(0, self.roles[role].epoch - 1)])
            t, names_task = self.roles[role].active, rng.random() < 0.3
            work = {} if epoch is None else {"epoch": epoch}
            work |= {"task": t.number} if t and names_task else {}
            return self.both("participant.heartbeat",
                             lambda: self.beat(role, connection, epoch, names_task),
                             agent | work, beat_answer)
        if choice < 65:
            return self.both("task.wait", lambda: self.wait(role, connection),
                             agent | {"timeoutMs": 0}, lambda a: a["status"])
        if choice < 78:
            return self.both("task.claim", lambda: self.claim(role, connection), agent,
                             lambda a: a["epoch"])
        return self.move(rng)

    def pass_time(self, rng):
        by_ms = rng.choice([1, 999, 20_000, 30_000, 59_999, 60_000, 60_001, 120_001, 600_000])
        if rng.random() < 0.15:
            at_ms = gap(self.s, by_ms)
            self.gaps.append((self.now_ms, self.now_ms + by_ms))
            self.settle(self.now_ms + by_ms)
        else:
            at_ms = advance(self.s, by_ms)
            self.settle(self.now_ms + by_ms)
        eq(at_ms, self.now_ms, "the time")
        return f"{by_ms} ms"

    def move(self, rng):
        if not self.tasks:
            return "nothing"
        recent = self.tasks[-8:]
        t = rng.choice([r.active for r in self.roles.values() if r.active] * 2 + recent)
        number, epoch = {"task": t.number}, t.epoch + rng.choice([0, 0, 0, 0, -1, 1])
        verb = rng.choice(["start", "start", "progress", "complete", "complete", "fail", "cancel"])
        if verb == "cancel":
            return self.both("task.cancel", lambda: self.cancel(t.number), number | {"reason": "x"},
                             lambda a: a["task"]["status"])
        body = {"complete": {"deliverable": rng.choice("xxy")},
                "fail": {"reason": rng.choice("xxy")}}.get(verb, {})
        args = (t.number, max(0, epoch)) + ((body,) if body else ())
        params = number | {"epoch": max(0, epoch)} | body
        return self.both(f"task.{verb}", lambda: getattr(self, verb)(*args), params, lambda a: ms(a["activeUntil"]) if verb == "progress"
                         else a["task"]["status"])

    def both(self, method, mine, params, read):
        what = f"{method} {params}"
        try:
            want = mine()
        except Refusal as e:
            want = str(e)
        try:
            got = read(self.s.call(method, **params))
        except RpcError as e:
            got = e.name
        eq(got, want, what)
        self.settle(self.now_ms)
        return what

    # -- the comparison --

    def compare(self):
        shown = tasks(self.s, conversation=self.conversation)
        eq([(t["task"], t["role"], t["status"], t["epoch"], t["attempts"],
             t["claimedBy"] if t["status"] in ACTIVE else None,
             t.get("outcome", {}).get("stop_reason_code")) for t in shown],
           [(n, r, st, e, a, h if st in ACTIVE else None, why)
            for n, r, st, e, a, h, why in (t.shown() for t in self.tasks)], "the tasks")
        eq(ends(self.s, self.conversation), self.ended, "the ends")
        found = self.s.call("participant.list", conversation=self.conversation)["participants"]
        for p in found:
            eq(self.seen(p), self.participant(p["role"]), f"participant {p['role']}")

    def seen(self, p):
        return (p["status"], p["readyUntil"] and ms(p["readyUntil"]),
                p["activeUntil"] and ms(p["activeUntil"]))

    def participant(self, role):
        r = self.roles[role]
        working = r.active is not None and self.works(r.active)
        return ("active" if working else "waiting" if self.listens(r) else "disconnected",
                self.due(r.beat_ms, TTL_MS) - 1 if r.listener is not None else None,
                self.due(r.active.beat_ms, ACTIVE_MS) - 1 if working else None)


def beat_answer(a):
    renewed = a["renewed"]["listener"], a["renewed"]["work"]
    if a.get("staleEpoch"):
        return a["status"], "stale", renewed
    return a["status"], ms(a["activeUntil"]) if "activeUntil" in a else None, renewed
