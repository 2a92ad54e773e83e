#!/usr/bin/env bash
# The main job from one end to the other, with real processes, in a state directory of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PWD/.venv/bin:$PATH

place=$(mktemp -d)
export place HOLDFAST_HOME=$place/state
cleanup() {
    holdfast stop --all --grace 0 >/dev/null 2>&1 || true
    rm -rf "$place"
}
trap cleanup EXIT

say() { printf '\n# %s\n' "$*"; }
# Prints a command, runs it, and shows its exit code, which is part of the answer.
show() {
    local code=0
    printf '$ %s\n' "$*"
    "$@" 2>&1 || code=$?
    ((code == 0)) || printf '  (exit %d)\n' "$code"
}
shim_of() { holdfast status "$1" --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["shim"]["pid"])'; }
wait_for() { for _ in $(seq 200); do "$@" && return; sleep 0.05; done; echo "timed out: $*"; exit 1; }

cat >"$place/work.sh" <<'EOF'
# Work that leaves a helper behind in a session of its own, out of reach of a process group kill.
setsid sleep 1000 &
for i in $(seq 1000); do echo "step $i"; sleep 0.2; done
EOF

say "Start a run from a shell, and close that shell: the run goes on"
printf '$ bash -c "holdfast run -n train bash work.sh; kill -HUP 0"\n'
{ setsid --wait bash -c 'holdfast run -n train bash "$place/work.sh"; kill -HUP 0' || true; } 2>/dev/null
wait_for grep -q 'step 2' "$HOLDFAST_HOME"/runs/*/output.log
show holdfast ls
show holdfast tree train

say "Follow its output"
printf '$ holdfast logs -f train   (left after a second)\n'
timeout 1 holdfast logs -f train || true

say "A second copy is refused"
show holdfast run -n train bash "$place/work.sh"

say "kill -9 its supervisor: the work goes on, nothing is lost, and it is adopted"
shim=$(shim_of train)
printf '$ kill -9 %s\n' "$shim"
kill -9 "$shim"
show holdfast ls
show holdfast recover
show holdfast ls

say "Stop it: the whole tree, with the helper that called setsid"
show holdfast stop train
show holdfast status train

say "The true exit code, also of a run that was orphaned"
holdfast run -n task sh -c 'sleep 1; exit 42' >/dev/null
kill -9 "$(shim_of task)"
show holdfast wait task
show holdfast status task

say "A number is not a name: the same PID, another process"
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
