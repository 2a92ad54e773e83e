"""What an agent has used so far, from all that its records say. Pure.

Two counts of one thing: what the agent says when a turn or a step is over, and what its messages
add up to while a turn goes on (rules with `during`). A message that stdout and the transcript both
have is one message. Of the two counts the higher is told, since each can only lack something; but a
record at the end of a turn wins: should the messages come to more by then, they were counted
wrong, and so much is taken off from then on. An agent that goes on with a session may count on from
where that was: what its transcript said before is taken off, too.
"""

from __future__ import annotations

from holdfast.agents.arguments import continues_session
from holdfast.agents.facts import UsageRead
from holdfast.agents.json_lines import needles, number_at, total_at
from holdfast.agents.profile import value_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.agents.json_lines import JsonLine
    from holdfast.agents.profile import AgentProfile, Json, UsageRule

    Figure = float | int | None
    Figures = tuple[Figure, ...]  # tokens in, tokens out, cost in USD

STDOUT, TRANSCRIPT = "stdout", "transcript"
FINAL = "final"  # the source of what a record at the end of a turn says
MOST_MESSAGES = 20_000  # that are told apart; older ones are added up and forgotten
_NOTHING: Figures = (None, None, None)


class UsageMeter:
    """One attempt of an agent; `arguments` are its own words of the command."""

    def __init__(self, profile: AgentProfile, arguments: Sequence[str] = ()) -> None:
        resumed = continues_session(profile.options, arguments)
        rules = [rule for rule in profile.usage if not (rule.whole_session and resumed)]
        transcript = profile.transcript
        self._rules = {STDOUT: rules, TRANSCRIPT: list(transcript.usage if transcript else ())}
        self._before_rules = transcript.before if transcript else ()
        self._said: dict[int, Figures] = {}  # at the end of turns and steps, by rule
        self._messages: dict[int, Figures] = {}
        self._messages_sum = _NOTHING
        self._excess = _NOTHING  # of the messages, over what was said at the end of a turn
        self._before = _NOTHING  # of the session, when this process began
        self._source = STDOUT  # of the latest message

    def take(self, line: JsonLine, source: str) -> list[UsageRead]:
        """The totals with this line; none if it says nothing about them."""
        found = False
        for rule in self._rules[source]:
            for record in line.seen_by(rule.when):
                figures = _figures(rule, record)
                if figures != _NOTHING:
                    found = True
                    self._add(rule, record, figures, source)
        return [self.total()] if found else []

    def begin_after(self, lines: Iterable[JsonLine]) -> None:
        """The latest of an older session's totals, which this process may count on from."""
        needed = needles(rule.when for rule in self._before_rules)
        for line in lines:
            for rule in self._before_rules if line.may_hold(needed) else ():
                for record in line.seen_by(rule.when):
                    self._before = _figures(rule, record)
                    return

    def total(self) -> UsageRead:
        """All that is known so far; None is unknown."""
        final, live = self._final(), _each(_left, self._messages_sum, self._excess)
        is_final = bool(self._said) and _tokens(final) >= _tokens(live)
        tokens_in, tokens_out, cost = _each(_higher, final, live)
        return UsageRead(_whole(tokens_in), _whole(tokens_out), cost, self._source_of(is_final))

    def _source_of(self, is_final: bool) -> str:
        return FINAL if is_final else self._source

    def _add(self, rule: UsageRule, record: Json, figures: Figures, source: str) -> None:
        if rule.during:
            self._source = source
            self._add_message(rule, record, figures)
            return
        figures = _since(rule, figures, self._before)
        self._said[id(rule)] = _combined(rule, self._said.get(id(rule), _NOTHING), figures)
        self._excess = _each(_beyond, self._messages_sum, self._final())

    def _final(self) -> Figures:
        final = _NOTHING
        for figures in self._said.values():
            final = _each(_higher, final, figures)
        return final

    def _add_message(self, rule: UsageRule, record: Json, figures: Figures) -> None:
        named = value_at(record, rule.per) if rule.per else None
        # A number for each: the ids of a long run's messages would take a lot of room.
        key = hash(named) if isinstance(named, (str, int)) else id(rule)
        before = self._messages.get(key, _NOTHING)
        after = _each(_higher, before, figures) if rule.per else _combined(rule, before, figures)
        self._messages[key] = after
        self._messages_sum = _each(_added, self._messages_sum, _each(_grown, after, before))
        if len(self._messages) > MOST_MESSAGES:
            del self._messages[next(iter(self._messages))]


def _figures(rule: UsageRule, record: Json) -> Figures:
    cost = number_at(record, rule.cost_usd) if rule.cost_usd else None
    return total_at(record, rule.tokens_in), total_at(record, rule.tokens_out), cost


def _combined(rule: UsageRule, known: Figures, new: Figures) -> Figures:
    """By what the rule says: some agents tell totals, some tell parts."""
    hows = (rule.tokens, rule.tokens, rule.cost)
    return tuple(
        _added(before, after) if how == "sum" else before if after is None else after
        for how, before, after in zip(hows, known, new, strict=True)
    )


def _since(rule: UsageRule, said: Figures, before: Figures) -> Figures:
    """Totals without what was there before."""
    hows = (rule.tokens, rule.tokens, rule.cost)
    return tuple(
        _counted_on(after, earlier) if how == "last" else after
        for how, after, earlier in zip(hows, said, before, strict=True)
    )


def _counted_on(after: Figure, earlier: Figure) -> Figure:
    """What was added. A lower figure was counted from nothing, by a version that does that."""
    if after is None or earlier is None or after < earlier:
        return after
    return round(after - earlier, 12)  # of cost, the error of the binary fractions


def _each(combine: Combine, ones: Figures, others: Figures) -> Figures:
    return tuple(map(combine, ones, others))


def _higher(one: Figure, other: Figure) -> Figure:
    return max(_known((one, other)), default=None)


def _added(one: Figure, other: Figure) -> Figure:
    known = _known((one, other))
    return sum(known) if known else None


def _grown(after: Figure, before: Figure) -> Figure:
    return None if after is None else after - (before or 0)


def _beyond(one: Figure, other: Figure) -> Figure:
    """By how much it is more; None where the other is not known."""
    return None if one is None or other is None else max(0, one - other)


def _left(one: Figure, less: Figure) -> Figure:
    return None if one is None else max(0, one - (less or 0))


def _known(figures: Iterable[Figure]) -> list[float | int]:
    return [one for one in figures if one is not None]


def _tokens(figures: Figures) -> float:
    return sum(_known(figures[:2]))


def _whole(figure: Figure) -> int | None:
    return None if figure is None else int(figure)


if TYPE_CHECKING:
    from collections.abc import Callable

    Combine = Callable[[Figure, Figure], Figure]
