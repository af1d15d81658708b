"""With the default configuration every rule can fire: none is shadowed by another that comes before it
and moves what it looks at (L59).

The rules are the server's own table. A small world is made in which everything happens that can: people
who fall silent, agents that die, hang, loop or never come, machines that go away. After the longest limit
each rule that is not off must have acted.
"""
from crew import beat, claim, give, join, start, status, talk
from reeve_test import check, eq, main
from scripted_machine import Machine
from test_bound import be_suspended, make_all
from test_inbox import put, receive
from test_queue import strand
from watch_model import advance, manual, rules

STEP_MS = 50_000  # shorter than any lease
LONGEST_MS = 14_400_000  # runtime_controls.session_wall_clock_seconds


class Worker:
    """An agent that never gives up: it takes whatever there is and beats, with progress or without."""

    def __init__(self, s, makes_progress):
        self.s, self.c, self.makes_progress, self.n = s, talk(s), makes_progress, 0
        give(s, self.c)

    def live(self):
        join(self.s, self.c)
        (t, *_) = self.s.call("task.list", conversation=self.c)["tasks"]
        if t["status"] == "pending":
            t = start(self.s, claim(self.s, self.c))
        self.n += self.makes_progress
        beat(self.s, self.c, epoch=t["epoch"], progress=self.n)


class Loser(Worker):
    """One that takes it again and again, and dies each time."""

    def live(self):
        (t, *_) = self.s.call("task.list", conversation=self.c)["tasks"]
        if t["status"] == "pending":
            start(self.s, claim(self.s, self.c))


def fill(s):
    """What needs nobody to go on with it."""
    s.say(s.talk(), "a", "a turn is open, and nobody writes any more")  # conversation.idle
    s.talk()                                                           # session.wall_clock
    s.say(s.talk(maxTurns=1), "a", "the last one", finality="turn")      # conversation.max_turns
    c = talk(s)
    put(s, c)
    receive(s, c)                                                      # inbox.processing
    c = talk(s)
    join(s, c)
    t = be_suspended(s, c, s)
    s.call("tool.report", task=t["task"], toolCallId="t1", status="success")
    s.call("task.resume", task=t["task"], epoch=t["epoch"])            # ledger.requeue
    starting = talk(s, "a", kind="worker")
    s.call("agent.start", conversation=starting, role="a")


@manual(deadline=120)
def test_with_default_limits_every_rule_fires(s):
    strand(s, talk(s), "a")                                            # queue.sweep
    s.start()
    advance(s, 0)
    swept = rules(s)["queue.sweep"]["fired"]
    machine = Machine(s)
    make_all(s, machine)
    fill(s)
    machine.poll()  # it takes the start, and never says what became of it: command.expired
    workers = [Worker(s, False), Worker(s, True), Loser(s, False)]
    for at_ms in range(0, LONGEST_MS + STEP_MS, STEP_MS):
        for w in workers:
            w.live()
        if at_ms < 10 * STEP_MS:
            machine.poll()  # then it is gone: machine.offline
        advance(s, STEP_MS)
    table = rules(s)
    on = {r for r, row in table.items() if row["limit"] != 0}
    eq({r for r in table if r not in on}, {"conversation.global_idle"}, "rules that are off")
    check(swept, "queue.sweep")
    eq(sorted(r for r in on if not table[r]["fired"]), ["ledger.reconcile"],
       "rules that never had their turn; what this one looks for, the store cannot hold")
    eq({r: row["errors"] for r, row in table.items() if row["errors"]}, {}, "failures")
    eq([status(s, s.call("task.list", conversation=w.c)["tasks"][0]) for w in workers],
       ["failed"] * 3, "and nobody got away")


if __name__ == "__main__":
    main()
