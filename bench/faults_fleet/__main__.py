"""A campaign of faults over the engines of the fleet. `make faults-fleet`.

Each engine's faults are done one after the other, the engines beside each other. Bars: second
copies, invented endings, lost facts and starts that never began are 0. It needs root.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.faults_fleet.track import ENGINES
from bench.faults_fleet.trial import BARS, FAILED

Row = dict[str, Any]
QUICK = (
    "submitter killed at each write",
    "sshd killed under a run",
    "PostgreSQL stopped in a start",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.faults_fleet", description=__doc__)
    parser.add_argument("--engines", default="ssh,slurm,ray", help="which, with commas between")
    parser.add_argument("--rounds", type=int, default=1, help="how often all of them are done")
    parser.add_argument("--seed", type=int, default=None, help="to do the same again")
    parser.add_argument("--most", type=int, default=0, help="faults of each engine, 0: all")
    parser.add_argument(
        "--only",
        default="",
        help="kinds that contain one of these; alone: what the engines alone do",
    )
    parser.add_argument("--quick", action="store_true", help="three faults over ssh")
    args = parser.parse_args()
    engines = args.engines.split(",") if not args.quick else ["ssh"]
    unknown = [name for name in engines if name not in ENGINES]
    if unknown:
        parser.error(f"no such engine: {', '.join(unknown)}; there are {', '.join(ENGINES)}")
    seed = random.randrange(1 << 30) if args.seed is None else args.seed
    most, only = (len(QUICK), ",".join(QUICK)) if args.quick else (args.most, args.only)
    print(f"{', '.join(engines)}; seed {seed}", flush=True)
    began = time.monotonic()
    with ThreadPoolExecutor(len(engines)) as pool:
        words = [[name, str(args.rounds), str(seed), str(most), only] for name in engines]
        parts = list(pool.map(_track, words))
    rows = [row for part, _ in parts for row in part if "kind" in row]
    alone = [row["alone"] for part, _ in parts for row in part if "alone" in row]
    broken = [name for name, (_, code) in zip(engines, parts, strict=True) if code]
    _report(rows, alone, time.monotonic() - began)
    for name in broken:
        print(f"the faults of {name} were not done to their end", file=sys.stderr)
    return 1 if broken or not (rows or alone) or any(row["wrong"] for row in rows) else 0


def _track(words: list[str]) -> tuple[list[Row], int]:
    """One engine; its results as they come."""
    command = [sys.executable, "-m", "bench.faults_fleet.track", *words]
    rows = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as part:
        assert part.stdout is not None
        for line in part.stdout:
            rows.append(json.loads(line))
            _follow(rows[-1])
    return rows, part.returncode


def _follow(row: Row) -> None:
    """How far it is."""
    if "alone" in row:
        return
    said = f"VIOLATION: {row['text']}" if row["wrong"] else f"{row['seconds']} s"
    print(f"{row['engine']}, {row['ledger']}, {row['kind']}: {said}", file=sys.stderr, flush=True)


def _report(rows: list[Row], alone: list[Row], seconds: float) -> None:
    kinds = Counter((row["engine"], row["kind"]) for row in rows)
    columns = (*BARS, FAILED) if any(row["wrong"] == FAILED for row in rows) else BARS
    head = ["engine", "fault", "faults", "starts", *columns, "left unknown", "refused"]
    lines = []
    for (engine, kind), done in sorted(kinds.items(), key=lambda one: _order(one[0][0])):
        ours = [row for row in rows if (row["engine"], row["kind"]) == (engine, kind)]
        wrong = Counter(row["wrong"] for row in ours)
        starts = sum(row["starts"] for row in ours)
        told = [sum(row[name] for row in ours) for name in ("unknown", "refused")]
        lines.append([engine, kind, done, starts, *(wrong[one] for one in columns), *told])
    totals = [sum(line[at] for line in lines) for at in range(2, len(head))]
    lines.append(["all", f"in {seconds:.0f} s", *totals])
    _table(head, lines)
    ledgers = Counter(row["ledger"] for row in rows)
    print("ledgers: " + ", ".join(f"{name} {count}" for name, count in sorted(ledgers.items())))
    if alone:
        print("\nThe engine alone, with the same workload:\n")
        head = ["engine", "fault", "requests", "second copies", "two alive together"]
        names = ("engine", "what", "requests", "copies", "together")
        _table(head, [[row[name] for name in names] for row in alone])


def _order(engine: str) -> int:
    return list(ENGINES).index(engine.lower())


def _table(head: list[str], lines: list[list[Any]]) -> None:
    """As Markdown: it goes into the documentation as it is."""
    for line in (head, ["---"] * len(head), *lines):
        print("| " + " | ".join(map(str, line)) + " |")


if __name__ == "__main__":
    sys.exit(main())
