"""A start of this source beside one of another: `python -m bench.rounds OTHER/src`.

In alternating rounds, for changes that are smaller than a machine's noise. On a busy machine
`chrt -r 10` in front keeps others out. Both are as they are after first use: compiled, and with
a bundle where they have such.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

from bench.launch import ROOT, Stage, call, cpu_of_a_run, stage


def _script(place: Stage, python: str, source: Path, name: str) -> str:
    """The command line of a source."""
    environment = {**place.environment, "PYTHONPATH": str(source)}
    subprocess.run([python, "-m", "compileall", "-qq", str(source)], env=environment, check=True)
    if (source / "holdfast" / "bundling.py").exists():
        subprocess.run([python, "-m", "holdfast.bundling"], env=environment, check=True)
    script = place.directory / name
    path = f"import sys; sys.path.insert(0, {str(source)!r})"
    begin = "from holdfast import cli; getattr(cli, 'program', cli.main)()"  # earlier: only `main`
    script.write_text(f"#!{python}\n{path}\n{begin}\n")
    script.chmod(0o755)
    return str(script)


def _look(place: Stage, script: str) -> dict[str, float]:
    start = [script, "run", "true"]
    return {
        "to the first instruction": place.first_instruction(
            [script, "run", str(place.script)], place.environment
        ),
        "until a call returns": call(start, place),
        "CPU of a run of `true`": cpu_of_a_run(start, place),
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.rounds", description=(__doc__ or "").split(":")[0])
    parser.add_argument("other", type=Path, help="a directory with another package holdfast")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--python", default=sys.executable)
    chosen = parser.parse_args(arguments)
    with stage() as place:
        other = _script(place, chosen.python, chosen.other.resolve(), "other")
        this = _script(place, chosen.python, ROOT / "src", "this")
        rounds = []
        for number in range(chosen.rounds + 1):
            order = (other, this) if number % 2 else (this, other)
            looks = {script: _look(place, script) for script in order}
            if number:  # the first round warms the caches
                rounds.append((looks[other], looks[this]))
    print(f"{chosen.rounds} rounds, {chosen.python}: the other, this, and this by the other")
    for what in rounds[0][0]:
        before, after = ([one[which][what] * 1000 for one in rounds] for which in (0, 1))
        ratio = statistics.median(b / a for a, b in zip(before, after, strict=True))
        medians = f"{statistics.median(before):7.1f} ms {statistics.median(after):7.1f} ms"
        print(f"{what:<26} {medians} {ratio:6.3f}")


if __name__ == "__main__":
    main()
