"""The command line as a client: verbs, --json, exit codes."""
import json
import os
import re
import signal
import subprocess

from reeve_test import BIN, Server, check, eq, folder, main, reeve, server, wait_for

VERBS = ("serve", "up", "status", "conversation create", "conversation show", "conversation list",
         "conversation end", "send", "events", "rpc", "config check", "version", "help")


def ok(*args, **options):
    done = reeve(*args, **options)
    eq((done.returncode, done.stderr), (0, ""), f"reeve {args}")
    return done.stdout


def fails(status, *args, word="", **options):
    done = reeve(*args, **options)
    eq(done.returncode, status, f"exit status of reeve {args}: {done.stderr}")
    check(done.stderr.startswith("reeve") and word in done.stderr, f"message {done.stderr!r}")
    return done


def test_help_lists_every_verb():
    text = ok("help")
    for verb in VERBS:
        check(re.search(rf"^\s+{verb}\b", text, re.M), f"no {verb} in {text}")
        about = ok("help", *verb.split())
        check(f"reeve {verb}" in about, f"help of {verb}: {about}")
        eq(ok(*verb.split(), "--help"), about, f"reeve {verb} --help")
    eq(ok("--help"), text, "reeve --help")


def test_version():
    check(re.fullmatch(r"reeve \d+\.\d+\.\d+\S*\n", ok("version")), "version")
    check("sqlite" in json.loads(ok("version", "--json")), "libraries")


def test_usage_errors_exit_2():
    for args in ((), ("bogus",), ("conversation",), ("send",), ("send", "1"), ("serve", "--bogus"),
                 ("conversation", "show"), ("conversation", "show", "x"), ("send", "1", "text"),
                 ("conversation", "end", "1", "--outcome", "bogus"), ("rpc",), ("rpc", "m", "{"),
                 ("events", "--since", "soon"), ("conversation", "list", "--limit", "-1")):
        eq(reeve(*args).returncode, 2, f"exit status of reeve {args}")
    check("conversation" in reeve("conversaton").stderr, "a near miss is guessed")


def test_a_conversation_by_hand(s):
    number = ok("conversation", "create", "--title", "By hand", "--agent", "ann", "--agent", "bob",
                "--starting-role", "bob", "--max-turns", "9", "--metadata", '{"k":1}',
                data=s.data).strip()
    eq(number, "1", "number")
    out = ok("send", number, "hello", "--as", "ann", data=s.data)
    check("1:1.1 seq=2" in out, out)
    receipt = json.loads(ok("send", number, "-", "--as", "ann", "--final", "turn", "--json",
                            data=s.data, stdin="from stdin\n"))
    eq((receipt["turn"], receipt["seq"]), (1, 3), "receipt")
    eq(s.events(1)[-1]["payload"]["text"], "from stdin", "text")
    shown = ok("conversation", "show", number, data=s.data)
    for word in ("By hand", "active", "ann", "from stdin"):
        check(word in shown, f"no {word!r} in {shown}")
    got = json.loads(ok("conversation", "show", number, "--json", data=s.data))
    eq(got, s.call("conversation.get", conversation=1), "show --json")
    listed = ok("conversation", "list", data=s.data)
    check("By hand" in listed and "active" in listed, listed)
    ok("conversation", "end", number, "--outcome", "failed", "--reason", "enough", data=s.data)
    eq(s.events(1)[-1]["payload"]["outcome"], {"status": "failed", "reason": "enough"}, "outcome")
    done = fails(1, "send", number, "more", "--as", "ann", data=s.data,
                 word="CONVERSATION_FINALIZED")
    eq(done.stdout, "", "stdout of a failure")


def test_a_message_of_a_role_that_is_not_there_is_refused(s):
    s.talk("planner", "builder")
    fails(1, "send", "1", "x", "--as", "bob", data=s.data,
          word="conversation 1 has no role bob; it has planner, builder")
    eq(len(s.events(1)), 1, "events")
    ok("send", "1", "x", "--as", "bob", "--guest", data=s.data)
    eq(s.events(1)[-1]["agentId"], "bob", "a guest")


def test_keys_make_repeats_safe(s):
    for _ in range(2):
        eq(ok("conversation", "create", "--agent", "a", "--key", "k", data=s.data), "1\n", "create")
    receipts = {ok("send", "1", "x", "--as", "a", "--key", "k", data=s.data) for _ in range(2)}
    eq(len(receipts), 1, "receipts")
    ends = {ok("conversation", "end", "1", "--key", "k", data=s.data) for _ in range(2)}
    eq(len(ends), 1, "ends")


def test_attachments_from_files(s):
    path = os.path.join(folder(), "bytes.bin")
    with open(path, "wb") as f:
        f.write(bytes(range(256)))
    s.talk()
    ok("send", "1", "see", "--as", "a", "--attach", path, data=s.data)
    (entry,) = s.events(1)[-1]["payload"]["attachments"]
    eq((entry["name"], entry["size"]), ("bytes.bin", 256), "entry")


def test_events_prints_the_log(s):
    c = s.talk()
    s.say(c, "a", "line one\nline two \x1b[31mred")
    text = ok("events", "--conversation", str(c), data=s.data)
    eq(len(text.splitlines()), 2, f"one line for each event: {text}")
    check("\x1b" not in text, "escape sequences reach nobody's terminal")
    lines = ok("events", "--conversation", str(c), "--json", data=s.data).splitlines()
    eq([json.loads(x) for x in lines], s.events(c), "--json")
    since = ok("events", "--conversation", str(c), "--json", "--since", "1", data=s.data)
    eq([json.loads(x)["seq"] for x in since.splitlines()], [2], "--since")


def ids(*args, s, stderr=""):
    """The ids that `reeve events` prints, which complains of no more than this."""
    done = reeve("events", "--json", *args, data=s.data)
    eq((done.returncode, done.stderr), (0, stderr), f"reeve events {args}")
    return [json.loads(x)["id"] for x in done.stdout.splitlines()]


def test_events_have_one_order_whatever_conversation_they_are_of(s):
    a, b = s.talk(), s.talk()
    for i in range(6):
        s.say((a, b)[i % 2], "a", str(i))
    last = s.call("server.info")["lastEventId"]
    eq(ids(s=s), list(range(1, last + 1)), "all, by id")
    eq(ids("--all", s=s), list(range(1, last + 1)), "--all")
    of_b = [e["id"] for e in s.events(b)]
    eq(ids("--conversation", str(b), s=s), of_b, "of one")
    left_out = "reeve events: {}earlier events left out; --all shows them\n"
    eq(ids("-n", "3", s=s, stderr=left_out.format(f"{last - 3} ")), [last - 2, last - 1, last], "-n")
    eq(ids("--last", "99", s=s), list(range(1, last + 1)), "more than there are")
    eq(ids("-n", "2", "--conversation", str(b), s=s, stderr=left_out.format("")), of_b[-2:],
       "-n of one")
    fails(2, "events", "--all", "-n", "3", data=s.data, word="--all leaves nothing out")


@server(args=["--clock", "manual"])
def test_events_since_a_time(s):
    c = s.talk()
    for i in range(5):
        s.call("clock.advance", ms=60_000)
        s.say(c, "a", str(i))
    events = s.events(c)
    eq(ids("--since", "150s", s=s), [e["id"] for e in events[-3:]], "a duration")
    at = events[3]["ts"]
    for since in (at, at[:23], at[:23].replace("T", " ")):
        eq(ids("--since", since, s=s), [e["id"] for e in events[3:]], f"the time {since}")
    eq(ids("--since", at, "-n", "1", "--conversation", str(c), s=s), [events[-1]["id"]], "both")
    eq(len(ids("--since", at[:10], s=s)), s.call("server.info")["lastEventId"], "a day")
    eq(ids("--since", "2999-01-01", s=s), [], "a time to come")
    fails(2, "events", "--since", "2026-11-15T9", data=s.data, word="a time like")


def test_events_follows_from_now_on(s):
    c = s.talk()
    s.say(c, "a", "before")
    for args, texts in (((), ["after"]), (("-n", "1"), ["after", "after"])):
        with subprocess.Popen([BIN, "events", "-f", "--json", "--data", s.data, *args], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as follower:
            check("earlier events left out; --all shows them" in follower.stderr.readline(), args)
            s.say(c, "a", "after")
            eq([json.loads(follower.stdout.readline())["payload"]["text"] for _ in texts], texts,
               f"events -f {args}")
            follower.send_signal(signal.SIGINT)
            eq(follower.wait(20), 0, "exit status on SIGINT")


def test_events_follows_across_a_restart(s):
    c = s.talk()
    out = os.path.join(folder(), "followed")
    s.listen = f"127.0.0.1:{s.port}"  # the same place after the restart
    with open(out, "w") as f:
        follower = subprocess.Popen([BIN, "events", "-f", "--all", "--conversation", str(c),
                                     "--json", "--data", s.data], stdout=f,
                                    stderr=subprocess.DEVNULL)

    def seen():
        with open(out) as f:
            return [json.loads(x)["seq"] for x in f.read().splitlines() if x.endswith("}")]

    s.say(c, "a", "one")
    wait_for(lambda: len(seen()) == 2, "the first two")
    s.restart()
    s.say(c, "a", "two")
    wait_for(lambda: len(seen()) == 3, "the third, after the restart")
    eq(seen(), [1, 2, 3], "seqs")
    follower.send_signal(signal.SIGINT)
    eq(follower.wait(20), 0, "exit status on SIGINT")


def test_status_shows_all_of_it_in_ten_lines(s):
    for n in range(3):
        c = s.talk("a", "b")
    for role in ("a", "a", "b"):
        s.call("task.create", conversation=c, role=role, content="x")
    rows = dict(line.split(None, 1) for line in ok("status", data=s.data).splitlines())
    check(rows["server"].startswith(s.url), rows)
    check(f"pid {s.process.pid}," in rows["server"], rows)
    eq((rows["machines"], rows["conversations"], rows["agents"], rows["tasks"]),
       ("none", "3 active", "6 stopped", "2 pending, 1 queued"), "counts")
    counts = json.loads(ok("status", "--json", data=s.data))
    eq((counts["server"], counts["tasks"]["queued"], counts["agents"]["crashed"]), (s.url, 1, 0),
       "--json")


@server(args=["--clock", "manual"])
def test_status_names_what_needs_a_person(s):
    for n in range(7):
        s.talk(runtime_controls={"session_wall_clock_seconds": 60})
    s.call("clock.advance", ms=61_000)
    lines = ok("status", data=s.data).splitlines()
    check("7 blocked" in lines[2], lines)
    eq(lines[5:7], ["look at        conversation 1 is blocked: reeve why 1",
                    "               conversation 2 is blocked: reeve why 2"], "named")
    eq((lines[-1].strip(), len(lines)), ("and 3 more", 10), "no more than ten lines")


def test_no_table_is_wider_than_columns(s):
    for n in range(3):
        c = s.talk("a-role-with-quite-a-long-name", "b", title="A title that is long " * 5)
        s.call("task.create", conversation=c, role="b", content="work " * 50)
        s.call("inbox.enqueue", conversation=c, role="b", messageType="ui_action",
               correlationId="c" * 60, payload={})
    tables = ("ps --all", "agent list", "conversation list", "task list", "inbox list 1", "status",
              "watchdog rules", "config check", "events", "help", "help serve")
    for columns in (64, 80, 1000):
        for verb in tables:
            done = reeve(*verb.split(), env={"COLUMNS": str(columns), "REEVE_URL": s.url,
                                             "REEVE_TOKEN": s.token})
            eq(done.returncode, 0, f"reeve {verb}: {done.stderr}")
            wide = [x for x in done.stdout.splitlines() if len(x) > columns]
            eq(wide, [], f"lines of {verb} with COLUMNS={columns}")


def test_rpc_is_the_wire(s):
    eq(json.loads(ok("rpc", "conversation.create", '{"agents":[{"role":"a"}]}', data=s.data)),
       {"conversation": 1}, "result")
    eq(json.loads(ok("rpc", "conversation.list", data=s.data))["next"], None, "without params")
    eq(json.loads(ok("rpc", "conversation.get", "-", data=s.data, stdin='{"conversation":1}'))
       ["conversation"], 1, "from stdin")
    fails(1, "rpc", "no.such", data=s.data, word="NO_METHOD")
    done = reeve("rpc", "conversation.get", '{"conversation":9}', "--json", data=s.data)
    error = json.loads(done.stderr or done.stdout)["error"]
    eq((done.returncode, error["code"], error["data"]["name"]), (1, -32014, "NOT_FOUND"), "--json")


def test_where_the_server_is_and_who_asks(s):
    token = os.path.join(s.data, "operator.token")
    ok("conversation", "list", "--server", s.url, "--token-file", token)
    ok("conversation", "list", env={"REEVE_URL": s.url, "REEVE_TOKEN": s.token})
    wrong = os.path.join(folder(), "wrong.token")
    with open(wrong, "w") as f:
        f.write("0" * 64)
    fails(1, "conversation", "list", "--server", s.url, "--token-file", wrong,
          word="UNAUTHENTICATED")


def test_no_server_exits_69():
    fails(69, "conversation", "list", data=os.path.join(folder(), "nobody"))
    token = os.path.join(folder(), "token")
    with open(token, "w") as f:
        f.write("x")
    fails(69, "conversation", "list", "--server", "http://127.0.0.1:9", "--token-file", token)
    s = Server().start()
    s.kill()
    fails(69, "conversation", "list", data=s.data)


def test_config_check_needs_no_server():
    check("watchdog.idle_ms" in ok("config", "check"), "keys")
    options = json.loads(ok("config", "check", "--json", "--set", "watchdog.idle_ms=5"))
    eq(options["watchdog.idle_ms"], {"value": 5, "source": "flag"}, "value")
    fails(2, "config", "check", "--set", "watchdog.idle_ms=x", word="watchdog.idle_ms")
    fails(2, "config", "check", env={"REEVE_NET_BOGUS": "1"}, word="REEVE_NET_BOGUS")


if __name__ == "__main__":
    main()
