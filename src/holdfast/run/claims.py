"""Names and keys: small files that lead to a run, locked only while one is being claimed.

A claim file is written in place, because the lock is on the file and not on its name. An empty
one leads nowhere: its writer died before a run was made.
"""

from __future__ import annotations

import os

from holdfast.run.atomic_files import sync_directory
from holdfast.run.locks import WAIT_SECONDS, HeldLock, wait_for_lock
from holdfast.run.names import check_name, is_id, valid_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    from holdfast.run.home import Home


class Claim:
    """A name or key that only this process can give to a run, until it is released."""

    def __init__(self, lock: HeldLock) -> None:
        self._lock = lock
        self._is_removed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def read(self) -> str | None:
        """The id of the latest run; None: there is none."""
        return _id_in(_text(os.pread(self._lock.fd, 64, 0)))

    def write(self, run_id: str, *, sync: bool = False) -> None:
        """Let it lead to this run. `sync`: that survives a power cut from here on."""
        data = f"{run_id}\n".encode()
        os.pwrite(self._lock.fd, data, 0)
        os.ftruncate(self._lock.fd, len(data))
        if sync:
            os.fsync(self._lock.fd)
            sync_directory(os.path.dirname(self._lock.path))

    def remove(self) -> None:
        """Forget it: the next that takes the lock makes a new file."""
        os.unlink(self._lock.path)
        self._is_removed = True

    def release(self) -> None:
        """Let others claim it. One that leads nowhere yet is forgotten: nothing was made."""
        try:
            if self._lock.is_held and not self._is_removed and self._is_empty():
                self.remove()
        except OSError:  # an empty one does no harm
            pass
        self._lock.release()

    def _is_empty(self) -> bool:
        return os.fstat(self._lock.fd).st_size == 0


def claim_name(home: Home, name: str, timeout_seconds: float = WAIT_SECONDS) -> Claim:
    """Wait for the name, and keep it. LockBusy when that takes too long."""
    return Claim(wait_for_lock(_name_path(home, name), timeout_seconds))


def claim_key(home: Home, key: str, timeout_seconds: float = WAIT_SECONDS) -> Claim:
    """Wait for the key, and keep it."""
    return Claim(wait_for_lock(_key_path(home, key), timeout_seconds))


def claim_given_id(home: Home, run_id: str, timeout_seconds: float = WAIT_SECONDS) -> Claim:
    """Wait for an id that another process has given to a run. It stays when the run is removed."""
    os.makedirs(home.started_path, mode=0o700, exist_ok=True)
    return Claim(wait_for_lock(f"{home.started_path}/{run_id}", timeout_seconds))


def was_given(home: Home, run_id: str) -> bool:
    """Whether a run was made under that id here, though it may be removed since."""
    return _id_in(_read(f"{home.started_path}/{run_id}")) == run_id


def read_name(home: Home, name: str) -> str | None:
    """What the name leads to, which need not be an id; None: it was never given to a run."""
    return _read(_name_path(home, name)) or None


def find_name(home: Home, run_id: str) -> str | None:
    """A name that leads to the run, in lower case; for one that can't say its own."""
    names = (name for name in home.names() if valid_name(name))
    return next((name for name in names if read_name(home, name) == run_id), None)


def _name_path(home: Home, name: str) -> str:
    return f"{home.names_path}/{check_name(name).lower()}"


def _key_path(home: Home, key: str) -> str:
    import hashlib

    digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
    return f"{home.keys_path}/{digest}"


def _read(path: str) -> str:
    try:
        with open(path, "rb", buffering=0) as file:
            return _text(file.read(64) or b"")
    except FileNotFoundError:
        return ""


def _text(data: bytes) -> str:
    return data.decode("ascii", "replace").removesuffix("\n")


def _id_in(text: str) -> str | None:
    return text if is_id(text) else None
