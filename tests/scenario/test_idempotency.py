"""The same request with the same key has one effect and one answer (P19, L07)."""
from reeve_test import check, eq, main, together


def send(s, c, key, text="hello", finality="none", agent="a", **more):
    return s.say(c, agent, text, finality, clientRequestId=key, **more)


def after_crash(s, repeat, first):
    """The repeat gives the first answer now and after kill -9."""
    eq(repeat(), first, "answer of the repeat")
    s.restart()
    eq(repeat(), first, "answer of the repeat after a crash")


def test_L07_a_plain_message_can_be_repeated(s):
    c = s.talk()
    first = send(s, c, "k")
    after_crash(s, lambda: send(s, c, "k"), first)
    eq(len(s.events(c)), 2, "events")


def test_L07_a_turn_closing_message_can_be_repeated(s):
    c = s.talk()
    for turn in ({}, {"turn": 2}):
        number = turn.get("turn", 1)
        first = send(s, c, f"k{number}", finality="turn", **turn)
        after_crash(s, lambda: send(s, c, f"k{number}", finality="turn", **turn), first)
    send(s, c, "later", agent="b")
    closed = s.events(c)[1]
    eq(send(s, c, "k1", finality="turn"),
       first | {"turn": 1, "seq": 2, "id": closed["id"], "ts": closed["ts"]}, "much later")
    eq(len(s.events(c)), 4, "events")


def test_L07_a_conversation_closing_message_can_be_repeated(s):
    c = s.talk()
    end = {"finality": "conversation", "outcome": {"status": "failed", "reason": "broke"}}
    first = send(s, c, "k", **end)
    after_crash(s, lambda: send(s, c, "k", **end), first)
    eq(len(s.events(c)), 2, "events")


def test_L07_the_message_that_reached_maxTurns_can_be_repeated(s):
    c = s.talk(maxTurns=1)
    first = send(s, c, "k", finality="turn")
    after_crash(s, lambda: send(s, c, "k", finality="turn"), first)
    eq(len(s.events(c)), 3, "events")


def test_L07_a_repeat_is_not_published_again(s):
    c = s.talk()
    with s.socket() as ws, s.stream(f"?conversation={c}&after=0") as sse:
        ws.subscribe(conversation=c, afterSeq=0)
        seen = [ws.event()["seq"]]
        send(s, c, "k1", finality="turn")
        for _ in range(3):
            send(s, c, "k1", finality="turn")
        send(s, c, "k2", "bye", finality="conversation", agent="b")
        for _ in range(3):
            send(s, c, "k2", "bye", finality="conversation", agent="b")
        other = s.talk()
        seen += [ws.event()["seq"], ws.event()["seq"]]
        eq(seen, [1, 2, 3], "pushed on the WebSocket")
        eq([sse.next()[1]["seq"] for _ in range(3)], [1, 2, 3], "pushed on the event stream")
        ws.subscribe(conversation=other, afterSeq=0)
        eq(ws.event()["conversation"], other, "what comes next")


def test_L07_the_same_key_with_another_body_is_refused(s):
    c = s.talk()
    first = send(s, c, "k", "hello")
    for other in ({"text": "hallo"}, {"finality": "turn"}, {"metadata": {}}, {"turn": 1},
                  {"precondition": {"lastClosedSeq": 0}},
                  {"attachments": [{"name": "f", "contentType": "text/plain", "text": ""}]}):
        params = {"conversation": c, "agentId": "a", "text": "hello", "finality": "none",
                  "clientRequestId": "k"} | other
        s.refused("IDEMPOTENCY_CONFLICT", "message.send", **params)
    s.refused("IDEMPOTENCY_CONFLICT", "trace.append", conversation=c, agentId="a",
              payload={"type": "thought", "content": "hello"}, clientRequestId="k")
    eq(send(s, c, "k", "hello"), first, "the same body still gets its answer")
    eq(len(s.events(c)), 2, "events")


def test_bodies_are_compared_by_meaning_not_by_spelling(s):
    c = s.talk()
    spellings = [
        '{"conversation":%d,"agentId":"a","text":"h\\u00e9","clientRequestId":"k",'
        '"metadata":{"x":1,"y":[]}}',
        '{ "metadata" : {"y":[ ], "x":1}, "clientRequestId":"k", "text":"hé","agentId":"a",'
        ' "conversation" :%d}',
        '{"idempotencyKey":"k","conversation":%d,"agentId":"a","text":"hé","metadata":'
        '{"x":1,"y":[]}}',
    ]
    answers = []
    for params in spellings:
        body = '{"jsonrpc":"2.0","id":1,"method":"message.send","params":%s}' % (params % c)
        answers.append(s.post(body.encode()).json()["result"])
    eq(answers, [answers[0]] * 3, "answers")


def test_keys_of_messages_are_per_agent_and_conversation(s):
    c, d = s.talk(), s.talk()
    answers = [send(s, c, "k"), send(s, c, "k", agent="b"), send(s, d, "k")]
    eq([(a["conversation"], a["seq"]) for a in answers], [(c, 2), (c, 3), (d, 2)], "three effects")


def test_a_trace_can_be_repeated(s):
    c = s.talk()
    params = {"conversation": c, "agentId": "a", "clientRequestId": "t",
              "payload": {"type": "tool_call", "name": "x", "args": {}, "toolCallId": "1"}}
    first = s.call("trace.append", **params)
    s.say(c, "a", "close", "turn")
    after_crash(s, lambda: s.call("trace.append", **params), first)
    eq(len(s.events(c)), 3, "events")


def test_create_takes_a_key(s):
    params = {"agents": [{"role": "a"}], "title": "once", "idempotencyKey": "make"}
    first = s.call("conversation.create", **params)
    after_crash(s, lambda: s.call("conversation.create", **params), first)
    s.refused("IDEMPOTENCY_CONFLICT", "conversation.create", **params | {"title": "twice"})
    eq(len(s.call("conversation.list")["conversations"]), 1, "conversations")


def test_end_takes_a_key(s):
    c = s.talk()
    params = {"conversation": c, "outcome": "failed", "text": "stop", "idempotencyKey": "end"}
    first = s.call("conversation.end", **params)
    after_crash(s, lambda: s.call("conversation.end", **params), first)
    s.refused("IDEMPOTENCY_CONFLICT", "conversation.end", **params | {"text": "halt"})
    s.refused("IDEMPOTENCY_CONFLICT", "conversation.end", **params | {"conversation": s.talk()})
    eq(len(s.events(c)), 2, "events")


def test_clear_takes_a_key(s):
    c = s.talk()
    s.say(c, "a", "x")
    params = {"conversation": c, "agentId": "a", "idempotencyKey": "clear"}
    first = s.call("turn.clear", **params)
    s.say(c, "a", "y", "turn")
    after_crash(s, lambda: s.call("turn.clear", **params), first)
    eq(len(s.events(c)), 4, "events")


def test_keys_are_per_method_and_token(s):
    one = s.call("conversation.create", agents=[{"role": "a"}], idempotencyKey="k")["conversation"]
    s.call("conversation.end", conversation=one, idempotencyKey="k")
    other = s.as_token(scope="operator")
    two = other.call("conversation.create", agents=[{"role": "a"}], idempotencyKey="k")
    eq(two, {"conversation": one + 1}, "another token, another key space")


def test_a_failure_is_not_remembered(s):
    params = {"conversation": 1, "agentId": "a", "text": "hello", "clientRequestId": "k"}
    s.refused("NOT_FOUND", "message.send", **params)
    s.refused("NOT_FOUND", "conversation.end", conversation=1, idempotencyKey="e")
    s.talk()
    eq(s.call("message.send", **params)["seq"], 2, "the same request later")
    eq(s.call("conversation.end", conversation=1, idempotencyKey="e")["seq"], 3, "and the end")


def test_two_names_for_the_key_must_agree(s):
    c = s.talk()
    same = send(s, c, "k", idempotencyKey="k")
    eq(send(s, c, "k"), same, "one of them is enough")
    e = s.refused("INVALID_PARAMS", "message.send", conversation=c, agentId="a", text="x",
                  clientRequestId="k", idempotencyKey="other")
    check(e.data["path"] in ("clientRequestId", "idempotencyKey"), f"{e.data}")


def test_keys_are_checked(s):
    c = s.talk()
    for wrong in ("", 5, None, {}, "x" * 100_000):
        e = s.refused("INVALID_PARAMS", "message.send", conversation=c, agentId="a", text="x",
                      clientRequestId=wrong)
        check("clientRequestId" in e.data["path"], f"{e.data}")
        s.refused("INVALID_PARAMS", "conversation.create", agents=[{"role": "a"}],
                  idempotencyKey=wrong)


def test_many_at_once_with_one_key_have_one_effect(s):
    c = s.talk()
    answers = []
    together(*(lambda: answers.append(send(s, c, "k", finality="turn")) for _ in range(8)))
    eq(answers, [answers[0]] * 8, "answers")
    eq(len(s.events(c)), 2, "events")


def test_one_key_twice_in_one_batch_has_one_effect(s):
    """Both requests are in one transaction; the second must see the first."""
    c = s.talk()
    one = ('{"jsonrpc":"2.0","id":%%d,"method":"message.send","params":{"conversation":%d,'
           '"agentId":"a","text":"x","finality":"turn","clientRequestId":"k"}}' % c)
    make = ('{"jsonrpc":"2.0","id":%d,"method":"conversation.create","params":{"agents":'
            '[{"role":"a"}],"idempotencyKey":"m"}}')
    body = f"[{one % 1},{one % 2},{make % 3},{make % 4}]"
    answers = {a["id"]: a["result"] for a in s.post(body.encode()).json()}
    eq(answers[2], answers[1], "the second message")
    eq(answers[4], answers[3], "the second create")
    eq(len(s.events(c)), 2, "events")


if __name__ == "__main__":
    main()
