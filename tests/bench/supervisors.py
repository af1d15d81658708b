"""Supervisors for make bench, each with beacons (beacon.c) to supervise. Used by supervise.py.

Every beacon of a supervisor writes its pid and the time at which it began to the same FIFO. A
supervisor that stops leaves no process behind, and neither does a bench that is killed.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import time

from ladder import Client
from servers import Failure, Missing, Server, clean_env, wait_until

ROLES_PER_CONVERSATION = 100
START_SECONDS = 60
END_SECONDS = 20


# ---- processes ----


def process_stat(pid):
    """(parent, start time) or None."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            fields = f.read().rpartition(")")[2].split()
        return None if fields[0] == "Z" else (int(fields[1]), int(fields[19]))
    except OSError:
        return None


def tree_of(roots):
    """{pid: start time} of these processes and all that they have started."""
    stats = {int(pid): process_stat(pid) for pid in os.listdir("/proc") if pid.isdigit()}
    children = {}
    for pid, stat in stats.items():
        if stat:
            children.setdefault(stat[0], []).append(pid)
    found, left = {}, [pid for pid in roots if stats.get(pid)]
    while left:
        pid = left.pop()
        found[pid] = stats[pid][1]
        left += children.get(pid, [])
    return found


def those_alive(processes):
    return {pid: start for pid, start in processes.items()
            if (stat := process_stat(pid)) and stat[1] == start}


def memory_of(pid):
    """(PSS, private) in bytes."""
    sums = {"Pss": 0, "Private_Clean": 0, "Private_Dirty": 0}
    with open(f"/proc/{pid}/smaps_rollup") as f:
        for line in f:
            name, _, rest = line.partition(":")
            if name in sums:
                sums[name] += int(rest.split()[0]) * 1024
    return sums["Pss"], sums["Private_Clean"] + sums["Private_Dirty"]


# ---- what all have in common ----


class Supervisor(Server):
    """`count` beacons under one supervisor. `born` holds (pid, ns) as they report."""

    name = None
    settings = ""

    def __init__(self, bench, count):
        super().__init__(bench.path(self.name))
        self.bench = bench
        self.count = count
        self.beacon = bench.args.beacon
        fifo = os.path.join(self.folder, "beacons")
        os.mkfifo(fifo)
        self.fifo = os.open(fifo, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self.unread = b""
        self.environment = {"BENCH_BEACON": fifo}

    def __enter__(self):
        super().__enter__()
        try:
            self.born = [self.next_beacon(START_SECONDS) for _ in range(self.count)]
            if len({pid for pid, _ in self.born}) < self.count:
                raise Failure(f"{self.name}: a beacon was started twice")
        except BaseException:
            self.stop()
            raise
        return self

    def next_beacon(self, seconds):
        """(pid, monotonic ns of its main()) of the next that reports."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self.unread:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.fifo], [], [], left)[0]:
                raise Failure(f"{self.name}: no beacon after {seconds} s\n{self.tail()}")
            self.unread += os.read(self.fifo, 4096)
        line, _, self.unread = self.unread.partition(b"\n")
        pid, ns = line.split()
        return int(pid), int(ns)

    def roots(self):
        return [self.process.pid]

    def supervising(self):
        """Every process that is there to supervise: of all that it has started, not the beacons."""
        beacon = os.path.realpath(self.beacon)
        return [pid for pid in tree_of(self.roots()) if os.readlink(f"/proc/{pid}/exe") != beacon]

    def footprint(self):
        """(processes that supervise, their PSS, their private memory)"""
        each = [memory_of(pid) for pid in self.supervising()]
        return len(each), sum(pss for pss, _ in each), sum(private for _, private in each)

    def end(self):
        """Asks it to end, which may return before all has ended."""
        super().stop(END_SECONDS)

    def stop(self):
        processes = tree_of(self.roots()) if self.process else {}
        self.end()
        deadline = time.monotonic() + END_SECONDS
        while (left := those_alive(processes)) and time.monotonic() < deadline:
            time.sleep(0.01)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.fifo is not None:
            os.close(self.fifo)
            self.fifo = None

    def check_restart(self):
        """Right after a replacement has reported. Failure if it has come about in another way."""

    def find(self, program):
        path = shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")
        if not path:
            raise Missing("not installed")
        return path


# ---- reeve ----


class Machine(Server):
    stop_signal = signal.SIGUSR1  # as `reeve down` does it: agents first

    def __init__(self, supervisor):
        super().__init__(supervisor.path("machine"))
        self.environment = supervisor.environment
        self.argv = [supervisor.bench.args.reeve, "machine", "--data", supervisor.server.folder,
                     "--config", os.path.join(self.folder, "kinds.conf")]
        with open(self.argv[-1], "w") as f:
            f.write('kind beacon {\n'
                    f'    argv = {{"{supervisor.beacon}"}}\n'
                    '    restart = always\n}\n')

    def start(self):
        self.spawn(self.argv)


class ReeveSupervisor(Supervisor):
    name = "reeve"
    settings = "restart.burst=0 restart.stable_seconds=1"

    def start(self):
        options = [word for each in self.settings.split() for word in ("--set", each)]
        self.server = self.bench.reeve(options=options)
        self.machine = Machine(self)
        self.server.start()
        self.machine.start()
        self.process = self.machine.process
        self.client = Client(self.server)
        agents = [{"role": f"r{n}", "kind": "beacon", "desired": "running"}
                  for n in range(self.count)]
        made = self.client.batch("conversation.create", [
            {"agents": agents[i:i + ROLES_PER_CONVERSATION]}
            for i in range(0, self.count, ROLES_PER_CONVERSATION)])
        self.conversation, self.seen_seq, self.seen_command = made[0]["conversation"], 0, 0
        self.new_commands()

    def path(self, name):
        return self.bench.path(name)

    def roots(self):
        return [self.server.process.pid, self.machine.process.pid]

    def end(self):
        self.machine.stop(END_SECONDS)
        self.server.stop(END_SECONDS)

    def tail(self):
        return self.server.tail() + self.machine.tail()

    def list_new(self, method, what, **after):
        page = {"conversation": self.conversation, "limit": 100} | after
        return self.client.batch(method, [page])[0][what]

    def new_exits(self):
        events = self.list_new("event.list", "events", afterSeq=self.seen_seq)
        self.seen_seq = events[-1]["seq"] if events else self.seen_seq
        return [e["payload"]["data"]["signal"] for e in events
                if e["type"] == "system" and e["payload"]["kind"] == "agent.exited"]

    def new_commands(self):
        commands = self.list_new("command.list", "commands", after=self.seen_command)
        self.seen_command = commands[-1]["command"] if commands else self.seen_command
        return [c["reason"] for c in commands]

    def check_restart(self):
        """The end and the decision were stored before the replacement began."""
        exits, commands = self.new_exits(), self.new_commands()
        if exits != [signal.SIGKILL] or commands != ["agent.exited"]:
            raise Failure(f"reeve: a replacement, but stored are the exits {exits} and the commands"
                          f" {commands}")


# ---- the others ----


class Services(Supervisor):
    """A folder per service in one folder that is watched; `run` is the beacon itself."""

    scanner = None
    flags = ()

    def start(self):
        watched = os.path.join(self.folder, "services")
        for n in range(self.count):
            os.makedirs(os.path.join(watched, f"s{n}"))
            os.symlink(self.beacon, os.path.join(watched, f"s{n}", "run"))
        self.spawn([self.find(self.scanner), *self.flags, watched])


class Runit(Services):
    name = "runit"
    scanner = "runsvdir"
    stop_signal = signal.SIGHUP  # on SIGTERM it would leave every runsv alone


class S6(Services):
    name = "s6"
    scanner = "s6-svscan"


class Supervisord(Supervisor):
    name = "supervisord"
    settings = "autorestart=true startsecs=0"

    def start(self):
        config = os.path.join(self.folder, "supervisord.conf")
        options = "\n".join(self.settings.split())
        with open(config, "w") as f:
            f.write(f"[supervisord]\nlogfile={self.folder}/log\npidfile={self.folder}/pid\n"
                    f"childlogdir={self.folder}\n[program:beacon]\ncommand={self.beacon}\n"
                    f"numprocs={self.count}\nprocess_name=%(program_name)s_%(process_num)d\n"
                    f"{options}\n")
        self.spawn([self.find("supervisord"), "--nodaemon", "--configuration", config])


class Pm2(Supervisor):
    name = "pm2"

    def start(self):
        home = os.path.join(self.folder, "home")
        os.mkdir(home)
        package = self.install()
        self.environment |= {"PM2_HOME": home}
        node = self.find("node")
        # Its daemon as its command line would start it, except that it ends with us.
        self.spawn([node, os.path.join(package, "lib", "Daemon.js")])
        wait_until(lambda: os.path.exists(os.path.join(home, "rpc.sock")), 30, "pm2", self.process)
        apps = os.path.join(self.folder, "apps.json")
        with open(apps, "w") as f:
            json.dump({"apps": [{"name": "beacon", "script": self.beacon, "interpreter": "none",
                                 "exec_mode": "fork", "instances": self.count}]}, f)
        done = subprocess.run([node, os.path.join(package, "bin", "pm2"), "start", apps],
                              env=clean_env(**self.environment), capture_output=True, text=True,
                              timeout=300)
        if done.returncode:
            raise Failure(f"pm2 start: {(done.stderr or done.stdout).strip()[-300:]}")

    def install(self):
        """Once, into a folder that stays."""
        prefix = os.path.abspath(os.path.join(self.bench.args.work, "pm2"))
        package = os.path.join(prefix, "node_modules", "pm2")
        if os.path.exists(os.path.join(package, "lib", "Daemon.js")):
            return package
        npm = self.find("npm")
        if self.bench.args.quick:
            raise Missing("not installed, and a quick run does not fetch it")
        done = subprocess.run([npm, "install", "--prefix", prefix, "--no-audit", "--no-fund",
                               "--loglevel=error", "pm2"], capture_output=True, text=True,
                              timeout=300)
        if done.returncode:
            raise Missing("npm could not install it")
        return package


ALL = (ReeveSupervisor, Runit, S6, Supervisord, Pm2)
