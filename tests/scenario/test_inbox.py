"""The inbox: what is put in is received once, consumed by whoever received it, and never lost.

The doorbell is tested in test_bell.py, the rules that look after rows in test_inbox_rules.py.
"""
import json

from crew import (beat, claim, complete, give, in_thread, join, leave, now, participant, poll,
                  put_to_work, start, talk, task_of, view)
from reeve_test import check, eq, main, reeve, together
from watch_model import advance, manual, ms

MESSAGE = {"inboxId", "messageType", "correlationId", "payload", "epoch", "createdAt"}


def put(s, c, correlation="k1", role="a", kind="ui_action", payload=None, **more):
    return s.call("inbox.enqueue", conversation=c, role=role, messageType=kind,
                  correlationId=correlation, payload=payload or {"n": correlation}, **more)


def receive(s, c, role="a", connection="c1", **more):
    return s.call("inbox.receive", conversation=c, role=role, connectionId=connection,
                  **more)["messages"]


def consume(s, *rows, connection="c1", **more):
    return s.call("inbox.consume", inboxIds=list(rows), connectionId=connection, **more)


def row(s, inbox):
    return s.call("inbox.get", inboxId=inbox)["message"]


def rows(s, c, **only):
    return s.call("inbox.list", conversation=c, **only)["messages"]


def turns(s, c, **only):
    return [m for m in rows(s, c, **only) if m["messageType"] == "turn"]


@manual()
def test_what_is_enqueued_is_received_and_consumed(s):
    c = talk(s)
    first, second = put(s, c, "k1"), put(s, c, "k2", kind="tool_result", payload=[1, "x", None])
    eq(set(first), {"inboxId"}, "the answer")
    eq(row(s, first["inboxId"])["status"], "pending", "before")
    advance(s, 1000)
    got = receive(s, c)
    eq([set(m) for m in got], [MESSAGE] * 2, "members")
    eq([(m["inboxId"], m["messageType"], m["correlationId"], m["payload"]) for m in got],
       [(first["inboxId"], "ui_action", "k1", {"n": "k1"}),
        (second["inboxId"], "tool_result", "k2", [1, "x", None])], "oldest first, as they were put in")
    one = row(s, first["inboxId"])
    eq((one["status"], one["receivedBy"], ms(one["processedAt"]), one["archivedAt"]),
       ("processing", "c1", now(s), None), "received")
    eq(receive(s, c), [], "once")
    advance(s, 1000)
    eq(consume(s, first["inboxId"], second["inboxId"]), {"refused": [], "consumed": 2}, "consumed")
    one = row(s, first["inboxId"])
    eq((one["status"], ms(one["archivedAt"])), ("consumed", now(s)), "done with")
    eq(consume(s, first["inboxId"])["consumed"], 1, "again: the same")


@manual()
def test_L67_unique_per_agent_type_correlation_and_epoch(s):
    c = talk(s)
    first = put(s, c)
    eq(put(s, c, payload={"other": 1}), first | {"duplicate": True}, "the same again")
    eq(row(s, first["inboxId"])["payload"], {"n": "k1"}, "the first one stays")
    others = [put(s, c, role="b"), put(s, c, kind="timeout"), put(s, c, "k2")]
    consume(s, *(m["inboxId"] for m in receive(s, c)))
    eq(put(s, c)["duplicate"], True, "also when it is done with")
    put_to_work(s, c)  # a new epoch
    others.append(put(s, c))
    eq(len({m["inboxId"] for m in [first, *others]}), 5, "each is another")
    check(all("duplicate" not in m for m in others), "none of them a duplicate")
    eq(row(s, others[-1]["inboxId"])["epoch"], task_of(s, 1)["epoch"], "of the agent's epoch")


@manual()
def test_P19_the_same_key_has_one_effect_and_one_answer(s):
    c = talk(s)
    first = put(s, c, idempotencyKey="e")
    eq(put(s, c, idempotencyKey="e"), first, "enqueue")
    s.refused("IDEMPOTENCY_CONFLICT", "inbox.enqueue", conversation=c, role="a", messageType="stop",
              correlationId="k1", payload=1, idempotencyKey="e")
    got = receive(s, c, idempotencyKey="r")
    eq(receive(s, c, idempotencyKey="r"), got, "a lost answer of receive can be had again")
    eq(receive(s, c), [], "it was received once")
    done = consume(s, first["inboxId"], idempotencyKey="c")
    eq(consume(s, first["inboxId"], idempotencyKey="c"), done, "consume")


@manual()
def test_receive_gives_at_most_limit_and_never_a_turn(s):
    c = talk(s)
    give(s, c)
    ids = [put(s, c, f"k{i}")["inboxId"] for i in range(25)]
    eq([m["inboxId"] for m in receive(s, c)], ids[:20], "20 by default")
    eq([m["inboxId"] for m in receive(s, c, limit=3)], ids[20:23], "or as asked")
    eq([m["inboxId"] for m in receive(s, c)], ids[23:], "the rest")
    eq([m["status"] for m in turns(s, c)], ["pending"], "the turn waits for task.claim")


@manual()
def test_a_long_receive_is_answered_when_something_comes(s):
    c = talk(s)
    join(s, c)
    waiting = in_thread(lambda: receive(s, c, timeoutMs=60_000))
    other = in_thread(lambda: receive(s, c, role="b", timeoutMs=1))
    eq(other(), [], "time is over: nothing")
    put(s, c, role="b")
    inbox = put(s, c)["inboxId"]
    eq([m["inboxId"] for m in waiting()], [inbox], "its own message")
    eq(participant(s, c)["status"], "waiting", "it listens")


@manual()
def test_receive_is_a_sign_of_life_of_the_listener(s):
    c = talk(s)
    join(s, c)
    for _ in range(4):
        advance(s, 50_000)
        receive(s, c)
    eq(beat(s, c)["status"], "ok", "200 s without a beat")


@manual()
def test_P8_only_who_received_it_consumes_it(s):
    c = talk(s)
    inbox = put(s, c)["inboxId"]
    eq(consume(s, inbox), {"refused": [inbox], "consumed": 0}, "nobody has received it")
    receive(s, c)
    eq(consume(s, inbox, connection="c2"), {"refused": [inbox], "consumed": 0}, "another has it")
    eq(row(s, inbox)["status"], "processing", "untouched")
    join(s, c, connection="c2")
    s.refused("SUPERSEDED", "inbox.receive", conversation=c, role="a", connectionId="c1")
    eq(consume(s, inbox)["consumed"], 1, "who was superseded may finish what it has")
    s.refused("NOT_FOUND", "inbox.consume", inboxIds=[99], connectionId="c1")
    s.refused("NOT_FOUND", "inbox.get", inboxId=99)


@manual()
def test_two_receivers_share_no_message(s):
    c = talk(s)
    ids = [put(s, c, f"k{i}")["inboxId"] for i in range(60)]
    got = [[], []]
    together(*(lambda n=n: got[n].extend(m["inboxId"] for _ in range(40)
                                         for m in receive(s, c, limit=1)) for n in range(2)))
    eq(sorted(got[0] + got[1]), ids, "each one once")


@manual()
def test_the_row_of_a_task_follows_it(s):
    """DESIGN 5: the column of the table of transitions that is about the inbox."""
    c = talk(s)
    join(s, c)
    t = give(s, c)
    (one,) = turns(s, c)
    eq((one["status"], one["correlationId"], one["epoch"], one["payload"], one["channel"]),
       ("pending", str(t["task"]), t["epoch"], {"task": t["task"]}, "public"), "dispatched")
    claim(s, c)
    (one,) = turns(s, c)
    eq((one["status"], one["receivedBy"]), ("processing", "c1"), "claimed")
    start(s, t)
    eq([m["status"] for m in turns(s, c)], ["consumed"], "started")
    queued, gone = give(s, c), give(s, c)
    eq(len(turns(s, c)), 1, "what is queued has none")
    complete(s, t)
    s.call("task.cancel", task=gone["task"], reason="no")
    s.call("task.cancel", task=queued["task"], reason="no")
    eq([m["status"] for m in turns(s, c)], ["consumed", "skipped"], "canceled")
    check(all(m["archivedAt"] for m in turns(s, c)), "an end has its time")


@manual()
def test_the_end_of_a_conversation_skips_what_is_open(s):
    c, other = talk(s), talk(s)
    ids = [put(s, c, f"k{i}", role=r)["inboxId"] for i, r in enumerate("aab")]
    kept = put(s, other)["inboxId"]
    receive(s, c, limit=1)
    give(s, c, "b")
    s.call("conversation.end", conversation=c)
    eq({m["status"] for m in rows(s, c)}, {"skipped"}, "all of them")
    check(all(m["archivedAt"] for m in rows(s, c)), "with its time")
    eq(row(s, kept)["status"], "pending", "of another conversation")
    for method, params in (("inbox.enqueue", {"conversation": c, "role": "a", "messageType": "stop",
                                              "correlationId": "x", "payload": 1}),
                           ("inbox.receive", {"conversation": c, "role": "a", "connectionId": "c1"}),
                           ("inbox.consume", {"inboxIds": ids[:1], "connectionId": "c1"})):
        s.refused("CONVERSATION_FINALIZED", method, **params)
    eq(advance(s, 3_600_000) > 0 and {m["status"] for m in rows(s, c)}, {"skipped"}, "and stay so")


@manual()
def test_an_agent_that_is_removed_leaves_nothing_open(s):
    c = talk(s)
    put(s, c), put(s, c, role="b")
    s.call("agent.set", conversation=c, role="a", removed=True)
    eq([(m["role"], m["status"]) for m in rows(s, c)], [("a", "skipped"), ("b", "pending")], "rows")


@manual("runtime_controls.session_wall_clock_seconds=60")
def test_while_blocked_it_can_be_read_and_not_written(s):
    c = s.call("conversation.create", agents=[{"role": "a"}])["conversation"]
    inbox = put(s, c)["inboxId"]
    advance(s, 60_001)
    s.refused("CONVERSATION_BLOCKED", "inbox.enqueue", conversation=c, role="a",
              messageType="stop", correlationId="x", payload=1)
    s.refused("CONVERSATION_BLOCKED", "inbox.receive", conversation=c, role="a", connectionId="c1")
    s.refused("CONVERSATION_BLOCKED", "inbox.consume", inboxIds=[inbox], connectionId="c1")
    rung = row(s, inbox)["ringCount"]
    advance(s, 3_600_000)
    eq((row(s, inbox)["status"], row(s, inbox)["ringCount"]), ("pending", rung), "no rule touches it")
    s.call("conversation.resume", conversation=c)
    eq([m["inboxId"] for m in receive(s, c)], [inbox], "and goes on")


@manual()
def test_an_agents_token_sees_its_own_inbox_only(s):
    c, other = talk(s), talk(s)
    own = put(s, c)["inboxId"]
    foreign = put(s, c, role="b")["inboxId"]
    far = put(s, other)["inboxId"]
    agent = s.as_token(scope="agent", conversation=c, role="a")
    eq([m["inboxId"] for m in rows(agent, c)], [own], "without a role: its own")
    eq([m["inboxId"] for m in rows(agent, c, role="A")], [own], "roles compare in lower case")
    agent.refused("FORBIDDEN", "inbox.list", conversation=c, role="b")
    agent.refused("NOT_FOUND", "inbox.list", conversation=other)
    agent.refused("FORBIDDEN", "inbox.receive", conversation=c, role="b", connectionId="x")
    for hidden in (foreign, far):
        agent.refused("NOT_FOUND", "inbox.get", inboxId=hidden)
        agent.refused("NOT_FOUND", "inbox.consume", inboxIds=[hidden], connectionId="x")
    eq([m["inboxId"] for m in receive(agent, c)], [own], "it receives")
    eq(consume(agent, own)["consumed"], 1, "and consumes")
    check(put(agent, c, "from-a", role="b")["inboxId"], "it may send to others")
    reader = s.as_token(scope="read")
    eq(len(rows(reader, c)), 3, "who may read, reads")
    reader.refused("FORBIDDEN", "inbox.receive", conversation=c, role="a", connectionId="x")


@manual()
def test_list_has_pages_and_filters(s):
    c = talk(s)
    ids = [put(s, c, f"k{i}", role="ab"[i % 2])["inboxId"] for i in range(7)]
    page = s.call("inbox.list", conversation=c, limit=3)
    eq(([m["inboxId"] for m in page["messages"]], page["next"]), (ids[:3], ids[2]), "a page")
    page = s.call("inbox.list", conversation=c, limit=4, after=page["next"])
    eq(([m["inboxId"] for m in page["messages"]], page["next"]), (ids[3:], None), "the last")
    receive(s, c, limit=1)
    eq([m["inboxId"] for m in rows(s, c, status="processing")], ids[:1], "by status")
    eq([m["inboxId"] for m in rows(s, c, role="b", status="pending")], ids[1::2], "by both")
    s.refused("INVALID_PARAMS", "inbox.list", conversation=c, status="queued")
    s.refused("NOT_FOUND", "inbox.list", conversation=99)
    s.refused("INVALID_PARAMS", "inbox.enqueue", conversation=c, role="a", messageType="turn",
              correlationId="1", payload=1)


@manual()
def test_P12_what_was_enqueued_received_and_consumed_survives_a_kill(s):
    c = talk(s)
    ids = [put(s, c, f"k{i}", channel=None)["inboxId"] for i in range(3)]
    receive(s, c, limit=2)
    consume(s, ids[0])
    s.restart()
    eq([row(s, i)["status"] for i in ids], ["consumed", "processing", "pending"], "after kill -9")
    eq(row(s, ids[2])["channel"], None, "no channel")


# ---- on the command line ----

@manual()
def test_reeve_inbox_list_and_show(s):
    c = talk(s)
    inbox = put(s, c, "click\x1b[2J")["inboxId"]
    put(s, c, "k2", role="b")
    give(s, c)
    done = reeve("inbox", "list", f"{c}:a", data=s.data)
    head, *lines = done.stdout.splitlines()
    eq(head.split()[:6], ["INBOX", "ROLE", "TYPE", "CORRELATION", "STATUS", "RINGS"], done.stderr)
    eq([x.split()[:3] for x in lines], [["1", "a", "ui_action"], ["3", "a", "turn"]], "its rows")
    check("\x1b" not in done.stdout, "what agents write moves no cursor")
    receive(s, c)
    done = reeve("inbox", "list", c, "--status", "processing", "--json", data=s.data)
    eq([m["inboxId"] for m in json.loads(done.stdout)["messages"]], [inbox], "of a conversation")
    done = reeve("inbox", "list", c, "--limit", 1, data=s.data)
    check(done.stdout.endswith("more: --after 1\n"), done.stdout)
    shown = reeve("inbox", "show", inbox, data=s.data).stdout
    check("status        processing\n" in shown and "received by   c1\n" in shown, shown)
    eq(json.loads(reeve("inbox", "show", inbox, "--json", data=s.data).stdout)["message"],
       row(s, inbox), "as JSON")
    eq([reeve("inbox", "show", x, data=s.data).returncode for x in (99, "x")], [1, 2], "exit status")
    eq(reeve("inbox", "list", "x", data=s.data).returncode, 2, "usage")


# ---- the stop of an unmanaged agent ----

@manual()
def test_stop_of_an_unmanaged_agent_is_a_row(s):
    c = talk(s)
    join(s, c)
    waiting = in_thread(lambda: receive(s, c, timeoutMs=60_000))
    eq(s.call("agent.stop", conversation=c, role="a"),
       {"command": None, "desired": "stopped", "reason": "unmanaged"}, "the answer")
    (message,) = waiting()
    eq((message["messageType"], message["payload"]), ("stop", {"reason": "stopped_by_user"}), "told")
    eq((poll(s, c)["status"], beat(s, c)["directive"], view(s, c)), ("stop", "stop", "stopping"),
       "and the other ways")
    s.call("agent.stop", conversation=c, role="a")
    eq(len(rows(s, c)), 1, "one open stop is enough")
    leave(s, c)
    eq((rows(s, c)[0]["status"], view(s, c)), ("consumed", "stopped"), "it has gone")
    s.call("agent.stop", conversation=c, role="a")
    eq(len(rows(s, c)), 1, "nobody listens: nobody is told")


@manual()
def test_a_stop_ends_when_its_listener_lapses_or_is_wanted_again(s):
    c = talk(s)
    for end, want in ((lambda: advance(s, 60_001), "consumed"),
                      (lambda: s.call("agent.start", conversation=c, role="a"), "skipped"),
                      (lambda: s.call("agent.restart", conversation=c, role="a"), "skipped")):
        join(s, c)
        s.call("agent.stop", conversation=c, role="a")
        eq(rows(s, c)[-1]["status"], "pending", "told")
        end()
        eq(rows(s, c)[-1]["status"], want, "and over")
    eq(rows(s, c, status="pending"), [], "none is left")


@manual()
def test_the_stop_of_a_managed_agent_is_none(s):
    c = talk(s, "a", kind="worker")
    join(s, c)
    s.call("agent.stop", conversation=c, role="a")
    eq(rows(s, c), [], "its machine is told")


if __name__ == "__main__":
    main()
