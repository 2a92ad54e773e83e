"""How a placed run stands, as seen from here. Pure: one table, the first row that fits decides.

Only the node's own record gives an ending. The engine's word is quoted and never believed; a node
that does not answer proves nothing. A person's word (`fleet give-up`) is named as such.
"""

from __future__ import annotations

from holdfast.lean import StrEnum
from holdfast.record import Record
from holdfast.run.events import Kind
from holdfast.run.facts import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.fleet.ledger import LastLook
    from holdfast.fleet.placement import EngineView, Placement


class NodeLook(StrEnum):
    """What asking the node led to."""

    ANSWERED = "answered"  # the bound node, with the run's document
    ABSENT = "absent"  # the bound node answers, and has no such run
    OTHER = "other"  # another node answers
    SILENT = "silent"  # nothing answers
    NOT_ASKED = "not asked"  # no node is known yet

    @property
    def is_reached(self) -> bool:
        """Whether nothing is wrong with the way to its node, as far as is known."""
        return self not in (NodeLook.SILENT, NodeLook.OTHER)


class VerdictSource(StrEnum):
    """Whose word a verdict is."""

    NODE = "node"  # its record, read now
    RECORD = "record"  # its record, as it was read before
    SEEN = "seen"  # its look at the processes, as it was told before; nobody has recorded an ending
    ENGINE = "engine"  # that it has not begun
    LEDGER = "ledger"  # that nothing was started
    DROPPED = "dropped"  # that it was never started, as the node's side or the engine said
    PERSON = "person"
    NOBODY = "nobody"


class Sight(Record):
    """All that is at hand about one placed run."""

    placement: Placement
    look: NodeLook
    why: str = ""  # of a node that does not answer: what failed
    engine: EngineView | None = None
    last: LastLook | None = None
    silent_since: str | None = None  # when the node last answered anything

    @property
    def last_state(self) -> State | None:
        """How the node saw it last; a word of a later version counts as unknown."""
        if self.last is None:
            return None
        word = self.last.run.get("state")
        return State(word) if word in tuple(State) else State.UNKNOWN

    @property
    def has_begun(self) -> bool:
        """Whether a look has shown it under way."""
        return self.last_state not in (None, State.QUEUED)

    @property
    def is_being_started(self) -> bool:
        """Whether the engine has begun with it, and no look has shown it under way."""
        return self.engine is not None and not self.engine.is_gone and not self.has_begun

    @property
    def has_recorded_end(self) -> bool:
        """Whether a look has shown an ending that its node had recorded: that does not change."""
        is_ended = self.last_state is State.ENDED
        return is_ended and self.last is not None and self.last.run.get("is_recorded") is True

    @property
    def has_seen_end(self) -> bool:
        """Whether its node has told that its processes are gone, and how that ended.

        A process that is proven gone does not come back: a node says so only where no restart is
        due. Who records it later may know more about how.
        """
        is_ended = self.last_state is State.ENDED
        return is_ended and self.last is not None and self.last.run.get("outcome") is not None

    @property
    def end_was_exported(self) -> bool:
        """Whether its node has exported the ending, whoever else has seen it."""
        fact = None if self.last is None else self.last.fact
        return self.has_recorded_end and fact is not None and fact.kind == Kind.ENDED


class RemoteVerdict(Record):
    """How it stands, on whose word, and why."""

    state: State
    source: VerdictSource
    evidence: str


def judge(sight: Sight) -> RemoteVerdict:
    """The first row of the table that fits."""
    for fits, state, source, say in _TABLE:
        if fits(sight):
            return RemoteVerdict(state(sight), source, say(sight))
    raise AssertionError("the last row fits everything")


def _of_the_node(sight: Sight) -> State:
    return sight.last_state or State.UNKNOWN


def _always(state: State) -> Callable[[Sight], State]:
    return lambda _: state


# What each row says


def _say_answer(sight: Sight) -> str:
    return str((sight.last.run if sight.last else {}).get("evidence") or "")


def _say_recorded(sight: Sight) -> str:
    at = sight.last.at if sight.last else ""
    now = {
        NodeLook.ABSENT: "it was removed there since",
        NodeLook.OTHER: "the node that answers there now is another one",
        NodeLook.SILENT: "it does not answer now",
    }.get(sight.look, "")
    how = "exported" if sight.end_was_exported else "seen"
    said = f"recorded by {sight.placement.where}, {how} at {at}"
    return "; ".join(filter(None, (said, now, _quote(sight), _conflict(sight))))


def _say_seen(sight: Sight) -> str:
    where, at = sight.placement.where, sight.last.at if sight.last else ""
    said = f"{_say_answer(sight)}; so {where} said at {at}"
    return f"{said}; {_say_unknown(sight)}"


def _say_given_up(sight: Sight) -> str:
    word = sight.placement.given_up or {}
    reason = f": {word['reason']}" if word.get("reason") else ""
    said = f"given up by {word.get('by')} at {word.get('at')}, as their assertion{reason}"
    return f"{said}; {_say_unknown(sight)}"


def _say_dropped(sight: Sight) -> str:
    word = sight.placement.dropped or {}
    return f"it was not started: {word.get('says')}, at {word.get('at')}"


def _say_unbound(sight: Sight) -> str:
    return "; ".join(filter(None, ("nothing is reserved for it, and nothing runs", _quote(sight))))


def _say_waiting(sight: Sight) -> str:
    return _quote(sight)


def _say_being_started(sight: Sight) -> str:
    return f"{_quote(sight)}, and it is not started there yet"


def _say_not_started(sight: Sight) -> str:
    return f"{sight.placement.where} has not started it; holdfast fleet recover goes on with it"


def _say_unknown(sight: Sight) -> str:
    where = sight.placement.where
    since = f" since {sight.silent_since}" if sight.silent_since else ""
    why = f" ({sight.why})" if sight.why else ""
    said = {
        NodeLook.ABSENT: f"{where} has no record of it",
        NodeLook.OTHER: f"{where} answers as another node than it was bound to{why}",
        NodeLook.SILENT: f"{where} does not answer{since}{why}",
        NodeLook.NOT_ASKED: f"no node is known to have it{why}",
    }.get(sight.look, "")
    return "; ".join(filter(None, (said, _quote(sight), _last(sight), _conflict(sight))))


def _quote(sight: Sight) -> str:
    return "" if sight.engine is None else sight.engine.quoted()


def _last(sight: Sight) -> str:
    if sight.last is None:
        return "no fact of it is known"
    state, fact = sight.last.run.get("state"), sight.last.fact
    if fact is None:
        return f"last fact: {state} at {sight.last.at}"
    return f"last fact: {fact.seq} {fact.kind} at {fact.at}, then seen {state} at {sight.last.at}"


def _conflict(sight: Sight) -> str:
    fact = None if sight.last is None else sight.last.fact
    if fact is None or not fact.conflict:
        return ""
    return "facts that it exported differ from earlier ones: its home was restored from a copy"


_TABLE: tuple[
    tuple[Callable[[Sight], bool], Callable[[Sight], State], VerdictSource, Callable[[Sight], str]],
    ...,
] = (
    (lambda s: s.look is NodeLook.ANSWERED, _of_the_node, VerdictSource.NODE, _say_answer),
    (lambda s: s.has_recorded_end, _always(State.ENDED), VerdictSource.RECORD, _say_recorded),
    (
        lambda s: s.placement.dropped is not None,
        _always(State.ENDED),
        VerdictSource.DROPPED,
        _say_dropped,
    ),
    (
        lambda s: s.placement.given_up is not None,
        _always(State.ENDED),
        VerdictSource.PERSON,
        _say_given_up,
    ),
    (lambda s: s.has_seen_end, _always(State.ENDED), VerdictSource.SEEN, _say_seen),
    (
        lambda s: s.placement.reservation is None,
        _always(State.QUEUED),
        VerdictSource.LEDGER,
        _say_unbound,
    ),
    (
        lambda s: s.engine is not None and s.engine.is_waiting and not s.has_begun,
        _always(State.QUEUED),
        VerdictSource.ENGINE,
        _say_waiting,
    ),
    (
        lambda s: s.look is NodeLook.ABSENT and s.is_being_started,
        _always(State.QUEUED),
        VerdictSource.ENGINE,
        _say_being_started,
    ),
    (
        lambda s: s.look is NodeLook.ABSENT and s.placement.committed_at is None,
        _always(State.QUEUED),
        VerdictSource.LEDGER,
        _say_not_started,
    ),
    (lambda _: True, _always(State.UNKNOWN), VerdictSource.NOBODY, _say_unknown),
)
