"""Holdfast's own importer: it runs what Python's own would run, in a package made for it."""

from __future__ import annotations

import json
import os
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast.importing

SHOW = """
import json, sys
sys.path.insert(0, sys.argv[1])
import holdfast.importing
found = __import__(sys.argv[2], fromlist=["WORD"])
spec = found.__spec__
print(json.dumps([
    found.WORD, type(spec.loader).__name__, found.__file__, found.__cached__,
    list(getattr(found, "__path__", [])), spec.parent,
]))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package of that name with two modules and a folder."""
    root = tmp_path / "holdfast"
    (root / "inner").mkdir(parents=True)
    shutil.copy(holdfast.importing.__file__, root)
    for name in ("__init__", "module", "inner/__init__", "inner/module"):
        (root / f"{name}.py").write_text("WORD = 'one'\n")
    return root


def _run(package: Path, name: str, *flags: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-I", "-S", *flags, "-c", SHOW, str(package.parent), name]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)


def _word(package: Path, name: str = "holdfast.module", *flags: str) -> str:
    done = _run(package, name, *flags)
    assert done.returncode == 0, done.stderr
    word: str = json.loads(done.stdout)[0]
    return word


def _compile_another(
    source: Path, mode: py_compile.PycInvalidationMode = py_compile.PycInvalidationMode.TIMESTAMP
) -> None:
    """A compiled file of other code, with the time and the size of the source."""
    text, found = source.read_text(), source.stat()
    source.write_text(text.replace("one", "two"))
    os.utime(source, ns=(found.st_atime_ns, found.st_mtime_ns))
    py_compile.compile(str(source), doraise=True, invalidation_mode=mode)
    source.write_text(text)
    os.utime(source, ns=(found.st_atime_ns, found.st_mtime_ns))


@pytest.mark.parametrize(
    ("name", "source", "path", "parent"),
    [
        ("holdfast.module", "module.py", [], "holdfast"),
        ("holdfast.inner", "inner/__init__.py", ["inner"], "holdfast.inner"),
        ("holdfast.inner.module", "inner/module.py", [], "holdfast.inner"),
    ],
)
def test_a_module_is_what_python_makes_of_it(package, name, source, path, parent):
    file = package / source
    for _ in range(2):  # without a compiled file, and with the one that the first made
        word, loader, *rest = json.loads(_run(package, name).stdout)
        assert (word, loader) == ("one", "CompiledLoader")
        compiled = file.parent / "__pycache__" / f"{file.stem}.{sys.implementation.cache_tag}.pyc"
        assert rest == [str(file), str(compiled), [str(package / one) for one in path], parent]
        assert compiled.exists()


def test_the_compiled_file_is_run_while_time_and_size_are_those_of_the_source(package):
    _compile_another(package / "module.py")
    assert _word(package) == "two"


def test_a_source_that_changed_is_run_itself(package):
    source = package / "module.py"
    _compile_another(source)
    later = source.stat().st_mtime_ns + 2 * 10**9
    os.utime(source, ns=(later, later))
    assert _word(package) == "one"
    _compile_another(source)
    assert _word(package) == "two"
    found = source.stat()
    source.write_text("WORD = 'three'\n")
    os.utime(source, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert _word(package) == "three"


@pytest.mark.parametrize("damage", [b"", b"\0" * 8, b"\0" * 400])
def test_a_compiled_file_that_is_none_is_passed_over(package, damage):
    py_compile.compile(str(package / "module.py"), doraise=True)
    (compiled,) = (package / "__pycache__").glob("module.*")
    compiled.write_bytes(damage)
    assert _word(package) == "one"


def test_a_compiled_file_that_is_checked_by_its_hash_is_left_to_python(package):
    mode = py_compile.PycInvalidationMode
    _compile_another(package / "module.py", mode.UNCHECKED_HASH)
    assert _word(package) == "two"
    _compile_another(package / "module.py", mode.CHECKED_HASH)
    assert _word(package) == "one"


def test_an_interpreter_that_keeps_its_compiled_files_elsewhere_is_left_alone(package):
    _compile_another(package / "module.py")
    assert _word(package, "holdfast.module", "-O") == "one"
    prefix = f"pycache_prefix={package.parent / 'elsewhere'}"
    assert _word(package, "holdfast.module", "-X", prefix) == "one"


def test_what_is_not_there_is_said_as_ever(package):
    done = _run(package, "holdfast.nothing")
    assert "ModuleNotFoundError: No module named 'holdfast.nothing'" in done.stderr


STRIP = """
import sys
sys.path.insert(0, sys.argv[1])
import holdfast.importing
import holdfast.before
holdfast.importing.strip_modules()
import holdfast.inner.after

for module in (holdfast.before, holdfast.inner.after):
    Kind = module.Kind
    print(
        module.__doc__, Kind.__doc__, module.plain.__annotations__, Kind.method.__annotations__,
        Kind.one.fget.__annotations__, Kind.made.__func__.__annotations__, Kind.__annotations__,
        module.__spec__, module.plain(3), Kind().method(), Kind().one, Kind.made(), Kind.field,
    )
import holdfast.inner.module
print(holdfast.inner.module.WORD)
"""
STRIPPED = '''"""A module."""
from holdfast.inner import Borrowed

def plain(number: int) -> int:
    return number

class Kind:
    """A class."""
    field: int = 7
    def method(self, by: int = 2) -> int:
        return by
    @property
    def one(self) -> int:
        return 1
    @classmethod
    def made(cls) -> str:
        return cls.__name__
'''


def test_what_only_people_read_is_given_back_of_what_is_loaded_and_of_what_follows(package):
    (package / "inner" / "__init__.py").write_text(
        "class Borrowed:\n    '''Of another module.'''\nWORD = 'one'\n"
    )
    for name in ("before", "inner/after"):
        (package / f"{name}.py").write_text(STRIPPED)
    for _ in range(2):  # compiled by the first
        command = [sys.executable, "-I", "-S", "-c", STRIP, str(package.parent)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.stderr == ""
        assert done.stdout.splitlines() == ["None None {} {} {} {} {} None 3 2 1 Kind 7"] * 2 + [
            "one"
        ]


SHOW_EXTENSIONS = """
import json, sys
if sys.argv[1] == "ours":
    import holdfast.importing
names = sys.argv[2:]
modules = [__import__(name) for name in names]
print(json.dumps([[getattr(one, "__file__", None), one.__spec__.origin] for one in modules]))
"""


def test_extensions_of_the_standard_library_are_those_that_python_finds(tmp_path):
    names = [*holdfast.importing._EXTENSIONS]
    environment = {**os.environ, "PYTHONPATH": str(Path(holdfast.__file__).parents[1])}

    def show(way: str) -> list[list[str | None]]:
        command = [sys.executable, "-S", "-P", "-c", SHOW_EXTENSIONS, way, *names]
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=60
        )
        assert done.returncode == 0, done.stderr
        found: list[list[str | None]] = json.loads(done.stdout)
        return found

    assert show("ours") == show("python")


def test_an_extension_that_is_not_where_it_should_be_is_left_to_python(monkeypatch):
    monkeypatch.setattr(holdfast.importing, "_EXTENSIONS_PATH", "/nonexistent")
    assert holdfast.importing.CompiledFinder.find_spec("_json") is None
