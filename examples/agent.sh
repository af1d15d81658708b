#!/bin/sh
# agent.sh: an agent in shell. It works for one role of one conversation, one task after the other.
#
# A task's content is a number. The work is to count to it, one step a second. `reeve wait-for-task`
# waits for a task, takes it, runs the second half of this file for it and sends signs of life
# meanwhile. What that half prints is its progress, and then its deliverable.

if [ "$1" != work ]; then
    while :; do
        reeve wait-for-task --exec sh "$0" work
        code=$?
        case $code in
            0 | 1) ;;             # done, or failed, or taken away: on to the next task
            3 | 4 | 5) exit 0 ;;  # superseded, the conversation has ended, told to stop
            *) exit $code ;;
        esac
    done
fi

steps=$(sed 's/.*"content":\([0-9]*\).*/\1/') # the task is on standard input, as JSON
step=0
while [ "$step" -lt "$steps" ]; do
    sleep 1
    step=$((step + 1))
    echo "step $step of $steps"
done
