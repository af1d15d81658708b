"""The agents of examples/, which docs/agents.md is about: each is run as it is, by a real machine.

A reader copies them. So each must take a task, report progress, hand in a deliverable, and come
back with its task after a kill -9; the one in C must compile against what `make install` installs.
"""
import glob
import json
import os
import re
import shutil
import signal
import subprocess

from crew import give, task_of
from daemon import Daemon, agent
from reeve_test import BIN, Skip, check, eq, folder, main, server, wait_for

BUILD = os.path.dirname(BIN)
SOURCE = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
EXAMPLES = os.path.join(SOURCE, "examples")
MADE = ("worker",)  # by a reader who follows docs/agents.md
STEPS = 3
BEATS_OFTEN = "liveness.heartbeat_seconds=1"  # output becomes progress with a beat


def copy_of_examples():
    """A folder with what a reader would have; `worker` is the one of the build."""
    copy = os.path.join(folder(), "examples")
    shutil.copytree(EXAMPLES, copy, ignore=shutil.ignore_patterns(*MADE))
    os.symlink(os.path.join(BUILD, "example-worker"), os.path.join(copy, "worker"))
    return copy


def machine_of(s, copy):
    return Daemon(s, {}, start=False).start("--config", os.path.join(copy, "machine.conf"))


def conversation_of(s, kind):
    return s.call("conversation.create", agents=[{"role": "a", "kind": kind}])["conversation"]


def is_under_way(s, task):
    t = task_of(s, task)
    return t["status"] == "in_progress" and t.get("note") and t


def await_done(s, task):
    done = wait_for(lambda: (t := task_of(s, task)).get("outcome") and t, "the task to end", 60)
    eq(done["status"], "completed", f"status of {done}")
    return done


def deliverable_of(s, task):
    return s.call("card.get", card=task["outcome"]["deliverableCardId"])["card"]["content"]


def pid_of(s, c):
    return agent(s, c)["process"]["pid"]


def check_agent(s, kind, deliverable):
    with machine_of(s, copy_of_examples()):
        c = conversation_of(s, kind)
        first = give(s, c, content=STEPS)
        wait_for(lambda: is_under_way(s, first), f"progress of the {kind} agent", 60)
        killed = pid_of(s, c)
        os.kill(killed, signal.SIGKILL)
        done = await_done(s, first)
        eq((done["attempts"], done["epoch"]), (1, 2), "one attempt was lost, and no more")
        eq(deliverable_of(s, done), deliverable, f"deliverable of the {kind} agent")
        second = give(s, c, content=1)
        eq(await_done(s, second)["attempts"], 0, "the next task is an ordinary one")
        check(pid_of(s, c) != killed, "another process does it")


def check_resumes(s, kind):
    """Somebody suspends its task; when the tool has answered, the agent goes on with it."""
    with machine_of(s, copy_of_examples()):
        task = give(s, conversation_of(s, kind), content=STEPS)
        held = wait_for(lambda: is_under_way(s, task), f"progress of the {kind} agent", 60)
        s.call("task.suspend", task=task["task"], epoch=held["epoch"],
               tools=[{"toolCallId": "c1", "name": "search"}])
        s.call("tool.report", task=task["task"], toolCallId="c1", status="success", result="found")
        done = await_done(s, task)
        eq((done["attempts"], done["epoch"]), (0, held["epoch"] + 1), "resumed, and not lost")


@server(BEATS_OFTEN)
def test_the_shell_agent(s):
    check_agent(s, "shell", "\n".join(f"step {i} of {STEPS}" for i in range(1, STEPS + 1)))


@server(BEATS_OFTEN)
def test_the_node_agent(s):
    if not shutil.which("node"):
        raise Skip("there is no node")
    check_agent(s, "node", {"steps": STEPS})


@server()
def test_the_node_agent_goes_on_with_a_suspended_task(s):
    if not shutil.which("node"):
        raise Skip("there is no node")
    check_resumes(s, "node")


@server(BEATS_OFTEN)
def test_the_python_agent(s):
    check_agent(s, "python", {"steps": STEPS})


@server()
def test_the_python_agent_goes_on_with_a_suspended_task(s):
    check_resumes(s, "python")


@server(BEATS_OFTEN)
def test_the_c_agent(s):
    if not os.path.exists(os.path.join(BUILD, "example-worker")):
        raise Skip("example-worker is not built")
    check_agent(s, "c", {"steps": STEPS})


# ---- what the pages print ----

def kind_of(page):
    """The first `kind … { … }` that the page shows, as a configuration."""
    with open(os.path.join(SOURCE, page)) as f:
        return re.search(r"(?ms)^    kind tester \{.*?^    \}", f.read())[0]


def check_one_line_agent(s, page):
    """Seven tasks, of which some fail: neither a task done nor a task failed is a crash of the agent."""
    home = os.path.join(folder(), "project")
    os.makedirs(home)
    with open(os.path.join(home, "Makefile"), "w") as f:
        f.write("test:\n\t@echo tested; test $$((REEVE_TASK_NUMBER % 3)) != 0\n")
    with open(os.path.join(home, "machine.conf"), "w") as f:
        f.write(kind_of(page).replace("/srv/project", home))
    c = conversation_of(s, "tester")
    given = [give(s, c)["task"] for _ in range(7)]
    with Daemon(s, {}, start=False).start("--config", os.path.join(home, "machine.conf")):
        ended = [wait_for(lambda n=n: (t := task_of(s, n)).get("outcome") and t, f"task {n}", 60)
                 for n in given]
    eq([t["status"] for t in ended], ["failed" if n % 3 == 0 else "completed" for n in given])


@server()
def test_the_one_line_agent_of_readme(s):
    check_one_line_agent(s, "README.md")


@server()
def test_the_one_line_agent_of_the_guide(s):
    check_one_line_agent(s, "docs/agents.md")


@server()
def test_the_one_line_agent_of_the_page_about_machines(s):
    check_one_line_agent(s, "docs/machines.md")


# ---- what `make install` installs ----

def option(name):
    with open(os.path.join(BUILD, "meson-info", "intro-buildoptions.json")) as f:
        return next(o["value"] for o in json.load(f) if o["name"] == name)


def install():
    """Installs the build below a folder of this test, and returns the prefix there."""
    if not shutil.which("meson") or not os.path.exists(os.path.join(BUILD, "meson-info")):
        raise Skip("the program was not built by meson here")
    if option("b_sanitize") != "none":
        raise Skip("a plain program cannot link a library with sanitizers")
    root = os.path.join(folder(), "root")
    subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", root],
                   check=True, stdout=subprocess.DEVNULL)
    return root, root + option("prefix")


def compile_worker(root, prefix, libs):
    """As docs/libreeve.md says it, where the examples are installed. The environment to run it in."""
    (pc,) = glob.glob(f"{prefix}/lib/**/libreeve.pc", recursive=True)
    libdir = os.path.dirname(os.path.dirname(pc))
    env = os.environ | {"PKG_CONFIG_PATH": os.path.dirname(pc), "PKG_CONFIG_SYSROOT_DIR": root}
    subprocess.run(["sh", "-ec", f"cc -o worker worker.c {libs}"],
                   cwd=f"{prefix}/share/reeve/examples", env=env, check=True)
    return {"LD_LIBRARY_PATH": libdir}


def check_installed_worker(s, libs):
    for program in ("cc", "pkg-config"):
        if not shutil.which(program):
            raise Skip(f"there is no {program}")
    root, prefix = install()
    env = compile_worker(root, prefix, libs)
    c = conversation_of(s, "c")
    task = give(s, c, content=1)
    config = f"{prefix}/share/reeve/examples/machine.conf"
    with Daemon(s, {}, start=False).start("--config", config, env=env):
        eq(deliverable_of(s, await_done(s, task)), {"steps": 1}, "deliverable")


@server()
def test_the_installed_worker_compiles_against_the_installed_library(s):
    check_installed_worker(s, "$(pkg-config --cflags --libs libreeve)")


@server()
def test_it_links_the_static_library_too(s):
    check_installed_worker(s, "$(pkg-config --cflags --libs-only-L libreeve) -l:libreeve.a "
                              "$(pkg-config --libs libcurl libcrypto) -pthread")


def test_every_example_is_installed():
    _, prefix = install()
    have = {*os.listdir(f"{prefix}/share/reeve/examples"), *MADE}
    eq(sorted(set(os.listdir(EXAMPLES)) - have), [], "examples that are not installed")


main(seconds=120)
