"""The ledger in PostgreSQL: for several submitting machines. The only owner of psycopg.

A key and a binding are decided by the database, each in one short transaction. The tables are made
at the first use. A database that does not answer harms no run: only nothing new is placed. What
nodes export is stored here too, and is the last word of a node that does not answer.
"""

from __future__ import annotations

from holdfast.errors import DamagedRecord, HoldfastError, LaterVersion, NoAnswer, Unavailable
from holdfast.fleet.export import storing
from holdfast.fleet.ledger import (
    KnownNode,
    LastFact,
    LastLook,
    UnreadablePlacement,
    gone_from_ledger,
)
from holdfast.fleet.placement import NodeFacts, Placement
from holdfast.process.clock import wall_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from holdfast.fleet.export.batches import FactBatch
    from holdfast.fleet.placement import Reservation

    Json = dict[str, Any]
    Row = tuple[Any, ...]

_TABLES = ["holdfast_placement", "holdfast_node", "holdfast_look", *storing.TABLES]
_SCHEMA = f"""
create table if not exists holdfast_placement (
    id text primary key, key text unique, name text not null, is_over boolean not null,
    document jsonb not null, created_at timestamptz not null default now());
create index if not exists holdfast_placement_active on holdfast_placement (id) where not is_over;
create index if not exists holdfast_placement_name on holdfast_placement (lower(name));
create table if not exists holdfast_node (
    node text primary key, engine text not null, target text not null, facts jsonb not null,
    seen_at text not null);
create table if not exists holdfast_look (
    id text primary key references holdfast_placement on delete cascade,
    at text not null, run jsonb not null);
{storing.SCHEMA}"""
_HAS_ALL = "select bool_and(to_regclass(one) is not null) from unnest(%s::text[]) one"
_SCHEMA_LOCK = 0x686F6C64  # two that make the tables at once would fail
_CONNECTION = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "tcp_user_timeout": 10_000,  # or a cut cable hangs a submitter
    "application_name": "holdfast",
    # What hangs holds no lock for long.
    "options": "-c statement_timeout=10000 -c lock_timeout=10000"
    " -c idle_in_transaction_session_timeout=10000",
}
_ALL = "select document from holdfast_placement"
_UTC = "to_char({} at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
_RECALL = f"""
select l.at, l.run, r.last_seq, e.kind, {_UTC.format("coalesce(e.at, r.looked_at)")}, exists (
    select from holdfast_event c where c.node = r.node and c.run = r.run and c.conflict)
from holdfast_look l join holdfast_placement p using (id)
left join holdfast_run r on r.run = l.id and r.node = p.document->>'node'
left join holdfast_event e on e.node = r.node and e.run = r.run and e.seq = r.last_seq
where l.id = %s
"""


class PostgresLedger:
    """The ledger that several machines share."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: Any = None

    def intend(self, wanted: Placement) -> Placement:
        """Record it, unless its key has one already."""
        row = (wanted.id, wanted.key, wanted.name, _json(wanted.to_json()))
        made = self._do(
            "insert into holdfast_placement (id, key, name, is_over, document)"
            " values (%s, %s, %s, false, %s) on conflict (key) do nothing returning id",
            row,
        )
        if made:
            return wanted
        found = self._do(f"{_ALL} where key = %s", (wanted.key,))
        if not found:  # it was withdrawn between the two
            return self.intend(wanted)
        return Placement.from_json(found[0][0])

    def bind(self, placement_id: str, reservation: Reservation) -> Placement:
        """Name its reservation, if it has none."""

        def change(known: Placement) -> Placement:
            if known.reservation is not None:
                return known
            return known.replace(reservation=reservation.to_json(), bound_at=wall_clock())

        return self._change(placement_id, change)

    def note(self, placement_id: str, **facts: Any) -> Placement:
        """Record how far it came; one that a person gave up has no key any more."""
        return self._change(placement_id, lambda known: known.replace(**facts))

    def withdraw(self, placement_id: str, *, refused: bool = False) -> None:
        """Forget one that is not bound, or that its node has refused."""
        self._do(
            "delete from holdfast_placement where id = %s"
            " and (%s or document->'reservation' = 'null'::jsonb)",
            (placement_id, refused),
        )

    def forget(self, placement_id: str) -> None:
        """Its run was removed."""
        self._do("delete from holdfast_placement where id = %s", (placement_id,))

    def get(self, placement_id: str) -> Placement | None:
        """The placement of that id."""
        found = self._do(f"{_ALL} where id = %s", (placement_id,))
        return Placement.from_json(found[0][0]) if found else None

    def called(self, name: str) -> list[Placement]:
        """Those of that name that may be active, and its newest; the newest first."""
        found = self._readable("where lower(name) = lower(%s)", (name,))
        return [one for at, one in enumerate(found) if at == 0 or not one.is_over]

    def beginning(self, prefix: str) -> list[Placement]:
        """Those whose ids begin so; the newest first."""
        return self._readable("where starts_with(id, %s)", (prefix,))

    def every(self) -> Iterator[Placement | UnreadablePlacement]:
        """All of them, the newest first."""
        rows = self._do('select id, document from holdfast_placement order by id collate "C" desc')
        for placement_id, document in rows:
            try:
                yield Placement.from_json(document)
            except HoldfastError as error:
                yield UnreadablePlacement(placement_id, error.message)

    def active(self) -> list[Placement]:
        """Those of which no end is known; the newest first."""
        return self._readable("where not is_over")

    def unfinished(self) -> list[Placement]:
        """Those that no node has answered for; the oldest first."""
        return [one for one in reversed(self.active()) if one.may_be_lost]

    def see(self, facts: NodeFacts, engine: str, target: str) -> None:
        """A node has answered."""
        self._do(
            "insert into holdfast_node (node, engine, target, facts, seen_at)"
            " values (%s, %s, %s, %s, %s) on conflict (node) do update set engine ="
            " excluded.engine, target = excluded.target, facts = excluded.facts,"
            " seen_at = excluded.seen_at",
            (facts.node, engine, target, _json(facts.to_json()), wall_clock()),
        )

    def nodes(self) -> list[KnownNode]:
        """Every node that has answered or exported, by name."""
        rows = self._do(
            f"select facts, engine, target, seen_at, {_UTC.format('exported_at')}"
            " from holdfast_node left join holdfast_export using (node)"
        )
        found = [KnownNode(NodeFacts.from_json(facts), *rest) for facts, *rest in rows]
        return sorted(found, key=lambda one: (one.facts.hostname, one.facts.node))

    def remember(self, placement_id: str, run: Json) -> None:
        """What its node said of it; a recorded ending is not taken back."""
        self._do(
            "insert into holdfast_look as l (id, at, run)"
            " select id, %s, %s::jsonb from holdfast_placement where id = %s"
            " on conflict (id) do update set at = excluded.at, run = excluded.run"
            f" where {storing.LOOK_GIVES_WAY}",
            (wall_clock(), storing.document_text(run), placement_id),
        )

    def recall(self, placement_id: str) -> LastLook | None:
        """What its node said last, or exported."""
        found = self._do(_RECALL, (placement_id,))
        if not found:
            return None
        at, run, *fact = found[0]
        return LastLook(at, run, None if fact[0] is None else LastFact(*fact))

    def cursor_of(self, node: str) -> str | None:
        """How far the facts of that node are stored."""
        connection = self._connected()
        with _Asking(self), connection.transaction(), connection.cursor() as cursor:
            return storing.read_cursor(cursor, node)

    def store(self, node: NodeFacts, batch: FactBatch, after: str | None) -> storing.StoredBatch:
        """Facts, rows and cursor of a node in one transaction, if its cursor still is `after`."""
        connection = self._connected()
        with _Asking(self), connection.transaction(), connection.cursor() as cursor:
            return storing.store_batch(cursor, node, batch, after)

    def _change(self, placement_id: str, change: Any) -> Placement:
        """Read, change and write one, with nobody in between."""
        connection = self._connected()
        with _Asking(self), connection.transaction(), connection.cursor() as cursor:
            cursor.execute(f"{_ALL} where id = %s for update", (placement_id,))
            row = cursor.fetchone()
            if row is None:
                raise gone_from_ledger(placement_id)
            changed: Placement = change(Placement.from_json(row[0]))
            key = None if changed.given_up is not None else changed.key
            cursor.execute(
                "update holdfast_placement set document = %s, is_over = %s, key = %s where id = %s",
                (_json(changed.to_json()), changed.is_over, key, placement_id),
            )
        return changed

    def _readable(self, where: str, values: Sequence[Any] = ()) -> list[Placement]:
        found = []
        for (document,) in self._do(f'{_ALL} {where} order by id collate "C" desc', values):
            try:
                found.append(Placement.from_json(document))
            except (DamagedRecord, LaterVersion):  # `every` tells
                continue
        return found

    def _do(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        connection = self._connected()
        with _Asking(self), connection.transaction(), connection.cursor() as cursor:
            cursor.execute(statement, values)
            return list(cursor.fetchall()) if cursor.description else []

    def _connected(self) -> Any:
        """A connection, with the tables there; made anew when the last one broke."""
        if self._connection is None or self._connection.closed:
            psycopg = _psycopg()
            with _Asking(self):
                self._connection = psycopg.connect(self._url, autocommit=True, **_CONNECTION)
                if not self._connection.execute(_HAS_ALL, (_TABLES,)).fetchone()[0]:
                    self._make_tables()
        return self._connection

    def _make_tables(self) -> None:
        """Those that are missing: the database may be an earlier version's."""
        with self._connection.transaction():
            self._connection.execute("select pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
            self._connection.execute(_SCHEMA)

    def close(self) -> None:
        """Close the connection; it may be used again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class _Asking:
    """What psycopg raises inside is told as no answer of the ledger."""

    def __init__(self, ledger: PostgresLedger) -> None:
        self._ledger = ledger

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, _psycopg().Error):
            self._ledger.close()
            said = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise NoAnswer(
                f"the ledger in PostgreSQL does not answer: {said}",
                hint="runs are not harmed; try again once the database is back",
            ) from error


def _psycopg() -> Any:
    try:
        import psycopg
        import psycopg.types.json
    except ImportError:
        raise Unavailable(
            "a ledger in PostgreSQL needs psycopg, which is not installed",
            hint="pip install 'holdfast[postgres]'",
        ) from None
    return psycopg


def _json(document: Json) -> Any:
    return _psycopg().types.json.Jsonb(document)
