"""Pausing runs, and letting them go on: asked of their shims, which do and record it."""

from __future__ import annotations

from holdfast.manage.changing.asking import ask_shim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.manage.operations import Steps
    from holdfast.run.directory import RunDirectory


def pause_run(directory: RunDirectory, *, verb: str = "pause") -> Steps[None]:
    """`pause` or `unpause`. Refused for a run that has ended, is not paused, or has used up its
    budget."""
    yield from ask_shim(directory, {"do": verb})
