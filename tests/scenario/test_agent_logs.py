"""agent.logs: what an agent has printed, asked of its machine while somebody waits."""
import json

from crew import talk
from reeve_test import RpcError, Socket, check, eq, main
from scripted_machine import TTL_MS, Machine, MachinePoll, boot
from watch_model import advance, manual


def running(s):
    m = Machine(s)
    c = talk(s, "a", kind="worker")
    s.call("lifecycle.ensure", conversation=c)
    boot(s, m, c)
    return m, c


class Asked:
    """An agent.logs under way."""

    def __init__(self, s, c, **more):
        self.socket = Socket(s.port, s.token)
        self.send(1, "agent.logs", conversation=c, role="a", **more)
        self.send(2, "server.info")  # the one behind it is answered: it waits
        eq(self.next()["id"], 2, "the answer that comes first")

    def send(self, number, method, **params):
        self.socket.text_out(json.dumps({"jsonrpc": "2.0", "id": number, "method": method,
                                         "params": params}))

    def next(self):
        return json.loads(self.socket.text_in())


def log(m, request, text="one\n", **more):
    return m.client.call("machine.log", **m.identity(), request=request, text=text, **more)


@manual()
def test_the_machine_is_asked_and_its_answer_is_handed_on(s):
    m, c = running(s)
    asked = Asked(s, c, tailBytes=100)
    (given,) = m.poll()
    eq({k: given[k] for k in ("type", "conversation", "role", "tailBytes")},
       {"type": "read-log", "conversation": c, "role": "a", "tailBytes": 100}, "what it is asked")
    eq(m.poll(), [], "asked once")
    log(m, given["request"], "a\nb\n", truncated=True, next="7:12")
    eq(asked.next()["result"], {"text": "a\nb\n", "truncated": True, "next": "7:12"}, "answer")
    check_gone(m, given["request"])


def check_gone(m, request):
    try:
        log(m, request)
    except RpcError as e:
        eq(e.name, "NOT_FOUND", "nobody waits any more")
        return
    raise AssertionError("an answer that nobody waits for was taken")


@manual()
def test_how_many_lines_are_left_out_is_handed_on(s):
    m, c = running(s)
    asked = Asked(s, c, tailBytes=2)
    (given,) = m.poll()
    log(m, given["request"], "b\n", truncated=True, next="7:12", linesBefore=1234)
    eq(asked.next()["result"]["linesBefore"], 1234, "lines before it")


@manual()
def test_what_came_since_is_asked_for_by_position(s):
    m, c = running(s)
    asked = Asked(s, c, after="7:12")
    (given,) = m.poll()
    eq(given["after"], "7:12", "position")
    log(m, given["request"], "", next="7:12")
    eq(asked.next()["result"]["text"], "", "nothing new")


@manual()
def test_a_poll_under_way_is_answered_at_once(s):
    m, c = running(s)
    poll = MachinePoll(m)
    check(poll.is_waiting(), "nothing to do")
    asked = Asked(s, c)
    (given,) = poll.answer()
    log(m, given["request"])
    eq(asked.next()["result"]["text"], "one\n", "text")


@manual()
def test_each_waits_for_its_own_answer(s):
    m, c = running(s)
    first, second = Asked(s, c), Asked(s, c)
    numbers = sorted(x["request"] for x in m.poll())
    for text, number in zip(("one\n", "two\n"), numbers):
        log(m, number, text)
    eq([x.next()["result"]["text"] for x in (first, second)], ["one\n", "two\n"], "each its own")


@manual()
def test_no_machine_and_an_offline_one_are_told_at_once(s):
    c = talk(s, "a")
    refuse(s, c, "NOT_FOUND")
    m, d = running(s)
    advance(s, TTL_MS + 1)
    refuse(s, d, "UNAVAILABLE")


def refuse(s, c, name):
    try:
        s.call("agent.logs", conversation=c, role="a")
    except RpcError as e:
        eq(e.name, name, "error")
        return
    raise AssertionError(f"not refused with {name}")


@manual()
def test_another_machine_cannot_answer(s):
    m, c = running(s)
    other = Machine(s, "m2")
    asked = Asked(s, c)
    (given,) = m.poll()
    check_gone(other, given["request"])
    log(m, given["request"])
    eq(asked.next()["result"]["text"], "one\n", "text")


@manual()
def test_many_that_nobody_answers_are_refused_and_forgotten(s):
    m, c = running(s)
    waiting = [Asked(s, c) for _ in range(64)]
    refuse(s, c, "RATE_LIMITED")
    for x in waiting:
        x.socket.close()
    advance(s, 60_001)
    m.poll()
    asked = Asked(s, c)
    given = max(m.poll(), key=lambda x: x["request"])
    log(m, given["request"])
    eq(asked.next()["result"]["text"], "one\n", "there is room again")


main()
