"""P9: whatever dies, every task ends within the bound that `reeve config check` prints.

Every status of a task, with every kind of agent and every kind of evidence, is brought about at one
moment; then nobody says anything any more and the clock runs. The statuses are the contract's; those
that no method of this server leads to are left out.
"""
import itertools
import json

from crew import beat, claim, give, join, leave, said, start, status, talk
from reeve_test import Server, check, eq, main, reeve
from scripted_machine import Machine, agent_of, starts_of
from watch_model import advance, ms, now

OVER = ("completed", "failed", "timeout", "canceled")


def bounds(*settings):
    done = reeve("config", "check", "--json", *(x for s in settings for x in ("--set", s)))
    eq(done.returncode, 0, done.stderr)
    return json.loads(done.stdout)["bounds"]


# ---- how a task gets where it is; each gets a client that may speak for the agent ----

def be_pending(s, c, agent):
    return give(s, c)


def be_acknowledged(s, c, agent, **more):
    give(s, c)
    return claim(agent, c, **more)


def be_in_progress(s, c, agent, **more):
    return start(agent, be_acknowledged(s, c, agent, **more))


def be_suspended(s, c, agent, **more):
    t = be_in_progress(s, c, agent, **more)
    return agent.call("task.suspend", task=t["task"], epoch=t["epoch"],
                      tools=[{"toolCallId": "t1", "name": "search"}])["task"]


def be_queued(s, c, agent, **more):
    be_in_progress(s, c, agent, **more)
    return give(s, c)


REACH = {"pending": be_pending, "acknowledged": be_acknowledged, "in_progress": be_in_progress,
         "suspended": be_suspended, "queued": be_queued}


# ---- who there is; each returns the client that speaks for the agent ----

def unmanaged(s, machine):
    c = talk(s)
    join(s, c)
    return c, s


def managed_by_nobody(s, machine):
    """Its kind is offered by no machine."""
    c = talk(s, "a", "b", kind="nowhere")
    join(s, c)
    return c, s


def managed(s, machine):
    """A process of a machine."""
    c = talk(s, "a", "b", kind="worker")
    s.call("agent.start", conversation=c, role="a")
    (command,) = [x for x in starts_of(machine.poll()) if x["conversation"] == c]
    agent = machine.agent(machine.spawn(command))
    join(agent, c)
    return c, agent


AGENTS = (unmanaged, managed_by_nobody, managed)


# ---- the last that is heard ----

def nothing(s, c, agent, machine, t):
    pass


def it_left(s, c, agent, machine, t):
    leave(agent, c)


def a_beat(s, c, agent, machine, t):
    beat(agent, c, epoch=t["epoch"], progress="new")


def a_person_stopped_it(s, c, agent, machine, t):
    s.call("agent.stop", conversation=c, role="a")


def its_process_ended(s, c, agent, machine, t):
    spawn = agent_of(s, c).get("process", {}).get("spawnId")
    if spawn in machine.processes:
        machine.exited(spawn)


LAST = (nothing, it_left, a_beat, a_person_stopped_it, its_process_ended)


def make_all(s, machine):
    """(name, status, conversation, task) of every combination."""
    made = []
    for (want, reach), who, last, lease in itertools.product(REACH.items(), AGENTS, LAST,
                                                             ({}, {"unattended": True})):
        if want == "pending" and lease:
            continue  # nobody has claimed it
        c, agent = who(s, machine)
        t = reach(s, c, agent, **lease)
        eq(t["status"], want, "the status it is brought to")
        last(s, c, agent, machine, t)
        made.append((f"{want}, {who.__name__}, {last.__name__}, {lease}", want, c, t["task"]))
    return made


def end_of(s, c, task):
    (at,) = [e["at"] for e in said(s, c, "agent.task") if e["task"] == task]
    return at


def check_bounds(*settings):
    bound = bounds(*settings)
    s = Server(args=["--clock=manual", *(x for k in settings for x in ("--set", k))]).start()
    machine = Machine(s)
    made = make_all(s, machine)
    check(len(made) > 90, f"{len(made)} combinations")
    begun = now(s)
    dead = bound["nobodyAliveMs"]
    longest = max(v for k, v in dead.items() if k in REACH)
    advance(s, longest)
    worst = {}
    for name, was, c, task in made:
        check(status(s, task) in OVER, f"{name} is {status(s, task)} after {longest} ms")
        took = end_of(s, c, task) - begun
        check(took <= dead[was], f"{name} took {took} ms, the bound is {dead[was]}")
        check(was == "queued" or took <= bound["taskMs"], f"{name} took {took}")
        worst[was] = max(worst.get(was, 0), took)
    s.stop()
    return dead, worst


def test_P9_every_task_ends_within_the_bound_whatever_dies():
    dead, worst = check_bounds()
    eq({k: worst[k] for k in ("pending", "acknowledged", "in_progress")},
       {k: dead[k] for k in ("pending", "acknowledged", "in_progress")},
       "the bounds are not larger than they must be")


def test_P9_with_other_limits():
    check_bounds("pmo.dispatched_timeout_seconds=100", "liveness.unattended_work_seconds=400",
                 "liveness.acknowledged_timeout_seconds=0", "pmo.active_reap_seconds=300")
    check_bounds("pmo.dispatched_timeout_seconds=0", "pmo.active_reap_seconds=0",
                 "task.max_seconds=1200")


def test_P9_does_not_apply_without_task_max_seconds():
    bound = bounds("task.max_seconds=0")
    eq((bound["taskMs"], bound["queuedTaskMs"], bound["nobodyAliveMs"]["suspended"]), (None,) * 3,
       "no bound")
    check(bound["nobodyAliveMs"]["in_progress"], "the dead are found all the same")


def test_the_bounds_are_printed_for_people():
    done = reeve("config", "check", "--set", "task.max_seconds=600")
    check("whatever anybody does: 10m\n" in done.stdout, done.stdout[-800:])
    check("queued behind one other (once more for each further one): 20m\n" in done.stdout, "queued")
    done = reeve("config", "check", "--set", "task.max_seconds=0")
    check("whatever anybody does: no bound\n" in done.stdout, done.stdout[-800:])
    eq(bounds()["taskMs"], 10_800_001, "by default")


def test_P9_an_agent_that_goes_on_and_on_is_stopped_at_task_max_seconds():
    s = Server(args=["--clock=manual", "--set", "task.max_seconds=600"]).start()
    bound = bounds("task.max_seconds=600")
    c = talk(s)
    join(s, c)
    first, second = give(s, c), give(s, c)
    begun = ms(first["pendingAt"])
    while status(s, second) not in OVER and now(s) < begun + 2 * bound["queuedTaskMs"]:
        join(s, c)
        active = agent_of(s, c).get("task")
        if active and status(s, active) == "pending":
            start(s, claim(s, c))
        advance(s, 7_000)
        beat(s, c, epoch=s.call("task.get", task=active)["task"]["epoch"], progress=now(s))
    check(end_of(s, c, first["task"]) - begun <= bound["taskMs"], "the first")
    check(end_of(s, c, second["task"]) - begun <= bound["queuedTaskMs"], "the one behind it")
    s.stop()


if __name__ == "__main__":
    main()
