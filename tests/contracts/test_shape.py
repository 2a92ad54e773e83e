"""The shape of the source files: short, and each says what it owns."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "holdfast"
MAX_LINES = 400
MAX_DOCSTRING_LINES = 10
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
