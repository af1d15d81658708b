"""What tasks leave behind: card.get, card.list."""
from crew import complete, put_to_work, talk
from reeve_test import eq, main
from watch_model import manual


@manual()
def test_a_deliverable_is_a_card(s):
    c = talk(s)
    t = put_to_work(s, c)
    done = complete(s, t, deliverable={"text": "it works", "n": [1, 2]})
    card = done["deliverableCardId"]
    eq(s.call("card.get", card=card)["card"],
       {"card": card, "type": "task.deliverable", "conversation": c, "task": t["task"],
        "content": {"text": "it works", "n": [1, 2]}, "createdAt": s.call("server.info")["now"]},
       "the card")
    eq(done["task"]["outcome"]["deliverableCardId"], card, "the task's")
    (end,) = [e for e in s.events(c) if e["payload"].get("kind") == "agent.task"]
    eq(end["payload"]["data"]["deliverable_card_id"], card, "the event's")
    s.refused("NOT_FOUND", "card.get", card=99)


@manual()
def test_cards_are_listed_by_conversation_task_and_type(s):
    c, other = talk(s), talk(s)
    cards = []
    for n in range(3):
        t = put_to_work(s, c)
        cards.append((t["task"], complete(s, t, deliverable=n)["deliverableCardId"]))
    t = put_to_work(s, other)
    complete(s, t)
    listed = s.call("card.list", conversation=c)
    eq([(x["task"], x["card"], x["content"]) for x in listed["cards"]],
       [(t, card, n) for n, (t, card) in enumerate(cards)], "in order")
    eq(listed["next"], None, "all of them")
    eq(s.call("card.list", conversation=other), {"cards": [], "next": None}, "of another")
    eq([x["card"] for x in s.call("card.list", conversation=c, task=cards[1][0])["cards"]],
       [cards[1][1]], "of a task")
    eq(s.call("card.list", conversation=c, type="tool.call")["cards"], [], "of a type")
    page = s.call("card.list", conversation=c, limit=2)
    eq((len(page["cards"]), page["next"]), (2, cards[1][1]), "a page")
    rest = s.call("card.list", conversation=c, limit=2, after=page["next"])
    eq([x["card"] for x in rest["cards"]], [cards[2][1]], "the rest")
    s.refused("NOT_FOUND", "card.list", conversation=99)


@manual()
def test_a_card_is_seen_by_those_who_see_its_conversation(s):
    c, other = talk(s), talk(s)
    card = complete(s, put_to_work(s, c), deliverable="x")["deliverableCardId"]
    own = s.as_token(scope="agent", conversation=c, role="a")
    stranger = s.as_token(scope="agent", conversation=other, role="a")
    eq(own.call("card.get", card=card)["card"]["content"], "x", "its own")
    stranger.refused("NOT_FOUND", "card.get", card=card)
    stranger.refused("NOT_FOUND", "card.list", conversation=c)


main()
