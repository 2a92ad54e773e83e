"""One door per name: it is imported from where it is defined; `holdfast` alone re-exports."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = {
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "src/holdfast").rglob("*.py"))
}
# `lean` stands in for the modules below `signal`; `holdfast` has the public names.
DOORS = {("holdfast.lean", "signal")}
USERS = [
    *SOURCES.values(),
    *(
        path
        for part in ("bench", "scripts", "tests")
        for path in sorted((ROOT / part).rglob("*.py"))
    ),
]


def _defined(body: list[ast.stmt]) -> set[str]:
    """The names that the statements define, those of `if`, `try` and `with` included."""
    names: set[str] = set()
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.Assign() | ast.AnnAssign():
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found = (part for target in targets for part in ast.walk(target))
                names.update(part.id for part in found if isinstance(part, ast.Name))
            case ast.If() | ast.Try() | ast.With():
                handled = [each for one in getattr(node, "handlers", []) for each in one.body]
                rest = [*getattr(node, "orelse", []), *getattr(node, "finalbody", [])]
                names |= _defined([*node.body, *handled, *rest])
    return names


@functools.cache
def _names_of(module: str) -> set[str]:
    return _defined(ast.parse(SOURCES[module].read_text()).body)


def borrowed(source: str) -> list[str]:
    """Which names the source imports from modules that only import them themselves."""
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    return [
        f"line {node.lineno}: {alias.name} is not defined in {node.module}"
        for node in imports
        if node.module in SOURCES and node.module != "holdfast"
        for alias in node.names
        if alias.name not in _names_of(node.module)
        and f"{node.module}.{alias.name}" not in SOURCES
        and (node.module, alias.name) not in DOORS
    ]


def test_names_are_imported_from_where_they_are_defined():
    found = {str(path.relative_to(ROOT)): borrowed(path.read_text()) for path in USERS}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "planted",
    [
        "from holdfast.process.identity import Verdict",
        "def f():\n    from holdfast.manage.info import seconds_of",
    ],
)
def test_the_check_can_fail(planted):
    assert len(borrowed(planted)) == 1


def test_the_public_names_come_from_where_they_are_defined():
    import holdfast

    wrong = [
        name for name, home in holdfast._HOMES.items() if name not in _names_of(f"holdfast.{home}")
    ]
    assert wrong == []
