"""What is no JSON or no JSON-RPC: the right refusal, and the connection stays usable."""
import json

from reeve_test import check, eq, main, server


def error(answer):
    """Code and name of an error answer with id null."""
    eq(set(answer), {"jsonrpc", "id", "error"}, f"members of {answer}")
    eq(answer["id"], None, "id")
    return answer["error"]["code"], answer["error"]["data"]["name"]


def call(params, method="message.send", number="1"):
    text = '{"jsonrpc":"2.0","id":%s,"method":"%s","params":%s}' % (number, method, params)
    return text.encode()


NOT_JSON = {
    "empty": b"", "blank": b"  \n", "half": b'{"jsonrpc":"2.0"', "garbage": b"hello",
    "trailing": b'{"jsonrpc":"2.0","id":1,"method":"x"} x', "comma": b'{"a":1,}',
    "single quotes": b"{'a':1}", "comment": b'{"a":1}//', "two values": b"{}{}",
    "nan": call('{"a":NaN}'), "infinity": call('{"a":Infinity}'), "hex": call('{"a":0x10}'),
    "leading zero": call('{"a":01}'), "plus": call('{"a":+1}'), "bare point": call('{"a":.5}'),
    "point at the end": call('{"a":5.}'), "raw control character": call('{"a":"\n"}'),
    "bad escape": call(r'{"a":"\x41"}'), "short escape": call(r'{"a":"\u12"}'),
    "half a pair and a short escape": call(r'{"a":"\ud800\udc0"}'),
    "raw nul": call('{"a":"\0"}'), "nul after": b'{"jsonrpc":"2.0","id":1,"method":"x"}\0',
    "deep and open": call('{"a":' + "[" * 1000 + "}"), "deep and wrong": b"[" * 500_000,
    "invalid utf-8": call('{"a":"X"}').replace(b"X", b"\xff"),
    "overlong utf-8": call('{"a":"X"}').replace(b"X", b"\xc0\xaf"),
    "utf-8 surrogate": call('{"a":"X"}').replace(b"X", b"\xed\xa0\x80"),
    "cut utf-8": call('{"a":"X"}').replace(b"X", b"\xe2\x82"),
    "beyond unicode": call('{"a":"X"}').replace(b"X", b"\xf4\x90\x80\x80"),
    "byte order mark": b"\xef\xbb\xbf{}", "utf-16": '{"a":1}'.encode("utf-16"),
}


def test_what_is_not_json_is_a_parse_error(s):
    for what, body in NOT_JSON.items():
        answer = s.post(body).json()
        eq(error(answer), (-32700, "PARSE"), what)
    eq(s.talk(), 1, "the connection and the server go on")


def test_what_is_not_json_on_a_websocket(s):
    with s.socket() as ws:
        for what, body in NOT_JSON.items():
            try:
                text = body.decode()
            except UnicodeDecodeError:
                continue  # that is the WebSocket layer's to refuse
            ws.text_out(text)
            eq(error(json.loads(ws.text_in())), (-32700, "PARSE"), what)
        eq(ws.talk(), 1, "the connection goes on")


def test_what_is_not_a_request_is_refused(s):
    for body in (b"1", b'"x"', b"null", b"true", b"{}", b'{"id":1}',
                 b'{"jsonrpc":"1.0","id":1,"method":"x"}', b'{"jsonrpc":2.0,"id":1,"method":"x"}',
                 b'{"id":1,"method":"conversation.list"}', b'{"jsonrpc":"2.0","id":1,"method":5}',
                 b'{"jsonrpc":"2.0","id":1,"method":null}', b'{"jsonrpc":"2.0","id":1}',
                 b'{"jsonrpc":"2.0","id":{},"method":"x"}',
                 b'{"jsonrpc":"2.0","id":[1],"method":"x"}',
                 b'{"jsonrpc":"2.0","id":true,"method":"x"}',
                 b'{"jsonrpc":"2.0","id":1,"method":"conversation.list","params":5}',
                 b'{"jsonrpc":"2.0","id":1,"method":"conversation.list","params":"x"}', b"[]"):
        answer = s.post(body).json()
        eq(answer["error"]["code"], -32600, f"code for {body}")
        eq(answer["error"]["data"]["name"], "INVALID_REQUEST", f"name for {body}")
        check(answer["id"] in (None, 1), f"id {answer['id']}")
    with s.socket() as ws:
        for body in ("1", "[]", "{}"):
            ws.text_out(body)
            eq(error(json.loads(ws.text_in()))[0], -32600, f"code for {body}")


def test_ids_come_back_as_they_were(s):
    for number in ('1', '0', '-7', '"abc"', '""', '"\\u00e9"', '9007199254740993', 'null'):
        answer = s.post(call("{}", "conversation.list", number))
        eq(json.dumps(answer.json()["id"]), json.dumps(json.loads(number)), f"id {number}")
        check("result" in answer.json(), f"{answer}")


def test_params_may_be_left_out(s):
    answer = s.post(b'{"jsonrpc":"2.0","id":1,"method":"conversation.list"}').json()
    eq(answer["result"]["conversations"], [], "result")


def test_unknown_methods(s):
    for method in ("conversation.destroy", "", "CONVERSATION.LIST", "conversation.list ", "rpc.x",
                   "welcome", "event", "x" * 5000, "conversation"):
        s.refused("NO_METHOD", method)
    with s.socket() as ws:
        ws.refused("NO_METHOD", "no.such")


def test_unknown_fields_are_named(s):
    c = s.talk()
    for method, params in (("conversation.list", {}), ("conversation.get", {"conversation": c}),
                           ("message.send", {"conversation": c, "agentId": "a", "text": "x"}),
                           ("event.list", {"conversation": c})):
        e = s.refused("INVALID_PARAMS", method, **params, colour="red")
        eq(e.data["path"], "colour", f"path of {method}")
        check(e.data["reason"], "says why")
    e = s.refused("INVALID_PARAMS", "message.send", conversation=c, agentId="a", text="x",
                  outcome={"status": "failed", "colour": "red"})
    check("outcome" in e.data["path"] and "colour" in e.data["path"], f"{e.data}")


WRONG_TYPES = {
    "conversation.create": {"title": (1, [], {}, True), "agents": ({}, "a", 1),
                            "maxTurns": ("1", 1.5), "startingRole": (1, []),
                            "metadata": (1, "x", []),
                            "runtime_controls": (1, [], "x"), "watchdog": (True, [])},
    "conversation.list": {"status": (1, []), "limit": ("1", 1.5, True, [])},
    "conversation.end": {"outcome": (1, {}), "reason": (1,), "text": (1, []), "authorId": (1,)},
    "message.send": {"text": (1, None, [], {}), "finality": (1, True), "turn": ("1", 1.0, True),
                     "attachments": ({}, "x"), "outcome": ("failed", []), "metadata": ("x", 5),
                     "precondition": (1, []), "clientRequestId": (1, True)},
    "trace.append": {"payload": (1, "x", []), "turn": ("1",)},
    "event.list": {"afterSeq": ("0", 1.5, True), "limit": ("5",)},
    "turn.clear": {"agentId": (1,), "reason": (1, [])},
    "attachment.get": {"id": (1.5, True, None, [])},
}
RIGHT = {
    "conversation.create": {"agents": [{"role": "a"}]}, "conversation.list": {},
    "conversation.end": {"conversation": 1},
    "message.send": {"conversation": 1, "agentId": "a", "text": "x"},
    "trace.append": {"conversation": 1, "agentId": "a", "payload": {"type": "thought"}},
    "event.list": {}, "turn.clear": {"conversation": 1, "agentId": "a"},
    "attachment.get": {"id": 1},
}


def test_wrong_types_are_refused_with_their_path(s):
    s.talk()
    for method, fields in WRONG_TYPES.items():
        for field, values in fields.items():
            for value in values:
                e = s.refused("INVALID_PARAMS", method, **RIGHT[method] | {field: value})
                check(e.data["path"].startswith(field), f"{method} {field}={value!r}: {e.data}")
                check(e.data["reason"], f"{method} {field}: no reason")
    eq(len(s.events(1)), 1, "nothing was written")


def test_missing_fields_are_named(s):
    s.talk()
    for method, params in RIGHT.items():
        for field in params:
            without = {k: v for k, v in params.items() if k != field}
            e = s.refused("INVALID_PARAMS", method, **without)
            eq(e.data["path"], field, f"path without {method} {field}")


def test_too_large_a_body_is_refused_and_others_unharmed(s):
    c = s.talk()
    with s.http() as connection:
        body = call('{"conversation":%d,"agentId":"a","text":"%s"}' % (c, "x" * (1 << 20)))
        connection.send(connection.head("POST", "/rpc", {"Content-Length": str(len(body))}))
        answer = connection.response()
        eq(answer.status, 413, "status, before the body was sent")
        e = answer.json()["error"]
        eq((e["code"], e["data"]["name"]), (-32024, "TOO_LARGE"), "error")
        eq(e["data"]["limit"], 1 << 20, "limit")
    small = (1 << 20) - 200
    eq(s.say(c, "a", "x" * small)["seq"], 2, "one just below the limit")


@server("net.body_bytes_max=2048")
def test_the_size_limit_counts_decoded_chunks_and_websocket_messages(s):
    c = s.talk()
    with s.http() as connection:
        connection.send(connection.head("POST", "/rpc", {"Transfer-Encoding": "chunked"}))
        connection.send(b"400\r\n" + b"x" * 1024 + b"\r\n")
        connection.send(b"401\r\n" + b"x" * 1025 + b"\r\n")
        eq(connection.response().status, 413, "status of a chunked body")
    with s.socket() as ws:
        ws.text_out("x" * 2049)
        eq(ws.wait_close(), 1009, "close code of a large frame")
    with s.socket() as ws:
        ws.send(b"\x01\xfe\x04\x00abcd" + b"\0" * 1024)
        ws.send(b"\x80\xfe\x04\x01abcd" + b"\0" * 1025)
        check(ws.wait_close() in (1007, 1009), "close code of large fragments")
    s.say(c, "a", "on we go")


def test_batches(s):
    c = s.talk()
    batch = [
        {"jsonrpc": "2.0", "id": "one", "method": "conversation.get",
         "params": {"conversation": c}},
        {"jsonrpc": "2.0", "method": "message.send",
         "params": {"conversation": c, "agentId": "a", "text": "a notification"}},
        7, [], {"jsonrpc": "2.0", "id": 3, "method": "no.such"},
        {"jsonrpc": "2.0", "id": 4, "method": "event.list", "params": {"conversation": c}},
        {"jsonrpc": "2.0", "id": 5, "method": "message.send", "params": {"conversation": c}},
    ]
    answers = s.post(json.dumps(batch).encode()).json()
    eq([a.get("id") for a in answers], ["one", None, None, 3, 4, 5], "ids of the answers")
    codes = [a["error"]["code"] if "error" in a else None for a in answers]
    eq(codes, [None, -32600, -32600, -32601, None, -32602], "codes")
    seqs = [e["seq"] for e in answers[4]["result"]["events"]]
    eq(seqs, [1, 2], "a later one sees what an earlier one wrote")
    with s.socket() as ws:
        ws.text_out(json.dumps(batch[:1] + batch[4:]))
        eq([a["id"] for a in json.loads(ws.text_in())], ["one", 3, 4, 5], "over WebSocket")


def test_batch_of_nothing_but_errors(s):
    answers = s.post(b"[1,2,[],null]").json()
    eq([error(a)[0] for a in answers], [-32600] * 4, "answers")
    eq(error(s.post(b"[]").json())[0], -32600, "an empty one is one error")
    eq(error(s.post(b"[1,").json())[0], -32700, "half a batch")
    eq([error(a)[0] for a in s.post(b"[[]]").json()], [-32600], "a batch in a batch")


def test_notifications_get_204_and_take_effect(s):
    c = s.talk()
    say = ('{"jsonrpc":"2.0","method":"message.send","params":{"conversation":%d,"agentId":"a",'
           '"text":"%%d"}}' % c)
    for body in (say % 1, f"[{say % 2},{say % 3}]"):
        answer = s.post(body.encode())
        eq((answer.status, answer.body), (204, b""), "answer")
        check("content-length" not in answer.headers, "204 has no length")
    wrong = '{"jsonrpc":"2.0","method":"no.such"}'
    eq(s.post(wrong.encode()).status, 204, "not even an error is answered")
    eq([e["payload"]["text"] for e in s.events(c)[1:]], ["1", "2", "3"], "effects")


def test_notifications_on_a_websocket_are_silent(s):
    c = s.talk()
    with s.socket() as ws:
        ws.text_out('{"jsonrpc":"2.0","method":"message.send","params":{"conversation":%d,'
                    '"agentId":"a","text":"x"}}' % c)
        ws.text_out('[{"jsonrpc":"2.0","method":"no.such"}]')
        eq(len(ws.call("event.list", conversation=c)["events"]), 2, "the next answer is that one")


def test_a_refused_request_in_a_batch_undoes_only_itself(s):
    c = s.talk()
    texts = []
    batch = []
    for i in range(20):
        good = i % 3 != 1
        params = {"conversation": c, "agentId": "a", "text": str(i)} | ({} if good else {"turn": 9})
        batch.append({"jsonrpc": "2.0", "id": i, "method": "message.send", "params": params})
        texts += [str(i)] if good else []
    answers = s.post(json.dumps(batch).encode()).json()
    eq(["result" in a for a in answers], [i % 3 != 1 for i in range(20)], "which succeeded")
    events = s.events(c)
    eq([e["payload"]["text"] for e in events[1:]], texts, "texts")
    eq([e["seq"] for e in events], list(range(1, len(texts) + 2)), "no gap where one failed")


def test_numbers_at_the_edge(s):
    s.talk()
    for text in ("9223372036854775807", "-9223372036854775808"):
        answer = s.post(call('{"conversation":%s}' % text, "conversation.get")).json()
        check(answer["error"]["code"] in (-32014, -32602), f"{answer}")
    answer = s.post(call('{"conversation":1.0}', "conversation.get")).json()
    eq(answer["error"]["code"], -32602, "a real is not an integer")
    answer = s.post(call('{"conversation":1e0}', "conversation.get")).json()
    eq(answer["error"]["code"], -32602, "nor is this")


def test_text_of_every_kind_of_character_is_served(s):
    c = s.talk()
    text = "".join(chr(x) for x in range(1, 0x3000)) + "\U0001F600\U0010FFFF\uFFFF\uFFFE"
    s.say(c, "a", text)
    eq(s.events(c)[-1]["payload"]["text"], text, "text")
    s.refused("NOT_FOUND", "conversation.get", conversation=404)


if __name__ == "__main__":
    main()
