"""Runs every bench of this directory, or those that are named: `python -m bench identity`.

The fault campaign, which measures nothing, is run only when it is named (`make faults`).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

APART = ("faults",)


def main(names: list[str]) -> int:
    known = sorted(file.stem for file in Path(__file__).parent.glob("[a-z]*.py"))
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no such bench: {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    missed = []
    for name in names or [name for name in known if name not in APART]:
        print(f"== {name}", flush=True)
        if subprocess.run([sys.executable, "-m", f"bench.{name}"], check=False).returncode:
            missed.append(name)
    print(f"missed: {', '.join(missed)}" if missed else "all bars are met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
