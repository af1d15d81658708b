"""Servers of our own for make bench: each a child process with a folder, gone when we are."""

import contextlib
import glob
import json
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time


class Failure(Exception):
    """Something of ours did not work; the message says what."""


class Missing(Exception):
    """A peer is not there to be compared with; the message says why."""


def say(text):
    print(text, file=sys.stderr, flush=True)


# ---- processes ----


def guarded(argv, user=None, death_signal=signal.SIGTERM):
    """argv as another user, and such that it dies with this script, however that ends."""
    become = []
    if user:
        become = ["--reuid", user, "--regid", str(pwd.getpwnam(user).pw_gid), "--clear-groups"]
    if not shutil.which("setpriv"):
        if user:
            raise Missing("setpriv is not installed")
        return argv
    return ["setpriv", "--pdeathsig", death_signal.name[3:], *become, "--", *argv]


def clean_env(**extra):
    """Without what would change a server's settings behind our back."""
    prefixes = ("REEVE_", "WATCHDOG_", "PG", "BENCH_")
    return {k: v for k, v in os.environ.items() if not k.startswith(prefixes)} | extra


def wait_until(condition, seconds, what, process):
    deadline = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None:
            raise Failure(f"{what}: it ended with status {process.returncode}")
        if time.monotonic() > deadline:
            raise Failure(f"{what}: not ready after {seconds} s")
        time.sleep(0.01)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A child process with a folder of its own; `with` starts it, waits for it, and stops it."""

    stop_signal = signal.SIGTERM

    def __init__(self, folder):
        self.folder = folder
        self.log = folder + ".log"
        self.secret = ""
        self.address = None
        self.process = None
        self.environment = {}
        os.mkdir(folder)

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exception):
        self.stop()

    def spawn(self, argv, user=None, stdin=None):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                guarded(argv, user, self.stop_signal),
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL, stdout=log, stderr=log,
                env=clean_env(**self.environment), start_new_session=True)
        if stdin:
            with self.process.stdin as pipe:
                pipe.write(stdin.encode())

    def stop(self, seconds=30):
        if not self.process or self.process.poll() is not None:
            return
        self.process.send_signal(self.stop_signal)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def tail(self):
        with contextlib.suppress(OSError), open(self.log, errors="replace") as log:
            return "".join(log.readlines()[-10:])
        return ""

    def memory(self):
        """VmRSS in bytes."""
        with open(f"/proc/{self.process.pid}/status") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
        raise Failure("the server has ended")


class Reeve(Server):
    def __init__(self, folder, binary, wrapper=(), options=()):
        super().__init__(folder)
        self.argv = [*wrapper, binary, "serve", "--data", folder, "--listen", "127.0.0.1:0",
                     *options]
        self.patience = 60 if wrapper else 15

    def start(self):
        ready = os.path.join(self.folder, "server.json")
        self.spawn(self.argv)
        try:
            wait_until(lambda: os.path.exists(ready), self.patience, "reeve", self.process)
        except Failure as e:
            raise Failure(f"{e}\n{self.tail()}") from None
        with open(ready) as f:
            self.address = json.load(f)["url"].removeprefix("http://")
        with open(os.path.join(self.folder, "operator.token")) as f:
            self.secret = f.read().strip()


def listening(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


class Redis(Server):
    def __init__(self, folder, durable=True):
        super().__init__(folder)
        self.durable = durable

    def start(self):
        binary = shutil.which("redis-server")
        if not binary:
            raise Missing("not installed")
        port = free_port()
        self.secret = secrets.token_hex(16)
        self.address = f"127.0.0.1:{port}"
        settings = {
            "bind": "127.0.0.1", "port": port, "dir": self.folder, "requirepass": self.secret,
            "appendonly": "yes" if self.durable else "no", "appendfsync": "always", "save": '""',
            "auto-aof-rewrite-percentage": 0,
        }
        self.spawn([binary, "-"], stdin="".join(f"{k} {v}\n" for k, v in settings.items()))
        wait_until(lambda: listening(port), 15, "redis-server", self.process)


class Beanstalkd(Server):
    def __init__(self, folder, durable=True):
        super().__init__(folder)
        self.durable = durable

    def start(self):
        binary = shutil.which("beanstalkd") or shutil.which("beanstalkd", path="/usr/sbin")
        if not binary:
            raise Missing("not installed")
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        log = ["-b", self.folder, "-f0"] if self.durable else []
        self.spawn([binary, "-l", "127.0.0.1", "-p", str(port), *log])
        wait_until(lambda: listening(port), 15, "beanstalkd", self.process)


class Postgres(Server):
    stop_signal = signal.SIGINT  # fast shutdown: does not wait for clients

    def start(self):
        self.binaries = self.find_binaries()
        self.user = self.find_user()
        port = free_port()
        self.secret = secrets.token_hex(16)
        self.address = f"127.0.0.1:{port}"
        self.initdb()
        settings = {
            "listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": "",
            "max_connections": 200, "fsync": "on", "synchronous_commit": "on", "autovacuum": "off",
            "checkpoint_timeout": "1h", "max_wal_size": "8GB",
        }
        flags = [word for k, v in settings.items() for word in ("-c", f"{k}={v}")]
        self.spawn([os.path.join(self.binaries, "postgres"), "-D", self.data, *flags], self.user)
        wait_until(self.ready, 30, "postgres", self.process)

    @staticmethod
    def find_binaries():
        """Debian keeps the servers of each version apart, none of them on the path."""
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"),
                       key=lambda path: int(path.split("/")[4]))
        path = shutil.which("initdb") or (found[-1] if found else None)
        if not path:
            raise Missing("not installed")
        return os.path.dirname(path)

    @staticmethod
    def find_user():
        """PostgreSQL refuses to run as root; None: as ourselves."""
        if os.geteuid() != 0:
            return None
        names = {entry.pw_name for entry in pwd.getpwall()}
        return "postgres" if "postgres" in names else "nobody"

    def initdb(self):
        self.data = os.path.join(self.folder, "data")
        password = os.path.join(self.folder, "password")
        with open(password, "w", opener=lambda p, flags: os.open(p, flags, 0o600)) as f:
            f.write(self.secret + "\n")
        if self.user:
            shutil.chown(self.folder, self.user)
            shutil.chown(password, self.user)
        argv = [os.path.join(self.binaries, "initdb"), "-D", self.data, "-U", "bench", "-A",
                "scram-sha-256", "--pwfile", password, "--no-sync", "--no-locale", "-E", "UTF8"]
        done = subprocess.run(guarded(argv, self.user), capture_output=True, text=True, cwd="/",
                              env=clean_env())
        if done.returncode:
            raise Missing("initdb failed: " + " ".join(done.stderr.split()[-20:]))

    def ready(self):
        """The eighth line of its pid file tells the state."""
        with contextlib.suppress(OSError), open(os.path.join(self.data, "postmaster.pid")) as f:
            return "ready" in "".join(f.readlines()[7:])
        return False
