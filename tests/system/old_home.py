"""A home that 0.1.0 left, laid out for a test, and the command line of that version.

old_home_maker.py made it. A stored run has no live processes: to a reader, what was running is of
an earlier boot of this host.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from holdfast.process.identity import ProcessIdentity
from tests.support.cli import CommandLine
from tests.support.kernel_lab import ROOT

VERSION = "0.1.0"
COMMIT = "7dc4132"  # the last one of that version
DATA = Path(__file__).parent / "data" / f"home-{VERSION}"
STORED, EXPECTED, MADE_AT = DATA / "home", DATA / "expected.json", DATA / "made_at"

MACHINE = "5eed5eed5eed5eed5eed5eed5eed5eed"
HOST = hashlib.sha256(MACHINE.encode()).hexdigest()[:8]
Json = dict[str, Any]


def this_host() -> str:
    """What stands for this machine in records."""
    return str(ProcessIdentity.current().host)


def lay_out(home: Path, *, on_this_host: bool = True) -> Path:
    """The stored home, as its owner left it; a record names this host unless told otherwise."""
    host = this_host() if on_this_host else HOST
    made_at = int(MADE_AT.read_text())
    for source in sorted(path for path in STORED.rglob("*") if path.is_file()):
        copy = home / source.relative_to(STORED)
        copy.parent.mkdir(0o700, parents=True, exist_ok=True)
        copy.write_bytes(source.read_bytes().replace(HOST.encode(), host.encode()))
        copy.chmod(0o600)
        os.utime(copy, (made_at, made_at))  # which tells the time of the last output
    return home


def expected() -> Json:
    """What 0.1.0 itself said of the stored home; names this host."""
    text = EXPECTED.read_text().replace(HOST, this_host())
    document: Json = json.loads(text)
    return document


def old_source(into: Path) -> Path:
    """The package of that version, out of the history; to be put on PYTHONPATH."""
    archive = subprocess.run(
        ["git", "archive", COMMIT, "src"], cwd=ROOT, check=True, capture_output=True
    ).stdout
    with tempfile.TemporaryFile() as file:
        file.write(archive)
        file.seek(0)
        with tarfile.open(fileobj=file) as tar:
            tar.extractall(into, filter="data")
    return into / "src"


class OldCommandLine(CommandLine):
    """The command line of that version: the same program with other code behind it."""

    def __init__(self, source: object, python: str = sys.executable, *prefix: str) -> None:
        # What it compiles is kept: every command would have to do it again.
        first = prefix or ("env", "-u", "PYTHONDONTWRITEBYTECODE")
        self._program = [*first, f"PYTHONPATH={source}", python, "-m", "holdfast"]

    def argv(self, *args: object) -> list[str]:
        return [*self._program, *map(str, args)]

    def status(self, name: str) -> Json:
        """What `status --json` says of a run."""
        document: Json = self("status", name, "--json", expect=0).json
        return document
