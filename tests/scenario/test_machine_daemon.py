"""`reeve machine` with real processes and a real server: people, crashes, restarts of everything.

What single commands do, and a server that misbehaves, is in test_machine_link.py.
"""
import ctypes
import json
import os
import signal
import subprocess
import sys

from daemon import (Daemon, agent, await_exit, await_new, await_view, crew, exits, is_alive, sh,
                    stay)
from reeve_test import BIN, check, eq, main, reeve, server, wait_for

FAST = ("restart.backoff_first_ms=1", "restart.backoff_max_ms=10")
MANY = ("restart.burst=1000",)


def ask(s, verb, c, role="a"):
    return s.call(f"agent.{verb}", conversation=c, role=role)


def kinds(**more):
    return {"stay": sh(stay())} | more


def up(s, d, c, role="a"):
    """It runs: (spawn id, pid of the agent)."""
    spawn = await_view(s, c, "running", role)["process"]["spawnId"]
    return spawn, d.spawns()[spawn]["agent"]["pid"]


# ---- people ----

def test_start_stop_and_restart_by_people(s):
    with Daemon(s, kinds()) as d:
        c = crew(s)
        spawn, pid = up(s, d, c)
        check(is_alive(pid), "a process")
        ask(s, "restart", c)
        other = await_new(s, c, spawn)["spawnId"]
        check(not is_alive(pid), "the old one is dead before the new one begins")
        ask(s, "stop", c)
        await_view(s, c, "stopped")
        wait_for(lambda: (d.spawns(), d.outbox()) == ({}, []), "nothing is left of it")
        ask(s, "start", c)
        await_new(s, c, other)
        eq([x["expected"] for x in exits(s, c)], [True, True], "ends that somebody asked for")


def test_an_agent_is_told_who_it_is_and_finds_reeve(s):
    script = "echo $REEVE_URL $REEVE_CONVERSATION $REEVE_ROLE $1 $MODEL; reeve version; " + stay()
    with Daemon(s, {"stay": (sh(script, "x", "{conversation}/{role}/{task}/{other}"),
                             {"env": ["MODEL=small"]})}) as d:
        c = crew(s)
        up(s, d, c)
        wait_for(lambda: "reeve 0." in d.agent_log(c), "reeve version")
        check(f"{s.url} {c} a {c}/a//{{other}} small" in d.agent_log(c), d.agent_log(c))


def test_L58_no_terminal_to_wait_on(s):
    """The machine's own settings do not come through; an interactive kind keeps them."""
    script = "echo \"<$EDITOR $GIT_EDITOR $PAGER $TERM $NOTHING>\"; " \
             "test -t 0 || echo no terminal; cat; echo read to the end; " + stay()
    both = {"stay": sh(script), "free": (sh(script), {"interactive": "true"})}
    with Daemon(s, both, start=False) as d:
        d.start(env={"EDITOR": "vi", "GIT_EDITOR": "vi", "PAGER": "less", "TERM": "xterm",
                     "REEVE_NOTHING": "x"})
        c, free = crew(s), crew(s, kind="free")
        for number, said in ((c, "<true true cat dumb >"), (free, "<vi vi less xterm >")):
            wait_for(lambda: "read to the end" in d.agent_log(number), "its standard input to end")
            check(said in d.agent_log(number) and "no terminal" in d.agent_log(number),
                  d.agent_log(number))


def test_nothing_that_is_not_configured_is_run(s):
    with Daemon(s, kinds()) as d:
        c = crew(s, kind="other", machine="m1")
        found = await_view(s, c, "breaker_open")
        (why,) = {x["outcome"] for x in s.call("command.list", conversation=c)["commands"]}
        check("no kind 'other'" in why, why)
        check("process" not in found, "nothing ran")
        s.refused("INVALID_PARAMS", "conversation.create",
                  agents=[{"role": "a", "kind": "/bin/sh -c 'touch x'"}])
        eq(d.spawns(), {}, "processes")


def test_what_an_agent_printed_can_be_read_from_afar(s):
    with Daemon(s, {"stay": sh("seq 1 1000; echo oops >&2; " + stay())}) as d:
        c = crew(s)
        wait_for(lambda: "oops" in d.agent_log(c), "its output")
        got = s.call("agent.logs", conversation=c, role="a")
        eq((got["text"], got["truncated"]), (d.agent_log(c), False), "all of it")
        got = s.call("agent.logs", conversation=c, role="a", tailBytes=100)
        check(got["truncated"] and d.agent_log(c).endswith("\n" + got["text"]), got)
        eq(s.call("agent.logs", conversation=c, role="a", after=got["next"])["text"], "", "since")
        check("oops" in reeve("logs", f"{c}:a", data=s.data).stdout, "reeve logs")


def test_reeve_logs_says_what_it_leaves_out(s):
    with Daemon(s, {"stay": sh("seq 1 30000; echo done; " + stay())}) as d:
        c = crew(s)
        wait_for(lambda: "done" in d.agent_log(c), "its output")
        lines = d.agent_log(c).splitlines()

        def logs(*args):
            done = reeve("logs", f"{c}:a", *args, data=s.data)
            eq(done.returncode, 0, f"reeve logs {args}: {done.stderr}")
            return done.stdout.splitlines(), done.stderr

        def left_out(n):
            return f"reeve logs: {n} earlier lines left out; --all shows them\n"

        shown, said = logs()
        check(0 < len(shown) < len(lines) and lines[-len(shown):] == shown, "its end")
        eq(said, left_out(len(lines) - len(shown)), "by default")
        for n in (0, 3, 25_000):  # of the end, and of more than one page
            eq(logs("-n", str(n)), (lines[len(lines) - n:], left_out(len(lines) - n)), f"-n {n}")
        for args in (("-n", "999999"), ("--all",), ("--since", "1d"), ("--since", lines[0][:24])):
            eq(logs(*args), (lines, ""), f"all, by {args}")
        eq(logs("--since", "2999-01-01"), ([], ""), "--since a time to come")
        at = lines[20_000][:24]
        eq(logs("--since", at), ([x for x in lines if x[:24] >= at], ""), "--since a time")


def test_in_the_folder_of_a_server_nothing_else_is_needed(s):
    with Daemon(s, kinds(), start=False) as d:
        d.data, own = s.data, d.data
        os.replace(os.path.join(own, "machine.conf"), os.path.join(s.data, "machine.conf"))
        d.where = lambda: []
        d.start()
        spawn, pid = up(s, d, crew(s))
        check(is_alive(pid), "a process")


# ---- ends ----

@server(*FAST, *MANY)
def test_L47_a_program_that_cannot_be_run_is_a_failed_start(s):
    with Daemon(s, {"stay": ["/no/such/program"]}) as d:
        c = crew(s)
        wait_for(lambda: agent(s, c)["restarts"] > 2, "it is tried again")
        why = s.call("command.list", conversation=c)["commands"][0]["outcome"]
        check("/no/such/program" in why and "No such file" in why, why)
        ask(s, "stop", c)
        await_view(s, c, "stopped")
        wait_for(lambda: not d.outbox(), "everything is told")


@server(*FAST, *MANY)
def test_L54_the_end_of_a_short_lived_process_is_not_lost(s):
    with Daemon(s, {"stay": sh("exit 7")}) as d:
        c = crew(s)
        wait_for(lambda: len(exits(s, c)) >= 20, "twenty ends")
        ask(s, "stop", c)
        await_view(s, c, "stopped")
        eq({x["code"] for x in exits(s, c) if not x["expected"]}, {7}, "how they ended")
        begun = {x["spawnId"] for x in s.call("command.list", conversation=c, limit=500)["commands"]
                 if x["type"] != "stop-agent" and x["outcome"] != "stopped_by_user"}
        wait_for(lambda: {x["spawnId"] for x in exits(s, c)} >= begun, "each that began has ended")
        eq((d.spawns(), d.outbox()), ({}, []), "what is left of them")


def test_a_crash_is_restarted_with_its_task(s):
    """The first process dies with the task in its hands; the second one does it."""
    script = "test -e $MARK || { touch $MARK; kill -9 $PPID; }; echo done"
    work = ["reeve", "wait-for-task", "--conversation", "{conversation}", "--role", "{role}",
            "--exec", "sh", "-c", script]
    with Daemon(s, {}, start=False) as d:
        d.configure({"stay": (work, {"env": [f"MARK={d.data}/died"]})})
        d.start()
        c = crew(s, desired="auto")
        t = s.call("task.create", conversation=c, role="a", content="x")["task"]["task"]
        done = wait_for(lambda: (x := s.call("task.get", task=t)["task"])["status"] == "completed"
                        and x, "the task to be completed")
        eq(done["attempts"], 1, "attempts that were lost")
        wait_for(lambda: len(exits(s, c)) == 2, "the second one ends as well")
        eq([(x["code"], x["signal"]) for x in exits(s, c)], [(-1, 9), (0, 0)], "how they ended")


@server(*FAST, *MANY)
def test_L43_a_stop_by_a_person_during_a_crash_loop_sticks(s):
    with Daemon(s, {"stay": sh("exit 1")}) as d:
        c = crew(s)
        for _ in range(5):
            before = len(exits(s, c))
            ask(s, "start", c)
            wait_for(lambda: len(exits(s, c)) > before + 1, "a few crashes")
            ask(s, "stop", c)
            await_view(s, c, "stopped")
            wait_for(lambda: not d.outbox() and not d.spawns(), "the last of them is over")
            number = len(s.call("command.list", conversation=c, limit=500)["commands"])
            s.call("watchdog.runOnce")
            eq(len(s.call("command.list", conversation=c, limit=500)["commands"]), number,
               "commands after the stop")


# ---- the machine ends, is killed, comes back ----

def test_L56_a_machine_that_is_killed_kills_nobody_and_loses_no_end(s):
    with Daemon(s, kinds()) as d:
        c = crew(s, "a", "b", "c")
        found = {r: up(s, d, c, r) for r in "abc"}
        d.kill()
        os.kill(found["a"][1], signal.SIGUSR2)  # ends by itself while nobody looks
        wait_for(lambda: not is_alive(found["a"][1]), "the end of a")
        d.start()
        eq(await_exit(s, c, found["a"][0])["signal"], signal.SIGUSR2, "how a ended")
        await_new(s, c, found["a"][0])
        eq([up(s, d, c, r) for r in "bc"], [found["b"], found["c"]], "those that went on")
        os.kill(found["b"][1], signal.SIGKILL)  # and it is watched again
        eq(await_exit(s, c, found["b"][0])["signal"], signal.SIGKILL, "how b ended")
        ask(s, "stop", c, "c")
        await_view(s, c, "stopped", "c")
        check(not is_alive(found["c"][1]), "c can be stopped")


@server(deadline=80)
def test_L56_an_upgrade_under_twenty_agents_kills_none(s):
    with Daemon(s, kinds()) as d:
        roles = [f"r{i}" for i in range(20)]
        c = crew(s, *roles)
        found = {r: up(s, d, c, r) for r in roles}
        for how in ("stop", "kill", "stop"):
            d.restart(how)
            eq({r: up(s, d, c, r) for r in roles}, found, "the agents")
        eq(exits(s, c), [], "ends")
        eq(agent(s, c, "r0")["restarts"], 0, "restarts")


def test_a_machine_killed_while_it_starts_agents_comes_back_to_one_of_each(s):
    """At whatever point it died: each agent has one process, and a token that works."""
    script = "reeve task list --conversation $REEVE_CONVERSATION >/dev/null && echo let in; " + stay()
    with Daemon(s, {"stay": sh(script)}) as d:
        roles = [f"r{i}" for i in range(8)]
        for _ in range(6):
            c = crew(s, *roles)
            wait_for(lambda: d.spawns() or agent(s, c, "r7")["view"] == "running", "it begins")
            d.restart()
            for r in roles:
                await_view(s, c, "running", r)
            spawned = [x for x in d.spawns() if x in
                       {agent(s, c, r)["process"]["spawnId"] for r in roles}]
            eq(len(spawned), len(roles), "processes")
            s.call("conversation.end", conversation=c)
            wait_for(lambda: not d.spawns(), "all of them to end")


def test_L34_a_zombie_is_not_taken_for_alive(s):
    """The shim has ended, and its new parent, this test, does not reap it."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    with Daemon(s, kinds()) as d:
        c = crew(s)
        spawn, pid = up(s, d, c)
        shim = d.spawns()[spawn]["shim"]["pid"]
        d.kill()
        os.kill(shim, signal.SIGKILL)
        wait_for(lambda: not is_alive(shim) and not is_alive(pid), "the end of both")
        check(os.path.exists(f"/proc/{shim}"), "a zombie")
        d.start()
        eq(await_exit(s, c, spawn)["code"], -1, "nobody saw how it ended")
        await_new(s, c, spawn)


def test_what_another_boot_left_is_told_as_ended(s):
    with Daemon(s, kinds()) as d:
        c = crew(s)
        spawn, pid = up(s, d, c)
        d.kill()
        place = os.path.join(d.data, "spawns", spawn)
        os.kill(d.spawns()[spawn]["shim"]["pid"], signal.SIGKILL)
        for name in ("seen", "about"):  # as if all of it had been before
            with open(os.path.join(place, name)) as f:
                said = json.load(f)
            with open(os.path.join(place, name), "w") as f:
                json.dump(said | {"bootId": "another"}, f)
        d.start()
        check("started again" in await_exit(s, c, spawn)["text"], "why nobody saw it")
        await_new(s, c, spawn)


def test_a_killed_shim_leaves_nothing(s):
    """Whatever the agent started: in its group, in a session of its own, with another environment,
    and deaf to SIGTERM."""
    escape = "import ctypes, os; os.setsid(); ctypes.CDLL(None).prctl(1, 0, 0, 0, 0); " \
             "print(os.getpid(), file=open(os.environ['PIDS'], 'a')); " \
             "os.execv('/bin/sleep', ['sleep', '1000'])"
    script = f"""trap '' TERM
        sleep 1000 & echo $! >> $PIDS
        setsid sh -c 'trap "" TERM; echo $$ >> $PIDS; while :; do sleep 1000; done' &
        env -i PIDS=$PIDS {sys.executable} -c "{escape}" &
        while test $(wc -l < $PIDS) -lt 3; do sleep 0.01; done; """ + stay()
    with Daemon(s, {}, start=False) as d:
        pids = f"{d.data}/pids"
        open(pids, "w").close()
        d.configure({"stay": (sh(script), {"env": [f"PIDS={pids}"]})})
        d.start()
        c = crew(s)
        spawn, pid = up(s, d, c)
        wait_for(lambda: open(pids).read().count("\n") == 3, "its children")
        tree = [pid, *map(int, open(pids).read().split())]
        os.kill(d.spawns()[spawn]["shim"]["pid"], signal.SIGKILL)
        told = await_exit(s, c, spawn)
        eq(told["code"], -1, "nobody saw how it ended")
        check(told["text"].startswith("its shim was killed"), f"the machine's own words: {told}")
        check(not os.path.exists(f"{d.data}/outbox.rejected"), "the server takes them")
        eq([p for p in tree if is_alive(p)], [], "what is left when the end is told")
        ask(s, "stop", c)
        await_view(s, c, "stopped")


def test_L55_L35_one_that_hangs_keeps_nobody_waiting(s):
    """A shim that is stopped answers nothing; an agent that ignores SIGTERM takes its whole grace."""
    deaf = sh(f"trap '' TERM; while kill -0 {os.getpid()}; do sleep 0.1; done")
    with Daemon(s, kinds(deaf=(deaf, {"stop_grace": "1s"}))) as d:
        c, other = crew(s, "a", kind="deaf"), crew(s, "b", "c")
        spawn, pid = up(s, d, c)
        quiet, _ = up(s, d, other, "c")
        hung = d.spawns()[quiet]["shim"]["pid"]
        os.kill(hung, signal.SIGSTOP)
        ask(s, "restart", c)
        ask(s, "stop", other, "c")
        old, old_pid = up(s, d, other, "b")
        os.kill(old_pid, signal.SIGKILL)
        await_new(s, other, old, "b")
        check(agent(s, other, "c")["view"] == "stopping", "the hung one is not called stopped")
        new = await_new(s, c, spawn)["spawnId"]
        check(not is_alive(pid), "the deaf one was killed after its grace")
        await_view(s, other, "stopped", "c")
        check(not is_alive(hung), "a shim that does not answer is killed in the end")
        eq(agent(s, c)["process"]["spawnId"], new, "the late end of the old one changed nothing")


# ---- the server ends, is killed, is away ----

@server(*FAST)
def test_the_server_is_killed_and_comes_back(s):
    s.listen = f"127.0.0.1:{s.port}"
    with Daemon(s, kinds()) as d:
        c = crew(s, "a", "b")
        found = {r: up(s, d, c, r) for r in "ab"}
        for _ in range(3):
            s.kill()
            os.kill(found["a"][1], signal.SIGKILL)
            wait_for(lambda: any(f["fact"] == "exited" for f in d.outbox()), "the fact is kept")
            s.start()
            eq(await_exit(s, c, found["a"][0])["signal"], signal.SIGKILL, "told in the end")
            await_new(s, c, found["a"][0])
            eq(up(s, d, c, "b"), found["b"], "b went on")
            found["a"] = up(s, d, c, "a")
        eq((d.log().count("no server"), d.log().count("link registered")), (3, 4),
           "one line for each time it goes and comes")


def test_L57_facts_survive_both(s):
    """The machine is killed while it has something to tell and nobody to tell it to."""
    s.listen = f"127.0.0.1:{s.port}"
    with Daemon(s, kinds()) as d:
        c = crew(s)
        spawn, pid = up(s, d, c)
        s.kill()
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: d.outbox(), "a fact in the outbox")
        d.kill()
        with open(os.path.join(d.data, "outbox"), "a") as f:  # and died in the middle of a line
            f.write('{"n":999,"fact":"exi')
        s.start()
        d.start()
        eq(await_exit(s, c, spawn)["signal"], signal.SIGKILL, "how it ended")
        await_new(s, c, spawn)
        wait_for(lambda: not d.outbox(), "all is told")


def test_L57_a_fact_that_is_rejected_is_set_aside(s):
    with Daemon(s, kinds(), start=False) as d:
        with open(os.path.join(d.data, "outbox"), "w") as f:
            f.write('{"n":41,"fact":"exited","spawnId":"nobody","exit":null,"at":"x"}\n')
        d.start()
        c = crew(s)
        spawn, pid = up(s, d, c)
        wait_for(lambda: not d.outbox(), "all is told")
        check('"n":41' in open(os.path.join(d.data, "outbox.rejected")).read(), "kept for people")
        check("set aside" in d.log(), d.log())
        check('"n":42' in open(os.path.join(d.data, "outbox")).read(), "numbers go on")


# ---- down ----

def test_L57_down_stops_all_and_tells_before_it_ends(s):
    with Daemon(s, kinds()) as d:
        c = crew(s, "a", "b", "c")
        found = {r: up(s, d, c, r) for r in "abc"}
        d.down()
        eq({x["spawnId"] for x in exits(s, c)}, {spawn for spawn, _ in found.values()}, "told")
        eq((d.outbox(), os.listdir(os.path.join(d.data, "spawns"))), ([], []), "what is left")
        d.start()  # they are wanted still
        for r in "abc":
            await_new(s, c, found[r][0], r)


def test_down_without_a_machine_or_a_server(s):
    with Daemon(s, kinds()) as d:
        c = crew(s)
        spawn, pid = up(s, d, c)
        d.kill()
        d.down()
        check(not is_alive(pid), "stopped")
        d.start()
        await_exit(s, c, spawn)
        done = reeve("down", data=os.path.join(d.data, "nowhere"))
        eq(done.returncode, 1, done.stderr)


# ---- one at a time ----

def test_L78_a_folder_in_use_is_waited_for_and_then_named(s):
    with Daemon(s, kinds()) as d:
        second = subprocess.run([BIN, "machine", "--data", d.data, *d.where()],
                                capture_output=True, text=True, timeout=40)
        eq(second.returncode, 75, second.stderr)
        check(f"process {d.process.pid}" in second.stderr, second.stderr)
        eq(second.stderr.count("\n"), 1, "lines")


def test_a_restart_does_not_wait_for_more_than_the_end_of_the_old_one(s):
    with Daemon(s, kinds()) as d:
        c = crew(s)
        found = up(s, d, c)
        old = d.process
        d.spawn()  # waits for the lock
        old.send_signal(signal.SIGTERM)
        eq(old.wait(20), 0, "exit status")
        wait_for(lambda: d.log().count("link registered") == 2, "the new one to register")
        eq(up(s, d, c), found, "the agent")


def test_another_machine_of_the_same_name_takes_its_place(s):
    with Daemon(s, kinds()) as d, Daemon(s, kinds(), start=False) as other:
        c = crew(s)
        _, pid = up(s, d, c)
        other.start()
        eq(d.wait(), 3, "exit status")
        check("superseded" in d.log() and "keep running" in d.log(), d.log())
        check(is_alive(pid), "its agents go on")


# ---- a wrong configuration ----

def test_what_is_wrong_in_the_configuration_is_named(s):
    with Daemon(s, {}, start=False) as d:
        path = os.path.join(d.data, "wrong.conf")
        for text, said in (("kind a {\n  argv = {\"x\"}\n  colour = red\n}\n", ":3:"),
                           ("kind a {\n  cwd = \"/\"\n}\n", "it has no argv"),
                           ("kind a {\n  argv = {\"x}\n}\n", ":2: a string is not closed")):
            with open(path, "w") as f:
                f.write(text)
            done = reeve("machine", "--data", d.data, *d.where(), "--config", path)
            eq(done.returncode, 2, done.stderr)
            check("wrong.conf" in done.stderr and said in done.stderr, done.stderr)
        for args, status in ((["--server", "nonsense", "--token-file", d.token_file], 2),
                             (["--name", "No Good", *d.where()], 2),
                             (["--config", path + "x", *d.where()], 2)):
            eq(reeve("machine", "--data", d.data, *args).returncode, status, str(args))


if __name__ == "__main__":
    main(60)
