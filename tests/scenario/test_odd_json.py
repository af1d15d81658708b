"""JSON that is valid and unusual: it is taken, or one call is refused, by its id and with a path."""
import json

from reeve_test import check, eq, main, server


def call(params, method="trace.append", number="1"):
    return '{"jsonrpc":"2.0","id":%s,"method":"%s","params":%s}' % (number, method, params)


def trace(conversation, more):
    """The text of params that append a trace with these members in its payload."""
    return '{"conversation":%d,"agentId":"a","payload":{"type":"thought",%s}}' % (conversation, more)


def nested(depth):
    return "[" * depth + "]" * depth


REFUSED = {  # members of a payload: (path, reason)
    '"x":1,"x":2': ("payload.x", "duplicate key"),
    r'"x":{"a":[0,{"b":1,"\u0062":1}]}': ("payload.x.a[1].b", "duplicate key"),
    r'"x":{"\ud800":1,"\ufffd":2}': ("payload.x.\ufffd", "duplicate key"),
    '"x":9223372036854775808': ("payload.x", "number out of range"),
    '"x":[1,-9223372036854775809]': ("payload.x[1]", "number out of range"),
    '"x":1e400': ("payload.x", "number out of range"),
    '"x":' + nested(63): ("payload.x" + "[0]" * 61, "nested too deeply"),
    '"x":' + nested(300_000): ("payload.x" + "[0]" * 61, "nested too deeply"),
    '"x":' + '{"abcdefghijklmnop":' * 70 + "0" + "}" * 70:
        ("payload.x" + ".abcdefghijklmnop" * 13 + "…", "nested too deeply"),
}


def check_refusal(answer, number, path, reason):
    eq(answer["id"], number, "id")
    eq(answer["error"]["code"], -32602, f"{answer}")
    eq(answer["error"]["data"], {"name": "INVALID_PARAMS", "path": path, "reason": reason}, "data")


def test_what_is_not_taken_is_refused_by_its_id_with_path_and_reason(s):
    c = s.talk()
    with s.socket() as ws:
        for number, (member, (path, reason)) in enumerate(REFUSED.items()):
            text = call(trace(c, member), number=number)
            check_refusal(s.post(text.encode()).json(), number, path, reason)
            ws.text_out(text)
            check_refusal(json.loads(ws.text_in()), number, path, reason)
    eq(len(s.events(c)), 1, "nothing was written")


def test_one_such_call_leaves_the_others_of_its_batch_alone(s):
    c = s.talk()
    members = [m for odd in REFUSED if len(odd) < 1000 for m in ('"n":1', odd)] + ['"n":1']
    text = "[" + ",".join(call(trace(c, m), number=i) for i, m in enumerate(members)) + "]"
    answers = s.post(text.encode()).json()
    eq([a["id"] for a in answers], list(range(len(members))), "ids")
    eq(["result" in a for a in answers], [m == '"n":1' for m in members], "which were done")
    eq(len(s.events(c)), 1 + members.count('"n":1'), "events")


def test_a_notification_that_is_not_taken_is_silent_and_has_no_effect(s):
    c = s.talk()
    text = call(trace(c, '"x":1e400')).replace('"id":1,', "")
    eq(s.post(text.encode()).status, 204, "status")
    eq(len(s.events(c)), 1, "events")


@server("net.json_depth_max=10")
def test_the_limit_of_depth_is_configurable(s):
    c = s.talk()
    check("result" in s.post(call(trace(c, '"x":' + nested(7))).encode()).json(), "10 levels")
    answer = s.post(call(trace(c, '"x":' + nested(8))).encode()).json()
    check_refusal(answer, 1, "payload.x" + "[0]" * 7, "nested too deeply")


def test_half_a_surrogate_pair_becomes_the_replacement_character(s):
    c = s.talk()
    with s.stream(f"?conversation={c}&after=0") as stream, s.socket() as ws:
        ws.subscribe(conversation=c, afterSeq=1)
        say = r'{"conversation":%d,"agentId":"a","text":"cut: \ud83d"}' % c
        s.post(call(say, "message.send").encode())
        s.post(call(trace(c, r'"out":"\ude00\ud83d\ude00 \\ud83d","\ud800":[ 1 ]')).encode())
        wanted = [("text", "cut: \ufffd"), ("out", "\ufffd\U0001F600 \\ud83d"), ("\ufffd", [1])]
        stream.next()
        listed = [e["payload"] for e in s.events(c)[1:]]
        pushed = [ws.event()["payload"] for _ in range(2)]
        streamed = [stream.next()[1]["payload"] for _ in range(2)]
        for payloads in (listed, pushed, streamed):
            merged = payloads[0] | payloads[1]
            eq([(k, merged[k]) for k, _ in wanted], wanted, "payloads")
    raw = s.post(call('{"conversation":%d}' % c, "event.list").encode()).body
    check(rb"\ud83d\ude00" in raw, "a whole pair is forwarded as it was written")


def test_nul_stays_in_json_and_comes_back_everywhere(s):
    c = s.talk()
    value = {"\0": "\0", "a\0b": ["\0\0", "x\0"]}
    with s.stream(f"?conversation={c}&after=0") as stream, s.socket() as ws:
        ws.subscribe(conversation=c, afterSeq=1)
        s.call("trace.append", conversation=c, agentId="a",
               payload={"type": "tool_result", "x": value})
        stream.next()
        eq(s.events(c)[1]["payload"]["x"], value, "event.list")
        eq(ws.event()["payload"]["x"], value, "subscription")
        eq(stream.next()[1]["payload"]["x"], value, "stream")
    task = s.call("task.create", conversation=c, role="b", content=value)["task"]
    s.call("inbox.enqueue", conversation=c, role="b", messageType="ui_action",
           correlationId="1", payload=value)
    s.restart()
    eq(s.call("task.get", task=task["task"])["task"]["content"], value, "a task, after a restart")
    listed = s.call("inbox.list", conversation=c, role="b")["messages"]
    eq([m["payload"] for m in listed if m["messageType"] == "ui_action"], [value],
       "an inbox, after a restart")
    eq(s.events(c)[1]["payload"]["x"], value, "event.list, after a restart")


PLAIN_TEXT = {  # (method, params, path)
    "a message": ("message.send", {"agentId": "a", "text": "x\0"}, "text"),
    "an attachment": ("message.send", {"agentId": "a", "text": "x", "attachments":
                                       [{"name": "n", "text": "a\0b"}]}, "attachments[0].text"),
    "a file name": ("message.send", {"agentId": "a", "text": "x", "attachments":
                                     [{"name": "n\0.txt", "text": "ab"}]}, "attachments[0].name"),
    "a reason": ("message.send", {"agentId": "a", "text": "x", "finality": "conversation",
                                  "outcome": {"status": "failed", "reason": "\0"}},
                 "outcome.reason"),
    "a request id": ("message.send", {"agentId": "a", "text": "x", "clientRequestId": "k\0"},
                     "clientRequestId"),
    "a key": ("task.create", {"role": "b", "content": 1, "idempotencyKey": "k\0"},
              "idempotencyKey"),
    "an inbox message": ("inbox.enqueue", {"role": "b", "messageType": "ui_action", "payload": 1,
                                           "correlationId": "\0"}, "correlationId"),
    "a role": ("message.send", {"agentId": "a\0", "text": "x"}, "agentId"),
    "a name of a param": ("conversation.get", {"ti\0tle": 1}, "ti\ufffdtle"),
}


def test_nul_in_plain_text_is_refused_with_its_path(s):
    c = s.talk()
    for what, (method, params, path) in PLAIN_TEXT.items():
        e = s.refused("INVALID_PARAMS", method, conversation=c, **params)
        eq(e.data["path"], path, what)
        check(e.data["reason"], what)
    e = s.refused("INVALID_PARAMS", "conversation.create", agents=[{"role": "a"}], title="\0")
    eq(e.data, {"name": "INVALID_PARAMS", "path": "title",
                "reason": "must not hold the character U+0000"}, "data")
    eq(len(s.events(c)), 1, "nothing was written")


def test_a_repeat_is_known_by_what_it_means(s):
    c = s.talk()
    key = r'{"conversation":%d,"role":"b","idempotencyKey":"k%d","content":%s}'
    for i, (one, same, other) in enumerate(((r'"\ud83d"', r'"\ufffd"', '"?"'),
                                            (r'"a\u0000"', r'"\u0061\u0000"', '"a"'))):
        first, again, third = (s.post(call(key % (c, i, text), "task.create").encode()).json()
                               for text in (one, same, other))
        eq(again["result"], first["result"], "the same body: the first answer")
        eq(third["error"]["data"]["name"], "IDEMPOTENCY_CONFLICT", "another body")


def test_ids_of_any_size_and_kind_come_back(s):
    for number in ("9223372036854775808", "-1" + "0" * 40, "1e400", "1.5", r'"\u0000"',
                   r'"\ud83d"'):
        text = s.post(call("{}", "conversation.list", number).encode()).body.decode()
        check(text.startswith('{"jsonrpc":"2.0","id":%s,"result"' % number), text)
        text = s.post(call('{"x":1,"x":2}', "conversation.list", number).encode()).body.decode()
        check(text.startswith('{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,' % number), text)


def test_what_is_given_twice_in_an_envelope_is_no_request(s):
    start = '{"jsonrpc":"2.0",'
    for text, number, member in (
            (start + '"id":1,"method":"conversation.list","method":"token.list"}', 1, "method"),
            (start + '"id":2,"id":2,"method":"conversation.list"}', 2, "id"),
            (start + '"id":1,"id":2,"method":"conversation.list"}', None, "id"),
            (start + r'"id":1,"\u0069d":2,"method":"conversation.list"}', None, "id"),
            (start + '"id":"x","method":"conversation.list","params":{},"params":{}}', "x",
             "params"),
            (start + '"id":4,"jsonrpc":"1.0","method":"conversation.list"}', 4, "jsonrpc")):
        answer = s.post(text.encode()).json()
        eq(answer["id"], number, f"id for {text}")
        eq(answer["error"]["code"], -32600, f"code for {text}")
        eq(answer["error"]["data"], {"name": "INVALID_REQUEST", "member": member}, text)


def test_a_member_that_nobody_reads_may_be_anything(s):
    text = '{"jsonrpc":"2.0","id":1,"method":"conversation.list","trace":[1e400,%s]}' % nested(99)
    eq(s.post(text.encode()).json()["result"]["conversations"], [], "result")


def test_an_empty_list_of_params_is_none(s):
    eq(s.post(call("[]", "conversation.list").encode()).json()["result"]["conversations"], [],
       "a method that needs none")
    with s.socket() as ws:
        ws.text_out(call(" [ ] ", "token.list"))
        check("tokens" in json.loads(ws.text_in())["result"], "a method that has none")
    answer = s.post(call("[]", "conversation.get").encode()).json()
    eq(answer["error"]["data"], {"name": "INVALID_PARAMS", "path": "conversation",
                                 "reason": "is required"}, "a method that needs one")
    answer = s.post(call("[1]", "conversation.list").encode()).json()
    eq(answer["error"]["data"]["reason"], "must be an object", "by position")


if __name__ == "__main__":
    main()
