"""Which runs a command is about: the ones that are named, or those that a selector finds."""

from __future__ import annotations

from holdfast.errors import HoldfastError, InvalidOption, RunNotFound, WrongUse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Iterator

    from holdfast.cli.parser import Parser
    from holdfast.manage.info import RunInfo
    from holdfast.manage.runs import Run, Runs
    from holdfast.run.home import Home

_OPTIONS = ("tag", "state", "outcome", "agent", "since")


def add_selectors(parser: Parser, every: str = "all of them", *, since: bool = True) -> None:
    """`--tag --state --outcome --agent --since --all`, for commands that take many runs.

    `since=False`: the command means something else by `--since`, and takes it out of `args`.
    """
    from holdfast.run.facts import State
    from holdfast.run.outcomes import Outcome

    group = parser.add_argument_group("selectors")
    group.add_argument("--tag", metavar="K=V", action="append", help="with this tag; K: any value")
    states, outcomes = [state.value for state in State], [outcome.value for outcome in Outcome]
    group.add_argument("--state", metavar="S", choices=states, help=", ".join(states))
    group.add_argument("--outcome", metavar="O", choices=outcomes, help=", ".join(outcomes))
    group.add_argument("--agent", metavar="A", help="of this agent")
    if since:
        group.add_argument("--since", metavar="D", help="active, or ended within this time")
    group.add_argument("--all", action="store_true", help=every)


def has_selector(args: Namespace) -> bool:
    """Whether any selector was given."""
    return args.all or any(getattr(args, name) is not None for name in _OPTIONS)


def chosen_runs(args: Namespace, runs: Runs) -> list[Run]:
    """The runs that were named, in that order, or selected; raises when one can't be found."""
    chosen = []
    for _, found in choose(args, runs):
        if isinstance(found, HoldfastError):
            raise found
        chosen.append(found)
    return chosen


def choose(args: Namespace, runs: Runs) -> list[tuple[str, Run | HoldfastError]]:
    """What was named, and its run or why it can't be had; else the selected ones, oldest first.

    A selector that says nothing about how a run stands means the active ones.
    """
    if args.run and has_selector(args):
        raise WrongUse("name runs or use selectors, not both", hint="leave one of them out")
    if not args.run and not has_selector(args):
        raise WrongUse("which run?", hint="a name, an id, or a selector such as --tag K=V or --all")
    if args.run:
        return _named(args.run, runs)
    only_active = args.state is None and args.outcome is None
    found = select(args, runs.home, active=True if only_active else None)
    return [(info.name or info.id, run) for info, run in still_there(reversed(found), runs)]


def still_there(found: Iterable[RunInfo], runs: Runs) -> Iterator[tuple[RunInfo, Run]]:
    """The runs that a selector found, less those that were removed since."""
    for info in found:
        try:
            yield info, runs.get(info.id)
        except RunNotFound:
            continue


def _named(references: list[str], runs: Runs) -> list[tuple[str, Run | HoldfastError]]:
    named: dict[str, tuple[str, Run | HoldfastError]] = {}
    for reference in references:
        try:
            run = runs.get(reference)
            named.setdefault(run.id, (reference, run))
        except HoldfastError as error:
            named.setdefault(reference, (reference, error))
    return list(named.values())


def select(
    args: Namespace, home: Home, *, active: bool | None, closely: bool = True
) -> list[RunInfo]:
    """The runs that the selectors find, newest first. `closely`: see `read_run`."""
    from holdfast.manage.listing import list_runs

    wanted = dict(_tag(text) for text in args.tag or ())
    found = list_runs(
        home,
        active=active,
        outcome=args.outcome,
        tags={name: value for name, value in wanted.items() if value is not None},
        since=_since(args.since),
        limit=None,
        state=args.state,
        agent=args.agent,
        closely=closely,
    )
    return [info for info in found if all(name in info.tags for name in wanted)]


def _tag(text: str) -> tuple[str, str | None]:
    name, equals, value = text.partition("=")
    if not name:
        raise InvalidOption(f"--tag: {text!r} is not K=V", option="tag", value=text)
    return name, value if equals else None


def _since(text: str | None) -> float | None:
    import time

    from holdfast.run.quantities import parse_duration

    return None if text is None else time.time() - parse_duration(text, "--since")
