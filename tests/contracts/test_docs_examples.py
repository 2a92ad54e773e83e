"""The Python examples of the documentation are programs that work as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ["docs/library.md", "README.md"]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _examples() -> list[tuple[str, int, str]]:
    found = []
    for page in PAGES:
        text = (ROOT / page).read_text()
        for match in BLOCK.finditer(text):
            line = text.count("\n", 0, match.start()) + 2
            found.append((page, line, match[1]))
    return found


@pytest.mark.parametrize(
    ("page", "line", "code"), [pytest.param(*one, id=f"{one[0]}:{one[1]}") for one in _examples()]
)
@pytest.mark.usefixtures("runs")
def test_an_example_works(page, line, code, tmp_path):
    (tmp_path / "work").mkdir()
    program = tmp_path / "work" / "test_example.py"
    # At its own line, so that a traceback leads to the page.
    program.write_text("\n" * (line - 1) + code)
    command = [sys.executable, str(program)]
    if "def test_" in code:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=program.parent, timeout=100)
    assert done.returncode == 0, f"{page}:{line}: {done.stdout}{done.stderr}"


def test_the_examples_were_found():
    assert sum(page == "docs/library.md" for page, *_ in _examples()) >= 6


def test_the_page_names_every_public_error_and_method():
    import holdfast

    text = (ROOT / "docs" / "library.md").read_text()
    for kind in (holdfast.Runs, holdfast.Run):
        for name in vars(kind):
            if not name.startswith("_") and callable(getattr(kind, name)):
                assert f".{name}(" in text, name
