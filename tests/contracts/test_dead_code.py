"""No dead code: what the package defines, the package uses. Use in a test alone does not count."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

from holdfast.cli import COMMANDS

SOURCE = Path(__file__).parents[2] / "src"
# What a command's module is asked for by name: see `load` in cli/__init__.py.
OF_COMMANDS = {"add_arguments", "run", "JSON", "IS_BRIEF", "EXITS_AS_RUN", "KNOWS_FLEET"}
# Used from outside of the package, or by a name that is not in the code.
ALIVE = {
    "holdfast.__getattr__": "asked by the import system",
    "holdfast.__dir__": "asked by dir()",
    "holdfast.manage.doctor.checks.main": "called by the text that the library hands to Python",
    "holdfast.manage.report.report.Report.damaged_samples": "the library",
    "holdfast.manage.report.report.Report.unmeasured": "the library",
    "holdfast.lean.__all__": "what `import *` takes",
    "holdfast.bundling._Stripping.visit_Module": "called by `ast`",
    "holdfast.bundling._Stripping.visit_ClassDef": "called by `ast`",
    "holdfast.bundling._Stripping.visit_FunctionDef": "called by `ast`",
    "holdfast.bundling._Stripping.visit_arg": "called by `ast`",
    "holdfast.bundling._Stripping.visit_ImportFrom": "called by `ast`",
    "holdfast.bundling._Stripping.visit_If": "called by `ast`",
    "holdfast.cli.arguments.parser.Parser.print_help": "called by argparse",
    "holdfast.fleet.library.find": "by name: manage/starting/elsewhere.py",
    "holdfast.fleet.library.open_fleet": "by name: manage/starting/elsewhere.py",
    "holdfast.fleet.library.wait_steps": "by name: manage/starting/elsewhere.py",
    "holdfast.fleet.library.watch": "by name: manage/reading/live_elsewhere.py",
    "holdfast.manage.doctor.parent.main": "called by the text that the library hands to Python",
    "holdfast.pytest_plugin.holdfast_runs": "a fixture",
    "holdfast.manage.removal.retention.main": "called by the text that a start hands to Python",
    "holdfast.agents.unwrapping.known_names": "scripts/generate_recognition.py",
    "holdfast.run.anomalies.watch.replay": "bench/quiet.py: rules over stored traces",
    "holdfast.manage.runs.Runs.recover": "the library",
    "holdfast.manage.runs.Runs.start_many": "the library",
    "holdfast.manage.aio.AsyncRuns.start_many": "the library",
    "holdfast.manage.aio.AsyncRuns.recover": "the library",
}
# What Textual calls by its name.
OF_TEXTUAL = re.compile(r"holdfast\.tui\..*\.(on_\w+|action_\w+|watch_\w+|compose|render_line)\Z")
# Their members are read by others: by the field that a watcher names, as a JSON document.
READ_ELSEWHERE = {"Wanted", "ChangedFile"}


class Uses:
    """Which names the sources use, and how."""

    def __init__(self, trees: dict[str, ast.Module]) -> None:
        self.imported: set[str] = set()  # `module.name`
        self.members: set[str] = set()  # read as attributes, or as keys of a document
        for tree in trees.values():
            aliases: dict[str, str] = {}
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and node.module:
                    for one in node.names:
                        self.imported.add(f"{node.module}.{one.name}")
                        aliases[one.asname or one.name] = f"{node.module}.{one.name}"
            for node in ast.walk(tree):
                self._add(node, aliases)

    def _add(self, node: ast.AST, aliases: dict[str, str]) -> None:
        match node:
            case ast.Attribute(value=value, attr=name, ctx=ast.Load()):
                self.members.add(name)
                if isinstance(value, ast.Name) and value.id in aliases:
                    self.imported.add(f"{aliases[value.id]}.{name}")
            case ast.Subscript(slice=ast.Constant(value=str(name)), ctx=ast.Load()):
                self.members.add(name)
            case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(name)), *_]):
                self.members.add(name)


def dead_names(
    sources: dict[str, str],
    alive: Collection[str] = ALIVE,
    elsewhere: Collection[str] = READ_ELSEWHERE,
) -> list[str]:
    """Functions, classes and constants of a module, and members of a class, that nothing uses."""
    trees = {module: ast.parse(text) for module, text in sources.items()}
    uses = Uses(trees)
    found = []
    for module, tree in trees.items():
        loads = Counter(_loaded(tree))
        for name, node in _defined(tree):
            inside = Counter(_loaded(node))[name]  # a function that calls itself alone is dead
            if loads[name] <= inside and f"{module}.{name}" not in uses.imported:
                found.append(f"{module}.{name}")
        for owner, name in _members(tree, elsewhere):
            if name not in uses.members:
                found.append(f"{module}.{owner}.{name}")
    return [
        name
        for name in found
        if name not in alive and not _is_of_a_command(name) and not OF_TEXTUAL.match(name)
    ]


def _loaded(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
            yield each.id


def _defined(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    for node in tree.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node
            case ast.Assign(targets=targets):
                for part in (part for target in targets for part in ast.walk(target)):
                    if isinstance(part, ast.Name):
                        yield part.id, ast.Pass()
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name, ast.Pass()


def _members(tree: ast.Module, elsewhere: Collection[str]) -> Iterator[tuple[str, str]]:
    for owner in ast.walk(tree):
        if not isinstance(owner, ast.ClassDef) or owner.name in elsewhere:
            continue
        for node in owner.body:
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    if not name.startswith("__"):
                        yield owner.name, name
                case ast.AnnAssign(target=ast.Name(id=name)):
                    yield owner.name, name


def _is_of_a_command(name: str) -> bool:
    module, _, own = name.removeprefix("holdfast.cli.").rpartition(".")
    return own in OF_COMMANDS and module in {command[0] for command in COMMANDS.values()}


def sources() -> dict[str, str]:
    return {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): (
            path.read_text()
        )
        for path in sorted(SOURCE.rglob("*.py"))
    }


def test_what_is_defined_is_used():
    assert dead_names(sources()) == []


def test_what_is_said_to_be_alive_exists():
    texts = sources()
    for name in ALIVE:
        module = max((one for one in texts if name.startswith(f"{one}.")), key=len)
        assert re.search(rf"\b{name.rsplit('.', 1)[1]}\b", texts[module]), name
    whole = "\n".join(texts.values())
    assert [name for name in READ_ELSEWHERE if f"class {name}" not in whole] == []


def test_what_is_said_to_be_alive_would_be_called_dead():
    found = dead_names(sources(), alive=(), elsewhere=())
    assert sorted(set(ALIVE).difference(found)) == []
    owners = {name.split(".")[-2] for name in found}
    assert sorted(READ_ELSEWHERE - owners) == []


def test_the_check_can_fail():
    planted = {
        "a": "from b import used\nLEFT = 1\n_KEPT = 2\nprint(used(_KEPT))\ndef again(): again()",
        "b": (
            "class Box:\n    width: int\n    depth: int\n    def area(self): return self.width\n"
            "def used(x): return Box(x, x).area()\n"
        ),
    }
    assert dead_names(planted) == ["a.LEFT", "a.again", "b.Box.depth"]
