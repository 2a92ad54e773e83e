#!/usr/bin/env bash
# Shows, with real processes, why a process is named by its identity and not by its PID.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PWD/.venv/bin:$PATH

place=$(mktemp -d)
export place HOLDFAST_HOME=$place/state
background=()
cleanup() {
    for pid in "${background[@]}"; do kill "$pid" 2>/dev/null || true; done
    rm -rf "$place"
}
trap cleanup EXIT

say() { printf '\n# %s\n' "$*"; }
# Prints a command, runs it, and shows its exit code, which is part of the answer.
show() {
    local code=0
    printf '$ %s\n' "$*"
    "$@" 2>&1 || code=$?
    printf '  (exit %d)\n' "$code"
}

say "The identity of a process, and its verdict"
sleep 600 & process=$!
background+=("$process")
show holdfast who "$process"
token=$(holdfast who "$process")
show holdfast check "$token"

say "A signal goes to that process, or to nobody"
show holdfast signal TERM "$token"
wait "$process" || true
show holdfast check "$token"
show holdfast signal TERM "$token"

say "One instance at a time: guard refuses a second"
holdfast guard "$place/service.pid" sleep 600 & service=$!
background+=("$service")
for _ in $(seq 200); do [[ -s $place/service.pid ]] && break; sleep 0.05; done
show holdfast check "$place/service.pid"
show holdfast guard "$place/service.pid" sleep 600

say "The same PID, another process: a number is not a name"
reuse() {
    sleep 600 & process=$!
    token=$(holdfast who "$process")
    kill "$process"
    wait "$process" || true
    # In a PID namespace of our own, the kernel can be told which PID comes next.
    echo $((process - 1)) >/proc/sys/kernel/ns_last_pid
    sleep 600 & stranger=$!
    echo "recorded: PID $process; now living under PID $stranger: a stranger"
    show holdfast check "$token"
    show holdfast signal KILL "$token"
    kill -0 "$stranger" && echo "the stranger lives"
}
export -f reuse show
if unshare --pid --fork --mount-proc true 2>/dev/null; then
    unshare --pid --fork --kill-child --mount-proc bash -euo pipefail -c reuse
elif unshare --user --map-root-user --pid --fork --mount-proc true 2>/dev/null; then
    unshare --user --map-root-user --pid --fork --kill-child --mount-proc bash -euo pipefail -c reuse
else
    echo "(left out: this machine gives us no PID namespace to force a reuse in)"
fi
