"""queue.sweep: a queued task whose agent has nothing to do is dispatched.

No request leads there (L63): the tests write it into the store of a server that is not running.
"""
from crew import (ACTIVE_MS, check_agrees, claim, complete, ends, give, join, moves, said,
                  start, status, talk, task_of)
from reeve_test import check, eq, main
from watch_model import advance, edit_store, manual, rules

LOSE = "UPDATE agents SET active_task = NULL WHERE role = '{}'"
DROP = ("UPDATE tasks SET status = 'completed', completed_at = 1, end_trigger = 'completeTask',"
        " stop_reason_code = 'completed', look_at = NULL WHERE task = {}")


def strand(s, c, *roles):
    """Each role has an ended task, nothing active, and two queued: the dispatch was lost."""
    first = [give(s, c, r) for r in roles]
    queued = [[give(s, c, r) for _ in range(2)] for r in roles]
    eq({status(s, t) for pair in queued for t in pair}, {"queued"}, "both wait")
    s.stop()
    edit_store(s, *(DROP.format(t["task"]) for t in first), *(LOSE.format(r) for r in roles))
    return queued


@manual()
def test_L63_a_queued_task_of_an_idle_agent_is_dispatched(s):
    c = talk(s)
    ((one, two),) = strand(s, c, "a")
    s.start()
    advance(s, 0)
    eq([status(s, t) for t in (one, two)], ["pending", "queued"], "the first, and only it")
    (e,) = said(s, c, "watch.queue.sweep")
    eq((e["task"], e["agent"], e["trigger"], e["status"]),
       (one["task"], f"{c}:a", "promoteNextTask", "queued"), "what was seen and done")
    check(e["epoch"] == task_of(s, one)["epoch"] > 0, "it has an epoch")
    eq((rules(s)["queue.sweep"]["fired"], rules(s)["queue.sweep"]["errors"]), (1, 0), "counted")
    advance(s, ACTIVE_MS)
    eq(len(said(s, c, "watch.queue.sweep")), 1, "once")
    join(s, c)
    complete(s, start(s, claim(s, c)))
    eq(status(s, two), "pending", "its end dispatches the next")
    (why,) = [h for h in s.call("agent.why", conversation=c, role="a")["history"]
              if h["rule"] == "queue.sweep"]
    eq(why["reason"], "queued_and_idle", "why tells")


@manual()
def test_L63_a_new_task_does_not_overtake_the_one_that_was_lost(s):
    c = talk(s)
    ((one, two),) = strand(s, c, "a")
    s.start()
    three = give(s, c)  # whether the sweep or this comes first
    advance(s, 0)
    eq([status(s, t) for t in (one, two, three)], ["pending", "queued", "queued"], "the order")


@manual()
def test_L04_one_stranded_queue_that_is_damaged_keeps_no_other_waiting(s):
    c = talk(s, "a", "b", "d")
    (a, _), (b, _), (d, _) = strand(s, c, "a", "b", "d")
    set_status = "UPDATE tasks SET status = '{}' WHERE task = " + str(a["task"])
    edit_store(s, "PRAGMA ignore_check_constraints = 1", set_status.format("damaged"))
    s.start()
    advance(s, 0)
    eq([status(s, t) for t in (b, d)], ["pending", "pending"], "its neighbours")
    eq(rules(s)["queue.sweep"]["errors"], 1, "the failure is counted")
    s.stop()
    edit_store(s, set_status.format("queued"))
    s.start()
    advance(s, 0)
    eq(status(s, a), "pending", "once it can be moved it is")


@manual("runtime_controls.session_wall_clock_seconds=60")
def test_the_queue_of_a_blocked_conversation_stays_where_it_is(s):
    c = s.call("conversation.create", agents=[{"role": "a"}])["conversation"]
    one, two = give(s, c), give(s, c)
    advance(s, 60_001)
    s.call("task.cancel", task=one["task"], reason="not any more")
    advance(s, 600_000)
    eq((status(s, two), s.call("watchdog.runOnce", rule="queue.sweep")["checked"]), ("queued", 0),
       "nobody looks at it")
    s.call("conversation.resume", conversation=c)
    eq(status(s, two), "pending", "resume dispatches it")
    eq(said(s, c, "watch.queue.sweep"), [], "and no rule")


@manual()
def test_a_healthy_queue_is_never_looked_at(s):
    c = talk(s)
    for _ in range(5):
        give(s, c)
    join(s, c)
    for _ in range(5):
        eq(s.call("watchdog.runOnce", rule="queue.sweep")["checked"], 0, "rows looked at")
        eq(rules(s)["queue.sweep"]["nextDueAt"], None, "it is never due")
        complete(s, start(s, claim(s, c)))
    eq((len(ends(s, c)), [m[0] for m in moves(s, c)]), (5, []), "all done, by no rule")
    check_agrees(s, c)


if __name__ == "__main__":
    main()
