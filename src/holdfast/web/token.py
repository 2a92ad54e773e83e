"""The token that every request for data needs: made once, kept in the home for its owner alone."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat

from holdfast.errors import UnsafeFile, WrongUse
from holdfast.run.atomic_files import atomic_write, sync_directory
from holdfast.shell_words import quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.run.home import Home

FEWEST_CHARACTERS = 16
_MOST_BYTES = 4096


def own_token(home: Home) -> str:
    """The home's token; made when there is none."""
    path = f"{home.path}/serve.token"
    try:
        return read_token(path)
    except FileNotFoundError:
        _make(path)
        return read_token(path)


def _make(path: str) -> None:
    """Unless another server has: of those that start at once all have the same one."""
    draft = f"{path}.{os.urandom(6).hex()}.draft"
    atomic_write(draft, f"{secrets.token_urlsafe(32)}\n".encode("ascii"), sync=True)
    try:
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        os.unlink(draft)
    sync_directory(os.path.dirname(path))


def read_token(path: str) -> str:
    """From a file that nobody else can read."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_uid not in (os.geteuid(), 0):
            raise UnsafeFile(f"{path} is not a plain file of your own", path=path)
        if status.st_mode & 0o077:
            raise UnsafeFile(
                f"others can read or change {path}", hint=f"chmod 600 {path}", path=path
            )
        token = os.read(fd, _MOST_BYTES).decode("ascii", "replace").strip()
    finally:
        os.close(fd)
    if len(token) < FEWEST_CHARACTERS or not all("!" <= one <= "~" for one in token):
        raise WrongUse(
            f"{path} has no token: {FEWEST_CHARACTERS} or more printable characters, no spaces",
            hint=how_to_make(path),
        )
    return token


def how_to_make(path: str) -> str:
    """A file with a token."""
    return f"(umask 077; head -c 24 /dev/urandom | base64 > {quote(path)})"
