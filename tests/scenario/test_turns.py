"""Turns and finality: who may write where, who may close what, and that an end is an end."""
from reeve_test import RpcError, check, eq, main, server, together


def thought(s, c, agent, text, **more):
    return s.call("trace.append", conversation=c, agentId=agent,
                  payload={"type": "thought", "content": text}, **more)


def test_events_are_numbered_within_their_turn(s):
    c = s.talk()
    places = [s.say(c, "a", "one"), thought(s, c, "a", "hm"), s.say(c, "a", "two", "turn"),
              thought(s, c, "b", "hm"), s.say(c, "b", "three", "turn")]
    eq([(p["turn"], p["event"], p["seq"]) for p in places],
       [(1, 1, 2), (1, 2, 3), (1, 3, 4), (2, 1, 5), (2, 2, 6)], "turn, event, seq")
    ids = [e["id"] for e in s.events(c)]
    eq(ids, sorted(set(ids)), "ids grow with seq")
    events = s.events(c)
    eq([(e["type"], e["finality"]) for e in events[1:]],
       [("message", "none"), ("trace", "none"), ("message", "turn"), ("trace", "none"),
        ("message", "turn")], "types and finalities")


def test_head_follows_the_log(s):
    c = s.talk()
    eq(s.head(c), {"lastTurn": 0, "lastClosedSeq": 0, "hasOpenTurn": False}, "empty")
    thought(s, c, "a", "a trace alone opens a turn")
    eq(s.head(c), {"lastTurn": 1, "lastClosedSeq": 0, "hasOpenTurn": True}, "opened")
    seq = s.say(c, "a", "done", "turn")["seq"]
    eq(s.head(c), {"lastTurn": 1, "lastClosedSeq": seq, "hasOpenTurn": False}, "closed")
    s.say(c, "b", "more")
    eq(s.head(c), {"lastTurn": 2, "lastClosedSeq": seq, "hasOpenTurn": True}, "open again")


def test_another_turn_than_the_open_one_is_refused(s):
    c = s.talk()
    s.say(c, "a", "open", turn=1)
    for turn in (2, 3, 1 << 40):
        e = s.refused("TURN_ALREADY_OPEN", "message.send", conversation=c, agentId="a", text="x",
                      turn=turn)
        eq(e.data["expectedTurn"], 1, "expectedTurn")
    e = s.refused("TURN_ALREADY_OPEN", "trace.append", conversation=c, agentId="a", turn=2,
                  payload={"type": "thought", "content": "x"})
    eq(e.data["expectedTurn"], 1, "expectedTurn")
    eq(s.say(c, "a", "same turn", turn=1)["turn"], 1, "the open one")


def test_only_the_next_turn_may_be_opened(s):
    c = s.talk()
    for turn in (2, 5, 1 << 40):
        e = s.refused("INVALID_TURN", "message.send", conversation=c, agentId="a", text="x",
                      turn=turn)
        eq(e.data["expectedTurn"], 1, "expectedTurn")
    s.say(c, "a", "one", "turn", turn=1)
    for turn in (1, 3):
        e = s.refused("INVALID_TURN", "message.send", conversation=c, agentId="a", text="x",
                      turn=turn)
        eq(e.data["expectedTurn"], 2, "expectedTurn")
    e = s.refused("INVALID_TURN", "trace.append", conversation=c, agentId="a", turn=1,
                  payload={"type": "thought", "content": "x"})
    eq(e.data["expectedTurn"], 2, "expectedTurn")
    eq(s.say(c, "b", "two", turn=2)["turn"], 2, "the next one")


def test_turn_0_and_negative_turns_are_not_for_clients(s):
    c = s.talk()
    for turn in (0, -1):
        try:
            s.say(c, "a", "x", turn=turn)
        except RpcError as e:
            check(e.name in ("INVALID_PARAMS", "INVALID_TURN"), f"{turn}: {e}")
        else:
            raise AssertionError(f"turn {turn} was accepted")
    eq(len(s.events(c)), 1, "events")


def test_only_a_message_may_close(s):
    c = s.talk()
    for finality in ("turn", "conversation"):
        s.refused("FINALITY_RULE", "trace.append", conversation=c, agentId="a", finality=finality,
                  payload={"type": "thought", "content": "x"})
    eq(len(s.events(c)), 1, "events")
    e = s.refused("INVALID_PARAMS", "message.send", conversation=c, agentId="a", text="x",
                  finality="all")
    check("finality" in e.data["path"], f"{e.data}")


def test_L10_another_agent_may_add_but_not_close(s):
    c = s.talk()
    s.say(c, "a", "my turn")
    eq(s.say(c, "b", "a word from b")["turn"], 1, "turn of the addition")
    for finality in ("turn", "conversation"):
        s.refused("FORBIDDEN", "message.send", conversation=c, agentId="b", text="x",
                  finality=finality)
    eq(s.say(c, "a", "my close", "turn")["turn"], 1, "the owner closes")
    eq(s.say(c, "b", "now mine", "turn")["turn"], 2, "the next turn is b's")


def test_a_trace_owns_the_turn_it_opens(s):
    c = s.talk()
    thought(s, c, "a", "mine")
    s.refused("FORBIDDEN", "message.send", conversation=c, agentId="b", text="x", finality="turn")
    s.say(c, "a", "done", "turn")


def test_a_refused_message_leaves_no_trace(s):
    c = s.talk()
    s.say(c, "a", "open")
    before = s.call("conversation.get", conversation=c), s.events(c)
    attachment = {"name": "f", "contentType": "text/plain", "text": "x"}
    for wrong in ({"agentId": "b", "finality": "turn"}, {"agentId": "a", "turn": 2},
                  {"agentId": "a", "precondition": {"lastClosedSeq": 9}}):
        try:
            s.call("message.send", conversation=c, text="x", attachments=[attachment],
                   clientRequestId="k", **wrong)
        except RpcError:
            continue
        raise AssertionError(f"{wrong} was accepted")
    eq((s.call("conversation.get", conversation=c), s.events(c)), before, "the conversation")
    eq(s.say(c, "a", "now right", clientRequestId="k")["seq"], 3, "a failure uses up no key")


def test_clear_marks_once_and_frees_the_turn(s):
    c = s.talk()
    s.say(c, "a", "lost my mind half way")
    eq(s.call("turn.clear", conversation=c, agentId="a", reason="restart"), {"turn": 1}, "answer")
    last = s.events(c)[-1]
    eq((last["type"], last["finality"], last["turn"], last["agentId"]), ("trace", "none", 1, "a"),
       "the mark")
    eq(last["payload"]["type"], "turn_cleared", "its type")
    eq(last["payload"]["reason"], "restart", "its reason")
    eq(s.call("turn.clear", conversation=c, agentId="a"), {"turn": 1}, "again")
    eq(len(s.events(c)), 3, "it is written once, and nothing is deleted")
    eq(s.head(c), {"lastTurn": 1, "lastClosedSeq": 0, "hasOpenTurn": True}, "the turn stays open")
    s.say(c, "b", "then I take it")
    s.refused("FORBIDDEN", "message.send", conversation=c, agentId="a", text="x", finality="turn")
    eq(s.say(c, "b", "done", "turn")["turn"], 1, "the next writer owns it")


def test_clear_again_after_more_work_marks_again(s):
    c = s.talk()
    for _ in range(2):
        s.say(c, "a", "work")
        s.call("turn.clear", conversation=c, agentId="a")
    kinds = [e["payload"].get("type", "message") for e in s.events(c)[1:]]
    eq(kinds, ["message", "turn_cleared"] * 2, "log")


def test_clear_without_an_open_turn_writes_nothing(s):
    c = s.talk()
    eq(s.call("turn.clear", conversation=c, agentId="a"), {"turn": 1}, "before the first turn")
    s.say(c, "a", "one", "turn")
    eq(s.call("turn.clear", conversation=c, agentId="a"), {"turn": 2}, "between turns")
    eq(len(s.events(c)), 2, "events")
    s.call("conversation.end", conversation=c)
    s.refused("CONVERSATION_FINALIZED", "turn.clear", conversation=c, agentId="a")


def test_clear_of_a_foreign_turn_needs_the_operator(s):
    c = s.talk()
    s.say(c, "a", "mine")
    b = s.as_token(scope="agent", conversation=c, role="b")
    b.refused("FORBIDDEN", "turn.clear", conversation=c, agentId="b")
    eq(len(s.events(c)), 2, "events")
    a = s.as_token(scope="agent", conversation=c, role="a")
    eq(a.call("turn.clear", conversation=c, agentId="a"), {"turn": 1}, "its owner")
    s.say(c, "a", "mine again")
    eq(s.call("turn.clear", conversation=c, agentId="boss"), {"turn": 1}, "the operator")
    eq(len(s.events(c)), 5, "events")


def test_precondition_on_the_last_close(s):
    c = s.talk()
    seq = s.say(c, "a", "one", "turn", precondition={"lastClosedSeq": 0})["seq"]
    e = s.refused("PRECONDITION_FAILED", "message.send", conversation=c, agentId="b", text="x",
                  precondition={"lastClosedSeq": 0})
    eq((e.data["expected"], e.data["actual"]), (0, seq), "data")
    s.say(c, "b", "two", precondition={"lastClosedSeq": seq})
    e = s.refused("INVALID_PARAMS", "message.send", conversation=c, agentId="b", text="x",
                  precondition={"lastClosedSeq": -1})
    check("lastClosedSeq" in e.data["path"], f"{e.data}")


def test_precondition_on_the_role_of_who_writes(s):
    """Guests may write, unless the writer says that it is none."""
    c = s.talk("ann", "bob")
    known = {"precondition": {"knownRole": True}}
    s.say(c, "ann", "one", **known)
    s.say(c, "carol", "a guest", clientRequestId="k")
    e = s.refused("PRECONDITION_FAILED", "message.send", conversation=c, agentId="carol", text="x",
                  **known)
    eq((e.message, e.data["actual"]),
       (f"conversation {c} has no role carol; it has ann, bob", "carol"), "error")
    first = s.say(c, "bob", "two", clientRequestId="k", **known)
    s.call("agent.set", conversation=c, role="bob", removed=True)
    eq(s.say(c, "bob", "two", clientRequestId="k", **known), first, "a repeat is no new message")
    s.refused("PRECONDITION_FAILED", "message.send", conversation=c, agentId="bob", text="x", **known)


def test_of_many_who_close_on_one_precondition_one_wins(s):
    c = s.talk()
    won = []

    def try_close(i):
        def attempt():
            try:
                s.say(c, f"w{i}", "first", "turn", precondition={"lastClosedSeq": 0})
                won.append(i)
            except RpcError as e:
                eq(e.name, "PRECONDITION_FAILED", "error")
        return attempt

    together(*(try_close(i) for i in range(8)))
    eq(len(won), 1, "winners")
    eq(len(s.events(c)), 2, "events")


def closing(s, c, n):
    return [s.say(c, "ab"[i % 2], f"turn {i + 1}", "turn") for i in range(n)]


def test_L06_maxTurns_ends_it_in_the_same_transaction(s):
    c = s.talk(maxTurns=3)
    last = closing(s, c, 3)[-1]
    events = s.events(c)
    end = events[-1]
    eq(len(events), 5, "events")
    eq(events[-2]["seq"], last["seq"], "the closing message stands")
    eq((end["seq"], end["id"], end["ts"]), (last["seq"] + 1, last["id"] + 1, last["ts"]),
       "the end follows it at once")
    eq((end["type"], end["finality"], end["agentId"], end["turn"], end["event"]),
       ("message", "conversation", "system-orchestrator", 4, 1), "its place")
    eq(end["payload"]["text"], "Auto-closed: reached maxTurns=3.", "text")
    eq(end["payload"]["outcome"], {"status": "canceled", "reason": "max_turns"}, "outcome")
    got = s.call("conversation.get", conversation=c)
    eq((got["status"], got["outcome"], got["stop_reason_code"]),
       ("completed", "canceled", "max_turns"), "state")
    s.refused("CONVERSATION_FINALIZED", "message.send", conversation=c, agentId="a", text="turn 4")


def test_L06_maxTurns_is_40_unless_told(s):
    c = s.talk()
    closing(s, c, 39)
    eq(s.call("conversation.get", conversation=c)["status"], "active", "after 39 turns")
    s.say(c, "b", "turn 40", "turn")
    eq(s.events(c)[-1]["payload"]["text"], "Auto-closed: reached maxTurns=40.", "text")


def test_the_last_turn_may_end_the_conversation_itself(s):
    c = s.talk(maxTurns=1)
    s.say(c, "a", "bye", "conversation", outcome={"status": "completed"})
    got = s.call("conversation.get", conversation=c)
    eq((got["outcome"], got["stop_reason_code"]), ("completed", "completed"), "state")
    eq(len(s.events(c)), 2, "events")


def test_nothing_follows_the_terminal_message(s):
    for end in (lambda c: s.say(c, "a", "bye", "conversation"),
                lambda c: s.call("conversation.end", conversation=c),
                lambda c: closing(s, c, 2)):
        c = s.talk(maxTurns=2)
        end(c)
        log = s.events(c)
        for method, params in {
            "message.send": {"agentId": "a", "text": "x"},
            "trace.append": {"agentId": "a", "payload": {"type": "thought", "content": "x"}},
            "turn.clear": {"agentId": "a"},
        }.items():
            s.refused("CONVERSATION_FINALIZED", method, conversation=c, **params)
        eq(s.events(c), log, "the log")
        eq([e["finality"] for e in log].index("conversation"), len(log) - 1, "the last is the end")


def test_a_terminal_message_is_completed_unless_told(s):
    c = s.talk()
    s.say(c, "a", "bye", "conversation")
    eq(s.events(c)[-1]["payload"]["outcome"]["status"], "completed", "outcome of the message")
    eq(s.call("conversation.get", conversation=c)["outcome"], "completed", "outcome")
    for status in ("completed", "canceled", "failed"):
        c = s.talk()
        s.say(c, "a", "bye", "conversation", outcome={"status": status, "reason": "because"})
        eq(s.events(c)[-1]["payload"]["outcome"], {"status": status, "reason": "because"}, status)
        got = s.call("conversation.get", conversation=c)
        eq(got["outcome"], status, "outcome")
        check(got["stop_reason_code"], "it has a reason")
    s.refused("INVALID_PARAMS", "message.send", conversation=s.talk(), agentId="a", text="x",
              finality="conversation", outcome={"status": "errored"})


def test_of_many_ends_at_once_there_is_one(s):
    c = s.talk()
    answers, refusals = [], []

    def end(i):
        def attempt():
            try:
                answers.append(s.call("conversation.end", conversation=c, text=f"by {i}",
                                      outcome=("completed", "failed")[i % 2]))
            except RpcError as e:
                eq(e.name, "CONVERSATION_FINALIZED", "error")
                refusals.append(i)
        return attempt

    together(*(end(i) for i in range(8)))
    eq((len(answers), len(refusals)), (4, 4), "same outcome as the first, and the others")
    check(all(a == answers[0] for a in answers), "they all got the first answer")
    eq(sum(e["finality"] == "conversation" for e in s.events(c)), 1, "terminal messages")


def test_message_payload_is_kept_as_given(s):
    c = s.talk()
    text = "Zeilen\r\n\ttab \u0001 \"quoted\" back\\slash 𝄞 \u2028 \ufeff" + "x" * 1000
    s.say(c, "a", text, metadata={"nested": {"list": [1, None, False, "é"]}, "n": 1.5})
    payload = s.events(c)[-1]["payload"]
    eq(payload["text"], text, "text")
    eq(payload["metadata"], {"nested": {"list": [1, None, False, "é"]}, "n": 1.5}, "metadata")
    eq(set(payload), {"text", "metadata"}, "and nothing else")
    eq(s.say(c, "a", "")["seq"], 3, "an empty text is a text")


def test_every_kind_of_trace_is_kept_as_given(s):
    c = s.talk()
    payloads = [
        {"type": "thought", "content": "hm"},
        {"type": "tool_call", "name": "find", "args": {"q": [1, {"x": None}]}, "toolCallId": "t"},
        {"type": "tool_result", "toolCallId": "t1", "result": {"hits": 0}},
        {"type": "user_query", "question": "really?", "context": {}},
        {"type": "user_response", "queryId": "q1", "response": "yes"},
        {"type": "progress", "percent": 12.5},
    ]
    for p in payloads:
        s.call("trace.append", conversation=c, agentId="a", payload=p)
    eq([e["payload"] for e in s.events(c)[1:]], payloads, "payloads")
    for wrong in ({"type": "dream"}, {}, [], "thought", {"type": None}, None):
        e = s.refused("INVALID_PARAMS", "trace.append", conversation=c, agentId="a", payload=wrong)
        check("payload" in e.data["path"], f"{wrong}: {e.data}")


def test_clear_with_a_reason_of_awkward_characters(s):
    c = s.talk()
    for reason in ("\x01" * 1000, "\U0001F600" * 250, '"\\' * 500, ""):
        s.say(c, "a", "x")
        s.call("turn.clear", conversation=c, agentId="a", reason=reason)
        eq(s.events(c)[-1]["payload"]["reason"], reason, "reason")
    s.refused("INVALID_PARAMS", "turn.clear", conversation=c, agentId="a", reason="x" * 1001)


def test_agent_ids_are_checked(s):
    c = s.talk()
    for wrong in ("", 7, None, "x" * 10_000, ["a"]):
        e = s.refused("INVALID_PARAMS", "message.send", conversation=c, agentId=wrong, text="x")
        check("agentId" in e.data["path"], f"{wrong!r:.40}: {e.data}")


@server(deadline=60)
def test_L13_a_turn_close_costs_the_same_after_2000_events(s):
    """Not a measurement of time but of work: the store's own statement count per close."""
    c = s.talk(maxTurns=1_000_000)

    def statements():
        for line in s.get("/metrics").body.decode().splitlines():
            name, _, value = line.rpartition(" ")
            if "statements" in name and not line.startswith("#"):
                return float(value)
        raise AssertionError("no statement count in /metrics")

    def cost():
        before = statements()
        for _ in range(10):
            s.say(c, "a", "x", "turn")
        return statements() - before

    early = cost()
    with s.socket() as ws:
        for i in range(2000):
            ws.text_out('{"jsonrpc":"2.0","id":%d,"method":"message.send","params":{"conversation":'
                        '%d,"agentId":"a","text":"x","finality":"turn"}}' % (i, c))
        for i in range(2000):
            ws.answer(i)
    late = cost()
    check(late <= early * 1.5 + 5, f"10 closes took {early} statements at first, {late} later")


if __name__ == "__main__":
    main()
