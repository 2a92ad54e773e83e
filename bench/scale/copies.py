"""Makes a home with many ended runs quickly: copies of a few real ones.

A copy has an id, name, tag and times of its own, in the files that docs/run-directory.md describes.
What it does not change (output, samples, signals, the socket that a shim leaves) is a hard link.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from bench.launch import Stage
from holdfast import ProcessIdentity, Runs
from tests.support.pretend_claude import install

DAY = 86400.0
RECENT_RUNS = 100  # in each home, whatever its size: what ended in the last day
RECENT_SECONDS = 20 * 3600.0  # less than a day, so that they are still recent when all is measured
OLDEST_DAYS, NEWEST_DAYS = 365.0, 2.0  # of all others
PARTS = 100  # values of the tag
COST_USD = 0.25  # what the pretended agent says
BYTES_A_RUN = 32_000  # of the disk, index included, rounded up
INODES_A_RUN = 8

_OWN = ("spec.json", "events.jsonl", "summary.json")  # of which every copy has its own
_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"
_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
_PART = "part-of-the-template"


class Sort(NamedTuple):
    """A way to end, and how often it is found among the copies."""

    name: str
    share: int  # of 100
    outcome: str
    exit_code: int | None
    cost_usd: float = 0.0


SORTS = (
    Sort("succeeded", 70, "succeeded", 0),
    Sort("failed", 12, "failed", 7),
    Sort("stopped", 8, "stopped", None),
    Sort("agent", 10, "succeeded", 0, COST_USD),
)
_ORDER = [sort for sort in SORTS for _ in range(sort.share)]


def sort_of(number: int) -> Sort:
    """Of the run with that number: 0 is the newest. 37 mixes them within each hundred."""
    return _ORDER[number * 37 % 100]


def part_of(number: int) -> str:
    """The value of its tag `part`."""
    return f"p{number // 3 % PARTS}"


def name_of(number: int) -> str:
    return f"old-{number:06}"


def age_of(number: int, size: int) -> float:
    """How many seconds ago it began."""
    if number < RECENT_RUNS:
        return 60 + RECENT_SECONDS * number / RECENT_RUNS
    share = (number - RECENT_RUNS + 1) / max(1, size - RECENT_RUNS)
    return DAY * (NEWEST_DAYS + (OLDEST_DAYS - NEWEST_DAYS) * share)


def make_home(stage: Stage, path: Path, size: int) -> None:
    """A home with so many ended runs, as many of them recent as in any other."""
    _refuse_without_room(path.parent, size)
    copiers = {sort: _Copier(_template(stage, sort), path) for sort in SORTS}
    for folder in ("", "runs", "active", "recent", "names", "keys"):
        (path / folder).mkdir(0o700, exist_ok=True)
    now = time.time()
    for number in range(size):
        at = now - age_of(number, size)
        copiers[sort_of(number)].copy(at, name_of(number), part_of(number), number < RECENT_RUNS)
    (path / "tidied").touch()


def _refuse_without_room(path: Path, size: int) -> None:
    free = os.statvfs(path)
    if shutil.disk_usage(path).free < size * BYTES_A_RUN:
        raise SystemExit(f"{path} has no room for {size} runs: set TMPDIR")
    if free.f_files and free.f_favail < size * INODES_A_RUN:
        raise SystemExit(f"{path} has not enough inodes for {size} runs: set TMPDIR")


# --- the real ones ---------------------------------------------------------------------------


def _template(stage: Stage, sort: Sort) -> Path:
    """The directory of a real run that ended so; made once, by the command line."""
    name = f"template-of-{sort.name}"
    home = Path(stage.environment["HOLDFAST_HOME"])
    if not (home / "names" / name).exists():
        words = _WORDS[sort.name](stage)
        stage.holdfast("run", "-n", name, "--tag", f"part={_PART}", *words)
        if sort.name == "stopped":
            stage.holdfast("stop", name)
        stage.holdfast("wait", name, check=False)
    run = Runs(home).get(name)
    shim = run.info().shim
    # The copies name its shim as theirs: it has to be gone.
    if shim is None or not ProcessIdentity.parse(shim["token"]).wait(30):
        raise RuntimeError(f"{name} has not come to its end")
    return home / "runs" / run.id


def _agent(stage: Stage) -> list[str]:
    program = install(stage.directory)
    return [program, "-p", "--output-format", "stream-json", "--verbose", "say hello"]


_WORDS: dict[str, Callable[[Stage], list[str]]] = {
    "succeeded": lambda _: ["sh", "-c", "echo begun; sleep 0.2; echo done"],
    "failed": lambda _: ["sh", "-c", "echo begun; echo no such thing >&2; exit 7"],
    "stopped": lambda _: ["sleep", "600"],
    "agent": _agent,
}


# --- the copies ------------------------------------------------------------------------------


class _Copier:
    """Copies one real run into a home, again and again."""

    def __init__(self, template: Path, home: Path) -> None:
        self._home = str(home)
        info = Runs(template.parent.parent).get(template.name).info()
        self._words = {info.id: "id", str(info.name): "name", _PART: "part"}
        self._began = _seconds_of(str(info.created_at))
        changing = re.compile(f"({'|'.join(self._words)}|{_TIME})")
        texts = {file: changing.split((template / file).read_text()) for file in _OWN}
        self._same = {file: pieces[0::2] for file, pieces in texts.items()}
        self._changing = {file: list(map(self._what, texts[file][1::2])) for file in texts}
        others = [path for path in template.iterdir() if path.name not in (*_OWN, "lock")]
        self._links = {path.name: str(path) for path in others}
        self._marker = (template.parent.parent / "recent" / info.id).read_text()

    def _what(self, piece: str) -> str | float:
        """The key of a value, or how many seconds after the run's beginning."""
        return self._words.get(piece) or _seconds_of(piece) - self._began

    def copy(self, began: float, name: str, part: str, is_recent: bool) -> None:
        """One ended run that began at that time."""
        run_id = _id_of(int(began))
        path = f"{self._home}/runs/{run_id}"
        os.mkdir(path, 0o700)
        values = {"id": run_id, "name": name, "part": part}
        for file in _OWN:
            changed = [
                values[what] if isinstance(what, str) else _iso_time(began + what)
                for what in self._changing[file]
            ]
            pieces = zip(self._same[file], [*changed, ""], strict=True)
            _write(f"{path}/{file}", "".join(map("".join, pieces)))
        _write(f"{path}/lock", "")
        for file in self._links:
            self._link(file, f"{path}/{file}")
        _write(f"{self._home}/names/{name}", f"{run_id}\n")
        if is_recent:
            marker = f"{self._home}/recent/{run_id}"
            _write(marker, self._marker)
            os.utime(marker, (began, began))

    def _link(self, file: str, target: str) -> None:
        try:
            os.link(self._links[file], target)
        except OSError as error:
            if error.errno != errno.EMLINK:
                raise
            _duplicate(self._links[file], target)
            self._links[file] = target  # for those that come after it


def _duplicate(source: str, target: str) -> None:
    if stat.S_ISSOCK(os.stat(source).st_mode):
        os.mknod(target, stat.S_IFSOCK | 0o600)
    else:
        shutil.copy2(source, target)


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _id_of(seconds: int) -> str:
    """An id that was made at that time: 32 bits of it, 64 random bits."""
    number = seconds << 64 | int.from_bytes(os.urandom(8))
    return "".join(_LETTERS[number >> 5 * place & 31] for place in reversed(range(20)))


def _seconds_of(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _iso_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")[:-6] + "Z"
