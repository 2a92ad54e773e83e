"""Where a reader of events stands, as one line of text. Pure.

A cursor names the runs that are not done with, each with the last event that was given, and a
run up to which all others are done with. So it stays short, however long the history is.
"""

from __future__ import annotations

from holdfast.errors import InvalidOption, argument
from holdfast.run.names import id_seconds, is_id

_VERSION = "e1"
# A launcher may take so long between making an id and its directory: until then a run with a
# smaller id than one that was given may still appear (test_events_of_a_slow_launcher).
SETTLE_SECONDS = 60


class CursorPosition:
    """Where one reader stands. `str(place)` is the cursor after all that was given."""

    def __init__(self, done_until: str = "", given: dict[str, int] | None = None) -> None:
        self._done_until = done_until
        self._given = dict(given or {})  # run id -> the last event of it that was given
        self._done: set[str] = set()

    @property
    def done_until(self) -> str:
        """All runs up to this one, but for those that were begun, are done with."""
        return self._done_until

    @property
    def begun(self) -> list[str]:
        """The runs of which something was given, and that are not forgotten."""
        return list(self._given)

    def begin(self, run_id: str) -> int | None:
        """The last event that was given of this run; None: all of it was."""
        if run_id not in self._given and run_id <= self._done_until:
            return None
        return self._given.setdefault(run_id, 0)

    def give(self, run_id: str, seq: int, *, is_last: bool) -> None:
        """This event is given; `is_last`: the run will have no more."""
        self._given[run_id] = max(self._given.get(run_id, 0), seq)
        if is_last:
            self._done.add(run_id)

    def forget(self, run_id: str) -> None:
        """The run was removed."""
        self._given.pop(run_id, None)
        self._done.discard(run_id)

    def settle(self, now: float, unread: str | None) -> None:
        """Forget runs that are done with. `unread`: the oldest run that was not read."""
        settled = [
            run_id
            for run_id, seq in self._given.items()
            if seq and id_seconds(run_id) <= now - SETTLE_SECONDS
            if unread is None or run_id < unread
        ]
        self.finish_until(max(settled, default=""))

    def finish_until(self, run_id: str) -> None:
        """From now on all runs up to this one, but for those that were begun, are done with."""
        self._done_until = max(self._done_until, run_id)
        for done in [one for one in self._done if one <= self._done_until]:
            self.forget(done)

    def __str__(self) -> str:
        given = ",".join(f"{run_id}-{seq}" for run_id, seq in sorted(self._given.items()))
        return f"{_VERSION}.{self._done_until}.{given}"


def parse_cursor(text: str) -> CursorPosition:
    """Read a cursor back. InvalidOption for anything that no event came with."""
    version, _, rest = text.partition(".")
    done_until, dot, given = rest.partition(".")
    if version != _VERSION or not dot or not (done_until == "" or is_id(done_until)):
        raise _unusable(text)
    return CursorPosition(done_until, dict(_pair(text, part) for part in given.split(",") if part))


def _pair(text: str, part: str) -> tuple[str, int]:
    run_id, dash, seq = part.partition("-")
    if not dash or not is_id(run_id) or not (seq.isascii() and seq.isdigit() and len(seq) < 17):
        raise _unusable(text)
    return run_id, int(seq)


def _unusable(text: str) -> InvalidOption:
    shown = text if len(text) <= 60 else f"{text[:57]}..."
    return InvalidOption(
        f"{argument('since')}: {shown!r} is not a cursor",
        hint="use the cursor of the last event that you have, or `now`",
        option="since",
        value=text,
        expected="a cursor",
    )
