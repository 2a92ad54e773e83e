"""The live model in a thread of its own, and what it tells, in the thread of the screen."""

from __future__ import annotations

import threading
import time

from holdfast.errors import HoldfastError
from holdfast.manage.live import LiveChanges, LiveRuns
from holdfast.manage.operations import run_steps
from holdfast.tui.background import attempted, start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.manage.selection import Selection
    from holdfast.run.home import Home
    from holdfast.tui.background import Background

_BEAT_SECONDS = 2.0  # an answer at least so often: silence means that the disk does not answer
_SILENT_SECONDS = 6.0


class Feed:
    """Drives the model from `begin` to `end`. What it tells is given to `take`."""

    def __init__(
        self,
        home: Home,
        background: Background,
        take: Callable[[LiveChanges], None],
        *,
        selection: Selection | None = None,
        window: str | None = None,
        is_plain: bool = True,
    ) -> None:
        self._live = LiveRuns(home, selection, window=window, is_plain=is_plain)
        self._background = background
        self._take = take
        self._heard_at = time.monotonic()
        self._is_over = False
        self._untold: LiveChanges | None = None  # what the screen has not taken yet
        self._lock = threading.Lock()

    def begin(self) -> None:
        """From now on."""
        start(self._drive)

    def end(self) -> None:
        """No longer. Its thread may be held by the disk: nobody waits for it."""
        self._is_over = True
        self._live.wake()

    def open_output(self, run_id: str) -> None:
        """Tell when it grows."""
        self._live.open_output(run_id)

    def close_output(self, run_id: str) -> None:
        """Do not."""
        self._live.close_output(run_id)

    def look_again(self, run_id: str) -> None:
        """Something was done to it."""
        self._live.look_again(run_id)

    @property
    def silent_seconds(self) -> float | None:
        """For how long the disk has not answered; None: it does."""
        silent = time.monotonic() - self._heard_at
        return silent if silent > _SILENT_SECONDS else None

    def _drive(self) -> None:
        with self._live:
            while not self._is_over:
                told = attempted(lambda: run_steps(self._live.next_changes(_BEAT_SECONDS)))
                if isinstance(told, HoldfastError):
                    told = LiveChanges(trouble=told)
                    time.sleep(_BEAT_SECONDS)  # nothing tells when it can go on
                self._tell(told)

    def _tell(self, told: LiveChanges) -> None:
        """A screen that is away, or slow, gets all that changed meanwhile at once."""
        with self._lock:
            before, self._untold = self._untold, told
            if before is not None:
                self._untold = merged(before, told)
        if before is None:
            self._background.hand_over(self._hear)

    def _hear(self) -> None:
        with self._lock:
            told, self._untold = self._untold, None
        self._heard_at = time.monotonic()
        if told is not None and not self._is_over:
            self._take(told)


def merged(before: LiveChanges, after: LiveChanges) -> LiveChanges:
    """Two answers as one: of each run the last that was told."""
    gone = {*after.gone}
    rows = {row.id: row for row in (*before.rows, *after.rows) if row.id not in gone}
    back = {row.id for row in after.rows}
    return after.replace(
        rows=tuple(rows.values()),
        gone=tuple(dict.fromkeys((*(one for one in before.gone if one not in back), *after.gone))),
        grown=tuple(dict.fromkeys((*before.grown, *after.grown))),
    )
