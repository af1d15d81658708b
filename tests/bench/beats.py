"""Very many participants that beat at their usual pace, a part of make bench (work.py).

All join, then each beats once per period, evenly spread. One percent, picked at random, beat once
and fall silent. What does that cost, and how late is each of the silent found expired? From the
log: the time of watch.participant.expire, less lastSeenAt + ttlMs + 1 ms. In the end the log must
hold one for each of the silent, and none for any other.

Every join and heartbeat is a WebSocket message of its own; those of one turn are sent in one go.
"""

import json
import os
import random
import socket
import struct
import time

from fill import open_store
from ladder import Client, percentiles
from servers import Failure, say

ROLES = 10  # per conversation
TURN_S = 0.05
JOINS_AT_ONCE = 200


class Pipe:
    """Requests over one WebSocket, many before the first answer."""

    def __init__(self, server):
        host, port = server.address.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self.socket.sendall((
            f"GET /ws HTTP/1.1\r\nHost: {server.address}\r\nAuthorization: Bearer {server.secret}"
            "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n").encode())
        self.await_answers(1, b'"welcome"')

    @staticmethod
    def request(method, params):
        """A text frame. Its mask is zero, which changes nothing and costs us nothing."""
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        return struct.pack("!BBHI", 0x81, 0x80 | 126, len(body), 0) + body

    def ask(self, requests, success):
        """Waits until as many answers have `success` in them as there are requests."""
        self.socket.sendall(b"".join(requests))
        self.await_answers(len(requests), success)

    def await_answers(self, count, success):
        got = bytearray()
        while (good := got.count(success)) < count:
            more = self.socket.recv(1 << 18)
            if not more or b'"error":' in more:
                raise Failure(f"{good} of {count} answered, then {bytes(more[-300:])}")
            got += more


def cpu_seconds(server):
    with open(f"/proc/{server.process.pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def join_all(server, pipe, count):
    """A heartbeat's request for each participant."""
    roles = [f"r{n}" for n in range(ROLES)]
    params = {"agents": [{"role": role} for role in roles]}
    made = Client(server).batch("conversation.create", [params] * (count // ROLES))
    people = [{"conversation": each["conversation"], "role": role, "connectionId": "bench"}
              for each in made for role in roles]
    joins = [pipe.request("participant.join", person) for person in people]
    for i in range(0, len(joins), JOINS_AT_ONCE):
        pipe.ask(joins[i:i + JOINS_AT_ONCE], b'"status":"waiting"')
    return [pipe.request("participant.heartbeat", person) for person in people]


def beat(pipe, beats, silent, period, until):
    """Everybody once per period, the silent in the first one only, until a time; how many."""
    begin, at, sent = time.monotonic(), 0, 0
    while (now := time.monotonic()) < until:
        due = int((now - begin) / period * len(beats))
        turn = [beats[i % len(beats)] for i in range(at, due)
                if i < len(beats) or i % len(beats) not in silent]
        if turn:
            pipe.ask(turn, b'"status":"ok"')
        at, sent = due, sent + len(turn)
        time.sleep(max(0, TURN_S - (time.monotonic() - now)))
    return sent


def lateness(folder, silent):
    db = open_store(folder)
    rows = db.execute("SELECT ts, payload FROM conversation_events WHERE type = 'system' AND"
                      " payload LIKE '%\"watch.participant.expire\"%'").fetchall()
    values = [db.execute("SELECT ? - CAST(ROUND((julianday(?) - 2440587.5) * 86400000) AS INTEGER)",
                         (ts - data["ttlMs"] - 1, data["lastSeenAt"])).fetchone()[0]
              for ts, data in ((ts, find_data(json.loads(payload))) for ts, payload in rows)]
    db.close()
    if len(values) != silent:
        raise Failure(f"{silent} fell silent, and {len(values)} were found expired")
    return percentiles(values)


def find_data(payload):
    """Where the event's own fields are, under whatever wraps them."""
    while "lastSeenAt" not in payload:
        payload = payload["data"]
    return payload


def measure(bench):
    count, period = bench.args.participants // ROLES * ROLES, bench.args.beat_seconds
    ttl = period * 3 // 2
    options = ("--set", f"liveness.heartbeat_seconds={period}",
               "--set", f"liveness.ttl_seconds={ttl}")
    with bench.reeve(options=options) as server:
        say(f"  {count} participants, beating every {period} s")
        pipe, before = Pipe(server), server.memory()
        beats = join_all(server, pipe, count)
        silent = set(random.Random(1).sample(range(count), max(1, count // 100)))
        begin, cpu = time.monotonic(), cpu_seconds(server)
        # The last of them beats at the end of the first period.
        sent = beat(pipe, beats, silent, period, begin + period + ttl + 1)
        out = {"count": count, "period": period, "silent": len(silent), "sent": sent,
               "cpu_s": cpu_seconds(server) - cpu, "seconds": time.monotonic() - begin,
               "before_bytes": before, "bytes": server.memory()}
    return out | {"late": lateness(server.folder, len(silent))}


def report(r):
    print(f"| {r['count']} participants beat every {r['period']} s | |\n|---|--:|")
    print(f"| heartbeats | {r['sent']} in {r['seconds']:.0f} s,"
          f" {r['sent'] / r['seconds']:.0f}/s |")
    print(f"| CPU | {r['cpu_s']:.1f} s, {r['cpu_s'] / r['seconds'] * 100:.1f} % of one |")
    print(f"| RSS | {r['bytes'] / 1e6:.1f} MB,"
          f" {(r['bytes'] - r['before_bytes']) / r['count']:.0f} bytes each |")
    late = ", ".join(f"{name} {value}" for name, value in r["late"].items())
    print(f"| `participant.expire` of {r['silent']} that fell silent, ms late | {late} |\n")
