"""Which program a process runs: its names, its interpreter and its script, from one snapshot.

Pure: it looks at what was read (`proc_details` reads it) and knows how interpreters spell their
command lines. It says what a process is called, never what it is for.
"""

from __future__ import annotations

import os

from holdfast.process.identity import ProcessIdentity
from holdfast.process.procfs import ProcessState
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

YOUNG_SECONDS = 1.0  # what is older has done its first exec, and is no helper at a start
COMM_BYTES = 15  # the kernel cuts a process's name to this
JAVASCRIPT = ("node", "bun", "deno")
SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "yash")
MULTI_CALL = ("busybox", "toybox", "coreutils")  # one executable, named by its first word

_VERSION = "-.0123456789"
_SCRIPT_SUFFIXES = (".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".sh", ".exe")
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


class _Options(Record):
    """How an interpreter spells its own options."""

    with_value: tuple[str, ...] = ()  # the next word belongs to the option
    code: tuple[str, ...] = ()  # a program text follows: there is no script
    module: tuple[str, ...] = ()  # the next word is the script's name
    verbs: tuple[str, ...] = ()  # a first word that is not the script yet


_INTERPRETERS = {
    "python": _Options(
        with_value=("-W", "-X", "--check-hash-based-pycs"), code=("-c",), module=("-m",)
    ),
    "pypy": _Options(with_value=("-W", "-X"), code=("-c",), module=("-m",)),
    "node": _Options(
        with_value=("-r", "--require", "--import", "--loader", "-C", "--conditions"),
        code=("-e", "--eval", "-p", "--print", "-pe"),
    ),
    "bun": _Options(code=("-e", "--eval"), verbs=("run",)),
    "deno": _Options(verbs=("run",)),
    "ruby": _Options(with_value=("-I", "-r", "-C"), code=("-e",)),
    "perl": _Options(with_value=("-I",), code=("-e", "-E")),
    "php": _Options(with_value=("-d", "-c"), code=("-r",), module=("-f",)),
    **dict.fromkeys(SHELLS, _Options(with_value=("-o", "+o", "-O", "+O", "--rcfile"))),
}


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
        family = _family(name)
        if family in _INTERPRETERS:
            # What it was called decides between names of one shell: dash is called sh.
            called = _family(first)
            return called if called in SHELLS and family in SHELLS else family
    return None


def _family(name: str) -> str:
    return name.rstrip(_VERSION) if name not in ("", ".") else ""


def script_line(program: Program) -> tuple[str, ...]:
    """The script that an interpreter runs, with its arguments; empty where there is none."""
    family, line = interpreter(program), words(program)
    if family is None or not line:
        return ()
    first = _family(base(line[0]))
    if first != family and not (first in SHELLS and family in SHELLS):
        return line  # the title that it gave itself
    options = _INTERPRETERS[family]
    rest = list(line[1:])
    while rest:
        word = rest[0]
        if word in options.code or (family in SHELLS and _has_code_flag(word)):
            return ()
        if word in options.module:
            return tuple(rest[1:])
        if word == "--":
            return tuple(rest[1:])
        if word.startswith(("-", "+")) and word != "-":
            rest = rest[2:] if word in options.with_value else rest[1:]
        elif word in options.verbs:
            rest = rest[1:]
        else:
            return () if word == "-" else tuple(rest)
    return ()


def _has_code_flag(word: str) -> bool:
    """-c, also as -lc, -ec, -xec."""
    return word[:1] == "-" and word[1:2] != "-" and "c" in word[1:]


def shell_code(program: Program) -> str | None:
    """The text of `sh -c TEXT`; None when a shell runs a file or its stdin, or is no shell."""
    family = interpreter(program)
    if family not in SHELLS:
        return None
    options, rest, has_code = _INTERPRETERS[family], list(words(program)[1:]), False
    while rest and rest[0].startswith(("-", "+")):
        if rest[0] == "--":
            rest = rest[1:]
            break
        has_code = has_code or _has_code_flag(rest[0])
        rest = rest[2:] if rest[0] in options.with_value else rest[1:]
    return rest[0] if has_code and rest else None


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
    """Everything that this process may rightly be called."""
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
    """Its command line can't be told at this moment: it is in the middle of an exec, or hangs."""
    if program.cmdline:
        return False
    if program.age_seconds is not None and program.age_seconds < YOUNG_SECONDS:
        return True
    # Without words, an interpreter may be anything; a program of its own is known by its file.
    return program.state is ProcessState.DISK_SLEEP and interpreter(program) is not None
