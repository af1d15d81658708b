"""Peers that misbehave: they close at the wrong moment, send too much, read too little, stay too
long. The server answers what can be answered, holds little, and goes on."""
import json
import os
import signal
import socket
import struct

from reeve_test import Client, Closed, Http, check, eq, main, server, wait_for
from wire import CLOSE, PING, PONG, TEXT, WebSocket, frame

INFO = b'{"jsonrpc":"2.0","id":1,"method":"server.info"}'


def request(number, method, **params):
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def text(number, method, **params):
    return json.dumps(request(number, method, **params)).encode()


def metric(s, name):
    lines = s.get("/metrics").body.decode().splitlines()
    return next(float(x.split()[1]) for x in lines if x.startswith(name + " "))


def reset(stream):
    """Closes with an RST instead of a FIN."""
    stream.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.close()


def fill(s, conversation, count, size):
    for i in range(count):
        s.say(conversation, "a", f"{i:06}" + "x" * size)


# ---- closing at the wrong moment ----


def test_all_pipelined_requests_of_a_half_closed_client_are_answered(s):
    for last in (b"", b"POST /rpc HTTP/1.1\r\nHost: x"):  # half a request behind them
        with s.http() as connection:
            message = connection.message("POST", "/rpc", INFO)
            connection.send(message * 5 + connection.message("GET", "/healthz") * 3 + last)
            connection.sock.shutdown(1)
            for _ in range(5):
                eq(connection.response().json()["id"], 1, "id")
            for _ in range(3):
                eq(connection.response().body, b"ok\n", "health")
            check(connection.is_closed(), "then it is closed")


def test_an_answer_on_its_way_is_not_cut_by_a_late_half_close(s):
    c = s.talk()
    fill(s, c, 6, 600_000)
    with Http(s.port, s.token, receive_buffer=4096) as connection:
        connection.send(connection.message("POST", "/rpc", text(1, "event.list", conversation=c)))
        connection.take(100)  # it has begun, and most of it waits in the server
        connection.sock.shutdown(1)
        rest = b""
        try:
            while True:
                connection.more()
        except Closed:
            rest = bytes(connection.buffer)
        check(rest.endswith(b'"nextAfterSeq":7}}'), f"{len(rest)} bytes, ending {rest[-40:]}")


def next_frame(ws):
    """The next frame that is not a pong nobody asked for."""
    while (got := ws.frame_in())[0] == PONG:
        pass
    return got


def test_calls_before_a_half_close_of_a_websocket_are_answered(s):
    for calls in (1, 3, 200):
        with s.socket() as ws:
            ws.send(b"".join(frame(TEXT, text(i, "server.info")) for i in range(calls)))
            ws.sock.shutdown(socket.SHUT_WR)
            answers = [next_frame(ws) for _ in range(calls)]
            eq([json.loads(payload)["id"] for _, payload in answers], list(range(calls)), "answers")
            eq(next_frame(ws), (CLOSE, b""), "then a close")
            check(ws.is_closed(), "and the end")


def test_a_half_close_of_a_websocket_without_a_call_ends_it(s):
    with s.socket() as ws:
        ws.sock.shutdown(socket.SHUT_WR)
        eq(ws.frame_in(), (CLOSE, b""), "a close")
        check(ws.is_closed(), "and the end")


def wait_for_work(s, c):
    """A socket on which an agent waits for work."""
    ws = s.socket()
    ws.call("participant.join", conversation=c, role="a", connectionId="x")
    ws.send(frame(TEXT, text(9, "task.wait", conversation=c, role="a", connectionId="x",
                             timeoutMs=60_000)))
    ws.call("server.info")  # answered behind it: the poll is under way
    return ws


def test_a_long_poll_before_a_half_close_is_answered(s):
    c = s.talk("a")
    with wait_for_work(s, c) as ws:
        ws.send(frame(TEXT, b"this never comes to its end")[:9])
        ws.sock.shutdown(socket.SHUT_WR)
        eq(ws.frame_in(), (PONG, b""), "a pong shows whether it is still there")
        task = s.call("task.create", conversation=c, role="a", content="x")["task"]["task"]
        opcode, payload = ws.frame_in()
        eq((opcode, json.loads(payload)["id"]), (TEXT, 9), "the answer")
        eq(json.loads(payload)["result"]["task"]["task"], task, "the task")
        eq(ws.frame_in(), (CLOSE, b""), "then a close")


@server("net.ping_seconds=3600")
def test_a_client_that_dies_in_a_long_poll_is_noticed_at_once(s):
    c = s.talk("a")
    for leave in (reset, lambda stream: stream.close()):
        ws = wait_for_work(s, c)
        wait_for(lambda: metric(s, "reeve_connections") == 3, "the socket")
        leave(ws)
        wait_for(lambda: metric(s, "reeve_connections") == 2, "the server to notice")
    task = s.call("task.create", conversation=c, role="a", content="x")["task"]
    eq(task["status"], "pending", "nobody has it")


@server("net.body_bytes_max=65536")
def test_a_reset_while_the_core_is_busy_harms_nobody(s):
    """The peer is gone while its request waits and what it pipelined is not read."""
    c = s.talk()
    fill(s, c, 300, 60_000)
    for i in range(3):
        connection = s.http()
        backup = text(1, "server.backup", path=f"{s.data}.copy{i}")
        connection.send(connection.message("POST", "/rpc", backup) + b"x" * 200_000)
        reset(connection)
    wait_for(lambda: metric(s, "reeve_connections") <= 2, "the connections to go")
    eq(s.say(c, "a", "on")["seq"], 302, "the server goes on")


def test_clients_that_vanish_in_every_state_leave_nothing_behind(s):
    c = s.talk()
    for leave in (reset, lambda stream: stream.close()):
        for cut in range(0, 120, 7):
            with s.http() as connection:
                connection.send(connection.message("POST", "/rpc", INFO)[:cut + 1])
                leave(connection)
            ws = s.socket()
            ws.send(frame(TEXT, text(1, "event.subscribe", conversation=c, afterSeq=0)))
            ws.send(frame(TEXT, text(2, "message.send", conversation=c, agentId="a", text="x"))[:cut])
            leave(ws)
            stream = s.stream("?after=0")
            leave(stream)
    wait_for(lambda: metric(s, "reeve_connections") <= 2, "connections to go")
    wait_for(lambda: metric(s, "reeve_subscriptions") == 0, "subscriptions to go")


def test_a_close_behind_many_messages_waits_for_their_answers(s):
    with s.socket() as ws:
        ws.send(frame(TEXT, INFO) * 500 + frame(CLOSE, b"\x03\xe8"))
        for _ in range(500):
            eq(json.loads(ws.text_in())["id"], 1, "answer")
        eq(ws.wait_close(), 1000, "close code")


def test_frames_in_the_packet_of_the_upgrade(s):
    with s.http() as connection:
        upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
                   "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
        connection.send(connection.head("GET", "/ws", upgrade) + frame(TEXT, INFO) * 200 +
                        frame(PING, b"end"))
        eq(connection.response_head()[0], 101, "status")
        connection.pongs = []
        frames = [WebSocket.frame_in(connection) for _ in range(202)]
        eq(sum(b'"result"' in payload for _, payload in frames), 200, "answers")


# ---- too much ----


def test_thousands_of_messages_at_once_are_all_answered_in_order(s):
    """Far more than are taken at once; a third are notifications, which get no answer."""
    c = s.talk()
    with s.socket() as ws:
        for start in range(0, 3000, 500):
            data = b""
            for i in range(start, start + 500):
                call = request(i, "message.send", conversation=c, agentId="a", text=str(i))
                if i % 3 == 0:
                    del call["id"]
                data += frame(TEXT, json.dumps(call).encode())
            ws.send(data)
        for i in range(3000):
            if i % 3:
                eq(json.loads(ws.text_in())["id"], i, "id")
    eq([e["payload"]["text"] for e in s.events(c)[1:]], [str(i) for i in range(3000)], "the log")


def memory_kb(s):
    """0 for a sanitized build, whose memory says nothing."""
    with open(f"/proc/{s.process.pid}/maps") as f:
        if "san.so" in f.read():
            return 0
    with open(f"/proc/{s.process.pid}/status") as f:
        return next(int(x.split()[1]) for x in f if x.startswith("VmHWM"))


def test_a_flood_of_large_messages_is_taken_piece_by_piece(s):
    c = s.talk()
    numbers = list(range(100_000))
    data = frame(TEXT, text(1, "message.send", conversation=c, agentId="a", text="",
                            metadata={"numbers": numbers}))
    with s.socket() as ws:
        ws.sock.settimeout(0.5)
        sent = 0
        try:
            for _ in range(150):
                ws.sock.sendall(data)
                sent += 1
        except TimeoutError:
            pass  # it is made to wait, because it does not read either
        check(memory_kb(s) < 250_000, f"{memory_kb(s)} kB for {sent} x {len(data)} bytes")
        reset(ws)


def test_large_pages_do_not_add_up(s):
    c = s.talk()
    fill(s, c, 40, 900_000)
    batch = [request(i, "event.list", conversation=c, limit=1000) for i in range(200)]
    answers = s.post(json.dumps(batch).encode()).json()
    eq(len(answers), 200, "answers")
    eq({"result" if "result" in a else a["error"]["data"]["name"] for a in answers},
       {"result", "TOO_LARGE"}, "kinds of answers")
    eq(answers[-1]["error"]["data"]["limit"], 16 << 20, "limit")
    with s.socket(receive_buffer=4096) as ws:  # never reads
        for i in range(40):
            ws.send(frame(TEXT, text(i, "event.list", conversation=c, limit=1000)))
        eq(len(s.events(c)), 41, "others are served")
        reset(ws)
    check(memory_kb(s) < 500_000, f"{memory_kb(s)} kB")


def test_a_chunked_request_may_be_cut_anywhere(s):
    with s.http() as connection:
        head = connection.head("POST", "/rpc", {"Transfer-Encoding": "chunked"})
        body = b"".join(b"%x;x=y\r\n%b\r\n" % (len(p), p) for p in (INFO[:5], INFO[5:]))
        data = head + body + b"0\r\nTrailer: x\r\n\r\n"
        for cut in range(len(head) - 3, len(data)):
            connection.send(data[:cut])
            eq(s.get("/healthz").status, 200, "others, which makes sure that it was read so far")
            connection.send(data[cut:])
            eq(connection.response().json()["id"], 1, f"cut at {cut}")


# ---- too little ----


@server("net.stall_seconds=1", "net.out_bytes_max=1073741824")
def test_sending_does_not_excuse_from_reading(s):
    """A peer that takes nothing is dropped, though bytes keep coming from it."""
    c = s.talk()
    fill(s, c, 8, 900_000)
    with s.socket(receive_buffer=4096) as ws:
        for i in range(8):
            ws.send(frame(TEXT, text(i, "event.list", conversation=c)))

        def dropped():
            try:
                ws.send(frame(PING, b"here"))
                return False
            except ConnectionError:
                return True

        wait_for(dropped, "the connection to be dropped")
    eq(metric(s, "reeve_connections_stalled_total"), 1, "stalled")


@server("net.request_seconds=1")
def test_a_message_that_never_ends_is_given_up(s):
    for begin in (frame(TEXT, INFO)[:1], frame(TEXT, INFO)[:20], frame(TEXT, INFO, fin=False)):
        with s.socket() as ws:
            eq(ws.call("server.info")["name"], "reeve", "it works")
            ws.send(begin)
            eq(ws.wait_close(), 1008, "close code")
    with s.socket() as ws:
        wait_for(lambda: ws.call("server.info"), "whole messages are not in a hurry")


# ---- cursors, tokens, queries ----


def test_a_cursor_beyond_the_end_harms_nobody(s):
    """Any token could end the server with it."""
    c = s.talk()
    with s.stream("?after=999999999") as future, s.socket() as ws, s.stream("?after=0") as all_:
        eq(future.status, 200, "status")
        ws.subscribe(conversation=c, afterSeq=3)
        ws.subscribe(afterId=2**53 - 1)
        for i in range(4):
            s.say(c, "a", str(i))
        eq([ws.event()["seq"] for _ in range(2)], [4, 5], "what comes after the cursor")
        last = 0
        while last != 5:
            last = all_.next()[1]["seq"]
        check(not future.text and not future.buffer, "nothing for the one in the future")


def test_streams_end_when_their_token_expires(s):
    c = s.talk()
    client = Client(s.port, s.call("token.create", scope="read", ttl="1s")["secret"])
    with client.socket() as ws, client.stream(f"?conversation={c}&after=0") as sse:
        ws.subscribe(conversation=c)

        def ended():
            s.say(c, "a", "for those who may hear")
            return metric(s, "reeve_subscriptions") == 0

        wait_for(ended, "the subscriptions to end")
        eq(ws.wait_close(), 1008, "close code")
        try:
            while True:
                sse.next()
        except Closed:
            pass
    answer = client.post(INFO)
    eq((answer.status, answer.headers.get("www-authenticate")), (401, "Bearer"), "answer")


def test_numbers_in_queries_that_are_too_long_are_refused(s):
    c = s.talk()
    for query in (f"?conversation={'0' * 40}{c}", f"?conversation={c}&after={'0' * 40}1"):
        with s.stream(query) as stream:
            eq(stream.status, 400, query)


def test_a_stream_of_what_one_may_not_see_is_refused_as_if_it_were_not_there(s):
    mine, other = s.talk(), s.talk()
    client = s.as_token(scope="read", conversation=mine)
    with client.stream(f"?conversation={other}") as hidden, s.stream("?conversation=99") as absent:
        seen = [(x.status, json.loads(x.body)["error"]["data"]) for x in (hidden, absent)]
        eq(seen, [(404, {"name": "NOT_FOUND", "what": "conversation", "id": n})
                  for n in (other, 99)], "refusals")


def test_an_error_after_a_HEAD_has_its_body(s):
    with s.http() as connection:
        connection.send(connection.message("HEAD", "/healthz"))
        eq(connection.response("HEAD").status, 200, "status")
        connection.send(b"BAD\r\n\r\n")
        answer = connection.response()
        eq((answer.status, answer.json()["id"]), (400, None), "answer")


def test_paths_without_HEAD_say_so(s):
    for path, allow in (("/events", "GET"), ("/ws", "GET"), ("/healthz", "GET, HEAD")):
        with s.http() as connection:
            answer = connection.request("DELETE", path)
            eq((answer.status, answer.headers["allow"]), (405, allow), path)


# ---- the end ----


def test_a_backup_under_way_at_shutdown_is_answered(s):
    c = s.talk()
    fill(s, c, 40, 900_000)
    path = s.data + ".copy"
    with s.http() as connection:
        connection.send(connection.message("POST", "/rpc", text(1, "server.backup", path=path)))
        wait_for(lambda: os.path.exists(path), "the backup to begin")
        s.process.send_signal(signal.SIGTERM)
        answer = connection.response().json()
        if "error" in answer:  # else it was quicker than the signal
            eq(answer["error"]["data"]["name"], "UNAVAILABLE", "error")
            check(not os.path.exists(path), "half a copy is removed")
    eq(s.wait(), 0, "exit status")
    check("slow_to_close" not in s.log(), "nobody is waited for")


def test_work_refused_at_shutdown_may_be_tried_again(s):
    c = s.talk()
    fill(s, c, 40, 900_000)
    with s.http() as busy, s.http() as late:
        eq(late.request("GET", "/healthz").status, 200, "a connection that is there already")
        copy = s.data + ".copy"
        busy.send(busy.message("POST", "/rpc", text(1, "server.backup", path=copy)) * 20)
        s.process.send_signal(signal.SIGTERM)
        try:
            while True:
                answer = late.request("POST", "/rpc", INFO)
                if answer.status == 503:
                    eq(answer.json()["error"]["data"]["name"], "UNAVAILABLE", "error")
        except (Closed, OSError):
            pass  # cut, or answered and closed
    eq(s.wait(), 0, "exit status")


if __name__ == "__main__":
    main()
