"""The runs that `rm` and `archive` act on, and the result of each, as text and as JSON."""

from __future__ import annotations

from holdfast.cli.arguments.selectors import choose
from holdfast.cli.text import streams
from holdfast.errors import HoldfastError, InvalidOption, RunNotFound, WrongUse
from holdfast.manage.changing.run_attempt import RunAttempt
from holdfast.manage.choosing import GlobMeans, with_older
from holdfast.manage.plaintext import printable
from holdfast.manage.removal.retention import KEEP_TAG
from holdfast.run.units import parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from holdfast.manage.run import Run
    from holdfast.manage.runs import Runs


class RemovalAttempt(RunAttempt):
    """One run to remove or archive, and the result."""

    def __init__(self, name: str, run: Run | None, error: HoldfastError | None = None) -> None:
        super().__init__(name, run, error)
        self.done: str | None = None
        self.was_signalled = False  # a stop did what it could
        self.facts: dict[str, Any] = {}

    def succeed(self, name: str | None, done: str, **facts: Any) -> None:
        """Note that it is done, and the sentence about it."""
        self.name, self.done, self.facts = name or self.name, done, facts

    @property
    def exit_code(self) -> int:
        return 0 if self.error is None else self.error.exit_code

    def to_json(self, verb: str) -> dict[str, Any]:
        """The run, whether it was removed, and why not."""
        error = None if self.error is None else self.error.to_json()["error"]
        run_id = None if self.run is None else self.run.id
        return {
            "id": run_id,
            "name": self.name,
            verb: self.error is None,
            **self.facts,
            "error": error,
        }


def runs_to_remove(args: Namespace, runs: Runs) -> list[RemovalAttempt]:
    """The named runs, or the selected ones; a selector alone means ended ones without `keep`."""
    older = getattr(args, "older", False)
    if older:
        _refuse_durations(args.run, runs)
    chosen = choose(args, runs, GlobMeans.EVERY, active=False, but=KEEP_TAG)
    if older:
        chosen = with_older(runs, chosen, also_active=args.stop, but=KEEP_TAG)
    return [RemovalAttempt(one.name, one.run, one.error) for one in chosen]


def _refuse_durations(words: list[str], runs: Runs) -> None:
    """`rm --older 1m 'hang-*'` would remove all that match: a time is `clean`'s to take."""
    for word in words:
        try:
            parse_duration(word)
            runs.get(word)
        except InvalidOption:  # no duration
            continue
        except RunNotFound:
            raise WrongUse(
                f"--older takes no time, and no run is named {word}; nothing was removed",
                hint=f"holdfast clean --older-than {word}",
            ) from None


def finish(attempts: list[RemovalAttempt], verb: str, args: Namespace) -> int:
    """Print each result; returns the exit code of the first that was refused."""
    if args.json:
        streams.say_json({"schema": 1, "runs": [one.to_json(verb) for one in attempts]})
    else:
        _show(attempts, verb, args.quiet)
    return next((one.exit_code for one in attempts if one.exit_code), 0)


def _show(attempts: list[RemovalAttempt], verb: str, quiet: bool) -> None:
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
