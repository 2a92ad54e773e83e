"""Brings the facts of a node into the database: of this home, or pulled from a node over its link.

The database says how far it has them; from there they are read, and stored batch by batch. Who is
killed at any moment leaves whole batches. To follow goes on when the database, or the node, is
back.
"""

from __future__ import annotations

from holdfast.errors import NoAnswer, OtherNode, Unavailable, WrongUse
from holdfast.fleet.export.batches import FactBatch
from holdfast.fleet.export.reading import LOOK_SECONDS, FactReader
from holdfast.fleet.node import node_facts
from holdfast.fleet.placer import NodeCall
from holdfast.fleet.reaching import any_node, open_channel
from holdfast.fleet.remote_output import AGAIN_SECONDS, LONGEST_AGAIN_SECONDS
from holdfast.fleet.session import error_of
from holdfast.fleet.settings import HOME, target_of
from holdfast.lean import read_json
from holdfast.manage.operations import Wait
from holdfast.process.clock import boottime
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from holdfast.fleet.channel import Channel
    from holdfast.fleet.export.storing import StoredBatch
    from holdfast.fleet.library import Fleet
    from holdfast.fleet.placement import NodeFacts
    from holdfast.manage.operations import Steps

    class FactLedger(Protocol):
        """A ledger that facts can be stored in."""

        def cursor_of(self, node: str) -> str | None: ...
        def store(self, node: NodeFacts, batch: FactBatch, after: str | None) -> StoredBatch: ...

    class FactSource(Protocol):
        """What gives the facts of a node in batches."""

        def next_batch(self) -> Steps[FactBatch | None]: ...


_SILENT_SECONDS = LOOK_SECONDS * 3  # of a node that is followed: it looks at its runs more often


class ExportedBatch(Record):
    """What was brought at once, and what became of it."""

    where: str | None  # None: this home
    node: NodeFacts
    batch: FactBatch
    stored: StoredBatch


class Exporter:
    """One node's facts into the ledger's database. `where`: pulled from there; None: this home."""

    def __init__(
        self,
        fleet: Fleet,
        where: str | None,
        told: Callable[[ExportedBatch], None],
        *,
        follow: bool,
    ) -> None:
        self._fleet = fleet
        self._where = where
        self._told = told
        self._follow = follow
        self._ledger = _fact_ledger(fleet)
        self._fault = ""  # why nothing is stored now
        if where is not None:
            _refuse_any_node(fleet, where)

    def steps(self) -> Steps[None]:
        """Until all is stored; to follow never ends."""
        pause = AGAIN_SECONDS
        while True:
            try:
                if (yield from self._once()):
                    return
            except (NoAnswer, OtherNode) as error:
                if not self._follow:
                    raise
                if not self._fault:
                    pause = AGAIN_SECONDS
                if error.message != self._fault:
                    self._fleet.runs._notice(f"{error.message}; going on when it is back")
                self._fault = error.message
                yield Wait((), pause)
                pause = min(pause * 2, LONGEST_AGAIN_SECONDS)

    def _once(self) -> Steps[bool]:
        """False: another exporter was at it, and how far is to be asked again."""
        if self._where is None:
            home = self._fleet.runs.home
            home.prepare()
            facts = node_facts(home, make=True)
            cursor = self._ledger.cursor_of(facts.node)
            with FactReader(self._fleet.runs, cursor, follow=self._follow) as reader:
                return (yield from self._store_all(facts, reader, cursor))
        facts = yield from self._hello(self._where)
        cursor = self._ledger.cursor_of(facts.node)
        channel = yield from self._open(self._where, facts.node, cursor)
        with channel:
            source = _PulledFacts(channel, self._where)
            return (yield from self._store_all(facts, source, cursor))

    def _store_all(self, facts: NodeFacts, source: FactSource, after: str | None) -> Steps[bool]:
        while (batch := (yield from source.next_batch())) is not None:
            stored = self._ledger.store(facts, batch, after)
            if stored.is_behind:
                return False
            self._fault = ""
            after = batch.cursor or after
            self._told(ExportedBatch(self._where, facts, batch, stored))
        return True

    def _hello(self, where: str) -> Steps[NodeFacts]:
        """Which node answers there: how far its facts are stored depends on that."""
        channel = yield from self._reach(where, None, ["--version"])
        with channel:
            facts = channel.facts
            assert facts is not None
            while (yield from channel.read(boottime() + _SILENT_SECONDS)) is not None:
                pass
        if not facts.node:
            raise Unavailable(
                f"{where} has started no run yet: it has no facts",
                hint=f"holdfast run --on {where} ...",
            )
        return facts

    def _open(self, where: str, node: str, cursor: str | None) -> Steps[Channel]:
        words = ["fleet", "facts", *(["--follow"] if self._follow else [])]
        return (yield from self._reach(where, node, [*words, *([cursor] if cursor else [])]))

    def _reach(self, where: str, node: str | None, words: list[str]) -> Steps[Channel]:
        engine = target_of(where, self._fleet.settings).kind
        asked = any_node(where, engine).replace(node=node)
        return (yield from open_channel(self._fleet, asked, NodeCall(tuple(words))))


class _PulledFacts:
    """Batches as a node's `fleet facts` prints them: one in each line."""

    def __init__(self, channel: Channel, where: str) -> None:
        self._channel = channel
        self._where = where
        self._rest = b""

    def next_batch(self) -> Steps[FactBatch | None]:
        parts = [self._rest]
        while b"\n" not in parts[-1]:
            data = yield from self._channel.read(boottime() + _SILENT_SECONDS)
            if data is None:
                self._check_end()
                return None
            parts.append(data)
        line, _, self._rest = b"".join(parts).partition(b"\n")
        return FactBatch.from_json(_document(line))

    def _check_end(self) -> None:
        """It has ended; whatever came after the last line is none."""
        code = self._channel.exit_code
        if code:
            said = self._channel.errors or f"its facts can't be read there: exit code {code}"
            raise error_of({"code": "", "message": f"{self._where}: {said}", "exit_code": code})


def _document(line: bytes) -> Any:
    try:
        return read_json(line.decode())
    except (ValueError, RecursionError):
        return None  # which is no batch


def _fact_ledger(fleet: Fleet) -> FactLedger:
    """The ledger, which must be in PostgreSQL."""
    if fleet.settings.ledger == HOME:
        raise WrongUse(
            "fleet export needs a database, and the ledger is this home",
            hint=f'[fleet] ledger = "postgresql://HOST/DATABASE" in {fleet.settings.path}; without'
            " one, ls --fleet keeps what nodes said last",
        )
    ledger: Any = fleet.ledger
    found: FactLedger = ledger
    return found


def _refuse_any_node(fleet: Fleet, where: str) -> None:
    """Where the engine chooses, another node may answer each time."""
    target = target_of(where, fleet.settings)
    if target.kind == "slurm" or not target.name:
        more = f", or pull from {target.kind}:NODE" if target.kind == "ray" else ""
        raise WrongUse(
            f"{where} leads to any of its nodes, so their facts can't be pulled",
            hint=f"with the same ledger in their config, nodes of {target.kind} export by"
            f" themselves{more}",
        )
