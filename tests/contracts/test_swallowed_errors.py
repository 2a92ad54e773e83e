"""An error that is passed over has a reason: its class says it, or a comment does."""

from __future__ import annotations

import ast

import pytest

from tests.support.sources import package_sources

# What was to be is so already, or nothing has come yet.
TELLING = {
    *("FileNotFoundError", "FileExistsError", "BlockingIOError"),
    *("ChildProcessError", "ProcessLookupError"),
}


def unexplained(source: str) -> list[int]:
    """Lines of handlers that do nothing and do not say why."""
    lines = source.splitlines()
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ExceptHandler)
        and isinstance(node.body[0], ast.Pass | ast.Continue)
        and not _caught(node) <= TELLING
        and not any("  # " in line for line in lines[node.lineno - 1 : node.body[0].end_lineno])
    ]


def _caught(handler: ast.ExceptHandler) -> set[str]:
    if handler.type is None:
        return {"all"}
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {ast.unparse(kind) for kind in kinds}


def test_an_error_that_is_passed_over_has_a_reason():
    found = {name: unexplained(text) for name, text in package_sources().items()}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "planted",
    [
        "try: f()\nexcept OSError:\n    pass",
        "try: f()\nexcept:\n    pass",
        "for one in x:\n    try: f()\n    except (OSError, FileNotFoundError):\n        continue",
    ],
)
def test_the_check_can_fail(planted):
    assert len(unexplained(planted)) == 1


@pytest.mark.parametrize(
    "innocent",
    [
        "try: f()\nexcept FileNotFoundError:\n    pass",
        "try: f()\nexcept OSError:  # closed already\n    pass",
        "try: f()\nexcept OSError:\n    pass  # closed already",
        "try: f()\nexcept OSError as error:\n    say(error)",
    ],
)
def test_the_check_leaves_innocent_code_alone(innocent):
    assert unexplained(innocent) == []
