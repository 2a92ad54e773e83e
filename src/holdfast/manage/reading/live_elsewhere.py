"""Runs on other machines for a screen or a server, from the moment that there are any.

Until a run was placed elsewhere from this home, nothing of the fleet is loaded: one look for a
directory every two seconds. Then `holdfast.fleet` watches, in threads of its own.
"""

from __future__ import annotations

import threading

from holdfast.errors import HoldfastError
from holdfast.manage.live import LOOK_SECONDS, LiveChanges
from holdfast.manage.starting.elsewhere import fleet, has_shared_ledger, leads_elsewhere
from holdfast.run.units import parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.manage.runs import Runs
    from holdfast.manage.selection import Selection
    from holdfast.manage.starting.elsewhere import FleetSight, FleetWatcher


class LiveElsewhere:
    """Begins by itself; `take` is called in other threads with what changed."""

    def __init__(
        self,
        runs: Runs,
        take: Callable[[LiveChanges], None],
        selection: Selection | None = None,
        *,
        window: str | None = None,
        is_plain: bool = True,
    ) -> None:
        self._runs = runs
        self._take = take
        self._selection = selection
        self._window = None if window is None else parse_duration(window, "--since")
        self._is_plain = is_plain
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._watcher: FleetWatcher | None = None

    @property
    def is_any(self) -> bool:
        """Whether runs were placed elsewhere."""
        return self._watcher is not None

    def begin(self) -> None:
        """In a thread that nobody waits for."""
        threading.Thread(target=self._wait, name="holdfast-elsewhere", daemon=True).start()

    def end(self) -> None:
        """No longer."""
        with self._lock:
            self._over.set()
            watcher = self._watcher
        if watcher is not None:
            watcher.end()

    def look_again(self, run_id: str) -> None:
        """Something was done to it."""
        if self._watcher is not None:
            self._watcher.look_again(run_id)

    def sight(self, run_id: str) -> FleetSight | None:
        """How it was seen last; None: it is not known to be elsewhere."""
        return None if self._watcher is None else self._watcher.sight(run_id)

    def _wait(self) -> None:
        try:
            is_shared = has_shared_ledger()
        except HoldfastError as error:  # of the config: what is here is shown all the same
            self._take(LiveChanges(trouble=error))
            is_shared = False
        while not (is_shared or leads_elsewhere(self._runs.home)):
            if self._over.wait(LOOK_SECONDS):
                return
        library = fleet()
        with self._lock:
            if not self._over.is_set():
                self._watcher = library.watch(
                    self._runs,
                    self._take,
                    self._selection,
                    window=self._window,
                    is_plain=self._is_plain,
                )
