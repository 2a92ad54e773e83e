"""The sources of the package, for checks that look at all of them."""

from __future__ import annotations

import functools
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "holdfast"


@functools.cache
def package_sources() -> dict[str, str]:
    """The text of each file, by its path from the package on."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in paths}
