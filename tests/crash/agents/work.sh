#!/bin/sh
# One attempt at a task. Its file is locked while any process of the attempt lives, whatever kills
# it: whoever finds it locked runs beside another attempt.
set -eu
task=$(printf '%s' "$REEVE_TASK" | sed 's/^{"task":\([0-9]*\).*/\1/')
epoch=$(printf '%s' "$REEVE_TASK" | sed 's/.*"epoch":\([0-9]*\).*/\1/')
me="$epoch $REEVE_SPAWN $$"
exec 9>>"$FLEET_JOURNAL/$task"
flock -n 9 || echo "overlap $me" >&9
echo "begin $me" >&9
sleep 0.0$((task % 10))
setsid sleep 0.05 # what a group kill would not find
echo "end $me" >&9
echo "$epoch"
