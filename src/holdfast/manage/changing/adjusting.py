"""Other limits for a run that goes on: checked here, done and recorded by its shim."""

from __future__ import annotations

from holdfast.errors import InvalidOption, Refused, WrongUse, argument
from holdfast.manage.changing.asking import ask_shim
from holdfast.manage.starting.option_values import check_wanted
from holdfast.manage.starting.request import read_value
from holdfast.option_type import Option
from holdfast.options import OPTIONS, Wanted
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from holdfast.manage.operations import Steps
    from holdfast.run.directory import RunDirectory
    from holdfast.run.spec import RunSpec

    Json = dict[str, Any]


class Adjusted(Record):
    """Limits that were changed, by the option's name: before and after. None: no limit."""

    before: Json
    after: Json


def adjustable_options() -> list[Option]:
    """The options that can be changed while a run goes on."""
    return [option for option in OPTIONS.values() if option.adjustable]


def adjust_run(
    directory: RunDirectory, limits: Mapping[str, Any], *, asked_by: Sequence[str] = ()
) -> Steps[Adjusted]:
    """Change limits. None takes one away. Refused: it has ended, or is beyond the limit already;
    a budget also from inside the run.

    `asked_by`: tokens of the processes for which a server does it.
    """
    changes = _read(limits)

    def check(spec: RunSpec) -> None:
        _refuse_unheld(spec, changes)

    request = {"do": "adjust", "changes": changes, "asked_by": list(asked_by)}
    answer = yield from ask_shim(directory, request, check)
    before = answer.get("before") or {}
    named = {option.field: option.name for option in adjustable_options()}
    return Adjusted(_by_name(before.items(), named), _by_name(changes.items(), named))


def _by_name(values: Iterable[tuple[str, Any]], named: Mapping[str, str]) -> Json:
    return {named.get(field, field): value for field, value in values}


def _read(limits: Mapping[str, Any]) -> Json:
    """By field of `wanted`, checked as at a start."""
    known = {option.name: option for option in adjustable_options()}
    if not limits:
        raise WrongUse("adjust: nothing to change", hint=f"it can change {', '.join(known)}")
    changes: Json = {}
    for name, value in limits.items():
        option = known.get(name)
        if option is None:
            raise WrongUse(
                f"{argument(name)} can't be changed while a run goes on",
                hint=f"what can be: {', '.join(known)}",
            )
        if value is None and option.default is not None:
            raise InvalidOption(
                f"{argument(name)}: there is always one",
                option=name,
                value=None,
                expected="a value",
            )
        read = None if value is None else read_value(option, value, argument(name))
        changes[option.field] = read
    check_wanted(Wanted(**{field: value for field, value in changes.items() if value is not None}))
    return changes


def _refuse_unheld(spec: RunSpec, changes: Json) -> None:
    """Refused where a budget can't hold for what is running."""
    asked = {name: changes[name] for name in ("max_tokens", "max_cost_usd") if name in changes}
    cost = asked.get("max_cost_usd")
    own = _handed_over(spec) if "max_cost_usd" in asked else None
    if own is not None and (cost is None or cost > own):
        raise Refused(
            f"{argument('max_cost')}: its agent was started with a limit of its own of ${own:g},"
            " which can't be raised while it runs",
            hint=f"holdfast stop {spec.name}, then holdfast resume {spec.name}: another ${own:g}",
        )
    wanted = {name: value for name, value in asked.items() if value is not None}
    if wanted:
        from holdfast.manage.starting.added_words import AgentWords

        asked_for = spec.wanted.replace(**wanted)
        AgentWords.check_adjusted(spec.agent, spec.command, asked_for, wanted)


def _handed_over(spec: RunSpec) -> float | None:
    """What the agent itself was told to keep to."""
    added = spec.added or {}
    at = added.get("cost_at")
    return None if at is None else float(added["words"][at])
