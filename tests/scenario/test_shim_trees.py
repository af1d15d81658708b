#!/usr/bin/env python3
"""Random trees of processes that try to get away: none survives its agent."""
import os
import select

from reeve_test import check, eq, main
from spawn import misbehave, no_survivors

TREES = int(os.environ.get("REEVE_TREES", "1000"))
AT_ONCE = 8


def end_of(s, seed):
    """A third ends by itself, a third is stopped at once, a third when it has grown."""
    if seed % 3 == 1:
        s.line.send(do="stop", graceMs=seed % 5)
    elif seed % 3 == 2:
        s.line.ready()
        s.line.send(do="stop", graceMs=seed % 5)


def test_L51_P15_random_trees_leave_no_survivor():
    word = "tree-" + os.urandom(4).hex()
    running, seeds, ends = {}, iter(range(TREES)), {"exited": 0, "stopped": 0}

    def begin():
        if (seed := next(seeds, None)) is not None:
            s = misbehave("tree", seed, word)
            running[s.line.sock] = (s, seed)
            end_of(s, seed)

    for _ in range(AT_ONCE):
        begin()
    while running:
        for sock in select.select(list(running), [], [])[0]:
            s, seed = running.pop(sock)
            ends[s.last_word()["fact"]] += 1
            sock.close()
            begin()
    eq(sum(ends.values()), TREES, "ends")
    check(min(ends.values()) > TREES // 4, f"both kinds of end: {ends}")
    no_survivors(word)


if __name__ == "__main__":
    main(seconds=240)
