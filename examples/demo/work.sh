#!/bin/sh
# One task: some seconds of work, then the next role's turn. The task is in REEVE_TASK, as JSON.
# Now and then it goes wrong on purpose, at the first attempt: every 7th task kills its agent, every
# 11th hangs.
set -eu
task=$(printf '%s' "$REEVE_TASK" | sed 's/^{"task":\([0-9]*\).*/\1/')
case $REEVE_TASK in *'"attempts":0'*) trouble=$task ;; *) trouble=1 ;; esac

# A server that is away for a moment (69) or says "not now" (75) is no reason to fail the task.
call() {
    while :; do
        status=0
        reeve rpc "$@" >/dev/null || status=$?
        case $status in 69|75) sleep 1 ;; *) return $status ;; esac
    done
}

say() {
    call trace.append "{\"conversation\":$REEVE_CONVERSATION,\"agentId\":\"$REEVE_ROLE\",
        \"payload\":{\"type\":\"progress\",\"text\":\"$1\"}}"
    echo "$1"
}

say "begins task $task"
sleep 1
if [ $((trouble % 11)) -eq 0 ]; then
    say "task $task: thinking, and never coming back"
    while :; do sleep 1; done
fi
if [ $((trouble % 7)) -eq 0 ]; then
    say "task $task: about to crash"
    kill -9 "$DEMO_AGENT_PID" $PPID
fi
sleep 2
say "task $task is done"

case $REEVE_ROLE in
    planner) next=builder ;;
    *) next=checker ;;
esac
# The same key again has no second effect: if we are killed here and the task is done over, the next
# role still gets one task.
call task.create "{\"conversation\":$REEVE_CONVERSATION,\"role\":\"$next\",
    \"content\":{\"after\":$task},\"idempotencyKey\":\"after-$task\"}"
