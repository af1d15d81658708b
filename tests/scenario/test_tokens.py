"""Tokens and scopes: what a token may not see looks as if it were not there."""
import os

from reeve_test import Client, Closed, RpcError, check, eq, main, wait_for


def test_create_list_revoke(s):
    made = s.call("token.create", scope="read")
    check(len(made["secret"]) >= 32, "a secret worth its name")
    client = Client(s.port, made["secret"])
    client.call("conversation.list")
    listed = s.call("token.list")["tokens"]
    mine = [t for t in listed if t["token"] == made["token"]]
    eq(len(mine), 1, "entries")
    eq(mine[0]["scope"], "read", "scope")
    check(made["secret"] not in str(listed), "the secret is not shown again")
    eq(s.call("token.revoke", token=made["token"]), {}, "answer")
    for attempt in (lambda: client.call("conversation.list"),
                    lambda: Client(s.port, made["secret"]).call("conversation.list")):
        try:
            attempt()
        except RpcError as e:
            eq(e.name, "UNAUTHENTICATED", "after it was revoked")
        else:
            raise AssertionError("a revoked token still opens")
    s.refused("NOT_FOUND", "token.revoke", token=made["token"] + 1000)


def test_tokens_survive_a_crash_and_stay_revoked(s):
    kept, gone = s.call("token.create", scope="read"), s.call("token.create", scope="read")
    s.call("token.revoke", token=gone["token"])
    s.restart()
    Client(s.port, kept["secret"]).call("conversation.list")
    eq(Client(s.port, gone["secret"]).post(b"{}").status, 401, "the revoked one")


def test_a_revoked_token_ends_its_streams(s):
    c = s.talk()
    made = s.call("token.create", scope="read")
    client = Client(s.port, made["secret"])
    with client.socket() as ws, client.stream(f"?conversation={c}") as sse:
        ws.subscribe(conversation=c, afterSeq=1)
        s.call("token.revoke", token=made["token"])
        check(ws.wait_close() in (1008, 4401, 3000), f"close {ws.close_code} {ws.close_reason}")
        check(drained(sse), "the event stream ends")


def drained(sse):
    """Reads to the end of an event stream."""
    try:
        while True:
            sse.next()
    except Closed:
        return True


def test_a_token_with_a_ttl_expires(s):
    made = s.call("token.create", scope="read", ttl="1s")
    check(made["expiresAt"], "it says when")
    client = Client(s.port, made["secret"])

    def expired():
        try:
            client.call("conversation.list")
        except RpcError as e:
            eq(e.name, "UNAUTHENTICATED", "error")
            return True
        return False

    wait_for(expired, "the token to expire")
    for wrong in ("", "1", "soon", "-1s", "0s", 5):
        s.refused("INVALID_PARAMS", "token.create", scope="read", ttl=wrong)


def test_create_checks_what_a_scope_needs(s):
    c = s.talk()
    for wrong in ({"scope": "root"}, {}, {"scope": "agent"}, {"scope": "agent", "conversation": c},
                  {"scope": "agent", "role": "a"}, {"scope": "machine"},
                  {"scope": "operator", "conversation": c}, {"scope": "read", "role": "a"}):
        s.refused("INVALID_PARAMS", "token.create", **wrong)
    s.refused("NOT_FOUND", "token.create", scope="agent", conversation=99, role="a")


def test_read_scope_reads_and_cannot_write(s):
    c = s.talk()
    s.say(c, "a", "hello", attachments=[{"name": "f", "contentType": "x/y", "text": "t"}])
    reader = s.as_token(scope="read")
    eq(len(reader.events(c)), 2, "events")
    eq(reader.call("conversation.get", conversation=c)["conversation"], c, "get")
    eq(len(reader.call("conversation.list")["conversations"]), 1, "list")
    number = reader.events(c)[-1]["payload"]["attachments"][0]["id"]
    eq(reader.call("attachment.get", id=number)["name"], "f", "attachment")
    with reader.socket() as ws:
        ws.subscribe(conversation=c, afterSeq=0)
        eq([ws.event()["seq"], ws.event()["seq"]], [1, 2], "subscription")
    for method, params in (
        ("conversation.create", {"agents": [{"role": "a"}]}),
        ("conversation.end", {"conversation": c}),
        ("message.send", {"conversation": c, "agentId": "a", "text": "x"}),
        ("trace.append", {"conversation": c, "agentId": "a",
                          "payload": {"type": "thought", "content": ""}}),
        ("turn.clear", {"conversation": c, "agentId": "a"}),
        ("token.create", {"scope": "operator"}), ("token.list", {}), ("token.revoke", {"token": 1}),
        ("server.backup", {"path": "/tmp/never"}), ("server.config", {}),
    ):
        reader.refused("FORBIDDEN", method, **params)
    eq(len(s.events(c)), 2, "nothing was written")


def test_agent_scope_is_bound_to_its_conversation_and_role(s):
    mine, other = s.talk("a", "b"), s.talk("a", "b")
    s.say(other, "a", "secret", attachments=[{"name": "f", "contentType": "x/y", "text": "secret"}])
    number = s.events(other)[-1]["payload"]["attachments"][0]["id"]
    agent = s.as_token(scope="agent", conversation=mine, role="a")
    eq(agent.say(mine, "a", "hello")["turn"], 1, "its own")
    eq(agent.say(mine, "A", "hello")["turn"], 1, "names have no case")
    agent.refused("FORBIDDEN", "message.send", conversation=mine, agentId="b", text="I am b")
    agent.refused("FORBIDDEN", "trace.append", conversation=mine, agentId="b",
                  payload={"type": "thought", "content": "I am b"})
    for method, params in (("conversation.get", {}), ("event.list", {}), ("conversation.end", {}),
                           ("message.send", {"agentId": "a", "text": "x"}),
                           ("turn.clear", {"agentId": "a"})):
        for conversation in (other, 99, 0):
            try:
                agent.call(method, conversation=conversation, **params)
            except RpcError as e:
                want = "FORBIDDEN" if method == "conversation.end" else "NOT_FOUND"
                eq(e.name, want, f"{method} {conversation}")
            else:
                raise AssertionError(f"{method} {conversation} was allowed")
    unknown = agent.refused("NOT_FOUND", "conversation.get", conversation=99)
    foreign = agent.refused("NOT_FOUND", "conversation.get", conversation=other)
    eq(foreign.message.replace(str(other), "N"), unknown.message.replace("99", "N"),
       "foreign and unknown look alike")
    agent.refused("NOT_FOUND", "attachment.get", id=number)
    agent.refused("FORBIDDEN", "conversation.end", conversation=mine)
    listed = agent.call("conversation.list")["conversations"]
    eq([c["conversation"] for c in listed], [mine], "list")


def test_streams_are_filtered_by_scope(s):
    mine, other = s.talk("a", "b"), s.talk("a", "b")
    agent = s.as_token(scope="agent", conversation=mine, role="a")
    reader = s.as_token(scope="read", conversation=mine)
    for client in (agent, reader):
        with client.socket() as ws, client.stream("?after=0") as sse:
            ws.refused("NOT_FOUND", "event.subscribe", conversation=other)
            ws.subscribe(afterId=0)
            s.say(other, "a", "not for you")
            last = s.say(mine, "b", "for you")["id"]
            for following in (lambda: ws.event(), lambda: sse.next()[1]):
                seen = [following()]
                while seen[-1]["id"] != last:
                    seen.append(following())
                eq({e["conversation"] for e in seen}, {mine}, "conversations seen")
        with client.stream(f"?conversation={other}") as sse:
            eq(sse.status, 404, "a foreign stream")


def test_the_server_log_is_for_operators_only(s):
    reader = s.as_token(scope="read")
    with reader.socket() as ws, reader.stream("?after=0") as sse:
        ws.refused("NOT_FOUND", "event.subscribe", conversation=0)
        ws.subscribe(afterId=0)
        c = s.talk()
        for following in (lambda: ws.event(), lambda: sse.next()[1]):
            seen = [following()]
            while seen[-1]["conversation"] != c:
                seen.append(following())
            check(all(e["conversation"] != 0 for e in seen), "the server's own log")


def test_the_operator_token_file_is_private_and_lasts(s):
    path = os.path.join(s.data, "operator.token")
    eq(os.stat(path).st_mode & 0o777, 0o600, "mode")
    before = s.token
    s.restart("stop")
    eq(s.token, before, "the token after a restart")


if __name__ == "__main__":
    main()
