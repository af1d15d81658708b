"""Strict little clients for HTTP/1.1, WebSocket and server-sent events, on plain sockets.

They are ours, and not a library's, for two reasons: the tests must be able to send what a good
client never sends (half a request, a frame with a reserved bit), and they must notice what a
lenient client forgives (a masked server frame, a missing length, a bare line feed).
"""
import base64
import collections
import hashlib
import json
import os
import socket
import struct
import time

PATIENCE = 20 * float(os.environ.get("TAP_SLOW", "1"))  # seconds for any one answer


class Closed(Exception):
    """The peer closed the connection where something was still expected."""


class Violation(AssertionError):
    """The peer broke the protocol."""


class Stream:
    """A socket with a read buffer and a deadline for every wait."""

    def __init__(self, port, receive_buffer=None):
        self.sock = socket.socket()
        if receive_buffer:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(("127.0.0.1", port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray()

    def send(self, data):
        self.sock.sendall(data)

    def more(self, timeout=None):
        """Reads what there is into the buffer; Closed at the end, TimeoutError if nothing comes."""
        self.sock.settimeout(PATIENCE if timeout is None else max(timeout, 0.001))
        try:
            data = self.sock.recv(1 << 18)
        except ConnectionError as e:
            raise Closed(str(e)) from e
        if not data:
            raise Closed("end of stream")
        self.buffer += data

    def take(self, n, timeout=None):
        while len(self.buffer) < n:
            self.more(timeout)
        data = bytes(self.buffer[:n])
        del self.buffer[:n]
        return data

    def line(self, timeout=None, end=b"\r\n"):
        while (at := self.buffer.find(end)) < 0:
            self.more(timeout)
        line = bytes(self.buffer[:at])
        del self.buffer[: at + len(end)]
        return line

    def is_closed(self, timeout=None):
        """Waits for the end of the stream; False if anything else arrives."""
        try:
            if not self.buffer:
                self.more(timeout)
            return False
        except Closed:
            return True

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


class Response:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.headers} {self.body[:300]!r}>"


class Http(Stream):
    """A keep-alive connection. request() does the usual thing, send() and response() the rest."""

    def __init__(self, port, token=None, **options):
        super().__init__(port, **options)
        self.port, self.token = port, token

    def head(self, method, path, headers=None):
        fields = {"Host": f"127.0.0.1:{self.port}"}
        if self.token:
            fields["Authorization"] = "Bearer " + self.token
        fields.update(headers or {})
        lines = [f"{method} {path} HTTP/1.1"]
        lines += [f"{k}: {v}" for k, v in fields.items() if v is not None]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def message(self, method, path, body=None, headers=None):
        headers = dict(headers or {})
        if body is not None:
            headers.setdefault("Content-Length", str(len(body)))
            headers.setdefault("Content-Type", "application/json")
        return self.head(method, path, headers) + (body or b"")

    def request(self, method, path, body=None, headers=None):
        self.send(self.message(method, path, body, headers))
        return self.response(method)

    def response_head(self, timeout=None):
        version, _, rest = self.line(timeout).partition(b" ")
        if version != b"HTTP/1.1":
            raise Violation(f"status line {version!r} {rest!r}")
        headers = {}
        while field := self.line(timeout):
            name, colon, value = field.partition(b":")
            if not colon or name != name.strip() or b"\n" in field:
                raise Violation(f"header {field!r}")
            headers[name.decode().lower()] = value.strip().decode()
        return int(rest[:3]), headers

    def response(self, method="GET", timeout=None):
        status, headers = self.response_head(timeout)
        if method == "HEAD" or status in (101, 204, 304) or status < 200:
            return Response(status, headers, b"")
        if "chunked" in headers.get("transfer-encoding", ""):
            return Response(status, headers, b"".join(self.chunks(timeout)))
        if "content-length" not in headers:
            raise Violation(f"a body without a length: {status} {headers}")
        return Response(status, headers, self.take(int(headers["content-length"]), timeout))

    def chunks(self, timeout=None):
        while size := int(self.line(timeout), 16):
            yield self.take(size, timeout)
            if self.take(2, timeout) != b"\r\n":
                raise Violation("chunk without its line end")
        self.line(timeout)


TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


def frame(opcode, payload=b"", fin=True, rsv=0, mask=True, key=b"\x12\x34\x56\x78"):
    """A client frame, well formed unless told otherwise."""
    n = len(payload)
    first = (0x80 if fin else 0) | rsv << 4 | opcode
    bit = 0x80 if mask else 0
    if n < 126:
        head = struct.pack("!BB", first, bit | n)
    elif n < 1 << 16:
        head = struct.pack("!BBH", first, bit | 126, n)
    else:
        head = struct.pack("!BBQ", first, bit | 127, n)
    if not mask:
        return head + payload
    pad = (key * (n // 4 + 1))[:n]
    masked = (int.from_bytes(payload, "big") ^ int.from_bytes(pad, "big")).to_bytes(n, "big")
    return head + key + masked


class WebSocket(Http):
    """The client's side of RFC 6455. JSON-RPC on top of it is in reeve_test.py."""

    def __init__(self, port, token=None, path="/ws", headers=None, receive_buffer=None):
        super().__init__(port, token, receive_buffer=receive_buffer)
        key = base64.b64encode(os.urandom(16)).decode()
        upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": key,
                   "Sec-WebSocket-Version": "13"}
        self.send(self.head("GET", path, upgrade | (headers or {})))
        status, self.fields = self.response_head()
        fields = self.fields
        self.refusal = None
        if status != 101:
            n = int(fields.get("content-length", 0))
            self.refusal = Response(status, fields, self.take(n))
            return
        guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        want = base64.b64encode(hashlib.sha1((key + guid).encode()).digest()).decode()
        if fields.get("sec-websocket-accept") != want:
            raise Violation(f"Sec-WebSocket-Accept {fields}")
        if fields.get("upgrade", "").lower() != "websocket":
            raise Violation(f"Upgrade {fields}")
        self.close_code, self.close_reason = None, None
        self.pongs = collections.deque()

    def frame_in(self, timeout=None):
        """(opcode, payload) of one server frame, checked as strictly as the RFC allows."""
        while len(self.buffer) < 2:
            self.more(timeout)
        first, second = self.buffer[0], self.buffer[1]
        n, skip = second & 0x7F, 2
        if n >= 126:
            skip += 2 if n == 126 else 8
            while len(self.buffer) < skip:
                self.more(timeout)
            short = n
            n = int.from_bytes(self.buffer[2:skip], "big")
            if n < (126 if short == 126 else 1 << 16):
                raise Violation("length not in its shortest form")
        opcode = first & 0x0F
        if second & 0x80 or first & 0x70 or not first & 0x80:
            raise Violation(f"masked, reserved or fragmented server frame {first:x} {second:x}")
        if opcode not in (TEXT, CLOSE, PING, PONG) or (opcode >= 8 and n > 125):
            raise Violation(f"server frame {opcode} of {n} bytes")
        return opcode, self.take(skip + n, timeout)[skip:]

    def text_in(self, timeout=None):
        """The next text message; answers pings; Closed (with close_code set) at the end."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            opcode, payload = self.frame_in(left)
            if opcode == TEXT:
                return payload.decode("utf-8")
            if opcode == PING:
                self.send(frame(PONG, payload))
            elif opcode == PONG:
                self.pongs.append(payload)
            else:
                self.on_close(payload)

    def on_close(self, payload):
        if len(payload) == 1:
            raise Violation("close frame with one byte")
        self.close_code = int.from_bytes(payload[:2], "big") if payload else 1005
        self.close_reason = payload[2:].decode("utf-8")
        try:
            self.send(frame(CLOSE, payload[:2]))
        except OSError:
            pass
        raise Closed(f"close {self.close_code} {self.close_reason}")

    def wait_close(self, timeout=None):
        """Reads to the close frame and then to the end of the stream; returns the code."""
        try:
            while True:
                self.text_in(timeout)
        except Closed:
            pass
        if self.close_code is None:
            raise Violation("the stream ended without a close frame")
        if not self.is_closed(timeout):
            raise Violation("bytes after the close frame")
        return self.close_code

    def text_out(self, text, pieces=1):
        data = text.encode()
        step = -(-len(data) // pieces) or 1
        parts = [data[i : i + step] for i in range(0, len(data), step)] or [b""]
        for i, part in enumerate(parts):
            self.send(frame(0 if i else TEXT, part, fin=i == len(parts) - 1))


class EventStream(Http):
    """GET /events. next() gives (id, data) with data parsed; comments are counted."""

    def __init__(self, port, token=None, query="", headers=None, receive_buffer=None):
        super().__init__(port, token, receive_buffer=receive_buffer)
        fields = {"Accept": "text/event-stream"} | (headers or {})
        self.send(self.head("GET", "/events" + query, fields))
        self.status, self.headers = self.response_head()
        self.comments = 0
        if self.status != 200:
            n = int(self.headers.get("content-length", 0))
            self.body = self.take(n)
            return
        if not self.headers["content-type"].startswith("text/event-stream"):
            raise Violation(f"not an event stream: {self.headers}")
        self.chunked = self.headers.get("transfer-encoding") == "chunked"
        self.text = bytearray()

    def fill(self, timeout):
        """Moves more of the body into self.text."""
        if self.chunked:
            size = int(self.line(timeout), 16)
            data = self.take(size + 2, timeout)
            if data[size:] != b"\r\n":
                raise Violation("chunk without its line end")
            if not size:
                raise Closed("last chunk")
            self.text += data[:size]
        else:
            if not self.buffer:
                self.more(timeout)
            self.text += self.take(len(self.buffer))

    def next(self, timeout=None):
        while True:
            while (at := self.text.find(b"\n\n")) < 0:
                self.fill(timeout)
            block = self.text[:at].decode("utf-8")
            del self.text[: at + 2]
            fields = collections.defaultdict(list)
            for line in block.split("\n"):
                name, _, value = line.partition(":")
                fields[name].append(value.removeprefix(" "))
            self.comments += len(fields.pop("", ()))
            if "data" in fields:
                return int(fields["id"][0]), json.loads("\n".join(fields["data"]))
