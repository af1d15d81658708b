#!/usr/bin/env python3
"""The shim: starting, stopping and the last word, with real processes."""
import os
import select
import signal
import socket

from reeve_test import BIN, Skip, check, eq, folder, main, wait_for
from wire import PATIENCE
from spawn import SHIM, Spawn, is_alive, misbehave, no_survivors, processes_with


# ---- starting ----

def test_what_a_shim_tells_and_leaves():
    s = misbehave("polite", 3)
    fact = s.spawned()
    seen = s.record("seen")
    with open("/proc/sys/kernel/random/boot_id") as f:
        eq(seen["bootId"], f.read().strip(), "boot")
    eq(seen["agent"], {"pid": fact["pid"], "startTime": fact["startTime"]}, "agent in `seen`")
    eq(seen["shim"]["pid"], s.process.pid, "shim in `seen`")
    with open(f"/proc/{fact['pid']}/stat") as f:
        eq(int(f.read().rpartition(")")[2].split()[19]), fact["startTime"], "start time")
    s.line.ready()
    last = s.stop(20000)
    eq((last["fact"], last["code"], last["signal"], last["tail"]), ("stopped", 3, 0, "waiting\ngoodbye\n"), "last")
    eq(s.lines("out"), ["waiting", "goodbye"], "log")


def test_reeve_shim_is_the_same():
    s = misbehave("ends", 7, command=(BIN, "shim"))
    s.spawned()
    eq(s.last_word()["code"], 7, "code")


def test_L58_no_terminal_and_nothing_else_is_inherited():
    inherited = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(inherited, True)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    s = misbehave("surroundings")
    eq(s.last_word()["text"], "exited with status 0", "what it saw")


def test_a_program_is_found_in_the_path_of_the_order():
    s = Spawn("misbehave", "ends", "4", env=[f"PATH=/nowhere:{os.path.dirname(BIN)}/tests"])
    eq(s.last_word()["code"], 4, "code")
    s = Spawn("misbehave", env=["PATH=/nowhere"])
    eq(s.last_word()["text"], "cannot execute misbehave: No such file or directory", "text")


def test_what_cannot_be_started_says_why():
    for order, text in (
            (dict(argv=["/no/such"]), "cannot execute /no/such: No such file or directory"),
            (dict(argv=["/etc/passwd"]), "cannot execute /etc/passwd: Permission denied"),
            (dict(argv=["true"], cwd="/no/such"), "cannot enter the folder /no/such: No such file or directory")):
        s = Spawn(**order)
        last = s.last_word()
        eq((last["fact"], last["code"], last["text"]), ("start_failed", -1, text), f"last word of {order}")
        check(not os.path.exists(f"{s.folder}/seen"), "it was never seen")


def test_a_bad_order_is_refused():
    for order in (dict(argv=[]), dict(argv="sh"), dict(cwd=""), dict(env={}), dict(log=1), dict(stopGraceMs=-1)):
        s = Spawn(**{"argv": ["true"]} | order)
        eq(s.process.wait(), 2, f"status for {order}")
        check("an order without a valid" in s.process.stderr.read().decode(), "it says why")
        eq(s.line.fact(), None, "nothing was started")


def test_L54_the_exit_of_a_short_lived_one_is_never_lost():
    for i in range(200):
        s = misbehave("ends", i % 256)
        eq(s.spawned()["fact"], "spawned", "first fact")
        last = s.last_word()
        eq((last["fact"], last["code"]), ("exited", i % 256), f"end of number {i}")


# ---- endings ----

def test_signals_and_their_names():
    for signo, name in ((6, "Aborted"), (9, "Killed"), (11, "Segmentation fault"), (15, "Terminated")):
        last = misbehave("crashes", signo).last_word()
        eq((last["fact"], last["code"], last["signal"], last["oom"]), ("exited", -1, signo, False), "end")
        eq(last["text"], f"killed by signal {signo} ({name})", "text")


def test_a_core_dump_is_told():
    with open("/proc/sys/kernel/core_pattern") as f:
        if "/" in f.read():
            raise Skip("cores do not go to the folder of the process here")
    last = Spawn("sh", "-c", "ulimit -c unlimited; kill -SEGV $$").last_word()
    eq((last["core"], last["text"]), (True, "killed by signal 11 (Segmentation fault, core dumped)"), "end")


def counting_cgroup(oom_kills):
    """A folder that looks like a cgroup whose kernel has counted."""
    home = os.path.join(folder(), f"cgroup-{oom_kills}")
    os.mkdir(home)
    for name, text in (("cgroup.procs", ""), ("memory.events", f"oom 1\noom_kill {oom_kills}\n")):
        with open(os.path.join(home, name), "w") as f:
            f.write(text)
    return home


def test_an_out_of_memory_kill_is_told_from_any_other():
    for kills in (0, 1):
        last = misbehave("crashes", 9, cgroup=(group := counting_cgroup(kills))).last_word()
        eq(last["oom"], bool(kills), "oom")
        eq(last["text"], f"killed by signal 9 ({'out of memory' if kills else 'Killed'})", "text")
    s = misbehave("deaf", cgroup=group)
    s.line.ready()
    eq(s.stop(0)["oom"], False, "it was us")


def test_L54_a_stop_is_never_taken_for_a_crash():
    """The wish is noted before the signal: an agent that dies of it at once was stopped."""
    for _ in range(50):
        s = misbehave("waits")
        s.spawned()
        last = s.stop(20000)
        eq((last["fact"], last["signal"]), ("stopped", 15), "end")


def test_L51_sigterm_ignored():
    s = misbehave("deaf", word=(word := "deaf-" + os.urandom(4).hex()))
    s.line.ready()
    last = s.stop(50)
    eq((last["fact"], last["signal"]), ("stopped", 9), "end")
    eq(last["text"], "stopped: killed by signal 9 (Killed) when its grace was over", "text")
    no_survivors(word)


def test_L51_an_escapee_dies_with_its_agent():
    """Its own session, another parent, deaf to SIGTERM; then the agent ends, by a signal or a stop."""
    for end in ("kill", "stop"):
        s = misbehave("escapee", word=(word := "escapee-" + os.urandom(4).hex()))
        s.spawned()
        s.line.ready()
        eq(len(processes_with(word)), 2, "agent and escapee")
        if end == "kill":
            os.kill(s.pid, signal.SIGKILL)
        last = s.last_word() if end == "kill" else s.stop(20000)
        eq(last["fact"], {"kill": "exited", "stop": "stopped"}[end], "end")
        no_survivors(word)


def test_W8_every_kind_ends_when_told():
    for kind, number in (("spins", 0), ("stopped", 5), ("closes-output", 0), ("never-ready", 0),
                         ("first-thread-ends", 0)):
        s = misbehave(kind, number, word=(word := f"{kind}-{os.urandom(4).hex()}"))
        s.spawned()
        if kind != "never-ready":
            s.line.ready()
        last = s.stop(20000 if kind == "stopped" else 50)
        eq(last["fact"], "stopped", f"end of {kind}")
        if kind == "stopped":
            eq(last["code"], 5, "one that is stopped is woken to take its signal")
        no_survivors(word)


def test_W8_a_fork_bomb_under_a_limit():
    if os.geteuid() != 0:
        raise Skip("only root can give it a user, and so a process limit, of its own")
    s = misbehave("bomb", 40, word=(word := "bomb-" + os.urandom(4).hex()))
    s.spawned()
    wait_for(lambda: len(processes_with(word)) >= 30, "the bomb")
    eq(s.stop(0)["fact"], "stopped", "end")
    no_survivors(word)


def test_a_second_stop_may_shorten_the_grace():
    s = misbehave("deaf")
    s.line.ready()
    s.line.send(do="stop", graceMs=10**9)
    wait_for(lambda: "told to stop within 1000000000 ms" in s.log(), "the first one")
    eq(s.stop(0)["signal"], 9, "signal")


def test_a_second_stop_never_lengthens_the_grace():
    s = misbehave("deaf")
    s.line.ready()
    s.line.send(do="stop", graceMs=50)
    eq(s.stop(10**10)["signal"], 9, "signal")


def test_a_stop_without_a_grace_takes_that_of_the_order():
    s = misbehave("deaf", stopGraceMs=20)
    s.line.ready()
    s.line.send(do="stop")
    eq(s.last_word()["fact"], "stopped", "end")
    check("told to stop within 20 ms" in s.log(), "the grace of the order")


def test_signals_to_the_shim_itself():
    """SIGTERM and SIGINT are a stop; SIGHUP, a terminal that went away, is nothing."""
    for signo in (signal.SIGTERM, signal.SIGINT):
        s = misbehave("polite", 2)
        s.line.ready()
        s.process.send_signal(signal.SIGHUP)
        s.process.send_signal(signo)
        last = s.last_word()
        eq((last["fact"], last["code"]), ("stopped", 2), f"end by {signo}")


def test_L52_a_stop_at_any_moment_reaches_nobody_else():
    """Also before the agent has a group of its own. The shim and we live on, so no group of ours was hit."""
    for grace_ms in (0, 20000):
        for _ in range(50):
            s = misbehave("waits")
            s.line.send(do="stop", graceMs=grace_ms)
            eq(s.line.fact()["fact"], "spawned", "first fact")
            eq(s.last_word()["fact"], "stopped", "end")


def test_without_a_line_or_with_something_else_in_its_place():
    s = misbehave("surroundings", line=os.open("/dev/null", os.O_RDONLY))
    s.wait()
    eq(s.record("ended")["code"], 0, "code")


def test_without_standard_output_and_error():
    s = misbehave("polite", 4, command=("sh", "-c", f"exec {SHIM} >&- 2>&-"))
    s.line.ready()
    eq(s.stop(20000)["tail"], "waiting\ngoodbye\n", "tail")
    eq(s.lines("out"), ["waiting", "goodbye"], "log")


def test_the_shim_has_a_session_of_its_own():
    s = misbehave("waits")
    s.spawned()
    eq(os.getsid(s.process.pid), s.process.pid, "session of the shim")
    eq((os.getsid(s.pid), os.getpgid(s.pid)), (s.pid, s.pid), "session and group of the agent")
    s.stop()


def test_a_killed_shim_takes_its_agent_with_it():
    s = misbehave("deaf")
    s.line.ready()
    pid = s.record("seen")["agent"]["pid"]
    s.process.kill()
    s.process.wait()
    wait_for(lambda: not is_alive(pid), "the agent to die")
    check(not os.path.exists(f"{s.folder}/ended"), "nobody has said a last word")


def test_what_a_killed_shim_leaves_behind_carries_its_mark():
    s = misbehave("escapee", word=(word := "marked-" + os.urandom(4).hex()))
    s.spawned()
    s.line.ready()
    s.process.kill()
    s.process.wait()
    wait_for(lambda: not is_alive(s.pid), "the agent to die")
    [escapee] = processes_with(word)
    with open(f"/proc/{escapee}/environ") as f:
        check(f"REEVE_SPAWN={s.id}" in f.read().split("\0"), "the mark")
    os.kill(escapee, signal.SIGKILL)


# ---- the line ----

def test_a_machine_that_comes_later_is_told_what_was_told():
    s = misbehave("polite", 1)
    spawned = s.spawned()
    s.line.ready()
    s.line.sock.close()
    later = s.connect()
    eq([later.fact(), later.fact()], [spawned, {"fact": "notify", "ready": True}], "what lasts")
    another = s.connect()
    eq(another.fact(), spawned, "and another one")
    another.send(do="stop", graceMs=20000)
    eq(later.until("stopped")["code"], 1, "everybody is told")
    eq(later.fact(), None, "the line at the end")
    s.wait()


def test_more_machines_than_there_are_places():
    s = misbehave("waits")
    s.spawned()
    lines = [s.connect() for _ in range(20)]
    for line in lines[-3:]:
        line.until("spawned")
    lines[-1].send(do="stop", graceMs=20000)
    lines[-1].until("stopped")
    s.wait()


def test_a_machine_that_does_not_listen_keeps_nobody_waiting():
    """There is no room for another packet in its socket: it is hung up on, and others are told."""
    s = misbehave("polite", 6, full_line=True)
    other = wait_for(s.connect, "the shim to listen")
    other.ready()
    poll = select.poll()
    poll.register(s.line.sock, 0)
    check(poll.poll(PATIENCE * 1000), "it is hung up on")
    other.send(do="stop", graceMs=20000)
    eq(other.until("stopped")["code"], 6, "code")
    while (fact := s.line.fact()) is not None:
        eq(fact, {}, "what was there before")
    s.wait()


def test_nonsense_on_the_line_ends_that_line_only():
    s = misbehave("waits")
    s.spawned()
    for nonsense in (b"\xff\xff", b"{", b"stop"):
        bad = s.connect()
        bad.sock.send(nonsense)
        eq(bad.until("spawned")["pid"], s.pid, "pid")
        while bad.fact() is not None:
            pass
    stranger = s.connect()
    stranger.send(do="dance")
    stranger.send(what="stop")
    eq(s.stop()["fact"], "stopped", "end")


def test_a_path_of_any_length():
    home = os.path.join(folder(), "x" * 200, "y" * 200)
    os.makedirs(home)
    s = misbehave("waits", home=home)
    s.spawned()
    eq(s.connect().fact()["fact"], "spawned", "by the listening socket")
    s.stop()


# ---- notifications ----

def test_what_an_agent_says_of_itself():
    s = misbehave("says", 0, "READY=1\nMAINPID=1\nSTATUS=half \u00fcber\nWATCHDOG=1\nFOO")
    s.spawned()
    facts = [s.line.fact() for _ in range(3)]
    eq(facts, [{"fact": "notify", "ready": True}, {"fact": "notify", "beat": True},
               {"fact": "notify", "text": "half \u00fcber"}], "facts")
    s.stop()


def test_a_start_is_told_before_anything_the_agent_says():
    for _ in range(25):
        for s in [misbehave("says", 0, "READY=1") for _ in range(8)]:
            facts = [s.line.fact()["fact"] for _ in range(2)]
            eq(facts, ["spawned", "notify"], "the first facts")
            s.stop()


def test_beats_are_passed_on_once_a_second_and_the_last_text_is_not_lost():
    s = misbehave("beats", 5000)
    facts = []
    while not facts or facts[-1].get("text") is None:
        facts.append(s.line.fact())
    eq(facts[-1]["text"], "done", "the last text")
    check(0 < sum("beat" in f for f in facts) < 100, f"beats in {facts}")
    s.stop()


def test_what_was_said_last_is_told_before_the_end():
    s = misbehave("says-much-and-ends", 3000)
    said = []
    while (fact := s.line.fact())["fact"] != "exited":
        said.append(fact.get("text"))
    eq(said[-1], "last", "the last text")


def state(pid):
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rpartition(")")[2].split()[0]


def test_a_sender_that_is_gone_already_is_heard():
    """The shim is stopped until the sender has been reaped by its parent."""
    s = misbehave("short-lived-sender")
    s.spawned()
    s.line.ready()
    s.process.send_signal(signal.SIGSTOP)
    wait_for(lambda: state(s.process.pid) == "T", "the shim to stop")
    os.kill(s.pid, signal.SIGUSR1)
    wait_for(lambda: state(s.pid) == "T", "the sender to be gone")
    s.process.send_signal(signal.SIGCONT)
    eq(s.line.until("notify").get("text"), "gone", "what it said")
    s.stop()


def test_a_stranger_is_not_believed():
    s = misbehave("waits", env=["NOTIFY_SOCKET=/run/systemd/notify"])
    s.line.ready()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.sendto(b"STATUS=I am not of the tree", f"\0reeve/{s.id}")
    s.line.send(do="stop", graceMs=20000)
    while (fact := s.line.fact())["fact"] == "notify":
        check("text" not in fact, f"{fact} of a stranger")
    eq(fact["fact"], "stopped", "end")
    s.wait()


# ---- beyond ----

def test_a_full_disk_delays_the_last_word():
    """Nothing can be written into the folder at first; the shim stays until it can, and then goes."""
    s = misbehave("polite", 9)
    s.line.ready()
    os.mkdir(f"{s.folder}/ended")  # a rename over it fails
    s.line.send(do="stop", graceMs=20000)
    fact = s.line.until("stopped")
    eq(s.process.poll(), None, "the shim")
    eq(s.connect().until("stopped"), fact, "told to who comes")
    os.rmdir(f"{s.folder}/ended")
    s.wait()
    eq(s.record("ended"), fact, "the file `ended`")


def test_a_folder_that_is_gone_keeps_no_shim():
    s = misbehave("waits")
    s.line.ready()
    os.rename(s.folder, s.folder + ".away")
    s.line.send(do="stop", graceMs=20000)
    s.line.until("stopped")
    s.wait()


def private_kib(pid):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return sum(int(line.split()[1]) for line in f if line.startswith("Private_"))


def test_a_shim_is_small():
    with open(SHIM, "rb") as f:
        if b"__asan" in f.read():
            raise Skip("a sanitizer's memory is not the shim's")
    some = [misbehave("waits") for _ in range(3)]  # what they share is nobody's own
    for s in some:
        s.spawned()
    chatty = misbehave("many-lines", 100000)
    chatty.last_word()
    eq([k for k in map(lambda s: private_kib(s.process.pid), some) if k > 1536], [], "KiB")
    for s in some:
        s.stop()


def cgroup_home():
    """A place where cgroups of version 2 can be made, or None."""
    with open("/proc/self/mountinfo") as f:
        points = [line.split()[4] for line in f if " - cgroup2 " in line]
    with open("/proc/self/cgroup") as f:
        own = [line.strip()[3:] for line in f if line.startswith("0::")]
    home = points and own and (points[0] + own[0]).rstrip("/")
    return home if home and os.access(home, os.W_OK) and os.access(f"{home}/cgroup.procs", os.W_OK) else None


def test_L51_a_cgroup_where_there_is_one():
    home = cgroup_home()
    if not home:
        raise Skip("no cgroup of version 2 can be made here")
    group = f"{home}/reeve-test-{os.getpid()}"
    s = misbehave("escapee", word=(word := "group-" + os.urandom(4).hex()), cgroup=group)
    s.line.ready()
    with open(f"{group}/cgroup.procs") as f:
        eq(sorted(map(int, f)), sorted(processes_with(word)), "who is in it")
    s.stop(20000)
    no_survivors(word)
    check(not os.path.exists(group), "it is removed")


def test_without_a_cgroup_it_runs_all_the_same():
    s = misbehave("ends", 1, cgroup="/proc/none/reeve-test")
    eq(s.last_word()["code"], 1, "code")
    check("not in a cgroup" in s.log(), "the log says so")


if __name__ == "__main__":
    main()
