"""Conversations: create, get, list, end; what they look like and what cannot be done to them."""
import re

from reeve_test import check, eq, main

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
METADATA = {"plan": [1, 2.5, -0.0, None, True, {"deep": {"er": []}}], "": "empty key",
            "text": "é\n\t\"\\ 𝄞 \u2028", "big": 9007199254740993, "exp": 1e-7}


def test_the_first_conversation_is_number_1(s):
    eq(s.call("conversation.create", agents=[{"role": "a"}]), {"conversation": 1}, "result")
    eq(s.talk(), 2, "the second")


def test_meta_created_opens_the_log_on_turn_0_as_seq_1(s):
    c = s.talk("builder", "tester", title="Build it")
    (event,) = s.events(c)
    shape = {k: event[k] for k in ("conversation", "turn", "event", "seq", "type", "finality")}
    eq(shape, {"conversation": c, "turn": 0, "event": 1, "seq": 1, "type": "system",
               "finality": "none"}, "shape of the event")
    eq(event["payload"]["kind"], "meta_created", "kind")
    eq(event["agentId"], "system-orchestrator", "author")
    check(ISO.fullmatch(event["ts"]), event["ts"])
    check(isinstance(event["id"], int) and event["id"] > 0, "global id")
    eq(set(event), {"id", "conversation", "turn", "event", "seq", "ts", "type", "finality",
                    "agentId", "payload"}, "members of an event")


def test_get_of_a_new_conversation(s):
    c = s.talk("builder", "tester", title="Build it")
    got = s.call("conversation.get", conversation=c)
    eq(got["conversation"], c, "conversation")
    eq((got["status"], got["outcome"], got["stop_reason_code"]), ("active", None, None), "status")
    eq(s.head(c), {"lastTurn": 0, "lastClosedSeq": 0, "hasOpenTurn": False}, "head")
    eq([a["role"] for a in got["agents"]], ["builder", "tester"], "agents, in their order")
    eq(got["title"], "Build it", "title")
    eq(got["window"], 1, "window")
    for key in ("createdAt", "updatedAt", "windowStartedAt"):
        check(ISO.fullmatch(got[key]), f"{key} {got[key]}")
    eq(got["createdAt"], s.events(c)[0]["ts"], "createdAt is the time of the first event")
    check({"metadata", "runtime_controls"} <= set(got), f"members {sorted(got)}")


def test_metadata_comes_back_as_it_was_given(s):
    c = s.talk("a", metadata=METADATA)
    eq(s.call("conversation.get", conversation=c)["metadata"], METADATA, "metadata")
    s.restart()
    eq(s.call("conversation.get", conversation=c)["metadata"], METADATA, "after a crash")


def test_numbers_in_metadata_keep_the_way_they_were_written(s):
    body = (b'{"jsonrpc":"2.0","id":1,"method":"conversation.create","params":{"agents":'
            b'[{"role":"a"}],"metadata":{"a":1.10,"b":1E2,"c":12345678901234567,"d":"\\u00e9"}}}')
    c = s.post(body).json()["result"]["conversation"]
    ask = f'{{"jsonrpc":"2.0","id":1,"method":"conversation.get","params":{{"conversation":{c}}}}}'
    text = s.post(ask.encode()).body
    check(b'"a":1.10,"b":1E2,"c":12345678901234567' in text, f"rewritten: {text}")


def test_agents_and_runtime_controls_come_back(s):
    c = s.call("conversation.create", startingRole="tester", maxTurns=7,
               agents=[{"role": "builder", "kind": "k", "machine": "m", "desired": "stopped"},
                       {"role": "tester"}],
               runtime_controls={"session_wall_clock_seconds": 60})["conversation"]
    got = s.call("conversation.get", conversation=c)
    first = got["agents"][0]
    eq({k: first[k] for k in ("role", "kind", "machine", "desired")},
       {"role": "builder", "kind": "k", "machine": "m", "desired": "stopped"}, "first agent")
    eq(got["agents"][1]["desired"], "auto", "desired unless told otherwise")
    eq(got["runtime_controls"]["session_wall_clock_seconds"], 60, "budget")


def test_create_refuses_what_makes_no_sense(s):
    for agents in ([{"role": "a b"}], [{"role": ""}], [{"role": "x" * 65}], [{"role": 7}], [{}],
                   ["a"], "a", [{"role": "a"}, {"role": "a"}], [{"role": "a"}, {"role": "A"}],
                   [{"role": "a", "desired": "sometimes"}], [{"role": "a", "colour": "red"}]):
        e = s.refused("INVALID_PARAMS", "conversation.create", agents=agents)
        check("agents" in e.data["path"], f"path of {agents}: {e.data}")
    e = s.refused("INVALID_PARAMS", "conversation.create", agents=[{"role": "a"}], startingRole="z")
    check("startingRole" in e.data["path"], f"{e.data}")
    e = s.refused("INVALID_PARAMS", "conversation.create")
    check("agents" in e.data["path"], f"{e.data}")
    for wrong in (-1, "4", True, 2.5, None, 1 << 62):
        e = s.refused("INVALID_PARAMS", "conversation.create", agents=[{"role": "a"}],
                      maxTurns=wrong)
        check("maxTurns" in e.data["path"], f"{wrong}: {e.data}")
    for wrong in (-1, "60", float("1e300"), True):
        e = s.refused("INVALID_PARAMS", "conversation.create", agents=[{"role": "a"}],
                      runtime_controls={"session_wall_clock_seconds": wrong})
        check("session_wall_clock_seconds" in e.data["path"], f"{wrong}: {e.data}")
    eq(len(s.call("conversation.list")["conversations"]), 0, "nothing was created")


def test_roles_are_compared_without_case_and_kept_in_lower_case(s):
    c = s.talk("Builder", "TESTER")
    roles = [a["role"] for a in s.call("conversation.get", conversation=c)["agents"]]
    eq(roles, ["builder", "tester"], "roles")


def test_list_pages_through_all_exactly_once(s):
    made = [s.talk(title=f"number {i}") for i in range(23)]
    seen, after, pages = [], {}, 0
    while True:
        page = s.call("conversation.list", limit=5, **after)
        seen += [c["conversation"] for c in page["conversations"]]
        pages += 1
        if page["next"] is None:
            break
        check(len(page["conversations"]) == 5, "only the last page is short")
        after = {"after": page["next"]}
    eq(sorted(seen), made, "conversations listed")
    check(len(seen) == len(set(seen)), "each once")
    eq(pages, 5, "pages")
    entry = s.call("conversation.list", limit=1)["conversations"][0]
    check({"conversation", "status", "title", "createdAt", "updatedAt"} <= set(entry), f"{entry}")


def test_list_filters_by_status(s):
    a, b, c = s.talk(), s.talk(), s.talk()
    s.call("conversation.end", conversation=b)

    def listed(status):
        found = s.call("conversation.list", status=status)["conversations"]
        return [x["conversation"] for x in found]

    eq(sorted(listed("active")), [a, c], "active")
    eq(listed("completed"), [b], "completed")
    eq(listed("blocked"), [], "blocked")
    s.refused("INVALID_PARAMS", "conversation.list", status="ended")


def test_list_refuses_bad_limits(s):
    for limit in (-1, 0, 501, "5", 1.5, True):
        e = s.refused("INVALID_PARAMS", "conversation.list", limit=limit)
        check("limit" in e.data["path"], f"{limit}: {e.data}")
    s.talk()
    eq(len(s.call("conversation.list", limit=500)["conversations"]), 1, "the most one may ask for")


def test_L11_nothing_creates_an_unknown_conversation(s):
    s.talk()
    attempts = {
        "conversation.get": {}, "conversation.end": {}, "event.list": {},
        "message.send": {"agentId": "a", "text": "hello"},
        "trace.append": {"agentId": "a", "payload": {"type": "thought", "content": "hm"}},
        "turn.clear": {"agentId": "a"},
    }
    for number in (2, 99, 1 << 40):
        for method, more in attempts.items():
            e = s.refused("NOT_FOUND", method, conversation=number, **more)
            eq((e.data["what"], e.data["id"]), ("conversation", number), f"data of {method}")
    with s.socket() as ws:
        ws.refused("NOT_FOUND", "event.subscribe", conversation=99)
    for number in (-1, "1", 1.0, None, [1], True):
        for method, more in attempts.items():
            e = s.refused("INVALID_PARAMS", method, conversation=number, **more)
            check("conversation" in e.data["path"], f"{method} {number!r}: {e.data}")
    eq(len(s.call("conversation.list")["conversations"]), 1, "conversations")
    eq(s.talk(), 2, "the next number")


def test_end_writes_one_terminal_message(s):
    c = s.talk()
    s.say(c, "a", "done my part", "turn")
    end = s.call("conversation.end", conversation=c, outcome="failed", reason="no more money",
                 text="We stop here.", authorId="boss")
    eq(set(end), {"conversation", "turn", "event", "seq", "ts", "id"}, "members of the answer")
    last = s.events(c)[-1]
    eq({k: last[k] for k in end}, end, "the event of the answer")
    eq((last["type"], last["finality"]), ("message", "conversation"), "kind")
    eq(last["agentId"], "boss", "author")
    eq(last["turn"], 2, "no turn was open: on the next")
    eq(last["payload"]["text"], "We stop here.", "text")
    eq(last["payload"]["outcome"], {"status": "failed", "reason": "no more money"}, "outcome")
    got = s.call("conversation.get", conversation=c)
    eq((got["status"], got["outcome"], got["stop_reason_code"]), ("completed", "failed", "failed"),
       "state")
    eq(s.head(c), {"lastTurn": 2, "lastClosedSeq": end["seq"], "hasOpenTurn": False}, "head")


def test_end_goes_on_the_open_turn_of_another(s):
    c = s.talk()
    s.say(c, "a", "still at it")
    end = s.call("conversation.end", conversation=c, authorId="b")
    eq((end["turn"], end["event"]), (1, 2), "where it went")


def test_every_outcome_has_its_stop_reason(s):
    for outcome, reason in (("completed", "completed"), ("failed", "failed"),
                            ("canceled", "canceled_by_user")):
        c = s.talk()
        s.call("conversation.end", conversation=c, outcome=outcome)
        got = s.call("conversation.get", conversation=c)
        eq((got["status"], got["outcome"], got["stop_reason_code"]),
           ("completed", outcome, reason), outcome)
    s.refused("INVALID_PARAMS", "conversation.end", conversation=s.talk(), outcome="finished")


def test_end_repeated_gives_the_first_answer(s):
    c = s.talk()
    first = s.call("conversation.end", conversation=c, outcome="canceled", text="enough")
    again = s.call("conversation.end", conversation=c, outcome="canceled", text="enough")
    eq(again, first, "again")
    eq(s.call("conversation.end", conversation=c, outcome="canceled"), first, "with other words")
    s.refused("CONVERSATION_FINALIZED", "conversation.end", conversation=c, outcome="completed")
    s.refused("CONVERSATION_FINALIZED", "conversation.end", conversation=c)
    s.restart()
    eq(s.call("conversation.end", conversation=c, outcome="canceled"), first, "after a crash")
    eq(sum(e["finality"] == "conversation" for e in s.events(c)), 1, "terminal messages")


def test_end_repeated_after_a_terminal_message_gives_that_message(s):
    c = s.talk()
    sent = s.say(c, "a", "the end", "conversation", outcome={"status": "completed"})
    again = s.call("conversation.end", conversation=c, outcome="completed")
    eq(again, {k: sent[k] for k in again}, "the answer of the message")
    s.refused("CONVERSATION_FINALIZED", "conversation.end", conversation=c, outcome="failed")


def test_L08_updatedAt_moves_on_every_append(s):
    c = s.talk()

    def updated():
        return s.call("conversation.get", conversation=c)["updatedAt"]

    at = updated()
    for write in (lambda: s.say(c, "a", "x"),
                  lambda: s.call("trace.append", conversation=c, agentId="a",
                                 payload={"type": "thought", "content": "y"}),
                  lambda: s.call("turn.clear", conversation=c, agentId="a"),
                  lambda: s.call("conversation.end", conversation=c)):
        answer = write()
        ts = answer.get("ts") or s.events(c)[-1]["ts"]
        eq(updated(), ts, "updatedAt")
        check(ts >= at, "time does not run backwards")
        at = ts


def test_events_of_conversations_do_not_mix(s):
    a, b = s.talk(), s.talk()
    for i in range(5):
        s.say(a, "a", f"in a {i}")
        s.say(b, "a", f"in b {i}")
    for c, name in ((a, "a"), (b, "b")):
        events = s.events(c)
        eq([e["seq"] for e in events], list(range(1, 7)), "seq")
        texts = [e["payload"]["text"] for e in events[1:]]
        eq(texts, [f"in {name} {i}" for i in range(5)], "texts")
        eq({e["conversation"] for e in events}, {c}, "conversation")


def test_event_list_pages_by_seq(s):
    c = s.talk()
    for i in range(30):
        s.say(c, "a", str(i))
    page = s.call("event.list", conversation=c, limit=10)
    eq([e["seq"] for e in page["events"]], list(range(1, 11)), "first page")
    eq(page["nextAfterSeq"], 10, "cursor")
    page = s.call("event.list", conversation=c, afterSeq=25, limit=10)
    eq([e["seq"] for e in page["events"]], list(range(26, 32)), "last page")
    page = s.call("event.list", conversation=c, afterSeq=31)
    eq((page["events"], page["nextAfterSeq"]), ([], 31), "behind the end")
    for wrong in ({"limit": 1001}, {"limit": 0}, {"limit": -5}, {"afterSeq": -1},
                  {"afterSeq": "1"}):
        s.refused("INVALID_PARAMS", "event.list", conversation=c, **wrong)


def all_events(client, limit=1000, after=0, **more):
    """Everything that this client may see, page by page."""
    events = []
    while (page := client.call("event.list", afterId=after, limit=limit, **more))["events"]:
        events += page["events"]
        after = page.get("nextAfterId", events[-1]["id"])
    return events


def test_event_list_of_all_is_in_the_order_of_commit(s):
    a, b = s.talk(), s.talk()
    for i in range(10):
        s.say((a, b)[i % 2], "a", str(i))
    by_id = sorted((e for c in (0, a, b) for e in s.events(c)), key=lambda e: e["id"])
    eq(all_events(s), by_id, "one page")
    eq(all_events(s, limit=3), by_id, "small pages")
    eq(all_events(s, after=by_id[4]["id"]), by_id[5:], "after an id")
    eq(all_events(s, conversation=a, after=by_id[4]["id"]),
       [e for e in by_id[5:] if e["conversation"] == a], "of one, after an id")
    page = s.call("event.list", afterId=by_id[-1]["id"])
    eq((page["events"], page["nextAfterId"]), ([], by_id[-1]["id"]), "behind the end")
    for wrong in ({"afterSeq": 1}, {"afterSeq": 1, "afterId": 1, "conversation": a},
                  {"afterId": -1}, {"afterId": "1"}, {"conversation": None}):
        s.refused("INVALID_PARAMS", "event.list", **wrong)


def test_event_list_of_all_shows_what_the_token_may_see(s):
    mine, other = s.talk("a", "b"), s.talk("a", "b")
    s.say(other, "a", "not for all")
    s.say(mine, "a", "for all")
    seen = [e for e in all_events(s) if e["conversation"]]
    check(len(seen) < len(all_events(s)), "the server's own log has something")
    for limit in (1, 1000):
        eq(all_events(s.as_token(scope="read"), limit), seen, "not the server's own log")
        for scope in ({"scope": "agent", "role": "a"}, {"scope": "read"}):
            bound = s.as_token(conversation=mine, **scope)
            eq(all_events(bound, limit), s.events(mine), f"{scope} of one conversation")


def test_event_list_gives_200_unless_asked_for_more(s):
    c = s.talk()
    with s.socket() as ws:
        for i in range(250):
            ws.say(c, "a", str(i))
    eq(len(s.call("event.list", conversation=c)["events"]), 200, "by default")
    eq(len(s.call("event.list", conversation=c, limit=1000)["events"]), 251, "at most")


def test_a_large_page_of_large_events_is_served_whole(s):
    c = s.talk()
    for i in range(20):
        s.say(c, "a", f"{i}:" + "x" * 400_000)
    events = s.events(c)
    eq([e["payload"]["text"][:3] for e in events[1:4]], ["0:x", "1:x", "2:x"], "texts")
    eq(len(events), 21, "events")


def test_conversation_0_is_for_the_operator_only(s):
    eq(s.call("conversation.get", conversation=0)["status"], "active", "it never ends")
    check(all(c["conversation"] != 0 for c in s.call("conversation.list")["conversations"]),
          "it is not listed among the others")
    s.call("event.list", conversation=0)
    reader = s.as_token(scope="read")
    reader.refused("NOT_FOUND", "conversation.get", conversation=0)
    reader.refused("NOT_FOUND", "event.list", conversation=0)
    for method, more in (("message.send", {"agentId": "a", "text": "x"}), ("conversation.end", {}),
                         ("turn.clear", {"agentId": "a"})):
        s.refused("FORBIDDEN", method, conversation=0, **more)


def test_everything_is_as_before_after_a_restart(s):
    c = s.talk("a", "b", title="t", metadata=METADATA, maxTurns=9)
    s.say(c, "a", "one", "turn", metadata={"k": [1]})
    s.say(c, "b", "two")
    ended = s.talk()
    s.call("conversation.end", conversation=ended, outcome="failed")
    before = [(s.call("conversation.get", conversation=x), s.events(x)) for x in (c, ended)]
    for how in ("kill", "stop"):
        s.restart(how)
        after = [(s.call("conversation.get", conversation=x), s.events(x)) for x in (c, ended)]
        eq(after, before, f"state after {how}")
    eq(s.say(c, "b", "three")["seq"], 4, "and it goes on")
    eq(s.talk(), 3, "the next number")


if __name__ == "__main__":
    main()
