"""The oldest runs, a few of them: a reader of events who wants no more need not list all.

Of a long history they come from the index, as long as `runs/` is proven to be as it was when each
run had its row or was noted (decision 141); else from the directory.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.run.home import Home

_MANY_BYTES = 80 << 20  # of an index: twenty thousand runs are listed while SQLite is loaded


def oldest_runs(home: Home, *, after: str, most: int) -> list[str]:
    """The first ids after that one, oldest first. Fewer than `most`: there are no others."""
    has_many = home.index_bytes() >= _MANY_BYTES
    found = _from_index(home, after, most) if has_many else None
    return home.oldest_ids(after, most) if found is None else found


def _from_index(home: Home, after: str, most: int) -> list[str] | None:
    """None: nothing proves that the index knows all runs."""
    from holdfast.manage.index import Index
    from holdfast.manage.reading.runs_stamp import RunsStamp

    stamp = RunsStamp.of(home)
    if stamp is None:
        return None
    with Index(home) as index:
        return index.oldest_listed(stamp, after, most)
