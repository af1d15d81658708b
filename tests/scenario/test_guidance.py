"""Guidance: who is next. Once per change, never after the end, with an absolute deadline (L14)."""
import datetime
import re

from reeve_test import check, eq, main

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def follow(ws, c, want):
    """Reads pushes until the event with seq `want`; returns the guidance among them."""
    found = []
    while True:
        method, params = ws.push()
        if method == "event":
            if params["seq"] == want:
                return found
        else:
            eq(method, "guidance", "notification")
            eq(params["conversation"], c, "conversation")
            found.append(params)


def brief(guidance):
    return [(g["nextAgentId"], g["kind"], g["turn"]) for g in guidance]


def play(s, c, steps):
    """Writes the steps; returns the guidance seen from before the first to after the last."""
    with s.socket() as ws:
        ws.subscribe(conversation=c, afterSeq=0, includeGuidance=True)
        for agent, text, finality in steps:
            s.say(c, agent, text, finality)
        last = s.events(c)[-1]["seq"]
        found = follow(ws, c, last)
        ws.call("conversation.get", conversation=c)
        # Whatever was still on its way came before that answer.
        found += [m["params"] for m in ws.pushed if m["method"] == "guidance"]
    return found


def test_round_robin_in_the_order_of_agents(s):
    c = s.talk("a", "b", "c", startingRole="b")
    found = play(s, c, [(x, "x", "turn") for x in ("b", "c", "a", "b")])
    starts = [g for g in brief(found) if g[1] == "start_turn"]
    eq(starts[0], ("b", "start_turn", 1), "the first is the starting role")
    eq(starts[-1], ("c", "start_turn", 5), "the last")
    order = [g for i, g in enumerate(starts) if i == 0 or g != starts[i - 1]]
    eq(order, starts, "none is said twice")
    want = [("b", "start_turn", 1), ("c", "start_turn", 2), ("a", "start_turn", 3),
            ("b", "start_turn", 4), ("c", "start_turn", 5)]
    check(all(g in want for g in starts), f"guidance {starts}")
    eq([g[2] for g in starts], sorted(g[2] for g in starts), "turns grow")


def test_an_open_turn_is_to_be_continued_by_its_owner(s):
    c = s.talk("a", "b", startingRole="a")
    with s.socket() as ws:
        ws.subscribe(conversation=c, afterSeq=0, includeGuidance=True)
        s.say(c, "a", "one")
        s.say(c, "b", "aside")
        s.say(c, "a", "two")
        follow(ws, c, 4)
        s.say(c, "a", "three", "turn")
        follow(ws, c, 5)
    with s.socket() as ws:
        s.say(c, "b", "open")
        ws.subscribe(conversation=c, afterSeq=5, includeGuidance=True)
        seen = []
        while not any(g["kind"] == "continue_turn" for g in seen):
            method, params = ws.push()
            if method == "guidance":
                seen.append(params)
        eq(brief(seen), [("b", "continue_turn", 2)], "who subscribes is told where it stands")


def test_L14_the_same_guidance_is_not_sent_twice(s):
    c = s.talk("a", "b", startingRole="a")
    found = play(s, c, [("a", "1", "none"), ("a", "2", "none"), ("b", "aside", "none"),
                        ("a", "3", "turn"), ("b", "4", "none"), ("b", "5", "turn")])
    said = brief(found)
    eq(len(said), len(set(said)), f"repeats in {said}")
    eq(said[-1], ("a", "start_turn", 3), "the last")


def test_L14_no_guidance_after_the_end(s):
    for end in (("a", "bye", "conversation"), None):
        c = s.talk("a", "b", startingRole="a", maxTurns=2)
        steps = [end] if end else [("a", "1", "turn"), ("b", "2", "turn")]
        found = play(s, c, steps)
        check(all(g["turn"] <= len(steps) for g in found), f"guidance {brief(found)}")
        with s.socket() as ws:
            ws.subscribe(conversation=c, afterSeq=0, includeGuidance=True)
            last = s.events(c)[-1]["seq"]
            eq(follow(ws, c, last), [], "to a late subscriber")
            ws.call("conversation.get", conversation=c)
            eq(list(ws.pushed), [], "and afterwards")


def test_L14_the_deadline_is_a_time_to_come(s):
    c = s.talk("a", "b", startingRole="a")
    found = play(s, c, [("a", "1", "turn"), ("b", "2", "none")])
    check(found, "there was guidance")
    now = datetime.datetime.now(datetime.timezone.utc)
    for g in found:
        check(ISO.fullmatch(g["deadline"]), g["deadline"])
        deadline = datetime.datetime.fromisoformat(g["deadline"].replace("Z", "+00:00"))
        check(deadline > now - datetime.timedelta(minutes=5), f"{deadline} is long past")
        eq(set(g) - {"subscription"}, {"conversation", "nextAgentId", "kind", "turn", "deadline"},
           "members")


def test_a_repeat_gives_no_guidance(s):
    c = s.talk("a", "b", startingRole="a")
    with s.socket() as ws:
        ws.subscribe(conversation=c, afterSeq=0, includeGuidance=True)
        for _ in range(3):
            s.say(c, "a", "one", "turn", clientRequestId="k")
        s.say(c, "b", "two", "turn")
        found = brief(follow(ws, c, 3))
        eq(found.count(("b", "start_turn", 2)), 1, f"guidance for b in {found}")


def test_guidance_only_for_those_who_asked(s):
    c = s.talk("a", "b", startingRole="a")
    with s.socket() as ws:
        ws.subscribe(conversation=c, afterSeq=0)
        s.say(c, "a", "1", "turn")
        s.say(c, "b", "2", "turn")
        eq(follow(ws, c, 3), [], "guidance")


def test_one_agent_alone_goes_on_by_itself(s):
    c = s.talk("solo", startingRole="solo")
    found = brief(play(s, c, [("solo", "1", "turn"), ("solo", "2", "turn")]))
    check(all(g[0] == "solo" for g in found), f"guidance {found}")


if __name__ == "__main__":
    main()
