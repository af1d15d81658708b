"""Running it: health, metrics, configuration, backup, signals, and the ways it refuses to start."""
import json
import os
import signal

from reeve_test import (Closed, Http, RpcError, Server, check, eq, folder, main, reeve, server,
                        together, wait_for)


def samples(s):
    """/metrics as {name with labels: value}; every line must be Prometheus text."""
    values = {}
    for line in s.get("/metrics").body.decode().splitlines():
        if line.startswith("#"):
            check(line.split()[1] in ("HELP", "TYPE"), line)
            continue
        name, _, value = line.rpartition(" ")
        values[name] = float(value)
    return values


def test_health_and_metrics(s):
    eq(s.get("/healthz").status, 200, "healthz")
    eq(s.get("/readyz").status, 200, "readyz")
    before = samples(s)
    check(before and all(n.startswith("reeve_") for n in before), f"names {sorted(before)[:5]}")
    c = s.talk()
    s.say(c, "a", "x")
    after = samples(s)
    check(any(after[n] > before.get(n, 0) for n in after if "commit" in n), "commits are counted")
    check(not any(n.split("{")[0].endswith("_total") and after.get(n, 0) < v
                  for n, v in before.items()), "totals only grow")


def test_server_info(s):
    info = s.call("server.info")
    eq(info["version"], reeve("version").stdout.split()[-1], "version")
    check({"version", "store", "clock", "now", "startedAt"} <= set(info), f"{sorted(info)}")
    with s.socket() as ws:
        eq(ws.welcome["version"], info["version"], "version in the welcome")


@server("net.ping_seconds=7", env={"WATCHDOG_IDLE_MS": "123456"})
def test_L75_config_shows_every_option_with_its_source(s):
    options = s.call("server.config")["options"]
    eq(options["net.ping_seconds"], {"value": 7, "source": "flag"}, "by --set")
    eq(options["watchdog.idle_ms"], {"value": 123456, "source": "environment"}, "by environment")
    eq(options["net.json_depth_max"], {"value": 64, "source": "default"}, "by default")


def test_L75_file_environment_and_flag_in_rising_order():
    path = os.path.join(folder(), "reeve.conf")
    with open(path, "w") as f:
        f.write("net {\n ping_seconds = 3\n stall_seconds = 4\n request_seconds = 5\n}\n")
    s = Server(args=["--config", path, "--set", "net.request_seconds=7"],
               env={"REEVE_NET_STALL_SECONDS": "6", "REEVE_NET_REQUEST_SECONDS": "6"}).start()
    options = s.call("server.config")["options"]
    eq([tuple(options["net." + k].values()) for k in
        ("ping_seconds", "stall_seconds", "request_seconds")],
       [(3, "file"), (6, "environment"), (7, "flag")], "values and sources")
    s.stop()


def refuses(*args, env=None, naming=()):
    """The server must not start, and say why; returns its exit status."""
    s = Server(args=args, env=env)
    s.spawn()
    status = s.wait()
    check(status > 0, f"{args} {env}: exit status {status}")
    for word in naming:
        check(word in s.log(), f"{args} {env}: no {word!r} in {s.log()!r}")
    check(not os.path.exists(os.path.join(s.data, "server.json")), "it said that it was ready")
    return status


def test_L75_bad_settings_end_the_start_with_2_and_name_the_place():
    for setting in ("watchdog.idle_ms=abc", "watchdog.idle_ms=-1", "watchdog.idle_ms=nan",
                    "watchdog.idle_ms=1e3", "watchdog.idle_ms=", "watchdog.idle_ms=true",
                    "watchdog.idle_ms=99999999999999999999", "watchdog.enabled=1",
                    "watchdog.interval_ms=0", "net.json_depth_max=0", "no.such=1",
                    "watchdog.idle=1"):
        key = setting.partition("=")[0]
        eq(refuses("--set", setting, naming=("--set", key)), 2, f"exit status for {setting}")
    eq(refuses("--set", "nonsense", naming=("nonsense",)), 2, "no assignment at all")


def test_L75_bad_environment_ends_the_start_with_2_and_names_the_variable():
    for name, value in (("WATCHDOG_IDLE_MS", "15m"), ("WATCHDOG_ENABLED", "maybe"),
                        ("REEVE_NET_PING_SECONDS", "-3"), ("WATCHDOG_INTERVAL_MS", "NaN"),
                        ("REEVE_NET_PING_SECOND", "5")):
        eq(refuses(env={name: value}, naming=(name,)), 2, f"exit status for {name}={value}")


def test_L75_bad_file_ends_the_start_with_2_and_names_the_line():
    path = os.path.join(folder(), "bad.conf")
    for text, line in (("watchdog {\n  idle_ms = often\n}\n", 2), ("net {\n\n  colour = 3\n}\n", 3),
                       ("watchdog {\n  interval_ms = 0\n}\n", 2), ("bogus {\n}\n", 1)):
        with open(path, "w") as f:
            f.write(text)
        eq(refuses("--config", path, naming=(f"bad.conf:{line}",)), 2, f"exit status for {text!r}")
    eq(refuses("--config", path + ".none", naming=("bad.conf.none",)), 2, "no such file")


def test_it_refuses_to_bind_beyond_loopback_unprotected():
    s = Server(listen="0.0.0.0:0")
    s.spawn()
    check(s.wait() in (1, 2), "exit status")
    check("--insecure" in s.log(), f"says what to do: {s.log()}")


def test_a_port_in_use_is_no_bug_and_has_a_remedy(s):
    other = Server(listen=f"127.0.0.1:{s.port}")
    other.spawn()
    eq(other.wait(), 1, "exit status")
    check(f"port {s.port} is in use; try --listen 127.0.0.1:0" in other.log(), other.log())


def test_a_folder_that_cannot_be_used_is_no_bug_and_has_a_remedy():
    file = os.path.join(folder(), "file")
    open(file, "w").close()
    for data in (file, f"{file}/below", "/proc/no-such-folder"):
        for verb in ("serve", "machine"):
            done = reeve(verb, data=data)
            eq(done.returncode, 2, f"status of {verb} in {data}: {done.stderr}")
            check(file in done.stderr or "/proc" in done.stderr, f"names it: {done.stderr}")
            check("--data DIR" in done.stderr, f"says what to do: {done.stderr}")


def test_a_port_alone_is_one_of_this_host():
    s = Server(listen="0").start()
    check(s.url.startswith("http://127.0.0.1:"), s.url)
    s.stop()


def test_an_address_that_is_none_is_named():
    for listen in ("99999", "127.0.0.1:99999", "nowhere:80", "127.0.0.1"):
        done = reeve("serve", "--listen", listen, data=os.path.join(folder(), "d"))
        eq(done.returncode, 2, f"--listen {listen}")
        check("give PORT, or ADDRESS:PORT" in done.stderr, done.stderr)


def test_a_second_server_on_the_same_folder_is_refused(s):
    c = s.talk()
    before = open(os.path.join(s.data, "server.json")).read()
    second = Server(data=s.data)
    log_before = len(s.log())
    second.spawn()
    check(second.wait() > 0, "exit status")
    said = s.log()[log_before:]
    check("in use" in said or "another" in said, f"says why: {said}")
    eq(open(os.path.join(s.data, "server.json")).read(), before, "server.json")
    eq(s.say(c, "a", "still here")["seq"], 2, "the first goes on")


def test_server_json_says_where_it_is(s):
    where = json.load(open(os.path.join(s.data, "server.json")))
    eq(where["pid"], s.process.pid, "pid")
    eq(where["url"], f"http://127.0.0.1:{s.port}", "url")


def test_backup_is_a_store_of_its_own(s):
    c = s.talk("a", "b", title="to keep", metadata={"k": 1})
    for i in range(300):
        s.say(c, "a", f"{i} " + "x" * 500)
    path = os.path.join(folder(), "copy.db")
    result = s.call("server.backup", path=path)
    eq((result["path"], result["bytes"]), (path, os.path.getsize(path)), "answer")
    eq(os.stat(path).st_mode & 0o077, 0, "nobody else may read it")
    later = s.say(c, "a", "after the backup")
    copy = Server(args=["--store", "sqlite:" + path]).start()
    want = [e for e in s.events(c) if e["seq"] < later["seq"]]
    eq(copy.events(c), want, "the log in the copy")
    eq(copy.call("conversation.get", conversation=c)["metadata"], {"k": 1}, "metadata")
    eq(copy.say(c, "a", "in the copy")["seq"], later["seq"], "it goes on by itself")
    copy.stop()


def test_backup_under_load_is_a_state_that_was(s):
    """While writers go on: the copy holds a prefix of the log, whole."""
    c = s.talk("a", maxTurns=100_000)
    path = os.path.join(folder(), "copy.db")

    def write():
        with s.socket() as ws:
            for i in range(300):
                ws.say(c, "a", f"{i} " + "x" * 1000, "turn")

    together(write, lambda: s.call("server.backup", path=path))
    copy = Server(args=["--store", "sqlite:" + path]).start()
    mine, theirs = s.events(c), copy.events(c)
    eq(theirs, mine[:len(theirs)], "the copy")
    eq(copy.head(c)["lastTurn"], len(theirs) - 1, "and its head")
    copy.stop()


def test_backup_refuses_what_it_should(s):
    there = os.path.join(folder(), "there.db")
    open(there, "w").write("precious")
    e = s.refused("INVALID_PARAMS", "server.backup", path="relative.db")
    eq(e.data["path"], "path", "path")
    for path in (there, os.path.join(folder(), "none", "x.db"), folder()):
        try:
            s.call("server.backup", path=path)
        except RpcError as e:
            eq(e.name, "INVALID_PARAMS", f"error for {path}")
        else:
            raise AssertionError(f"{path} was accepted")
    eq(open(there).read(), "precious", "what was there")
    s.talk()


def test_signals_shut_it_down_cleanly_with_a_reason():
    for sig in (signal.SIGTERM, signal.SIGINT):
        s = Server().start()
        c = s.talk()
        with s.socket() as ws, s.stream(f"?conversation={c}&after=0") as sse, s.http() as idle:
            ws.subscribe(conversation=c, afterSeq=0)
            idle.request("GET", "/healthz")
            last = s.say(c, "a", "acknowledged")["seq"]
            s.process.send_signal(sig)
            eq(ws.wait_close(), 1001, "close code")
            check(ws.close_reason, "the reason is said")
            seen = []
            try:
                while True:
                    seen.append(sse.next()[1]["seq"])
            except Closed:
                pass
            check(seen in ([1, last], [1], []), f"the stream ended in order: {seen}")
            check(idle.is_closed(), "an idle connection is closed")
            eq(s.wait(), 0, f"exit status on {sig.name}")
        s.start()
        eq(len(s.events(c)), 2, "what was acknowledged is there")
        s.stop()


def test_a_second_signal_ends_it_at_once():
    s = Server(env={"REEVE_NET_OUT_BYTES_MAX": "65536", "REEVE_NET_BODY_BYTES_MAX": "65536"})
    s.start()
    c = s.talk()
    with s.socket(receive_buffer=4096) as stuck:
        stuck.subscribe(conversation=c, afterSeq=0)
        for i in range(60):
            s.say(c, "a", "x" * 60_000)
        s.process.send_signal(signal.SIGTERM)
        s.process.send_signal(signal.SIGINT)
        s.wait()
    s.start()
    eq(len(s.events(c)), 61, "events")
    s.stop()


def test_requests_in_flight_at_shutdown_are_answered_or_cut_never_half_done(s):
    c = s.talk(maxTurns=100_000)
    acknowledged = []

    def write():
        try:
            with s.socket() as ws:
                while True:
                    acknowledged.append(ws.say(c, "a", "x", "turn")["seq"])
        except (Closed, OSError):
            pass

    def end():
        wait_for(lambda: len(acknowledged) > 50, "some load")
        s.process.send_signal(signal.SIGTERM)

    together(write, end)
    eq(s.wait(), 0, "exit status")
    s.start()
    events = s.events(c)
    eq([e["seq"] for e in events], list(range(1, len(events) + 1)), "seq")
    check(len(events) in (acknowledged[-1], acknowledged[-1] + 1), "all that was acknowledged")


def test_a_start_that_is_interrupted_leaves_a_folder_that_starts():
    s = Server()
    for _ in range(5):
        s.spawn()
        wait_for(lambda: os.path.exists(s.data), "the data folder")
        s.kill()
    s.start()
    eq(s.talk(), 1, "it works")
    s.stop()


def test_the_folder_is_private(s):
    for name in os.listdir(s.data):
        mode = os.stat(os.path.join(s.data, name)).st_mode & 0o777
        check(not mode & 0o077 or name == "server.json", f"{name} has mode {mode:o}")


def test_a_damaged_store_is_refused_not_repaired():
    s = Server().start()
    s.talk()
    s.stop()
    path = next(os.path.join(s.data, n) for n in os.listdir(s.data) if n.endswith(".db"))
    with open(path, "r+b") as f:
        f.write(b"this is not a database at all, sorry" * 10)
    before = open(path, "rb").read()
    s.spawn()
    check(s.wait() > 0, "exit status")
    eq(open(path, "rb").read(), before, "the file is left alone")


def test_metrics_stay_on_this_machine(s):
    with Http(s.port) as connection:
        eq(connection.request("GET", "/metrics").status, 200, "from loopback, without a token")


@server(args=("--clock=manual",))
def test_manual_clock_is_announced(s):
    eq(s.call("server.info")["clock"], "manual", "clock")
    first = s.events(s.talk())[0]["ts"]
    eq(s.events(s.talk())[0]["ts"], first, "time stands still")
    now = s.call("clock.advance", ms=90_061_001)["now"]
    eq(s.events(s.talk())[0]["ts"], now, "until it is told to go on")
    check(now > first, "forwards")
    for wrong in (-1, "5", 1.5, 1 << 62):
        s.refused("INVALID_PARAMS", "clock.advance", ms=wrong)
    s.restart()
    check(s.events(s.talk())[0]["ts"] >= now, "a restart does not set it back")


def test_a_real_clock_cannot_be_advanced(s):
    s.refused("FORBIDDEN", "clock.advance", ms=1)


if __name__ == "__main__":
    main()
