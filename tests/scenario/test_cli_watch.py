"""The verbs that look at the ladder: why, watchdog, conversation resume, backtest."""
import datetime
import http.server
import json
import os
import pty
import random
import re
import subprocess
import threading

from reeve_test import BIN, RpcError, Server, check, eq, folder, main, reeve, server
from wire import PATIENCE

MANUAL = ("--clock=manual",)
MINUTE, HOUR = 60_000, 3_600_000
HOSTILE = "\x1b[2J\x1b]0;owned\x07 \u202eevil\u2028 \x9b31m\r\nfake line"


def ok(*args, **options):
    done = reeve(*args, **options)
    eq((done.returncode, done.stderr), (0, ""), f"reeve {args}")
    return done.stdout


def fails(status, *args, word="", **options):
    done = reeve(*args, **options)
    eq((done.returncode, done.stdout), (status, ""), f"reeve {args}: {done.stderr}")
    check(done.stderr.startswith("reeve") and word in done.stderr, f"message {done.stderr!r}")
    return done


def advance(s, ms):
    s.call("clock.advance", ms=ms)


def ms_of(iso):
    return round(datetime.datetime.fromisoformat(iso.replace("Z", "+00:00")).timestamp() * 1000)


def now_of(s):
    return ms_of(s.call("server.info")["now"])


def iso_of(ms):
    stamp = datetime.datetime.fromtimestamp(ms // 1000, datetime.timezone.utc)
    return f"{stamp:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03}Z"


def sections(text):
    """Headline as one line, then the blocks; looks at the form on the way."""
    for line in text.splitlines():
        check(line == line.rstrip(), f"blanks at the end of {line!r}")
        check(not re.search(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e]", line), f"unsafe: {line!r}")
    headline, *blocks = text.rstrip("\n").split("\n\n")
    return " ".join(headline.split("\n")), [b.split("\n") for b in blocks]


def row_with(block, word):
    (row,) = [line for line in block if word in line]
    return re.split(r"\s{2,}", row)


class Fake:
    """A server that gives one result to everything, or what result(method, params) returns."""

    def __init__(self, result):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                given = result(request["method"], request["params"]) if callable(result) else result
                body = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": given}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.httpd.serve_forever, daemon=True).start()
        token = os.path.join(folder(), "token")
        with open(token, "w") as f:
            f.write("x" * 64)
        url = f"http://127.0.0.1:{self.httpd.server_port}"
        self.where = ("--server", url, "--token-file", token)


def test_help_knows_the_verbs():
    text = ok("help")
    for verb in ("why", "watchdog rules", "watchdog run-once", "conversation resume", "backtest"):
        check(re.search(rf"^\s+{verb}\b", text, re.M), f"no {verb} in {text}")
        check(f"reeve {verb}" in ok("help", *verb.split()), f"help of {verb}")
        eq(ok(*verb.split(), "--help"), ok("help", *verb.split()), f"reeve {verb} --help")


def test_wrong_usage_exits_2():
    for args in (("why",), ("why", "x"), ("why", "-1"), ("why", "1", "2"), ("watchdog",),
                 ("watchdog", "rules", "x"), ("watchdog", "run-once", "--rule", "bogus"),
                 ("conversation", "resume"), ("conversation", "resume", "x"),
                 ("conversation", "resume", "1", "--budget", "90"),
                 ("conversation", "resume", "1", "--budget", "1500ms"),
                 ("conversation", "resume", "1", "--budget", "soon"),
                 ("backtest", "1"), ("backtest", "--conversation", "0"),
                 ("backtest", "--set", "watchdog.idle_ms"),
                 ("backtest", "--set", "watchdog.idle_ms=-1"),
                 ("backtest", "--set", "watchdog.bogus=1"),
                 ("backtest", "--set", "net.ping_seconds=5")):
        done = reeve(*args)
        eq((done.returncode, done.stdout), (2, ""), f"reeve {args}: {done.stderr}")
    fails(2, "why", "12:", word="12:builder")
    fails(2, "watchdog", "run-once", "--rule", "x", word="watchdog rules")
    fails(2, "backtest", "--set", "watchdog.idle=1", word="watchdog.idle_ms")
    fails(69, "why", "1", data=os.path.join(folder(), "nobody"))


# ---- why ----

@server("watchdog.idle_ms=900000", args=MANUAL)
def test_why_of_an_active_conversation(s):
    c = s.talk("builder", "reviewer", title="Fix the build")
    advance(s, MINUTE)
    s.say(c, "builder", "compiling")
    due = now_of(s) + 900_001
    advance(s, 723_000)
    text = ok("why", c, data=s.data)
    headline, (evidence, clocks, history) = sections(text)
    eq(headline, 'Conversation 1 "Fix the build" (active): builder has turn 1, and nobody has written '
       "for 12m 03s; it is canceled in 2m 57s (conversation.idle) unless somebody writes.", "headline")
    eq(row_with(evidence, "activity")[0], "12m 03s", "age of the last sign of life")
    check("held by builder" in row_with(evidence, "held")[-1], f"turn in {evidence}")
    eq(row_with(clocks, "conversation.idle"),
       ["2m 57s", "conversation.idle", "cancel", "15m", iso_of(due - 900_001)], "clock")
    left = [line.split()[0] for line in clocks[1:]]
    eq(left, ["2m", "2h", "3h"], "the soonest clock comes first")
    eq(history[1:], ["no rule and no person has moved it"], "history")
    check(all(len(line) <= 80 for line in text.splitlines()), f"80 columns are enough: {text}")
    eq(json.loads(ok("why", c, "--json", data=s.data)), s.call("conversation.why", conversation=c),
       "--json")


@server(args=MANUAL)
def test_why_of_a_blocked_conversation(s):
    c = s.talk("a", runtime_controls={"session_wall_clock_seconds": 600})
    at = iso_of(now_of(s) + 600_001)
    advance(s, HOUR)
    headline, (_, clocks, history) = sections(ok("why", c, data=s.data))
    eq(headline, f"Conversation 1 (blocked): it is blocked since {at}, 49m 59s ago, by "
       "session.wall_clock (watchdog_wall_clock_exceeded); nothing in it runs until somebody resumes or "
       "ends it; `reeve conversation resume 1` lets it go on. To type: reeve conversation resume 1",
       "headline")
    eq(clocks, ["COUNTING", "nothing"], "clocks")
    eq(row_with(history, "exceeded"), [at, "session.wall_clock", "watchdog_wall_clock_exceeded"],
       "history")
    check("    blocked: window 1" in "\n".join(history), f"what, below it: {history}")
    ok(*re.search(r"reeve (conversation resume \d+)", headline).group(1).split(), data=s.data)
    headline, (*_, history) = sections(ok("why", c, data=s.data))
    check("(active)" in headline and "blocked in 10m 00s (session.wall_clock)" in headline, headline)
    eq(row_with(history, "conversation.resume")[-1], "resumed", "history")


@server("watchdog.idle_ms=900000", args=MANUAL)
def test_why_of_a_canceled_conversation(s):
    c = s.talk("a")
    s.say(c, "a", "hello")
    at = iso_of(now_of(s) + 900_001)
    advance(s, 2 * HOUR)
    headline, (_, clocks, history) = sections(ok("why", c, data=s.data))
    eq(headline, f"Conversation 1 (completed): it ended at {at}, 1h 44m ago: canceled by "
       "conversation.idle (idle_timeout).", "headline")
    eq(clocks, ["COUNTING", "nothing"], "clocks")
    check(any(line.startswith(f"{at}  conversation.idle  idle_timeout") for line in history),
          f"history {history}")


@server("watchdog.enabled=false", "runtime_controls.session_wall_clock_seconds=0", args=MANUAL)
def test_why_when_nothing_counts(s):
    c = s.talk("a")
    s.say(c, "a", "hello")
    headline, (_, clocks, _) = sections(ok("why", c, data=s.data))
    check("nothing is counting, so no rule will move it." in headline, headline)
    eq(clocks, ["COUNTING", "nothing"], "clocks")
    s.call("conversation.end", conversation=c, outcome="failed")
    headline, _ = sections(ok("why", c, data=s.data))
    check(": failed by operator (failed)." in headline, headline)
    fails(1, "why", 99, data=s.data, word="NOT_FOUND")


@server(args=MANUAL)
def test_why_tells_unwatched_time(s):
    c = s.talk("a")
    s.say(c, "a", "hello")
    s.call("clock.gap", ms=10 * MINUTE)
    headline, (evidence, *_) = sections(ok("why", c, data=s.data))
    check("for 10m 00s" in headline and "in 15m 00s" in headline, headline)
    check("600000 ms" in row_with(evidence, "unwatched")[-1], f"evidence {evidence}")


@server(args=MANUAL)
def test_why_shows_no_control_characters(s):
    """Titles and texts come from agents; what they hold is shown, never sent to the terminal."""
    c = s.talk("a", title=HOSTILE)
    s.say(c, "a", HOSTILE + "x" * 9000, finality="conversation", outcome={"status": "completed"})
    text = ok("why", c, data=s.data)
    headline, (*_, history) = sections(text)
    for shown in (headline, "\n".join(history)):
        check("\\x1b[2J" in shown and "\\u202eevil" in shown, f"shown as text: {shown!r}")
    check(all(len(line) < 500 for line in text.splitlines()), "long texts are cut")
    raw = ok("why", c, "--json", data=s.data)
    check(not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e]", raw), "--json is safe too")
    check(HOSTILE in json.loads(raw)["history"][-1]["what"], "--json has the text as it was")


# ---- watchdog ----

@server("watchdog.idle_ms=90000", args=MANUAL)
def test_watchdog_rules(s):
    c = s.talk("a")
    s.say(c, "a", "hello")
    due = iso_of(now_of(s) + 90_001)
    lines = ok("watchdog", "rules", data=s.data).splitlines()
    eq(row_with(lines, "conversation.idle"),
       ["conversation.idle", "cancel", "1m 30s", due, "0", "0", "watchdog.idle_ms"], "row")
    eq(row_with(lines, "session.wall_clock_notice")[1:3], ["ring", "3h 12m"], "a limit in seconds")
    eq(row_with(lines, "task.exhausted")[1:3], ["reap", "3"], "a limit that is a count")
    eq(row_with(lines, "conversation.global_idle")[2:4], ["off", "-"], "a limit that is off")
    check("maxTurns" in row_with(lines, "conversation.max_turns")[-1], "of the conversation only")
    advance(s, 90_001)
    row = row_with(ok("watchdog", "rules", data=s.data).splitlines(), "conversation.idle")
    eq(row[3:6], ["-", "1", "0"], "fired once, nothing more is due")
    eq(json.loads(ok("watchdog", "rules", "--json", data=s.data)), s.call("watchdog.rules"),
       "--json")


@server(args=MANUAL)
def test_watchdog_run_once(s):
    eq(ok("watchdog", "run-once", data=s.data),
       "checked 0, due 0, moved 0, skipped 0, errors 0\n", "a pass over nothing")
    ok("watchdog", "run-once", "--rule", "conversation.idle", data=s.data)
    done = json.loads(ok("watchdog", "run-once", "--json", data=s.data))
    eq(done, {"checked": 0, "candidates": 0, "canceled": 0, "skipped": 0, "errors": 0}, "--json")


def test_watchdog_run_once_tells_counts_and_errors():
    counts = {"checked": 5, "candidates": 3, "canceled": 2, "skipped": 4, "errors": 0}
    eq(ok("watchdog", "run-once", *Fake(counts).where),
       "checked 5, due 3, moved 2, skipped 4, errors 0\n", "counts")
    failed = Fake(counts | {"errors": 1})
    for more in ((), ("--json",)):
        done = reeve("watchdog", "run-once", *more, *failed.where)
        eq((done.returncode, done.stderr), (1, ""), "exit status with errors")
        check("errors" in done.stdout, done.stdout)


def test_watchdog_run_once_while_one_is_running():
    fake = Fake({"running": True, "checked": 0, "candidates": 0, "canceled": 0, "skipped": 0,
                 "errors": 0})
    fails(75, "watchdog", "run-once", *fake.where, word="under way")
    done = reeve("watchdog", "run-once", "--json", *fake.where)
    eq((done.returncode, json.loads(done.stdout)["running"]), (75, True), "--json")


# ---- conversation resume ----

@server("runtime_controls.session_wall_clock_seconds=60", args=MANUAL)
def test_conversation_resume(s):
    c = s.talk("a")
    fails(1, "conversation", "resume", c, data=s.data, word="INVALID_TRANSITION")
    advance(s, 61_000)
    now = now_of(s)
    eq(ok("conversation", "resume", c, data=s.data),
       f"conversation 1 is active: window 2 since {iso_of(now)}, budget 1m until "
       f"{iso_of(now + 60_000)}\n", "as before")
    advance(s, 60_000)
    eq(s.call("conversation.get", conversation=c)["status"], "active", "the last moment of it")
    advance(s, 1)
    now = now_of(s)
    eq(ok("conversation", "resume", c, "--budget", "2h", data=s.data),
       f"conversation 1 is active: window 3 since {iso_of(now)}, budget 2h until "
       f"{iso_of(now + 2 * HOUR)}\n", "--budget")
    advance(s, 3 * HOUR)
    key = ("--key", "k", "--budget", "0s")
    first = json.loads(ok("conversation", "resume", c, *key, "--json", data=s.data))
    eq((first["window"], first["status"]), (4, "active"), "--json")
    eq(ok("conversation", "resume", c, *key, data=s.data),
       f"conversation 1 is active: window 4 since {first['windowStartedAt']}, no budget\n",
       "a repeat, and no budget")
    fails(1, "conversation", "resume", 99, data=s.data, word="NOT_FOUND")


# ---- backtest ----

def backtest(s, *settings, more=()):
    """The moves as (conversation, rule, ms), and the whole answer."""
    sets = [x for setting in settings for x in ("--set", setting)]
    answer = json.loads(ok("backtest", *sets, *more, "--json", data=s.data))
    return [(m["conversation"], m["rule"], ms_of(m["at"])) for m in answer["moves"]], answer


def recorded_moves(s, conversation):
    """What the ladder did to it, from its log alone."""
    rules = {"idle_timeout": "conversation.idle", "global_idle_timeout": "conversation.global_idle",
             "max_turns": "conversation.max_turns"}
    moves = []
    for e in s.events(conversation):
        payload = e["payload"]
        if payload.get("kind") == "runtime.watchdog.cancel":
            moves.append((conversation, "session.wall_clock", ms_of(e["ts"])))
        elif e["finality"] == "conversation" and e["agentId"].startswith("system-"):
            moves.append((conversation, rules[payload["outcome"]["reason"]], ms_of(e["ts"])))
    return moves


def live(servers, seed, conversations, resumes=False):
    """The same random life of new conversations (a range) on each server; what one refuses,
    because the ladder was faster, the others still do."""
    dice = random.Random(seed)

    def do(method, **params):
        for s in servers:
            try:
                s.call(method, **params)
            except RpcError as e:
                check(e.name in ("CONVERSATION_FINALIZED", "CONVERSATION_BLOCKED",
                                 "INVALID_TRANSITION"), f"{method}: {e}")

    for _ in conversations:
        limits = {}
        if dice.random() < 0.3:
            limits["watchdog"] = dice.choice(({"idleMs": 20 * MINUTE}, {"disabled": True},
                                              {"globalIdleMs": 0}, {"idleMs": 0}))
        if resumes and dice.random() < 0.3:
            limits["runtime_controls"] = {"session_wall_clock_seconds": 3000}
        do("conversation.create", agents=[{"role": "a"}, {"role": "b"}],
           maxTurns=3 if resumes and dice.random() < 0.3 else 0, **limits)
        do("clock.advance", ms=dice.randrange(5000))
    for step in range(400):
        c = dice.choice(conversations if step < 200 else conversations[::2])  # the others go silent
        action = dice.random()
        if action < 0.62:
            do("message.send", conversation=c, agentId="a", text="x",
               finality=dice.choice(("none", "none", "turn")))
        elif action < 0.65:
            do("turn.clear", conversation=c, agentId="a")
        elif action < 0.67:
            do("conversation.end", conversation=c,
               outcome=dice.choice(("completed", "canceled", "failed")))
        elif action < 0.75 and resumes:
            budget = dice.choice((None, {"session_wall_clock_seconds": 2000}))
            do("conversation.resume", conversation=c, runtime_controls=budget)
        elif action < 0.77:
            do("clock.gap", ms=dice.randrange(1, 20 * MINUTE))
            do("clock.advance", ms=1)  # else who came first, writer or ladder, is in no log
        else:
            do("clock.advance", ms=dice.choice((1, 999, 2 * MINUTE, 5 * MINUTE)))


@server("watchdog.idle_ms=900000", "watchdog.global_idle_ms=1200000",
        "runtime_controls.session_wall_clock_seconds=7200", args=MANUAL, deadline=120)
def test_backtest_with_the_limits_in_force_finds_what_happened(s):
    """To the millisecond, over gaps, windows, cancels, blocks and a crash; and nothing else."""
    live([s], 9, range(1, 13), resumes=True)
    s.restart()
    live([s], 14, range(13, 25), resumes=True)
    want = sorted((m for c in range(1, 25) for m in recorded_moves(s, c)),
                  key=lambda m: (m[2], m[0]))
    rules = {m[1] for m in want}
    eq(rules, {"conversation.idle", "conversation.global_idle", "conversation.max_turns",
               "session.wall_clock"}, "rules in this history")
    check(any(e["payload"].get("kind") == "watch.gap" for e in s.events(0)), "gaps in it")
    check(any(e["payload"].get("kind") == "runtime.resumed"
              for c in range(1, 25) for e in s.events(c)), "resumes in it")
    got, answer = backtest(s)
    eq(got, want, "moves")
    eq({m["truth"] for m in answer["moves"]}, {"same"}, "truth")
    moved = len({m[0] for m in want})
    eq({k: v for k, v in answer["summary"].items()
        if k not in ("events", "notices") and not k.startswith("tasks")},
       {"conversations": 24, "moved": moved, "healthy": 0, "spared": 0}, "summary")
    eq(answer["summary"]["events"], sum(len(s.events(c)) for c in range(1, 25)), "events")
    notices = sum(e["payload"].get("kind") == "runtime.watchdog.notice"
                  for c in range(1, 25) for e in s.events(c))
    eq(answer["summary"]["notices"], notices, "notices")
    for c in (want[0][0], want[-1][0]):
        eq(backtest(s, more=("--conversation", c))[0], recorded_moves(s, c), f"only {c}")


@server("watchdog.enabled=false", "runtime_controls.session_wall_clock_seconds=0", args=MANUAL,
        deadline=120)
def test_backtest_foretells_another_server(s):
    """The same life on a server that watches nothing and on one with limits: a backtest of the
    first with the limits of the second says what the second did first."""
    limits = ("watchdog.enabled=true", "watchdog.idle_ms=900000", "watchdog.global_idle_ms=1200000",
              "runtime_controls.session_wall_clock_seconds=7200")
    strict = Server(args=[*MANUAL, *(x for v in limits for x in ("--set", v))]).start()
    live([s, strict], 8, range(1, 21))
    got, answer = backtest(s, *limits)

    def ages(server_, moves):
        """Relative to the server's first conversation: the clocks began at different times."""
        start = ms_of(server_.events(1)[0]["ts"])
        return {c: (rule, at - start) for c, rule, at in moves}

    want = ages(strict, [recorded_moves(strict, c)[0] for c in range(1, 21)
                         if recorded_moves(strict, c)])
    check(len({rule for rule, _ in want.values()}) == 3, f"rules that moved: {want}")
    eq(ages(s, got), want, "the first moves")
    healthy = set()
    for c, _, at in got:
        later = [e for e in s.events(c) if ms_of(e["ts"]) > at and e["agentId"][:7] != "system-"
                 and (e["payload"].get("outcome") or {}).get("status") != "canceled"]
        healthy |= {c} if later else set()
        (move,) = [m for m in answer["moves"] if m["conversation"] == c]
        eq((move["truth"], move["wroteAgainAfterMs"]),
           ("healthy", ms_of(later[0]["ts"]) - at) if later else ("silent", None), f"truth of {c}")
    check(0 < len(healthy) < len(got), "of both kinds")
    eq((answer["summary"]["moved"], answer["summary"]["healthy"]), (len(got), len(healthy)),
       "summary")
    strict.stop()


@server("watchdog.idle_ms=900000", args=MANUAL)
def test_backtest_in_words(s):
    canceled, healthy = s.talk("a"), s.talk("a")
    s.say(canceled, "a", "x")
    s.say(healthy, "a", "x")
    start = now_of(s)
    advance(s, 10 * MINUTE)
    s.say(healthy, "a", "still here")
    advance(s, 6 * MINUTE)

    def rows(*settings):
        sets = [x for setting in settings for x in ("--set", setting)]
        *table, summary = ok("backtest", *sets, data=s.data).splitlines()
        return [re.split(r"\s{2,}", line) for line in table], summary

    end = "by the limits in force but not by these"
    table, summary = rows()
    eq(table[1:], [["1", "conversation.idle", iso_of(start + 900_001), "silent for 15m 00s",
                    "so it was"]], "as it was")
    eq(summary, "2 conversations replayed, 1 would have been moved, 0 of them healthy (false "
       f"alarms), 0 moved {end}", "summary")
    table, summary = rows("watchdog.idle_ms=420000")
    eq(table[1:], [["1", "conversation.idle", iso_of(start + 420_001), "silent for 7m 00s",
                    "silent, canceled by conversation.idle 8m 00s later"],
                   ["2", "conversation.idle", iso_of(start + 420_001), "silent for 7m 00s",
                    "healthy: somebody wrote 2m 59s later"]], "shorter")
    eq(summary, "2 conversations replayed, 2 would have been moved, 1 of them healthy (false "
       f"alarms), 0 moved {end}", "summary")
    table, summary = rows("watchdog.idle_ms=930000")
    eq(table[1:], [["1", "conversation.idle", iso_of(start + 930_001), "silent for 15m 30s",
                    "not known: canceled by conversation.idle 30s before"]], "longer")
    table, summary = rows("watchdog.enabled=false")
    eq((table, summary), ([["Nothing would have been moved."]],
       "2 conversations replayed, 0 would have been moved, 0 of them healthy (false alarms), "
       f"1 moved {end}"), "off")
    table, _ = rows("watchdog.idle_ms=0", "runtime_controls.session_wall_clock_seconds=60")
    eq([row[3] for row in table[1:]], ["over budget by 1ms"] * 2, "budgets")
    eq(backtest(s, "watchdog.idle_ms=420000")[1]["limits"]["watchdog.idle_ms"],
       {"value": 420_000, "inForce": 900_000}, "limits")
    fails(1, "backtest", "--conversation", 99, data=s.data, word="NOT_FOUND")


@server(args=MANUAL)
def test_backtest_of_nothing_and_of_many_pages(s):
    eq(ok("backtest", data=s.data).splitlines()[0], "Nothing would have been moved.", "empty")
    c = s.talk("a")
    for _ in range(4):
        s.post(json.dumps([{"jsonrpc": "2.0", "id": i, "method": "message.send", "params": {
            "conversation": c, "agentId": "a", "text": "x"}} for i in range(50)]).encode())
    for _ in range(220):  # more than a page of conversations
        s.talk("a")
    big = "x" * 200_000  # and of bytes
    for _ in range(30):
        s.say(c, "a", big)
    advance(s, 15 * MINUTE + 1)
    got, answer = backtest(s)
    eq([m[:2] for m in got], [(c, "conversation.idle")], "moves")
    eq(answer["summary"]["conversations"], 221, "conversations")
    eq(answer["summary"]["events"],
       sum(len(s.events(n)) for n in range(1, 222)), "events")


@server(args=MANUAL)
def test_backtest_shows_progress_to_a_terminal_only(s):
    s.talk("a")
    eq(reeve("backtest", data=s.data).stderr, "", "no terminal")
    ours, theirs = pty.openpty()
    done = subprocess.run([BIN, "backtest", "--data", s.data], stdout=subprocess.PIPE,
                          stderr=theirs, text=True, timeout=PATIENCE)
    shown = os.read(ours, 65536).decode()
    eq(done.returncode, 0, "exit status")
    check(re.search(r"backtest \[[#-]{20}\] 0/1 conversations, 1 events, \d+/s", shown),
          f"shown {shown!r}")
    check(shown.endswith("\r\x1b[K"), f"gone at the end: {shown!r}")
    check("1 conversation replayed" in done.stdout, done.stdout)


def test_backtest_believes_no_server():
    """What a server answers is checked; a step of the wall clock is no gap."""
    gap = {"kind": "down", "from": iso_of(1000), "to": iso_of(500_000)}
    step = {"kind": "wall_step", "from": iso_of(9000), "to": iso_of(9000)}

    def event(conversation, seq, ms, kind, data):
        return {"id": seq, "conversation": conversation, "turn": 0, "event": seq, "seq": seq,
                "ts": iso_of(ms), "type": "system", "finality": "none",
                "agentId": "system-orchestrator", "payload": {"kind": kind, "data": data}}

    def run(log, gaps, tasks=()):
        def result(method, params):
            if method == "task.list":
                return tasks if isinstance(tasks, dict) else {"tasks": tasks, "next": None}
            if method == "server.info":
                return {"now": iso_of(2_000_000), "lastConversation": 1}
            if method == "conversation.list":
                return {"conversations": [{"conversation": 1, "head": {"lastSeq": 9}}],
                        "next": None}
            if method == "event.list":
                events = log if params["conversation"] else gaps
                return {"events": [e for e in events if e["seq"] > params["afterSeq"]]}
            return {"options": {"watchdog.global_idle_ms": {"value": 60_000}}}
        return reeve("backtest", "--json", *Fake(result).where)

    created = event(1, 1, 900, "meta_created", {})
    watched = [event(0, 1, 0, "meta_created", {}), event(0, 2, 9000, "watch.gap", step)]
    for gaps, at in ((watched, 60_901), ([*watched, event(0, 3, 9000, "watch.gap", gap)], 559_901)):
        done = run([created], gaps)
        eq((done.returncode, done.stderr), (0, ""), "exit status")
        eq([m["at"] for m in json.loads(done.stdout)["moves"]], [iso_of(at)], "moves")
    lost = event(1, 3, 950, "agent.state", {})
    for log, gaps in (([created, lost], watched), ([lost], watched), ([created, created], watched),
                      ([created | {"ts": "soon"}], watched), ([created | {"type": 7}], watched),
                      ([created], [event(0, 1, 0, "watch.gap", gap | {"to": gap["from"]})]),
                      ([created], [event(0, n, 0, "watch.gap", gap) for n in (1, 2)])):
        done = run(log, gaps)
        eq((done.returncode, done.stdout), (70, ""), f"log {log} {gaps}: {done.stderr}")
        check("INTERNAL" in done.stderr, done.stderr)
    span = {"what": "silent", "from": iso_of(1000), "to": iso_of(9000), "by": "progress"}
    task = {"task": 1, "status": "completed", "dispatchedAt": iso_of(950), "completedAt": iso_of(9000),
            "spans": [span]}
    eq(run([created], watched, [task, task | {"task": 2, "spans": None}]).returncode, 0, "sound tasks")
    for tasks in ({"next": None}, {"tasks": [], "next": 0}, [task, task], [task | {"status": "x"}],
                  [task | {"completedAt": "soon"}], [task | {"spans": [span | {"what": "x"}]}],
                  [task | {"spans": [span | {"to": None}]}], [task | {"spans": [span | {"by": None}]}],
                  [task | {"spans": [span | {"from": None}]}], [task | {"spans": [7]}],
                  [task | {"spans": [span | {"to": iso_of(999)}]}]):
        done = run([created], watched, tasks)
        eq((done.returncode, done.stdout), (70, ""), f"tasks {tasks}: {done.stderr}")
        check("INTERNAL" in done.stderr, done.stderr)


@server(args=MANUAL)
def test_operators_only(s):
    """A token for reading may ask why and see the rules, but changes nothing."""
    c = s.talk("a")
    token = os.path.join(folder(), "read.token")
    with open(token, "w") as f:
        f.write(s.call("token.create", scope="read")["secret"])
    reader = ("--server", s.url, "--token-file", token)
    ok("why", c, *reader)
    ok("watchdog", "rules", *reader)
    fails(1, "watchdog", "run-once", *reader, word="FORBIDDEN")
    fails(1, "conversation", "resume", c, *reader, word="FORBIDDEN")


if __name__ == "__main__":
    main()
