"""Tasks: one at a time for each agent, the others in a queue; every move fenced by an epoch; each
end told once."""
from crew import (ACTIVE_MS, OPEN, UNATTENDED_WORK_MS, beat, check_agrees, check_once_at, claim,
                  complete, ends, give, join, leave, move, outcome, participant, poll, put_to_work,
                  said, start, status, talk, task_of, tasks, view)
from fleet import batch, managed, open_starts, starts
from reeve_test import check, eq, main, together
from watch_model import advance, get, manual, ms, now


# ---- the way of a task ----

@manual()
def test_a_task_from_creation_to_its_end(s):
    c = talk(s)
    at = now(s)
    t = give(s, c, content={"do": ["this", 1, None]})
    eq(t, {"task": t["task"], "conversation": c, "role": "a", "status": "pending",
           "content": {"do": ["this", 1, None]}, "channel": "public", "epoch": 1, "attempts": 0,
           "assignedTo": "a", "claimedBy": None, "note": None, "createdAt": t["createdAt"],
           "pendingAt": t["createdAt"], "acknowledgedAt": None, "startedAt": None,
           "completedAt": None}, "a new task")
    eq(ms(t["createdAt"]), at, "createdAt")
    join(s, c)
    eq(poll(s, c), {"status": "task", "task": t}, "it is announced, not claimed")
    advance(s, 1000)
    got = claim(s, c)
    eq((got["status"], got["claimedBy"], ms(got["acknowledgedAt"]), got["epoch"]),
       ("acknowledged", "c1", at + 1000, 1), "claimed")
    eq(poll(s, c), {"status": "none"}, "nothing more to do")
    advance(s, 1000)
    got = start(s, got)
    eq((got["status"], ms(got["startedAt"]), got["epoch"]), ("in_progress", at + 2000, 1), "begun")
    eq(s.call("task.progress", task=t["task"], epoch=1, note="half", progress=50),
       {"activeUntil": participant(s, c)["activeUntil"]}, "progress")
    advance(s, 1000)
    answer = complete(s, got, deliverable={"done": True})
    got = answer["task"]
    check(answer["deliverableCardId"] > 0, answer)
    eq((got["status"], got["note"], ms(got["completedAt"]), got["outcome"]),
       ("completed", "half", at + 3000,
        {"status": "success", "error": None, "stop_reason_code": "completed",
         "deliverableCardId": answer["deliverableCardId"]}), "done")
    eq(task_of(s, t), got, "as read")
    (end,) = said(s, c, "agent.task")
    stats = end.pop("stats")
    eq(end, {"task": t["task"], "agent": f"{c}:a", "status": "success", "attempt": 1,
             "reason": "completed", "error": None, "epoch": 1,
             "deliverable_card_id": answer["deliverableCardId"], "deliverable_error": None,
             "kind": "agent.task", "at": at + 3000}, "its one terminal event")
    eq((stats["waited_ms"], stats["worked_ms"]), (1000, 1000), "how long it took")
    eq([e["status"] for e in said(s, c, "agent.state")], ["waiting", "working", "waiting"], "views")


@manual()
def test_fail_and_cancel_say_why(s):
    c = talk(s)
    t = put_to_work(s, c)
    got = move(s, "fail", t, reason="no such file")
    eq((got["status"], got["outcome"]["error"], got["outcome"]["stop_reason_code"],
        got["outcome"]["status"]), ("failed", "no such file", "failed", "failed"), "failed")
    t = give(s, c)
    got = s.call("task.cancel", task=t["task"], reason="not any more")["task"]
    eq((got["status"], got["outcome"]["error"], got["outcome"]["stop_reason_code"],
        got["epoch"]), ("canceled", "not any more", "canceled_by_user", t["epoch"] + 1), "canceled")
    eq([(e["status"], e["reason"], e["error"], e["epoch"]) for e in said(s, c, "agent.task")],
       [("failed", "failed", "no such file", 1), ("canceled", "canceled_by_user", "not any more",
                                                  t["epoch"])], "told with the epoch that ended")
    failed, canceled = said(s, c, "agent.task")
    eq((failed["deliverable_card_id"], failed["deliverable_error"]), (None, "none was given"),
       "its worker gave none")
    eq(canceled["deliverable_error"], None, "somebody else ended it")
    card = s.call("card.get", card=canceled["deliverable_card_id"])["card"]["content"]
    eq(card["diagnostics"]["source"], "cancelTask", "what is known of it")
    check("not any more" in card["message"], card["message"])


def in_status(s, c, want):
    """A task of role a in this status, with nothing else in its way."""
    join(s, c)
    if want == "queued":
        give(s, c)
        return give(s, c)
    t = give(s, c)
    if want == "pending":
        return t
    t = claim(s, c)
    if want == "acknowledged":
        return t
    if want == "failed":
        return move(s, "fail", t, reason="x")
    if want == "canceled":
        return s.call("task.cancel", task=t["task"], reason="x")["task"]
    t = start(s, t)
    return complete(s, t)["task"] if want == "completed" else t


# What DESIGN 5 allows from outside, and what a repeat leaves alone.
CALLS = {
    "start": {"acknowledged": "in_progress", "in_progress": "in_progress"},
    "complete": {"in_progress": "completed", "completed": "completed"},
    "fail": {"acknowledged": "failed", "in_progress": "failed", "failed": "failed"},
    "cancel": {"queued": "canceled", "pending": "canceled", "acknowledged": "canceled",
               "in_progress": "canceled", "canceled": "canceled"},
}
# DESIGN 5: every trigger that leads out of a status.
ALLOWED = {
    "queued": {"promoteNextTask", "cancelTask"},
    "pending": {"claimTask", "dispatchTimeout", "attemptsExhausted", "deadlineExceeded",
                "cancelTask"},
    "acknowledged": {"claimTask", "startTask", "recoverStuckAcknowledged", "blockSession",
                     "failTask", "dispatchTimeout", "deadlineExceeded", "cancelTask"},
    "in_progress": {"suspendTask", "recover", "blockSession", "completeTask", "failTask",
                    "reapTimeout", "deadlineExceeded", "cancelTask"},
    "completed": set(), "failed": set(), "canceled": set(),
}


@manual()
def test_every_call_in_every_status(s):
    for verb, legal in CALLS.items():
        for before in ALLOWED:
            c = talk(s)
            t = in_status(s, c, before)
            eq(t["status"], before, "where it begins")
            params = {"task": t["task"]} | ({} if verb == "cancel" else {"epoch": t["epoch"]})
            params |= {} if verb in ("start", "complete") else {"reason": "x"}
            log = s.events(c)
            if before in legal:
                eq(s.call(f"task.{verb}", **params)["task"]["status"], legal[before],
                   f"{verb} of {before}")
                check(before != legal[before] or s.events(c) == log, f"a repeat of {verb} is told")
                check_agrees(s, c)
                continue
            e = s.refused("INVALID_TRANSITION", f"task.{verb}", **params)
            eq((e.data["from"], e.data["trigger"], sorted(e.data["allowed"])),
               (before, f"{verb}Task", sorted(ALLOWED[before])), f"{verb} of {before}")
            eq((task_of(s, t), s.events(c)), (t, log), f"{verb} of {before} changes nothing")


@manual()
def test_progress_needs_work_in_hand(s):
    c = talk(s)
    for before in ALLOWED:
        c = talk(s)
        t = in_status(s, c, before)
        params = {"task": t["task"], "epoch": t["epoch"]}
        if before in ("acknowledged", "in_progress"):
            advance(s, 1000)
            eq(ms(s.call("task.progress", **params)["activeUntil"]), now(s) + ACTIVE_MS, before)
        else:
            s.refused("INVALID_TRANSITION", "task.progress", **params)
    s.refused("NOT_FOUND", "task.progress", task=9999, epoch=1)


@manual()
def test_tasks_that_are_not_there(s):
    for method, more in (("start", {"epoch": 1}), ("complete", {"epoch": 1}), ("get", {}),
                         ("fail", {"epoch": 1, "reason": "x"}), ("cancel", {"reason": "x"})):
        e = s.refused("NOT_FOUND", f"task.{method}", task=77, **more)
        eq((e.data["what"], e.data["id"]), ("task", 77), method)
    c = talk(s)
    e = s.refused("NOT_FOUND", "task.create", conversation=c, role="ghost", content=1)
    eq((e.data["what"], e.data["id"]), ("agent", "ghost"), "no such role")
    s.refused("NOT_FOUND", "task.create", conversation=99, role="a", content=1)
    for wrong in ({"role": "b c"}, {"content": ...}, {"channel": None}, {"channel": ""},
                  {"channel": "x" * 65}, {"options": 1}, {"unknown": 1}):
        params = {"conversation": c, "role": "a", "content": 1} | wrong
        params = {k: v for k, v in params.items() if v is not ...}
        s.refused("INVALID_PARAMS", "task.create", **params)
    eq(tasks(s), [], "nothing was made")


# ---- epochs ----

@manual()
def test_P8_an_old_epoch_has_no_effect_and_is_told(s):
    c = talk(s)
    t = put_to_work(s, c)
    advance(s, ACTIVE_MS + 1)
    current = task_of(s, t)
    eq((current["status"], current["epoch"], current["attempts"]), ("pending", t["epoch"] + 1, 1),
       "taken back")
    join(s, c, connection="new")
    claim(s, c, connection="new")
    log, before, until = s.events(c), task_of(s, t), participant(s, c)["activeUntil"]
    advance(s, 1000)
    for verb, more in (("start", {}), ("complete", {}), ("fail", {"reason": "x"}),
                       ("progress", {"note": "mine"})):
        for epoch in (0, t["epoch"], before["epoch"] + 1, 2**53 - 1):
            e = s.refused("STALE_EPOCH", f"task.{verb}", task=t["task"], epoch=epoch, **more)
            eq(e.data["epoch"], before["epoch"], "the current one is told")
        s.refused("INVALID_PARAMS", f"task.{verb}", task=t["task"], epoch=-1, **more)
    eq((task_of(s, t), s.events(c)), (before, log), "nothing has changed")
    eq(participant(s, c)["activeUntil"], until, "no lease is renewed")


@manual()
def test_stale_wins_over_the_state_and_a_repeat_over_both(s):
    c = talk(s)
    t = put_to_work(s, c)
    done = complete(s, t)
    s.refused("STALE_EPOCH", "task.fail", task=t["task"], epoch=t["epoch"] + 1, reason="x")
    s.refused("INVALID_TRANSITION", "task.fail", task=t["task"], epoch=t["epoch"], reason="x")
    eq(complete(s, t), done, "the same move, its own epoch")
    s.refused("STALE_EPOCH", "task.complete", task=t["task"], epoch=t["epoch"] + 1)
    queued = give(s, c) and give(s, c)
    s.refused("STALE_EPOCH", "task.start", task=queued["task"], epoch=5)
    s.refused("INVALID_TRANSITION", "task.start", task=queued["task"], epoch=queued["epoch"])


@manual()
def test_complete_after_the_next_promotion_is_still_a_repeat(s):
    c = talk(s)
    t = put_to_work(s, c)
    later = give(s, c)
    first = complete(s, t, deliverable="mine")
    eq(status(s, later), "pending", "promoted")
    claim(s, c)
    log = s.events(c)
    eq(complete(s, t, deliverable="mine"), first, "the repeat")
    eq((status(s, later), s.events(c)), ("acknowledged", log), "the next one is untouched")
    failed = put_to_work(s, c, "b", "c2")
    give(s, c, "b")
    once = move(s, "fail", failed, reason="x")
    eq(move(s, "fail", failed, reason="x"), once, "fail again")
    cancelled = give(s, c, "b")
    once = s.call("task.cancel", task=cancelled["task"], reason="x")
    eq(s.call("task.cancel", task=cancelled["task"], reason="x"), once, "cancel again")
    eq(len(ends(s, c)), 3, "each end is told once")


@manual()
def test_P19_a_repeat_of_complete_with_another_body_is_refused_and_drops_nothing(s):
    c = talk(s)
    t = put_to_work(s, c)
    body = {"deliverable": {"x": 1, "y": [2]}, "handoff": {"role": "b", "content": {"p": 1, "q": 2}}}
    first = complete(s, t, **body)
    log = s.events(c)
    same = {"deliverable": {"y": [2], "x": 1}, "handoff": {"role": "B", "content": {"q": 2, "p": 1}}}
    eq(complete(s, t, **body), first, "the same body, the same answer, hand-off included")
    eq(complete(s, t, **same), first, "the same, written otherwise")
    others = [{}, {"deliverable": body["deliverable"]}, {"handoff": body["handoff"]},
              body | {"deliverable": {"x": 1, "y": [3]}},
              body | {"handoff": {"role": "c", "content": body["handoff"]["content"]}},
              body | {"handoff": {"role": "b", "content": {"p": 1}}}]
    for other in others:
        e = s.refused("IDEMPOTENCY_CONFLICT", "task.complete", task=t["task"], epoch=t["epoch"],
                      **other)
        check("this call changed nothing" in e.message, e.message)
    eq(e.data["what"], "handoff", "what differs")
    eq((len(tasks(s, conversation=c)), s.events(c)), (2, log), "nothing has changed")
    s.restart()
    eq(complete(s, t, **body)["handoffTask"]["task"], first["handoffTask"]["task"], "on disk")
    s.refused("IDEMPOTENCY_CONFLICT", "task.complete", task=t["task"], epoch=t["epoch"], **others[0])


@manual()
def test_P19_a_repeat_of_complete_without_a_deliverable_that_brings_one_is_refused(s):
    c = talk(s)
    t = put_to_work(s, c)
    complete(s, t)
    e = s.refused("IDEMPOTENCY_CONFLICT", "task.complete", task=t["task"], epoch=t["epoch"],
                  deliverable="late")
    eq(e.data["what"], "deliverable", "what differs")


@manual()
def test_P19_a_repeat_of_fail_or_cancel_with_another_reason_is_refused(s):
    c = talk(s)
    t = put_to_work(s, c)
    once = move(s, "fail", t, reason="x")
    s.refused("IDEMPOTENCY_CONFLICT", "task.fail", task=t["task"], epoch=t["epoch"], reason="y")
    eq(task_of(s, t), once, "the first reason stands")
    t = give(s, c)
    once = s.call("task.cancel", task=t["task"], reason="x")
    s.refused("IDEMPOTENCY_CONFLICT", "task.cancel", task=t["task"], reason="y")
    eq(task_of(s, t), once["task"], "the first reason stands")


@manual()
def test_epochs_of_an_agent_only_rise(s):
    c = talk(s)
    join(s, c)
    epochs = []
    for reach in ("pending", "acknowledged", "completed", "failed", "canceled", "completed") * 2:
        t = in_status(s, c, reach)
        epochs.append(t["epoch"])
        if t["status"] in OPEN:
            t = s.call("task.cancel", task=t["task"], reason="x")["task"]
            check(t["epoch"] > epochs[-1], "a cancel fences the holder")
    check(all(x < y for x, y in zip(epochs, epochs[1:])), f"each task's is new: {epochs}")


@manual()
def test_any_call_with_the_epoch_renews_the_worker_lease(s):
    c = talk(s)
    give(s, c)
    join(s, c)
    t = claim(s, c)
    for call in (lambda: start(s, t), lambda: start(s, t),
                 lambda: s.call("task.progress", task=t["task"], epoch=t["epoch"]),
                 lambda: beat(s, c, epoch=t["epoch"])):
        advance(s, 50_000)
        call()
        eq(ms(participant(s, c)["activeUntil"]), now(s) + ACTIVE_MS, "renewed")
    eq(status(s, t), "in_progress", "it is alive")


# ---- claiming ----

@manual()
def test_the_same_connection_claims_twice_and_gets_the_same_answer(s):
    c = talk(s)
    give(s, c)
    join(s, c)
    first = claim(s, c)
    log = s.events(c)
    eq(claim(s, c), first, "again")
    eq(claim(s, c, task=first["task"]), first, "by number")
    eq(s.events(c), log, "nothing more is told")
    started = start(s, first)
    eq(claim(s, c), started, "after the start")


@manual()
def test_one_of_two_claims(s):
    for _ in range(10):
        c = talk(s)
        give(s, c)
        got = []
        together(*(lambda n=n: got.append(outcome(lambda: claim(s, c, connection=n)))
                   for n in "xy"))
        names = sorted(g if isinstance(g, str) else g["claimedBy"] for g in got)
        eq(names[0], "INVALID_TRANSITION", "the loser")
        check(names[1] in "xy", names)


@manual()
def test_L36_another_role_cannot_claim(s):
    c = talk(s)
    t = give(s, c, "a")
    join(s, c, "b", "c2")
    s.refused("NOT_FOUND", "task.claim", conversation=c, role="b", connectionId="c2")
    s.refused("NOT_FOUND", "task.claim", conversation=c, role="b", connectionId="c2",
              task=t["task"])
    other = give(s, c, "b")
    s.refused("NOT_FOUND", "task.claim", conversation=c, role="b", connectionId="c2",
              task=t["task"])
    eq(claim(s, c, "b", "c2")["task"], other["task"], "its own")
    eq(status(s, t), "pending", "the other's is untouched")


@manual()
def test_a_queued_task_cannot_be_claimed(s):
    c = talk(s)
    give(s, c)
    later = give(s, c)
    join(s, c)
    s.refused("NOT_FOUND", "task.claim", conversation=c, role="a", connectionId="c1",
              task=later["task"])
    eq(status(s, later), "queued", "it waits")


@manual()
def test_a_newcomer_claims_when_the_holders_lease_is_over(s):
    c = talk(s)
    t = give(s, c)
    join(s, c, connection="old")
    claim(s, c, connection="old")
    advance(s, ACTIVE_MS)
    join(s, c, connection="new")
    eq(poll(s, c, connection="new"), {"status": "none"}, "somebody has it")
    s.refused("INVALID_TRANSITION", "task.claim", conversation=c, role="a", connectionId="new")
    advance(s, 1)
    eq(poll(s, c, connection="new")["task"]["task"], t["task"], "now it is announced")
    got = claim(s, c, connection="new")
    eq((got["status"], got["claimedBy"], got["epoch"], got["attempts"], ms(got["acknowledgedAt"])),
       ("acknowledged", "new", t["epoch"] + 1, 1, now(s)), "taken over")
    s.refused("STALE_EPOCH", "task.start", task=t["task"], epoch=t["epoch"])
    s.refused("SUPERSEDED", "task.claim", conversation=c, role="a", connectionId="old")
    eq(start(s, got)["status"], "in_progress", "the newcomer works")
    eq(ends(s, c), [], "a lost attempt is no end")


@manual()
def test_a_newcomer_does_not_take_work_in_progress(s):
    """What has begun is taken back by its rule only, and then it is pending."""
    c = talk(s)
    t = put_to_work(s, c, connection="old")
    advance(s, ACTIVE_MS)
    join(s, c, connection="new")
    s.refused("INVALID_TRANSITION", "task.claim", conversation=c, role="a", connectionId="new")
    advance(s, 1)
    got = claim(s, c, connection="new")
    eq((got["epoch"], got["attempts"]), (t["epoch"] + 1, 1), "one attempt lost, not two")


@manual()
def test_an_unattended_claim_lasts_longer_and_so_do_its_renewals(s):
    c = talk(s)
    give(s, c)
    join(s, c)
    at = now(s)
    t = claim(s, c, unattended=True)
    leave(s, c)
    eq(ms(participant(s, c)["activeUntil"]), at + UNATTENDED_WORK_MS, "the claim")
    advance(s, 850_000)
    start(s, t)
    eq(ms(participant(s, c)["activeUntil"]), now(s) + UNATTENDED_WORK_MS, "the start")
    advance(s, 100_000)
    s.call("task.progress", task=t["task"], epoch=t["epoch"])
    eq(ms(participant(s, c)["activeUntil"]), now(s) + UNATTENDED_WORK_MS, "progress")
    check_once_at(s, c, "task.orphaned", now(s) + UNATTENDED_WORK_MS + 1,
                  lambda: status(s, t) == "pending")
    (lost,) = said(s, c, "watch.task.orphaned")
    eq(lost["limit"], UNATTENDED_WORK_MS, "P13: the limit it used")
    join(s, c)
    claim(s, c)
    eq(ms(participant(s, c)["activeUntil"]), now(s) + ACTIVE_MS, "the next claim has its own")


@manual()
def test_a_claim_needs_no_join_but_yields_to_a_listener(s):
    c = talk(s)
    give(s, c)
    eq(claim(s, c, connection="passer-by")["claimedBy"], "passer-by", "nobody listens")
    give(s, c, "b")
    join(s, c, "b", "listener")
    s.refused("SUPERSEDED", "task.claim", conversation=c, role="b", connectionId="passer-by")


# ---- the queue ----

@manual()
def test_tasks_queue_and_are_promoted_in_order(s):
    c = talk(s)
    every = [give(s, c, content=i) for i in range(6)]
    other = give(s, c, "b")
    eq([t["status"] for t in every], ["pending"] + ["queued"] * 5, "one at a time")
    eq(other["status"], "pending", "another role has its own queue")
    eq([t["pendingAt"] for t in every[1:]], [None] * 5, "a queued one is not pending")
    join(s, c)
    s.call("task.cancel", task=every[2]["task"], reason="out of the queue")
    for i in (0, 1, 3, 4, 5):
        got = poll(s, c)["task"]
        eq((got["content"], got["task"]), (i, every[i]["task"]), "the next")
        advance(s, 1000)
        done = [complete, lambda s, t: move(s, "fail", t, reason="x")][i % 2]
        done(s, start(s, claim(s, c)))
        check_agrees(s, c)
    eq(poll(s, c), {"status": "none"}, "no more")
    eq(status(s, other), "pending", "untouched by all this")


@manual()
def test_cancel_of_the_active_one_promotes_the_next(s):
    c = talk(s)
    for reach in (lambda t: t, lambda t: claim(s, c), lambda t: start(s, claim(s, c))):
        join(s, c)
        first, second = give(s, c), give(s, c)
        got = reach(first)
        s.call("task.cancel", task=got["task"], reason="x")
        eq((status(s, first), status(s, second)), ("canceled", "pending"), "promoted")
        s.call("task.cancel", task=second["task"], reason="x")
        eq(poll(s, c), {"status": "none"}, "idle")


@manual()
def test_L38_every_busy_status_keeps_the_next_in_the_queue(s):
    for before in ("pending", "acknowledged", "in_progress"):
        c = talk(s)
        t = in_status(s, c, before)
        eq(give(s, c)["status"], "queued", f"a task while one is {before}")
        eq(s.say(c, "b", "do", to="a")["task"]["status"], "queued", f"a message, {before}")
        join(s, c, connection="another")
        eq(status(s, t), before, "a join promotes nothing")
        leave(s, c, connection="another")
        advance(s, 1000)
        check_agrees(s, c)


@manual()
def test_L39_completing_one_completes_nothing_else(s):
    c = talk(s, "a", "b", "x")
    mine = put_to_work(s, c, "a", "c1")
    others = [put_to_work(s, c, "b", "c2"), give(s, c, "b"), give(s, c, "x")]
    before = [task_of(s, t) for t in others]
    complete(s, mine)
    eq([task_of(s, t) for t in others], before, "other roles' work")
    eq(ends(s, c), [(mine["task"], "success", "completed")], "told")


@manual()
def test_a_hundred_tasks_at_once_are_one_active_and_a_queue(s):
    c = talk(s)
    together(*(lambda: [give(s, c) for _ in range(25)] for _ in range(4)))
    every = tasks(s, conversation=c)
    eq([t["status"] for t in every], ["pending"] + ["queued"] * 99, "in the order of their numbers")
    check_agrees(s, c)


# ---- spans ----

def spans(s, t):
    (shown,) = [x for x in tasks(s, spans=True) if x["task"] == t["task"]]
    return [(x["what"], ms(x["from"]), x["to"] and ms(x["to"]), x["by"]) for x in shown["spans"]]


@manual("liveness.active_ttl_seconds=10000")
def test_the_longest_waits_of_a_task_are_kept_with_who_ended_them(s):
    c = talk(s)
    t = give(s, c)
    began = now(s)
    eq(spans(s, t), [("pending", began, None, None)], "open")
    advance(s, 5000)
    join(s, c)
    claim(s, c)
    start(s, t)
    want, at = [("pending", began, began + 5000, "claimTask")], now(s)
    for silence, is_kept in ((1000, False), (2000, True), (1500, False), (2000, False), (2001, True)):
        advance(s, silence)
        s.call("task.progress", task=t["task"], epoch=t["epoch"])
        if is_kept:
            want.append(("silent", at, now(s), "progress"))
        at = now(s)
    s.restart("kill")
    at = now(s)  # a start gives back what may not be stored
    eq(spans(s, t), want + [("silent", at, None, None)], "kept, and open")
    advance(s, 3000)
    complete(s, t)
    eq(spans(s, t), want + [("silent", at, now(s), "completeTask")], "at the end")
    check("spans" not in task_of(s, t), "only who asks is shown them")


@manual()
def test_a_task_that_is_done_at_once_keeps_no_span(s):
    c = talk(s)
    t = put_to_work(s, c)
    complete(s, t)
    eq(spans(s, t), [], "nothing")


# ---- hand-off ----

@manual()
def test_hand_off_is_in_the_same_transaction(s):
    c = talk(s)
    t = put_to_work(s, c)
    answer = complete(s, t, deliverable="part one", handoff={"role": "B", "content": [2]})
    next_task = answer["handoffTask"]
    eq((next_task["role"], next_task["status"], next_task["content"], next_task["channel"]),
       ("b", "pending", [2], "public"), "the next")
    eq(task_of(s, next_task), next_task, "as read")
    log = s.events(c)
    repeat = complete(s, t, deliverable="part one", handoff={"role": "b", "content": [2]})
    eq(repeat, answer, "a repeat")
    eq(len(tasks(s, conversation=c)), 2, "hands nothing off again")
    eq(s.events(c), log, "and tells nothing")


@manual()
def test_hand_off_to_a_busy_role_queues_and_to_oneself_works(s):
    c = talk(s)
    give(s, c, "b")
    t = put_to_work(s, c)
    eq(complete(s, t, handoff={"role": "b", "content": 1})["handoffTask"]["status"], "queued",
       "behind what it has")
    t = put_to_work(s, c)
    eq(complete(s, t, handoff={"role": "a", "content": 1})["handoffTask"]["status"], "pending",
       "to oneself")
    first = start(s, claim(s, c))
    give(s, c)
    eq(complete(s, first, handoff={"role": "a", "content": 1})["handoffTask"]["status"], "queued",
       "to oneself, behind the queue")
    check_agrees(s, c)


@manual()
def test_hand_off_to_an_unknown_role_changes_nothing(s):
    c = talk(s)
    t = put_to_work(s, c)
    queued = give(s, c)
    log, before = s.events(c), tasks(s, conversation=c)
    e = s.refused("NOT_FOUND", "task.complete", task=t["task"], epoch=t["epoch"],
                  deliverable="lost", handoff={"role": "ghost", "content": 1},
                  idempotencyKey="k")
    eq((e.data["what"], e.data["id"]), ("agent", "ghost"), "what is missing")
    eq((tasks(s, conversation=c), s.events(c)), (before, log), "nothing has happened")
    eq(participant(s, c)["status"], "active", "it still works")
    for wrong in ({"role": "b"}, {"content": 1}, {"role": "b", "content": 1, "x": 1}, "b"):
        s.refused("INVALID_PARAMS", "task.complete", task=t["task"], epoch=t["epoch"],
                  handoff=wrong)
    answer = complete(s, t, handoff={"role": "b", "content": 1}, idempotencyKey="k")
    eq(answer["task"]["status"], "completed", "the same key with a role that exists")
    eq(status(s, queued), "pending", "now the queue moves")
    s.restart()
    eq(len(tasks(s, conversation=c)), 3, "after a restart")


# ---- messages to a role ----

@manual()
def test_a_message_to_a_role_is_its_task(s):
    c = talk(s)
    sent = s.say(c, "a", "please build", to="B", clientRequestId="k")
    t = sent["task"]
    eq((t["role"], t["status"], t["content"]), ("b", "pending", "please build"), "the task")
    eq(s.events(c)[-1]["type"] in ("message", "system"), True, "in the log")
    log = s.events(c)
    again = s.say(c, "a", "please build", to="B", clientRequestId="k")
    eq(again, sent, "repeated")
    eq((len(tasks(s)), s.events(c)), (1, log), "one task, one message")
    join(s, c, "b", "c2")
    working = start(s, claim(s, c, "b", "c2"))
    again = s.say(c, "a", "please build", to="B", clientRequestId="k")
    eq((again["seq"], again["task"]["task"]), (sent["seq"], t["task"]), "repeated later")
    complete(s, working)
    s.say(c, "a", "that was all", finality="turn")
    again = s.say(c, "a", "please build", to="B", clientRequestId="k")
    eq((again["seq"], again["task"]["task"]), (sent["seq"], t["task"]), "after the turn closed")
    s.refused("IDEMPOTENCY_CONFLICT", "message.send", conversation=c, agentId="a",
              text="please build", to="a", clientRequestId="k")
    eq(len(tasks(s)), 1, "tasks")


@manual()
def test_a_message_to_nobody_is_not_sent(s):
    c = talk(s)
    log = s.events(c)
    s.refused("NOT_FOUND", "message.send", conversation=c, agentId="a", text="x", to="ghost")
    s.refused("INVALID_PARAMS", "message.send", conversation=c, agentId="a", text="x", to="g h")
    s.refused("INVALID_PARAMS", "message.send", conversation=c, agentId="a", text="x", to="b",
              finality="conversation")
    eq((s.events(c), tasks(s)), (log, []), "nothing was written")
    eq(s.say(c, "a", "x", to="b", finality="turn")["task"]["role"], "b", "with a closing message")


@manual()
def test_the_last_turn_gives_no_work(s):
    """maxTurns ends the conversation in the closing message's transaction: nobody would do it."""
    c = talk(s, maxTurns=1)
    log = s.events(c)
    s.refused("CONVERSATION_FINALIZED", "message.send", conversation=c, agentId="a", text="x",
              to="b", finality="turn")
    eq((get(s, c)["status"], tasks(s), s.events(c)), ("active", [], log), "nothing has happened")
    s.say(c, "a", "x", finality="turn")
    eq(get(s, c)["status"], "completed", "without a task it ends")


# ---- waking ----

@manual()
def test_L40_work_for_a_managed_agent_starts_it_once(s):
    c = managed(s, "a", "b", desired="auto")
    for i in range(5):
        give(s, c)
        s.say(c, "b", "more", to="a")
    (one,) = open_starts(s, c)
    eq((one["role"], one["reason"]), ("a", "has_work"), "L50: only the assignee, once")
    eq(len(starts(s, c)), 1, "starts")


@manual()
def test_work_for_who_listens_or_was_stopped_starts_nobody(s):
    c = managed(s, "a", "b", desired="auto")
    join(s, c)
    give(s, c)
    s.call("lifecycle.stop", conversation=c, roles=["b"])
    eq(give(s, c, "b")["status"], "pending", "it queues")
    eq(starts(s, c), [], "starts")
    eq(poll(s, c)["status"], "task", "who listens is told")


# ---- lists ----

@manual()
def test_tasks_are_listed_by_what_they_are(s):
    c, other = talk(s), talk(s)
    first, second, third = give(s, c), give(s, c), give(s, c, "b")
    fourth = give(s, other)
    numbers = lambda **only: [t["task"] for t in tasks(s, **only)]  # noqa: E731
    n = [t["task"] for t in (first, second, third, fourth)]
    eq(numbers(), n, "all")
    eq(numbers(conversation=c), n[:3], "of a conversation")
    eq(numbers(conversation=c, role="A"), n[:2], "of a role")
    eq(numbers(status="queued"), [n[1]], "by status")
    eq(numbers(conversation=c, status="pending"), [n[0], n[2]], "by both")
    eq(numbers(conversation=c, role="b", status="queued"), [], "none")
    eq(numbers(limit=1), n, "page by page")
    eq(numbers(limit=1, status="pending"), [n[0], n[2], n[3]], "filtered pages")
    page = s.call("task.list", limit=2)
    eq(([t["task"] for t in page["tasks"]], page["next"]), (n[:2], n[1]), "a page")
    eq(s.call("task.list", after=n[3]), {"tasks": [], "next": None}, "after the last")
    for wrong in ({"limit": 0}, {"limit": 501}, {"after": -1}, {"status": "working"},
                  {"role": "a"}):
        s.refused("INVALID_PARAMS", "task.list", **wrong)


# ---- scopes ----

@manual()
def test_an_agents_token_works_on_its_own_tasks_only(s):
    c, other = talk(s), talk(s)
    mine = s.as_token(scope="agent", conversation=c, role="a")
    theirs = put_to_work(s, c, "b", "c2")
    elsewhere = put_to_work(s, other, "a", "c3")
    for verb, more in (("start", {}), ("complete", {}), ("fail", {"reason": "x"}),
                       ("progress", {})):
        mine.refused("FORBIDDEN", f"task.{verb}", task=theirs["task"], epoch=theirs["epoch"],
                     **more)
        mine.refused("NOT_FOUND", f"task.{verb}", task=elsewhere["task"], epoch=elsewhere["epoch"],
                     **more)
    for method in ("task.wait", "task.claim"):
        mine.refused("FORBIDDEN", method, conversation=c, role="b", connectionId="c2")
        mine.refused("NOT_FOUND", method, conversation=other, role="a", connectionId="c3")
    mine.refused("FORBIDDEN", "task.cancel", task=theirs["task"], reason="x")
    mine.refused("NOT_FOUND", "task.create", conversation=other, role="a", content=1)
    eq((status(s, theirs), status(s, elsewhere)), ("in_progress",) * 2, "untouched")
    eq(mine.call("task.get", task=theirs["task"])["task"]["role"], "b", "it may look around")
    mine.refused("NOT_FOUND", "task.get", task=elsewhere["task"])
    eq({t["conversation"] for t in tasks(mine)}, {c}, "what it sees of all")
    eq(give(mine, c, "b")["status"], "queued", "it may give work to others")
    t = give(mine, c, "a")
    join(mine, c)
    got = start(mine, claim(mine, c))
    eq(got["task"], t["task"], "its own")
    mine.refused("FORBIDDEN", "task.cancel", task=t["task"], reason="x")
    eq(complete(mine, got, handoff={"role": "b", "content": 1})["task"]["status"], "completed",
       "and hand it off")


@manual()
def test_read_tokens_only_read(s):
    c = talk(s)
    t = put_to_work(s, c)
    reader = s.as_token(scope="read")
    eq(task_of(reader, t), task_of(s, t), "get")
    eq(tasks(reader), tasks(s), "list")
    number = {"task": t["task"]}
    for method, params in (("task.create", {"conversation": c, "role": "a", "content": 1}),
                           ("task.start", number | {"epoch": 1}),
                           ("task.progress", number | {"epoch": 1}),
                           ("task.complete", number | {"epoch": 1}),
                           ("task.fail", number | {"epoch": 1, "reason": "x"}),
                           ("task.cancel", number | {"reason": "x"})):
        reader.refused("FORBIDDEN", method, **params)
    eq(status(s, t), "in_progress", "untouched")


# ---- keys ----

@manual()
def test_P19_a_key_makes_every_move_happen_once(s):
    c = talk(s)

    def twice(method, other, **params):
        first = s.call(method, idempotencyKey=method, **params)
        log = s.events(c)
        eq(s.call(method, idempotencyKey=method, **params), first, f"{method} repeated")
        eq(s.events(c), log, f"{method} repeated is not told again")
        s.refused("IDEMPOTENCY_CONFLICT", method, idempotencyKey=method, **params | other)
        return first

    t = twice("task.create", {"content": 2}, conversation=c, role="a", content=1)["task"]
    eq(len(tasks(s)), 1, "one task")
    join(s, c)
    e = twice("task.claim", {"unattended": True}, conversation=c, role="a",
              connectionId="c1")["epoch"]
    number = {"task": t["task"], "epoch": e}
    twice("task.start", {"epoch": 99}, **number)
    advance(s, 1000)
    twice("task.progress", {"note": "y"}, note="x", **number)
    twice("task.complete", {"deliverable": 1}, handoff={"role": "b", "content": 1}, **number)
    eq(len(tasks(s)), 2, "one hand-off")
    t = put_to_work(s, c)
    twice("task.fail", {"reason": "z"}, task=t["task"], epoch=t["epoch"], reason="y")
    twice("task.cancel", {"reason": "z"}, task=give(s, c)["task"], reason="y")
    s.restart()
    first = s.call("task.create", idempotencyKey="task.create", conversation=c, role="a", content=1)
    eq(first["task"]["status"], "pending", "the first answer, after a restart too")
    eq(len(tasks(s)), 4, "tasks")


@manual()
def test_a_refused_move_leaves_its_key_free(s):
    c = talk(s)
    t = give(s, c)
    params = {"task": t["task"], "epoch": t["epoch"], "idempotencyKey": "k"}
    s.refused("INVALID_TRANSITION", "task.start", **params)
    join(s, c)
    claim(s, c)
    eq(s.call("task.start", **params)["task"]["status"], "in_progress", "the same, when it may")


@manual()
def test_a_batch_is_as_good_as_one_by_one(s):
    c = talk(s)
    got = batch(s, ("task.create", {"conversation": c, "role": "a", "content": 1}),
                ("participant.join", {"conversation": c, "role": "a", "connectionId": "c1"}),
                ("task.wait", {"conversation": c, "role": "a", "connectionId": "c1"}),
                ("task.claim", {"conversation": c, "role": "a", "connectionId": "c1"}),
                ("task.start", {"task": 1, "epoch": 1}),
                ("task.start", {"task": 1, "epoch": 2}),
                ("task.complete", {"task": 1, "epoch": 1,
                                   "handoff": {"role": "ghost", "content": 1}}),
                ("task.complete", {"task": 1, "epoch": 1}))
    eq([g if isinstance(g, str) else g.get("status") or g["task"]["status"] for g in got],
       ["pending", "waiting", "task", "acknowledged", "in_progress", "STALE_EPOCH", "NOT_FOUND",
        "completed"], "in one tick")
    eq(ends(s, c), [(1, "success", "completed")], "what was told")
    eq(view(s, c), "waiting", "view")


if __name__ == "__main__":
    main()
