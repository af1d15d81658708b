"""Who listens for an agent: joining, beating, leaving, being superseded, and leases that end
exactly when they end."""
import os

from crew import (ACTIVE_MS, TTL_MS, beat, check_once_at, claim, complete, give, join, leave,
                  metric, moves, participant, poll, put_to_work, said, start, status, talk,
                  task_of, tasks, view)
from fleet import batch, managed, open_starts, starts
from reeve_test import Server, check, eq, main, together
from watch_model import advance, gap, manual, ms, now

RENEWS_NOTHING = {"renewed": {"listener": False, "work": False}}


# ---- join, beat, leave ----

@manual()
def test_join_grants_a_lease_that_is_told(s):
    c = talk(s)
    before = participant(s, c)
    eq(before, {"conversation": c, "role": "a", "status": "disconnected", "connectionId": None,
                "readyUntil": None, "activeUntil": None, "lastSeenAt": None}, "nobody yet")
    at = now(s)
    answer = join(s, c)
    eq({k: v for k, v in answer.items() if k != "readyUntil"},
       {"status": "waiting", "ttlMs": 60_000, "heartbeatMs": 30_000}, "the answer")
    eq(ms(answer["readyUntil"]), at + TTL_MS, "readyUntil")
    p = participant(s, c)
    eq((p["status"], p["connectionId"], p["readyUntil"], ms(p["lastSeenAt"])),
       ("waiting", "c1", answer["readyUntil"], at), "the participant")
    eq(participant(s, c, "b")["status"], "disconnected", "another role")
    eq(view(s, c), "waiting", "view")


@manual()
def test_beat_renews_to_now_plus_ttl(s):
    c = talk(s)
    join(s, c)
    advance(s, 10_000)
    answer = beat(s, c)
    eq(answer["status"], "ok", "status")
    eq(ms(answer["readyUntil"]), now(s) + TTL_MS, "readyUntil")
    eq(set(answer), {"status", "readyUntil", "renewed"}, "members")
    eq(participant(s, c)["readyUntil"], answer["readyUntil"], "as listed")


@manual("liveness.ttl_seconds=7", "liveness.heartbeat_seconds=2")
def test_lease_and_interval_are_as_configured(s):
    c = talk(s)
    answer = join(s, c)
    eq((answer["ttlMs"], answer["heartbeatMs"], ms(answer["readyUntil"])),
       (7000, 2000, now(s) + 7000), "the lease")
    check_once_at(s, c, "participant.expire", now(s) + 7001,
                  lambda: participant(s, c)["status"] == "disconnected")


@manual()
def test_beats_of_strangers_are_no_errors_and_create_nothing(s):
    c = talk(s)
    eq(beat(s, c), RENEWS_NOTHING | {"status": "rejoin_required"}, "before any join")
    eq(participant(s, c)["status"], "disconnected", "nothing was created")
    join(s, c)
    until = participant(s, c)["readyUntil"]
    advance(s, 1000)
    eq(beat(s, c, connection="c2"), RENEWS_NOTHING | {"status": "superseded"}, "of another connection")
    eq(participant(s, c)["readyUntil"], until, "and it renews nothing")
    leave(s, c)
    eq(beat(s, c), RENEWS_NOTHING | {"status": "rejoin_required"}, "after leaving")


@manual()
def test_roles_and_conversations_must_exist(s):
    c = talk(s)
    for method in ("participant.join", "participant.heartbeat", "participant.leave", "task.wait",
                   "task.claim"):
        error = s.refused("NOT_FOUND", method, conversation=c, role="ghost", connectionId="x")
        eq((error.data["what"], error.data["id"]), ("agent", "ghost"), method)
        s.refused("NOT_FOUND", method, conversation=99, role="a", connectionId="x")
        for wrong in ({"connectionId": ""}, {"connectionId": "x" * 129}, {"connectionId": None},
                      {"role": "no name"}, {"role": ""}, {"conversation": -1}):
            s.refused("INVALID_PARAMS", method,
                      **{"conversation": c, "role": "a", "connectionId": "x"} | wrong)
    s.refused("NOT_FOUND", "participant.list", conversation=99)
    eq(s.call("participant.list"), {"participants": []}, "nobody ever joined")
    eq(join(s, c, "A", "x" * 128)["status"], "waiting", "a role in any case, a long connection id")
    eq(participant(s, c)["connectionId"], "x" * 128, "kept whole")


@manual()
def test_leave_ends_the_lease_at_once_and_may_be_repeated(s):
    c = talk(s)
    join(s, c)
    for _ in range(2):
        eq(leave(s, c), {}, "leave")
        p = participant(s, c)
        eq((p["status"], p["connectionId"], p["readyUntil"]), ("disconnected", "c1", None), "after")
    eq(view(s, c), "stopped", "view")
    advance(s, 10 * TTL_MS)
    eq(moves(s, c), [], "nothing is left to expire")
    eq(len(said(s, c, "agent.state")), 2, "one event for each change")


@manual()
def test_invariant_5_leave_of_the_listener_is_not_the_end_of_its_work(s):
    c = talk(s)
    t = put_to_work(s, c)
    leave(s, c)
    p = participant(s, c)
    eq((p["status"], p["readyUntil"]), ("active", None), "it works, and nobody listens")
    eq(status(s, t), "in_progress", "the task")
    advance(s, ACTIVE_MS)
    eq(status(s, t), "in_progress", "until the worker's lease is over")


# ---- exact ----

@manual()
def test_invariant_2_a_lease_is_over_at_the_first_millisecond_after_it(s):
    c = talk(s)
    until = ms(join(s, c)["readyUntil"])
    advance(s, until - now(s))
    eq(now(s), until, "the last millisecond")
    eq(participant(s, c)["status"], "waiting", "readyUntil is part of it")
    eq(beat(s, c, connection="other")["status"], "superseded", "somebody is there")
    advance(s, 1)
    p = participant(s, c)
    eq((p["status"], p["connectionId"]), ("disconnected", "c1"), "over; its row stays")
    eq(moves(s, c), [("participant.expire", until + 1)], "told once, at that time")
    (e,) = said(s, c, "watch.participant.expire")
    eq((e["agent"], e["ttlMs"], ms(e["lastSeenAt"])), (f"{c}:a", TTL_MS, until - TTL_MS),
       "with what it saw and the limit it used")
    eq(view(s, c), "stopped", "view")


@manual()
def test_invariant_1_who_beats_every_interval_never_expires(s):
    c = talk(s)
    join(s, c)
    for _ in range(100):
        advance(s, 30_000)
        eq(beat(s, c)["status"], "ok", "a beat in time")
        check(ms(participant(s, c)["readyUntil"]) > now(s), "the lease is in the future")
    eq(moves(s, c), [], "what the ladder did")


@manual()
def test_a_beat_in_the_last_millisecond_counts(s):
    c = talk(s)
    join(s, c)
    for _ in range(5):
        advance(s, TTL_MS)
        eq(beat(s, c)["status"], "ok", "in the last millisecond")
    eq(moves(s, c), [], "what the ladder did")


@manual()
def test_L22_a_late_beat_is_cheap(s):
    """One millisecond late: told to rejoin, rejoins at once, and nothing is lost by it."""
    c = talk(s)
    join(s, c)
    t = give(s, c)
    advance(s, TTL_MS + 1)
    eq(beat(s, c), RENEWS_NOTHING | {"status": "rejoin_required"}, "late")
    answer = join(s, c)
    check("superseded" not in answer, "nobody was in the way")
    eq(poll(s, c)["task"]["task"], t["task"], "the work is still there")
    eq((task_of(s, t)["epoch"], task_of(s, t)["attempts"]), (t["epoch"], 0), "untouched")
    working = start(s, claim(s, c))
    advance(s, ACTIVE_MS)
    eq(beat(s, c, epoch=working["epoch"])["activeUntil"] is not None, True, "a beat in time")
    advance(s, 1)
    eq(participant(s, c)["status"], "active", "the worker goes on")
    eq(task_of(s, t)["attempts"], 0, "attempts lost by listening late")


@manual()
def test_L23_rows_are_never_deleted(s):
    c = talk(s)
    for connection in ("c1", "c2", "c3"):
        join(s, c, connection=connection)
        advance(s, TTL_MS + 1)
        eq(participant(s, c)["connectionId"], connection, "still there")
        eq(beat(s, c, connection=connection)["status"], "rejoin_required", "and no error")
    s.call("conversation.end", conversation=c)
    eq(participant(s, c)["connectionId"], "c3", "after the end")
    eq([p["role"] for p in s.call("participant.list")["participants"]], ["a"], "all who joined")


@manual()
def test_L24_every_way_to_wait_has_a_lease(s):
    """Join, beat, poll, claim, complete with a hand-off, restart: who waits has an end."""
    c = talk(s)

    def check_lease(what):
        for p in s.call("participant.list")["participants"]:
            if p["status"] == "waiting":
                check(p["readyUntil"], f"{what}: {p}")
                check(now(s) <= ms(p["readyUntil"]) <= now(s) + TTL_MS, f"{what}: {p}")

    join(s, c, "b", "c9")
    t = put_to_work(s, c)
    check_lease("working")
    advance(s, 5000)
    complete(s, t, handoff={"role": "b", "content": "next"})
    check_lease("after a hand-off")
    eq(participant(s, c)["status"], "waiting", "the worker listens again")
    poll(s, c)
    check_lease("after a poll")
    s.restart()
    check_lease("after a restart")
    advance(s, 2 * TTL_MS + 1)
    eq({p["status"] for p in s.call("participant.list")["participants"]}, {"disconnected"},
       "nobody stays without beating")


# ---- superseding ----

@manual()
def test_a_newer_connection_supersedes_and_the_older_is_told(s):
    c = talk(s)
    eq(join(s, c, connection="old").get("superseded"), None, "the first")
    eq(join(s, c, connection="old").get("superseded"), None, "the same again")
    eq(join(s, c, connection="new")["superseded"], True, "the second")
    eq(beat(s, c, connection="old"), RENEWS_NOTHING | {"status": "superseded"}, "beat of the old one")
    eq(poll(s, c, connection="old"), {"status": "superseded"}, "poll of the old one")
    eq(beat(s, c, connection="new")["status"], "ok", "beat of the new one")
    give(s, c)
    s.refused("SUPERSEDED", "task.claim", conversation=c, role="a", connectionId="old")
    eq(claim(s, c, connection="new")["claimedBy"], "new", "the claim")
    eq(len(said(s, c, "agent.state")), 2, "a change of listener is no change of view")


@manual()
def test_L25_late_leave_of_a_superseded_connection_has_no_effect(s):
    c = talk(s)
    join(s, c, connection="old")
    join(s, c, connection="new")
    before = participant(s, c)
    eq(leave(s, c, connection="old"), {}, "told nothing")
    eq(participant(s, c), before, "the newer one is untouched")
    eq(leave(s, c, connection="stranger"), {}, "of somebody who never joined")
    eq(participant(s, c), before, "the same")
    eq(beat(s, c, connection="new")["status"], "ok", "its beats count")


@manual()
def test_after_the_newer_left_the_older_may_come_back(s):
    c = talk(s)
    join(s, c, connection="old")
    join(s, c, connection="new")
    leave(s, c, connection="new")
    eq(beat(s, c, connection="old"), RENEWS_NOTHING | {"status": "rejoin_required"}, "the place is free")
    check("superseded" not in join(s, c, connection="old"), "nobody is in the way")
    eq(participant(s, c)["connectionId"], "old", "it listens again")


@manual()
def test_two_connections_that_fight_are_never_both_the_listener(s):
    c = talk(s)
    for _ in range(20):
        together(*(lambda n=n: join(s, c, connection=n) for n in ("x", "y")))
        answers = sorted(beat(s, c, connection=n)["status"] for n in ("x", "y"))
        eq(answers, ["ok", "superseded"], "one of two")


# ---- beats with an epoch ----

@manual()
def test_L21_a_beat_with_the_epoch_renews_the_work_too(s):
    c = talk(s)
    t = put_to_work(s, c)
    advance(s, 40_000)
    answer = beat(s, c, epoch=t["epoch"])
    eq((answer["status"], ms(answer["activeUntil"])), ("ok", now(s) + ACTIVE_MS), "by epoch alone")
    advance(s, 40_000)
    answer = beat(s, c, task=t["task"], epoch=t["epoch"])
    eq(ms(answer["activeUntil"]), now(s) + ACTIVE_MS, "by task and epoch")
    p = participant(s, c)
    eq((p["status"], p["activeUntil"]), ("active", answer["activeUntil"]), "as listed")
    check_once_at(s, c, "task.orphaned", now(s) + ACTIVE_MS + 1,
                  lambda: status(s, t) == "pending")


@manual()
def test_L20_a_holder_beats_with_its_epoch_while_another_listens(s):
    """Listening and working are two things: neither ends the other."""
    c = talk(s)
    t = put_to_work(s, c, connection="worker")
    join(s, c, connection="listener")
    for _ in range(20):
        advance(s, 30_000)
        answer = beat(s, c, connection="worker", epoch=t["epoch"])
        eq(answer["status"], "superseded", "status tells of the listener")
        eq(ms(answer["activeUntil"]), now(s) + ACTIVE_MS, "activeUntil of the work")
        check("staleEpoch" not in answer, answer)
        eq(beat(s, c, connection="listener")["status"], "ok", "the listener")
    eq(status(s, t), "in_progress", "the work goes on")
    eq(moves(s, c), [], "what the ladder did")
    eq(complete(s, t)["task"]["status"], "completed", "and is completed by who has the epoch")


@manual()
def test_L20_a_lapsed_listener_is_not_a_dead_worker(s):
    c = talk(s)
    t = put_to_work(s, c)
    for _ in range(60):
        advance(s, 30_000)
        if now(s) % 60_000 < 30_000:
            s.call("task.progress", task=t["task"], epoch=t["epoch"])
        else:
            beat(s, c, connection="somebody else", epoch=t["epoch"])
    got = task_of(s, t)
    eq((got["status"], got["attempts"], got["epoch"]), ("in_progress", 0, t["epoch"]), "the task")
    eq([m[0] for m in moves(s, c)], ["participant.expire"], "only the listener expired")
    eq(len(tasks(s, conversation=c)), 1, "never delivered again")


@manual()
def test_L20_claimed_and_beating_is_never_taken_back(s):
    c = talk(s)
    give(s, c)
    join(s, c)
    t = claim(s, c)
    leave(s, c)
    for _ in range(20):
        advance(s, 30_000)
        beat(s, c, epoch=t["epoch"])
    eq(task_of(s, t)["attempts"], 0, "attempts after ten minutes")
    eq(status(s, t), "acknowledged", "still the holder's")


@manual()
def test_a_heartbeat_says_which_leases_it_renewed(s):
    c = talk(s)
    join(s, c)
    eq(beat(s, c)["renewed"], {"listener": True, "work": False}, "of a listener without work")
    t = put_to_work(s, c)
    for params, renewed in (({}, {"listener": True, "work": False}),
                            ({"epoch": t["epoch"]}, {"listener": True, "work": True}),
                            ({"task": t["task"], "epoch": t["epoch"]},
                             {"listener": True, "work": True}),
                            ({"connection": "other", "epoch": t["epoch"]},
                             {"listener": False, "work": True}),
                            ({"epoch": t["epoch"] + 1}, {"listener": True, "work": False})):
        eq(beat(s, c, **params)["renewed"], renewed, f"with {params}")


@manual()
def test_a_heartbeat_with_a_task_but_no_epoch_says_that_the_work_is_not_renewed(s):
    c = talk(s)
    t = put_to_work(s, c)
    until = participant(s, c)["activeUntil"]
    advance(s, 30_000)
    answer = beat(s, c, task=t["task"])
    eq((answer["status"], answer["staleEpoch"], answer["epoch"], answer["renewed"]),
       ("ok", True, t["epoch"], {"listener": True, "work": False}), "what it says")
    eq(participant(s, c)["activeUntil"], until, "the lease of the work")
    check("staleEpoch" not in beat(s, c), "a listener that names no work has nothing stale")


@manual()
def test_a_stale_epoch_renews_the_listener_only_and_says_so(s):
    c = talk(s)
    t = put_to_work(s, c)
    advance(s, ACTIVE_MS + 1)
    eq(status(s, t), "pending", "taken back")
    join(s, c)
    current = task_of(s, t)["epoch"]
    answer = beat(s, c, task=t["task"], epoch=t["epoch"])
    eq((answer["status"], answer["staleEpoch"], answer["epoch"]), ("ok", True, current), "old")
    check("activeUntil" not in answer, answer)
    eq(ms(answer["readyUntil"]), now(s) + TTL_MS, "the listener is renewed")
    for epoch in (0, current, current + 1, current + 1000, 2**53 - 1):
        answer = beat(s, c, task=t["task"], epoch=epoch)
        eq((answer["staleEpoch"], answer["epoch"]), (True, current), f"{epoch} of a pending task")
    eq(participant(s, c)["status"], "waiting", "nobody works")
    other = give(s, c, "b")
    answer = beat(s, c, task=other["task"], epoch=other["epoch"])
    eq(answer["staleEpoch"], True, "of another role's task")
    eq(beat(s, c, task=999, epoch=1)["staleEpoch"], True, "of no task")
    s.refused("INVALID_PARAMS", "participant.heartbeat", conversation=c, role="a",
              connectionId="c1", epoch=-1)


@manual()
def test_a_beat_of_a_task_that_is_over_is_stale(s):
    c = talk(s)
    t = put_to_work(s, c)
    complete(s, t)
    for named in ({}, {"task": t["task"]}):
        answer = beat(s, c, epoch=t["epoch"], **named)
        eq((answer["status"], answer["staleEpoch"]), ("ok", True), f"with {named}")
    eq(participant(s, c)["status"], "waiting", "it listens")


@manual()
def test_directive_stop_is_told_to_whoever_beats(s):
    c = talk(s)
    join(s, c)
    check("directive" not in beat(s, c), "nothing to stop for")
    s.call("lifecycle.stop", conversation=c, roles=["a"])
    answer = beat(s, c)
    eq((answer["status"], answer["directive"]), ("ok", "stop"), "a person stopped it")
    eq(beat(s, c, connection="x")["directive"], "stop", "whoever asks")
    eq(poll(s, c), {"status": "stop"}, "a poll")
    join(s, c, "b")
    check("directive" not in beat(s, c, "b"), "another role goes on")


@manual()
def test_ended_conversations_have_no_participants(s):
    c = talk(s)
    join(s, c)
    s.call("conversation.end", conversation=c)
    over = RENEWS_NOTHING | {"status": "rejoin_required", "directive": "stop"}
    eq(beat(s, c), over, "a beat")
    eq(beat(s, c, connection="x"), over, "another's")
    eq(beat(s, c, epoch=1)["status"], "rejoin_required", "with an epoch")
    eq(poll(s, c), {"status": "ended"}, "a poll")
    s.refused("CONVERSATION_FINALIZED", "participant.join", conversation=c, role="a",
              connectionId="c1")
    s.refused("CONVERSATION_FINALIZED", "task.claim", conversation=c, role="a", connectionId="c1")
    eq(leave(s, c), {}, "leave works")


# ---- time that nobody watched ----

@manual()
def test_L30_a_gap_uses_up_no_lease(s):
    c = talk(s)
    join(s, c)
    t = put_to_work(s, c, "b", "c2")
    advance(s, 10_000)
    gap(s, 3_600_000)
    eq([participant(s, c, r)["status"] for r in "ab"], ["waiting", "active"], "after an hour")
    eq(ms(participant(s, c)["readyUntil"]), now(s) + TTL_MS - 10_000, "what was left is left")
    advance(s, TTL_MS - 10_000)
    eq([participant(s, c, r)["status"] for r in "ab"], ["waiting", "active"], "the last moment")
    advance(s, 1)
    eq([participant(s, c, r)["status"] for r in "ab"], ["disconnected"] * 2, "and then it is over")
    eq(status(s, t), "pending", "the work is taken back")


@manual()
def test_two_gaps_shift_by_their_sum(s):
    c = talk(s)
    at = now(s)
    join(s, c)
    for _ in range(2):
        advance(s, 20_000)
        gap(s, 100_000)
    check_once_at(s, c, "participant.expire", at + TTL_MS + 200_001,
                  lambda: participant(s, c)["status"] == "disconnected")


@manual()
def test_a_gap_that_ended_before_the_beat_gives_nothing(s):
    c = talk(s)
    join(s, c)
    gap(s, 500_000)
    eq(ms(beat(s, c)["readyUntil"]), now(s) + TTL_MS, "a whole lease, no more")


@manual()
def test_a_restart_grants_leases_anew(s):
    c = talk(s)
    join(s, c)
    t = put_to_work(s, c, "b", "c2")
    for how in ("kill", "stop"):
        advance(s, TTL_MS)
        before = now(s)
        s.restart(how)
        check(now(s) >= before, "time does not go back")
        eq([ms(participant(s, c)["readyUntil"]), ms(participant(s, c, "b")["activeUntil"])],
           [now(s) + TTL_MS, now(s) + ACTIVE_MS], "one whole lease each")
        eq(beat(s, c)["status"], "ok", "and the listener is still the listener")
        eq(beat(s, c, connection="x")["status"], "superseded", "others are not")
    check_once_at(s, c, "task.orphaned", now(s) + ACTIVE_MS + 1,
                  lambda: status(s, t) == "pending")
    eq(participant(s, c)["status"], "disconnected", "who does not come back is gone")


@manual()
def test_a_restart_grants_nothing_to_who_had_left_or_expired(s):
    c = talk(s)
    join(s, c)
    leave(s, c)
    join(s, c, "b", "c2")
    advance(s, TTL_MS + 1)
    s.restart()
    eq([participant(s, c, r)["status"] for r in "ab"], ["disconnected"] * 2, "after the restart")
    eq([beat(s, c, r, n)["status"] for r, n in (("a", "c1"), ("b", "c2"))],
       ["rejoin_required"] * 2, "their beats")


@manual()
def test_a_restart_keeps_the_length_of_an_unattended_claim(s):
    c = talk(s)
    give(s, c)
    join(s, c)
    t = start(s, claim(s, c, unattended=True))
    advance(s, 800_000)
    s.restart()
    eq(ms(participant(s, c)["activeUntil"]), now(s) + 900_000, "the length of the claim")
    check_once_at(s, c, "task.orphaned", now(s) + 900_001, lambda: status(s, t) == "pending")


# ---- what beats cost ----

def written(s):
    """Changes whenever the store writes: only that is ever synced."""
    files = [os.stat(os.path.join(s.data, name)) for name in ("reeve.db", "reeve.db-wal")]
    return [(f.st_size, f.st_mtime_ns) for f in files]


def test_L29_beats_write_nothing_and_wake_nobody(s):
    """On the real clock, so that every beat would be another row. The server stores its own time
    now and then; so one burst in which nothing is written is enough, and is what there must be."""
    c = talk(s)
    t = put_to_work(s, c)
    join(s, c, "b", "c2")
    beat(s, c, epoch=t["epoch"], progress="the same")  # the first value is progress
    log, events = s.events(c), metric(s, "reeve_events_total")
    socket = s.socket()
    socket.subscribe(conversation=c, afterSeq=len(log))

    def burst():
        disk = written(s)
        for i in range(50):
            beat(s, c, epoch=t["epoch"], progress="the same")
            beat(s, c, "b", "c2")
            poll(s, c, "b", "c2")
        return written(s) == disk

    check(any(burst() for _ in range(10)), "no burst without a write")
    eq((metric(s, "reeve_events_total"), s.events(c)), (events, log), "the log")
    disk = written(s)
    s.say(c, "a", "after the beats")
    eq(socket.event()["payload"]["text"], "after the beats", "the first thing a subscriber hears")
    check(written(s) != disk, "a message is seen by this test")


@manual()
def test_L29_going_offline_reaches_every_view(s):
    c = talk(s)
    join(s, c)
    socket = s.socket()
    socket.subscribe(conversation=c, afterSeq=len(s.events(c)))
    stream = s.stream(f"?conversation={c}&after={s.events(c)[-1]['id']}")
    for _ in range(3):
        advance(s, TTL_MS + 1)
        want = [("watch.participant.expire", None), ("agent.state", "stopped")]
        for push in (socket.event, lambda: stream.next()[1]):
            got = [push() for _ in want]
            eq([(e["payload"]["kind"], e["payload"]["data"].get("status")) for e in got], want,
               "what a listener's end tells")
        eq((view(s, c), participant(s, c)["status"]), ("stopped", "disconnected"), "asked")
        join(s, c)
        for push in (socket.event, lambda: stream.next()[1]):
            eq(push()["payload"]["data"]["status"], "waiting", "and back at once")


@manual()
def test_a_thousand_leases_of_the_same_moment_all_end(s):
    """More than a page of the ladder; and one that beats is not among them."""
    every = []
    for _ in range(10):
        agents = [{"role": f"r{i}"} for i in range(30)]
        every.append(s.call("conversation.create", agents=agents)["conversation"])
    for c in every:
        batch(s, *(("participant.join", {"conversation": c, "role": f"r{i}", "connectionId": "x"})
                   for i in range(30)))
    advance(s, TTL_MS)
    beat(s, every[3], "r7", "x")
    advance(s, 1)
    alive = [(p["conversation"], p["role"]) for p in s.call("participant.list")["participants"]
             if p["status"] != "disconnected"]
    eq(alive, [(every[3], "r7")], "who is left")
    for c in every:
        eq(len(said(s, c, "watch.participant.expire")), 30 - (c == every[3]), f"told in {c}")


def test_P2_expiry_needs_no_call_to_be_noticed():
    """The real clock, a second of lease: whoever watches the log is told, and nobody asked."""
    real = Server(args=["--set", "liveness.ttl_seconds=1", "--set", "liveness.heartbeat_seconds=1"])
    real.start()
    c = real.talk("a")
    socket = real.socket()
    join(real, c)
    socket.subscribe(conversation=c, afterSeq=len(real.events(c)))
    eq(socket.event()["payload"]["kind"], "watch.participant.expire", "the event")
    real.stop()


# ---- waking ----

@manual()
def test_F1_expiry_with_work_waiting_starts_the_agent_at_once(s):
    c = managed(s, "a", "b", desired="auto")
    join(s, c)
    give(s, c)
    eq(starts(s, c), [], "somebody listens")
    advance(s, TTL_MS + 1)
    (one,) = open_starts(s, c)
    eq((one["role"], one["type"], one["reason"]), ("a", "start-agent", "participant.expire"),
       "the start")
    eq(view(s, c), "starting", "view")


@manual()
def test_expiry_without_work_starts_nothing(s):
    c = managed(s, "a", desired="auto")
    join(s, c)
    advance(s, TTL_MS + 1)
    eq(starts(s, c), [], "starts")
    eq(view(s, c), "stopped", "view")


@manual()
def test_P14_expiry_starts_nobody_whom_a_person_stopped(s):
    c = managed(s, "a", desired="auto")
    join(s, c)
    give(s, c)
    s.call("lifecycle.stop", conversation=c, roles=["a"])
    advance(s, 10 * TTL_MS)
    eq(open_starts(s, c), [], "starts")


# ---- scopes ----

@manual()
def test_an_agents_token_speaks_for_its_own_role_only(s):
    c, other = talk(s), talk(s)
    mine = s.as_token(scope="agent", conversation=c, role="a")
    eq(join(mine, c)["status"], "waiting", "its own role")
    for call in (join, beat, leave):
        e = mine.refused("FORBIDDEN", {join: "participant.join", beat: "participant.heartbeat",
                                       leave: "participant.leave"}[call],
                         conversation=c, role="b", connectionId="c1")
        check(e.message, "a text")
    for method in ("participant.join", "participant.heartbeat", "participant.leave"):
        mine.refused("NOT_FOUND", method, conversation=other, role="a", connectionId="c1")
    eq(participant(s, c, "b")["status"], "disconnected", "the other role")
    eq([p["role"] for p in mine.call("participant.list", conversation=c)["participants"]],
       ["a", "b"], "it may look at its own conversation")
    mine.refused("NOT_FOUND", "participant.list", conversation=other)
    join(s, other, "b", "c5")
    seen = mine.call("participant.list")["participants"]
    eq({p["conversation"] for p in seen}, {c}, "what it sees of all")


@manual()
def test_read_tokens_only_look(s):
    c = talk(s)
    join(s, c)
    reader = s.as_token(scope="read")
    eq(len(reader.call("participant.list", conversation=c)["participants"]), 2, "a list")
    for method in ("participant.join", "participant.heartbeat", "participant.leave", "task.wait",
                   "task.claim"):
        reader.refused("FORBIDDEN", method, conversation=c, role="a", connectionId="c1")
    eq(participant(s, c)["connectionId"], "c1", "unchanged")


@manual()
def test_P12_who_took_a_place_has_it_after_a_crash_though_nothing_else_changed(s):
    """The view stays the same from one listener to the next; the row must not."""
    c = talk(s)
    join(s, c, connection="first")
    join(s, c, connection="second")
    s.restart()
    eq(beat(s, c, connection="second")["status"], "ok", "the one that came last")
    eq(beat(s, c, connection="first")["status"], "superseded", "the one before")


@manual()
def test_P8_an_epoch_is_never_used_twice_not_even_across_a_crash(s):
    """Work comes and goes while nobody listens: only the epoch of the agent moves."""
    c, used = talk(s), []
    for _ in range(3):
        t = give(s, c)
        used.append(t["epoch"])
        used.append(s.call("task.cancel", task=t["task"], reason="not needed")["task"]["epoch"])
        s.restart()
    eq(used, sorted(set(used)), "epochs, each greater than all before")


if __name__ == "__main__":
    main()
