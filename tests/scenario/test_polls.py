"""Long polls for work: when task.wait is answered and with what, that it meets the work that comes
meanwhile, and what becomes of those who only wait."""
from crew import (TTL_MS, Poll, beat, claim, complete, give, in_thread, join, leave, metric,
                  participant, poll, put_to_work, start, status, talk, task_of)
from fleet import batch
from reeve_test import Closed, RpcError, check, eq, main, wait_for
from watch_model import advance, manual, ms, now


# ---- work ----

@manual()
def test_a_poll_is_answered_when_work_comes(s):
    c = talk(s)
    join(s, c)
    for make in (lambda: give(s, c), lambda: s.say(c, "b", "x", to="a")["task"]):
        waiting = Poll(s, c)
        check(waiting.is_waiting(), "nothing to do")
        t = make()
        eq(waiting.answer(), {"status": "task", "task": t}, "the answer")
        complete(s, start(s, claim(s, c)))
    waiting = Poll(s, c)
    b = put_to_work(s, c, "b", "c2")
    check(waiting.is_waiting(), "others' work is not announced")
    t = complete(s, b, handoff={"role": "a", "content": 1})["handoffTask"]
    eq(waiting.answer()["task"]["task"], t["task"], "a hand-off")


@manual()
def test_a_poll_is_answered_when_work_is_promoted_or_taken_back(s):
    c = talk(s)
    t, second = give(s, c), give(s, c)
    join(s, c, connection="worker")
    start(s, claim(s, c, connection="worker"))
    join(s, c, connection="listener")
    waiting = Poll(s, c, connection="listener")
    check(waiting.is_waiting(), "somebody works")
    complete(s, task_of(s, t))
    eq(waiting.answer()["task"]["task"], second["task"], "promoted")
    start(s, claim(s, c, connection="listener"))
    advance(s, 30_000)
    beat(s, c, connection="listener")
    waiting = Poll(s, c, connection="listener")
    advance(s, 30_001)
    eq(waiting.answer()["task"]["task"], second["task"], "taken back")


def waits(s, c, **more):
    join(s, c)
    p = Poll(s, c, **more)
    check(p.is_waiting(), "it waits")
    return p


@manual()
def test_a_poll_is_answered_when_its_listener_is_not_one_any_more(s):
    c = talk(s)
    p = waits(s, c)
    join(s, c, connection="newer")
    eq(p.answer(), {"status": "superseded"}, "a newer one joined")
    p = waits(s, c)
    leave(s, c)
    eq(p.answer(), {"status": "rejoin_required"}, "it left")
    p = waits(s, c)
    advance(s, TTL_MS + 1)
    eq(p.answer(), {"status": "rejoin_required"}, "its lease is over")


@manual()
def test_a_poll_is_answered_when_a_person_stops_the_agent(s):
    for kind in (None, "worker"):
        c = talk(s, "a", kind=kind)
        p = waits(s, c)
        s.call("lifecycle.stop", conversation=c, roles=["a"])
        eq(p.answer(), {"status": "stop"}, f"of kind {kind}")


@manual()
def test_a_poll_is_answered_when_the_conversation_ends_or_is_blocked(s):
    for finish in (lambda c: s.call("conversation.end", conversation=c),
                   lambda c: s.say(c, "a", "bye", finality="conversation")):
        c = talk(s)
        p = waits(s, c)
        finish(c)
        eq(p.answer(), {"status": "ended"}, "the conversation ended")
    c = talk(s, runtime_controls={"session_wall_clock_seconds": 30})
    p = waits(s, c)
    advance(s, 30_001)
    eq(p.answer(), {"status": "blocked"}, "the conversation is blocked")


@manual()
def test_a_poll_that_times_out_says_none(s):
    c = talk(s)
    join(s, c)
    for timeout_ms in (0, 1, 20):
        eq(poll(s, c, timeout_ms=timeout_ms), {"status": "none"}, f"after {timeout_ms} ms")
    s.refused("INVALID_PARAMS", "task.wait", conversation=c, role="a", connectionId="c1",
              timeoutMs=-1)
    s.refused("INVALID_PARAMS", "task.wait", conversation=c, role="a", connectionId="c1",
              timeoutMs=300_001)


@manual()
def test_a_poll_is_a_heartbeat(s):
    c = talk(s)
    join(s, c)
    for _ in range(5):
        advance(s, TTL_MS)
        eq(poll(s, c), {"status": "none"}, "in the last millisecond")
        eq(ms(participant(s, c)["readyUntil"]), now(s) + TTL_MS, "renewed")
    eq(poll(s, c, connection="x"), {"status": "superseded"}, "of another: no")
    until = participant(s, c)["readyUntil"]
    advance(s, 1000)
    poll(s, c, connection="x")
    eq(participant(s, c)["readyUntil"], until, "nor a heartbeat")


@manual()
def test_what_others_do_is_no_sign_of_life_of_who_waits(s):
    """A poll proves that somebody is there when it is sent; the work of others proves nothing."""
    c = talk(s)
    t = put_to_work(s, c, connection="worker")
    join(s, c, connection="listener")
    until = ms(participant(s, c)["readyUntil"])
    waiting = Poll(s, c, connection="listener")
    advance(s, 40_000)
    complete(s, t)
    check(waiting.is_waiting(), "nothing to do for it")
    eq(ms(participant(s, c)["readyUntil"]), until, "the lease of who only waits")


@manual()
def test_the_server_answers_polls_when_it_stops(s):
    c = talk(s)
    join(s, c)
    waiting = Poll(s, c)
    executed = metric(s, "reeve_requests_total")
    by_http = in_thread(lambda: poll(s, c, timeout_ms=60_000))
    wait_for(lambda: metric(s, "reeve_requests_total") > executed, "the poll by HTTP")
    s.stop()
    try:
        waiting.read()
        raise AssertionError("an answer, where there is none")
    except RpcError as e:
        eq(e.name, "UNAVAILABLE", "what a poll is told")
    except Closed:
        raise AssertionError("closed without an answer") from None
    eq(by_http(), "UNAVAILABLE", "by HTTP")
    s.start()


@manual()
def test_L27_nothing_is_announced_to_a_poll_that_is_not_registered(s):
    """Work that comes between two polls is in the answer of the next, and never lost."""
    c = talk(s)
    join(s, c)
    for i in range(20):
        waiting = Poll(s, c)
        waiting.drop()
        t = give(s, c, content=i)
        eq(poll(s, c)["task"]["task"], t["task"], "the next poll has it")
        eq(status(s, t), "pending", "an announcement claims nothing")
        complete(s, start(s, claim(s, c)))


@manual()
def test_L27_a_poll_and_work_that_cross_always_meet(s):
    c = talk(s)
    join(s, c)
    for i in range(40):
        answer = in_thread(lambda: poll(s, c, timeout_ms=20_000))
        t = give(s, c, content=i)
        eq(answer()["task"]["task"], t["task"], "the work that came meanwhile")
        complete(s, start(s, claim(s, c)))


@manual()
def test_polls_and_their_work_in_one_batch(s):
    c = talk(s)
    agent = {"conversation": c, "role": "a", "connectionId": "c1"}
    got = batch(s, ("participant.join", agent), ("task.wait", agent | {"timeoutMs": 5}),
                ("task.create", {"conversation": c, "role": "a", "content": 1}),
                ("task.wait", agent), ("task.claim", agent))
    eq([g.get("status") or g["task"]["status"] for g in got],
       ["waiting", "none", "pending", "task", "acknowledged"], "in order")


@manual()
def test_200_polls_at_once(s):
    every = [talk(s) for _ in range(200)]
    for c in every:
        join(s, c)
    polls = [Poll(s, c) for c in every]
    for c in every[::2]:
        give(s, c)
    for p in polls[::2]:
        eq(p.answer()["status"], "task", "those with work")
    for p in polls[1::4]:
        p.drop()
    for p in polls[3::4]:
        check(p.is_waiting(), "those without")
    for c in every[1::2]:
        s.call("conversation.end", conversation=c)
    for p in polls[3::4]:
        eq(p.answer(), {"status": "ended"}, "those whose conversation ended")
    eq(s.call("server.info")["clock"], "manual", "the server is well")


@manual()
def test_many_polls_of_one_agent_are_all_answered(s):
    c = talk(s)
    join(s, c)
    polls = [Poll(s, c) for _ in range(20)]
    t = give(s, c)
    for p in polls:
        eq(p.answer()["task"]["task"], t["task"], "each of them")


if __name__ == "__main__":
    main()
