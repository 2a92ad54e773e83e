"""The report of a run on another machine: made there, shown here."""

from __future__ import annotations

from holdfast.fleet.reaching import ask, ask_json
from holdfast.fleet.session import error_of
from holdfast.manage.operations import run_steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.fleet.library import Fleet
    from holdfast.fleet.placement import Placement


class RemoteReport:
    """What a run used over time: the figures, and the same as text, Markdown or a page."""

    def __init__(self, fleet: Fleet, placement: Placement) -> None:
        self._fleet = fleet
        self._placement = placement

    def to_json(self) -> dict[str, Any]:
        """The figures, under the names of the report's JSON."""
        words = ["report", self._placement.id]
        document: dict[str, Any] = run_steps(ask_json(self._fleet, self._placement, words)).document
        return document

    def text(self, *, plot: bool = False) -> str:
        """For a terminal."""
        return self._rendered(*(["--plot"] if plot else []))

    def markdown(self, *, plot: bool = False) -> str:
        """To paste, secrets replaced."""
        return self._rendered("--markdown", *(["--plot"] if plot else []))

    def html(self) -> str:
        """One page that needs nothing else."""
        return self._rendered("--html", "-")

    def _rendered(self, *flags: str) -> str:
        words = ["report", self._placement.id, *flags]
        reply = run_steps(ask(self._fleet, self._placement, words))
        if reply.code:
            raise error_of({"code": "", "message": reply.errors, "exit_code": reply.code})
        text: str = reply.output.decode("utf-8", "replace")
        return text
