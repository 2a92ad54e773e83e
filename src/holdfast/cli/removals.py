"""Which runs `rm` and `archive` are about, and what became of each, as text and as JSON."""

from __future__ import annotations

from holdfast.cli import streams
from holdfast.cli.selectors import choose, has_selector, select, still_there
from holdfast.errors import HoldfastError, RunNotFound
from holdfast.manage.plaintext import printable
from holdfast.manage.retention import KEEP_TAG

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from holdfast.manage.runs import Run, Runs


class Attempt:
    """One run that was to go, and how that went."""

    def __init__(self, name: str, run: Run | None, error: HoldfastError | None = None) -> None:
        self.name = name
        self.run = run
        self.error = error
        self.done: str | None = None
        self.was_struck = False  # a stop did what it could
        self.facts: dict[str, Any] = {}

    @property
    def exit_code(self) -> int:
        return 0 if self.error is None else self.error.exit_code

    def to_json(self, verb: str) -> dict[str, Any]:
        """The run, whether it went, and why not."""
        error = None if self.error is None else self.error.to_json()["error"]
        run_id = None if self.run is None else self.run.id
        return {
            "id": run_id,
            "name": self.name,
            verb: self.error is None,
            **self.facts,
            "error": error,
        }


def runs_to_remove(args: Namespace, runs: Runs) -> list[Attempt]:
    """The named runs, or the selected ones; a selector alone means ended ones without `keep`."""
    if args.run or not has_selector(args):
        chosen = choose(args, runs)
        if len(chosen) == 1 and isinstance(chosen[0][1], HoldfastError):
            raise chosen[0][1]
        return [_attempt(name, found) for name, found in chosen]
    says_state = args.state is not None or args.outcome is not None
    found = select(args, runs.home, active=None if says_state else False)
    return [
        Attempt(info.name or info.id, run)
        for info, run in still_there(reversed(found), runs)
        if KEEP_TAG not in info.tags
    ]


def _attempt(name: str, found: Run | HoldfastError) -> Attempt:
    if isinstance(found, HoldfastError):
        return Attempt(name, None, found)
    try:
        return Attempt(found.info().name or name, found)
    except RunNotFound as error:  # somebody else was faster
        return Attempt(name, None, error)


def finish(attempts: list[Attempt], verb: str, args: Namespace) -> int:
    """Say what became of each; the exit code of the first that was refused."""
    if args.json:
        streams.say_json({"schema": 1, "runs": [one.to_json(verb) for one in attempts]})
    else:
        _show(attempts, verb, args.quiet)
    return next((one.exit_code for one in attempts if one.exit_code), 0)


def _show(attempts: list[Attempt], verb: str, quiet: bool) -> None:
    if not attempts and not quiet:
        streams.complain(f"nothing to be {verb}")
    room = max((len(one.name) for one in attempts), default=0)
    for one in attempts:
        if one.error is not None:
            streams.say(printable(f"{one.name:<{room}}  NOT {verb}: {one.error.message}"))
        elif not quiet:
            streams.say(printable(f"{one.name:<{room}}  {one.done}"))
    streams.flush()
    for hint in dict.fromkeys(one.error.hint for one in attempts if one.error is not None):
        if hint:
            streams.complain(f"hint: {hint}")
