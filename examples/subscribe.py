#!/usr/bin/env python3
"""subscribe.py: follows a conversation over a WebSocket, in plain Python, to show every byte.

    python3 subscribe.py CONVERSATION [AFTER_SEQ]

The server is named by REEVE_URL and REEVE_TOKEN.
"""
import base64
import json
import os
import socket
import sys

host, port = os.environ["REEVE_URL"].removeprefix("http://").split(":")
s = socket.create_connection((host, int(port)))
f = s.makefile("rb")
s.sendall(f"""GET /ws HTTP/1.1\r
Host: {host}:{port}\r
Authorization: Bearer {os.environ["REEVE_TOKEN"]}\r
Upgrade: websocket\r
Connection: Upgrade\r
Sec-WebSocket-Version: 13\r
Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r
\r\n""".encode())
while f.readline() not in (b"\r\n", b""):
    pass
text = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "event.subscribe", "params": {
    "conversation": int(sys.argv[1]), "afterSeq": int((sys.argv + ["0"])[2])}}).encode()
s.sendall(bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text)  # text frame, a mask of zeros
while head := f.read(2):
    n = head[1]  # 126: the length is in the next two bytes; pings are empty
    body = f.read(int.from_bytes(f.read(2), "big") if n == 126 else n)
    if head[0] == 0x81:
        print(body.decode(), flush=True)
