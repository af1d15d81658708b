"""The doorbell: losing or repeating every ring changes how soon something is found, never what (P11).

The scenario suite as a whole says so: `make check-bell` runs it without a bell and with one that rings
ten times; the suite `bell` does that for some of its files in every check.
"""
from crew import Poll, claim, give, in_thread, join, start, talk
from reeve_test import Server, check, eq, main, server, wait_for
from test_inbox import put, receive, row, rows
from watch_model import manual, ms, now

SPOILT = ("never", "ten")


def spoil(fault):
    """Decorator: a server whose bell is spoilt, whatever the suite is run with."""
    return server("worker.watchdog_interval_seconds=1", env={"REEVE_TEST_BELL": fault})


def found_by_looking(s):
    c = talk(s)
    join(s, c)
    task, message = Poll(s, c), in_thread(lambda: receive(s, c, role="b", timeoutMs=60_000))
    check(task.is_waiting(), "there is nothing yet")
    t, inbox = give(s, c), put(s, c, role="b")["inboxId"]
    eq(task.read()["task"]["task"], t["task"], "the task")
    eq([m["inboxId"] for m in message()], [inbox], "the message")
    eq(start(s, claim(s, c))["status"], "in_progress", "and it is worked on")
    gone = Poll(s, c)
    s.call("conversation.end", conversation=c)
    eq(gone.read()["status"], "ended", "an end is found too")


@spoil("never")
def test_P11_without_a_bell_polls_find_their_work(s):
    found_by_looking(s)


@spoil("ten")
def test_P11_with_ten_rings_for_one_polls_find_their_work_once(s):
    found_by_looking(s)


@spoil("ten")
def test_a_poll_that_is_rung_for_in_vain_waits_on(s):
    c = talk(s)
    join(s, c)
    join(s, c, "b", "c2")
    poll = Poll(s, c)
    for _ in range(20):  # each of them repeats what was rung before
        put(s, c, f"k{_}", role="b")
    put(s, c, "own")  # a message is no task
    check(poll.is_waiting(), "nothing to do for it")
    eq(len(receive(s, c)), 1, "the message is there")


@manual()
def test_a_ring_is_noted_on_its_row(s):
    c = talk(s)
    inbox = put(s, c)["inboxId"]
    eq((row(s, inbox)["ringCount"], ms(row(s, inbox)["lastRungAt"])), (1, now(s)), "rings")
    give(s, c)
    eq([m["ringCount"] for m in rows(s, c)], [1, 1], "a task's too")


def test_a_fault_that_is_not_known_is_refused():
    s = Server(env={"REEVE_TEST_BELL": "sometimes"})
    s.spawn()
    eq(wait_for(lambda: s.process.poll() is not None and s.process.returncode, "its end"), 2, "status")
    check("REEVE_TEST_BELL" in s.log(), s.log())


if __name__ == "__main__":
    main()
