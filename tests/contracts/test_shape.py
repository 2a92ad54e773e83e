"""The shape of the source files: short, and each says what it owns."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.support.sources import package_sources

MAX_LINES = 400
MAX_DOCSTRING_LINES = 10
MAX_FILES = 30  # of a folder: more get rooms of their own
DRAWINGS = {"__init__.py", "errors.py"}  # the layout, the tree of errors
# What every start loads before its bundle: it would load the module `__future__` too.
BEFORE_THE_BUNDLE = {"__init__.py", "cli/__init__.py", "importing.py"}
VAGUE_NAMES = {"utils", "util", "common", "helpers", "helper", "manager", "handler", "misc"}


def _faults(name: str, text: str) -> list[str]:
    tree = ast.parse(text)
    docstring = ast.get_docstring(tree) or ""
    faults = {
        f"{len(text.splitlines())} lines, at most {MAX_LINES}: split it": (
            len(text.splitlines()) > MAX_LINES
        ),
        "a name that says nothing": Path(name).stem in VAGUE_NAMES,
        "no docstring": bool(tree.body) and not docstring,
        f"a docstring of more than {MAX_DOCSTRING_LINES} lines": (
            name not in DRAWINGS and len(docstring.splitlines()) > MAX_DOCSTRING_LINES
        ),
        "no `annotations`": (
            len(tree.body) > 1
            and name not in BEFORE_THE_BUNDLE
            and "\nfrom __future__ import annotations\n" not in text
        ),
        "`__future__` before the bundle": name in BEFORE_THE_BUNDLE and "\nfrom __future__" in text,
    }
    return [fault for fault, is_so in faults.items() if is_so]


def test_a_source_is_short_and_has_a_docstring_and_a_name_that_says_something():
    sources = package_sources()
    assert [f"{name}: {fault}" for name in sources for fault in _faults(name, sources[name])] == []


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("a.py", '"""A."""\n' * (MAX_LINES + 1), "401 lines, at most 400: split it"),
        ("util.py", '"""A."""', "a name that says nothing"),
        ("a.py", "from __future__ import annotations", "no docstring"),
        ("a.py", '"""A' + "\n" * MAX_DOCSTRING_LINES + '."""', "a docstring of more than 10 lines"),
        ("a.py", '"""A."""\nx = 1', "no `annotations`"),
    ],
)
def test_the_check_of_shape_can_fail(name, text, fault):
    assert fault in _faults(name, text)


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
    assert _twice(package_sources()) == {}


def test_the_check_of_class_names_can_fail():
    planted = {"a.py": "class Finding: ...", "b.py": "class Finding: ...\nclass Other: ..."}
    assert _twice(planted) == {"Finding": ["a.py", "b.py"]}


def _crowded(names: Iterable[str]) -> list[str]:
    files = Counter(Path(name).parent for name in names)
    return [
        f"{folder}/: {count} files, at most {MAX_FILES}: give some of them a folder of their own"
        for folder, count in files.items()
        if count > MAX_FILES
    ]


def test_a_folder_is_seen_at_one_look():
    assert _crowded(package_sources()) == []


def test_the_check_of_folders_can_fail():
    assert _crowded(f"cli/{number}.py" for number in range(MAX_FILES + 1)) == [
        "cli/: 31 files, at most 30: give some of them a folder of their own"
    ]
