"""Loads Holdfast's own modules without searching for them: a launch needs more than a hundred.

For each module Python asks several finders and looks at names that are not there; here it is known
where a module is. Checked is what Python checks: compiled code has to be of this interpreter, and
made from the source as it is now, by its time and size. Whatever is different is left to Python.
What a start needs comes out of one file, several modules at once, where `bundling.py` has made it.

Importing this puts it in place. It is for processes that are ours, the command line and shims: a
program that uses the library keeps its importers as they are.
"""

import posix
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER, ExtensionFileLoader, SourceFileLoader
from _imp import _fix_co_filename, extension_suffixes  # type: ignore[attr-defined]
from marshal import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, ModuleType

    # One module of a bundle: its name, whether it is a package, its source's stamp, its code.
    Bundled = tuple[str, bool, int, CodeType]
    # Of a group: what is asked for before it, and where its pieces are.
    Places = tuple[tuple[str, ...], list[tuple[int, int]]]
    # Tables of lines, by path, name, first line and number of instructions of their code. None: two
    # functions are alike in these four and differ in their lines, so neither table is used.
    Lines = dict[tuple[str, str, int, int], bytes | None]

_PACKAGE = __name__.partition(".")[0]
ROOT = __file__.rpartition("/")[0]
_SUFFIX = f".{sys.implementation.cache_tag}.pyc"
_HEAD_BYTES = 16
_MOST_BYTES = 1 << 16  # more at once would be mapped and unmapped by malloc, page by page
_UNCHECKED = MAGIC_NUMBER + b"\0\0\0\0"  # flags: by time and size, not by a hash
# Their classes have fields whose types are compared with what is read.
_TYPED = (f"{_PACKAGE}.options", f"{_PACKAGE}.run.spec")

BUNDLE = f"{ROOT}/__pycache__/start.{sys.implementation.cache_tag}.bundle"
BUNDLE_HEAD = MAGIC_NUMBER + b"HFB2"
# Of the standard library, what starts, shims and lists load that may be a file of its own.
_EXTENSIONS = ("_ctypes", "_heapq", "_json", "_sha256", "_socket", "fcntl", "resource", "select")
_EXTENSIONS_PATH = "{}/{}/python{}.{}/lib-dynload".format(
    sys.base_exec_prefix, sys.platlibdir, *sys.version_info[:2]
)

STAMP_BYTES = 16  # random: the same in the index of a bundle and before each piece
INDEX_BYTES = 4096

_strips = False
_lacks_bundle = False
_stamp = b""
groups: "dict[str, Places]" = {}  # of the bundle, by the module that each is loaded for


class CompiledLoader(SourceFileLoader):
    """Python's own loader, but for a compiled file that is where it should be, and up to date."""

    def __init__(
        self, fullname: str, path: str, compiled: str, head: bytes, code: "CodeType | None"
    ) -> None:
        super().__init__(fullname, path)
        self._compiled, self._head, self._code = compiled, head, code

    def exec_module(self, module: "ModuleType") -> None:
        """Run the module's code."""
        super().exec_module(module)
        if _strips:
            _strip_module(module)

    def get_code(self, fullname: str) -> "CodeType | None":
        """The code of the module."""
        code, self._code = self._code, None
        if code is not None:
            return code
        data = _contents(self._compiled)
        if data[:_HEAD_BYTES] != self._head or len(data) == _MOST_BYTES:
            return super().get_code(fullname)
        compiled: CodeType = loads(memoryview(data)[_HEAD_BYTES:])
        _fix_co_filename(compiled, self.path)
        return compiled


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


def _strip_module(module: "ModuleType") -> None:
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


def _contents(path: str, length: int = _MOST_BYTES, offset: int = 0) -> bytes:
    try:
        fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return posix.pread(fd, length, offset)
    except OSError:
        return b""
    finally:
        posix.close(fd)


class CompiledFinder:
    """Finds the modules of this package, and some of the standard library."""

    @staticmethod
    def find_spec(fullname: str, *_where: object) -> "ModuleSpec | None":
        """None: of another package, or not where it should be."""
        if fullname in _EXTENSIONS:
            return _extension_spec(fullname)
        package, _, inside = fullname.partition(".")
        if package != _PACKAGE or not inside:
            return None
        folder, _, name = f"{ROOT}/{inside.replace('.', '/')}".rpartition("/")
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
        code = _load_group(fullname) if fullname in groups else None
        compiled = f"{folder}/__pycache__/{name}{_SUFFIX}"
        head = _UNCHECKED + stamp_of(found).to_bytes(8, "little")
        loader = CompiledLoader(fullname, source, compiled, head, code)
        spec = ModuleSpec(fullname, loader, origin=source, is_package=is_package)
        spec.has_location = True
        spec.cached = compiled
        if is_package:
            spec.submodule_search_locations = [folder]
        return spec


def _extension_spec(name: str) -> "ModuleSpec | None":
    """Where an interpreter has its extensions. Python would list each directory of its path."""
    path = f"{_EXTENSIONS_PATH}/{name}{extension_suffixes()[0]}"
    if name in sys.builtin_module_names:
        return None
    try:
        posix.stat(path)
    except OSError:
        return None
    spec = ModuleSpec(name, ExtensionFileLoader(name, path), origin=path)
    spec.has_location = True
    return spec


def stamp_of(found: "posix.stat_result") -> int:
    """As Python has it: the lowest 32 bits of a source's time, in seconds, and of its size."""
    return int(found.st_mtime) & 0xFFFFFFFF | (found.st_size & 0xFFFFFFFF) << 32


def source_of(fullname: str, is_package: bool) -> str:
    """Where a module of this package is."""
    path = f"{ROOT}/{fullname.partition('.')[2].replace('.', '/')}"
    return f"{path}/__init__.py" if is_package else f"{path}.py"


def lacks_bundle() -> bool:
    """Whether a bundle would be used here, but there is none, or not one of these sources."""
    return _lacks_bundle and not sys.dont_write_bytecode


def _load_group(fullname: str) -> "CodeType | None":
    """Load what is loaded with this module, and give its own code; None: not from the bundle.

    All sources are looked at before anything is run: a group is of one version.
    """
    global _lacks_bundle
    group: list[Bundled] = []
    asked_before, pieces = groups.pop(fullname)
    for name in asked_before:
        __import__(name)
    try:
        for offset, length in pieces:
            data = _contents(BUNDLE, length, offset)
            if data[:STAMP_BYTES] != _stamp:
                raise ValueError("another bundle")
            group += loads(memoryview(data)[STAMP_BYTES:])
            del data  # its room is used for the next one
        for name, is_package, made, _ in group:
            if stamp_of(posix.stat(source_of(name, is_package))) != made:
                raise ValueError("another source")
    except (OSError, ValueError, EOFError, TypeError):
        _lacks_bundle = True
        groups.clear()
        return None
    *others, (_, _, _, code) = group
    for name, is_package, _, code_of_other in others:
        if name not in sys.modules:
            _run(name, is_package, code_of_other)
    return code


def _run(name: str, is_package: bool, code: "CodeType") -> None:
    """What an import comes to."""
    parent, _, own_name = name.rpartition(".")
    if parent not in sys.modules:  # it is in a group that was not asked for
        __import__(parent)
    module = type(sys)(name)
    named = module.__dict__
    named["__file__"] = source_of(name, is_package)
    if is_package:
        spec = CompiledFinder.find_spec(name)
        assert spec is not None
        named.update(__spec__=spec, __package__=name, __path__=spec.submodule_search_locations)
    else:
        named["__package__"] = parent
    sys.modules[name] = module
    try:
        exec(code, named)
    except BaseException:
        del sys.modules[name]
        raise
    setattr(sys.modules[parent], own_name, module)
    if _strips:
        _strip_module(module)


def bundled_lines() -> "Lines":
    """The tables of lines that bundled code lacks; none: the bundle is not the one in use."""
    index = _contents(BUNDLE, INDEX_BYTES)
    try:
        _, stamp, _, (offset, length) = loads(memoryview(index)[len(BUNDLE_HEAD) :])
        data = _contents(BUNDLE, length, offset)
        if stamp != _stamp or data[:STAMP_BYTES] != _stamp:
            return {}
        tables: Lines = loads(memoryview(data)[STAMP_BYTES:])
    except (ValueError, EOFError, TypeError):
        return {}
    return tables


def _is_traced() -> bool:
    """Whether a debugger, a profiler or a measure of coverage wants to see lines and long names."""
    monitoring = getattr(sys, "monitoring", None)  # Python 3.12 and later
    has_tool = monitoring is not None and any(map(monitoring.get_tool, range(6)))
    return sys.gettrace() is not None or sys.getprofile() is not None or has_tool


def _open_bundle() -> None:
    """The index of the bundle, if it is one for this interpreter and this place."""
    global _lacks_bundle, _stamp
    index = _contents(BUNDLE, INDEX_BYTES)
    try:
        if index[: len(BUNDLE_HEAD)] != BUNDLE_HEAD:
            raise ValueError("no bundle")
        root, stamp, found, _ = loads(memoryview(index)[len(BUNDLE_HEAD) :])
    except (ValueError, EOFError, TypeError):
        _lacks_bundle = True
        return
    if root == ROOT:  # else it is used by another path, and not to be made again and again
        _stamp = stamp
        groups.update(found)


def _install() -> None:
    is_usual = sys.pycache_prefix is None and not sys.flags.optimize
    if is_usual and sys.implementation.cache_tag is not None:
        sys.meta_path.insert(0, CompiledFinder)
        if not _is_traced():
            _open_bundle()


_install()
