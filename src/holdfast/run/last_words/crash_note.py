"""The last words of a shim that failed: `crash.txt`, for a fault that no event can tell of.

Loaded only when something failed, or when somebody asks why a run has no shim. It needs no lock.
"""

from __future__ import annotations

import os

_LARGEST = 64 << 10
_LONGEST_REASON = 300


def leave_note(run_path: str, error: BaseException) -> None:
    """Write down what this process fails of. It must not fail once more."""
    try:
        import time

        from holdfast.tracebacks import traceback_text

        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        told = traceback_text(error)
        text = f"{at} shim {os.getpid()} failed\n{told}".encode(errors="backslashreplace")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(_path(run_path), flags, 0o600)
        try:
            os.write(fd, text[-_LARGEST:])
        finally:
            os.close(fd)
    except Exception:  # noqa: BLE001 - the directory is gone, or the disk is full
        return


def read_reason(run_path: str) -> str | None:
    """What the latest note says in its last line; None: there is none."""
    try:
        with open(_path(run_path), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _LARGEST))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return None
    said = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return said[:_LONGEST_REASON] or None


def _path(run_path: str) -> str:
    return f"{run_path}/crash.txt"
