#!/bin/sh
# An agent in a few lines of shell: it waits for work, and lets work.sh do it. `reeve wait-for-task`
# joins, claims, beats while work.sh runs, and hands in what it printed.
DEMO_AGENT_PID=$$
export DEMO_AGENT_PID
echo "$REEVE_ROLE is here, process $$"
while :; do
    reeve wait-for-task --exec sh work.sh
    code=$?
    case $code in
        0 | 1) ;;             # done, or failed, or taken away: on to the next
        3 | 4 | 5) exit 0 ;;  # superseded, the conversation has ended, told to stop
        *) exit $code ;;      # it was killed, or no server answered: whoever asks why is told
    esac
done
