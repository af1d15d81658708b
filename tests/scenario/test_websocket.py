"""RFC 6455 on /ws: what is allowed works, what is not is closed with the right code."""
import json

from reeve_test import Socket, check, eq, main, server
from wire import BINARY, CLOSE, PING, PONG, TEXT, WebSocket, frame

LIST = '{"jsonrpc":"2.0","id":1,"method":"conversation.list"}'


def code_for(s, *frames):
    """The close code that these bytes get."""
    with s.socket() as ws:
        for data in frames:
            try:
                ws.send(data)
            except OSError:
                break
        return ws.wait_close()


def works(ws):
    eq(ws.call("conversation.list")["conversations"], [], "answer")


def test_upgrade_needs_a_token_and_our_own_origin(s):
    eq(WebSocket(s.port, None).refusal.status, 401, "no token")
    eq(WebSocket(s.port, "x").refusal.json()["error"]["code"], -32021, "bad token")
    for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}):
        eq(WebSocket(s.port, s.token, headers=headers).refusal.status, 403, f"{headers}")
    with Socket(s.port, s.token, headers={"Origin": s.url}) as ws:
        works(ws)


def test_bad_upgrades(s):
    for headers, status in (({"Sec-WebSocket-Version": "12"}, (426,)),
                            ({"Sec-WebSocket-Version": None}, (400, 426)),
                            ({"Sec-WebSocket-Key": None}, (400,)),
                            ({"Sec-WebSocket-Key": "short"}, (400,)),
                            ({"Upgrade": None}, (400, 426)), ({"Upgrade": "h2c"}, (400, 426)),
                            ({"Connection": "keep-alive"}, (400, 426))):
        refusal = WebSocket(s.port, s.token, headers=headers).refusal
        check(refusal and refusal.status in status, f"{headers}: {refusal}")
        if refusal.status == 426:
            eq(refusal.headers.get("sec-websocket-version", "13"), "13", "the version we speak")
    with s.socket(headers={"Connection": "keep-alive, Upgrade", "Upgrade": "WebSocket"}) as ws:
        works(ws)
    with s.socket(headers={"Sec-WebSocket-Protocol": "chat", "Sec-WebSocket-Extensions":
                           "permessage-deflate"}) as ws:
        works(ws)


def test_fragments_with_control_frames_in_between(s):
    with s.socket() as ws:
        data = LIST.encode()
        ws.send(frame(TEXT, data[:10], fin=False) + frame(PING, b"one"))
        ws.send(frame(0, data[10:20], fin=False) + frame(PONG, b"unasked"))
        ws.send(frame(0, b"", fin=False))
        ws.send(frame(0, data[20:]))
        eq(json.loads(ws.text_in())["id"], 1, "answer")
        eq(list(ws.pongs), [b"one"], "pongs")
        ws.text_out(LIST, pieces=len(LIST))
        eq(json.loads(ws.text_in())["id"], 1, "a frame for every byte")


def test_frames_may_come_byte_by_byte(s):
    with s.socket() as ws:
        for byte in frame(TEXT, LIST.encode()) + frame(PING, b"x" * 125):
            ws.send(bytes([byte]))
        eq(json.loads(ws.text_in())["id"], 1, "answer")
        pong = ws.pongs or [ws.frame_in()[1]]  # it may overtake the answer
        eq(list(pong), [b"x" * 125], "pong")


def test_many_messages_in_one_packet(s):
    with s.socket() as ws:
        ws.send(b"".join(frame(TEXT, LIST.replace('"id":1', f'"id":{i}').encode())
                         for i in range(100)))
        eq([json.loads(ws.text_in())["id"] for _ in range(100)], list(range(100)), "answers")


def test_ping_and_pong(s):
    with s.socket() as ws:
        for payload in (b"", b"\xff\x00", b"x" * 125):
            ws.send(frame(PING, payload))
            eq(ws.frame_in(), (PONG, payload), "pong")
        ws.send(frame(PONG, b"never asked for"))
        works(ws)


def test_protocol_errors_close_with_1002(s):
    text = LIST.encode()
    for what, frames in {
        "not masked": (frame(TEXT, text, mask=False),),
        "reserved bit": (frame(TEXT, text, rsv=4),), "reserved bit 2": (frame(TEXT, text, rsv=1),),
        "reserved opcode": (frame(3, text),), "reserved control": (frame(11, b""),),
        "fragmented ping": (frame(PING, b"", fin=False),), "long ping": (frame(PING, b"x" * 126),),
        "continuation of nothing": (frame(0, text),),
        "a new message inside one": (frame(TEXT, b"{", fin=False), frame(TEXT, text)),
        "long close": (frame(CLOSE, b"\x03\xe8" + b"x" * 124),),
        "close of one byte": (frame(CLOSE, b"\x03"),),
        "close 1005": (frame(CLOSE, b"\x03\xed"),), "close 1006": (frame(CLOSE, b"\x03\xee"),),
        "close 999": (frame(CLOSE, b"\x03\xe7"),), "close 1015": (frame(CLOSE, b"\x03\xf7"),),
        "close 5000": (frame(CLOSE, b"\x13\x88"),), "close 1004": (frame(CLOSE, b"\x03\xec"),),
        "length not in its shortest form": (b"\x81\xfe\x00\x05abcd12345",),
        "64 bit length in vain": (b"\x81\xff" + (500).to_bytes(8, "big") + b"abcd",),
        "length with the top bit": (b"\x81\xff\x80" + bytes(7) + b"abcd",),
    }.items():
        eq(code_for(s, *frames), 1002, what)


def test_text_that_is_not_utf8_closes_with_1007(s):
    for what, frames in {
        "invalid": (frame(TEXT, b'"\xff"'),), "surrogate": (frame(TEXT, b'"\xed\xa0\x80"'),),
        "overlong": (frame(TEXT, b'"\xc0\xaf"'),), "cut at the end": (frame(TEXT, b'"\xe2\x82'),),
        "in a later fragment": (frame(TEXT, b'"\xe2', fin=False), frame(0, b"\x28", fin=False)),
        "before the message is whole": (frame(TEXT, b"\xf5", fin=False),),
        "in a close reason": (frame(CLOSE, b"\x03\xe8\xff"),),
    }.items():
        eq(code_for(s, *frames), 1007, what)


def test_a_character_may_be_split_over_fragments(s):
    with s.socket() as ws:
        data = LIST.replace("1}", '1,"é":"𝄞"}').replace('"id":1', '"id":"é"').encode()
        for i, byte in enumerate(data):
            ws.send(frame(0 if i else TEXT, bytes([byte]), fin=i == len(data) - 1))
        eq(json.loads(ws.text_in())["id"], "é", "id")


def test_binary_messages_are_not_spoken_here(s):
    eq(code_for(s, frame(BINARY, LIST.encode())), 1003, "close code")


def test_too_large_a_message_closes_with_1009(s):
    with s.socket() as ws:
        ws.send(b"\x81\xff" + (1 << 40).to_bytes(8, "big") + b"abcd")
        eq(ws.wait_close(), 1009, "by its announced length")
    with s.socket() as ws:
        try:
            for i in range(17):
                ws.send(frame(0 if i else TEXT, b" " * 65536, fin=False))
        except OSError:
            pass
        eq(ws.wait_close(), 1009, "in fragments")


def test_close_is_answered(s):
    for payload, want in ((b"", (1005, 1000)), (b"\x03\xe8", (1000,)), (b"\x03\xe8bye", (1000,)),
                          (b"\x0f\xa0", (4000, 1000)), (b"\x0b\xb8mine", (3000, 1000))):
        check(code_for(s, frame(CLOSE, payload)) in want, f"answer to {payload}")
    list_and_close = frame(TEXT, LIST.encode()) + frame(CLOSE, b"\x03\xe8")
    eq(code_for(s, list_and_close + frame(TEXT, b"{")), 1000, "what follows a close is not read")


def test_after_a_json_error_the_connection_is_usable(s):
    with s.socket() as ws:
        for text, code in (("{", -32700), ("", -32700), ("[]", -32600), ("7", -32600),
                           ('{"jsonrpc":"2.0","id":7,"method":"x"}', -32601)):
            ws.text_out(text)
            eq(json.loads(ws.text_in())["error"]["code"], code, f"answer to {text!r}")
        works(ws)


def test_a_client_that_vanishes_harms_nobody(s):
    c = s.talk()
    for i in range(20):
        ws = s.socket()
        ws.subscribe(conversation=c, afterSeq=0)
        if i % 2:
            ws.sock.setsockopt(1, 13, b"\1\0\0\0\0\0\0\0")  # SO_LINGER 0: a reset, not a close
        ws.send(frame(TEXT, LIST.encode())[:9])
        ws.close()
    eq(s.say(c, "a", "still here")["seq"], 2, "the server goes on")


@server("net.body_bytes_max=4096")
def test_the_frame_limit_is_configurable(s):
    with s.socket() as ws:
        ws.text_out(LIST + " " * (4096 - len(LIST)))
        eq(json.loads(ws.text_in())["id"], 1, "just within")
        ws.text_out(LIST + " " * (4097 - len(LIST)))
        eq(ws.wait_close(), 1009, "one byte more")


def test_the_subprotocol_is_named_if_it_is_offered(s):
    for offered, chosen in (("jsonrpc", "jsonrpc"), ("x, jsonrpc", "jsonrpc"), ("JsonRpc", "JsonRpc"),
                            ("graphql-ws", None), ("jsonrpc2", None), (None, None)):
        with s.socket(headers={"Sec-WebSocket-Protocol": offered}) as ws:
            eq(ws.fields.get("sec-websocket-protocol"), chosen, f"for {offered}")
            eq(ws.call("conversation.list")["conversations"], [], "and on it goes")


if __name__ == "__main__":
    main()
