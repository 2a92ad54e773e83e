"""Copies files that git ignores, such as `.env`, into a new worktree.

Those that `.worktreeinclude` of the user's checkout names, in the syntax of .gitignore: regular
files, into places that the worktree does not have yet. No symbolic link is followed on either
side, in any part of a path. What is not copied is said; the start goes on.
"""

from __future__ import annotations

import errno
import os
import stat

from holdfast.errors import HoldfastError
from holdfast.manage.operations import Wait
from holdfast.manage.worktrees.git import git
from holdfast.manage.worktrees.losses import counted
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from holdfast.manage.operations import Steps

FILE = ".worktreeinclude"
MOST_FILES = 1000
MOST_BYTES = 256 << 20
_LONGEST_LIST = 64 << 10  # of patterns
_MOST_NAMED = 5
_MOST_RECORDED = 100  # of what is left out
_PIECE = 1 << 20
_LOOK = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


class Included(Record):
    """What was copied into a worktree, and what was not, with the reason."""

    copied: tuple[str, ...]
    left_out: tuple[str, ...]  # `path: why`

    def to_json(self) -> dict[str, Any]:
        """For the spec."""
        return {"copied": list(self.copied), "left_out": list(self.left_out)}

    def told(self) -> Iterator[str]:
        """For people, a line each."""
        if self.copied:
            yield f"{FILE}: {counted(len(self.copied), 'file')} copied ({_named(self.copied)})"
        if self.left_out:
            yield f"{FILE}: not copied: {_named(self.left_out, '; ')}"


def copy_included(top: str | None, target: str) -> Steps[Included | None]:
    """Copy what the checkout at `top` names into the one at `target`; None: it names nothing."""
    if top is None or not os.path.lexists(f"{top}/{FILE}"):
        return None
    try:
        _check_list(f"{top}/{FILE}")
        named = yield from _listed(top, "--ignored", f"--exclude-from={top}/{FILE}")
        not_ignored = yield from _listed(top, "--exclude-standard")
    except (HoldfastError, OSError) as error:
        return Included((), (f"{FILE}: {_why(error)}",))
    why = "git does not ignore it: it would look like work of the run"
    left_out = [f"{path}: {why}" for path in sorted(named & not_ignored)]
    copying = _Copying(top, target)
    for path in sorted(named - not_ignored):
        try:
            copying.copy(path)
        except OSError as error:
            left_out.append(f"{path}: {_why(error)}")
        yield Wait((), 0)
    if len(left_out) > _MOST_RECORDED:
        left_out[_MOST_RECORDED:] = [f"{len(left_out) - _MOST_RECORDED} more"]
    return Included(tuple(copying.copied), tuple(left_out))


def _check_list(path: str) -> None:
    """OSError for what git must not be given to read."""
    found = os.lstat(path)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(0, "is not a plain file")
    if found.st_size > _LONGEST_LIST:
        raise OSError(0, f"is longer than {_LONGEST_LIST >> 10} KiB")


def _listed(top: str, *which: str) -> Steps[set[str]]:
    """Untracked files; git follows no link and looks into no other repository."""
    said = yield from git(top, "ls-files", "-z", "--others", *which)
    if not said.is_well:
        raise OSError(0, f"git can't list them: {said.complaint}")
    return {path for path in said.output.split("\0") if path and not path.endswith("/")}


class _Copying:
    """Copies files one by one, within the bounds."""

    def __init__(self, top: str, target: str) -> None:
        self._top, self._target = top, target
        self._bytes = 0
        self.copied: list[str] = []

    def copy(self, path: str) -> None:
        """OSError when it can't be; then nothing of it is left there."""
        if len(self.copied) >= MOST_FILES:
            raise OSError(0, f"more than {MOST_FILES} files")
        folder, name = os.path.split(path)
        source = _open_below(self._top, folder)
        try:
            read = os.open(name, _LOOK, dir_fd=source)
        finally:
            os.close(source)
        try:
            self._copy_open(read, folder, name)
        finally:
            os.close(read)
        self.copied.append(path)

    def _copy_open(self, read: int, folder: str, name: str) -> None:
        found = os.fstat(read)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(0, "is not a plain file")
        if self._bytes + found.st_size > MOST_BYTES:
            raise OSError(0, f"more than {MOST_BYTES >> 20} MiB in all")
        place = _open_below(self._target, folder, make=True)
        try:
            self._bytes += _write(read, place, name, found)
        finally:
            os.close(place)


def _open_below(top: str, folder: str, *, make: bool = False) -> int:
    """A directory, reached step by step: no part of the path may be a link."""
    fd = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in filter(None, folder.split("/")):
        try:
            if make:
                _make(part, fd)
            inner = os.open(part, _LOOK | os.O_DIRECTORY, dir_fd=fd)
        finally:
            os.close(fd)
        fd = inner
    return fd


def _make(name: str, parent: int) -> None:
    try:
        os.mkdir(name, dir_fd=parent)
    except FileExistsError:
        pass


def _write(read: int, place: int, name: str, found: os.stat_result) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    written = os.open(name, flags, 0o600, dir_fd=place)
    count = 0
    try:
        while count < found.st_size and (data := os.read(read, _PIECE)):
            os.write(written, data)
            count += len(data)
        os.fchmod(written, stat.S_IMODE(found.st_mode) & 0o777)
    except BaseException:
        os.unlink(name, dir_fd=place)
        raise
    finally:
        os.close(written)
    return count


def _why(error: Exception) -> str:
    if isinstance(error, FileExistsError):
        return "the branch has it already"
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return "is a symbolic link"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _named(paths: tuple[str, ...], between: str = ", ") -> str:
    more = f"{between}..." if len(paths) > _MOST_NAMED else ""
    return between.join(paths[:_MOST_NAMED]) + more
