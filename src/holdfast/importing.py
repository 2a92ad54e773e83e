"""Loads Holdfast's own modules without searching for them: a launch needs more than a hundred.

For each module Python asks several finders, lists directories and looks at names that are not
there. Here it is known where a module is. What is checked is what Python checks: a compiled file
has to be of this interpreter, and made from the source as it is now, by its time and size. Whatever
is different in any way is left to Python's own loader.

Importing this puts it in place. It is for processes that are ours, the command line and shims: a
program that uses the library keeps its importers as they are.
"""

from __future__ import annotations

import posix
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader
from _imp import _fix_co_filename  # type: ignore[attr-defined]
from marshal import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, ModuleType

_PACKAGE = __name__.partition(".")[0]
_ROOT = __file__.rpartition("/")[0]
_SUFFIX = f".{sys.implementation.cache_tag}.pyc"
_HEAD_BYTES = 16
_MOST_BYTES = 1 << 16  # more at once would be mapped and unmapped by malloc, page by page
_UNCHECKED = MAGIC_NUMBER + b"\0\0\0\0"  # flags: by time and size, not by a hash
# Their classes have fields whose types are compared with what is read.
_TYPED = (f"{_PACKAGE}.options", f"{_PACKAGE}.run.spec")

_strips = False


class CompiledLoader(SourceFileLoader):
    """Python's own loader, but for a compiled file that is where it should be, and up to date."""

    def __init__(self, fullname: str, path: str, compiled: str, head: bytes) -> None:
        super().__init__(fullname, path)
        self._compiled, self._head = compiled, head

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's code."""
        super().exec_module(module)
        if _strips:
            _strip_module(module)

    def get_code(self, fullname: str) -> CodeType | None:
        """The code of the module."""
        data = _contents(self._compiled)
        if data[:_HEAD_BYTES] != self._head or len(data) == _MOST_BYTES:
            return super().get_code(fullname)
        code: CodeType = loads(memoryview(data)[_HEAD_BYTES:])
        _fix_co_filename(code, self.path)
        return code


def strip_modules() -> None:
    """Give back what only people and tools read of this package's loaded code, and of what follows.

    For a shim, which lives long beside others. What is loaded next uses the room again.
    """
    global _strips
    if _strips:
        return
    _strips = True
    for name in [name for name in sys.modules if name.startswith(f"{_PACKAGE}.")]:
        _strip_module(sys.modules[name])


def _strip_module(module: ModuleType) -> None:
    module.__doc__ = None
    for thing in vars(module).values():
        _strip(thing)
        if isinstance(thing, type) and thing.__module__ == module.__name__:
            for member in vars(thing).values():
                _strip(getattr(member, "fget", None) or getattr(member, "__func__", member))
            type.__setattr__(thing, "__doc__", None)
            if "__annotations__" in vars(thing) and module.__name__ not in _TYPED:
                type.__delattr__(thing, "__annotations__")
    if not hasattr(module, "__path__"):  # what is below a package is found through its spec
        vars(module).update(__spec__=None, __loader__=None, __cached__=None)


def _strip(thing: object) -> None:
    if type(thing) is type(_strip):
        del thing.__annotations__


def _contents(path: str) -> bytes:
    try:
        fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return posix.read(fd, _MOST_BYTES)
    except OSError:
        return b""
    finally:
        posix.close(fd)


class CompiledFinder:
    """Finds the modules of this package."""

    @staticmethod
    def find_spec(fullname: str, *_where: object) -> ModuleSpec | None:
        """None: of another package, or not where it should be."""
        package, _, inside = fullname.partition(".")
        if package != _PACKAGE or not inside:
            return None
        folder, _, name = f"{_ROOT}/{inside.replace('.', '/')}".rpartition("/")
        source, is_package = f"{folder}/{name}.py", False
        try:
            try:
                found = posix.stat(source)
            except FileNotFoundError:
                folder, name, is_package = f"{folder}/{name}", "__init__", True
                source = f"{folder}/__init__.py"
                found = posix.stat(source)
        except OSError:
            return None
        # As Python has it: the lowest 32 bits of the time, in seconds, and of the size.
        made = int(found.st_mtime) & 0xFFFFFFFF | (found.st_size & 0xFFFFFFFF) << 32
        compiled = f"{folder}/__pycache__/{name}{_SUFFIX}"
        head = _UNCHECKED + made.to_bytes(8, "little")
        loader = CompiledLoader(fullname, source, compiled, head)
        spec = ModuleSpec(fullname, loader, origin=source, is_package=is_package)
        spec.has_location = True
        spec.cached = compiled
        if is_package:
            spec.submodule_search_locations = [folder]
        return spec


def _install() -> None:
    is_usual = sys.pycache_prefix is None and not sys.flags.optimize
    if is_usual and sys.implementation.cache_tag is not None:
        sys.meta_path.insert(0, CompiledFinder)


_install()
