"""Every error the contract names can be had, and every method is called by some test."""
import glob
import json
import os
import re

from reeve_test import ERRORS, Http, Server, check, eq, main, reeve

HERE = os.path.dirname(os.path.abspath(__file__))
DOCS = os.path.join(HERE, "..", "..", "docs", "protocol.md")
# INTERNAL has no door from outside; a unit test makes it. UNAVAILABLE needs a full disk, and a budget
# a clock that is stepped.
ELSEWHERE = {"INTERNAL": "tests/unit", "UNAVAILABLE": "test_disk_full.py",
             "CONVERSATION_BLOCKED": "test_budget.py", "INVALID_TRANSITION": "test_budget.py",
             "SUPERSEDED": "test_tasks.py", "STALE_EPOCH": "test_tasks.py"}


def documented():
    with open(DOCS) as f:
        return f.read()


def by_wire(s, body):
    return s.post(body).json()["error"]["data"]["name"]


def unauthenticated(s):
    with Http(s.port) as connection:
        return connection.request("POST", "/rpc", b"{}").json()["error"]["data"]["name"]


def too_large(s):
    with s.http() as connection:
        connection.send(connection.head("POST", "/rpc", {"Content-Length": str(1 << 30)}))
        return connection.response().json()["error"]["data"]["name"]


def rate_limited(s, c):
    with s.socket() as ws:
        for _ in range(1000):
            answer = ws.exchange({"jsonrpc": "2.0", "id": 1, "method": "event.subscribe",
                                  "params": {"conversation": c}})
            if "error" in answer:
                check(answer["error"]["data"]["limit"] > 0, "it says the limit")
                return answer["error"]["data"]["name"]
    return None


def test_every_error_of_the_contract_can_be_had(s):
    c, ended = s.talk(), s.talk()
    s.call("conversation.end", conversation=ended)
    s.say(c, "a", "open", clientRequestId="k")
    say = {"conversation": c, "agentId": "a", "text": "x"}
    thought = {"type": "thought", "content": ""}
    fresh = s.talk()
    got = {
        by_wire(s, b"{"), by_wire(s, b"[]"), unauthenticated(s), too_large(s), rate_limited(s, c),
        s.refused("NO_METHOD", "no.such").name,
        s.refused("INVALID_PARAMS", "conversation.get").name,
        s.refused("TURN_ALREADY_OPEN", "message.send", **say, turn=2).name,
        s.refused("CONVERSATION_FINALIZED", "message.send", **say | {"conversation": ended}).name,
        s.refused("INVALID_TURN", "message.send", **say | {"conversation": fresh}, turn=5).name,
        s.refused("FINALITY_RULE", "trace.append", conversation=c, agentId="a", payload=thought,
                  finality="turn").name,
        s.refused("NOT_FOUND", "conversation.get", conversation=99).name,
        s.refused("IDEMPOTENCY_CONFLICT", "message.send", **say, clientRequestId="k").name,
        s.refused("PRECONDITION_FAILED", "message.send", **say,
                  precondition={"lastClosedSeq": 7}).name,
        s.refused("FORBIDDEN", "message.send", **say | {"agentId": "b"}, finality="turn").name,
    }
    listed = dict(re.findall(r"^\| (-32\d+) \| `(\w+)` \|", documented(), re.M))
    names = {name: int(code) for code, name in listed.items()}
    eq(names, {n: c for n, c in ERRORS.items() if n in names}, "documented names and codes")
    eq(set(ERRORS) - set(names), set(), "errors that are not documented")
    eq(set(names) - got - set(ELSEWHERE), set(), "errors that nothing here produced")


def sources():
    text = ""
    for path in glob.glob(os.path.join(HERE, "test_*.py")):
        if os.path.basename(path) != os.path.basename(__file__):
            with open(path) as f:
                text += f.read()
    return text


def test_every_method_is_called_by_a_test():
    methods = re.findall(r"^### `([\w.]+)`", documented(), re.M)
    check(len(methods) > 10, f"methods {methods}")
    text = sources()
    missing = [m for m in methods if f'"{m}"' not in text]
    eq(missing, [], "methods that no test calls")


def test_every_documented_method_exists():
    s = Server().start()
    for method in re.findall(r"^### `([\w.]+)`", documented(), re.M):
        done = reeve("rpc", method, '{"no-such-member":1}', "--json", data=s.data)
        name = json.loads(done.stderr or done.stdout)["error"]["data"]["name"]
        eq(name, "INVALID_PARAMS", f"answer of {method}")
    s.stop()


if __name__ == "__main__":
    main()
