"""A machine in Python, for the tests of the shim: it starts shims and talks to them (src/machine/shim.h)."""
import json
import os
import signal
import socket
import subprocess

from reeve_test import BIN, check, die_with_parent, eq, folder, wait_for
from wire import PATIENCE

SHIM = os.path.join(os.path.dirname(BIN), "reeve-shim")
MISBEHAVE = os.path.join(os.path.dirname(BIN), "tests", "misbehave")


class Line:
    """One end of a line: facts come, wishes go."""

    def __init__(self, sock):
        self.sock = sock
        sock.settimeout(PATIENCE)

    def fact(self):
        """The next one; None once the shim has closed the line."""
        packet = self.sock.recv(1 << 16)
        return json.loads(packet) if packet else None

    def until(self, *names):
        """The next fact of one of these names; those before it are passed over."""
        while (fact := self.fact()) is not None:
            if fact["fact"] in names:
                return fact
        raise AssertionError(f"the line was closed before {names}")

    def ready(self):
        while not self.until("notify").get("ready"):
            pass

    def send(self, **message):
        self.sock.send(json.dumps(message).encode())


def fill(sock):
    """Until not one packet more is taken."""
    sock.setblocking(False)
    try:
        while True:
            sock.send(b"{}")
    except BlockingIOError:
        pass


class Spawn:
    """A shim and the agent it was told to run."""

    count = 0

    def __init__(self, *argv, command=(SHIM,), home=None, full_line=False, line=None, **order):
        Spawn.count += 1
        self.home = home or folder()
        self.id = f"{os.getpid()}-{Spawn.count}"
        self.folder = os.path.join(self.home, self.id)
        self.log_path = os.path.join(self.home, "agent.log")
        os.mkdir(self.folder, 0o700)
        order = {"spawnId": self.id, "folder": self.folder, "argv": list(argv),
                 "env": [f"PATH={os.environ['PATH']}", f"REEVE_SPAWN={self.id}"], "cwd": self.home,
                 "log": self.log_path, "logBytesMax": 1 << 30, "stopGraceMs": 20000} | order
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if full_line:
            fill(its)

        def prepare():
            die_with_parent()
            os.dup2(its.fileno() if line is None else line, 3)

        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, close_fds=False, preexec_fn=prepare,
                                        stderr=subprocess.PIPE)
        its.close()
        self.line = Line(ours)
        try:
            self.process.stdin.write(json.dumps(order).encode())
            self.process.stdin.close()
        except BrokenPipeError:
            pass

    def spawned(self):
        fact = self.line.until("spawned")
        self.pid = fact["pid"]
        return fact

    def stop(self, grace_ms=0):
        self.line.send(do="stop", graceMs=grace_ms)
        return self.last_word()

    def last_word(self):
        """The last fact, which is that in the file, with a shim that has ended well."""
        fact = self.line.until("exited", "stopped", "start_failed")
        eq(self.record("ended"), fact, "the file `ended`")
        self.wait()
        return fact

    def wait(self):
        said = self.process.stderr.read().decode()
        eq((self.process.wait(), said), (0, ""), f"status of the shim; the log ends in\n{self.log()[-3000:]}")

    def record(self, name):
        with open(os.path.join(self.folder, name)) as f:
            return json.load(f)

    def connect(self):
        """As a machine that comes later does. None if nobody listens yet."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        fd = os.open(self.folder, os.O_PATH)
        try:
            sock.connect(f"/proc/self/fd/{fd}/line")
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        finally:
            os.close(fd)
        return Line(sock)

    def log(self):
        if not os.path.exists(self.log_path):
            return ""
        with open(self.log_path, errors="surrogateescape") as f:
            return f.read()

    def lines(self, stream):
        """What the log has of `out`, `err` or `run`, without the time."""
        return [line[29:] for line in self.log().splitlines() if line[25:28] == stream]


def misbehave(kind, number=0, word="", **order):
    return Spawn(MISBEHAVE, kind, str(number), word, **order)


def is_alive(pid):
    """A zombie is not (L34)."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def processes_with(word):
    """The pids of all that have this word in their command line."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            continue
        if word.encode() in words and is_alive(int(name)):
            found.append(int(name))
    return found


def no_survivors(word):
    left = processes_with(word)
    for pid in left:
        os.kill(pid, signal.SIGKILL)  # so that a failure leaves nothing behind
    eq(left, [], "processes that are left")


__all__ = ["MISBEHAVE", "SHIM", "Line", "Spawn", "check", "is_alive", "misbehave", "no_survivors",
           "processes_with", "signal", "wait_for"]
