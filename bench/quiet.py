"""Ten minutes of an ordinary, quiet program: no anomaly may fire. Exits 1 when one does.

    python -m bench.quiet [--seconds 600] [--store]

The run is a real one with the default interval. `--store` keeps its trace for the test that
replays it against the rules of the day: tests/unit/data/quiet-trace.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from holdfast.run.anomalies.watch import replay
from holdfast.run.trace_rows import read_rows

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "tests" / "support" / "faulty" / "quiet.py"
STORED = ROOT / "tests" / "unit" / "data" / "quiet-trace.jsonl"
_MACHINE = re.compile(r"\.[0-9a-f]{32}\.[0-9a-f]{8}\"")  # boot and host, in a token


def holdfast(home: str, *words: str) -> str:
    environment = {**os.environ, "HOLDFAST_HOME": home}
    command = [sys.executable, "-m", "holdfast", *words]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return done.stdout


def watch(home: str, seconds: float) -> tuple[list[dict[str, object]], list[str], Path]:
    """The rows of such a run, the anomalies that fired while it was live, and its trace."""
    python = os.path.realpath(sys.executable)
    holdfast(home, "run", "--name", "quiet", "--agent", "none", python, "-S", str(PROGRAM))
    try:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            time.sleep(max(0.0, min(10.0, ends - time.monotonic())))
            state = json.loads(holdfast(home, "status", "quiet", "--json"))["state"]
            if state != "running":
                raise SystemExit(f"the run is {state}, not running")
        run = json.loads(holdfast(home, "status", "quiet", "--json"))
    finally:
        holdfast(home, "stop", "quiet", "--grace", "1")
    directory = Path(home) / "runs" / run["id"]
    fired = directory / "anomalies.jsonl"
    live = [json.loads(line)["rule"] for line in fired.open()] if fired.exists() else []
    trace = directory / "trace.jsonl"
    return list(read_rows(str(trace))), live, trace


def main(arguments: list[str] | None = None) -> int:
    """Print what was seen; 1 when something fired."""
    parser = argparse.ArgumentParser(description="a quiet run fires no anomaly")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--store", action="store_true", help="keep the trace for the tests")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as home:
        os.chmod(home, 0o700)
        rows, live, trace = watch(home, options.seconds)
        again = [anomaly.rule for anomaly in replay(rows)]
        size = trace.stat().st_size
        print(f"{len(rows)} samples in {options.seconds:.0f} s, {size / len(rows):.0f} bytes each")
        print(f"a day of them: {size / len(rows) * 86400 / 5 / 1e6:.1f} MB before it is thinned")
        print(f"anomalies: {live or 'none'} live, {again or 'none'} on the stored trace")
        if options.store and not live and not again:
            STORED.parent.mkdir(exist_ok=True)
            STORED.write_text(_MACHINE.sub(f'.{"0" * 32}.{"0" * 8}"', trace.read_text()))
    return 1 if live or again else 0


if __name__ == "__main__":
    raise SystemExit(main())
