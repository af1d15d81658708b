#!/bin/sh
# An agent of the fleet in shell: `reeve wait-for-task` does the talking, work.sh the work. It ends
# when the test has gone, which its shim and its machine would survive.
(tail --pid="$FLEET_TEST" -f /dev/null && kill -9 $$) &
while :; do
    reeve wait-for-task --conversation "$REEVE_CONVERSATION" --role "$REEVE_ROLE" \
        --exec sh "$FLEET_AGENTS/work.sh"
    case $? in
        0 | 1) ;;     # done, or failed, or taken away: on to the next
        *) exit 0 ;;  # told to stop, superseded, or the conversation has ended
    esac
done
