"""The library of the black-box tests: a server to test, ways to call it, and a TAP main.

A test file holds functions test_*, a docstring where the name does not say it all, and ends with
main(). A function that takes a parameter gets a Server of its own, started on an empty folder with
the options that @server(...) names; when the function returns, the server must end with status 0 on
SIGTERM. Each function runs in a process of its own, with a deadline; what it started dies with it.

    REEVE_BIN=build/reeve python3 tests/scenario/test_turns.py [word…]

runs those whose name contains a word. TAP_SLOW=4 multiplies every deadline (sanitizers, valgrind);
TAP_FIRST=1 ends the run at the first that fails.
REEVE_TEST_BELL=never or =ten spoils the doorbell of every server (bell/bell.h): the outcomes are the
same (P11).
Nothing waits by sleeping: wait_for() polls for a condition, everything else blocks on a socket.
"""
import collections
import ctypes
import inspect
import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

from wire import PATIENCE, Closed, EventStream, Http, WebSocket

BIN = os.path.abspath(os.environ.get("REEVE_BIN", "build/reeve"))

# Without a bell those who wait look by themselves: often, or the tests would take their time.
BELL = os.environ.get("REEVE_TEST_BELL")
BELL_ARGS = ["--set", "worker.watchdog_interval_seconds=1"] if BELL == "never" else []

# PROTOCOL: the code of each name. A refusal must carry both.
ERRORS = {
    "PARSE": -32700, "INVALID_REQUEST": -32600, "NO_METHOD": -32601, "INVALID_PARAMS": -32602,
    "INTERNAL": -32603, "TURN_ALREADY_OPEN": -32010, "CONVERSATION_FINALIZED": -32011,
    "INVALID_TURN": -32012, "FINALITY_RULE": -32013, "NOT_FOUND": -32014,
    "CONVERSATION_BLOCKED": -32015, "IDEMPOTENCY_CONFLICT": -32016,
    "SUPERSEDED": -32017, "STALE_EPOCH": -32018, "INVALID_TRANSITION": -32019, "PRECONDITION_FAILED": -32020, "UNAUTHENTICATED": -32021,
    "FORBIDDEN": -32022, "RATE_LIMITED": -32023, "TOO_LARGE": -32024, "UNAVAILABLE": -32026,
}


class Skip(Exception):
    """Raised by a test that cannot run here; the text says why."""


class RpcError(Exception):
    def __init__(self, error):
        super().__init__(json.dumps(error))
        self.code, self.message = error["code"], error["message"]
        self.data = error.get("data") or {}
        self.name = self.data.get("name")


def eq(got, want, what="value"):
    if got != want:
        raise AssertionError(f"{what} is {got!r}, not {want!r}")


def check(condition, what=""):
    if not condition:
        raise AssertionError(what or "condition does not hold")


def wait_for(condition, what, seconds=PATIENCE):
    """Polls until condition() is true, and returns that value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:.0f} s for {what}")
        select.select([], [], [], 0.005)
    return value


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Caller:
    """JSON-RPC on anything that has exchange(request object) -> response object."""

    ids = itertools.count(1)

    def call(self, method, **params):
        request = {"jsonrpc": "2.0", "id": next(self.ids), "method": method, "params": params}
        answer = self.exchange(request)
        eq(answer.get("jsonrpc"), "2.0", "jsonrpc")
        if "error" not in answer or answer["error"]["code"] != ERRORS["UNAUTHENTICATED"]:
            eq(answer.get("id"), request["id"], "id of the answer")  # a stranger is not even read
        eq("result" in answer, "error" not in answer, f"result or error in {answer}")
        if "error" in answer:
            raise RpcError(answer["error"])
        return answer["result"]

    def refused(self, name, method, **params):
        """The call must fail with this error; returns it."""
        try:
            result = self.call(method, **params)
        except RpcError as e:
            eq((e.name, e.code), (name, ERRORS[name]), f"error {e}")
            check(e.message, "an error has a text for people")
            return e
        raise AssertionError(f"{method} {params} gave {result}, not {name}")

    def say(self, conversation, agent, text, finality="none", **more):
        return self.call("message.send", conversation=conversation, agentId=agent, text=text,
                         finality=finality, **more)

    def events(self, conversation):
        """The whole log of a conversation, page by page."""
        events, after = [], 0
        while True:
            page = self.call("event.list", conversation=conversation, afterSeq=after, limit=1000)
            events += page["events"]
            if not page["events"]:
                return events
            after = page["nextAfterSeq"]
            eq(after, events[-1]["seq"], "nextAfterSeq")

    def head(self, conversation):
        """The part of conversation.get that the log decides."""
        head = self.call("conversation.get", conversation=conversation)["head"]
        return {k: head[k] for k in ("lastTurn", "lastClosedSeq", "hasOpenTurn")}

    def talk(self, *roles, **more):
        """A new conversation of these roles."""
        agents = [{"role": r} for r in roles or ("a", "b")]
        return self.call("conversation.create", agents=agents, **more)["conversation"]


class Client(Caller):
    """JSON-RPC over HTTP; one keep-alive connection for each thread."""

    def __init__(self, port, token):
        self.port, self.token = port, token
        self.local = threading.local()

    def http(self):
        """A fresh connection with this client's token."""
        return Http(self.port, self.token)

    def post(self, body, **headers):
        """Sends body as it is; returns the Response."""
        connection = getattr(self.local, "connection", None) or self.http()
        self.local.connection = None
        answer = connection.request("POST", "/rpc", body, headers or None)
        if answer.headers.get("connection", "").lower() != "close":
            self.local.connection = connection
        return answer

    def exchange(self, request):
        return self.post(json.dumps(request).encode()).json()

    def get(self, path, **headers):
        with self.http() as connection:
            return connection.request("GET", path, headers=headers)

    def stream(self, query="", **options):
        return EventStream(self.port, self.token, query, **options)

    def socket(self, **options):
        return Socket(self.port, self.token, **options)


class Socket(WebSocket, Caller):
    """JSON-RPC over WebSocket, with what the server pushes kept in order of arrival."""

    def __init__(self, port, token, **options):
        super().__init__(port, token, **options)
        self.pushed = collections.deque()
        if not self.refusal:
            greeting = json.loads(self.text_in())
            eq(greeting["method"], "welcome", "the first frame")
            self.welcome = greeting["params"]

    def exchange(self, request):
        self.text_out(json.dumps(request))
        return self.answer(request.get("id"))

    def answer(self, want_id):
        while True:
            message = json.loads(self.text_in())
            if not isinstance(message, dict) or "method" not in message:
                eq(message.get("id"), want_id, "id of the answer")
                return message
            check("id" not in message, f"a notification has no id: {message}")
            self.pushed.append(message)

    def push(self, timeout=None):
        """The next (method, params) that the server pushed."""
        while not self.pushed:
            message = json.loads(self.text_in(timeout))
            check("method" in message, f"not a notification: {message}")
            self.pushed.append(message)
        message = self.pushed.popleft()
        return message["method"], message["params"]

    def event(self, timeout=None):
        method, params = self.push(timeout)
        eq(method, "event", f"notification {params}")
        return params

    def subscribe(self, **params):
        return self.call("event.subscribe", **params)["subscription"]


class Server(Client):
    """`reeve serve` on a folder; also a client of it with the operator's token."""

    def __init__(self, data=None, args=(), env=None, listen="127.0.0.1:0"):
        self.listen = listen
        self.data = data or os.path.join(folder(), f"data{next(self.ids)}")
        self.args, self.env = list(args), dict(env or {})
        self.process = None

    def spawn(self):
        """Starts the process without waiting for anything."""
        self.log_path = f"{self.data}.log"
        os.makedirs(os.path.dirname(self.log_path), exist_ok=True)
        with open(self.log_path, "ab") as log:
            argv = [BIN, "serve", "--data", self.data, "--listen", self.listen, *BELL_ARGS,
                    *self.args]
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=os.environ | self.env, preexec_fn=die_with_parent)
        return self.process

    def start(self):
        """Starts it and waits until server.json is that of the new process."""
        self.spawn()
        where = wait_for(self.ready, "server.json")
        port = int(where["url"].rpartition(":")[2])
        with open(os.path.join(self.data, "operator.token")) as f:
            super().__init__(port, f.read().strip())
        self.url = where["url"]
        return self

    def ready(self):
        if self.process.poll() is not None:
            raise AssertionError(f"the server ended with {self.process.returncode}:\n{self.log()}")
        try:
            with open(os.path.join(self.data, "server.json")) as f:
                where = json.load(f)
        except FileNotFoundError:
            return None
        return where if where["pid"] == self.process.pid else None

    def wait(self, seconds=PATIENCE):
        status = self.process.wait(seconds)
        self.process = None
        return status

    def stop(self, sig=signal.SIGTERM):
        """Asks it to end; it must do so well."""
        self.process.send_signal(sig)
        eq(self.wait(), 0, "exit status")
        for mark in ("ERROR: AddressSanitizer", "runtime error:", "ThreadSanitizer: data race"):
            _, found, report = self.log().partition(mark)
            check(not found, mark + report[:3000])

    def kill(self):
        self.process.kill()
        self.wait()

    def restart(self, how="kill"):
        self.kill() if how == "kill" else self.stop()
        return self.start()

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()

    def as_token(self, **params):
        """A client with a fresh token of this scope."""
        return Client(self.port, self.call("token.create", **params)["secret"])


def reeve(*args, data=None, stdin="", env=None):
    """Runs a client verb; returns subprocess.CompletedProcess with text."""
    argv = [BIN, *map(str, args)]
    if data:
        argv += ["--data", data]
    clean = {k: v for k, v in os.environ.items()
             if k != "COLUMNS" and (not k.startswith("REEVE_") or k == "REEVE_BIN")}
    return subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=PATIENCE,
                          env=clean | (env or {}))


def folder():
    """A folder of this test, removed after it."""
    return os.environ["REEVE_TEST_FOLDER"]


def together(*functions):
    """Runs them in threads at the same time; the first exception is raised here."""
    errors = []

    def guarded(fn):
        try:
            fn()
        except BaseException as e:  # noqa: B036 - handed to the caller below
            errors.append(e)

    threads = [threading.Thread(target=guarded, args=(fn,), daemon=True) for fn in functions]
    for t in threads:
        t.start()
    for t in threads:
        t.join(2 * PATIENCE)
        check(not t.is_alive(), "a thread did not end")
    if errors:
        raise errors[0]


def server(*settings, args=(), env=None, deadline=None):
    """Decorator: how the server of this test is started. server("net.body_bytes_max=2048")"""

    def mark(fn):
        fn.server = {"args": [*args, *(x for s in settings for x in ("--set", s))], "env": env}
        fn.deadline = deadline
        return fn

    return mark


def run(fn):
    """In the child: the test with its server. 0 passed, 1 failed, 2 skipped."""
    s = None
    try:
        if inspect.signature(fn).parameters:
            s = Server(**getattr(fn, "server", {})).start()
            fn(s)
            if s.process:
                s.stop()
        else:
            fn()
        return 0
    except Skip as e:
        print(e)
        return 2
    except BaseException:  # noqa: B036 - everything is a failure of the test
        traceback.print_exc(file=sys.stdout)
        if s and os.path.exists(s.log_path):
            print("--- end of the server's log ---\n" + s.log()[-3000:])
        return 1


def child(fn, out):
    os.setpgid(0, 0)
    die_with_parent()
    os.dup2(out, 1)
    os.dup2(out, 2)
    status = run(fn)
    sys.stdout.flush()
    os._exit(status)


def run_apart(fn, seconds):
    """Runs fn in a process group of its own. (status, output); status None: out of time."""
    os.environ["REEVE_TEST_FOLDER"] = home = tempfile.mkdtemp(prefix="reeve-test-")
    out, into = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        child(fn, into)
    os.close(into)
    output, deadline = b"", time.monotonic() + seconds
    ended = os.pidfd_open(pid)
    while (left := deadline - time.monotonic()) > 0:
        readable, _, _ = select.select([out, ended], [], [], left)
        if ended in readable:
            break
        if out in readable:
            output += os.read(out, 1 << 16)
    # The group is ours until its leader is reaped, so its number cannot be anyone else's.
    os.killpg(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    while select.select([out], [], [], 0)[0] and (rest := os.read(out, 1 << 16)):
        output += rest
    os.close(out)
    os.close(ended)
    shutil.rmtree(home, ignore_errors=True)
    status = None if left <= 0 else os.waitstatus_to_exitcode(status)
    return status, output.decode(errors="replace")


def main(seconds=40):
    module = sys.modules["__main__"]
    tests = [f for n, f in vars(module).items() if n.startswith("test_") and callable(f)]
    words = sys.argv[1:]
    tests = [f for f in tests if not words or any(w in f.__name__ for w in words)]
    print(f"1..{len(tests)}")
    failed = 0
    for number, fn in enumerate(tests, 1):
        limit = (getattr(fn, "deadline", None) or seconds) * PATIENCE / 20
        status, output = run_apart(fn, limit)
        name = fn.__name__.removeprefix("test_")
        failed += status not in (0, 2)
        print("ok" if status in (0, 2) else "not ok", number, "-", name, end="")
        print(f" # SKIP {output.strip()}" if status == 2 else "")
        if status is None:
            print(f"# not done in {limit:.0f} s")
        if status != 2:
            print("".join(f"# {line}\n" for line in output.splitlines()), end="")
        sys.stdout.flush()
        if failed and os.environ.get("TAP_FIRST"):
            break
    sys.exit(failed > 0)


__all__ = ["BELL", "BIN", "ERRORS", "Caller", "Client", "Closed", "EventStream", "Http", "RpcError",
           "Server", "Skip", "Socket", "WebSocket", "check", "eq", "folder", "main", "reeve",
           "server", "together", "wait_for"]
