"""The last figures of each run, as small as a few letters. Pure."""

from __future__ import annotations

from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.manage.words.views import Row

SPARKS = 6
_BARS = "▁▂▃▄▅▆▇█"


class Trends:
    """What was seen of active runs since the screen was opened."""

    def __init__(self) -> None:
        self._cpu: dict[str, deque[float]] = {}
        self._memory: dict[str, deque[float]] = {}

    def note(self, rows: Iterable[Row]) -> None:
        """The figures of rows that changed."""
        for row in rows:
            if not row.state.is_active:
                self.forget((row.id,))
                continue
            _add(self._cpu, row.id, row.figures.cpu_percent)
            _add(self._memory, row.id, row.figures.memory_bytes)

    def forget(self, ids: Iterable[str]) -> None:
        """They are over, or gone."""
        for run_id in ids:
            self._cpu.pop(run_id, None)
            self._memory.pop(run_id, None)

    def cpu(self, run_id: str) -> str:
        """Against a whole core, or more where it uses more."""
        return spark(self._cpu.get(run_id, ()), least_top=100.0)

    def memory(self, run_id: str) -> str:
        """Against its own highest value."""
        return spark(self._memory.get(run_id, ()))


def _add(known: dict[str, deque[float]], run_id: str, value: float | None) -> None:
    if value is not None:
        known.setdefault(run_id, deque(maxlen=SPARKS)).append(value)


def spark(values: Iterable[float], least_top: float = 0.0) -> str:
    """`▁▃█`: the newest is the last."""
    found = list(values)
    top = max([*found, least_top], default=0.0)
    if not top:
        return _BARS[0] * len(found)
    last = len(_BARS) - 1
    return "".join(_BARS[min(last, round(value / top * last))] for value in found)
