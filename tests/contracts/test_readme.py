"""The README and the guarantees name tests and pages that exist."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
ROWS = re.findall(r"^\| [^|]+ \| (`tests/[^|]+) \|$", README, re.MULTILINE)


def test_the_table_has_rows():
    assert len(ROWS) >= 15


@pytest.mark.parametrize("row", ROWS)
def test_a_promise_names_a_test_of_that_scenario(row):
    files = [ROOT / path for path in re.findall(r"`(tests/[\w/]+\.py)`", row)]
    assert files
    text = "".join(path.read_text() for path in files)
    for scenario in re.findall(r"\b([A-Z]\d+)\b", row):
        assert f"test_{scenario}_" in text or f"_{scenario}_" in text


@pytest.mark.parametrize(
    "page", ["README.md", *sorted(p.name for p in (ROOT / "docs").glob("*.md"))]
)
def test_links_lead_somewhere(page):
    path = ROOT / page if page == "README.md" else ROOT / "docs" / page
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text())
    local = [target for target in targets if "://" not in target]
    missing = [target for target in local if not (path.parent / target).exists()]
    assert not missing


def test_the_legend_of_the_tests_has_every_scenario_and_no_other():
    legend = (ROOT / "tests/README.md").read_text()
    told = re.findall(r"^\| ([A-Z]\d+) \|", legend, re.MULTILINE)
    sources = (path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    held = {number for text in sources for number in re.findall(r"def test_([A-Z]\d+)_", text)}
    assert len(told) == len(set(told))
    assert set(told) == held


PAGES = [
    ROOT / "README.md",
    ROOT / "tests/README.md",
    ROOT / "bench/README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
EXAMPLES = frozenset({"train.py", "x.py", "monitor.py"})  # programs of a user, and of Ray
NAMED = re.compile(r"(?<![\w./-])((?:[\w*-]+/)*[\w*-]+\.py)\b")


@functools.cache
def _python_files() -> list[Path]:
    folders = [ROOT / name for name in ("src", "tests", "bench", "scripts")]
    return [path for folder in folders for path in folder.rglob("*.py")]


def _missing(text: str) -> list[str]:
    """Python files that a text names, whole or from some folder on, and that are not there."""
    there = _python_files()
    named = set(NAMED.findall(text)) - EXAMPLES
    return sorted(name for name in named if not any(path.match(name) for path in there))


def test_every_file_that_a_page_names_exists():
    found = {page: _missing(page.read_text()) for page in PAGES}
    assert {page: names for page, names in found.items() if names} == {}


def test_a_file_that_does_not_exist_is_noticed():
    assert _missing("`manage/gone.py` and `process/procfs.py`, `proc_*.py`") == ["manage/gone.py"]
    assert _missing("see `gone.py`") == ["gone.py"]


IN_FILE = re.compile(r"`(\w+)` in `([\w/]+\.py)`")


def _undefined(text: str) -> list[str]:
    """Names that a text places in a file of the package which does not have them."""
    package = ROOT / "src/holdfast"
    return [
        f"{name} in {path}"
        for name, path in IN_FILE.findall(text)
        if (package / path).exists() and not re.search(rf"\b{name}\b", (package / path).read_text())
    ]


def test_a_name_that_a_page_places_in_a_file_is_there():
    found = {page: _undefined(page.read_text()) for page in PAGES}
    assert {page: names for page, names in found.items() if names} == {}


def test_a_name_that_is_not_in_its_file_is_noticed():
    text = "`gone_since` in `process/procfs.py`, `parse_stat` in `process/procfs.py`"
    assert _undefined(text) == ["gone_since in process/procfs.py"]


def test_the_drawing_of_the_folders_has_each_of_them():
    package = ROOT / "src/holdfast"
    drawing = (ROOT / "docs/architecture.md").read_text().split("```")[1]
    drawn, top = set(), ""
    for indent, name in re.findall(r"^( *)(\w+)/ ", drawing, re.MULTILINE):
        top = name if len(indent) == 2 else top
        drawn.add(name if len(indent) == 2 else f"{top}/{name}")
    folders = {path.parent.relative_to(package).as_posix() for path in package.rglob("*.py")}
    assert drawn == folders - {"."}
