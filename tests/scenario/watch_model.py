"""For the tests of the ladder: small helpers, and a model of what the rules must do.

The model is written from the contract (DESIGN 6 and 7, PROTOCOL 3) and shares nothing with the
server: it keeps a log of its own, decides who is due by counting watched milliseconds, and writes
the events that the server should write, with their texts and times. A test does the same things to
both and compares the logs.
"""
import datetime
import itertools
import sqlite3

from reeve_test import RpcError, eq, server

UTC = datetime.timezone.utc
THOUGHT = {"type": "thought", "content": "hm"}
WATCHDOG, ORCHESTRATOR = "system-watchdog", "system-orchestrator"


def manual(*settings, **more):
    """Decorator: a server whose clock stands still until a test moves it."""
    return server(*settings, args=("--clock=manual",), **more)


def ms(iso):
    """Milliseconds since 1970 of a time on the wire."""
    moment = datetime.datetime.fromisoformat(iso.replace("Z", "+00:00"))
    return int(moment.replace(microsecond=0).timestamp()) * 1000 + moment.microsecond // 1000


def iso(at_ms):
    moment = datetime.datetime.fromtimestamp(at_ms // 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + f".{at_ms % 1000:03}Z"


def now(s):
    return ms(s.call("server.info")["now"])


def advance(s, by_ms):
    return ms(s.call("clock.advance", ms=by_ms)["now"])


def gap(s, by_ms):
    return ms(s.call("clock.gap", ms=by_ms)["now"])


def get(s, c):
    return s.call("conversation.get", conversation=c)


def state(s, c):
    got = get(s, c)
    return got["status"], got["outcome"], got["stop_reason_code"]


ACTIVE = ("active", None, None)
IDLE = ("completed", "canceled", "idle_timeout")
GLOBAL_IDLE = ("completed", "canceled", "global_idle_timeout")
BLOCKED = ("blocked", None, "watchdog_wall_clock_exceeded")


def system(events, kind=None):
    """The system events among these, or those of one kind."""
    return [e for e in events if e["type"] == "system"
            and kind in (None, e["payload"]["kind"])]


def rules(s):
    return {r["rule"]: r for r in s.call("watchdog.rules")["rules"]}


def clocks(s, c):
    """When each rule that is counting falls due, in milliseconds."""
    why = s.call("conversation.why", conversation=c)
    return {k["rule"]: ms(k["dueAt"]) for k in why["clocks"]}


def trace(s, c, agent="a"):
    return s.call("trace.append", conversation=c, agentId=agent, payload=THOUGHT)


def edit_store(s, *statements):
    """Runs SQL on the store of a server that is not running."""
    assert s.process is None, "the server runs"
    store = sqlite3.connect(s.data + "/reeve.db")
    for text in statements:
        store.execute(text)
    store.commit()
    store.close()


def batch(s, calls):
    """Many calls [(method, params)], a few requests; the results in order."""
    results = []
    for i in range(0, len(calls), 50):
        body = [{"jsonrpc": "2.0", "id": n, "method": method, "params": params}
                for n, (method, params) in enumerate(calls[i:i + 50])]
        answers = s.exchange(body)
        for a in answers:
            if "error" in a:
                raise RpcError(a["error"])
        results += [a["result"] for a in sorted(answers, key=lambda a: a["id"])]
    return results


# ---- the model ----

class Refused(Exception):
    """The contract's name of the error that the server must answer."""


class Limits:
    """The configured ones; a conversation may have its own."""

    def __init__(self, idle_ms=900_000, global_idle_ms=0, budget_s=14_400, enabled=True):
        self.idle_ms, self.global_idle_ms = idle_ms, global_idle_ms
        self.budget_s, self.enabled = budget_s, enabled

    def settings(self):
        return [f"watchdog.idle_ms={self.idle_ms}",
                f"watchdog.global_idle_ms={self.global_idle_ms}",
                f"watchdog.enabled={'true' if self.enabled else 'false'}",
                f"runtime_controls.session_wall_clock_seconds={self.budget_s}"]


class Talk:
    """A conversation: its log, and what follows from it."""

    def __init__(self, number, meta, at_ms, watchdog, budget_s, max_turns):
        self.number, self.watchdog, self.budget_s = number, watchdog, budget_s
        self.max_turns = max_turns
        self.status, self.outcome, self.stop = "active", None, None
        self.window, self.window_ms, self.noticed, self.blocked_ms = 1, at_ms, False, None
        self.last_turn, self.is_open, self.owner, self.closed_seq = 0, False, None, 0
        self.active_ms = at_ms
        self.log = []
        self.write(at_ms, ORCHESTRATOR, "system", meta)

    def write(self, at_ms, agent, kind, payload, finality="none"):
        turn = 0 if kind == "system" else self.last_turn + (not self.is_open)
        lane = [e for e in self.log if e["turn"] == turn]
        self.log.append({"conversation": self.number, "turn": turn, "event": len(lane) + 1,
                         "seq": len(self.log) + 1, "ts": iso(at_ms), "type": kind,
                         "finality": finality, "agentId": agent, "payload": payload})
        if not agent.startswith("system-"):
            self.active_ms = at_ms
        if turn:
            self.move_turn(turn, agent, finality)

    def move_turn(self, turn, agent, finality):
        self.owner = agent if turn != self.last_turn else self.owner or agent
        self.last_turn, self.is_open = turn, finality == "none"
        if not self.is_open:
            self.closed_seq = len(self.log)

    def note(self, at_ms, agent, kind, data):
        self.write(at_ms, agent, "system", {"kind": kind, "data": data})

    def end(self, at_ms, agent, payload, stop):
        self.write(at_ms, agent, "message", payload, "conversation")
        self.status, self.outcome, self.stop = "completed", payload["outcome"]["status"], stop


class Model:
    """All conversations, the clock, and the gaps in it."""

    ORDER = ("session.wall_clock_notice", "session.wall_clock", "conversation.idle",
             "conversation.global_idle")

    def __init__(self, now_ms, limits):
        self.now_ms, self.limits = now_ms, limits
        self.gaps, self.talks = [], {}
        self.order = []  # (conversation, seq) of what the ladder wrote
        self.fired = dict.fromkeys((*self.ORDER, "conversation.max_turns"), 0)

    # -- when a rule is due --

    def unwatched(self, from_ms, to_ms):
        return sum(max(0, min(b, to_ms) - max(a, from_ms)) for a, b in self.gaps)

    def silent_until(self, base_ms, limit_ms):
        """The first moment at which more than the limit was watched in silence."""
        at_ms = base_ms + limit_ms + 1
        while (later := base_ms + limit_ms + 1 + self.unwatched(base_ms, at_ms)) != at_ms:
            at_ms = later
        return at_ms

    def budget_ms(self, t):
        return 1000 * (self.limits.budget_s if t.budget_s is None else t.budget_s)

    def due(self, t):
        """Of one conversation: rule → when."""
        if t.status != "active":
            return {}
        found, budget_ms = {}, self.budget_ms(t)
        if budget_ms:
            found["session.wall_clock"] = t.window_ms + budget_ms + 1
            if not t.noticed:
                found["session.wall_clock_notice"] = t.window_ms + budget_ms * 80 // 100 + 1
        silent_ms = self.idle_limit(t)
        if silent_ms:
            rule = "conversation.idle" if t.is_open else "conversation.global_idle"
            found[rule] = self.silent_until(max(t.active_ms, t.window_ms), silent_ms)
        return found

    def idle_limit(self, t):
        if not self.limits.enabled or t.watchdog.get("disabled"):
            return 0
        if t.is_open:
            return t.watchdog.get("idleMs", self.limits.idle_ms)
        return t.watchdog.get("globalIdleMs", self.limits.global_idle_ms)

    # -- what it does --

    def move(self, t, rule):
        self.fired[rule] += 1
        at_ms, started = self.now_ms, iso(t.window_ms)
        used = {"session_started_at": started, "elapsed_seconds": (at_ms - t.window_ms) // 1000,
                "configured_budget_seconds": self.budget_ms(t) // 1000, "window": t.window}
        if rule == "session.wall_clock_notice":
            t.noticed = True
            used["budget_ends_at"] = iso(t.window_ms + self.budget_ms(t))
            t.note(at_ms, WATCHDOG, "runtime.watchdog.notice", used)
        elif rule == "session.wall_clock":
            t.status, t.stop, t.blocked_ms = BLOCKED[0], BLOCKED[2], at_ms
            kind = "runtime.watchdog.cancel"
            t.note(at_ms, WATCHDOG, kind, used | {
                "aggregate_type": "runtime_control", "aggregate_id": str(t.number),
                "event_kind": kind, "reason": "wall_clock_exceeded", "fired_at": iso(at_ms)})
        else:
            self.cancel(t, "idle_timeout" if t.is_open else "global_idle_timeout")

    def cancel(self, t, reason):
        last = iso(t.active_ms)
        t.note(self.now_ms, WATCHDOG, "idle_timeout",
               {"lastEventTs": last, "idleMs": self.idle_limit(t)})
        t.end(self.now_ms, WATCHDOG,
              {"text": "Auto-canceled after idle timeout.",
               "outcome": {"status": "canceled", "reason": reason},
               "metadata": {"reason": reason, "lastEventTs": last}}, reason)

    def settle(self, until_ms):
        """Every rule that is due by then, at its time or now if that is over."""
        while True:
            all_due = [(due, self.ORDER.index(rule), t.number, rule)
                       for t in self.talks.values() for rule, due in self.due(t).items()]
            if not all_due or min(all_due)[0] > until_ms:
                break
            due, _, number, rule = min(all_due)
            self.now_ms = max(self.now_ms, due)
            t = self.talks[number]
            seq = len(t.log)
            self.move(t, rule)
            self.order += [(number, e["seq"]) for e in t.log[seq:]]
        self.now_ms = max(self.now_ms, until_ms)

    # -- what people and agents do --

    def advance(self, by_ms):
        self.settle(self.now_ms + by_ms)

    def gap(self, by_ms):
        if by_ms:
            self.gaps.append((self.now_ms, self.now_ms + by_ms))
        self.now_ms += by_ms
        self.settle(self.now_ms)

    def add(self, s, number, watchdog, budget_s, max_turns):
        """A conversation that was just created; what its first event says is others' business."""
        first = s.events(number)[0]
        eq((first["payload"]["kind"], ms(first["ts"])), ("meta_created", self.now_ms), "the first")
        self.talks[number] = Talk(number, first["payload"], self.now_ms, watchdog, budget_s,
                                  max_turns)

    def writable(self, number):
        t = self.talks[number]
        if t.status != "active":
            raise Refused("CONVERSATION_BLOCKED" if t.status == "blocked"
                          else "CONVERSATION_FINALIZED")
        return t

    def message(self, number, agent, text, finality, outcome=None):
        t = self.writable(number)
        if finality != "none" and t.is_open and t.owner not in (None, agent):
            raise Refused("FORBIDDEN")
        payload = {"text": text}
        if finality == "conversation":
            payload["outcome"] = {"status": outcome}
            stop = "canceled_by_client" if outcome == "canceled" else outcome
            return t.end(self.now_ms, agent, payload, stop)
        t.write(self.now_ms, agent, "message", payload, finality)
        if finality == "turn" and 0 < t.max_turns <= t.last_turn:
            self.fired["conversation.max_turns"] += 1
            t.end(self.now_ms, ORCHESTRATOR,
                  {"text": f"Auto-closed: reached maxTurns={t.max_turns}.",
                   "outcome": {"status": "canceled", "reason": "max_turns"}}, "max_turns")
        return None

    def trace(self, number, agent):
        self.writable(number).write(self.now_ms, agent, "trace", THOUGHT)

    def clear(self, number, agent):
        t = self.writable(number)
        if t.is_open and t.owner:
            t.write(self.now_ms, agent, "trace", {"type": "turn_cleared", "abortedBy": agent})
            t.owner = None

    def end(self, number, outcome):
        t = self.talks[number]
        if t.status != "completed":
            t.end(self.now_ms, "operator", {"text": "Conversation ended.",
                                            "outcome": {"status": outcome}},
                  "canceled_by_user" if outcome == "canceled" else outcome)
        elif t.outcome != outcome:
            raise Refused("CONVERSATION_FINALIZED")

    def resume(self, number, budget_s=None):
        t = self.talks[number]
        if t.status == "completed":
            raise Refused("CONVERSATION_FINALIZED")
        if t.status == "active":
            raise Refused("INVALID_TRANSITION")
        blocked_s = (self.now_ms - t.blocked_ms) // 1000
        t.status, t.stop, t.blocked_ms, t.noticed = "active", None, None, False
        t.window, t.window_ms = t.window + 1, self.now_ms
        t.budget_s = t.budget_s if budget_s is None else budget_s
        t.note(self.now_ms, ORCHESTRATOR, "runtime.resumed",
               {"window": t.window, "window_started_at": iso(t.window_ms),
                "blocked_seconds": blocked_s,
                "configured_budget_seconds": self.budget_ms(t) // 1000})

    # -- the comparison --

    def compare(self, s, talks=None):
        for t in self.talks.values() if talks is None else talks:
            self.compare_talk(s, t)

    def compare_talk(self, s, t):
        what = f"at {iso(self.now_ms)}, conversation {t.number}"
        log = [{k: v for k, v in e.items() if k != "id"} for e in s.events(t.number)]
        for got, want in itertools.zip_longest(log, t.log):
            eq(got, want, f"{what}: the event")
        seen = get(s, t.number)
        eq((seen["status"], seen["outcome"], seen["stop_reason_code"], seen["window"],
            ms(seen["windowStartedAt"])), (t.status, t.outcome, t.stop, t.window, t.window_ms),
           f"{what}: its state")
        eq(s.head(t.number), {"lastTurn": t.last_turn, "lastClosedSeq": t.closed_seq,
                              "hasOpenTurn": t.is_open}, f"{what}: its head")
        eq(clocks(s, t.number), self.due(t), f"{what}: due")
