"""`reeve wait-for-task` as a process of a test, and what tells how it is doing."""
import json
import os
import subprocess

from crew import participant
from reeve_test import BIN, die_with_parent, eq, folder, wait_for
from wire import PATIENCE

MANUAL = ("--clock=manual",)
BEATS = "liveness.heartbeat_seconds=1"
# A minute at most: what a failing test leaves behind must not stay.
LOOP = "n=0; while [ $n -lt 1200 ]; do sleep 0.05; n=$((n+1)); done"


class Agent:
    """A running `reeve wait-for-task`."""

    def __init__(self, s, c, role="a", *, command=None, stdout=None, where=None, env=None,
                 json_flag=False, options=(), before=()):
        argv = [*before, BIN, "wait-for-task", "--conversation", str(c), "--role", role, *options]
        argv += where or ["--data", s.data]
        argv += ["--json"] if json_flag else []
        argv += ["--exec", *command] if command else []
        clean = {k: v for k, v in os.environ.items() if not k.startswith("REEVE_")}
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE if stdout is None else stdout,
                                        stderr=subprocess.PIPE, env=clean | (env or {}),
                                        preexec_fn=die_with_parent)

    def signal(self, sig):
        self.process.send_signal(sig)

    def end(self):
        """(exit status, output, messages)"""
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, (out or b"").decode(), err.decode()

    def task(self):
        """It must end well; what it printed."""
        code, out, err = self.end()
        eq((code, err), (0, ""), "its end")
        eq(out.count("\n"), 1, f"lines of {out!r}")
        return json.loads(out)

    def is_running(self):
        return self.process.poll() is None


def waiting(s, c, role="a", *, besides=None):
    """Waits until somebody listens (other than `besides`) and returns who."""
    def look():
        p = participant(s, c, role)
        fresh = p["status"] == "waiting" and p["connectionId"] != besides
        return p["connectionId"] if fresh else None
    return wait_for(look, f"a listener for {role}")


def gone(s, c, role="a"):
    """Nobody listens for it, and that was said, not found out."""
    p = participant(s, c, role)
    eq(p["readyUntil"], None, f"the listener's lease of {p}")


def marker(name):
    return os.path.join(folder(), name)


def exists(name):
    return os.path.exists(marker(name))


def is_alive(pid):
    """Runs, and is not merely unburied."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def pid_in(name):
    def look():
        try:
            with open(marker(name)) as f:
                text = f.read()
        except FileNotFoundError:
            return None
        return int(text) if text.endswith("\n") else None
    return wait_for(look, f"a pid in {name}")
