"""kill -9 of agent, shim, machine and server, alone and in every pair, under load.

Afterwards every task has reached its end once, no process is left over, and nothing was restarted
twice. What is watched and how it is judged: real_fleet.py, fleet_audit.py.

    REEVE_CRASH_ROUNDS=1  how often the whole list of faults is gone through
    REEVE_KILLS=50        kills at random moments, audited after every hundred
    REEVE_SEED=1          a run to repeat, as far as timing allows
"""
import contextlib
import itertools
import os
import random
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "scenario"))

from daemon import (Daemon, agent, await_exit, await_new, await_view, crew, exits,  # noqa: E402
                    is_alive, sh, stay)
from fleet import starts  # noqa: E402
from fleet_audit import audit_fleet  # noqa: E402
from real_fleet import PARTS, Fleet, all_pids, environment_of  # noqa: E402
from reeve_test import Client, check, eq, main, server, wait_for  # noqa: E402

ROUNDS = int(os.environ.get("REEVE_CRASH_ROUNDS", "1"))
KILLS = int(os.environ.get("REEVE_KILLS", "50"))
KILLS_PER_FLEET = 100
SEED = int(os.environ.get("REEVE_SEED", "1"))
OFFLINE_SOON = ("machine.heartbeat_seconds=1", "machine.ttl_seconds=2")


def check_fleet(fleet):
    found = fleet.finish()
    complaints = audit_fleet(found)
    check(not complaints, f"{len(complaints)} complaints:\n" + "\n".join(complaints[:20]))
    lost = sum(t["attempts"] for t in found["tasks"].values())
    print(f"{len(fleet.told)} faults, {len(found['tasks'])} tasks, {lost} attempts lost,"
          f" {len(found['starts'])} starts, {fleet.sampler.samples} looks at /proc")


def in_any_order(faults, seed):
    for i in range(ROUNDS):
        yield from random.Random(f"{seed}/{i}").sample(faults, len(faults))


def test_P4_P7_P15_P21_every_pair_of_deaths():
    fleet = Fleet(seed=SEED)
    pairs = [(a, None) for a in PARTS] + list(itertools.product(PARTS, PARTS))
    for first, second in in_any_order(pairs, SEED):
        fleet.fault(first, second)
    check_fleet(fleet)


def test_P16_P21_two_machines_and_parts_that_stand_still():
    """For a moment, and for so long that it is noticed: the server sees a gap, and a machine is
    offline."""
    fleet = Fleet(machines=2, seed=SEED + 1, settings=OFFLINE_SOON)
    frozen = [(a, s) for a in PARTS for s in (0.1, 3)]
    for what, seconds in in_any_order(frozen, SEED):
        fleet.freeze(what, seconds)
        fleet.fault(*fleet.rng.choices(PARTS, k=2))
    check_fleet(fleet)


def test_W1_P4_P7_P12_P21_kills_at_random_moments():
    """Many of them faster than anything comes back."""
    kills = 0
    for number in itertools.count():
        fleet = Fleet(machines=2, seed=f"{SEED}/{number}")
        while fleet.kills < min(KILLS_PER_FLEET, KILLS - kills):
            fleet.anything()
        check_fleet(fleet)
        kills += fleet.kills
        if kills >= KILLS:
            break
    print(f"proof weapon=fleet kills={kills} failures=0")


def come_back(s, *parts):
    """Those that are down; a client of the server there is now."""
    for part in parts:
        if part.process is None:
            part.spawn()
    wait_for(s.ready, "the server")
    return Client(s.port, s.token)


@server("restart.backoff_first_ms=1", "restart.backoff_max_ms=10", "restart.burst=0", deadline=90)
def test_P14_L43_a_stop_in_a_crash_loop_outlives_machine_and_server(s):
    s.listen = f"127.0.0.1:{s.port}"
    with Daemon(s, {"stay": (sh("exit 1"), {"restart": "always"})}) as d:
        c = crew(s)
        for parts in ((d,), (s,), (d, s), (s, d)):
            before = len(exits(s, c))
            s.call("agent.start", conversation=c, role="a")
            wait_for(lambda: len(exits(s, c)) > before + 2, "a few crashes")
            s.call("agent.stop", conversation=c, role="a")
            for part in parts:
                part.kill()
            s = come_back(d.s, *parts)
            number = len(starts(s, c))
            s.say(c, "user", "do", to="a")
            await_view(s, c, "stopped")
            wait_for(lambda: not d.outbox() and not d.spawns(), "the last of them is over")
            s.call("watchdog.runOnce")
            eq((agent(s, c)["view"], len(starts(s, c))), ("stopped", number), "nothing starts it")
        eq({(x["spawnId"]) for x in exits(s, c)}, {x["spawnId"] for x in starts(s, c)},
           "each start has had its end")


@server("restart.backoff_first_ms=1", deadline=90)
def test_L56_an_upgrade_under_twenty_agents_kills_none_and_loses_no_end(s):
    with Daemon(s, {"stay": sh(stay())}) as d:
        roles = [f"r{i}" for i in range(20)]
        c = crew(s, *roles)
        found = {r: await_view(s, c, "running", r)["process"] for r in roles}
        died = dict(zip(roles[::4], (signal.SIGKILL, signal.SIGSEGV, signal.SIGUSR1,
                                     signal.SIGALRM, signal.SIGHUP)))
        d.stop()
        for role, sig in died.items():
            os.kill(found[role]["pid"], sig)
            wait_for(lambda: not is_alive(found[role]["pid"]), f"the end of {role}")
        d.start()
        for role, sig in died.items():
            eq(await_exit(s, c, found[role]["spawnId"])["signal"], sig, f"how {role} ended")
            await_new(s, c, found[role]["spawnId"], role)
        went_on = [r for r in roles if r not in died]
        eq({r: agent(s, c, r)["process"]["pid"] for r in went_on},
           {r: found[r]["pid"] for r in went_on}, "those that went on")
        eq((len(exits(s, c)), len(starts(s, c))), (5, 25), "ends and starts")
        eq({r: agent(s, c, r)["restarts"] for r in roles}, {r: int(r in died) for r in roles},
           "restarts")


def kill_part(part, s, d, held):
    """`held` are pidfds, so that nobody else is hit who has the number by now."""
    if part in ("server", "machine"):
        owner = s if part == "server" else d
        if owner.process:
            owner.kill()
        return
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(held[part], signal.SIGKILL)


@server("restart.backoff_first_ms=1", "restart.backoff_max_ms=10", "restart.burst=0", deadline=120)
def test_P15_L17_an_end_while_everything_dies_leaves_no_process_and_starts_none(s):
    s.listen = f"127.0.0.1:{s.port}"
    strangers = all_pids()
    with Daemon(s, {"stay": (sh("setsid sleep 1000 & " + stay()), {"restart": "always"})}) as d:
        client = s
        for parts in itertools.product(PARTS, PARTS):
            c = crew(client, "a", "b")
            spawns = {await_view(client, c, "running", r)["process"]["spawnId"] for r in "ab"}
            seen = d.spawns()[max(spawns)]
            held = {who: os.pidfd_open(seen[who]["pid"]) for who in ("agent", "shim")}
            client.call("conversation.end", conversation=c)
            for part in parts:
                kill_part(part, s, d, held)
            client = come_back(s, s, d)
            wait_for(lambda: not d.spawns() and not d.outbox(), f"all to end after {parts}")
            left = [env for p in all_pids() - strangers
                    if (env := environment_of(p)).get("REEVE_SPAWN") in spawns
                    and "REEVE_ROLE" in env]  # a shim that has said its last word may still go
            eq(left, [], f"processes after {parts}")
            eq({x["spawnId"] for x in starts(client, c)}, spawns, f"starts after {parts}")
            for fd in held.values():
                os.close(fd)


if __name__ == "__main__":
    main(seconds=120 + 120 * ROUNDS + KILLS)
