"""Finds, in a Python source, what only one file of the package may do.

It reads the syntax tree, so a comment or a message that speaks of a hazard is not one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple


class Found(NamedTuple):
    hazard: str
    line: int
    what: str


MODULES = {
    "ctypes": "ctypes",
    "_ctypes": "ctypes",
    "cffi": "ctypes",
    "psutil": "psutil",
    "sqlite3": "sqlite3",
    "_sqlite3": "sqlite3",
    "subprocess": "process creation",
    "_posixsubprocess": "process creation",
    "multiprocessing": "process creation",
    "pty": "process creation",
}
SIGNAL_CALLS = r"(os|posix)\.(kill|killpg)|_?signal\.(pidfd_send_signal|raise_signal|pthread_kill)"
CREATION_CALLS = (
    r"(os|posix)\.(fork|forkpty|posix_spawnp?|spawn\w+|system|popen)"
    r"|asyncio\.create_subprocess_\w+|concurrent\.futures\.ProcessPoolExecutor"
)
NAMES = {
    "signals": re.compile(SIGNAL_CALLS),
    "process creation": re.compile(CREATION_CALLS),
    "exec": re.compile(r"(os|posix)\.exec[lv]p?e?"),
}
# Methods of Popen, psutil.Process and asyncio's Process. `signals.send_signal` is our own gate.
SIGNAL_METHODS = frozenset({"kill", "terminate", "send_signal"})
GATE = frozenset({"signals", "holdfast"})
PROC = re.compile(r"/proc(/|$)")


def find_hazards(source: str) -> Iterator[Found]:
    """Every hazard in the source, with its line."""
    tree = ast.parse(source)
    imported = _imported_names(tree)
    prose = _docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from _in_import(node)
        elif isinstance(node, ast.Attribute):
            yield from _in_attribute(node, imported)
        elif isinstance(node, ast.Call):
            yield from _in_call(node)
        elif isinstance(node, ast.Constant) and id(node) not in prose:
            yield from _in_constant(node)


def _in_import(node: ast.Import | ast.ImportFrom) -> Iterator[Found]:
    if isinstance(node, ast.Import):
        modules, members = [alias.name for alias in node.names], []
    elif node.level == 0 and node.module:
        modules, members = [node.module], [f"{node.module}.{alias.name}" for alias in node.names]
    else:
        return
    for module in modules:
        if hazard := MODULES.get(module.partition(".")[0]):
            yield Found(hazard, node.lineno, f"import {module}")
    for member in members:
        yield from _in_name(member, node.lineno)


def _in_attribute(node: ast.Attribute, imported: dict[str, str]) -> Iterator[Found]:
    # A mention is enough: `send = os.kill` is a signal as well.
    if dotted := _dotted(node):
        first, _, rest = dotted.partition(".")
        yield from _in_name(f"{imported.get(first, first)}.{rest}", node.lineno)


def _in_call(node: ast.Call) -> Iterator[Found]:
    method = node.func
    if not isinstance(method, ast.Attribute) or method.attr not in SIGNAL_METHODS:
        return
    receiver = _dotted(method.value) or "..."
    if receiver not in ("os", "posix") and receiver.rpartition(".")[2] not in GATE:
        yield Found("signals", node.lineno, f"{receiver}.{method.attr}()")


def _in_constant(node: ast.Constant) -> Iterator[Found]:
    text = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
    if isinstance(text, str) and PROC.match(text):
        yield Found("/proc", node.lineno, repr(node.value))


def _in_name(dotted: str, line: int) -> Iterator[Found]:
    for hazard, pattern in NAMES.items():
        if pattern.fullmatch(dotted):
            yield Found(hazard, line, dotted)


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := _dotted(node.value)):
        return f"{owner}.{node.attr}"
    return None


def _imported_names(tree: ast.Module) -> dict[str, str]:
    """What `import os as o` and `from concurrent import futures` call things."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    return names


def _docstrings(tree: ast.Module) -> set[int]:
    """Strings that stand alone as statements."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
