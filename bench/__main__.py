"""Runs every bench of this directory, or those that are named: `python -m bench identity`.

The fault campaigns (`make faults`, `make faults-fleet`) and the crowd measure nothing,
the fleet needs root and engines: they run only when named.
`bench.rounds` compares with another version, and is called by itself.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

APART = ("crowd", "faults", "faults_fleet", "fleet", "rounds")


def main(names: list[str]) -> int:
    here = Path(__file__).parent
    files = [*here.glob("[a-z]*.py"), *(file.parent for file in here.glob("*/__main__.py"))]
    known = sorted(file.stem for file in files)
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
