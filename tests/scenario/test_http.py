"""HTTP/1.1 at the edges: strict where two readers could differ, patient where the RFC says so."""
import json

from reeve_test import Closed, Http, check, eq, main, server

LIST = b'{"jsonrpc":"2.0","id":1,"method":"conversation.list","params":{}}'


def raw(s, data, then=None):
    """Sends bytes as they are; (status, closed?) of the answer."""
    with s.http() as connection:
        connection.send(data)
        if then:
            connection.send(then)
        answer = connection.response()
        return answer.status, connection.is_closed()


def get(*lines, version="HTTP/1.1", method="GET", path="/healthz", host="Host: 127.0.0.1:{port}"):
    def build(s):
        head = [f"{method} {path} {version}", *([host] if host else []), *lines]
        return "\r\n".join(head).format(port=s.port).encode() + b"\r\n\r\n"
    return build


def test_plain_paths(s):
    for path, status in (("/healthz", 200), ("/readyz", 200), ("/metrics", 200), ("/nowhere", 404),
                         ("/rpc/", 404), ("/a2a", 404), ("/mcp", 404), ("//", 404),
                         ("/.well-known/agent-card.json", 404), ("/healthz/..", 404),
                         ("/../healthz", 404), ("/%68ealthz", 404)):
        answer = s.get(path)
        check(answer.status == status or (path in ("/%68ealthz", "//", "/../healthz")
                                          and answer.status in (400, 404)), f"{path}: {answer}")


def test_wrong_methods_say_which_are_right(s):
    with s.http() as connection:
        for method, path, allowed in (("GET", "/rpc", "POST"), ("PUT", "/rpc", "POST"),
                                      ("POST", "/events", "GET"), ("DELETE", "/ws", "GET"),
                                      ("POST", "/healthz", "GET")):
            answer = connection.request(method, path, b"" if method != "GET" else None)
            eq(answer.status, 405, f"{method} {path}")
            check(allowed in answer.headers["allow"], f"Allow: {answer.headers}")
    eq(raw(s, get("Connection: close", method="BREW")(s))[0], 501, "a method nobody knows")


def test_head_has_headers_and_no_body(s):
    with s.http() as connection:
        got = connection.request("GET", "/healthz")
        head = connection.request("HEAD", "/healthz")
        eq((head.status, head.headers.get("content-length")), (200, str(len(got.body))), "HEAD")
        eq(connection.request("GET", "/healthz").body, got.body, "the connection goes on")


def whole_answer(s, data):
    """Head and body of an answer, by the end of the connection."""
    with s.http() as connection:
        connection.send(data)
        try:
            while True:
                connection.more()
        except Closed:
            return bytes(connection.buffer).partition(b"\r\n\r\n")


def test_head_gets_no_body_whatever_is_wrong(s):
    wrong = {
        400: get("A : b", method="HEAD"), 417: get("Expect: x", method="HEAD"),
        403: get("Origin: http://evil.example", "Connection: close", method="HEAD"),
        404: get("Connection: close", method="HEAD", path="/nowhere"),
        405: get("Connection: close", method="HEAD", path="/rpc"),
        413: get("Content-Length: 99999999", method="HEAD"),
        421: get(method="HEAD", path="https://127.0.0.1:{port}/healthz"),
        431: get("X: " + "y" * 17_000, method="HEAD"), 505: get(version="HTTP/2.0", method="HEAD"),
        501: get("Transfer-Encoding: gzip", method="HEAD"),
    }
    for status, build in wrong.items():
        for data in (build(s), b"\r\n\r\n" + build(s)):
            head, end, body = whole_answer(s, data)
            check(head.startswith(b"HTTP/1.1 %d " % status), f"{status}: {head}")
            eq((end, body), (b"\r\n\r\n", b""), f"the end of {status}")
            check(b"Content-Length: " in head, f"{status} tells the length of what GET gets")
        check(whole_answer(s, build(s).replace(b"HEAD", b"GET", 1))[2], f"GET: {status} has a body")


MALFORMED = {
    "no version": get(version=""), "lower case version": get(version="http/1.1"),
    "two spaces": get(path=" /healthz"), "no host": get(host=None),
    "two hosts": get("Host: 127.0.0.1:{port}"), "empty line in front of colon": get("A : b"),
    "no colon": get("nonsense"), "folded": get("A: b\r\n c"), "empty name": get(": x"),
    "control character": get("A: b\x01c"), "nul": get("A: b\0c"), "bare cr": get("A: b\rc"),
    "space in target": get(path="/heal thz"), "relative target": get(path="healthz"),
    "two lengths": get("Content-Length: 1", "Content-Length: 1", method="POST", path="/rpc"),
    "length list": get("Content-Length: 1, 1", method="POST", path="/rpc"),
    "signed length": get("Content-Length: +1", method="POST", path="/rpc"),
    "negative length": get("Content-Length: -1", method="POST", path="/rpc"),
    "hex length": get("Content-Length: 0x1", method="POST", path="/rpc"),
    "length and chunked": get("Content-Length: 5", "Transfer-Encoding: chunked", method="POST",
                              path="/rpc"),
    "huge length": get("Content-Length: 99999999999999999999", method="POST", path="/rpc"),
}


def test_malformed_heads_get_400_and_the_connection_closed(s):
    for what, build in MALFORMED.items():
        status, closed = raw(s, build(s))
        check(status == 400 or (what == "huge length" and status == 413), f"{what}: {status}")
        check(closed, f"{what}: the connection stays open")
    with s.http() as connection:
        connection.send(b"GET /healthz HTTP/1.1\nHost: x\n\n")
        eq(connection.response().status, 400, "bare line feeds")
    with s.http() as connection:
        connection.send(b"\x16\x03\x01\x02\x00\x01\x00" + bytes(200))
        eq(connection.response().status, 400, "a TLS hello")
    eq(s.get("/healthz").status, 200, "the server goes on")


def test_versions(s):
    eq(raw(s, get(version="HTTP/2.0")(s)), (505, True), "HTTP/2.0")
    eq(raw(s, get(version="HTTP/1.0")(s)), (200, True), "HTTP/1.0 closes")
    with s.http() as connection:
        for _ in range(2):
            connection.send(get("Connection: keep-alive", version="HTTP/1.0")(s))
            eq(connection.response().status, 200, "HTTP/1.0 with keep-alive")
    eq(raw(s, get(version="HTTP/1.0", host=None)(s))[0] in (200, 400, 403), True, "no Host in 1.0")


def test_connection_close_is_obeyed(s):
    eq(raw(s, get("Connection: close")(s)), (200, True), "close")
    eq(raw(s, get("Connection: Keep-Alive, Close")(s)), (200, True), "close in a list")


def test_unknown_transfer_encoding(s):
    for coding in ("gzip", "chunked, gzip", "gzip, chunked", "identity"):
        status, _ = raw(s, get(f"Transfer-Encoding: {coding}", method="POST", path="/rpc")(s))
        check(status in (400, 501), f"{coding}: {status}")


def test_blanks_around_values_are_no_part_of_them(s):
    n = len(LIST)
    with s.http() as connection:
        for length in (f":{n}", f":  {n}", f":\t{n}", f": {n} ", f": \t{n}\t \t"):
            head = connection.head("POST", "/rpc").replace(b"\r\n\r\n", b"\r\nContent-Length")
            connection.send(head + f"{length}\r\n\r\n".encode() + LIST)
            eq(connection.response().json()["id"], 1, f"Content-Length{length!r}")
        for coding in (":chunked", ":  chunked", ":\tchunked", ": chunked ", ": chunked\t "):
            head = connection.head("POST", "/rpc").replace(b"\r\n\r\n", b"\r\nTransfer-Encoding")
            connection.send(head + f"{coding}\r\n\r\n{n:x}\r\n".encode() + LIST
                            + b"\r\n0\r\n\r\n")
            eq(connection.response().json()["id"], 1, f"Transfer-Encoding{coding!r}")
    for value in ("5\x0b", "\x0c5", "5\xa0", "5 5", "5\r\n 5"):
        status, closed = raw(s, get(f"Content-Length: {value}", method="POST", path="/rpc")(s))
        eq((status, closed), (400, True), f"no blank: {value!r}")


def test_options_of_the_server_as_a_whole(s):
    with Http(s.port) as connection:
        answer = connection.request("OPTIONS", "*")
        eq((answer.status, answer.body), (204, b""), "no token, no body")
        eq(answer.headers["allow"], "GET, HEAD, POST, OPTIONS", "Allow")
        eq(connection.request("GET", "/healthz").status, 200, "the connection goes on")
    eq(raw(s, get("Connection: close", method="OPTIONS", path="*", host="Host: evil.example")(s))[0],
       403, "of another server")
    eq(raw(s, get(path="*")(s))[0], 400, "only OPTIONS may ask for it")


def test_large_heads(s):
    eq(raw(s, get("X: " + "y" * 17_000)(s))[0], 431, "a header of 17 kB")
    eq(raw(s, get(*(f"X{i}: y" for i in range(2000)))(s))[0], 431, "2000 headers")
    check(raw(s, get(path="/" + "y" * 17_000)(s))[0] in (414, 431), "a target of 17 kB")
    eq(raw(s, get("X: " + "y" * 12_000, "Connection: close")(s))[0], 200, "one of 12 kB")
    with s.http() as connection:
        connection.send(b"GET /" + b"y" * 20_000)
        check(connection.response().status in (414, 431), "an endless first line")


def test_chunked_bodies(s):
    with s.http() as connection:
        for pieces, tail in (((LIST,), b""), ((LIST[:1], LIST[1:5], LIST[5:]), b""),
                             (tuple(LIST[i:i + 1] for i in range(len(LIST))), b""),
                             ((LIST,), b"Trailer: x\r\n")):
            head = connection.head("POST", "/rpc", {"Transfer-Encoding": "chunked"})
            body = b"".join(b"%X;ext=\"1\"\r\n%s\r\n" % (len(p), p) for p in pieces)
            connection.send(head + body + b"0\r\n" + tail + b"\r\n")
            eq(connection.response().json()["result"]["conversations"], [], "answer")
    for bad in (b"x\r\n", b"-1\r\n", b"\r\n", b"1\nx\n0\n\n", b"5\r\nabcdefgh",
                b"ffffffffffffffffff\r\n", b"0x1\r\nx\r\n0\r\n\r\n", b"2\r\nx\r\n0\r\n\r\n"):
        with s.http() as connection:
            connection.send(connection.head("POST", "/rpc", {"Transfer-Encoding": "chunked"}) + bad
                            + b"0\r\n\r\n")
            status = connection.response().status
            check(status in (400, 413), f"{bad}: {status}")
            check(connection.is_closed(), f"{bad}: still open")


def test_pipelined_requests_are_answered_in_order(s):
    with s.http() as connection:
        many = b""
        for i in range(50):
            if i % 5 == 4:
                many += connection.message("GET", "/healthz")
            else:
                body = json.dumps({"jsonrpc": "2.0", "id": i, "method": "conversation.list"})
                many += connection.message("POST", "/rpc", body.encode())
        connection.send(many)
        for i in range(50):
            answer = connection.response()
            if i % 5 == 4:
                eq(answer.status, 200, f"healthz at {i}")
            else:
                eq(answer.json()["id"], i, "id")


def test_a_request_may_come_byte_by_byte(s):
    with s.http() as connection:
        for byte in connection.message("POST", "/rpc", LIST):
            connection.send(bytes([byte]))
        eq(connection.response().json()["id"], 1, "answer")
        connection.send(b"\r\n\r\n" + connection.message("POST", "/rpc", LIST))
        eq(connection.response().json()["id"], 1, "empty lines in front are skipped")


@server("net.request_seconds=1")
def test_a_request_that_never_ends_is_given_up(s):
    for part in (b"GET /healthz HTT", b"GET /healthz HTTP/1.1\r\nHost: 127", None):
        with s.http() as connection:
            if part is None:
                part = connection.head("POST", "/rpc", {"Content-Length": "10"}) + b"[1"
            connection.send(part)
            try:
                eq(connection.response().status, 408, "status")
            except Closed:
                pass
            check(connection.is_closed(), "still open")
    with s.http() as connection:
        connection.request("GET", "/healthz")
        eq(s.get("/healthz").status, 200, "others are served meanwhile")


def test_expect_continue(s):
    with s.http() as connection:
        fields = {"Expect": "100-continue", "Content-Length": str(len(LIST))}
        connection.send(connection.head("POST", "/rpc", fields))
        eq(connection.response().status, 100, "go on")
        connection.send(LIST)
        eq(connection.response().json()["id"], 1, "answer")
        eq(raw(s, get("Expect: 200-maybe")(s))[0], 417, "another expectation")


def test_absolute_targets(s):
    with s.http() as connection:
        connection.send(get(path=f"http://127.0.0.1:{s.port}/healthz")(s))
        eq(connection.response().status, 200, "absolute target")
    eq(raw(s, get(path="https://127.0.0.1:{port}/healthz")(s)), (421, True), "https without TLS")
    status, _ = raw(s, get("Connection: close", path="http://evil.example/healthz")(s))
    check(status in (400, 403), f"foreign absolute target: {status}")


def test_foreign_hosts_and_origins_are_refused(s):
    """DNS rebinding and other people's pages."""
    for host in ("evil.example", f"evil.example:{s.port}", "127.0.0.1.evil.example",
                 f"127.0.0.1:{s.port}.evil.example", f"user@127.0.0.1:{s.port}", ""):
        with s.http() as connection:
            answer = connection.request("POST", "/rpc", LIST, {"Host": host})
            check(answer.status in (400, 403), f"Host {host!r}: {answer}")
    for origin in ("http://evil.example", "null", f"http://127.0.0.1:{s.port + 1}",
                   f"http://127.0.0.1:{s.port}.evil.example", f"http://localhost:{s.port}", "x"):
        with s.http() as connection:
            answer = connection.request("POST", "/rpc", LIST, {"Origin": origin})
            eq(answer.status, 403, f"Origin {origin}")
        with s.http() as connection:
            eq(connection.request("GET", "/", headers={"Origin": origin}).status, 403, "GET /")
    for name in ("127.0.0.1", "localhost"):
        with s.http() as connection:
            own = {"Host": f"{name}:{s.port}", "Origin": f"http://{name}:{s.port}"}
            eq(connection.request("POST", "/rpc", LIST, own).status, 200, f"our own: {name}")


def test_no_or_bad_token_gets_401(s):
    for value in (None, "", "Bearer", "Bearer ", "Bearer x", "Basic " + s.token, s.token,
                  "Bearer " + s.token + "x", "Bearer " + s.token[:-1],
                  "Bearer " + s.token.swapcase(), f"Bearer {s.token} {s.token}",
                  "Bearer\t" + s.token, "Bearer" + s.token):
        with Http(s.port) as connection:
            for method, path in (("POST", "/rpc"), ("GET", "/events"), ("GET", "/ws")):
                body = LIST if method == "POST" else None
                answer = connection.request(method, path, body, {"Authorization": value})
                eq(answer.status, 401, f"{path} with {value!r:.20}")
                e = answer.json()["error"]
                eq((e["code"], e["data"]["name"]), (-32021, "UNAUTHENTICATED"), "error")
                check("Bearer" in answer.headers["www-authenticate"], f"{answer.headers}")
    with Http(s.port) as connection:
        for before in ("bearer ", "Bearer  ", "BEARER     "):
            answer = connection.request("POST", "/rpc", LIST, {"Authorization": before + s.token})
            eq(answer.status, 200, f"no case, one or more spaces: {before!r}")
    eq(s.get("/healthz?token=" + s.token).status, 200, "a query is no matter")


def test_some_doors_need_no_token(s):
    with Http(s.port) as connection:
        for path in ("/healthz", "/readyz", "/metrics"):
            eq(connection.request("GET", path).status, 200, path)
        check(connection.request("GET", "/").status in (200, 404), "the dashboard's page")


def test_answers_are_safe_to_show(s):
    answer = s.post(LIST)
    check(answer.headers["content-type"].startswith("application/json"), f"{answer.headers}")
    answer = s.get("/metrics")
    check(answer.headers["content-type"].startswith("text/plain"), f"{answer.headers}")


@server("net.connections_max=5")
def test_too_many_connections_are_told_so(s):
    s.talk()
    held = [s.http() for _ in range(4)]
    for connection in held:
        eq(connection.request("GET", "/healthz").status, 200, "within the limit")
    with s.http() as extra:
        try:
            answer = extra.response()
        except Closed:
            raise AssertionError("the connection over the limit got no answer") from None
        eq(answer.status, 503, "status")
        e = answer.json()["error"]
        eq((e["code"], e["data"]["name"], e["data"]["limit"]), (-32023, "RATE_LIMITED", 5), "error")
    eq(held[0].request("GET", "/healthz").status, 200, "the others are unharmed")
    held.pop().close()
    s.talk()


def test_half_closed_clients_get_their_answer(s):
    with s.http() as connection:
        connection.send(connection.message("POST", "/rpc", LIST))
        connection.sock.shutdown(1)
        eq(connection.response().json()["id"], 1, "answer")


def test_garbage_of_every_length_harms_nobody(s):
    c = s.talk()
    for n in range(1, 60, 3):
        for fill in (b"\0", b"\xff", b"\r\n", b" ", b":", b"POST /rpc HTTP/1.1\r\n"):
            with s.http() as connection:
                connection.send((fill * n)[:n * 7])
    eq(s.say(c, "a", "still here")["seq"], 2, "the server goes on")


if __name__ == "__main__":
    main()
