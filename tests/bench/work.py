"""Heartbeats and tasks, a part of make bench (run.py).

  heartbeats  reeve       participant.heartbeat of joined participants, over WebSocket
              Redis       SET key value EX 60, nothing written to disk
              beanstalkd  touch of a reserved job, nothing written to disk
  cycles      reeve       task.create, task.claim, task.start, task.complete
              Redis       XADD, XREADGROUP, XACK; appendonly yes, appendfsync always
              beanstalkd  put, reserve, delete; -b DIR -f0
              PostgreSQL  INSERT, UPDATE … FOR UPDATE SKIP LOCKED, DELETE; synchronous_commit on

A client has a conversation, key, stream or tube of its own. Heartbeats are measured with one and
with several in flight per client. A cycle is one operation, its requests one after another: four
round trips to reeve, each durable, three to the others. beanstalkd keeps no record of a reserve, so
it waits for the disk twice in a cycle.

Rounds, order and ratios are as in run.py. Very many participants at their usual pace: beats.py.
"""

import contextlib
import statistics

import beats
from servers import Beanstalkd, Failure, Missing, Postgres, Redis, say

CLIENTS = 64
DEPTHS = (1, 16)  # heartbeats in flight per client
LABELS = {
    "ws-beat": "reeve heartbeat",
    "redis-beat": "Redis SET EX",
    "beanstalk-beat": "beanstalkd touch",
    "ws-cycle": "reeve task",
    "redis-cycle": "Redis stream",
    "beanstalk-cycle": "beanstalkd job",
    "pg-cycle": "SKIP LOCKED",
}
BEATS = ("ws-beat", "redis-beat", "beanstalk-beat")
CYCLES = ("ws-cycle", "redis-cycle", "beanstalk-cycle", "pg-cycle")
# (peers, depth) measured together; ours comes first, then those it is compared with
GROUPS = [(BEATS, depth) for depth in DEPTHS] + [(CYCLES, 1)]
TARGETS = (
    (BEATS, "redis-beat", 1),
    (BEATS, "beanstalk-beat", 1),
    (CYCLES, "redis-cycle", 1),
    (CYCLES, "beanstalk-cycle", 3),
    (CYCLES, "pg-cycle", 3),
)


# ---- measuring ----


def start_all(bench, stack):
    """Servers by peer, and reasons for absent ones."""
    reeve = stack.enter_context(bench.reeve())
    servers, absent = {"ws-beat": reeve, "ws-cycle": reeve}, {}
    for peer, kind, options in (("redis-beat", Redis, {"durable": False}),
                                ("redis-cycle", Redis, {"durable": True}),
                                ("beanstalk-beat", Beanstalkd, {"durable": False}),
                                ("beanstalk-cycle", Beanstalkd, {"durable": True}),
                                ("pg-cycle", Postgres, {})):
        try:
            servers[peer] = stack.enter_context(kind(bench.path(peer), **options))
        except (Missing, Failure) as e:
            absent[peer] = str(e)
    return servers, absent


def measure_cell(bench, server, peer, depth):
    a = bench.args
    result = bench.load(peer, server, "--clients", CLIENTS, "--depth", depth,
                        "--seconds", a.seconds, "--warm", a.seconds / 10)
    if result:
        say(f"  {depth:2} in flight  {LABELS[peer]:18} {result['ops_per_s']:9.0f}/s"
            f"  p99 {result['p99_us'] / 1000:.2f} ms")
    return result


def measure_cells(bench, servers):
    """{(peer, depth): [a result per round, None where it failed]}"""
    cells = {(peer, depth): [] for peers, depth in GROUPS for peer in peers if peer in servers}
    for r in range(bench.args.rounds):
        for peers, depth in GROUPS:
            present = [peer for peer in peers if peer in servers]
            turn = r % len(present)
            for peer in present[turn:] + present[:turn]:
                cells[peer, depth].append(measure_cell(bench, servers[peer], peer, depth))
    return cells


# ---- report ----


def ratio(cells, peer, other, depth):
    """Median over the rounds of the ratio within a round; None if there is nothing to compare."""
    pairs = zip(cells.get((peer, depth), []), cells.get((other, depth), []))
    values = [a["ops_per_s"] / b["ops_per_s"] for a, b in pairs if a and b and b["ops_per_s"]]
    return statistics.median(values) if values else None


def shown(value):
    return "–" if value is None else f"{value:.2f}"


def print_cell(cells, peer, depth, others):
    results = [r for r in cells.get((peer, depth), []) if r]
    if not results:
        return
    rates = [r["ops_per_s"] for r in results]
    times = [shown(statistics.median(r[key] for r in results) / 1000)
             for key in ("p50_us", "p99_us", "max_us")]
    ratios = [shown(ratio(cells, peer, other, depth)) for other in others]
    print(f"| {depth} | {LABELS[peer]} | {statistics.median(rates):.0f}"
          f" | {min(rates):.0f}–{max(rates):.0f} | {' | '.join(times + ratios)} |")


def print_table(cells, what, peers):
    others = [f"× {LABELS[other]}" for other in peers[1:]]
    print(f"| in flight | server | {what}/s | slowest–fastest round | p50 ms | p99 ms | max ms"
          f" | {' | '.join(others)} |")
    print("|--:|---|" + "--:|" * (5 + len(others)))
    for group, depth in GROUPS:
        if group == peers:
            for peer in peers:
                print_cell(cells, peer, depth, peers[1:])
    print()


def print_targets(cells):
    print("Targets:\n")
    for peers, other, least in TARGETS:
        for depth in (depth for group, depth in GROUPS if group == peers):
            value = ratio(cells, peers[0], other, depth)
            verdict = "not measured"
            if value is not None:
                verdict = "reached" if value >= least else "not reached"
            print(f"- {LABELS[peers[0]]}s/s, {depth} in flight ≥ {least} × {LABELS[other]}:"
                  f" {shown(value)} ×, {verdict}")
    print(flush=True)


def measure(bench):
    with contextlib.ExitStack() as running:
        servers, absent = start_all(bench, running)
        cells = measure_cells(bench, servers)
    paced = beats.measure(bench)
    print(f"## Heartbeats and tasks, {CLIENTS} clients\n")
    print_table(cells, "heartbeats", BEATS)
    print_table(cells, "durable cycles", CYCLES)
    for peer, reason in absent.items():
        print(f"{LABELS[peer]}: {reason}.\n")
    beats.report(paced)
    print_targets(cells)
