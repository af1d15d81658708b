"""Following the log: backlog, then live, without gap and without repeat, whoever else is slow."""
import json

from reeve_test import Closed, check, eq, main, server, together, wait_for


def numbers(ws, n):
    return [ws.event()["seq"] for _ in range(n)]


def test_welcome_is_the_first_frame(s):
    with s.socket() as ws:
        check(ws.welcome["server"] and ws.welcome["version"], f"{ws.welcome}")


def test_backlog_then_live(s):
    c = s.talk()
    s.say(c, "a", "before")
    with s.socket() as ws:
        ws.subscribe(conversation=c, afterSeq=0)
        eq(numbers(ws, 2), [1, 2], "backlog")
        s.say(c, "a", "after")
        event = ws.event()
        eq(event["seq"], 3, "live")
        eq(event, s.events(c)[-1] | ({"subscription": event["subscription"]}
                                     if "subscription" in event else {}), "the event itself")


def test_afterSeq_skips_what_is_known(s):
    c = s.talk()
    for i in range(5):
        s.say(c, "a", str(i))
    with s.socket() as ws:
        ws.subscribe(conversation=c, afterSeq=4)
        eq(numbers(ws, 2), [5, 6], "the rest")


def test_without_a_cursor_only_what_comes_is_pushed(s):
    c = s.talk()
    s.say(c, "a", "before")
    with s.socket() as ws:
        ws.subscribe(conversation=c)
        s.say(c, "a", "after")
        eq(ws.event()["seq"], 3, "the first event")


def test_all_conversations_in_commit_order_by_afterId(s):
    a, b = s.talk(), s.talk()
    ids = [s.say(c, "a", "x")["id"] for c in (a, b, a)]
    with s.socket() as ws:
        ws.subscribe(afterId=ids[0])
        eq([ws.event()["id"] for _ in range(2)], ids[1:], "backlog")
        c = s.talk()
        event = ws.event()
        eq((event["conversation"], event["payload"]["kind"]), (c, "meta_created"), "a new one")
        check(event["id"] > ids[-1], "ids grow")


def test_a_cursor_is_afterSeq_or_afterId(s):
    c = s.talk()
    with s.socket() as ws:
        ws.refused("INVALID_PARAMS", "event.subscribe", conversation=c, afterSeq=0, afterId=0)
        ws.refused("INVALID_PARAMS", "event.subscribe", afterSeq=0)
        ws.refused("INVALID_PARAMS", "event.subscribe", conversation=c, afterSeq=-1)
        ws.subscribe(conversation=c, afterId=0)
        eq(ws.event()["seq"], 1, "by id within one conversation")


def test_types_filter(s):
    c = s.talk()
    with s.socket() as ws:
        ws.subscribe(conversation=c, afterSeq=0, types=["message"])
        s.call("trace.append", conversation=c, agentId="a", payload={"type": "thought"})
        s.say(c, "a", "one")
        eq(ws.event()["seq"], 3, "backlog and live without traces and system events")
        ws.subscribe(conversation=c, afterSeq=0, types=["trace", "system"])
        eq(numbers(ws, 2), [1, 2], "the others")
        ws.refused("INVALID_PARAMS", "event.subscribe", conversation=c, types=["massage"])
        ws.refused("INVALID_PARAMS", "event.subscribe", conversation=c, types="message")


def test_L09_a_finished_conversation_can_be_followed_from_the_start(s):
    c = s.talk()
    s.say(c, "a", "quick")
    s.say(c, "a", "bye", "conversation")
    for _ in range(2):
        with s.socket() as ws:
            ws.subscribe(conversation=c, afterSeq=0)
            events = [ws.event() for _ in range(3)]
            eq(events[-1]["finality"], "conversation", "the end")
            ws.call("event.list", conversation=c)
            check(not ws.pushed, "and nothing after it")


def test_L09_no_gap_and_no_repeat_under_concurrent_writers(s):
    c = s.talk(maxTurns=100_000)
    writers, each = 4, 60
    total = 1 + writers * each
    logs = []

    def write(name):
        def go():
            with s.socket() as ws:
                for i in range(each):
                    ws.say(c, name, f"{name}{i}")
        return go

    def follow():
        with s.socket() as ws:
            ws.subscribe(conversation=c, afterSeq=0)
            logs.append([ws.event() for _ in range(total)])

    def follow_all():
        with s.socket() as ws:
            ws.subscribe(afterId=0)
            mine = []
            while len(mine) < total:
                event = ws.event()
                if event["conversation"] == c:
                    mine.append(event)
            logs.append(mine)

    def follow_sse():
        with s.stream("?after=0") as sse:
            mine = []
            while len(mine) < total:
                number, event = sse.next()
                eq(number, event["id"], "id line")
                if event["conversation"] == c:
                    mine.append(event)
            logs.append(mine)

    def follow_in_pieces():
        """Leaves and comes back with its cursor, again and again."""
        mine = []
        while len(mine) < total:
            with s.socket() as ws:
                ws.subscribe(conversation=c, afterSeq=len(mine))
                mine += [ws.event() for _ in range(min(17, total - len(mine)))]
        logs.append(mine)

    together(*(write(n) for n in "wxyz"), follow, follow, follow_all, follow_sse, follow_in_pieces)
    want = s.events(c)
    eq([e["seq"] for e in want], list(range(1, total + 1)), "the log")
    for log in logs:
        eq([e["seq"] for e in log], [e["seq"] for e in want], "what a follower saw")
        eq([e["id"] for e in log], [e["id"] for e in want], "ids")
        eq([e["payload"] for e in log], [e["payload"] for e in want], "payloads")


def test_the_reader_of_its_own_writes_sees_them_once(s):
    """Subscribe and send in one batch: the event is neither lost nor pushed twice."""
    c = s.talk()
    with s.socket() as ws:
        batch = [{"jsonrpc": "2.0", "id": 1, "method": "event.subscribe",
                  "params": {"conversation": c, "afterSeq": 0}},
                 {"jsonrpc": "2.0", "id": 2, "method": "message.send",
                  "params": {"conversation": c, "agentId": "a", "text": "x"}}]
        ws.text_out(json.dumps(batch))
        answers = None
        pushed = []
        while answers is None or len(pushed) < 2:
            message = json.loads(ws.text_in())
            if isinstance(message, list):
                answers = message
            else:
                pushed.append(message["params"]["seq"])
        check(all("result" in a for a in answers), f"{answers}")
        s.say(c, "a", "y")
        pushed.append(ws.event()["seq"])
        eq(pushed, [1, 2, 3], "pushed")


def test_unsubscribe_ends_only_that_subscription(s):
    c = s.talk()
    with s.socket() as ws:
        first = ws.subscribe(conversation=c, afterSeq=1)
        second = ws.subscribe(conversation=c, afterSeq=1)
        check(first != second, "subscriptions have names of their own")
        eq(ws.call("event.unsubscribe", subscription=first), {}, "answer")
        s.say(c, "a", "one")
        s.say(c, "a", "two")
        eq(numbers(ws, 2), [2, 3], "the other goes on")
        ws.refused("NOT_FOUND", "event.unsubscribe", subscription=first)


def test_unsubscribe_reaches_only_its_own_connection(s):
    c = s.talk()
    with s.socket() as mine, s.socket() as other:
        name = mine.subscribe(conversation=c, afterSeq=1)
        other.refused("NOT_FOUND", "event.unsubscribe", subscription=name)
        s.say(c, "a", "still here")
        eq(mine.event()["seq"], 2, "pushed")


def test_subscribe_needs_a_websocket(s):
    c = s.talk()
    e = s.refused("INVALID_REQUEST", "event.subscribe", conversation=c)
    check("WebSocket" in e.message, e.message)


def test_two_subscriptions_of_one_connection_are_independent(s):
    a, b = s.talk(), s.talk()
    with s.socket() as ws:
        ws.subscribe(conversation=a, afterSeq=0)
        ws.subscribe(conversation=b, afterSeq=0)
        s.say(a, "a", "x")
        s.say(b, "a", "x")
        seen = sorted((e["conversation"], e["seq"]) for e in (ws.event() for _ in range(4)))
        eq(seen, [(a, 1), (a, 2), (b, 1), (b, 2)], "events")


def test_stream_of_one_conversation(s):
    a, b = s.talk(), s.talk()
    s.say(b, "a", "not this")
    s.say(a, "a", "this")
    with s.stream(f"?conversation={a}&after=0") as sse:
        eq([sse.next()[1]["seq"] for _ in range(2)], [1, 2], "backlog")
        sent = s.say(a, "a", "and this")
        number, event = sse.next()
        eq((number, event["id"]), (sent["id"], sent["id"]), "id")
        eq(event, s.events(a)[-1], "the event")
        check("no-store" in sse.headers.get("cache-control", "no-store"), "not to be cached")


def test_stream_goes_on_where_it_was_left(s):
    c = s.talk()
    ids = [s.say(c, "a", str(i))["id"] for i in range(6)]
    with s.stream(f"?conversation={c}&after={ids[1]}") as sse:
        eq([sse.next()[0] for _ in range(4)], ids[2:], "after ?after")
    with s.stream(f"?conversation={c}", headers={"Last-Event-ID": str(ids[3])}) as sse:
        eq([sse.next()[0] for _ in range(2)], ids[4:], "after Last-Event-ID")
    with s.stream(f"?conversation={c}&after=0", headers={"Last-Event-ID": str(ids[4])}) as sse:
        eq(sse.next()[0], ids[5], "the header wins")
    s.restart()
    with s.stream(f"?conversation={c}", headers={"Last-Event-ID": str(ids[4])}) as sse:
        eq(sse.next()[0], ids[5], "also after a crash")


def test_stream_refuses_bad_queries(s):
    for query, status in (("?conversation=77", 404), ("?conversation=x", 400), ("?after=-1", 400),
                          ("?after=1e3", 400), ("?after=99999999999999999999", 400),
                          ("?conversation=", 400)):
        with s.stream(query) as sse:
            eq(sse.status, status, query)
            check(json.loads(sse.body)["error"]["message"], "says why")
    with s.stream(headers={"Last-Event-ID": "soon"}) as sse:
        eq(sse.status, 400, "bad Last-Event-ID")


@server("net.ping_seconds=1")
def test_streams_are_pinged(s):
    c = s.talk()
    with s.stream(f"?conversation={c}&after=0") as sse, s.socket() as ws:
        sse.next()
        wait_for(lambda: b"\n\n" in sse.text or sse.fill(None), "a comment")
        check(sse.text.startswith(b":"), f"a comment: {sse.text}")
        eq(ws.frame_in()[0], 9, "a ping on the WebSocket")


BIG = "x" * 60_000


def resident_kb(pid):
    """0 for a sanitized build, whose memory says nothing."""
    with open(f"/proc/{pid}/maps") as f:
        if "san.so" in f.read():
            return 0
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


@server("net.out_bytes_max=65536", "net.body_bytes_max=65536")
def test_a_reader_that_never_reads_disturbs_nobody_and_loses_nothing(s):
    c = s.talk()
    with s.socket(receive_buffer=4096) as slow, s.socket() as quick, \
            s.stream(f"?conversation={c}&after=0", receive_buffer=4096) as slow_sse:
        slow.subscribe(conversation=c, afterSeq=0)
        quick.subscribe(conversation=c, afterSeq=0)
        for i in range(150):  # some 9 MB, far more than buffers hold
            s.say(c, "a", f"{i} {BIG}")
        eq(numbers(quick, 151), list(range(1, 152)), "the quick one")
        memory = resident_kb(s.process.pid)
        eq(numbers(slow, 151), list(range(1, 152)), "the slow one, once it reads")
        eq([slow_sse.next()[1]["seq"] for _ in range(151)], list(range(1, 152)), "the slow stream")
        check(memory < 80_000, f"the server held {memory} kB for it")


@server("net.out_bytes_max=65536", "net.body_bytes_max=65536", "net.stall_seconds=1")
def test_a_reader_that_takes_nothing_for_too_long_is_dropped(s):
    c = s.talk()

    def connections():
        lines = s.get("/metrics").body.decode().splitlines()
        return next(line for line in lines if line.startswith("reeve_connections "))

    before = connections()
    with s.socket(receive_buffer=4096) as slow:
        slow.subscribe(conversation=c, afterSeq=0)
        for i in range(150):
            s.say(c, "a", f"{i} {BIG}")
        wait_for(lambda: connections() == before, "the connection to be dropped")
        try:
            while True:
                slow.text_in()
        except Closed:
            pass
    eq(s.say(c, "a", "on we go")["seq"], 152, "the server goes on")


def test_answers_come_in_the_order_of_the_requests(s):
    c = s.talk()
    with s.socket() as ws:
        for i in range(200):
            method, params = (("message.send", {"conversation": c, "agentId": "a", "text": str(i)})
                              if i % 3 else ("conversation.get", {"conversation": c}))
            ws.text_out(json.dumps({"jsonrpc": "2.0", "id": i, "method": method, "params": params}))
        for i in range(200):
            ws.answer(i)
    texts = [e["payload"]["text"] for e in s.events(c)[1:]]
    eq(texts, [str(i) for i in range(200) if i % 3], "and take effect in that order")


if __name__ == "__main__":
    main()
