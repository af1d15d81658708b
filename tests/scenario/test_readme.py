"""README.md is run: its commands are typed into a shell, and what it shows must be what comes.

A block that is indented by four spaces and has a line `$ command` is part of the tour. Blocks are
typed in their order; one that begins with `# second terminal` goes into a second shell. Lines that
follow a command, up to the next one, are what the shell must print. `…` stands for any part of a
line, on a line of its own for any lines. Times, spans, ports, pids and ids are not compared, nor
how lines are broken and columns aligned. Everything else is: a word more or less fails.

What is typed differs from the text in little: the folder of the data and the port are the test's, a
pid is the one that `reeve ps` has shown, and a `sleep 20` ends when the tour has come that far.
"""
import glob
import os
import pty
import re
import select
import shlex
import signal
import socket
import subprocess
import termios
import time

from reeve_test import BIN, check, die_with_parent, folder, main, wait_for
from wire import PATIENCE

SOURCE = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
COLUMNS = 100
MARK = "--this-command-is-done--"
READS = r"(build/)?reeve (ps|why)\b|curl -sN|timeout"  # may be asked again
STAYS = r"reeve events -f|\./dev up|build/reeve up"     # until it is stopped
SHELL_ONLY = r"(?m)^(\[\d+\].*|.*: line \d+: .*(Killed|Terminated).*)\n"
DIFFERS = ((r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
           (r"\b\d+(ms|[smhd])( \d+[smh])?\b", "SPAN"),
           (r"(127\.0\.0\.1:)\d+", r"\1PORT"),
           (r"(\bpid[ =]|\bms=|\blocal +|\"subscription\":)\d+", r"\1NUMBER"),
           (r"\b[0-9a-f]{32,64}\b", "ID"))


# ---- what README shows ----

class Step:
    """A command and what it prints; a command of None: what the one before prints later."""

    def __init__(self, terminal, command, shown=""):
        self.terminal, self.command, self.shown = terminal, command, shown


def is_whole(command):
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return False
    return not command.endswith("\\")


def steps_of_block(lines):
    steps, terminal = [], 1
    for line in lines:
        last = steps[-1] if steps else None
        if line == "# second terminal":
            terminal = 2
        elif last and last.command and not is_whole(last.command):
            last.command += "\n" + line
        elif line.startswith("$ "):
            steps.append(Step(terminal, line[2:]))
        elif last:
            last.shown += line + "\n"
        elif line:
            steps.append(Step(terminal, None, line + "\n"))
    return steps


def blocks(text):
    """The lines of each indented block, without the indent. Text or another terminal ends one."""
    block = []
    for line in text.splitlines():
        if (line and not line.startswith("    ")) or line == "    # second terminal":
            yield block
            block = []
        if not line or line.startswith("    "):
            block.append(line[4:])
    yield block


def tour(title):
    with open(os.path.join(SOURCE, "README.md")) as f:
        section = re.search(rf"(?ms)^## {title}$(.*?)^## ", f.read())
    check(section, f"README has a section {title!r}")
    found = []
    for lines in blocks(section[1]):
        steps = steps_of_block(lines)
        if any(s.command for s in steps) or "# second terminal" in lines:
            found += steps
    return found


def plain(text):
    for pattern, word in DIFFERS:
        text = re.sub(pattern, word, text)
    return text


def pattern_of(shown):
    """The expression that matches what `shown` may stand for."""
    pattern = r"\s*"
    for line in plain(shown).splitlines():
        if line.strip() == "…":
            pattern += r"(?:.|\n)*"
            continue
        words = r"\s*".join(map(re.escape, line.split()))
        pattern += re.sub(r"(\\s\*)?…(\\s\*)?", r"[^\\n]*", words) + r"\s*"
    return pattern


def is_shown(shown, printed):
    return re.fullmatch(pattern_of(shown), plain(re.sub(SHELL_ONLY, "", printed))) is not None


# ---- shells that type it ----

class Shell:
    """bash that writes to a terminal, since verbs print less there than into a pipe."""

    def __init__(self, cwd, data):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("REEVE_", "XDG_"))}
        env |= {"PATH": f"{os.path.dirname(BIN)}:{env['PATH']}", "XDG_STATE_HOME": data}
        self.screen, terminal = pty.openpty()
        termios.tcsetwinsize(terminal, (24, COLUMNS))
        self.process = subprocess.Popen(["bash", "--norc"], cwd=cwd, env=env, bufsize=0,
                                        stdin=subprocess.PIPE, stdout=terminal, stderr=terminal,
                                        preexec_fn=die_with_parent)
        os.close(terminal)
        self.unread = ""
        self.type("set -m")

    def read(self, seconds=0.05):
        if select.select([self.screen], [], [], seconds)[0]:
            self.unread += os.read(self.screen, 1 << 16).decode(errors="replace").replace("\r", "")
        return self.unread

    def type(self, line):
        self.process.stdin.write(line.encode() + b"\n")

    def take(self):
        taken, self.unread = self.unread, ""
        return taken

    def run(self, command):
        """What a command in the foreground prints, and what the background printed meanwhile."""
        self.type(f"{command}\necho {MARK}")
        wait_for(lambda: MARK in self.read(), f"{command!r} to end: {self.unread}", 3 * PATIENCE)
        printed, _, self.unread = self.unread.partition(f"{MARK}\n")
        return printed

    def end_jobs(self):
        """Each job has a process group of its own, so that none of them would end with the test."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as f:
            for job in f.read().split():
                os.killpg(int(job), signal.SIGTERM)


class Tour:
    def __init__(self, replace):
        self.home = os.path.join(folder(), "readme")
        os.makedirs(self.home)
        for name, target in (("build", os.path.dirname(BIN)), ("examples", f"{SOURCE}/examples")):
            os.symlink(target, os.path.join(self.home, name))
        self.data = os.path.join(folder(), "tour")
        self.port = free_port()
        self.go = os.path.join(folder(), "go")
        self.replace = {**replace, "7433": str(self.port), "/tmp/tour": self.data,
                        "reeve serve": f"reeve serve --listen {self.port}",
                        "sleep 20": f"until test -e {self.go} -o ! -d {folder()}; do sleep 0.1; done"}
        self.shells = {}
        self.printed = ""

    def shell(self, number):
        if number not in self.shells:
            self.shells[number] = Shell(self.home, folder())
        return self.shells[number]

    def typed(self, text):
        for word, other in self.replace.items():
            text = text.replace(word, other)
        return text

    def expect(self, step, look):
        """look() until it is what is shown; the text says how they differ."""
        shown = step.shown.replace("/tmp/tour", self.data)
        deadline = time.monotonic() + 2 * PATIENCE
        while not is_shown(shown, self.look(look)):
            check(time.monotonic() < deadline and self.may_come(step),
                  f"README shows, after `{step.command}`:\n{shown}\nthis comes:\n{self.printed}\n")

    def look(self, look):
        self.printed = look()
        return self.printed

    @staticmethod
    def may_come(step):
        """Whether to look again: the output of others grows, and reading changes nothing."""
        command = step.command
        return not command or command.endswith("&") or re.match(f"{READS}|{STAYS}", command)

    def walk(self, step):
        shell = self.shell(step.terminal)
        if step.command is None:
            # What is shown of a long event is its first line. The rest of it may come later.
            self.expect(step, lambda: re.sub(r"\A(?: .*\n)+", "", shell.read()))
            shell.take()
            return
        command = self.typed(step.command)
        if command.startswith("wait "):
            open(self.go, "w").close()
        if re.match(STAYS, command):
            command += " &"
        if command.endswith("&"):
            shell.type(command)
            self.expect(step, shell.read)
            shell.take()
        else:
            self.expect(step, lambda: shell.run(command))
        if pid := re.search(r"(?m)^1:builder .* local +(\d+)", self.printed):
            self.replace["10391"] = pid[1]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


# ---- the tests ----

def test_five_minutes():
    walk = Tour({})
    steps = tour("Five minutes")
    check(sum(1 for s in steps if s.command) > 20, "the tour has its commands")
    try:
        for step in steps:
            walk.walk(step)
    finally:
        for shell in walk.shells.values():
            shell.end_jobs()


def test_two_commands():
    """The demo, and an agent of it that is killed."""
    walk = Tour({"./dev up": "build/reeve up --listen 7433"})
    try:
        for step in tour("Two commands"):
            walk.walk(step)
    finally:
        walk.shell(1).run("kill -INT %1; wait %1")  # shims and agents would outlive the test


def test_protocol_describes_every_path():
    with open(os.path.join(SOURCE, "src/server/door.c")) as f:
        routes = re.findall(r'\{"(/\w+)", HTTP_(\w+),', f.read())
    with open(os.path.join(SOURCE, "docs/protocol.md")) as f:
        headings = " ".join(line for line in f if line.startswith("### "))
    check(len(routes) > 4, f"paths of the server: {routes}")
    missing = [f"{method} {path}" for path, method in routes if f"`{method} {path}`" not in headings]
    check(not missing, f"docs/protocol.md says nothing about {missing}")


def test_links_between_the_pages_lead_somewhere():
    pages = [os.path.join(SOURCE, "README.md"), *glob.glob(f"{SOURCE}/docs/*.md")]
    broken = []
    for page in pages:
        with open(page) as f:
            links = re.findall(r"\]\((?!http)([^)#\s]+)", f.read())
        broken += [f"{os.path.basename(page)}: {link}" for link in links
                   if not os.path.exists(os.path.join(os.path.dirname(page), link))]
    check(not broken, f"broken links: {broken}")


def test_a_word_more_or_less_is_seen():
    """The comparison itself."""
    shown = "task 1 completed\n2026-11-15T09:41:27.681Z in 3s …\n…\nthe end\n"
    printed = "task 1 completed\n2027-01-01T00:00:00.000Z in 12m 4s, at last\nx\ny\nthe  end\n"
    check(is_shown(shown, printed), "what may differ")
    for wrong in (printed.replace("completed", "failed"), printed + "more\n", "more\n" + printed,
                  printed.replace("task 1", "task 2"), printed.replace("the  end\n", "")):
        check(not is_shown(shown, wrong), f"{wrong!r} is not what is shown")
    check(not is_shown("a …\n", "a\nb\n"), "a dot in a line ends with it")


main(seconds=120)
