"""Supervised processes, a part of make bench (run.py).

  restart  From just before kill(2) with SIGKILL until the replacement is in its main(), by a time
           that the replacement takes itself (beacon.c).
             reeve        the exit is reported to the server, its decision is committed with an
                          fsync, and comes back as the start command of a poll
             runit, s6    decide where they are: runsv, s6-supervise
             supervisord  decides in one process for all
             pm2          the same, in node
  memory   PSS and private memory of all processes that supervise, without those that are
           supervised; each supervisor by itself.

Everybody gets the same program, and no shell in between. Every one that is killed has lived longer
than a second, because runit, pm2, and reeve as it is set here, count it as a failure if it has not,
and make the next one wait. s6 lets a second pass before every restart, whatever came before. All
supervisors run at the same time, each with one process; a round kills each once, in turns.

Checked in every round: the replacement is another process, and reeve's log held the end and the
decision by the time that the replacement began.

On a machine that is busy with other things these are mostly times spent waiting for a processor.
`chrt -f 10 make bench BENCH='--part supervise'` lets the bench, and all that it starts, go first.
"""

import contextlib
import os
import signal
import statistics
import time

from servers import Failure, Missing, say
from supervisors import ALL

LIFE_S = 1.2  # before it is killed
PAUSE_S = 0.1  # after a restart, for whatever the supervisor does about it later
RESTART_SECONDS_MAX = 10
TARGET_MS = 10
RIVAL = "runit"


def start_all(bench, stack, count):
    """Supervisors by name, and reasons for absent ones."""
    running, absent = {}, {}
    for kind in ALL:
        try:
            running[kind.name] = stack.enter_context(kind(bench, count))
        except Missing as e:
            absent[kind.name] = str(e)
    return running, absent


# ---- restart ----


def kill_and_wait(supervisor):
    """Milliseconds until the replacement has begun."""
    (pid, begun_ns), = supervisor.born
    time.sleep(max(0, begun_ns / 1e9 + LIFE_S - time.monotonic()))
    killed_ns = time.monotonic_ns()
    os.kill(pid, signal.SIGKILL)
    supervisor.born = [supervisor.next_beacon(RESTART_SECONDS_MAX)]
    (new_pid, begun_ns), = supervisor.born
    if new_pid == pid or begun_ns <= killed_ns:
        raise Failure(f"{supervisor.name}: that is no replacement")
    supervisor.check_restart()
    return (begun_ns - killed_ns) / 1e6


def restarts(bench):
    """{name: [ms]}, and reasons for absent ones."""
    with contextlib.ExitStack() as stack:
        running, absent = start_all(bench, stack, 1)
        times = {name: [] for name in running}
        for r in range(bench.args.kills):
            turn = r % len(running)
            for name in list(running)[turn:] + list(running)[:turn]:
                times[name].append(kill_and_wait(running[name]))
                time.sleep(PAUSE_S)
    for name, values in times.items():
        say(f"  restart  {name:12} {statistics.median(values):8.2f} ms")
    return times, absent


# ---- memory ----


def memory(bench):
    """{name: (processes, PSS, private)}"""
    out = {}
    for kind in ALL:
        with contextlib.suppress(Missing), kind(bench, bench.args.processes) as supervisor:
            out[kind.name] = supervisor.footprint()
            say(f"  memory   {kind.name:12} {out[kind.name][1] / 1e6:8.2f} MB")
    return out


# ---- report ----


def print_restarts(bench, times, absent):
    print(f"| kill -9 to its replacement, {bench.args.kills} times | median ms | p90 | max"
          " | set |\n|---|--:|--:|--:|---|")
    for kind in ALL:
        if kind.name not in times:
            print(f"| {kind.name} | absent: {absent[kind.name]} | | | |")
            continue
        values = sorted(times[kind.name])
        p90 = values[min(len(values) - 1, len(values) * 9 // 10)]
        print(f"| {kind.name} | {statistics.median(values):.2f} | {p90:.2f} | {values[-1]:.2f}"
              f" | {kind.settings or 'nothing'} |")
    print()


def print_memory(bench, rows):
    count = bench.args.processes
    print(f"| supervising {count} processes | processes for it | PSS MB | private MB"
          " | PSS kB per supervised |\n|---|--:|--:|--:|--:|")
    for name, (processes, pss, private) in rows.items():
        print(f"| {name} | {processes} | {pss / 1e6:.2f} | {private / 1e6:.2f}"
              f" | {pss / 1e3 / count:.0f} |")
    print()


def print_targets(times):
    def line(what, value, reached):
        print(f"- {what}: {value:.2f} ms, {'reached' if reached else 'not reached'}")

    ours = statistics.median(times["reeve"])
    print("Targets:\n")
    line(f"kill -9 to replacement, median < {TARGET_MS} ms", ours, ours < TARGET_MS)
    if RIVAL in times:
        theirs = statistics.median(times[RIVAL])
        line(f"kill -9 to replacement, median ≤ {RIVAL}'s {theirs:.2f} ms", ours, ours <= theirs)
    print(flush=True)


def measure(bench):
    times, absent = restarts(bench)
    rows = memory(bench)
    print("## Supervised processes\n")
    policy = "real-time" if os.sched_getscheduler(0) != os.SCHED_OTHER else "as usual"
    print(f"Load average {os.getloadavg()[0]:.1f}, scheduled {policy}.\n")
    print_restarts(bench, times, absent)
    print_memory(bench, rows)
    print_targets(times)
