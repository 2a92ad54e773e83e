"""The file of the index: what an error of SQLite's says about it, and how to remove it."""

from __future__ import annotations

from holdfast.run.atomic_files import remove_file

_DAMAGE = (
    *("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR", "SQLITE_SCHEMA"),
    "SQLITE_CONSTRAINT",  # a row in one table that the others know nothing of
)


def is_busy(error: Exception) -> bool:
    """Somebody else writes it: no fault of the file's."""
    return getattr(error, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def is_damaged(error: Exception) -> bool:
    """It has to be made anew."""
    name = getattr(error, "sqlite_errorname", "")
    return name.startswith(_DAMAGE)


def remove_index(path: str) -> None:
    """With what SQLite keeps beside it."""
    for suffix in ("", "-journal", "-wal", "-shm"):
        remove_file(path + suffix)
