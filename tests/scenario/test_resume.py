"""Whoever listens is told that a suspended task can go on, and whoever works that its task is gone.

What task.wait, task.applied and participant.heartbeat give to a worker that suspends; then libreeve
and `reeve wait-for-task`, which use it.
"""
from crew import (ACTIVE_MS, LEASE_MS, TTL_MS, UNATTENDED_WORK_MS, Poll, applied, beat,
                  join, participant, poll, put_to_work, report, status, suspend, suspended, taken,
                  talk, task_of)
from reeve_test import check, eq, main
from watch_model import advance, manual, ms, now


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


if __name__ == "__main__":
    main()
