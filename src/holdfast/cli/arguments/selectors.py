"""The options that say which runs a command is about."""

from __future__ import annotations

import time

from holdfast.errors import InvalidOption, WrongUse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser
    from holdfast.manage.choosing import Chosen, GlobMeans
    from holdfast.manage.run import Run
    from holdfast.manage.runs import Runs
    from holdfast.manage.selection import Selection

RUNS = "names, ids or their beginnings, or quoted globs: 'train-*'"
_OPTIONS = ("tag", "state", "outcome", "agent", "since")


def add_selectors(parser: Parser, every: str = "all of them", *, since: bool = True) -> None:
    """`--tag --state --outcome --agent --since --all`, for commands that take many runs.

    `since=False`: the command means something else by `--since`, and takes it out of `args`.
    """
    from holdfast.run.facts import State
    from holdfast.run.outcomes import Outcome

    group = parser.add_argument_group("selectors (all must hold; of one given twice, either)")
    group.add_argument("--tag", metavar="K=V", action="append", help="with this tag; K: any value")
    states, outcomes = [state.value for state in State], [outcome.value for outcome in Outcome]
    group.add_argument(
        "--state",
        metavar="S",
        action="append",
        type=lambda word: _state(word, outcomes),
        choices=states,
        help=", ".join(states),
    )
    group.add_argument(
        "--outcome", metavar="O", action="append", choices=outcomes, help=", ".join(outcomes)
    )
    group.add_argument("--agent", metavar="A", action="append", help="of this agent")
    if since:
        group.add_argument("--since", metavar="D", help="active, or ended within this time")
    group.add_argument("--all", action="store_true", help=every)


def _state(word: str, outcomes: list[str]) -> str:
    if word in outcomes:
        hint = f"--outcome {word}"
        raise WrongUse(f"--state: {word} is how a run ended, an outcome", hint=hint)
    return word


def has_selector(args: Namespace) -> bool:
    """Whether any selector was given."""
    return args.all or is_narrowed(args)


def is_narrowed(args: Namespace) -> bool:
    """Whether any was given but `--all`."""
    return any(getattr(args, name) is not None for name in _OPTIONS)


def selection_of(args: Namespace) -> Selection:
    """The selectors, for the library."""
    from holdfast.manage.selection import Selection

    return Selection.of(
        state=args.state,
        outcome=args.outcome,
        agent=args.agent,
        tags=_tags(args.tag or []),
        since=_since(args.since),
    )


def choose(
    args: Namespace,
    runs: Runs,
    globs: GlobMeans,
    *,
    active: bool | None = True,
    but: str | None = None,
) -> list[Chosen]:
    """The runs that were named, in that order; else those that the selectors find, oldest first.

    Selectors alone that say nothing about how a run stands mean the active ones, the ended ones, or
    (None) both; those with the tag `but` are not meant, unless they are named.
    """
    from holdfast.manage.choosing import Choice, choose_named, choose_selected
    from holdfast.run.names import is_glob

    if has_selector(args) and not all(map(is_glob, args.run)):
        raise WrongUse("name runs or use selectors, not both", hint="leave one of them out")
    if not args.run and not has_selector(args):
        raise WrongUse("which run?", hint="a name, an id, or a selector such as --tag K=V or --all")
    selection = selection_of(args)
    if not args.run:
        return list(choose_selected(runs, selection.or_active(active), but=but))
    chosen = choose_named(runs, args.run, Choice(selection, globs, but))
    if len(chosen) == 1 and chosen[0].error is not None:
        raise chosen[0].error
    return chosen


def chosen_runs(args: Namespace, runs: Runs, *, active: bool | None = True) -> list[Run]:
    """The runs of `choose`, for commands that do all or nothing: raises if one can't be found."""
    from holdfast.manage.choosing import GlobMeans

    found = []
    for one in choose(args, runs, GlobMeans.LATEST, active=active):
        if one.error is not None:
            raise one.error
        assert one.run is not None
        found.append(one.run)
    return found


def _tags(texts: list[str]) -> dict[str, list[str] | None]:
    """Of one key given twice, either value will do; a key alone: any value."""
    tags: dict[str, list[str] | None] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name:
            raise InvalidOption(f"--tag: {text!r} is not K=V", option="tag", value=text)
        known = tags.setdefault(name, [])
        tags[name] = None if known is None or not equals else [*known, value]
    return tags


def _since(text: str | None) -> float | None:
    from holdfast.run.units import parse_duration

    return None if text is None else time.time() - parse_duration(text, "--since")
