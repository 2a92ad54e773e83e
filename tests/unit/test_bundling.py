"""The bundle: what it holds is what the sources say, and nothing is ever run that they do not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.bundling import (
    OF_A_LIST,
    OF_BOTH,
    OF_EVERY_COMMAND,
    OF_THE_LAUNCHER,
    OF_THE_SHIM,
)
from tests.support.waiting import eventually

KEYS = (
    "cli.arguments.fast_args",
    "cli.run",
    "cli.ls",
    "manage.runs",
    "shim.main",
    "shim.attempt",
    "shim.observer",
)
# What each module has, how it was loaded, and what a class and a function of it are.
SHOW = """
import json, sys
sys.path.insert(0, sys.argv[1])
import holdfast.cli
from holdfast import importing
NOT_COMPARED = {"__doc__", "__spec__", "__loader__", "__cached__", "__annotations__", "__path__"}
NOT_COMPARED.add("annotations")  # of `__future__`
for name in sys.argv[2:]:
    __import__(f"holdfast.{name}")
found = {}
for name, module in list(sys.modules.items()):
    if name.startswith("holdfast"):
        kinds = {key: type(value).__name__ for key, value in vars(module).items()}
        kinds = {key: kind for key, kind in kinds.items() if key not in NOT_COMPARED}
        found[name] = [module.__file__, module.__package__, kinds]
plain = [name for name in found if sys.modules[name].__spec__ is None]
from holdfast.errors import WrongUse
from holdfast.run.spec import RunSpec
print(json.dumps({
    "modules": found, "bundled": plain, "lacks": importing.lacks_bundle(),
    "word": getattr(sys.modules["holdfast.errors"], "WORD", None),
    "fields": RunSpec._fields, "line": WrongUse.__init__.__code__.co_firstlineno,
}))
"""


# What a failure in code of the bundle is told as. Words: what becomes of the bundle before.
FAIL = """
import os, sys
import holdfast.importing
import holdfast.cli, holdfast.manage.starting.launch, holdfast.cli.run
from holdfast.errors import HoldfastError
from holdfast.process.identity import ProcessIdentity
from holdfast.run.directory import RunDirectory
from holdfast.tracebacks import traceback_text

def deep(calls):
    if calls:
        return deep(calls - 1)
    try:
        ProcessIdentity.parse("bad")
    except HoldfastError as error:
        RunDirectory.at(None)

try:
    deep(900)
except Exception as error:
    if "gone" in sys.argv:
        os.unlink(holdfast.importing.BUNDLE)
    if "other" in sys.argv:
        import holdfast.bundling
        holdfast.bundling.main()
    print(bool(holdfast.importing.groups), traceback_text(error))
"""


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package with its bundle."""
    root = tmp_path_factory.mktemp("installed") / "holdfast"
    shutil.copytree(
        Path(holdfast.__file__).parent, root, ignore=shutil.ignore_patterns("*.bundle*")
    )
    _make(root)
    return root


@pytest.fixture
def package(bundled: Path, tmp_path: Path) -> Path:
    """A package at another place, with a bundle of its own."""
    root = tmp_path / "holdfast"
    shutil.copytree(bundled, root, ignore=shutil.ignore_patterns("*.bundle*"))
    _make(root)
    return root


def _python(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = str(root.parent)
    command = [sys.executable, "-S", *words]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=60, check=True
    )


def _make(root: Path) -> None:
    _python(root, "-m", "holdfast.bundling")


def _bundle(root: Path) -> Path:
    (path,) = (root / "__pycache__").glob("*.bundle")
    return path


def _shown(root: Path) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(_python(root, "-c", SHOW, str(root.parent), *KEYS).stdout)
    return shown


def test_what_comes_out_of_the_bundle_is_what_python_makes_of_the_sources(package):
    from_bundle = _shown(package)
    _bundle(package).unlink()
    without = _shown(package)
    assert len(from_bundle.pop("bundled")) > 40
    assert without.pop("bundled") == []
    assert not from_bundle.pop("lacks")
    assert without.pop("lacks")
    assert from_bundle == without


def test_each_group_can_be_loaded_without_the_others(bundled):
    load = "import sys, holdfast.importing; print(__import__(sys.argv[1], fromlist=['x']).__name__)"
    of_commands = (*OF_EVERY_COMMAND, *OF_A_LIST)
    for key in (*of_commands, *OF_BOTH, *OF_THE_LAUNCHER, *OF_THE_SHIM):
        assert _python(bundled, "-c", load, key).stdout == f"{key}\n"


def test_a_source_that_changed_is_run_itself_and_the_bundle_is_to_be_made_again(package):
    source = package / "errors.py"
    text, found = source.read_text(), source.stat()
    for word, later in (("longer", 0), ("later!", 2)):  # by its size, then by its time alone
        source.write_text(f"{text}WORD = {word!r}\n")
        os.utime(source, (found.st_atime, found.st_mtime + later))
        shown = _shown(package)
        assert (shown["word"], shown["lacks"], shown["bundled"]) == (word, True, [])
        _make(package)
        shown = _shown(package)
        assert shown["word"] == word
        assert shown["bundled"]


def test_a_group_of_another_version_is_not_mixed_with_what_was_loaded(package):
    """The last module of a group has changed: none of the group is run from the bundle."""
    source = package / "run" / "spec.py"
    source.write_text(source.read_text() + "WORD = 'changed'\n")
    bundled = _shown(package)["bundled"]
    assert "holdfast.errors" in bundled  # of a group before it
    assert "holdfast.run.directory" not in bundled
    assert "holdfast.shim.loop" not in bundled


def test_a_bundle_that_is_not_whole_is_passed_over(package):
    bundle = _bundle(package)
    first = bundle.read_bytes()
    _make(package)
    second = bundle.read_bytes()
    mixed = first[:4096] + second[4096:]  # as when it is made again between two reads
    for damaged in (b"", first[:4], first[:100], first[:5000], mixed):
        bundle.write_bytes(damaged)
        shown = _shown(package)
        assert shown["lacks"]
        assert shown["bundled"] == []


def _told(root: Path, *words: str) -> list[str]:
    lines = _python(root, "-c", FAIL, *words).stdout.splitlines()
    return [line for line in lines if set(line.strip()) - set("~^")]


def test_a_failure_in_bundled_code_is_told_with_its_lines(package):
    told = _told(package)
    assert told[0].startswith("True")
    assert any("identity.py" in line and ", in parse" in line for line in told)
    _bundle(package).unlink()
    without = _told(package)
    assert without[0].startswith("False")
    assert told[1:] == without[1:]


@pytest.mark.parametrize("what", ["gone", "other"])
def test_lines_of_a_bundle_that_is_not_the_one_in_use_are_not_told(package, what):
    told = _told(package, what)
    ours = [line for line in told if "identity.py" in line]
    assert ours
    assert all("line -1," in line or "line None," in line for line in ours)
    assert "during handling of the above exception" in "\n".join(told).lower()


def test_who_traces_lines_sees_them(package):
    show = "import holdfast.cli, holdfast.importing as i; print(bool(i.groups), i.lacks_bundle())"
    assert _python(package, "-c", show).stdout == "True False\n"
    for look in ("settrace", "setprofile"):
        traced = f"import sys; sys.{look}(lambda *_: None); {show}"
        assert _python(package, "-c", traced).stdout == "False False\n"


def test_a_package_that_was_moved_has_no_use_for_its_bundle(bundled, tmp_path):
    moved = tmp_path / "holdfast"
    shutil.copytree(bundled, moved)
    shown = _shown(moved)
    assert shown["bundled"] == []
    assert not shown["lacks"]  # or two paths to one package would make it again and again


def test_a_start_has_the_bundle_made(package, tmp_path, monkeypatch):
    bundle = _bundle(package)
    bundle.unlink()
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    start = (
        "import sys; sys.argv[1:] = ['run', 'true']; from holdfast.cli import program; program()"
    )
    _python(package, "-c", start)
    eventually(bundle.exists, why="the bundle is made in the background")
    eventually(
        lambda: not bundle.with_name(f"{bundle.name}.tried").exists(), why="and that it was asked"
    )
    assert _shown(package)["bundled"]


def test_a_package_that_may_not_be_written_to_is_used_as_it_is(package, tmp_path, monkeypatch):
    _bundle(package).unlink()
    stamp = package / "__pycache__" / f"start.{sys.implementation.cache_tag}.bundle.tried"
    stamp.mkdir()  # even root can't write that
    os.utime(stamp, (0, 0))
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    start = (
        "import sys; sys.argv[1:] = ['run', 'true']; from holdfast.cli import program; program()"
    )
    assert _python(package, "-c", start).stdout.startswith("true-")
    assert not list((package / "__pycache__").glob("*.bundle"))
