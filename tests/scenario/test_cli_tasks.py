"""The verbs for work and for agents: task, agent, ps, and why of an agent."""
import json
import re

from crew import give, join, participant, status, talk, task_of
from reeve_test import check, eq, main, reeve, server
from scripted_machine import TTL_MS, Machine, kind
from watch_model import advance

MANUAL = ("--clock=manual",)
HOSTILE = "\x1b[2J\x1b]0;owned\x07 \u202eevil\u2028 \x9b31m\r\nfake line"


def ok(s, *args, **options):
    done = reeve(*args, data=s.data, **options)
    eq((done.returncode, done.stderr), (0, ""), f"reeve {args}")
    for line in done.stdout.splitlines():
        check(not re.search(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e]", line), f"unsafe: {line!r}")
    return done.stdout


def answer(s, *args, **options):
    """The same with --json."""
    out = ok(s, *args, "--json", **options)
    eq(out.count("\n"), 1, "one document, one line")
    return json.loads(out)


def fails(s, code, *args, word=""):
    done = reeve(*args, data=s.data)
    eq((done.returncode, done.stdout), (code, ""), f"reeve {args}: {done.stderr}")
    check(done.stderr.startswith("reeve") and word in done.stderr, f"message {done.stderr!r}")


def rows(text):
    return [re.split(r"\s{2,}", line) for line in text.splitlines()]


VERBS = ("task create", "task claim", "task start", "task progress", "task complete", "task fail",
         "task cancel", "task suspend", "task report", "task resume", "task applied", "card show",
         "task list", "task show", "agent start", "agent stop", "agent restart",
         "agent set", "agent list", "ps", "wait-for-task")


def test_help_knows_the_verbs():
    text = reeve("help").stdout
    for verb in VERBS:
        check(re.search(rf"^\s+{verb}\b", text, re.M), f"no {verb}")
        own = reeve("help", *verb.split()).stdout
        check(f"reeve {verb}" in own and "--json" in own, f"help of {verb}")
        eq(reeve(*verb.split(), "--help").stdout, own, f"reeve {verb} --help")


def test_wrong_usage_exits_2():
    for args in (("task",), ("task", "create"), ("task", "create", "1:a"),
                 ("task", "create", "a", "x"), ("task", "create", "1:", "x"),
                 ("task", "create", "1:a", "x", "--content", "1"),
                 ("task", "create", "1:a", "--content", "{"),
                 ("task", "claim"), ("task", "claim", "1:a", "--task", "0"),
                 ("task", "start", "1"), ("task", "start", "x", "--epoch", "1"),
                 ("task", "start", "1", "--epoch", "-1"),
                 ("task", "progress", "1", "--epoch", "1", "--progress", "{"),
                 ("task", "complete", "1", "x", "--epoch", "1", "--deliverable", "1"),
                 ("task", "complete", "1", "--epoch", "1", "--hand-off", "b"),
                 ("task", "complete", "1", "--epoch", "1", "--hand-off-content", "1"),
                 ("task", "fail", "1", "--epoch", "1"), ("task", "fail", "1", "x"),
                 ("task", "cancel", "1"), ("task", "show"), ("task", "show", "0"),
                 ("task", "suspend", "1", "--epoch", "1"),
                 ("task", "suspend", "1", "--tool", "x=y"),
                 ("task", "suspend", "1", "--epoch", "1", "--tool", "x"),
                 ("task", "suspend", "1", "--epoch", "1", "--tool", "=y"),
                 ("task", "suspend", "1", "--epoch", "1", "--tool", "x="),
                 ("task", "suspend", "1", "--epoch", "1", "--tool", "x=y", "--tools", "[]"),
                 ("task", "suspend", "1", "--epoch", "1", "--tool", "x=y", "--timeout", "500ms"),
                 ("task", "suspend", "1", "--epoch", "1", "--tool", "x=y", "--timeout", "5"),
                 ("task", "report", "1"), ("task", "report", "0", "x"),
                 ("task", "report", "1", "x", "--status", "timeout"),
                 ("task", "report", "1", "x", "text", "--result", "1"),
                 ("task", "report", "1", "x", "--code", "E"),
                 ("task", "resume", "1"), ("task", "applied", "1", "x"),
                 ("card", "show"), ("card", "show", "0"), ("card", "show", "x"),
                 ("task", "list", "--status", "bogus"), ("task", "list", "--limit", "0"),
                 ("agent",), ("agent", "start"), ("agent", "start", "builder"),
                 ("agent", "stop", "1:a", "word"), ("agent", "set", "x:y"),
                 ("agent", "set", "1:a", "--kind", "k", "--unmanaged"),
                 ("agent", "set", "1:a", "--machine", "m", "--any-machine"),
                 ("ps", "word"), ("ps", "--conversation", "x")):
        done = reeve(*args)
        eq((done.returncode, done.stdout), (2, ""), f"reeve {args}: {done.stderr}")


@server(args=MANUAL)
def test_the_life_of_a_task(s):
    c = talk(s)
    eq(ok(s, "task", "create", f"{c}:a", "write it down"),
       f"task 1 {c}:a pending epoch=1 attempts=0\n")
    eq(ok(s, "task", "claim", f"{c}:a"), f"task 1 {c}:a acknowledged epoch=1 attempts=0\n")
    eq(task_of(s, 1)["claimedBy"], "cli")
    eq(ok(s, "task", "start", "1", "--epoch", "1"),
       f"task 1 {c}:a in_progress epoch=1 attempts=0\n")
    check(re.fullmatch(r"active until 20\S+Z\n",
                       ok(s, "task", "progress", "1", "--epoch", "1", "--note", "half",
                          "--progress", '{"done": 5}')), "how long the claim lasts")
    eq(task_of(s, 1)["note"], "half")
    eq(ok(s, "task", "complete", "1", "here it is", "--epoch", "1", "--hand-off", "b",
          "--hand-off-content", '{"review":1}'), f"task 1 {c}:a completed epoch=1 attempts=0\n")
    eq((task_of(s, 2)["role"], task_of(s, 2)["content"]), ("b", {"review": 1}))
    text = ok(s, "task", "show", "1")
    for word in ("write it down", "claimed by", "half", "outcome", "deliverable"):
        check(word in text, f"no {word!r} in {text}")
    eq(answer(s, "task", "show", "1")["task"], task_of(s, 1))


@server(args=MANUAL)
def test_a_task_that_waits_for_tools(s):
    c = talk(s)
    give(s, c)
    ok(s, "task", "claim", f"{c}:a")
    ok(s, "task", "start", "1", "--epoch", "1")
    text = ok(s, "task", "suspend", "1", "--epoch", "1", "--tool", "c1=search", "--tool",
              "c2=a=b", "--timeout", "10m")
    check(re.fullmatch(rf"task 1 {c}:a suspended epoch=1 attempts=0\nthe first deadline is 20\S+Z\n",
                       text), text)
    eq(json.loads(ok(s, "card", "show", "2").splitlines()[1]),
       {"toolCallId": "c2", "name": "a=b", "options": {"suspend_timeout_seconds": 600}, "epoch": 1})
    check("(tool.timeout) unless its result is reported" in ok(s, "why", f"{c}:a").replace("\n", " "),
          "what comes next")
    eq(ok(s, "task", "resume", "1", "--epoch", "1"), "nothing to take\n")
    eq(ok(s, "task", "report", "1", "c1", "-", stdin="found\nit\n"), "accepted\n")
    eq(ok(s, "task", "report", "1", "c1", "again"), "accepted (duplicate)\n")
    eq(ok(s, "task", "report", "1", "c9", "--epoch", "7"), "not accepted (late)\n")
    eq(ok(s, "task", "report", "1", "c2", "--status", "failed", "--code", "E", "--message", HOSTILE),
       "accepted\n")
    fails(s, 1, "task", "report", "1", "c3", word="c3")
    why = ok(s, "why", f"{c}:a")
    check("tool call c1 (search) is received" in why, why)
    first, second, until = ok(s, "task", "resume", "1", "--epoch", "1").splitlines()
    eq(first, 'c1 success "found\\nit"')
    check(second.startswith('c2 failed {"code":"E"'), second)
    check(re.fullmatch(r"apply them until 20\S+Z", until), until)
    eq(ok(s, "task", "applied", "1", "c1", "--epoch", "1"),
       f"task 1 {c}:a suspended epoch=1 attempts=0\n")
    eq(answer(s, "task", "applied", "1", "c2", "--epoch", "1")["epoch"], 2)
    fails(s, 1, "task", "applied", "1", "--epoch", "1", word="epoch is 2")
    eq(ok(s, "task", "report", "1", "c4", "--result", '{"a":1}', "--epoch", "2"), "accepted (early)\n")
    ok(s, "task", "suspend", "1", "--epoch", "2", "--tools", '[{"toolCallId":"c4","name":"n"}]')
    eq(answer(s, "task", "resume", "1", "--epoch", "2")["results"][0]["result"], {"a": 1})
    eq(ok(s, "task", "applied", "1", "c4", "--epoch", "2", "--unattended"),
       f"task 1 {c}:a in_progress epoch=3 attempts=0\n")
    fails(s, 1, "card", "show", "99", word="99")
    eq(answer(s, "card", "show", "1")["card"]["type"], "tool.call")


@server(args=MANUAL)
def test_task_create_takes_text_json_and_standard_input(s):
    c = talk(s)
    agent = f"{c}:a"
    ok(s, "task", "create", agent, "-", stdin="from\na pipe\n")
    ok(s, "task", "create", agent, "--content", '{"a": [1, 2]}', "--channel", "side")
    got = [task_of(s, n) for n in (1, 2)]
    eq([t["content"] for t in got], ["from\na pipe", {"a": [1, 2]}])
    eq([t["channel"] for t in got], ["public", "side"])
    first = answer(s, "task", "create", agent, "x", "--key", "k")
    eq(answer(s, "task", "create", agent, "x", "--key", "k"), first, "a safe repeat")


@server(args=MANUAL)
def test_task_claim_by_whom_and_how_long(s):
    c = talk(s)
    t = give(s, c)
    fails(s, 1, "task", "claim", f"{c}:a", "--task", "99", word="NOT_FOUND")
    join(s, c, "a", "me")
    fails(s, 1, "task", "claim", f"{c}:a", word="SUPERSEDED")
    got = answer(s, "task", "claim", f"{c}:a", "--connection", "me", "--task", t["task"],
                 "--unattended")
    eq((got["epoch"], got["task"]["claimedBy"]), (1, "me"))
    advance(s, 200_000)
    eq(participant(s, c)["status"], "active", "nobody needs to beat")


@server(args=MANUAL)
def test_an_old_epoch_is_refused(s):
    c = talk(s)
    t = give(s, c)
    ok(s, "task", "claim", f"{c}:a")
    for args in (("start",), ("progress",), ("complete",)):
        fails(s, 1, "task", *args, t["task"], "--epoch", "0", word="STALE_EPOCH")
    fails(s, 1, "task", "fail", t["task"], "no", "--epoch", "7", word="STALE_EPOCH")
    eq(status(s, t), "acknowledged")


@server(args=MANUAL)
def test_task_fail_and_cancel(s):
    c = talk(s)
    give(s, c)
    ok(s, "task", "claim", f"{c}:a")
    ok(s, "task", "fail", "1", "cannot be done", "--epoch", "1")
    eq(task_of(s, 1)["outcome"]["error"], "cannot be done")
    give(s, c)
    check("canceled" in ok(s, "task", "cancel", "2", "not wanted"), "its status")
    eq(status(s, 2), "canceled")
    fails(s, 1, "task", "show", "99", word="NOT_FOUND")


@server(args=MANUAL)
def test_task_list_filters_and_pages(s):
    c, d = talk(s), talk(s)
    for where in (c, d):
        for role in "ab":
            give(s, where, role, content=HOSTILE)
            give(s, where, role)
    table = rows(ok(s, "task", "list"))
    eq(table[0], ["TASK", "AGENT", "STATUS", "EPOCH", "ATTEMPTS", "CREATED", "CONTENT"])
    eq([r[0] for r in table[1:]], [str(n) for n in range(1, 9)])
    table = rows(ok(s, "task", "list", "--conversation", c, "--role", "b"))
    eq([(r[1], r[2]) for r in table[1:]], [(f"{c}:b", "pending"), (f"{c}:b", "queued")])
    eq(len(answer(s, "task", "list", "--status", "queued")["tasks"]), 4)
    first = ok(s, "task", "list", "--limit", "3")
    eq(first.splitlines()[-1], "more: --after 3")
    eq(rows(ok(s, "task", "list", "--limit", "3", "--after", "3"))[1][0], "4")


@server(args=MANUAL)
def test_agent_verbs_of_an_unmanaged_agent(s):
    c = talk(s)
    agent = f"{c}:a"
    eq(ok(s, "agent", "stop", agent), f"{agent} desired stopped, no command (unmanaged)\n")
    eq(answer(s, "agent", "start", agent, "--reason", "again")["desired"], "running")
    check("unmanaged" in ok(s, "agent", "restart", agent), "why there is no command")
    for verb in ("agent.start", "agent.restart", "agent.stop"):
        eq(answer(s, *verb.split("."), agent), s.call(verb, conversation=c, role="a"), verb)
    fails(s, 1, "agent", "start", f"{c}:nobody", word="NOT_FOUND")
    fails(s, 1, "agent", "start", "99:a", word="NOT_FOUND")


@server(args=MANUAL)
def test_machine_verbs(s):
    m = Machine(s, "m1", kinds=[kind("worker"), kind("other")])
    table = rows(ok(s, "machine", "list"))
    eq(table[0], ["MACHINE", "STATUS", "SINCE", "HOST", "KINDS"])
    eq((table[1][0], table[1][1], table[1][3:]), ("m1", "online", ["host", "worker,other"]))
    fails(s, 1, "machine", "forget", "m1", word="is online")
    c = s.call("conversation.create", agents=[{"role": "a", "kind": "worker", "desired": "running"}])["conversation"]
    m.boot()
    s.call("clock.advance", ms=TTL_MS + 1)
    eq(rows(ok(s, "machine", "list"))[1][1], "offline")
    fails(s, 1, "agent", "set", f"{c}:a", "--machine", "m2", word="force")
    eq(ok(s, "agent", "set", f"{c}:a", "--machine", "m2", "--force"), f"{c}:a set\n")
    eq(ok(s, "agent", "stop", f"{c}:a", "--force"), f"{c}:a desired stopped, no command\n")
    fails(s, 1, "machine", "forget", "m1", word="force")
    eq(ok(s, "machine", "forget", "m1", "--force"), "m1 forgotten\n")
    eq(answer(s, "machine", "list"), {"machines": []})


@server(args=MANUAL)
def test_agent_set_adds_changes_and_removes(s):
    c = talk(s)
    new = f"{c}:c"
    eq(ok(s, "agent", "set", new, "--kind", "builder"), f"{new} set\n")
    (row,) = [r for r in rows(ok(s, "agent", "list")) if r[0] == new]
    eq(row[-1], "builder")
    eq(answer(s, "agent", "set", new, "--unmanaged", "--any-machine")["agent"], new)
    eq(s.call("agent.set", conversation=c, role="c", kind="builder")["agent"], new)
    s.call("agent.set", conversation=c, role="c", kind=None)
    t = give(s, c, "c")
    eq(ok(s, "agent", "set", new, "--remove"), f"{new} removed\n")
    eq(status(s, t), "canceled")
    check(new not in ok(s, "agent", "list"), "it is gone")
    check("c" not in [a["role"] for a in s.call("conversation.get", conversation=c)["agents"]])
    s.refused("NOT_FOUND", "task.create", conversation=c, role="c", content=1)
    eq(answer(s, "agent", "set", new, "--kind", "builder")["agent"], new, "it is back")
    check(new in ok(s, "agent", "list"), "and listed")


@server(args=MANUAL)
def test_ps_shows_who_is_there(s):
    c, d = talk(s), talk(s)
    give(s, c)
    reeve("wait-for-task", "--conversation", c, "--role", "a", data=s.data)
    join(s, d, "b", "me")
    table = rows(ok(s, "ps"))
    eq(table[0], ["AGENT", "VIEW", "SINCE", "TASK", "MACHINE", "PID", "DESIRED",
                  "RESTARTS", "KIND"])
    eq([(r[0], r[1], r[3]) for r in table[1:]],
       [(f"{c}:a", "working", "1"), (f"{d}:b", "waiting", "-")])
    eq(len(rows(ok(s, "ps", "--all"))), 5, "with those that do nothing")
    eq([r[0] for r in rows(ok(s, "ps", "-a", "--conversation", d))[1:]], [f"{d}:a", f"{d}:b"])
    eq(answer(s, "ps"), s.call("agent.list"))
    eq(ok(s, "agent", "list"), ok(s, "ps", "--all"))


@server(args=MANUAL)
def test_why_of_an_agent(s):
    c = talk(s)
    agent = f"{c}:a"
    text = ok(s, "why", agent)
    check(text.startswith(f"Agent {agent} (stopped): nobody listens for {agent}"), text)
    join(s, c, "a", "me")
    give(s, c)
    advance(s, 20_000)
    text = ok(s, "why", agent)
    check(f"Agent {agent} (waiting): task 1 is offered to me" in text, text)
    check("participant.expire" in text and "40s" in text, text)
    check("me listens" in text, "the evidence")
    eq(answer(s, "why", agent), s.call("agent.why", conversation=c, role="a"))
    fails(s, 1, "why", f"{c}:nobody", word="NOT_FOUND")
    fails(s, 2, "why", "x:a")


if __name__ == "__main__":
    main()
