"""Makes the bundle: code that `run`, `ls`, `status` load, in one file that `importing.py` reads.

It lies beside the compiled files of the package and is made as they are, by the first who may write
there; `python -m holdfast.bundling` makes it too, for packages that their users may not write to.

Modules are in groups. A group is loaded as a whole when its key is asked for, in the order in which
imports would have finished its modules. The code is without what only people and tools read:
docstrings, annotations of functions and variables, and what is for type checkers. Those of classes
stay: of a record they are its fields. Tables of lines, a tenth of what a shim has loaded, are in a
piece of their own: `tracebacks.py` reads it when something failed.
"""

from __future__ import annotations
import __future__

import ast
import marshal
import os
import sys

from holdfast import importing
from holdfast.tracebacks import line_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _frozen_importlib import ModuleSpec
    from collections.abc import Mapping
    from types import CodeType, ModuleType

    from holdfast.importing import Bundled, Lines, Places

    Groups = dict[str, list[tuple[str, bool]]]

_MOST_BYTES = 100_000  # malloc maps what is larger than 128 kB
# In CPython's table of lines (co_linetable) this byte, with a number from 0 to 7 in its low bits,
# says that the next 1 to 8 instructions have no line.
_NO_LINES = 0x80 | 15 << 3

# Each key is a module; asking for it loads its group. That is the key, the modules named here,
# which are needed next, and what all of them import, without what an earlier group has. A module
# named here that is a key itself stays a group of its own, which is loaded first.
OF_EVERY_COMMAND = {
    "holdfast.cli.arguments.fast_args": ("holdfast.cli.text.streams", "holdfast.errors"),
}
OF_A_LIST = {
    "holdfast.cli.ls": (),
    "holdfast.manage.reading.digests": (),
}
OF_A_STATUS = {
    "holdfast.cli.status": (),
}
OF_BOTH = {
    "holdfast.manage.starting.launch": (),
}
OF_THE_LAUNCHER = {
    "holdfast.cli.run": (),
    "holdfast.agents.recognition": ("holdfast.agents.recognition_table", "holdfast.agents.places"),
    "holdfast.manage.removal.retention_due": (
        "holdfast.cli.text.start_text",
        "holdfast.manage.starting.logout",
    ),
}
OF_THE_SHIM = {
    "holdfast.shim.main": ("holdfast.run.event_log",),
    "holdfast.process.tree": (),
    "holdfast.shim.attempt": (),
    "holdfast.shim.supervisor": ("holdfast.process.tree", "holdfast.shim.attempt"),
    "holdfast.shim.wiring": (),
    "holdfast.shim.observer": (),
    "holdfast.shim.succession": (),
    "holdfast.shim.ending": (),
    "holdfast.shim.requests": (),
    "holdfast.shim.stopping": ("holdfast.run.signal_log",),
    "holdfast.shim.rescue.neighbours": (),
    "holdfast.shim.run_sampling": (),
}


def main(stamp: str | None = None) -> None:
    """Make the bundle, and remove the stamp of who asked for it."""
    data = make_bundle()
    mode = os.stat(importing.__file__).st_mode & 0o666 | 0o200  # as compiled files have it
    path = f"{importing.BUNDLE}.{os.getpid()}"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(fd, "wb") as file:
            file.write(data)
        os.replace(path, importing.BUNDLE)
    except BaseException:
        os.unlink(path)
        raise
    if stamp is not None:
        os.unlink(stamp)


def make_bundle() -> bytes:
    """The bytes of a bundle of the sources as they are now."""
    stamp = os.urandom(importing.STAMP_BYTES)
    whole: list[bytes] = []
    offset = importing.INDEX_BYTES

    def put(data: bytes) -> tuple[int, int]:
        nonlocal offset
        whole.append(stamp + data)
        offset += len(whole[-1])
        return offset - len(whole[-1]), len(whole[-1])

    lines = _Lines()
    places: dict[str, Places] = {}
    for key, modules in _groups().items():
        group = [_bundled(*module, lines) for module in modules]
        places[key] = (_asked_before(key), list(map(put, _pieces(group))))
    known = put(marshal.dumps(lines.tables))
    index = importing.BUNDLE_HEAD + marshal.dumps((importing.ROOT, stamp, places, known))
    assert len(index) <= importing.INDEX_BYTES
    return index.ljust(importing.INDEX_BYTES, b"\0") + b"".join(whole)


def _asked_before(key: str) -> tuple[str, ...]:
    return tuple(name for name in OF_THE_SHIM.get(key, ()) if name in OF_THE_SHIM)


def _pieces(group: list[Bundled]) -> list[bytes]:
    """What is larger would be read into memory of its own, which is new page by page."""
    if len(data := marshal.dumps(group)) <= _MOST_BYTES or len(group) == 1:
        return [data]
    middle = len(group) // 2
    return [*_pieces(group[:middle]), *_pieces(group[middle:])]


def _groups() -> Groups:
    """The modules of each group, in their order: name, and whether it is a package."""
    recorder = _Recorder()
    importing.groups.clear()  # what is in the bundle that is there is not imported
    sys.meta_path.insert(0, recorder)
    groups = recorder.record_all(OF_EVERY_COMMAND)
    groups |= _recorded_apart(recorder, OF_A_LIST)
    groups |= _recorded_apart(recorder, OF_A_STATUS)
    groups |= recorder.record_all(OF_BOTH)
    groups |= _recorded_apart(recorder, OF_THE_LAUNCHER)
    groups |= _recorded_apart(recorder, OF_THE_SHIM)
    return groups


def _recorded_apart(recorder: _Recorder, wanted: Mapping[str, tuple[str, ...]]) -> Groups:
    """What one process loads: another starts from what was loaded before."""
    before = dict(sys.modules)
    groups = recorder.record_all(wanted)
    for name in sys.modules.keys() - before.keys():
        del sys.modules[name]
        parent, _, own_name = name.rpartition(".")
        if parent in before:
            delattr(before[parent], own_name)
    return groups


class _Recorder:
    """Notes which of this package's modules are imported, as they are done."""

    def __init__(self) -> None:
        self._done: list[tuple[str, bool]] = []

    def record_all(self, wanted: Mapping[str, tuple[str, ...]]) -> Groups:
        """One group for each key."""
        return {key: self._record(key, more) for key, more in wanted.items()}

    def _record(self, key: str, more: tuple[str, ...]) -> list[tuple[str, bool]]:
        """What importing these came to; the key is the last."""
        self._done = []
        for name in (*more, key):
            __import__(name)
        others = [module for module in self._done if module[0] != key]
        return [*others, (key, False)]

    def find_spec(self, fullname: str, *_where: object) -> ModuleSpec | None:
        """As without it."""
        spec = importing.CompiledFinder.find_spec(fullname)
        loader = None if spec is None else spec.loader
        if not isinstance(loader, importing.CompiledLoader):
            return spec
        run = loader.exec_module

        def run_and_note(module: ModuleType) -> None:
            run(module)
            self._done.append((fullname, hasattr(module, "__path__")))

        loader.exec_module = run_and_note  # type: ignore[method-assign]
        return spec


def _bundled(name: str, is_package: bool, lines: _Lines) -> Bundled:
    path = importing.source_of(name, is_package)
    with open(path, "rb") as file:
        made = importing.stamp_of(os.fstat(file.fileno()))
        tree = _Stripping().visit(ast.parse(file.read(), path))
    flags = __future__.annotations.compiler_flag
    code = compile(ast.fix_missing_locations(tree), path, "exec", flags, dont_inherit=True)
    return name, is_package, made, lines.take_from(code)


class _Lines:
    """Takes the tables of lines out of code."""

    def __init__(self) -> None:
        self.tables: Lines = {}
        self._empty: dict[int, bytes] = {}  # one object for each length: a piece has it once

    def take_from(self, code: CodeType) -> CodeType:
        """The same code without them; and functions are called by their short names."""
        key, table = line_key(code), code.co_linetable
        if self.tables.setdefault(key, table) != table:
            self.tables[key] = None
        inner = [
            self.take_from(one) if isinstance(one, type(code)) else one for one in code.co_consts
        ]
        count = key[3]
        empty = self._empty.setdefault(count, _table_without_lines(count))
        return code.replace(co_consts=tuple(inner), co_linetable=empty, co_qualname=code.co_name)


def _table_without_lines(instructions: int) -> bytes:
    whole, rest = divmod(instructions, 8)
    return bytes([_NO_LINES | 7] * whole + [_NO_LINES | rest - 1] * bool(rest))


class _Stripping(ast.NodeTransformer):
    """Takes out what nobody asks of a process that starts or supervises a run."""

    def visit_Module(self, node: ast.Module) -> ast.AST:
        self.generic_visit(node)
        node.body = [_without_annotation(one) for one in _without_docstring(node.body)]
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.generic_visit(node)
        node.body = _without_docstring(node.body)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.body = _without_docstring(node.body)
        node.returns = None
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        return None if node.module == "__future__" else node  # it is a flag of the compiler

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        is_for_checkers = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        return node.orelse or ast.Pass() if is_for_checkers else node


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0] if body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        return body[1:] or [ast.Pass()]
    return body


def _without_annotation(node: ast.stmt) -> ast.stmt:
    if not isinstance(node, ast.AnnAssign):
        return node
    if node.value is None:
        return ast.copy_location(ast.Pass(), node)
    return ast.copy_location(ast.Assign([node.target], node.value), node)


if __name__ == "__main__":
    main()
