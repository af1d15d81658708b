#!/bin/sh
# The checker is written for Node; where there is none, the shell does its work.
if command -v node >/dev/null; then
    exec node checker.mjs
fi
exec sh agent.sh
