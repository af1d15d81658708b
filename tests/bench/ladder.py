"""The ladder's figures, a part of make bench (run.py).

  detection   Conversations fall silent and become due one by one, on the real clock. How late is
              each cancelled, once with nothing else to do and once while clients append? From the
              log: the time of the terminal message, less last event + limit + 1 ms.
  stampede    Very many become due in the same instant, while clients append to others. What do
              the clients notice, compared with the same clients before and after?
  crowd       Very many are active and ten are due. Starting, memory, and rows looked at.

What is in the store at the end is checked each time: cancelled exactly once, no append lost.
"""

import http.client
import json
import os
import random
import statistics
import subprocess
import time

from fill import fill, one, open_store
from servers import Failure, clean_env, say, wait_until

LOAD_CLIENTS = 16
BATCH = 50
MOVES = 'reeve_rule_moves_total{rule="conversation.idle"}'
CHECKED = "reeve_watch_checked_total"


class Client:
    """Calls to a server, over one connection."""

    def __init__(self, server):
        self.http = http.client.HTTPConnection(server.address, timeout=120)
        self.headers = {"Authorization": "Bearer " + server.secret,
                        "Content-Type": "application/json"}

    def ask(self, verb, path, body=None):
        self.http.request(verb, path, body, self.headers)
        response = self.http.getresponse()
        text = response.read().decode()
        if response.status != 200:
            raise Failure(f"{path}: status {response.status}: {text}")
        return text

    def batch(self, method, each):
        """Results of one method, called with each of these params."""
        out = []
        for i in range(0, len(each), BATCH):
            calls = [{"jsonrpc": "2.0", "id": n, "method": method, "params": params}
                     for n, params in enumerate(each[i:i + BATCH])]
            for answer in json.loads(self.ask("POST", "/rpc", json.dumps(calls))):
                if "result" not in answer:
                    raise Failure(f"{method}: {answer}")
                out.append(answer["result"])
        return out

    def metric(self, name):
        for line in self.ask("GET", "/metrics").splitlines():
            if line.startswith(name + " "):
                return float(line.split()[-1])
        raise Failure(f"no metric {name}")


def wait_for_moves(server, client, count, seconds):
    wait_until(lambda: client.metric(MOVES) >= count, seconds, f"{count} cancellations",
               server.process)


class Load:
    """The load generator; the answers it got are added up, to be looked for in the log."""

    def __init__(self, bench):
        self.bench = bench
        self.answered = 0

    def flags(self, seconds):
        return ("--clients", LOAD_CLIENTS, "--seconds", seconds, "--warm", min(0.3, seconds / 10))

    def run(self, server, seconds):
        result = self.bench.load("ws", server, *self.flags(seconds))
        if not result:
            raise Failure("the load generator failed")
        self.answered += result["answered"]
        return result

    def begin(self, server, seconds):
        return subprocess.Popen(
            self.bench.load_argv("ws", server, *self.flags(seconds)), text=True,
            stdout=subprocess.PIPE, env=clean_env(BENCH_SECRET=server.secret))

    def end(self, process):
        text = process.communicate(timeout=120)[0]
        if process.returncode:
            raise Failure("the load generator failed")
        self.answered += json.loads(text)["answered"]


def check_store(folder, first, count, answered):
    """Conversations first … first+count-1 were cancelled, once; the load's are all there."""
    db = open_store(folder)
    last = first + count - 1
    mine = f"conversation BETWEEN {first} AND {last}"
    facts = {
        "cancelled": (one(db, "SELECT COUNT(*) FROM conversations WHERE status = 'completed' AND"
                              " outcome = 'canceled' AND stop_reason_code = 'idle_timeout' AND"
                              f" last_seq = 4 AND {mine}"), count),
        "terminal messages": (one(db, "SELECT COUNT(*) FROM conversation_events WHERE"
                                      f" finality = 'conversation' AND {mine}"), count),
        "advisories": (one(db, "SELECT COUNT(*) FROM conversation_events WHERE seq = 3 AND payload"
                               f" LIKE '{{\"kind\":\"idle_timeout\"%' AND {mine}"), count),
        "appends": (one(db, "SELECT COUNT(*) FROM conversation_events WHERE type = 'message' AND"
                            f" finality = 'none' AND conversation > {last}"), answered),
        "holes": (one(db, "SELECT COUNT(*) FROM (SELECT 1 FROM conversation_events"
                          " GROUP BY conversation HAVING COUNT(*) <> MAX(seq))"), 0),
        "gaps": (one(db, "SELECT COUNT(*) FROM watch_gaps"), 0),
    }
    db.close()
    wrong = [f"{got} {what}, not {want}" for what, (got, want) in facts.items() if got != want]
    if wrong:
        raise Failure("after the cancellations: " + ", ".join(wrong))


# ---- detection ----


def percentiles(values):
    values = sorted(values)
    shares = {"min": 0, "p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1}
    return {name: values[min(len(values) - 1, int(len(values) * share))]
            for name, share in shares.items()}


def lateness(folder, count):
    db = open_store(folder)
    rows = db.execute("SELECT updated_at - (last_activity_at + idle_ms + 1) FROM conversations"
                      " WHERE conversation BETWEEN 1 AND ?", (count,)).fetchall()
    db.close()
    return percentiles([row[0] for row in rows])


def detection(bench, with_load):
    """ms late: {"min": …, "p50": …, …}"""
    count, spread_ms = bench.args.silent, bench.args.spread_ms
    limits = [random.randint(spread_ms // 10, spread_ms) for _ in range(count)]
    load = Load(bench)
    with bench.reeve() as server:
        client = Client(server)
        made = client.batch("conversation.create", [
            {"agents": [{"role": "a"}], "watchdog": {"idleMs": ms}} for ms in limits])
        process = load.begin(server, spread_ms / 1000 + 1) if with_load else None
        client.batch("message.send", [
            {"conversation": each["conversation"], "agentId": "a", "text": "working"}
            for each in made])
        wait_for_moves(server, client, count, spread_ms / 1000 + 60)
        if process:
            load.end(process)
    check_store(server.folder, 1, count, load.answered)
    return lateness(server.folder, count)


def detections(bench):
    rounds = {False: [], True: []}
    for r in range(bench.args.rounds):
        for with_load in (False, True):
            result = detection(bench, with_load)
            rounds[with_load].append(result)
            say(f"  round {r + 1}  detection{', under load' * with_load}: late p50"
                f" {result['p50']} ms, p99 {result['p99']} ms")
    return rounds


# ---- stampede ----


def stampede(bench):
    """{"quiet": [results], "during": [results], "seconds": until all were cancelled}"""
    count, seconds = bench.args.stampede, bench.args.seconds
    lead_ms = int(seconds * 1000) + 2000
    load = Load(bench)
    server = bench.reeve()
    with server:
        pass  # makes the store
    first = fill(server.folder, count, count, lead_ms)
    out = {"quiet": [], "during": []}
    with server:
        client = Client(server)
        out["quiet"].append(load.run(server, seconds))
        if client.metric(MOVES):
            raise Failure("the stampede began too early")
        wait_for_moves(server, client, 1, 60)
        while client.metric(MOVES) < count:
            out["during"].append(load.run(server, seconds))
        out["quiet"].append(load.run(server, seconds))
    check_store(server.folder, first, count, load.answered)
    db = open_store(server.folder)
    out["seconds"] = one(db, "SELECT (MAX(ts) - MIN(ts)) / 1000.0 FROM conversation_events"
                             " WHERE agent_id = 'system-watchdog' AND conversation > 0")
    db.close()
    if len(out["during"]) > 1:
        out["during"].pop()  # it ended in peace
    return out


def middle(results, key):
    return statistics.median(r[key] for r in results)


def stampedes(bench):
    rounds = []
    for r in range(bench.args.rounds):
        rounds.append(stampede(bench))
        quiet, during = (middle(rounds[-1][when], "p99_us") / 1000 for when in ("quiet", "during"))
        say(f"  round {r + 1}  stampede of {bench.args.stampede}: {rounds[-1]['seconds']:.1f} s,"
            f" p99 {quiet:.2f} → {during:.2f} ms")
    return rounds


# ---- crowd ----


def timed_start(server):
    begin = time.monotonic()
    server.start()
    return time.monotonic() - begin


def crowd(bench, due=10, due_in_ms=4000):
    count = bench.args.crowd
    server = bench.reeve()
    with server:
        pass
    say(f"  {count} active conversations")
    fill(server.folder, count, due, due_in_ms)
    out = {"bytes": os.path.getsize(server.folder + "/reeve.db")}
    try:
        out["start_s"] = timed_start(server)
        client = Client(server)
        out["start_bytes"] = server.memory()
        wait_for_moves(server, client, due, 60)
        out["checked"] = int(client.metric(CHECKED))
        begin = time.monotonic()
        out["pass"] = client.batch("watchdog.runOnce", [{}])[0]
        out["pass_s"] = time.monotonic() - begin
        server.stop()
        server.argv += ["--set", "watchdog.idle_ms=800000"]
        server.patience = 120
        out["other_limit_s"] = timed_start(server)
        out["other_limit_bytes"] = server.memory()
    finally:
        server.stop()
    if out["checked"] != due:
        raise Failure(f"{due} were due, and {out['checked']} rows were looked at")
    return out


# ---- report ----


def print_detections(bench, rounds):
    columns = ("min", "p50", "p90", "p99", "max")
    print(f"| cancelled this late, ms ({bench.args.silent} over {bench.args.spread_ms / 1000:g} s)"
          f" | {' | '.join(columns)} |\n|---|{'--:|' * len(columns)}")
    for with_load, results in rounds.items():
        cells = [f"{middle(results, key):g}" for key in columns]
        what = f"{LOAD_CLIENTS} clients append" if with_load else "nothing else to do"
        print(f"| {what} | {' | '.join(cells)} |")
    print()


def print_stampedes(bench, rounds):
    print(f"| {LOAD_CLIENTS} clients append | appends/s | p50 ms | p99 ms | max ms |\n"
          "|---|--:|--:|--:|--:|")
    for when, what in (("quiet", "before and after"),
                       ("during", f"while {bench.args.stampede} are cancelled")):
        results = [result for each in rounds for result in each[when]]
        print(f"| {what} | {middle(results, 'ops_per_s'):.0f} |"
              f" {middle(results, 'p50_us') / 1000:.2f} | {middle(results, 'p99_us') / 1000:.2f} |"
              f" {max(r['max_us'] for r in results) / 1000:.1f} |")
    print(f"\nAll {bench.args.stampede} were cancelled after {middle(rounds, 'seconds'):.1f} s,"
          " each once, and no append was lost.\n")


def print_crowd(bench, c):
    print(f"| {bench.args.crowd} active conversations, {c['bytes'] / 1e6:.0f} MB | |\n|---|--:|")
    print(f"| start | {c['start_s'] * 1000:.0f} ms, RSS {c['start_bytes'] / 1e6:.1f} MB |")
    print(f"| start with another idle limit | {c['other_limit_s'] * 1000:.0f} ms,"
          f" RSS {c['other_limit_bytes'] / 1e6:.1f} MB |")
    print(f"| rows looked at, to find 10 that are due | {c['checked']} |")
    print(f"| `watchdog.runOnce` after that | {c['pass']['checked']} rows,"
          f" {c['pass_s'] * 1000:.1f} ms |")
    print()


def ratio_of_p99(rounds):
    return statistics.median(middle(each["during"], "p99_us") / middle(each["quiet"], "p99_us")
                             for each in rounds)


def print_targets(detected, stampeded):
    def line(what, value, reached):
        print(f"- {what}: {value:.1f}, {'reached' if reached else 'not reached'}")

    print("Targets:\n")
    for with_load, results in detected.items():
        late = middle(results, "p99")
        line(f"cancelled less than 10 ms late, p99{', under load' * with_load}", late, late < 10)
    times = ratio_of_p99(stampeded)
    line("p99 of appends in a stampede ≤ 3 × that in peace", times, times <= 3)


def measure(bench):
    detected = detections(bench)
    stampeded = stampedes(bench)
    crowded = crowd(bench)
    print("## The ladder\n")
    print_detections(bench, detected)
    print_stampedes(bench, stampeded)
    print_crowd(bench, crowded)
    print_targets(detected, stampeded)
