"""What a machine says of processes: what follows is written down, and one damaged agent keeps nobody
else's facts from being taken."""
from crew import claim, give, join, poll, said, talk
from fleet import edit_store, open_starts
from reeve_test import check, eq, main
from scripted_machine import CRASH, DEADLINE_MS, TTL_MS, Machine, agent_of, boot, work
from watch_model import advance, manual


def running(s, *roles):
    """A machine, a conversation of these roles, and {role: spawn id}."""
    m = Machine(s)
    c = talk(s, *roles, kind="worker")
    s.call("lifecycle.ensure", conversation=c)
    return m, c, boot(s, m, c)


def told_to_start(s, **more):
    """A machine that has a start in hand: (it, the conversation, the spawn id)."""
    m = Machine(s, **more)
    c = talk(s, "a", kind="worker")
    s.call("agent.start", conversation=c, role="a")
    return m, c, m.start_given()["spawnId"]


def roles_to_start(s, c):
    return [x["role"] for x in open_starts(s, c)]


def damage(s, m):
    s.stop()
    edit_store(s, "UPDATE agents SET view = 'nonsense' WHERE role = 'bad'")
    s.start()
    m.reconnect()


@manual()
def test_P13_a_start_that_expires_says_what_was_seen_and_the_limit(s):
    m = Machine(s)
    c = talk(s, "a", kind="worker")
    s.call("agent.start", conversation=c, role="a")
    given = m.start_given()
    advance(s, DEADLINE_MS // 2)
    m.poll()
    advance(s, DEADLINE_MS // 2 + 1)
    (seen,) = said(s, c, "watch.command.expired")
    eq((seen["command"], seen["type"], seen["limit"], seen["agent"]),
       (given["command"], "start-agent", DEADLINE_MS, f"{c}:a"), "what it saw")


@manual()
def test_P13_a_stop_that_is_sent_again_is_told_too(s):
    m, c, _ = running(s, "a")
    s.call("agent.stop", conversation=c, role="a")
    (given,) = m.poll()
    advance(s, DEADLINE_MS // 2)
    m.poll()
    advance(s, DEADLINE_MS // 2 + 1)
    (seen,) = said(s, c, "watch.command.expired")
    eq((seen["command"], seen["type"]), (given["command"], "stop-agent"), "what it saw")
    eq([x["command"] for x in m.poll()], [given["command"]], "sent again")


@manual()
def test_P13_a_restart_after_a_wait_says_which_and_how_long(s):
    m, c, spawns = running(s, "a")
    m.exited(spawns["a"])
    m.exited(m.boot())
    eq(said(s, c, "watch.agent.exited"), [], "the first restart waits for nothing")
    advance(s, 1000)
    (seen,) = said(s, c, "watch.agent.exited")
    eq((seen["restart"], seen["limit"]), (2, 1000), "the second waits")


@manual()
def test_an_exit_is_shown_with_its_text_and_the_last_output(s):
    m, c, spawns = running(s, "a")
    m.exited(spawns["a"], {"code": None, "signal": 9, "text": "killed: out of memory",
                           "tail": "one\ntwo\n", "oom": True})
    (seen,) = said(s, c, "agent.exited")
    eq((seen["signal"], seen["text"], seen["tail"]), (9, "killed: out of memory", "one\ntwo\n"),
       "agent.exited")
    shown = s.call("agent.why", conversation=c, role="a")
    (told,) = [h["what"] for h in shown["history"] if h["rule"] == "agent.exited"]
    eq(told, f'the process of {c}:a has ended: killed: out of memory; its last words: "two"', "why")


@manual()
def test_what_its_machine_stopped_by_itself_is_no_crash(s):
    """`reeve down`, or a host that shuts down."""
    m, c, spawns = running(s, "a")
    m.stopped(spawns["a"])
    seen = agent_of(s, c)
    eq((seen["view"], seen["restarts"]), ("starting", 0), "it is wanted, and counted for nothing")
    (told,) = said(s, c, "agent.exited")
    eq(told["expected"], True, "agent.exited")


@manual()
def test_P21_claimed_work_is_neither_offered_nor_given_while_the_process_that_has_it_lives(s):
    """The claimer's lease is over, and its machine says that the process is there."""
    m, c, spawns = running(s, "a")
    agent = m.agent(spawns["a"])
    join(agent, c)
    give(s, c)
    claim(agent, c)
    for _ in range(4):
        advance(s, 20_000)
        m.poll(alive=[])  # the machine is here; it vouches for nobody
    join(s, c, connection="newcomer")
    eq(poll(s, c, connection="newcomer")["status"], "none", "it is not offered")
    s.refused("INVALID_TRANSITION", "task.claim", conversation=c, role="a", connectionId="newcomer")


@manual()
def test_who_lists_agents_is_told_the_process(s):
    m, c, spawns = running(s, "a")
    seen = agent_of(s, c)["process"]
    eq((seen["spawnId"], seen["pid"]), (spawns["a"], 1000), "of one that runs")
    m.exited(spawns["a"])
    m.start_given()
    check("pid" not in agent_of(s, c)["process"], "one that nobody has seen has none")


@manual()
def test_P17_a_damaged_agent_keeps_no_other_fact_from_being_taken(s):
    m, c, spawns = running(s, "bad", "good")
    damage(s, m)
    m.register()
    answer = m.facts(("exited", spawns["bad"], {"exit": CRASH}),
                     ("exited", spawns["good"], {"exit": CRASH}))
    eq([x["n"] for x in answer["rejected"]], [answer["acceptedTo"] - 1], "set aside")
    eq(roles_to_start(s, c), ["good"], "the other is restarted")


@manual()
def test_P17_nor_the_machine_from_registering_without_it(s):
    m, c, spawns = running(s, "bad", "good")
    damage(s, m)
    m.processes.clear()
    m.register()
    eq(roles_to_start(s, c), ["good"], "the other was found to be gone, and is restarted")


@manual()
def test_P9_a_process_that_was_thought_gone_is_stopped_once(s):
    m, c, spawns = running(s, "a")
    mine = dict(m.processes)
    m.processes.clear()
    m.register()                      # it does not find it, and then it does
    m.processes = mine
    (stop,) = [x for x in m.register() if x["type"] == "stop-agent"]
    eq(stop["spawnId"], spawns["a"], "it is not the current one any more")
    m.stopped(spawns["a"])
    open_stops = [x for x in s.call("command.list", conversation=c)["commands"]
                  if x["type"] == "stop-agent" and x["status"] == "delivered"]
    eq(open_stops, [], "the order is closed by its end")


def start_that_expires(s, m):
    """A start that the machine takes and does not confirm: (conversation, the command)."""
    c = talk(s, "a", kind="worker")
    s.call("agent.start", conversation=c, role="a")
    given = m.start_given()
    advance(s, DEADLINE_MS // 2)
    m.poll()
    advance(s, DEADLINE_MS // 2 + 1)
    return c, given


@manual()
def test_P22_what_a_restart_replaces_is_not_taken_for_it(s):
    m = Machine(s)
    c, late = start_that_expires(s, m)
    m.processes[late["spawnId"]] = late
    m.report("spawned", late["spawnId"], pid=7, startTime=1)   # after all
    (again,) = m.poll()
    eq(again["type"], "restart-agent", "it may live, so it is replaced")
    m.stopped(late["spawnId"])
    eq(agent_of(s, c, "a")["view"], "starting", "the old one is gone, the new one not seen")


@manual()
def test_P22_a_process_that_was_never_reported_is_not_taken_for_stopped(s):
    m, c, spawn = told_to_start(s)
    its_own = m.agent(spawn)
    its_own.call("participant.join", conversation=c, role="a", connectionId="x")
    for _ in range(3):                # it speaks; its machine does not say that it began
        advance(s, DEADLINE_MS // 3 + 1)
        m.poll(alive=[])
        its_own.call("participant.heartbeat", conversation=c, role="a", connectionId="x")
    check(said(s, c, "watch.command.expired"), "the start has expired")
    advance(s, TTL_MS // 2)
    its_own.call("participant.heartbeat", conversation=c, role="a", connectionId="x")
    advance(s, TTL_MS)                # the machine is offline, and then the process is silent too
    s.call("agent.start", conversation=c, role="a")
    eq(agent_of(s, c, "a")["view"], "unknown", "nobody saw it end")


@manual()
def test_P21_work_of_a_blocked_conversation_is_held_until_its_process_is_dead(s):
    m = Machine(s)
    c = talk(s, "a", kind="worker", runtime_controls={"session_wall_clock_seconds": 20})
    give(s, c)
    spawn = m.boot()
    work(s, m, c, spawn)
    advance(s, 20_001)                # before the lease of its worker is over
    s.call("conversation.resume", conversation=c)
    join(s, c, connection="newcomer")
    s.refused("PRECONDITION_FAILED", "task.claim", conversation=c, role="a", connectionId="newcomer")
    m.stopped(spawn)
    eq(claim(s, c, connection="newcomer")["epoch"], 2, "proven dead")


@manual()
def test_P21_a_process_that_spoke_and_is_not_there_holds_nothing(s):
    """It joined and took work before its machine said that it began; then the machine lost it."""
    m, c, spawn = told_to_start(s)
    give(s, c)
    its_own = m.agent(spawn)
    join(its_own, c, connection="x")
    claim(its_own, c, connection="x")
    offline(s)
    again = Machine(s)                # after a boot
    eq(agent_of(s, c)["view"], "starting", "it is started anew")
    (given,) = again.registered
    work(s, again, c, again.spawn(given))


@manual()
def test_P22_what_was_to_be_replaced_and_was_not_is_stopping(s):
    """A restart that its machine never heard of: the old process is there, and has to go."""
    m = Machine(s)
    c = talk(s, "a", kind="worker")
    task = give(s, c)
    spawn = m.boot()
    s.call("agent.restart", conversation=c, role="a")
    m.client.call("machine.poll", **m.identity(), timeoutMs=0, alive=[spawn])
    offline(s)                        # the answer was lost
    s.call("task.cancel", task=task["task"], reason="enough")
    (stop,) = m.register()
    eq((stop["type"], stop["spawnId"]), ("stop-agent", spawn), "what the machine is told")
    eq(agent_of(s, c)["view"], "stopping", "it is there")
    m.stopped(spawn)
    eq((agent_of(s, c)["view"], m.poll()), ("stopped", []), "gone")


# ---- lists of what a machine has ----

def offline(s):
    advance(s, TTL_MS + 1)
    eq(s.call("machine.list")["machines"][0]["status"], "offline", "the machine")


@manual()
def test_P22_a_start_in_hand_is_neither_running_nor_told_again(s):
    m, c, spawn = told_to_start(s)
    offline(s)
    eq(agent_of(s, c)["view"], "unknown", "its machine is away")
    eq(m.poll(alive=[spawn]), [], "it has been told already")
    eq(agent_of(s, c)["view"], "starting", "named, and not begun")
    m.report("spawned", spawn, pid=7, startTime=1)
    eq((agent_of(s, c)["view"], open_starts(s, c)), ("running", []), "begun")


@manual()
def test_P22_a_start_in_hand_when_its_machine_registers_is_not_taken_for_begun(s):
    m, c, spawn = told_to_start(s)
    m.client.call("machine.register", **m.identity(), hostname="host", bootId="boot",
                  kinds=m.kinds, processes=[{"spawnId": spawn, "state": "running"}])
    eq(agent_of(s, c)["view"], "starting", "without a number there is no process")


@manual()
def test_P21_a_list_that_was_overtaken_is_not_believed(s):
    m, c, spawns = running(s, "a")
    m.poll(n=7)
    offline(s)
    eq(m.poll(alive=[], n=6), [], "nothing to do")
    eq(m.client.call("machine.register", **m.identity(), hostname="late", bootId="boot",
                     kinds=m.kinds, n=5)["commands"], [], "nor for an old register")
    (seen,) = s.call("machine.list")["machines"]
    eq((seen["status"], seen["hostname"]), ("offline", "host"), "neither is a sign of life")
    eq((agent_of(s, c)["view"], said(s, c, "agent.exited")), ("unknown", []), "nobody ended")
    m.poll(n=8)
    eq((agent_of(s, c)["view"], said(s, c, "agent.exited")), ("running", []), "as it was")


@manual()
def test_lists_are_counted_by_instance_and_only_if_the_machine_counts(s):
    m, c, spawns = running(s, "a")
    m.poll(n=7)
    m.poll()                          # an older program
    offline(s)
    m.poll(n=1)                       # the count begins anew
    eq(agent_of(s, c)["view"], "running", "believed")
    again = Machine(s, register=False)
    again.processes = dict(m.processes)
    again.register(n=1)
    eq((agent_of(s, c)["view"], said(s, c, "agent.exited")), ("running", []), "another instance")


@manual()
def test_P22_who_joins_while_its_machine_is_away_is_not_shown_as_running(s):
    m, c, spawn = told_to_start(s, kinds=[{"name": "worker", "ready": "heartbeat"}])
    its_own = m.agent(spawn)
    offline(s)
    its_own.call("participant.join", conversation=c, role="a", connectionId="x")
    advance(s, TTL_MS)                # and is not heard of any more
    eq(agent_of(s, c)["view"], "unknown", "nobody can tell")


main()
