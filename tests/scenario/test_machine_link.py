"""What `reeve machine` says and does, command by command, with a server that the test plays.

FakeServer speaks as much of the contract as a machine uses. A poll waits until the test gives
commands; whatever is reported can be looked at.
"""
import http.server
import json
import os
import threading
import time

from daemon import Daemon, is_alive, sh, stay
from reeve_test import check, eq, main, wait_for
from wire import PATIENCE

TOKEN = "f" * 64


class Refusal(Exception):
    def __init__(self, code, name, status=200):
        super().__init__(name)
        self.code, self.name, self.status = code, name, status


class FakeServer:
    """Answers machine.register, .poll, .report and .log. `s.facts` is what was accepted."""

    def __init__(self):
        self.lock = threading.Condition()
        self.commands, self.facts, self.logs = [], [], []
        self.registers, self.reports, self.lists = [], [], []
        self.refuse = {}   # method -> function of params that may raise Refusal
        self.attempts = self.polls = 0
        self.token = TOKEN
        self.listen()

    def listen(self):
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, answer = fake.answer(request, self.headers.get("Authorization"))
                body = json.dumps({"jsonrpc": "2.0", "id": request["id"]} | answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.http.handle_error = lambda *_: None  # machines are killed in the middle of things
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def answer(self, request, authorization):
        method, params = request["method"], request["params"]
        with self.lock:
            self.attempts += 1
            self.lock.notify_all()
            try:
                if authorization != f"Bearer {self.token}":
                    raise Refusal(-32021, "UNAUTHENTICATED", 401)
                self.refuse.get(method, lambda _: None)(params)
                result = getattr(self, method.replace(".", "_"))(params)
            except Refusal as r:
                return r.status, {"error": {"code": r.code, "message": r.name,
                                            "data": {"name": r.name}}}
            return 200, {"result": result}

    def machine_register(self, params):
        self.registers.append(params)
        self.lists.append(params["n"])
        self.lock.notify_all()
        return {"commands": self.take(), "ttlMs": 90000}

    def machine_poll(self, params):
        self.alive = params["alive"]
        self.lists.append(params["n"])
        self.polls += 1

        def is_old():  # its machine has been killed since
            return params["instance"] != self.registers[-1]["instance"]
        self.lock.wait_for(lambda: self.commands or is_old(), PATIENCE)
        return {"commands": [] if is_old() else self.take()}

    def machine_report(self, params):
        self.reports.append(params["facts"])
        self.facts += params["facts"]
        return {"acceptedTo": params["facts"][-1]["n"], "rejected": []}

    def machine_log(self, params):
        self.logs.append(params)
        return {}

    def take(self):
        given, self.commands = self.commands, []
        return given

    # ---- what tests do ----

    def give(self, *commands):
        with self.lock:
            self.commands += commands
            self.lock.notify_all()

    def fact(self, fact, spawn):
        """Waits until it is told."""
        return wait_for(lambda: next((f for f in self.facts if (f["fact"], f["spawnId"]) ==
                                      (fact, spawn)), None), f"{fact} of {spawn}: {self.facts}")

    def facts_of(self, spawn):
        return [f["fact"] for f in self.facts if f["spawnId"] == spawn]


def start(spawn, role="a", kind="stay", ttl=60000, **more):
    return {"command": 1, "type": "start-agent", "conversation": 1, "role": role, "kind": kind,
            "spawnId": spawn, "ttlMs": ttl, "token": f"token-of-{spawn}"} | more


def stop(spawn):
    return {"command": 2, "type": "stop-agent", "conversation": 1, "role": "a", "kind": "stay",
            "spawnId": spawn, "ttlMs": 60000}


def machine(fake, kinds=None, **more):
    return Daemon(None, kinds or {"stay": sh(stay())}, url=fake.url, token=TOKEN, **more)


# ---- commands ----

def test_register_says_what_there_is():
    fake = FakeServer()
    with machine(fake, {"stay": (sh(stay()), {"stop_grace": "7s", "restart": "always",
                                              "ready": "notify"})}) as d:
        eq(fake.registers[0]["kinds"], [{"name": "stay", "restart": "always", "ready": "notify",
                                         "stopGraceMs": 7000}], "kinds")
        eq((fake.registers[0]["machine"], fake.registers[0]["processes"]), ("m1", []), "at first")
        fake.give(start("s1"))
        told = fake.fact("spawned", "s1")
        d.restart()
        (process,) = fake.registers[1]["processes"]
        eq(process, {"spawnId": "s1", "pid": told["pid"], "startTime": told["startTime"],
                     "state": "running"}, "after a restart")
        check(fake.registers[0]["instance"] != fake.registers[1]["instance"], "a new instance")
        wait_for(lambda: fake.alive == ["s1"], "alive")


def test_P21_lists_of_what_it_has_count_up():
    fake = FakeServer()
    with machine(fake):
        fake.give(start("s1"))
        fake.fact("spawned", "s1")
        wait_for(lambda: fake.polls >= 2, "another poll")
        eq(fake.lists, list(range(1, len(fake.lists) + 1)), "register and polls")


def test_the_same_spawn_id_twice_is_one_spawn():
    fake = FakeServer()
    with machine(fake, {"stay": sh(stay()), "short": sh("exit 3")}) as d:
        fake.give(start("s1"), start("s1"))
        pid = fake.fact("spawned", "s1")["pid"]
        fake.give(start("s1"), start("s2", role="b", kind="short"))
        eq(fake.fact("exited", "s2")["exit"]["code"], 3, "the other one")
        eq((fake.facts_of("s1"), is_alive(pid)), (["spawned"], True), "the first one")
        d.restart()
        fake.give(start("s1"), start("s3", role="c"))
        fake.fact("spawned", "s3")
        eq((fake.facts_of("s1"), is_alive(pid)), (["spawned"], True), "after a restart")


def test_L47_a_stop_of_something_unknown_is_a_stop():
    fake = FakeServer()
    with machine(fake):
        fake.give(stop("nobody"), stop("nobody"))
        check("no such process" in fake.fact("stopped", "nobody")["exit"]["text"], "why")
        fake.give(start("s1"))
        fake.fact("spawned", "s1")
        eq(fake.facts_of("nobody"), ["stopped"], "once")


def test_P21_a_new_process_of_an_agent_waits_for_the_end_of_the_old_one():
    """Whatever the command is called. A stop of the one that waits is done at once."""
    fake = FakeServer()
    deaf = sh(f"trap '' TERM; while kill -0 {os.getpid()}; do sleep 0.1; done")
    with machine(fake, {"stay": sh(stay()), "deaf": (deaf, {"stop_grace": "1s"})}):
        fake.give(start("s1", kind="deaf"))
        old = fake.fact("spawned", "s1")["pid"]
        fake.give(start("s2", type="restart-agent"), start("s3", type="restart-agent"))
        wait_for(lambda: "s3" in fake.alive, f"what waits is named: {fake.alive}")
        check("took its place" in fake.fact("start_failed", "s2")["error"], "only the newest counts")
        fake.give(stop("s3"))
        fake.fact("stopped", "s3")
        fake.give(start("s4"))
        fake.fact("spawned", "s4")
        check(not is_alive(old), "the old one is dead")
        told = [(f["fact"], f["spawnId"]) for f in fake.facts]
        check(told.index(("stopped", "s1")) < told.index(("spawned", "s4")), f"order: {told}")


def test_a_command_that_ran_out_is_refused():
    fake = FakeServer()
    deaf = sh(f"trap '' TERM; while kill -0 {os.getpid()}; do sleep 0.1; done")
    with machine(fake, {"stay": sh(stay()), "deaf": (deaf, {"stop_grace": "1s"})}):
        fake.give(start("s0", role="z", ttl=0))
        check("expired" in fake.fact("start_failed", "s0")["error"], "at delivery")
        fake.give(start("s1", kind="deaf"))
        fake.fact("spawned", "s1")
        fake.give(start("s2", ttl=1))
        check("expired" in fake.fact("start_failed", "s2")["error"], "while it waited")
        eq(fake.facts_of("s1"), ["spawned", "stopped"], "the old one was stopped all the same")


def test_what_is_no_command_starts_nothing():
    fake = FakeServer()
    with machine(fake) as d:
        fake.give(start("../../x"), start("a/b"), start(""), start("s1", role="../x"),
                  {"type": "run", "argv": ["touch", "/tmp/x"]}, {"nonsense": 1},
                  start("s2", kind="other"), start("s3", token=""))
        check("no kind 'other'" in fake.fact("start_failed", "s2")["error"], "an unknown kind")
        check("role" in fake.fact("start_failed", "s1")["error"], "a role that is a path")
        check("token" in fake.fact("start_failed", "s3")["error"], "a process could not speak")
        eq({f["spawnId"] for f in fake.facts}, {"s1", "s2", "s3"}, "others are not even reported")
        eq(os.listdir(os.path.join(d.data, "spawns")), [], "folders")


def test_ready_is_told():
    fake = FakeServer()
    say = "python3 -c 'import os, socket; a = os.environ[\"NOTIFY_SOCKET\"].replace(\"@\", \"\\0\"); " \
          "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b\"READY=1\", a)'; "
    with machine(fake, {"stay": sh(say + stay())}):
        fake.give(start("s1"))
        eq(fake.fact("notify", "s1")["ready"], True, "ready")


def test_the_end_of_a_log_is_sent():
    fake = FakeServer()
    script = "seq 1 100000; printf '\\377 \\033[1m end'; " + stay()
    with machine(fake, {"stay": sh(script)}) as d:
        fake.give(start("s1"))
        wait_for(lambda: "100000" in open(f"{d.data}/logs/1/a.log", errors="replace").read()
                 if fake.fact("spawned", "s1") else None, "its output")
        for number, ask in enumerate(({"tailBytes": 100}, {}, {"role": "nobody"}, {"role": "../a"},
                                      {"tailBytes": 1 << 40})):
            fake.give({"type": "read-log", "request": number, "conversation": 1, "role": "a"} | ask)
        got = wait_for(lambda: {x["request"]: x for x in fake.logs if len(fake.logs) == 4}, "answers")
        check(len(got[0]["text"]) <= 100 and got[0]["truncated"] and " out " in got[0]["text"],
              got[0])
        check(got[0]["text"].startswith("20"), "from the start of a line")
        check(len(json.dumps(got[1]["text"])) < 1 << 20 and got[1]["truncated"], "what fits")
        eq((got[2]["text"], got[2]["truncated"]), ("", False), "no such agent")
        eq(got[4]["text"], got[1]["text"], "no more than a mebibyte")


# ---- a server that misbehaves ----

def test_a_server_that_forgot_the_machine_is_registered_with_again():
    fake = FakeServer()
    with machine(fake):
        def forgot(_):
            fake.refuse.clear()
            raise Refusal(-32014, "NOT_FOUND")
        fake.refuse["machine.poll"] = forgot
        fake.give({"type": "read-log"})  # ends the poll that waits
        wait_for(lambda: len(fake.registers) == 2, "registered again")
        eq(fake.registers[0]["instance"], fake.registers[1]["instance"], "the same instance")


def test_L57_a_report_that_is_refused_as_a_whole_blocks_nothing():
    """The server cannot take one of many; that one is found, set aside, and made good by a
    register."""
    fake = FakeServer()
    with machine(fake, {"stay": sh(stay())}) as d:
        def bad(params):
            if any(f["spawnId"] == "bad" for f in params["facts"]):
                raise Refusal(-32602, "INVALID_PARAMS")
        fake.refuse["machine.report"] = bad
        fake.give(stop("s1"), stop("bad"), stop("s2"), stop("s3"))
        for spawn in ("s1", "s2", "s3"):
            fake.fact("stopped", spawn)
        check('"bad"' in open(os.path.join(d.data, "outbox.rejected")).read(), "set aside")
        fake.give({"type": "read-log"})
        wait_for(lambda: len(fake.registers) == 2, "registered again")
        wait_for(lambda: not d.outbox(), "nothing is left")


def test_facts_are_told_in_order_and_again_until_they_are_accepted():
    fake = FakeServer()
    with machine(fake) as d:
        def busy(_):
            raise Refusal(-32026, "UNAVAILABLE")
        fake.refuse["machine.report"] = busy
        fake.give(stop("s1"), stop("s2"))
        wait_for(lambda: len(d.outbox()) == 2, "two facts wait")
        d.restart()
        fake.give(stop("s3"))
        wait_for(lambda: len(d.outbox()) == 3, "three facts wait")
        fake.refuse.clear()
        fake.fact("stopped", "s3")
        eq([f["spawnId"] for f in fake.facts], ["s1", "s2", "s3"], "order")
        numbers = [f["n"] for f in fake.facts]
        eq(numbers, [1, 2, 3], "numbers go on across a restart")


def test_L78_without_a_server_it_neither_spins_nor_chatters():
    """Whoever listens there refuses. Waits grow: eight attempts take more than a second on any
    machine. A token that is put right is used without a restart."""
    fake = FakeServer()
    fake.token = "another"
    with machine(fake, start=False) as d:
        d.spawn()
        began = time.monotonic()
        wait_for(lambda: fake.attempts >= 8, "attempts")
        check(time.monotonic() - began > 1.0, "attempts in less than a second")
        eq(d.log().count("cannot register"), 1, d.log())
        eq(d.log().count("\n"), 2, d.log())
        d.set_token("another")
        wait_for(lambda: "link registered" in d.log(), "the new token")


def test_superseded_is_the_end_whoever_is_told():
    for method in ("machine.poll", "machine.report"):
        fake = FakeServer()
        with machine(fake) as d:
            fake.give(start("s1"))
            pid = fake.fact("spawned", "s1")["pid"]

            def over(_):
                raise Refusal(-32017, "SUPERSEDED")
            fake.refuse[method] = over
            fake.give(stop("nobody"))
            eq(d.wait(), 3, f"exit status after {method}")
            check(is_alive(pid), "agents go on")


def test_down_takes_no_more_commands():
    """The server starts anew what ends: not here."""
    fake = FakeServer()
    with machine(fake) as d:
        fake.give(start("s1"))
        fake.fact("spawned", "s1")
        wait_for(lambda: fake.polls == 2, "the second poll")
        told = fake.machine_report

        def again(params):
            fake.give(start("s2"))
            return told(params)
        fake.machine_report = again
        d.down()
        eq([(f["fact"], f["spawnId"]) for f in fake.facts], [("spawned", "s1"), ("stopped", "s1")])
        eq(fake.polls, 2, "polls: none was begun after it")


if __name__ == "__main__":
    main(60)
