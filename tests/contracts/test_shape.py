"""The shape of the source files: short, and each says what it owns."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "holdfast"
MAX_LINES = 400
MAX_DOCSTRING_LINES = 10
MAX_FILES = 30  # of a folder: more get rooms of their own
DRAWINGS = {PACKAGE / "__init__.py", PACKAGE / "errors.py"}  # the layout, the tree of errors
VAGUE_NAMES = {"utils", "util", "common", "helpers", "helper", "manager", "handler", "misc"}

every_source = pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE))
)


@every_source
def test_a_source_is_short_and_has_a_docstring_and_a_name_that_says_something(path):
    text = path.read_text()
    assert len(text.splitlines()) <= MAX_LINES
    assert path.stem not in VAGUE_NAMES
    if not text.strip():
        return
    docstring = ast.get_docstring(ast.parse(text))
    assert docstring
    assert path in DRAWINGS or len(docstring.splitlines()) <= MAX_DOCSTRING_LINES
    assert "\nfrom __future__ import annotations\n" in text or len(ast.parse(text).body) == 1


def _class_names(sources: dict[str, str]) -> dict[str, list[str]]:
    """Which files define each public class."""
    found: dict[str, list[str]] = {}
    for where, text in sources.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(where)
    return found


def _twice(sources: dict[str, str]) -> dict[str, list[str]]:
    return {name: where for name, where in _class_names(sources).items() if len(where) > 1}


def test_a_class_name_means_one_class():
    sources = {str(path.relative_to(PACKAGE)): path.read_text() for path in PACKAGE.rglob("*.py")}
    assert _twice(sources) == {}


def test_the_check_of_class_names_can_fail():
    planted = {"a.py": "class Finding: ...", "b.py": "class Finding: ...\nclass Other: ..."}
    assert _twice(planted) == {"Finding": ["a.py", "b.py"]}


@pytest.mark.parametrize(
    "folder",
    sorted({path.parent for path in PACKAGE.rglob("*.py")}),
    ids=lambda folder: str(folder.relative_to(PACKAGE)),
)
def test_a_folder_is_seen_at_one_look(folder):
    assert len(list(folder.glob("*.py"))) <= MAX_FILES
