"""The server dies at every place that matters, and its agents are stopped all the same.

Fail points (src/base/fail_point.h) kill the process where a crash would hurt most: around the
commit of an end, between the stops of two agents, within a move of the ladder. Each is tried with
every way an end can come, the first time it is reached, the second, and so on until it is not
reached any more. After the restart what was ended is ended once and what was not goes on; its
agents are stopped, each once; and another restart finds nothing to do.

    REEVE_SEED=1  of the two random tests
"""
import os
import random
import re
import shutil
import signal
import sqlite3
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "scenario"))

from audit import audit_conversation  # noqa: E402
from fleet import (MANUAL, Picture, batch, check_stopped, deliver, kind_of, managed,  # noqa: E402
                   settle, terminal_in)
from reeve_test import (Closed, Server, check, eq, folder, main, reeve, wait_for)  # noqa: E402

SEED = int(os.environ.get("REEVE_SEED", "1"))
GONE = (Closed, OSError)
HEADER = os.path.join(HERE, "..", "..", "src", "base", "fail_point.h")
ROLES = ("a", "b", "c")

# way: what a conversation of it needs; the second half falls due later
LIMITS = {
    "end": lambda seconds: {"watchdog": {"disabled": True},
                            "runtime_controls": {"session_wall_clock_seconds": 0}},
    "idle": lambda seconds: {"watchdog": {"idleMs": 1000 * seconds, "globalIdleMs": 1000 * seconds},
                             "runtime_controls": {"session_wall_clock_seconds": 0}},
    "budget": lambda seconds: {"watchdog": {"disabled": True},
                               "runtime_controls": {"session_wall_clock_seconds": seconds}},
}
# There a way does not come along.
NOT_ON_THE_WAY = {("end", "ladder.between_moves"), ("end", "ladder.within_move")}


def fail_points():
    with open(HEADER) as f:
        return re.findall(r'^ +X\(\w+, "([\w.]+)"\)', f.read(), re.M)


# ---- conversations, and their end ----

def begin(s, way, count):
    for i in range(count):
        c = managed(s, *ROLES, metadata={"way": way}, **LIMITS[way](1 + i % 2))
        s.say(c, "a", "hello")


def provoke(s, way):
    """Ends all conversations of this way. May be done again."""
    if way == "end":
        every = s.call("conversation.list", limit=500)["conversations"]
        ours = [c["conversation"] for c in every if c["metadata"]["way"] == "end"]
        ends = [("conversation.end", {"conversation": c}) for c in ours]
        if ends:
            batch(s, ends[0])
            batch(s, *ends)
    settle(s, 0 if way == "end" else 2001)


def way_of(picture, conversation):
    return picture.summaries[conversation]["metadata"]["way"]


def delivered(s):
    """{conversation: {role: spawnId}} of the starts that were taken. The server is down."""
    db = sqlite3.connect(os.path.join(s.data, "reeve.db"))
    rows = db.execute("SELECT conversation, role, spawn_id FROM machine_commands"
                      " WHERE delivered_at IS NOT NULL AND type <> 'stop-agent'").fetchall()
    db.close()
    found = {}
    for c, role, spawn in rows:
        found.setdefault(c, {})[role] = spawn
    return found


def check_ended(picture, c, spawns):
    """It ended once, in its own way, and so did its agents."""
    events, way = picture.log[c], way_of(picture, c)
    kinds = [kind_of(e) for e in events]
    eq(kinds.count("idle_timeout"), int(way == "idle"), f"advisories of {c}")
    eq(kinds.count("runtime.watchdog.cancel"), int(way == "budget"), f"cancels of {c}")
    eq(kinds.count("runtime.watchdog.notice"), int(way == "budget"), f"notices of {c}")
    if way == "idle":
        eq(kinds[-2], "idle_timeout", f"what is before the terminal message of {c}")
    if way == "budget":
        eq(picture.status(c), "blocked", f"status of {c}")
    else:
        terminal_in(events)
    check_stopped(picture, c, f"conversation_{'blocked' if way == 'budget' else 'ended'}", spawns)


def check_going_on(picture, c):
    eq(picture.ensured[c], {r: "starting" for r in ROLES}, f"agents of {c}, which is active")
    kinds = {kind_of(e) for e in picture.log[c]}
    eq(kinds & {"idle_timeout", "runtime.watchdog.cancel"}, set(), f"orphans in {c}")
    eq(len(picture.of(c, "start-agent")), len(ROLES), f"starts of {c}")


def check_all(picture, spawns):
    for c in picture.numbers:
        complaints = audit_conversation(c, picture.log[c], picture.summaries[c])
        eq(complaints, [], "complaints")
        if picture.status(c) == "active":
            check_going_on(picture, c)
        else:
            check_ended(picture, c, spawns.get(c, {}))
    ids = [e["id"] for events in picture.log.values() for e in events]
    eq(sorted(ids), list(range(1, len(ids) + 1)), "global ids")


# ---- dying and coming back ----

def start_and_die(s, point, do):
    """Starts it with this fail point and does something. Whether it died there."""
    s.env = {"REEVE_FAIL_POINT": point}
    try:
        s.start()
        do()
    except GONE:
        pass
    except AssertionError:  # not even ready
        if s.process.poll() is None:
            raise
    else:
        s.stop()
        return False
    eq(s.wait(), -signal.SIGKILL, f"how it ended at {point}")
    return True


def come_back(s):
    s.env = {}
    s.start()
    settle(s)
    return Picture(s)


def check_recovery(s, way):
    """After a crash: at once, after whatever was not yet done, and after another crash."""
    spawns = delivered(s)
    check_all(come_back(s), spawns)
    provoke(s, way)
    picture = Picture(s)
    check_all(picture, spawns)
    ours = [c for c in picture.numbers if way_of(picture, c) == way]
    check(all(picture.status(c) != "active" for c in ours), "all of them have ended")
    s.kill()
    check(come_back(s) == picture, "a restart finds nothing to do")
    s.stop()


def template(way):
    """A folder in which everything is ready to end: some starts taken, some not."""
    s = Server(data=os.path.join(folder(), f"template-{way}"), args=MANUAL).start()
    begin(s, way, 4)
    begin(s, "budget" if way == "end" else "end", 1)  # a bystander
    s.stop()
    deliver(s, 1, 2, role="a")
    deliver(s, 2, role="b")
    return s.data


def sweep(way, *points):
    """Each point, the first time it is reached, the second, …"""
    source = template(way)
    for point in points:
        for count in range(1, 100):
            data = os.path.join(folder(), f"{point}-{count}")
            shutil.copytree(source, data)
            s = Server(data=data, args=MANUAL)
            if not start_and_die(s, f"{point}:{count}", lambda s=s: provoke(s, way)):
                break
            check_recovery(s, way)
            shutil.rmtree(data)
        died = count - 1
        print(f"{way}: died {died} times at {point}")
        eq(died == 0, (way, point) in NOT_ON_THE_WAY, f"{point} is never reached by {way}")


def sweep_all(way):
    points = fail_points()
    check(len(points) > 5, f"fail points {points}")
    sweep(way, *points)


def test_L17_a_crash_anywhere_while_a_person_ends_it():
    sweep_all("end")


def test_L17_a_crash_anywhere_while_silence_ends_it():
    sweep_all("idle")


def test_L17_a_crash_anywhere_while_a_budget_blocks_it():
    sweep_all("budget")


def test_a_place_that_does_not_exist_is_refused():
    for wrong in ("no.such.place", "tick.before_commit:0", "tick.before_commit:x", ":1"):
        done = reeve("serve", "--listen", "127.0.0.1:0", data=os.path.join(folder(), "d"),
                     env={"REEVE_FAIL_POINT": wrong})
        check(done.returncode not in (0, -signal.SIGKILL), f"{wrong}: {done}")
        check("REEVE_FAIL_POINT" in done.stderr, f"{wrong}: {done.stderr}")


# ---- at random ----

def test_L17_crash_after_crash_on_one_store():
    rng = random.Random(SEED)
    s = Server(args=MANUAL)
    died = 0

    def work():
        for _ in range(2):
            begin(s, rng.choice(list(LIMITS)), 2)
        for way in rng.sample(list(LIMITS), 2):
            provoke(s, way)

    for _ in range(12):
        died += start_and_die(s, f"{rng.choice(fail_points())}:{rng.randint(1, 3)}", work)
        picture = come_back(s)
        s.kill()
        check_all(picture, delivered(s))
        for c in rng.sample(picture.numbers, min(2, len(picture.numbers))):
            deliver(s, c, role=rng.choice(ROLES))
    check(died > 3, f"it died {died} times")
    come_back(s)
    for way in LIMITS:
        provoke(s, way)
    picture = Picture(s)
    check(all(picture.status(c) != "active" for c in picture.numbers), "all have ended")
    s.stop()
    check_all(picture, delivered(s))
    print(f"{died} deaths, {len(picture.numbers)} conversations")


class Load(threading.Thread):
    """Begins conversations that nobody will go on with."""

    def __init__(self, s, up, over, number):
        super().__init__(daemon=True)
        self.server, self.up, self.over = s, up, over
        self.rng, self.failure = random.Random(f"{SEED}/{number}"), None

    def run(self):
        while not self.over.is_set():
            try:
                if self.up.wait(0.05):
                    self.work()
            except GONE:
                continue
            except BaseException as e:  # noqa: B036 - raised again by the test
                self.failure = e
                return

    def work(self):
        s, idle_ms = self.server, self.rng.randint(50, 200)
        c = managed(s, *ROLES, desired=self.rng.choice(("auto", "running")),
                    watchdog={"idleMs": idle_ms, "globalIdleMs": idle_ms})
        batch(s, ("message.send", {"conversation": c, "agentId": "a", "text": "hello"}),
              ("lifecycle.ensure", {"conversation": c, "roles": list(self.rng.sample(ROLES, 2))}))


def crash_under_load(s, rounds):
    rng, up, over = random.Random(SEED), threading.Event(), threading.Event()
    threads = [Load(s, up, over, n) for n in range(4)]
    for t in threads:
        t.start()
    for _ in range(rounds):
        up.set()
        over.wait(rng.uniform(0.01, 0.1))
        up.clear()
        s.kill()
        s.start()
    over.set()
    for t in threads:
        t.join(20)
        check(not t.is_alive(), "a thread does not end")
        if t.failure:
            raise t.failure


def is_quiet(s):
    left = s.call("conversation.list", status="active", limit=1)["conversations"]
    metrics = s.get("/metrics").body.decode()
    behind = re.search(r"^reeve_lifecycle_behind\S* (\d+)", metrics, re.M)
    return not left and behind is not None and int(behind[1]) == 0


def test_L17_kill_9_while_silence_falls_due():
    s = Server().start()
    crash_under_load(s, 30)
    wait_for(lambda: is_quiet(s), "the end of everything")
    picture = Picture(s)
    check(len(picture.numbers) > 30, f"{len(picture.numbers)} conversations")
    for c in picture.numbers:
        eq(audit_conversation(c, picture.log[c], picture.summaries[c]), [], "complaints")
        check(terminal_in(picture.log[c])["agentId"] == "system-watchdog", "who ended it")
        kinds = [kind_of(e) for e in picture.log[c]]
        eq((kinds.count("idle_timeout"), kinds[-2]), (1, "idle_timeout"), f"advisory of {c}")
        check_stopped(picture, c, "conversation_ended")
    s.kill()
    s.start()
    wait_for(lambda: is_quiet(s), "the restart")
    again = Picture(s)
    for p in (picture, again):
        p.log.pop(0)  # tells of the time in which it was down
    check(again == picture, "a restart finds nothing to do")
    print(f"{len(picture.numbers)} conversations, {len(picture.commands)} commands")
    s.stop()


if __name__ == "__main__":
    main(seconds=120)
