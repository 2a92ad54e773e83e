"""How much memory a run of a queue is to find free: as asked for, or learned from earlier runs.

Worked out at submission, and kept in the spec with where it comes from. What is learned is never
more than could be given if nothing else ran: a run that leaked once holds nobody up for ever.
"""

from __future__ import annotations

from itertools import islice

from holdfast.errors import Refused, argument
from holdfast.manage.listing import select_runs
from holdfast.manage.queueing.values import OFF
from holdfast.manage.selection import Selection
from holdfast.process.memory import memory_bounds, own_groups
from holdfast.run.queueing.disk import AUTO
from holdfast.run.units import size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from holdfast.run.home import Home

    Json = dict[str, Any]

_RUNS = 10  # that are learned from


class NeedFinder:
    """Finds the need of one run that is submitted to a queue."""

    def __init__(
        self,
        home: Home,
        *,
        queue: str,
        name: str,
        agent: str | None,
        notice: Callable[[str], None],
    ) -> None:
        self._home = home
        self._queue = queue
        self._name = name
        self._agent = agent
        self._notice = notice

    def find(self, asked: int | str, by: str) -> Json:
        """What the spec keeps of it; `by`: the run, or its queue. Refused: it can never be given.

        `bytes` None: nothing is known that it would have to find free.
        """
        if asked == AUTO:
            return {"asked": AUTO, "by": by, **self._learned()}
        self._refuse_too_much(int(asked), by)
        told = "asked for" if by == "run" else f"set for queue {self._queue}"
        return {"asked": asked, "by": by, "bytes": asked, "from": told}

    def _refuse_too_much(self, need: int, by: str) -> None:
        bounds = memory_bounds(own_groups())
        if need <= bounds.most_bytes:
            return
        tightest = bounds.tightest
        floor, total = size(tightest.floor_bytes), size(tightest.total_bytes)
        given = argument("needs_memory", size(need))
        raise Refused(
            f"{given if by == 'run' else f'queue {self._queue} is set to {given}'}:"
            f" at most {size(bounds.most_bytes)} can ever be free here: {total} less a floor"
            f" of {floor}",
            hint=f"ask for less, or {argument('needs_memory', OFF)}",
        )

    def _learned(self) -> Json:
        groups = [(Selection.of(name=self._name), f"named {self._name}")]
        if self._agent is not None:
            groups.append((Selection.of(agent=self._agent), f"of {self._agent}"))
        for selection, told in groups:
            peaks = self._peaks(selection)
            if peaks:
                return self._need_from(peaks, told)
        looked_for = " or ".join(told for _, told in groups)
        why = f"no run {looked_for} was measured before"
        self._notice(f"it does not wait for memory: {why}")
        return {"bytes": None, "from": why}

    def _peaks(self, selection: Selection) -> list[int]:
        """Of the last runs that were measured, the newest first."""
        selection = selection.replace(active=False)
        found = select_runs(self._home, selection, closely=False)
        peaks = ((info.usage or {}).get("peak_rss_bytes") for info in found)
        return list(islice((int(peak) for peak in peaks if peak), _RUNS))

    def _need_from(self, peaks: Sequence[int], told: str) -> Json:
        learned, most = percentile(peaks), memory_bounds(own_groups()).most_bytes
        count = f"{len(peaks)} runs" if len(peaks) > 1 else "1 run"
        where = f"learned from {count} {told}"
        if learned > most:
            where += f", which took {size(learned)}: more than can ever be free"
        need = min(learned, most)
        self._notice(f"it needs {size(need)}: {where}")
        return {"bytes": need or None, "from": where}


def percentile(peaks: Sequence[int]) -> int:
    """The 90th, the lower of two where it lies between them: one leak alone does not decide."""
    return sorted(peaks)[int(0.9 * (len(peaks) - 1))]
