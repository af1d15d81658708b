"""`reeve wait-for-task --exec`: a command does the work of a task, is listened to, and ended."""
import json
import os
import re
import signal
import subprocess

from crew import ACTIVE_MS, deliverable_of, give, leave, participant, status, talk, task_of
from daemon import Daemon
from reeve_test import BIN, check, eq, folder, main, reeve, server, wait_for
from waiter import BEATS, LOOP, MANUAL, Agent, exists, gone, is_alive, marker, pid_in
from watch_model import advance, ms, now
from wire import PATIENCE


# ---- what the command gets, and gives ----

@server(BEATS, args=MANUAL)
def test_exec_completes_with_the_output(s):
    c = talk(s)
    t = give(s, c, content={"text": "héllo"})
    script = 'echo "$REEVE_CONVERSATION $REEVE_ROLE"; cat; printf %s "$REEVE_TASK"; echo log >&2'
    code, out, err = Agent(s, c, command=["sh", "-c", script]).end()
    text = deliverable_of(s, t)
    eq((code, out, err), (0, f"{text}\ntask {t['task']} completed\n", "log\n"))
    eq(status(s, t), "completed")
    first, stdin, variable = text.split("\n")
    eq(first, f"{c} a")
    eq(stdin, variable, "the task twice")
    eq((json.loads(stdin)["task"], json.loads(stdin)["content"]), (t["task"], {"text": "héllo"}))
    eq(json.loads(stdin)["status"], "in_progress", "it was started")
    gone(s, c)


@server(args=MANUAL)
def test_exec_takes_all_that_follows(s):
    c = talk(s)
    for dashes in ((), ("--",)):
        t = give(s, c)
        agent = Agent(s, c, command=[*dashes, "echo", "--data", "-x", "--", "--json"],
                      json_flag=True)
        code, out, err = agent.end()
        eq((code, err), (0, "--data -x -- --json\n"), "with --json, its output: elsewhere")
        eq(json.loads(out)["status"], "completed", "with --json: the task as it ended")
        eq(deliverable_of(s, t), "--data -x -- --json")


@server(args=MANUAL)
def test_exec_fails_with_the_last_lines(s):
    c = talk(s)
    script = 'seq 10000; echo "it is broken" >&2; exit 3'
    t = give(s, c)
    code, out, err = Agent(s, c, command=["sh", "-c", script]).end()
    eq(code, 1, "exit status")
    check(out.startswith("1\n2\n") and out.endswith(f"\n10000\ntask {t['task']} failed\n"), out[-99:])
    outcome = task_of(s, t)["outcome"]
    eq((outcome["status"], outcome["stop_reason_code"]), ("failed", "failed"))
    reason = outcome["error"].split("\n")
    eq(reason[0], "exit status 3:")
    check("it is broken" in reason, reason)
    check("10000" in reason and "100" not in reason, "the last lines, whole ones")
    shown = reeve("task", "show", t["task"], data=s.data).stdout
    check("error         exit status 3:\n" in shown and "\n              it is broken\n" in shown, shown)
    t = give(s, c)
    eq(Agent(s, c, command=["sh", "-c", "kill -KILL $$"]).end()[0], 1)
    eq(task_of(s, t)["outcome"]["error"], "killed by SIGKILL")


@server(args=MANUAL)
def test_exec_output_of_any_size_and_kind(s):
    """The end of it is kept, so much as the server's limit allows, whatever escaping makes of it."""
    c = talk(s)
    for script, ends in (("seq 1000000", "\n999999\n1000000"),
                         ("head -c 900000 /dev/zero | tr '\\0' '\\1'", "\x01\x01"),
                         ("head -c 900000 /dev/zero | tr '\\0' '\\377'", "\ufffd\ufffd")):
        t = give(s, c)
        agent = Agent(s, c, command=["sh", "-c", script])
        out, err = agent.process.communicate(timeout=PATIENCE)
        eq((agent.process.returncode, err), (0, b""), script)
        text = deliverable_of(s, t)
        check(text.endswith(ends) and len(text) > 100_000, f"{len(text)} of {script}: {text[-40:]!r}")
        cut = re.match(r"\[reeve: the first (\d+) bytes are left out\]\n", text)
        check(cut, text[:60])
        all_of_it = out[:out.rindex(b"task ")]
        eq(all_of_it[int(cut[1]):].decode(errors="replace").rstrip("\n"), text[cut.end():],
           f"the rest of {script}")
    t = give(s, c)
    eq(Agent(s, c, command=["true"]).end()[0], 0)
    eq(deliverable_of(s, t), "", "no output is an empty text")


@server("net.body_bytes_max=4096", args=MANUAL)
def test_exec_output_that_the_server_refuses_fails_the_task(s):
    c = talk(s)
    t = give(s, c)
    code, out, err = Agent(s, c, command=["sh", "-c", "seq 2000"]).end()
    check(code == 1 and out.endswith("\n2000\n"), err)
    eq(status(s, t), "failed")
    check("refused" in task_of(s, t)["outcome"]["error"], task_of(s, t)["outcome"])


@server(args=MANUAL)
def test_exec_with_a_large_task(s):
    """More than the environment holds: all of it on standard input."""
    c = talk(s)
    t = give(s, c, content="x" * 300_000)
    script = 'wc -c; printf %s "$REEVE_TASK"'
    code, out, err = Agent(s, c, command=["sh", "-c", script]).end()
    eq((code, err), (0, ""), out)
    size, variable = deliverable_of(s, t).split("\n")
    check(int(size) > 300_000, size)
    eq((json.loads(variable)["task"], "content" in json.loads(variable)), (t["task"], False))
    t = give(s, c, content="x" * 300_000)
    eq(Agent(s, c, command=["true"]).end()[0], 0, "and one that does not read it")


@server(args=MANUAL)
def test_exec_of_what_does_not_exist(s):
    """Known before anything is claimed; or, if the file is there but cannot be run, told."""
    c = talk(s)
    t = give(s, c)
    for command in ("/no/such/command", "no-such-command", folder()):
        code, out, err = Agent(s, c, command=[command]).end()
        if command != folder():  # a folder may be entered, which looks like being run
            eq((code, out), (2, ""), err)
            eq(status(s, t), "pending")
    script = marker("script")
    with open(script, "w") as f:
        f.write("#!/no/such/interpreter\n")
    os.chmod(script, 0o755)
    t = give(s, c)
    code, out, err = Agent(s, c, command=[script]).end()
    eq((code, out), (1, ""), err)
    check("No such file" in task_of(s, t)["outcome"]["error"], task_of(s, t))
    gone(s, c)


@server(BEATS, args=MANUAL)
def test_exec_beats_while_the_command_runs(s):
    """Ten leases long; the worker's lease is renewed by the epoch, the listener's with it."""
    c = talk(s)
    t = give(s, c)
    os.mkfifo(marker("go"))
    agent = Agent(s, c, command=["sh", "-c", f"echo > {marker('on')}; read x < {marker('go')}"])
    wait_for(lambda: exists("on"), "the command")
    for _ in range(10):
        advance(s, ACTIVE_MS)
        wait_for(lambda: ms(participant(s, c)["activeUntil"]) - now(s) == ACTIVE_MS, "a beat")
        eq(status(s, t), "in_progress")
    with open(marker("go"), "w") as f:
        f.write("\n")
    eq(agent.end()[0], 0)
    eq((status(s, t), task_of(s, t)["attempts"]), ("completed", 0))


def run_until_told(s, c, then, trap="exit 0"):
    """A command that runs until SIGTERM, then `then`. Its end, and whether it was told."""
    t = give(s, c)
    script = f"trap 'echo > {marker('told')}; {trap}' TERM; echo $$ > {marker('pid')}; " \
             + LOOP
    agent = Agent(s, c, command=["sh", "-c", script])
    pid = pid_in("pid")
    then(t, agent)
    code, out, err = agent.end()
    check(not is_alive(pid), "the command is gone")
    eq(out, "")
    os.unlink(marker("pid"))
    return code, exists("told"), t


@server(BEATS, args=MANUAL)
def test_exec_ends_the_command_when_its_task_is_taken_away(s):
    c = talk(s)
    code, told, t = run_until_told(
        s, c, lambda t, _: s.call("task.cancel", task=t["task"], reason="enough"))
    eq((code, told, status(s, t)), (1, True, "canceled"))
    code, told, t = run_until_told(s, c, lambda t, _: advance(s, ACTIVE_MS + 1))
    eq((code, told), (1, True), "the lease was over before the beat")
    eq((status(s, t), task_of(s, t)["attempts"]), ("pending", 1), "to be had again")
    gone(s, c)


@server(BEATS, args=MANUAL)
def test_exec_told_to_stop_is_5_and_the_end_is_4(s):
    c = talk(s)
    code, told, t = run_until_told(
        s, c, lambda *_: s.call("agent.stop", conversation=c, role="a"))
    eq((code, told, status(s, t)), (5, True, "in_progress"), "neither completed nor failed")
    c = talk(s)
    code, told, t = run_until_told(s, c, lambda *_: s.call("conversation.end", conversation=c))
    eq((code, told, status(s, t)), (4, True, "canceled"))


@server(BEATS, args=MANUAL)
def test_exec_a_signal_ends_the_command_and_leaves(s):
    c = talk(s)
    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        code, told, t = run_until_told(s, c, lambda _, agent, sig=sig: agent.signal(sig))
        eq((code, told, status(s, t)), (128 + sig, True, "in_progress"), sig.name)
        gone(s, c)
        s.call("task.cancel", task=t["task"], reason="next")


@server(BEATS, args=MANUAL)
def test_exec_a_command_that_ignores_sigterm_is_killed(s):
    """With the helper it started: SIGKILL goes to the group."""
    c = talk(s)
    give(s, c)
    script = f"trap '' TERM; sh -c 'echo $$ > {marker('helper')}; {LOOP}' & " \
             f"echo $$ > {marker('pid')}; {LOOP}"
    agent = Agent(s, c, command=["sh", "-c", script])
    pids = pid_in("pid"), pid_in("helper")
    agent.signal(signal.SIGTERM)
    eq(agent.end()[0], 128 + signal.SIGTERM)
    wait_for(lambda: not any(map(is_alive, pids)), "both to be gone")
    gone(s, c)


@server(BEATS, args=MANUAL)
def test_exec_a_second_signal_does_not_wait(s):
    c = talk(s)
    give(s, c)
    script = f"trap 'echo > {marker('told')}' TERM; echo $$ > {marker('pid')}; " \
             + LOOP
    agent = Agent(s, c, command=["sh", "-c", script])
    pid = pid_in("pid")
    agent.signal(signal.SIGINT)
    wait_for(lambda: exists("told"), "SIGTERM to arrive")
    agent.signal(signal.SIGINT)
    eq(agent.end()[0], 128 + signal.SIGINT)
    check(not is_alive(pid), "the command is gone")


@server(BEATS, args=MANUAL)
def test_exec_after_kill_9_the_command_is_told_and_the_lease_runs_out(s):
    c = talk(s)
    t = give(s, c)
    script = f"trap 'exit 0' TERM; echo $$ > {marker('pid')}; {LOOP}"
    agent = Agent(s, c, command=["sh", "-c", script])
    pid = pid_in("pid")
    agent.signal(signal.SIGKILL)
    agent.end()
    wait_for(lambda: not is_alive(pid), "the kernel to end the command")
    eq(status(s, t), "in_progress")
    advance(s, ACTIVE_MS + 1)
    eq((status(s, t), task_of(s, t)["attempts"]), ("pending", 1))


@server(args=MANUAL)
def test_exec_does_not_wait_for_what_the_command_leaves_behind(s):
    """A helper in the background keeps the pipes open; the task is done all the same."""
    c = talk(s)
    t = give(s, c)
    script = f"(echo $$; exec sleep 60) > {marker('x')} & exec 3>&1; sleep 60 & " \
             f"echo $! > {marker('pid')}; echo done"
    code, out, err = Agent(s, c, command=["bash", "-c", script]).end()
    helper = pid_in("pid")
    check(is_alive(helper), "it was left alone")
    os.killpg(os.getpgid(helper), signal.SIGKILL)
    eq((code, deliverable_of(s, t)), (0, "done"), err)


@server(BEATS, args=MANUAL)
def test_exec_survives_a_restart_of_the_server(s):
    """Nothing is lost: the command goes on, and its end is told to the new server."""
    c = talk(s)
    t = give(s, c)
    os.mkfifo(marker("go"))
    script = f"echo > {marker('on')}; read x < {marker('go')}; echo result"
    agent = Agent(s, c, command=["sh", "-c", script])
    wait_for(lambda: exists("on"), "the command")
    s.kill()
    with open(marker("go"), "w") as f:
        f.write("\n")
    line = agent.process.stderr.readline().decode()
    check("again" in line, line)
    s.start()
    eq(agent.end()[:2], (0, f"result\ntask {t['task']} completed\n"))
    eq((status(s, t), deliverable_of(s, t)), ("completed", "result"))


@server(BEATS, args=MANUAL)
def test_L22_exec_joins_again_while_it_works(s):
    """After a restart the server knows no listener; the next beat brings it back."""
    c = talk(s)
    t = give(s, c)
    os.mkfifo(marker("go"))
    script = f"echo > {marker('on')}; read x < {marker('go')}"
    agent = Agent(s, c, command=["sh", "-c", script])
    wait_for(lambda: exists("on"), "the command")
    connection = participant(s, c)["connectionId"]
    leave(s, c, "a", connection)
    gone(s, c)
    wait_for(lambda: participant(s, c)["readyUntil"], "it to join again")
    eq(participant(s, c)["connectionId"], connection)
    with open(marker("go"), "w") as f:
        f.write("\n")
    eq(agent.end()[0], 0)
    eq(status(s, t), "completed")
    gone(s, c)


@server(BEATS, args=MANUAL)
def test_exec_a_newer_listener_does_not_take_the_work(s):
    c = talk(s)
    t = give(s, c)
    os.mkfifo(marker("go"))
    script = f"echo > {marker('on')}; read x < {marker('go')}"
    agent = Agent(s, c, command=["sh", "-c", script])
    wait_for(lambda: exists("on"), "the command")
    holder = participant(s, c)["connectionId"]
    newer = Agent(s, c)
    wait_for(lambda: participant(s, c)["connectionId"] != holder, "the newer one")
    advance(s, ACTIVE_MS)
    wait_for(lambda: ms(participant(s, c)["activeUntil"]) - now(s) == ACTIVE_MS, "a beat")
    with open(marker("go"), "w") as f:
        f.write("\n")
    eq(agent.end()[0], 0)
    eq(status(s, t), "completed")
    check(newer.is_running(), "the newer one still listens")
    t = give(s, c)
    eq(newer.task()["task"]["task"], t["task"])


# ---- progress ----

# Leases that outlast the test, so that only running.reap is at work: 100 s.
LONG = ("liveness.ttl_seconds=100000", "liveness.active_ttl_seconds=100000",
        "pmo.active_reap_seconds=100")
REAPED_MS = 100_000


def told(s, t, text):
    wait_for(lambda: text in (task_of(s, t)["note"] or ""), f"a beat that tells of {text!r}")


def speaker(s, c, **more):
    """A command that prints what it is told through a fifo. (task, agent, say)"""
    t = give(s, c)
    os.mkfifo(marker("say"))
    script = f"while read line; do echo $line; done < {marker('say')}"
    agent = Agent(s, c, command=["sh", "-c", script], **more)
    wait_for(lambda: status(s, t) == "in_progress", "the command")
    ear = open(marker("say"), "w")

    def say(text):
        ear.write(text + "\n")
        ear.flush()

    return t, agent, say


def check_reaped(s, t, agent, last):
    """Taken away, told at once, and what it printed last is kept."""
    eq(agent.end()[0], 1, "exit status")
    got = task_of(s, t)
    eq((got["status"], got["outcome"]["stop_reason_code"]),
       ("failed", "timeout_reaped_by_watchdog"), "the task")
    card = deliverable_of(s, t)
    eq(card["kind"], "fallback_deliverable", "what is left")
    check(last in card["message"], card["message"])
    shown = reeve("task", "show", t["task"], data=s.data).stdout
    check(last in shown, shown)


@server(BEATS, *LONG, args=MANUAL)
def test_exec_output_is_progress_and_silence_is_none(s):
    c = talk(s)
    t, agent, say = speaker(s, c)
    for n in range(3):
        say(f"line {n}")
        told(s, t, f"line {n}")
        advance(s, REAPED_MS)
        eq(status(s, t), "in_progress", "it has printed since")
    advance(s, 1)
    check_reaped(s, t, agent, "line 2")


@server(BEATS, *LONG, args=MANUAL)
def test_exec_progress_none_tells_what_was_printed_and_does_not_count_it(s):
    c = talk(s)
    t, agent, say = speaker(s, c, options=["--progress=none"])
    advance(s, REAPED_MS)
    say("still here")
    told(s, t, "still here")
    advance(s, 1)
    check_reaped(s, t, agent, "still here")


def reap_due(s, t):
    """When running.reap is due, as the server says it."""
    why = s.call("agent.why", conversation=t["conversation"], role=t["role"])
    steps = [x["next"] for x in why["standing"] if x["next"]]
    (due,) = [ms(x["dueAt"]) for x in steps if x["rule"] == "running.reap"]
    return due


SPIN = f"i=0; while [ -e {{0}} ]; do i=$((i+1)); done"


@server(BEATS, *LONG, args=MANUAL)
def test_W8_exec_a_process_that_spins_makes_progress_only_if_cpu_is_asked_for(s):
    c = talk(s)
    with open(marker("spin"), "w"):
        pass
    t = give(s, c)
    agent = Agent(s, c, command=["sh", "-c", SPIN.format(marker("spin"))],
                  options=["--progress", "cpu"])
    wait_for(lambda: status(s, t) == "in_progress", "the command")
    due = reap_due(s, t)
    advance(s, REAPED_MS)
    wait_for(lambda: reap_due(s, t) > due, "a beat that tells of processor time")
    os.unlink(marker("spin"))
    eq(agent.end()[0], 0, "it has worked")
    with open(marker("spin"), "w"):
        pass
    t = give(s, c)
    agent = Agent(s, c, command=["sh", "-c", f"echo > {marker('on')};" + SPIN.format(marker("spin"))])
    wait_for(lambda: exists("on"), "the command")
    advance(s, REAPED_MS + 1)
    eq((agent.end()[0], status(s, t)), (1, "failed"), "by default only output counts")


@server(args=MANUAL)
def test_exec_exit_status_and_last_lines_are_in_task_show(s):
    c = talk(s)
    t = give(s, c)
    eq(Agent(s, c, command=["sh", "-c", "seq 500; echo warned >&2"]).end()[0], 0)
    shown = reeve("task", "show", t["task"], data=s.data).stdout
    check("note          exit status 0:\n" in shown, shown)
    check("\n              500\n" in shown and "\n              warned\n" in shown, shown)


# ---- the whole tree, at once ----

@server("liveness.heartbeat_seconds=30", "liveness.ttl_seconds=100000",
        "liveness.active_ttl_seconds=100000", args=MANUAL)
def test_P8_exec_ends_at_once_and_not_with_the_next_beat(s):
    """Half a minute between beats: who waits for one, waits longer than this test."""
    c = talk(s)
    code, was_told, t = run_until_told(
        s, c, lambda t, _: s.call("task.cancel", task=t["task"], reason="enough"))
    eq((code, was_told, status(s, t)), (1, True, "canceled"))


ESCAPE = (f"setsid sh -c 'echo $$ > {{0}}/one; {LOOP}' & "          # a session of its own
          f"(setsid sh -c 'echo $$ > {{0}}/two; {LOOP}' &) ; "      # and its parent is gone
          f"trap 'exit 0' TERM; echo $$ > {{0}}/pid; {LOOP}")


@server(BEATS, args=MANUAL)
def test_P8_exec_who_left_the_group_is_ended_too(s):
    c = talk(s)
    for end in (lambda t, _: s.call("task.cancel", task=t["task"], reason="enough"),
                lambda _, agent: agent.signal(signal.SIGQUIT)):
        t = give(s, c)
        agent = Agent(s, c, command=["sh", "-c", ESCAPE.format(folder())])
        pids = [pid_in(name) for name in ("one", "two", "pid")]
        end(t, agent)
        agent.end()
        eq([p for p in pids if is_alive(p)], [], "of the tree that are alive")
        for name in ("one", "two", "pid"):
            os.unlink(marker(name))
        s.call("task.cancel", task=t["task"], reason="enough")


@server(BEATS, args=MANUAL)
def test_P8_exec_a_command_that_ended_for_a_task_that_is_gone_leaves_nothing(s):
    """It ends in the moment the task is taken away; what it left in the background must go, too."""
    c = talk(s)
    t = give(s, c)
    os.mkfifo(marker("go"))
    script = f"setsid sh -c 'echo $$ > {marker('one')}; {LOOP}' > /dev/null & " \
             f"read x < {marker('go')}; echo > {marker('done')}"
    agent = Agent(s, c, command=["sh", "-c", script])
    helper = pid_in("one")
    agent.signal(signal.SIGSTOP)
    s.call("task.cancel", task=t["task"], reason="enough")
    with open(marker("go"), "w") as f:
        f.write("\n")
    wait_for(lambda: exists("done"), "the command to end")
    agent.signal(signal.SIGCONT)
    code, _, err = agent.end()
    eq((code, is_alive(helper), status(s, t)), (1, False, "canceled"), err)
    check("taken away" in err, err)


@server(BEATS, args=MANUAL)
def test_exec_children_of_the_shell_that_became_us_are_not_touched(s):
    c = talk(s)
    t = give(s, c)
    before = ["sh", "-c", f"sh -c '{LOOP}' & echo $! > {marker('other')}; exec \"$@\"", "sh"]
    script = f"trap 'exit 0' TERM; echo $$ > {marker('pid')}; {LOOP}"
    agent = Agent(s, c, before=before, command=["sh", "-c", script], stdout=subprocess.DEVNULL)
    pid, other = pid_in("pid"), pid_in("other")
    s.call("task.cancel", task=t["task"], reason="enough")
    eq(agent.process.wait(PATIENCE), 1, "exit status")
    check(is_alive(other) and not is_alive(pid), "the command, and nobody else")
    os.kill(other, signal.SIGKILL)


@server(BEATS, args=MANUAL)
def test_exec_a_reader_that_does_not_read_holds_up_the_command_only(s):
    """Its output is full: beats go on, and the loss of the task ends it all the same."""
    c = talk(s)
    t = give(s, c)
    reader, writer = os.pipe()
    agent = Agent(s, c, stdout=writer,
                  command=["sh", "-c", f"echo $$ > {marker('pid')}; exec yes"])
    os.close(writer)
    pid = pid_in("pid")
    wait_for(lambda: "S (sleeping)" in open(f"/proc/{pid}/status").read(), "a full pipe")
    advance(s, ACTIVE_MS)
    wait_for(lambda: ms(participant(s, c)["activeUntil"]) - now(s) == ACTIVE_MS, "a beat")
    s.call("task.cancel", task=t["task"], reason="enough")
    eq((agent.process.wait(PATIENCE), is_alive(pid)), (1, False), "its end")
    os.close(reader)


# ---- with a machine ----

@server()
def test_exec_is_all_that_a_kind_needs(s):
    """docs/machines.md: no option, and what the command prints is in the agent's log."""
    argv = [BIN, "wait-for-task", "--exec", "sh", "-c", "echo to the log; echo and this >&2"]
    with Daemon(s, {"worker": (argv, {"restart": "always"})}) as m:
        c = talk(s, "a", kind="worker")
        t = give(s, c)
        wait_for(lambda: status(s, t) == "completed", "the work")
        eq(deliverable_of(s, t), "to the log", "the deliverable")
        wait_for(lambda: f"task {t['task']} completed" in m.agent_log(c), "its last line")
        log = m.agent_log(c)
        check("to the log" in log and "and this" in log, log)


if __name__ == "__main__":
    main()
