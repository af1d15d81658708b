#!/usr/bin/env python3
"""make bench: durable appends per second, side by side with Redis and PostgreSQL; heartbeats and
tasks (work.py); the ladder (ladder.py); and supervised processes (supervise.py).

One run starts private servers on loopback, all with their data in one folder on one file system,
and lets the same load generator (load.c) append the same payload to each of them:

  reeve       message.send over WebSocket and over HTTP keep-alive: a message in a conversation of
              its own, with its gapless number, its turn and its clientRequestId
  Redis       XADD, appendonly yes, appendfsync always
  PostgreSQL  prepared INSERT into a table with a bigserial key, synchronous_commit on

All answer after fsync. The peers do nothing of what reeve does on top of storing a row, and their
housekeeping (AOF rewrite, checkpoints by time, autovacuum) is off so that it cannot disturb another
one's cell: both are in their favour.

The machine's speed drifts, above all that of its disk. So no cell is measured in one go: a round
measures each cell once, the order turns with each round, a ratio is taken within a round, and what
is printed is the median over the rounds.

The report goes to standard output as Markdown, progress to standard error. Exit status: 0, or 1 if
any append failed or a server of ours did not start. Missed targets are reported, not failures:
they depend on the machine.
"""

import argparse
import contextlib
import json
import os
import platform
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import ladder
import supervise
import work
from servers import Failure, Missing, Postgres, Redis, Reeve, clean_env, say

CLIENTS = (1, 16, 64)
LABELS = {
    "ws": "reeve WebSocket",
    "http": "reeve HTTP",
    "redis": "Redis XADD",
    "pg": "PostgreSQL INSERT",
} | work.LABELS
OURS = ("ws", "http")
FD_LIMIT_WANTED = 40000
FD_SPARE = 200  # what a server needs besides its connections


# ---- measuring ----


class Bench:
    def __init__(self, args, folder):
        self.args = args
        self.folder = folder
        self.failures = []
        self.started = 0

    def path(self, name):
        self.started += 1
        return os.path.join(self.folder, f"{name}-{self.started}")

    def reeve(self, wrapper=(), options=()):
        return Reeve(self.path("reeve"), self.args.reeve, wrapper, options)

    def start_all(self, stack):
        """Servers by the name the load generator knows them by, and reasons for absent ones."""
        reeve = stack.enter_context(self.reeve())
        servers, absent = {"ws": reeve, "http": reeve}, {}
        known = subprocess.run([self.args.load, "--list"], capture_output=True, text=True).stdout
        for peer, server in (("redis", Redis), ("pg", Postgres)):
            if peer not in known.split():
                absent[peer] = "left out of the load generator (no libpq)"
                continue
            try:
                servers[peer] = stack.enter_context(server(self.path(peer)))
            except (Missing, Failure) as e:
                absent[peer] = str(e)
        return servers, absent

    def load_argv(self, peer, server, *flags):
        return [self.args.load, "--peer", peer, "--address", server.address, *map(str, flags)]

    def load(self, peer, server, *flags):
        done = subprocess.run(self.load_argv(peer, server, *flags), capture_output=True, text=True,
                              env=clean_env(BENCH_SECRET=server.secret), timeout=600)
        if done.returncode:
            first = (done.stderr.strip() or f"status {done.returncode}").splitlines()[0]
            self.failures.append(f"{LABELS[peer]}: {first}")
            say(f"  FAILED {LABELS[peer]}: {first}")
        try:
            return json.loads(done.stdout)
        except ValueError:
            return None

    def throughput(self, servers):
        """{(clients, peer): [a result per round, None where it failed]}"""
        a = self.args
        cells = {(n, peer): [] for n in CLIENTS for peer in servers}
        shared = ["--shared"] if a.shared else []
        for r in range(a.rounds):
            order = list(servers)[r % len(servers):] + list(servers)[:r % len(servers)]
            for n in CLIENTS:
                for peer in order:
                    result = self.load(peer, servers[peer], "--clients", n, "--depth", a.depth,
                                       "--seconds", a.seconds, "--warm", a.seconds / 10, *shared)
                    cells[n, peer].append(result)
                    if result:
                        say(f"  round {r + 1}  {n:3} clients  {LABELS[peer]:18}"
                            f" {result['ops_per_s']:9.0f}/s  p99 {result['p99_us'] / 1000:.2f} ms")
        return cells

    def instructions(self):
        """[(what, instructions per append or None)]: the difference of N and 2N appends."""
        if not shutil.which("valgrind"):
            return []
        n = self.args.callgrind_ops
        cells = [("ws", 1)] if self.args.quick else [("ws", 1), ("http", 1), ("ws", 16)]
        out = []
        for peer, clients in cells:
            say(f"  callgrind, {LABELS[peer]}, {clients} clients")
            once, twice = (self.count_instructions(peer, clients, ops) for ops in (n, 2 * n))
            out.append((f"{LABELS[peer]}, {clients} client{'s' * (clients > 1)}",
                        (twice - once) / n if once and twice else None))
        return out

    def count_instructions(self, peer, clients, ops):
        counts = self.path("callgrind")
        wrapper = ("valgrind", "--tool=callgrind", "--callgrind-out-file=" + counts)
        try:
            with self.reeve(wrapper) as server:
                self.load(peer, server, "--clients", clients, "--ops", ops)
            with open(counts) as f:
                for line in f:
                    if line.startswith("totals:"):
                        return int(line.split()[1])
            raise Failure("no totals in its output")
        except (Failure, OSError) as e:
            self.failures.append(f"callgrind: {e}")
            return None

    def idle_memory(self, peer, count):
        """(RSS after a first append, RSS with `count` idle connections or None)"""
        say(f"  memory, {count} idle connections, {LABELS[peer]}")
        with self.reeve(options=("--set", f"net.connections_max={count + 1000}")) as server:
            self.load(peer, server, "--ops", 1)
            before = server.memory()
            process = subprocess.Popen(
                self.load_argv(peer, server, "--idle", count), stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env=clean_env(BENCH_SECRET=server.secret))
            try:
                opened = process.stdout.readline()
                held = server.memory() if opened else None
                errors = process.communicate("\n", timeout=30)[1]
            finally:
                process.kill()
                process.wait()
            if process.returncode:
                self.failures.append(f"idle {LABELS[peer]}: {errors.strip()}")
                held = None
            return before, held


def fsync_median_us(folder):
    """What the disk gives: 4 KiB append and fdatasync."""
    times = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as f:
        for _ in range(200):
            begin = time.perf_counter()
            f.write(bytes(4096))
            os.fdatasync(f.fileno())
            times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e6


def file_system(path):
    path = os.path.realpath(path) + "/"
    with open("/proc/self/mounts") as mounts:
        rows = [line.split()[1:3] for line in mounts]
    inside = [row for row in rows if path.startswith(row[0].rstrip("/") + "/")]
    return max(inside, key=lambda row: len(row[0]))[1]


def binary_sizes(path, folder):
    """(as built, stripped or None)"""
    stripped = os.path.join(folder, "stripped")
    ok = shutil.which("strip") and subprocess.run(["strip", "-o", stripped, path]).returncode == 0
    return os.path.getsize(path), os.path.getsize(stripped) if ok else None


def raise_fd_limit():
    """For us and every child; the number now allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (FD_LIMIT_WANTED, max(hard, FD_LIMIT_WANTED)))
        return FD_LIMIT_WANTED
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


# ---- report ----


def median(results, key):
    values = [r[key] for r in results if r]
    return statistics.median(values) if values else None


def ratio(cells, clients, peer, other):
    """Median over the rounds of the ratio within a round; None if there is nothing to compare."""
    pairs = zip(cells.get((clients, peer), []), cells.get((clients, other), []))
    values = [a["ops_per_s"] / b["ops_per_s"] for a, b in pairs if a and b and b["ops_per_s"]]
    return statistics.median(values) if values else None


def shown(value, form="{:.2f}"):
    return form.format(value) if value is not None else "–"


def megabytes(n):
    return shown(n / 1e6 if n is not None else None, "{:.2f} MB")


def print_throughput(cells, absent):
    print("| clients | server | appends/s | slowest–fastest round | p50 ms | p99 ms | max ms"
          " | × Redis | × PostgreSQL |")
    print("|--:|---|--:|--:|--:|--:|--:|--:|--:|")
    for (n, peer), results in cells.items():
        rates = [r["ops_per_s"] for r in results if r] or [0]
        times = [median(results, key) for key in ("p50_us", "p99_us", "max_us")]
        times = [shown(t / 1000 if t is not None else None) for t in times]
        ratios = [shown(ratio(cells, n, peer, other)) for other in ("redis", "pg")]
        print(f"| {n} | {LABELS[peer]} | {statistics.median(rates):.0f}"
              f" | {min(rates):.0f}–{max(rates):.0f} | {' | '.join(times + ratios)} |")
    for peer, reason in absent.items():
        print(f"\n{LABELS[peer]}: {reason}.")
    print()


def print_instructions(rows):
    print("| instructions per append (user space, callgrind) | |\n|---|--:|")
    for what, count in rows:
        print(f"| {what} | {shown(count, '{:,.0f}')} |")
    if not rows:
        print("| valgrind | not installed |")
    print()


def print_sizes(sizes, idle, loaded, held):
    print("| size | |\n|---|--:|")
    print(f"| binary as built | {megabytes(sizes[0])} |")
    print(f"| binary stripped | {megabytes(sizes[1])} |")
    print(f"| RSS idle, after a first append | {megabytes(idle)} |")
    print(f"| RSS after the load above | {megabytes(loaded)} |")
    for peer, (count, before, after) in held.items():
        each = shown((after - before) / count if after is not None else None, "{:.0f} bytes")
        print(f"| RSS with {count} idle connections, {LABELS[peer]}"
              f" | {megabytes(after)}, {each} each |")
    print()


def print_targets(cells, idle, sizes):
    def line(what, value, form, reached):
        verdict = "not measured"
        if value is not None:
            verdict = "reached" if reached(value) else "not reached"
        print(f"- {what}: {shown(value, form)}, {verdict}")

    print("Targets:\n")
    for other, factor in (("redis", 1), ("pg", 3)):
        for peer in OURS:
            line(f"appends/s with 64 clients over {LABELS[peer].split()[1]} ≥ {factor} ×"
                 f" {LABELS[other].split()[0]}", ratio(cells, 64, peer, other), "{:.2f} ×",
                 lambda v, least=factor: v >= least)
    line("RSS idle < 15 MB", idle / 1e6, "{:.2f} MB", lambda v: v < 15)
    size = sizes[1] if sizes[1] is not None else sizes[0]
    line("binary < 3 MB" + " (stripped)" * (sizes[1] is not None), size / 1e6, "{:.2f} MB",
         lambda v: v < 3)


def print_head(args, folder):
    try:
        version = subprocess.run([args.reeve, "--version"], capture_output=True, text=True,
                                 timeout=10).stdout.strip().partition("\n")[0]
    except (OSError, subprocess.SubprocessError):
        version = ""
    print(f"# Bench{': a quick run, not a measurement' if args.quick else ''}\n")
    print(f"{time.strftime('%Y-%m-%d %H:%M')} · {version or 'reeve'} · {os.cpu_count()} CPUs ·"
          f" {platform.system()} {platform.release()} · {file_system(folder)}, 4 KiB append +"
          f" fdatasync p50 {fsync_median_us(folder):.0f} µs")
    where = "all clients to one stream" if args.shared else "a stream per client"
    print(f"{args.rounds} rounds of {args.seconds} s per cell, medians · 200-byte payload, {where},"
          f" {args.depth} in flight per client\n", flush=True)


# ---- main ----


def read_args():
    p = argparse.ArgumentParser(
        description="Durable appends, heartbeats, tasks and supervised processes, compared with"
                    " others; the ladder.")
    p.add_argument("--reeve", default="build/reeve", help="server to measure (%(default)s)")
    p.add_argument("--load", default="build/bench-load", help="load generator (%(default)s)")
    p.add_argument("--beacon", default="build/bench-beacon", help="supervised (%(default)s)")
    p.add_argument("--work", default="build/bench", help="where all data goes (%(default)s)")
    p.add_argument("--part", choices=PARTS, help="only this one")
    p.add_argument("--quick", action="store_true", help="smoke test of the bench, below 30 s")
    p.add_argument("--shared", action="store_true", help="all clients append to one stream")
    p.add_argument("--rounds", type=int)
    p.add_argument("--seconds", type=float, help="per cell and round")
    p.add_argument("--depth", type=int, default=1, help="requests in flight per client")
    p.add_argument("--idle", type=int, help="idle connections to hold")
    p.add_argument("--participants", type=int, help="participants that beat at their usual pace")
    p.add_argument("--silent", type=int, help="conversations that fall due one by one")
    p.add_argument("--stampede", type=int, help="conversations that fall due at once")
    p.add_argument("--crowd", type=int, help="active conversations, of which few are due")
    p.add_argument("--kills", type=int, help="processes to kill, of each supervisor")
    p.add_argument("--processes", type=int, help="processes to supervise at once")
    args = p.parse_args()
    args.rounds = args.rounds or (1 if args.quick else 3)
    args.seconds = args.seconds or (0.25 if args.quick else 3.0)
    args.idle = args.idle or (500 if args.quick else 10000)
    args.callgrind_ops = 50 if args.quick else 1000
    args.participants = args.participants or (2000 if args.quick else 100000)
    args.beat_seconds = 2 if args.quick else 30
    args.silent = args.silent or (200 if args.quick else 2000)
    args.spread_ms = 1000 if args.quick else 10000
    args.stampede = args.stampede or (2000 if args.quick else 100000)
    args.crowd = args.crowd or (10000 if args.quick else 1000000)
    args.kills = args.kills or (2 if args.quick else 30)
    args.processes = args.processes or (10 if args.quick else 100)
    for name in ("reeve", "load", "beacon"):
        program = os.path.abspath(getattr(args, name))
        if not os.access(program, os.X_OK):
            p.error(f"{program} is not there; build it first")
        setattr(args, name, program)
    return args


def measure_appends(bench):
    args = bench.args
    idle_count = min(args.idle, raise_fd_limit() - FD_SPARE)
    with contextlib.ExitStack() as running:
        servers, absent = bench.start_all(running)
        cells = bench.throughput(servers)
        loaded = servers["ws"].memory()
    held = {peer: (idle_count, *bench.idle_memory(peer, idle_count)) for peer in OURS}
    idle = max(before for _, before, _ in held.values())
    sizes = binary_sizes(args.reeve, bench.folder)
    counts = bench.instructions()
    print("## Durable appends\n")
    print_throughput(cells, absent)
    print_instructions(counts)
    print_sizes(sizes, idle, loaded, held)
    print_targets(cells, idle, sizes)
    print(flush=True)


PARTS = {"appends": measure_appends, "work": work.measure, "ladder": ladder.measure,
         "supervise": supervise.measure}


def measure(args, folder):
    bench = Bench(args, folder)
    print_head(args, folder)
    for name, part in PARTS.items():
        if args.part in (None, name):
            part(bench)
    for failure in bench.failures:
        print(f"\nFAILED: {failure}")
    return 1 if bench.failures else 0


def main():
    args = read_args()
    for signo in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(signo, lambda number, frame: sys.exit(128 + number))
    os.makedirs(args.work, exist_ok=True)
    folder = os.path.abspath(tempfile.mkdtemp(prefix="run-", dir=args.work))
    os.chmod(folder, 0o711)  # PostgreSQL's user has to pass through
    try:
        return measure(args, folder)
    except Failure as e:
        say(f"bench: {e}")
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
