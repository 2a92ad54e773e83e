"""What a hook adds to a call of an agent's tool, beside a Python that does nothing.

A program that is called claude runs the hook as an agent does, in a real run, and an empty program
of the same interpreter in turns with it. Each figure is the median of the rounds, the ratio that of
the rounds' ratios. Exits 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src")]

from holdfast.agents.hook_words import command  # noqa: E402 - the path is set above

MOST_TIMES = 2.0
MOST_SECONDS = 0.060
IDLE_SECONDS = 0.030  # an interpreter that takes longer waits for others: the ratio alone counts

# Prints the seconds of each round: of the hook, and of an interpreter that does nothing.
AGENT = """\
import json, subprocess, sys, time
said = json.dumps({"hook_event_name": "PostToolUse", "session_id": "s", "tool_name": "x"}).encode()
def call(words):
    began = time.perf_counter()
    subprocess.run(words, shell=True, input=said, check=True)
    return time.perf_counter() - began
print(json.dumps([(call(HOOK), call(NOTHING)) for _ in range(ROUNDS)]))
"""


def measure(rounds: int) -> list[tuple[float, float]]:
    """Seconds of the hook, and of nothing, in each round."""
    with tempfile.TemporaryDirectory() as home:
        nothing = f"{sys.executable} -I -S -c pass"
        known = f"HOOK, NOTHING, ROUNDS = {command()!r}, {nothing!r}, {rounds}\n"
        program = Path(home) / "claude"
        program.write_text(f"#!{sys.executable}\n{known}{AGENT}")
        program.chmod(0o755)
        environment = {**os.environ, "HOLDFAST_HOME": f"{home}/state", "PYTHONPATH": f"{ROOT}/src"}

        def holdfast(*words: str) -> str:
            argv = [sys.executable, "-m", "holdfast", *words]
            done = subprocess.run(argv, env=environment, check=True, capture_output=True, text=True)
            return done.stdout

        holdfast("run", "-n", "a", "--", str(program), "-p", "x")
        holdfast("wait", "a")
        if json.loads(holdfast("status", "--json", "a"))["session"]["id"] != "s":
            raise SystemExit("the run did not take the reports")
        return [(hook, base) for hook, base in json.loads(holdfast("logs", "a"))]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.hooks", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args(arguments)
    seconds = measure(rounds=30 if chosen.quick else 200)
    hook = statistics.median(one for one, _ in seconds)
    nothing = statistics.median(base for _, base in seconds)
    times = statistics.median(one / base for one, base in seconds)
    if chosen.json:
        print(json.dumps({"hook": hook, "nothing": nothing, "times": times}))
    else:
        print(f"a hook's report                     {hook * 1000:8.1f} ms")
        print(f"an interpreter that does nothing    {nothing * 1000:8.1f} ms")
        print(f"a report takes {times:.2f} times as long as nothing (bar: {MOST_TIMES})")
        if nothing > IDLE_SECONDS:
            print(f"the machine is busy: the bar of {MOST_SECONDS * 1000:.0f} ms is not judged")
    missed = times > MOST_TIMES or (nothing <= IDLE_SECONDS and hook > MOST_SECONDS)
    if missed:
        print("FAILED: a bar was missed", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
