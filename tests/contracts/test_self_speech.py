"""The project speaks of itself alone: no path of a developer's machine, no registry's address.

The patterns are put together here, so that this file holds none of them.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

STRAYS = {
    "a machine's path": ["/w" + "ork/", "/f" + "arm/", "/r" + "oot/.", "/h" + "ome/runner/"],
    "a file outside the project": [".." + "/shared"],
    "a registry": [
        "registry." + "npmjs",
        "pypi.org" + "/simple",
        "files." + "pythonhosted",
        "art" + "ifactory",
        "jf" + "rog.",
    ],
    "a writer": ["as an" + " ai ", "as an" + " ai,"],
}
TEXTS = [text for group in STRAYS.values() for text in group]
PATTERN = re.compile("|".join(map(re.escape, TEXTS)), re.IGNORECASE)


def _own_files() -> list[Path]:
    """Tracked files, and new ones that git does not ignore."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listing.returncode != 0:
        pytest.skip(f"not a git checkout: {listing.stderr.strip()}")
    return [path for name in listing.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def _strays(text: str) -> list[str]:
    return [
        f"{number}: {line.strip()[:120]}"
        for number, line in enumerate(text.splitlines(), 1)
        if PATTERN.search(line)
    ]


def test_no_file_speaks_of_a_machine_or_a_registry():
    found = {
        str(path.relative_to(ROOT)): strays
        for path in _own_files()
        if (strays := _strays(path.read_text(errors="replace")))
    }
    assert found == {}


@pytest.mark.parametrize("planted", TEXTS)
def test_the_check_sees_a_planted_one(planted):
    assert _strays(f"one\nsee {planted}x\n") == [f"2: see {planted}x"]
