"""The limits of work: they hold for what exists when they change, and every end that a rule makes
says which rule it was, what it saw and the limit it used."""
from crew import DISPATCH_MS, REAP_MS, give, keep_beating, put_to_work, said, status, talk
from reeve_test import check, eq, main
from watch_model import advance, manual, now


def restart_with(s, *settings):
    s.args = ["--clock=manual", *(x for t in settings for x in ("--set", t))]
    s.restart("stop")


@manual()
def test_P3_limits_changed_across_a_restart_hold_for_tasks_that_wait(s):
    """Shorter and longer; the time to look at a task was stored by the old limit."""
    c = talk(s)
    shorter = give(s, c)
    made = now(s)
    advance(s, 50_000)
    restart_with(s, "pmo.dispatched_timeout_seconds=100")
    advance(s, 50_000)
    eq((status(s, shorter), now(s)), ("pending", made + 100_000), "at the new limit")
    advance(s, 1)
    eq(status(s, shorter), "timeout", "past it")
    longer = give(s, c)
    restart_with(s, "pmo.dispatched_timeout_seconds=1000")
    advance(s, 1_000_000)
    eq(status(s, longer), "pending", "at the longer one")
    advance(s, 1)
    eq(status(s, longer), "timeout", "past it")


@manual("pmo.active_reap_seconds=0")
def test_P9_a_rule_that_was_off_holds_for_work_in_progress_when_it_is_turned_on(s):
    c = talk(s)
    t = put_to_work(s, c)
    restart_with(s, "pmo.active_reap_seconds=10", "liveness.active_ttl_seconds=3600",
                 "task.max_seconds=0")
    keep_beating(s, c, t, now(s) + 71_000)  # a start gives the minute back that may not be stored
    eq(status(s, t), "failed", "reaped for want of progress")


@manual()
def test_P13_an_end_by_a_rule_says_what_it_saw_and_the_limit(s):
    c = talk(s)
    give(s, c)
    advance(s, DISPATCH_MS + 1)
    (forced,) = said(s, c, "agent.force_terminated")
    eq((forced["rule"], forced["limit"], forced["status"]),
       ("dispatch.reap", DISPATCH_MS, "pending"), "of dispatch.reap")
    d = talk(s)
    t = put_to_work(s, d)
    keep_beating(s, d, t, now(s) + REAP_MS + 1)
    (forced,) = said(s, d, "agent.force_terminated")
    eq((forced["rule"], forced["limit"], forced["status"], forced["reason"]),
       ("running.reap", REAP_MS, "in_progress", "timeout_reaped_by_watchdog"), "of running.reap")
    check(forced["activeUntil"], "it was alive, and that is told")


main()
