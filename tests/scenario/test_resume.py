"""Whoever listens is told that a suspended task can go on, and whoever works that its task is gone.

What task.wait, task.applied and participant.heartbeat give to a worker that suspends; then libreeve
and `reeve wait-for-task`, which use it.
"""
import json
import os
import re
import socket
import subprocess
import threading

from crew import (ACTIVE_MS, LEASE_MS, TTL_MS, UNATTENDED_WORK_MS, Poll, applied, beat,
                  deliverable_of, give, join, participant, poll, put_to_work, report, status, suspend, suspended, taken,
                  talk, task_of)
from reeve_test import BIN, check, die_with_parent, eq, main, reeve, wait_for
from waiter import Agent, gone, waiting
from watch_model import advance, manual, ms, now
from wire import PATIENCE


# ---- the listener ----

@manual()
def test_settled_waits_until_all_results_can_be_taken_together(s):
    c = talk(s)
    t = suspended(s, c, "x", "y")
    waiting = Poll(s, c, settled=True)
    report(s, t, "x")
    check(waiting.is_waiting(), "a call is open")
    eq(poll(s, c)["status"], "resume", "without `settled` the first result is enough")
    eq(taken(s, t), [("x", "success")], "somebody takes it")
    report(s, t, "y")
    check(waiting.is_waiting(), "a result is lent")
    advance(s, LEASE_MS + 1)
    told = waiting.answer()
    eq((told["status"], told["task"]["task"], told["task"]["epoch"]),
       ("resume", t["task"], t["epoch"]), "both are there")
    eq(taken(s, t), [("x", "success"), ("y", "success")], "together")


@manual()
def test_applied_says_who_will_beat_from_now_on(s):
    """A lease of somebody who beats, of somebody who does not, and as it was."""
    c = talk(s)
    for claimed, said, lease in ((False, True, UNATTENDED_WORK_MS), (True, False, ACTIVE_MS),
                                 (True, None, UNATTENDED_WORK_MS), (False, None, ACTIVE_MS)):
        t = put_to_work(s, c, unattended=claimed)
        suspend(s, t, "x")
        report(s, t, "x")
        taken(s, t)
        got = applied(s, t, "x", **({} if said is None else {"unattended": said}))
        eq(ms(participant(s, c)["activeUntil"]) - now(s), lease, f"the lease of {claimed}, {said}")
        s.call("task.cancel", task=got["task"], reason="next")


# ---- the worker ----

def watch(s, c, t, **more):
    return Poll(s, c, task=t["task"], epoch=t["epoch"], **more)


@manual()
def test_P8_a_worker_that_waits_is_told_at_once_that_its_task_is_gone(s):
    c = talk(s)
    ways = {"canceled": lambda t: s.call("task.cancel", task=t["task"], reason="enough"),
            "pending": lambda t: advance(s, ACTIVE_MS + 1),
            "completed": lambda t: s.call("task.complete", task=t["task"], epoch=t["epoch"])}
    for end, way in ways.items():
        t = put_to_work(s, c)
        waiting = watch(s, c, t)
        check(waiting.is_waiting(), "it works")
        way(t)
        eq(waiting.answer(), {"status": "stale"}, f"told of {end}")
        eq((status(s, t), poll(s, c, **{"task": t["task"], "epoch": t["epoch"]})["status"]),
           (end, "stale"), "and whoever asks later")
        if end == "pending":
            s.call("task.cancel", task=t["task"], reason="next")


@manual()
def test_a_worker_that_waits_is_told_to_stop_and_of_the_end(s):
    for end, way in (("stop", lambda c: s.call("agent.stop", conversation=c, role="a")),
                     ("ended", lambda c: s.call("conversation.end", conversation=c))):
        c = talk(s)
        waiting = watch(s, c, put_to_work(s, c))
        check(waiting.is_waiting(), "it works")
        way(c)
        eq(waiting.answer(), {"status": end}, f"the answer after {end}")


@manual()
def test_a_worker_need_not_be_the_listener_and_its_wait_is_no_beat(s):
    c = talk(s)
    t = put_to_work(s, c)
    waiting = watch(s, c, t)
    join(s, c, connection="newer")
    check(waiting.is_waiting(), "a newer listener does not take the work")
    advance(s, ACTIVE_MS)
    beat(s, c, connection="newer")
    eq(poll(s, c, task=t["task"], epoch=t["epoch"])["status"], "none", "its last millisecond")
    advance(s, 1)
    eq(waiting.answer()["status"], "stale", "to wait does not renew the worker's lease")
    check(ms(participant(s, c)["readyUntil"]) < now(s) + TTL_MS, "nor the listener's")


@manual()
def test_a_suspended_task_is_still_in_hand_and_another_task_is_not(s):
    c = talk(s)
    t = suspended(s, c, "x")
    check(watch(s, c, t).is_waiting(), "suspended under this epoch")
    for wrong in ({"epoch": t["epoch"] + 1}, {"epoch": t["epoch"], "task": 99}):
        eq(poll(s, c, **wrong)["status"], "stale", wrong)
    other = put_to_work(s, talk(s), connection="c9")
    eq(poll(s, c, task=other["task"], epoch=other["epoch"])["status"], "stale", "of another agent")
    report(s, t, "x")
    taken(s, t)
    waiting = watch(s, c, t)
    applied(s, t, "x")
    eq(waiting.answer()["status"], "stale", "somebody resumed it: the next epoch")


@manual()
def test_a_beat_with_a_note_is_kept_and_no_progress(s):
    c = talk(s)
    t = put_to_work(s, c)
    s.call("task.progress", task=t["task"], epoch=t["epoch"], note="first")
    for epoch, want in ((t["epoch"], "last lines"), (t["epoch"] + 1, "last lines")):
        beat(s, c, epoch=epoch, note=want if epoch == t["epoch"] else "of a stranger")
        eq(task_of(s, t)["note"], want, f"the note of epoch {epoch}")
    for _ in range(30):
        advance(s, ACTIVE_MS)
        beat(s, c, epoch=t["epoch"], note=f"at {now(s)}")
    eq(status(s, t), "in_progress", "not yet for the limit of running.reap")
    advance(s, 1)
    eq(status(s, t), "failed", "notes are no progress")


# ---- libreeve ----

class Suspender:
    """tests/lib/suspender.c: its tasks are the lists of calls that they wait for."""

    def __init__(self, s, c, role="a", url=None):
        program = os.path.join(os.path.dirname(BIN), "tests", "suspender")
        token = s.call("token.create", scope="agent", conversation=c, role=role)["secret"]
        self.process = subprocess.Popen([program, str(c), role], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, preexec_fn=die_with_parent,
                                        env=os.environ | {"REEVE_URL": url or s.url,
                                                          "REEVE_TOKEN": token})

    def end(self):
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out.decode().splitlines(), err.decode()


ENDED_WELL = (0, ["there is a task to claim", "a suspended task has its results"], "")
CALLS = [{"toolCallId": "x", "name": "n"}, {"toolCallId": "y", "name": "n"}]


@manual()
def test_libreeve_suspends_resumes_and_applies(s):
    c = talk(s)
    t = give(s, c, content=CALLS)
    worker = Suspender(s, c)
    wait_for(lambda: status(s, t) == "suspended", "the suspend")
    report(s, t, "y", "failed", error={"code": "E", "message": "no"})
    report(s, t, "x", result={"found": 1})
    eq(worker.end(), ENDED_WELL, "the program")
    got = task_of(s, t)
    eq((got["status"], got["epoch"], got["attempts"]), ("completed", 2, 0), "the task")
    eq(deliverable_of(s, t), [{"toolCallId": "x", "status": "success", "result": {"found": 1}},
                              {"toolCallId": "y", "status": "failed",
                               "error": {"code": "E", "message": "no"}}], "what it resumed with")


@manual()
def test_libreeve_a_program_that_is_started_later_resumes(s):
    """The one that suspended is killed; the server is, too; results come meanwhile."""
    c = talk(s)
    s.listen = f"127.0.0.1:{s.port}"
    t = give(s, c, content=CALLS)
    first = Suspender(s, c)
    wait_for(lambda: status(s, t) == "suspended", "the suspend")
    first.process.kill()
    first.process.communicate()
    report(s, t, "x")
    s.kill()
    s.start()
    second = Suspender(s, c)
    report(s, t, "y")
    eq(second.end(), (0, ENDED_WELL[1][1:], ""), "the second")
    eq([x["toolCallId"] for x in deliverable_of(s, t)], ["x", "y"], "results")


class Lossy:
    """Between a program and the server: the first answer to each of these methods is lost."""

    def __init__(self, s, *methods):
        self.server, self.to_lose, self.lost = s.port, set(methods), []
        self.door = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.door.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            peer, _ = self.door.accept()
            threading.Thread(target=self.serve, args=(peer,), daemon=True).start()

    def serve(self, peer):
        """A request and its answer at a time; both are whole when they have what they announce."""
        with peer, socket.create_connection(("127.0.0.1", self.server)) as server:
            while request := self.message(peer):
                server.sendall(request)
                answer = self.message(server)
                method = json.loads(request.partition(b"\r\n\r\n")[2])["method"]
                if method in self.to_lose:
                    self.to_lose.remove(method)
                    self.lost.append(method)
                    return
                peer.sendall(answer)

    @staticmethod
    def message(sock):
        data = b""
        while piece := sock.recv(1 << 16):
            data += piece
            head, blank, body = data.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: *(\d+)", head)
            if blank and length and len(body) >= int(length[1]):
                return data
        return b""


@manual()
def test_libreeve_a_lost_answer_costs_neither_results_nor_the_task(s):
    c = talk(s)
    t = give(s, c, content=CALLS)
    net = Lossy(s, "task.suspend", "task.resume", "task.applied", "task.complete")
    worker = Suspender(s, c, url=net.url)
    wait_for(lambda: status(s, t) == "suspended", "the suspend")
    report(s, t, "x")
    report(s, t, "y")
    eq(worker.end(), ENDED_WELL, "the program")
    eq(net.lost, ["task.suspend", "task.resume", "task.applied", "task.complete"], "lost")
    eq((status(s, t), task_of(s, t)["epoch"]), ("completed", 2), "the task")
    eq([x["toolCallId"] for x in deliverable_of(s, t)], ["x", "y"], "results")


@manual("net.body_bytes_max=16777216")
def test_libreeve_takes_results_that_need_several_answers(s):
    """More than one answer of task.resume holds (4 MiB): all of them, in order, once each."""
    c = talk(s)
    names = [f"c{i:03}" for i in range(6)]
    t = give(s, c, content=[{"toolCallId": n, "name": "n"} for n in names])
    worker = Suspender(s, c)
    wait_for(lambda: status(s, t) == "suspended", "the suspend")
    for n in names:
        report(s, t, n, result=n[1:] + "x" * 900_000)
    eq(worker.end(), ENDED_WELL, "the program")
    eq([x["toolCallId"] for x in deliverable_of(s, t)], names, "results")


# ---- wait-for-task ----

@manual()
def test_wait_for_task_takes_a_suspended_task_with_its_results(s):
    """Listening before the results are there, and after; in progress, for as long as it may take."""
    c = talk(s)
    for is_early in (True, False):
        t = suspended(s, c, "x", "y")
        agent = Agent(s, c) if is_early else None
        if agent:
            waiting(s, c, besides="c1")
        report(s, t, "x", result={"found": [1]})
        check(not agent or agent.is_running(), "a call is open")
        report(s, t, "y", "canceled")
        got = (agent or Agent(s, c)).task()
        eq((got["task"]["task"], got["task"]["status"], got["epoch"]),
           (t["task"], "in_progress", t["epoch"] + 1), "the task")
        eq(got["results"], [{"toolCallId": "x", "status": "success", "result": {"found": [1]}},
                            {"toolCallId": "y", "status": "canceled"}], "the results")
        eq(ms(participant(s, c)["activeUntil"]) - now(s), UNATTENDED_WORK_MS, "the lease")
        gone(s, c)
        eq(reeve("task", "complete", t["task"], "done", "--epoch", got["epoch"],
                 data=s.data).returncode, 0, "the epoch is good to work with")


# Suspends when it is run first, and goes on with the results when it is run again.
SCRIPT = """
read -r task
if [ -z "$REEVE_RESUMED" ]; then
    exec {bin} task suspend "$REEVE_TASK_NUMBER" --epoch "$REEVE_EPOCH" --tool c1=search --data {data}
fi
read -r results
echo "$REEVE_RESULTS"
echo "$results"
echo "epoch $REEVE_EPOCH"
"""


@manual("liveness.heartbeat_seconds=1")
def test_exec_a_command_suspends_and_is_run_again_with_the_results(s):
    c = talk(s)
    t = give(s, c)
    command = ["sh", "-c", SCRIPT.format(bin=BIN, data=s.data)]
    code, out, err = Agent(s, c, command=command).end()
    eq((code, err, out.splitlines()[-1]), (0, "", f"task {t['task']} suspended"), "the first run")
    eq(status(s, t), "suspended", "neither completed nor failed")
    gone(s, c)
    second = Agent(s, c, command=command)
    waiting(s, c)
    report(s, t, "c1", result="found")
    code, out, err = second.end()
    eq((code, err, out.splitlines()[-1]), (0, "", f"task {t['task']} completed"), "the second run")
    results = '[{"toolCallId":"c1","status":"success","result":"found"}]'
    eq(deliverable_of(s, t).split("\n"), [results, results, "epoch 2"], "what it was given")


@manual("liveness.heartbeat_seconds=1")
def test_exec_large_results_are_on_standard_input_only(s):
    c = talk(s)
    t = suspended(s, c, "c1")
    report(s, t, "c1", result="x" * 300_000)
    script = 'read -r task; wc -c; echo "$REEVE_RESUMED $REEVE_EPOCH ${REEVE_RESULTS-unset}"'
    code, out, err = Agent(s, c, command=["sh", "-c", script]).end()
    eq((code, err), (0, ""), out)
    size, variables = deliverable_of(s, t).split("\n")
    check(int(size) > 300_000, size)
    eq(variables, "1 2 unset", "the environment")


@manual("liveness.heartbeat_seconds=1")
def test_exec_a_task_that_is_not_resumed_has_no_results(s):
    """Also if whoever runs wait-for-task has such variables of its own."""
    c = talk(s)
    t = give(s, c)
    script = 'echo "${REEVE_RESUMED-unset} ${REEVE_RESULTS-unset}"; wc -l'
    old = {"REEVE_RESUMED": "1", "REEVE_RESULTS": "[]"}
    eq(Agent(s, c, command=["sh", "-c", script], env=old).end()[0], 0, "exit status")
    eq(deliverable_of(s, t), "unset unset\n1", "what it was given")


if __name__ == "__main__":
    main()
