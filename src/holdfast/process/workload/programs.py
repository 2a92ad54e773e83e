"""Which program a process runs: its names, interpreter and script, and what kind of wrapper it is.

Pure: from one snapshot, which `proc_files` reads, and the table in `holdfast/wrappers.py`. It
tells what a process is called; `decision.py` decides which one is the workload.
"""

from __future__ import annotations

import os

from holdfast.process.identity import ProcessIdentity
from holdfast.process.procfs import ProcessState
from holdfast.record import Record
from holdfast.wrappers import (
    INTERPRETERS,
    MULTI_CALL,
    SCRIPTS,
    SHELL,
    SHELLS,
    WRAPPERS,
    Wrapper,
    family_of,
    is_text_option,
    script_at,
    shell_text_at,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

YOUNG_SECONDS = 1.0  # what is older has done its first exec, and is no helper at a start
_TITLED_SECONDS = 60.0  # until then an interpreter may be about to write its title
COMM_BYTES = 15  # the kernel cuts a process's name to this

_SCRIPT_SUFFIXES = (".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".sh", ".exe")
_LOOKED_AT = 8  # a verb comes early on a command line; later words belong to the program
_DELETED = " (deleted)"  # the kernel's mark on the path of a program that was replaced


class Program(Record):
    """A member of the tree with the program that it runs. Unknown is None."""

    identity: ProcessIdentity
    ppid: int
    comm: str
    state: ProcessState
    exe: str | None = None
    cmdline: tuple[str, ...] = ()
    cpu_seconds: float | None = None  # its own, without its children
    age_seconds: float | None = None
    stdout: tuple[int, int] | None = None  # device and inode
    image: int | None = None  # where its stack starts: another one after each exec

    def to_json(self) -> dict[str, Any]:
        """The contract's PROCESS, without a verdict."""
        return {
            **self.identity.to_json(),
            "comm": self.comm,
            "exe": self.exe,
            "cmdline": list(self.cmdline),
            "state": self.state.value,
        }

    def __str__(self) -> str:
        return f"{label(self)} {self.identity.pid}"


def base(path: str | None) -> str:
    """The last part of a path, as people say it."""
    if not path:
        return ""
    return os.path.basename(path.removesuffix(_DELETED)).lstrip(
        "-"
    )  # a login shell's first word is "-bash"


def stem(name: str) -> str:
    """A script's name without its suffix."""
    for suffix in _SCRIPT_SUFFIXES:
        if name.endswith(suffix):
            return name[: -len(suffix)]
    return name


def words(program: Program) -> tuple[str, ...]:
    """The command line. A process that set its title (`npm exec x`) has it all in one word."""
    line = program.cmdline
    while line and not line[-1]:
        line = line[:-1]
    if len(line) > 1 and base(line[0]) in MULTI_CALL:
        return line[1:]  # `busybox sh -c ...` is a shell
    if len(line) == 1 and " " in line[0] and not line[0].startswith(("/", "./")):
        return tuple(line[0].split())
    return line


def interpreter(program: Program) -> str | None:
    """`python` for python3.11, `sh` for dash run as sh; None for a program of its own."""
    line = words(program)
    first, running = base(line[0]) if line else "", base(program.exe)
    for name in (running, first) if running not in MULTI_CALL else (first,):
        family = family_of(name)
        if family in INTERPRETERS:
            # What it was called decides between names of one shell: dash is called sh.
            called = family_of(first)
            return called if called in SHELLS and family in SHELLS else family
    return None


def script_line(program: Program) -> tuple[str, ...]:
    """The script that an interpreter runs, with its arguments; empty where there is none."""
    family, line = interpreter(program), words(program)
    if family is None or not line:
        return ()
    first = family_of(base(line[0]))
    if first != family and not (first in SHELLS and family in SHELLS):
        return line  # the title that it gave itself
    at = script_at(family, line[1:])
    return () if at is None else line[1 + at :]


def shell_code(program: Program) -> str | None:
    """The text of `sh -c TEXT`; None when a shell runs a file or its stdin, or is no shell."""
    if interpreter(program) not in SHELLS:
        return None
    arguments = words(program)[1:]
    at = shell_text_at(arguments)
    return None if at is None else arguments[at]


def is_login_shell(program: Program) -> bool:
    """Whether it runs its profile, and the helpers in that, before anything else."""
    if interpreter(program) not in SHELLS:
        return False
    if program.cmdline[0].startswith("-"):
        return True
    options = []
    for word in words(program)[1:]:
        if not word.startswith("-"):
            break
        options.append(word)
    return any(o == "--login" or (o[1:2] != "-" and "l" in o) for o in options)


def names(program: Program) -> set[str]:
    """Every name by which users, or a profile, may mean this process."""
    line, family, running = words(program), interpreter(program), base(program.exe)
    found = {program.comm, running, stem(running), base(line[0]) if line else ""}
    script = script_line(program)
    if script:
        found |= {base(script[0]), stem(base(script[0]))}
    if family is not None:
        found.add(family)
    return found - {""}


def is_called(program: Program, name: str) -> bool:
    """Whether that is one of its names; a long one is known by the 15 bytes the kernel keeps."""
    cut = name.encode(errors="surrogateescape")[:COMM_BYTES]
    if len(cut) == COMM_BYTES and program.comm.encode(errors="surrogateescape") == cut:
        return True
    return name in names(program)


def label(program: Program) -> str:
    """What people call it: the script, else the program."""
    script = script_line(program)
    return base(script[0]) if script else program.comm


def is_copy(child: Program, parent: Program) -> bool:
    """A fork that has not exec'ed (yet): its parent's program, not one of its own."""
    if child.cmdline != parent.cmdline or child.exe != parent.exe:
        return False
    # A program that starts itself again has the same words, but a stack of its own.
    return child.image is None or parent.image is None or child.image == parent.image


def is_unclear(program: Program) -> bool:
    """Its command line can't be read at this moment: it is in the middle of an exec, or hangs."""
    if program.cmdline:
        return False
    if program.age_seconds is not None and program.age_seconds < YOUNG_SECONDS:
        return True
    # Without words, an interpreter may be anything; a program of its own is known by its file.
    # One that writes its title over its words has none meanwhile; a minute later it has done so.
    if interpreter(program) is None:
        return False
    is_new = program.age_seconds is not None and program.age_seconds < _TITLED_SECONDS
    return is_new or program.state is ProcessState.DISK_SLEEP


# Wrappers


def wrapper_of(program: Program) -> Wrapper | None:
    """What kind of wrapper this process is; None: it is none."""
    family = interpreter(program)
    if family is None:
        return _native(program)
    if shell_code(program) is not None:
        return SHELL
    line = script_line(program)
    called = (base(line[0]), stem(base(line[0]))) if line else ()
    found = _lookup(tuple(name for name in called if name in SCRIPTS), line[1:])
    return found or _lookup((family,), words(program)[1:2])  # `bun x`


def _native(program: Program) -> Wrapper | None:
    line, running = words(program), base(program.exe)
    first = base(line[0]) if line else ""
    if running in MULTI_CALL or not running:
        return _lookup((first, program.comm), line[1:])
    return _lookup((running, program.comm), line[1:])


def _lookup(called: tuple[str, ...], arguments: tuple[str, ...]) -> Wrapper | None:
    for name in called:
        wrapper = WRAPPERS.get(name)
        if wrapper is not None and _has_verb(wrapper, arguments):
            return wrapper
    return None


def _has_verb(wrapper: Wrapper, arguments: tuple[str, ...]) -> bool:
    # Without any argument nothing speaks against it: npm's title is bare while it starts.
    if not wrapper.verbs or not arguments:
        return True
    return any(word in wrapper.verbs for word in arguments[:_LOOKED_AT])


def text_of(program: Program) -> str | None:
    """The shell text that a wrapper is to run: of `sh -c TEXT`, and of `script -qefc TEXT`."""
    text, wrapper = shell_code(program), wrapper_of(program)
    if text is not None or wrapper is None or not wrapper.takes_text:
        return text
    line = words(program)
    for at, word in enumerate(line[1:], 1):
        if word.startswith("--command="):
            return word.partition("=")[2]
        if is_text_option(word):
            return line[at + 1] if at + 1 < len(line) else None
    return None


def is_shell(wrapper: Wrapper | None) -> bool:
    """Whether it is `sh -c`: the one wrapper that may also do the work itself."""
    return wrapper is SHELL
