"""Which rows are shown: what was typed after `/`. Pure."""

from __future__ import annotations

from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.manage.words.views import Row

SYNTAX = "words, state:failed, agent:claude, node:n1, tag:key or tag:key=value; ! inverts one"


class RowFilter(Record):
    """What was typed, and the words that must all hold."""

    text: str = ""
    words: tuple[tuple[bool, str, str], ...] = ()  # whether it must hold, the field, the value

    @classmethod
    def of(cls, text: str) -> RowFilter:
        """Any text means something: what is no known field is looked for as it is."""
        return cls(text.strip(), tuple(map(_word, text.split())))

    def fits(self, row: Row) -> bool:
        """Whether every word holds."""
        return all(_FIELDS[field](row, value) is wanted for wanted, field, value in self.words)


def _word(typed: str) -> tuple[bool, str, str]:
    wanted = not (typed.startswith("!") and len(typed) > 1)
    rest = (typed if wanted else typed[1:]).lower()
    field, colon, value = rest.partition(":")
    if colon and value and field in _FIELDS:
        return wanted, field, value
    return wanted, "", rest


def _has_text(row: Row, text: str) -> bool:
    return text in row.name.lower() or text in row.note.lower() or row.id.startswith(text)


def _has_state(row: Row, word: str) -> bool:
    """A state, an outcome, or why it comes first: `state:attention`."""
    outcome = "" if row.outcome is None else row.outcome.value
    return any(
        name.startswith(word) for name in (row.state.value, outcome, row.urgency.value) if name
    )


def _has_agent(row: Row, word: str) -> bool:
    return row.agent is not None and row.agent.lower().startswith(word)


def _has_node(row: Row, word: str) -> bool:
    return bool(row.node) and row.node.lower().startswith(word)


def _has_tag(row: Row, word: str) -> bool:
    key, equals, value = word.partition("=")
    for name, has in row.tags.items():
        if name.lower() == key and (not equals or has.lower() == value):
            return True
    return False


_FIELDS: dict[str, Callable[[Row, str], bool]] = {
    "": _has_text,
    "state": _has_state,
    "agent": _has_agent,
    "node": _has_node,
    "tag": _has_tag,
}
