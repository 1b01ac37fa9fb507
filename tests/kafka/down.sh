#!/usr/bin/env bash
# Stops the broker that up.sh started in a state folder, by its pid; does nothing if none runs. The data stay.
#
#   down.sh STATE [SIGNAL]
#
# SIGNAL  default TERM, an orderly shutdown; KILL plays a crash of the broker
set -euo pipefail

[ $# -ge 1 ] || { echo "usage: down.sh STATE [SIGNAL]" >&2; exit 1; }
[ -s "$1/pid" ] || exit 0
state=$(cd "$1" && pwd)
pid=$(cat "$state/pid")

# The pid may belong to another process by now.
running() { grep -qzxF "$state/server.properties" "/proc/$pid/cmdline" 2>/dev/null; }
if running; then
    kill "-${2:-TERM}" "$pid"
    for _ in $(seq 300); do
        running || break
        sleep 0.1
    done
    # An orderly shutdown can hang when its controller is already gone; tests must not.
    if running; then kill -KILL "$pid"; fi
fi
rm -f "$state/pid"
