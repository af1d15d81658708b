"""The model of task_model.py with tools: tasks that are suspended, results in any order, resumes
that are given up half way. Written from the contract (DESIGN 5 and 6, PROTOCOL 5)."""
from crew import LEASE_MS, SUSPENDED_REAP_MS, SUSPEND_MS, cards
from reeve_test import eq
from task_model import MAX_MS, Crew, Refusal

IDS = ("x", "y", "z")
TIMEOUTS = {"x": 0, "y": 10, "z": 90}  # what each asks for, in seconds


class Call:
    def __init__(self, name, now_ms):
        self.name, self.since_ms = name, now_ms
        self.timeout_ms = max(SUSPEND_MS, 1000 * TIMEOUTS[name])
        self.status = self.settled_ms = self.leased_ms = None
        self.applied = False


class Suspending(Crew):
    """calls: (task, epoch) to the calls made in it, by name; early: what came before."""

    def __init__(self, *args):
        super().__init__(*args)
        self.calls, self.early = {}, {}

    def calls_of(self, t):
        return self.calls.get((t.number, t.epoch), {})

    # -- what rules do --

    def due_of_task(self, t):
        if t.status != "suspended":
            yield from super().due_of_task(t)
            return
        calls = self.calls_of(t).values()
        for call in calls:
            if call.status is None:
                yield self.due(call.since_ms, call.timeout_ms), 1, t.role, self.time_out, (t, call)
            elif call.leased_ms is not None:
                yield self.due(call.leased_ms, LEASE_MS), 1, t.role, self.requeue, call
        base_ms = max([t.suspended_ms] + [c.settled_ms for c in calls if c.status])
        deadlines = [self.due(c.since_ms, c.timeout_ms) for c in calls if c.status is None]
        yield (max([self.due(base_ms, SUSPENDED_REAP_MS)] + deadlines), 3, t.number, self.reap,
               (t, "failed", "timeout_reaped_by_watchdog"))
        yield (t.dispatched_ms + MAX_MS + 1, 3, t.number, self.reap,
               (t, "failed", "task_deadline_exceeded"))

    def time_out(self, what):
        _, call = what
        call.status, call.settled_ms = "timeout", self.now_ms

    def requeue(self, call):
        call.leased_ms = None

    def bump(self, t):
        """Whoever takes the task out of its suspension closes what is open."""
        for call in self.calls_of(t).values() if t.status == "suspended" else ():
            if call.status is None:
                call.status = "interrupted"
            call.leased_ms = None
        super().bump(t)

    # -- what agents and tools do --

    def wait(self, role, connection):
        answer, t = super().wait(role, connection), self.roles[role].active
        if answer != "none" or t is None or t.status != "suspended":
            return answer
        ready = [c for c in self.calls_of(t).values()
                 if c.status and not c.applied and c.leased_ms is None]
        return "resume" if ready else "none"

    def claim(self, role, connection):
        r = self.roles[role]
        if r.active and r.active.status == "suspended":
            if self.listens(r) and r.listener != connection:
                raise Refusal("SUPERSEDED")
            raise Refusal("INVALID_TRANSITION")
        return super().claim(role, connection)

    def fail(self, number, epoch, body):
        t = self.fenced(number, epoch)
        for call in self.calls_of(t).values() if t.status == "suspended" else ():
            call.status = call.status or "interrupted"
        return self.finish(number, epoch, "failed", "failed",
                           ("acknowledged", "in_progress", "suspended"), body)

    def suspend(self, number, epoch, names):
        t = self.fenced(number, epoch)
        if t.status == "suspended" and set(names) <= set(self.calls_of(t)):
            return "suspended"
        if t.status != "in_progress":
            raise Refusal("INVALID_TRANSITION")
        made = self.calls[t.number, t.epoch] = {n: Call(n, self.now_ms) for n in names}
        kept = self.early.get((t.number, t.epoch), {})
        for name in set(kept) & set(made):
            made[name].status, made[name].settled_ms = kept.pop(name)
        t.status, t.suspended_ms = "suspended", self.now_ms
        return t.status

    def report(self, number, name, status):
        t = self.tasks[number - self.before - 1]
        known = {e: c[name] for (n, e), c in self.calls.items() if n == number and name in c}
        early = {e: k[name] for (n, e), k in self.early.items() if n == number and name in k}
        newest = max([*known, *early], default=None)
        if newest in early:
            return "duplicate"
        if newest is None and t.status == "suspended":
            raise Refusal("NOT_FOUND")
        if newest is None and t.status == "in_progress":
            self.early.setdefault((t.number, t.epoch), {})[name] = status, self.now_ms
            return "early"
        if newest is None:
            return "late"
        call = known[newest]
        if call.status is None:
            call.status, call.settled_ms = status, self.now_ms
            return "accepted"
        return "late" if call.status in ("timeout", "interrupted") else "duplicate"

    def resume(self, number, epoch):
        t = self.fenced(number, epoch)
        if t.status != "suspended":
            raise Refusal("INVALID_TRANSITION")
        ready = [c for c in self.calls_of(t).values()
                 if c.status and not c.applied and c.leased_ms is None]
        for call in ready:
            call.leased_ms = self.now_ms
        return sorted((c.name, c.status) for c in ready)

    def applied(self, number, epoch, names):
        t = self.fenced(number, epoch)
        if t.status != "suspended":
            raise Refusal("INVALID_TRANSITION")
        calls = self.calls_of(t)
        for name in names:  # the first that is wrong decides
            if name not in calls:
                raise Refusal("NOT_FOUND")
            if calls[name].status is None:
                raise Refusal("PRECONDITION_FAILED")
        for name in names:
            calls[name].applied, calls[name].leased_ms = True, None
        if all(c.applied for c in calls.values()):
            self.bump(t)
            r = self.roles[t.role]
            t.status, t.progress_ms, t.beat_ms = "in_progress", self.now_ms, self.now_ms
            t.holder = r.listener if self.listens(r) else t.holder
        return t.status

    # -- one step of both --

    def step(self, rng):
        running = [r.active for r in self.roles.values()
                   if r.active and r.active.status in ("in_progress", "suspended")]
        if not running or rng.random() < 0.5:
            return super().step(rng)
        t = rng.choice(running)
        number = t.number
        epoch = max(0, t.epoch + rng.choice([0, 0, 0, 0, 0, -1]))
        names = rng.sample(IDS, rng.randint(1, 3))
        choice = rng.random()
        fenced = {"task": number, "epoch": epoch}
        if choice < 0.3:
            tools = [{"toolCallId": n, "name": n, "options": {"timeout_seconds": TIMEOUTS[n]}}
                     for n in names]
            return self.both("task.suspend", lambda: self.suspend(number, epoch, names),
                             fenced | {"tools": tools}, lambda a: a["task"]["status"])
        if choice < 0.6:
            status = rng.choice(["success", "failed", "canceled"])
            return self.both("tool.report", lambda: self.report(number, names[0], status),
                             {"task": number, "toolCallId": names[0], "status": status}, said_of)
        if choice < 0.75:
            return self.both("task.resume", lambda: self.resume(number, epoch), fenced,
                             lambda a: sorted((r["toolCallId"], r["status"]) for r in a["results"]))
        return self.both("task.applied", lambda: self.applied(number, epoch, names),
                         fenced | {"toolCallIds": names}, lambda a: a["task"]["status"])

    # -- the comparison --

    def compare(self):
        super().compare()
        made = [(n, e, c.name) for (n, e), calls in self.calls.items() for c in calls.values()]
        shown = self.s.call("card.list", conversation=self.conversation, type="tool.call",
                            limit=500)["cards"]
        eq(sorted((c["task"], c["content"]["epoch"], c["content"]["toolCallId"]) for c in shown),
           sorted(made), "the calls")
        over = [t.number for t in self.tasks if t.reason]
        given = [c["task"] for c in self.s.call("card.list", conversation=self.conversation,
                                                type="task.deliverable", limit=500)["cards"]]
        want = [t.number for t in self.tasks if t.reason and t.reason != "failed"]
        eq((sorted(given), len(set(over))), (sorted(want), len(over)), "deliverables")
        results = cards(self.s, self.conversation, "tool.result")
        settled = [(e, c.name, c.status) for (n, e), calls in self.calls.items()
                   for c in calls.values() if c.status]
        early = [(e, name, status) for (n, e), kept in self.early.items()
                 for name, (status, _) in kept.items()]
        eq(sorted((r["epoch"], r["toolCallId"], r["status"]) for r in results),
           sorted(settled + early), "the results")


def said_of(a):
    if a["accepted"] and "early" not in a and "duplicate" not in a:
        return "accepted"
    return next(k for k in ("early", "duplicate", "late") if k in a)

