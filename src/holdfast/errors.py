"""Every error that Holdfast raises on purpose. Each carries fields, pickles, and says what to do.

HoldfastError
├── WrongUse (exit 2)            the caller's mistake
│   ├── InvalidToken, InvalidPid, InvalidPidFile, InvalidName, InvalidOption, InvalidProfile
│   ├── WrongType                a TypeError too
├── NotFound (exit 3)
│   ├── ProcessGone, RunNotFound
├── Refused (exit 4)             could be done, would be wrong
│   ├── AlreadyRunning, StillAlive, IdentityUnproven, UnsafeFile, NoStdin, LaterVersion
│   ├── DamagedRecord
├── Unavailable (exit 6)         not now, or not here: try again or change the place
│   ├── HomeUnusable, ProcessUnreadable, LockBusy, NoAnswer, OtherNode
│   ├── LeftToEngine
├── Failed (exit 1)              tried, and it did not work
└── Bug (exit 70)                ours
"""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


_SHORTAGES = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO),
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EAGAIN),
)
_HINTS = {
    errno.EMFILE: "close some files, or raise the limit (`ulimit -n`)",
    errno.ENOMEM: "end some processes, or raise the limit (`ulimit -v`, memory.max)",
    errno.EFBIG: "raise the limit on the size of files (`ulimit -f`)",
    errno.EAGAIN: "end some processes, or raise the limit (`ulimit -u`, pids.max)",
    errno.EROFS: "mount it for writing (a file system with errors may have become read-only)",
    errno.EIO: "the disk fails: see the kernel's log (`dmesg`)",
}


_names_options = False


def name_options() -> None:
    """For the command line: from here on, messages name what was typed."""
    global _names_options
    _names_options = True


def name_arguments() -> None:
    """For a server that the command line becomes: its clients give arguments."""
    global _names_options
    _names_options = False


def argument(name: str, value: object = None) -> str:
    """An argument as the caller gave it: `idle_timeout` or `pty=True` in a program,
    `--idle-timeout` or `--pty` at the command line."""
    if not _names_options:
        keyword = {"tag": "tags"}.get(name, name).replace("-", "_")
        return keyword if value is None else f"{keyword}={value!r}"
    if name == "argv":
        return "command"
    option = "--" + {"tags": "tag"}.get(name, name).replace("_", "-")
    return option if value is None or value is True else f"{option} {value}"


def called(command: str, *flags: str) -> str:
    """A command as the caller gives it: `remove(force=True)`, or `rm --force`."""
    if _names_options:
        return " ".join((command, *map(argument, flags)))
    method = {"rm": "remove", "run": "start"}.get(command, command)
    return f"{method}({', '.join(f'{flag}=True' for flag in flags)})"


def is_shortage(error: BaseException) -> bool:
    """Whether the machine has run out of something, or limits it, which is not a fault of ours."""
    return isinstance(error, OSError) and error.errno in _SHORTAGES


class HoldfastError(Exception):
    """Base of all. `code` is for programs, the message for people, `hint` says what to do next."""

    code = "error"
    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.fields = fields

    def __getattr__(self, name: str) -> Any:
        # Only reached when the attribute is not found: the fields read as attributes.
        fields = self.__dict__.get("fields", {})
        if name in fields:
            return fields[name]
        raise AttributeError(f"{type(self).__name__} has no {name!r}")

    def __reduce__(self) -> tuple[Callable[..., HoldfastError], tuple[Any, ...]]:
        return _rebuild, (type(self), self.message, self.hint, self.fields)

    def to_json(self) -> dict[str, Any]:
        """The contract's error document."""
        error: dict[str, Any] = {"code": self.code, "message": self.message, "hint": self.hint}
        return {"schema": 1, "error": error}


def _rebuild(
    kind: type[HoldfastError], message: str, hint: str | None, fields: dict[str, Any]
) -> HoldfastError:
    return kind(message, hint=hint, **fields)


class WrongUse(HoldfastError):
    """The caller's mistake: the same call will fail again until it is changed."""

    code = "wrong-use"
    exit_code = 2


class InvalidToken(WrongUse):
    """A text that is not an identity token."""

    code = "invalid-token"


class InvalidPid(WrongUse):
    """Zero, negative, too large or not a number: such a 'PID' can name a group or all processes."""

    code = "invalid-pid"


class InvalidPidFile(WrongUse):
    """A pid file whose content names no process. Never taken for 'not running'."""

    code = "invalid-pid-file"


class InvalidName(WrongUse):
    """A run name or reference that is malformed, path-like or ambiguous."""

    code = "invalid-name"


class InvalidOption(WrongUse):
    """An option whose value can't be used."""

    code = "invalid-option"


class InvalidProfile(WrongUse):
    """An agent profile or configuration file with a mistake; names file, key and expectation."""

    code = "invalid-profile"


class WrongType(WrongUse, TypeError):
    """A value of a type that can't mean anything here: a bare PID, a number for a run's name."""

    code = "wrong-type"


class NotFound(HoldfastError):
    """What was named does not exist."""

    code = "not-found"
    exit_code = 3


class ProcessGone(NotFound):
    """There is no such process, or it ended while it was looked at."""

    code = "process-gone"


class RunNotFound(NotFound):
    """No run has that name or id."""

    code = "run-not-found"


class Refused(HoldfastError):
    """It could be done, but would be wrong, or can't be proven right."""

    code = "refused"
    exit_code = 4


class AlreadyRunning(Refused):
    """Another instance lives. `identity` names it where that is known."""

    code = "already-running"


class StillAlive(Refused):
    """Something of the run is or may be alive."""

    code = "still-alive"


class IdentityUnproven(Refused):
    """Nothing proves that the process is the recorded one. `verdict` and `evidence` say more."""

    code = "identity-unproven"


class UnsafeFile(Refused):
    """A file that somebody else could have planted: symlink, other owner, not a plain file."""

    code = "unsafe-file"


class NoStdin(Refused):
    """The run was started without a stdin that can be written to."""

    code = "no-stdin"


class LaterVersion(Refused):
    """A file of a run that a later Holdfast wrote: listed as unknown, kept, never changed."""

    code = "later-version"


class DamagedRecord(Refused):
    """A file of a run that does not say what it should: kept, and never taken for an ending."""

    code = "damaged-record"


class Unavailable(HoldfastError):
    """Not now or not here: try again, or do what the hint says."""

    code = "unavailable"
    exit_code = 6


def out_of_room(error: OSError) -> Unavailable:
    """A shortage, as the caller sees it."""
    where = f": {error.filename}" if error.filename else ""
    hint = _HINTS.get(error.errno or 0, "free some and try again")
    told = Unavailable(f"{error.strerror or error}{where}", hint=hint)
    told.__cause__ = error
    return told


class HomeUnusable(Unavailable):
    """The state directory can't be used safely."""

    code = "home-unusable"


class ProcessUnreadable(Unavailable):
    """The process exists but the kernel does not let us look at it."""

    code = "process-unreadable"


class LockBusy(Unavailable):
    """A lock is held for longer than it should take."""

    code = "lock-busy"


class NoAnswer(Unavailable):
    """Another machine, or the engine on the way to it, does not answer: nothing is known of it."""

    code = "no-answer"


class LeftToEngine(Unavailable):
    """A stop did not reach its node, and the engine was asked to end the run; whether it did is not
    known."""

    code = "left-to-engine"


class OtherNode(Unavailable):
    """The node that answers is not the one that the run is bound to: its home was replaced."""

    code = "other-node"


class Failed(HoldfastError):
    """It was tried and did not work."""

    code = "failed"
    exit_code = 1


class Bug(HoldfastError):
    """A fault of Holdfast's own."""

    code = "bug"
    exit_code = 70


def as_our_error(error: Exception, hint: str = "please report it") -> HoldfastError:
    """Any exception as an error of ours, for where others go on after it: a shortage of the
    machine, else a fault of Holdfast's own."""
    if isinstance(error, HoldfastError):
        return error
    if isinstance(error, OSError) and is_shortage(error):
        return out_of_room(error)
    if isinstance(error, MemoryError):
        told = Unavailable(os.strerror(errno.ENOMEM), hint=_HINTS[errno.ENOMEM])
        told.__cause__ = error
        return told
    said = f"unexpected {type(error).__name__}: {error}; this is a bug in Holdfast"
    bug = Bug(said, hint=hint)
    bug.__cause__ = error
    return bug
