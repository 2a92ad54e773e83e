"""The tables that nodes' facts are brought into, and the one transaction that a batch is.

Facts, rows of runs, looks and the node's cursor are stored together or not at all, and only if the
cursor still is where the reader began: so each fact is there once, whoever dies, and two exporters
of one node do not overtake each other. A row of `holdfast_run` is told to those that LISTEN.
"""

from __future__ import annotations

import re

from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.fleet.export.batches import ExportedEvent, FactBatch, RunLook
    from holdfast.fleet.placement import NodeFacts

    Json = dict[str, Any]

TABLES = ("holdfast_export", "holdfast_event", "holdfast_run")
SCHEMA = """
create table if not exists holdfast_export (
    node text primary key references holdfast_node, cursor text, exported_at timestamptz);
create table if not exists holdfast_event (
    node text not null references holdfast_node, run text not null, seq bigint not null,
    at timestamptz, boottime double precision, kind text not null, facts jsonb not null,
    digest bytea not null, conflict boolean not null default false,
    primary key (node, run, seq));
create index if not exists holdfast_event_conflict on holdfast_event (node, run) where conflict;
create table if not exists holdfast_run (
    node text not null references holdfast_node, run text not null, name text,
    last_seq bigint not null, started_at timestamptz, ended_at timestamptz, outcome text,
    exit_code integer, evidence text, looked_state text, looked_at timestamptz,
    primary key (node, run));
create index if not exists holdfast_run_id on holdfast_run (run);
create index if not exists holdfast_run_active on holdfast_run (node) where outcome is null;
create index if not exists holdfast_run_newest on holdfast_run (started_at desc);
create or replace function holdfast_tell() returns trigger language plpgsql as $$
begin
    if tg_op = 'INSERT' or (old.last_seq, old.looked_state) is distinct from
            (new.last_seq, new.looked_state) then
        perform pg_notify('holdfast', new.node || ' ' || new.run || ' ' || new.last_seq);
    end if;
    return null;
end $$;
drop trigger if exists holdfast_run_told on holdfast_run;
create trigger holdfast_run_told after insert or update on holdfast_run
    for each row execute function holdfast_tell();
"""
_DIFFERING = """
select e.run, e.seq from unnest(%s::text[], %s::bigint[], %s::bytea[]) g(run, seq, digest)
join holdfast_event e on e.node = %s and e.run = g.run and e.seq = g.seq
where e.digest <> g.digest and not e.conflict order by e.run, e.seq
"""
_FLAG = """
update holdfast_event e set conflict = true from unnest(%s::text[], %s::bigint[]) g(run, seq)
where e.node = %s and e.run = g.run and e.seq >= g.seq
"""
_ADD_EVENTS = """
insert into holdfast_event (node, run, seq, at, boottime, kind, facts, digest, conflict)
select %s, g.run, g.seq, g.at, g.boottime, g.kind, g.facts::jsonb, g.digest, exists (
    select from holdfast_event e where e.node = %s and e.run = g.run and e.conflict)
from unnest(%s::text[], %s::bigint[], %s::timestamptz[], %s::double precision[], %s::text[],
    %s::text[], %s::bytea[]) g(run, seq, at, boottime, kind, facts, digest)
on conflict do nothing returning run
"""
_PUT_RUNS = """
insert into holdfast_run as r (node, run, name, last_seq, started_at, ended_at, outcome, exit_code,
    evidence, looked_state, looked_at)
select %s, g.* from unnest(%s::text[], %s::text[], %s::bigint[], %s::timestamptz[],
    %s::timestamptz[], %s::text[], %s::integer[], %s::text[], %s::text[], %s::timestamptz[]) g
on conflict (node, run) do update set
    name = coalesce(excluded.name, r.name), last_seq = greatest(r.last_seq, excluded.last_seq),
    started_at = coalesce(excluded.started_at, r.started_at),
    ended_at = case when r.outcome is null then excluded.ended_at else r.ended_at end,
    exit_code = case when r.outcome is null then excluded.exit_code else r.exit_code end,
    evidence = case when r.outcome is null then excluded.evidence else r.evidence end,
    outcome = coalesce(r.outcome, excluded.outcome),
    looked_state = coalesce(excluded.looked_state, r.looked_state),
    looked_at = coalesce(excluded.looked_at, r.looked_at)
"""
_PUT_STATES = """
update holdfast_run r set looked_state = g.state, looked_at = g.at
from unnest(%s::text[], %s::text[], %s::timestamptz[]) g(run, state, at)
where r.node = %s and r.run = g.run
"""


def _is_ending(alias: str) -> str:
    return (
        f"coalesce({alias}.run->>'state' = 'ended'"
        f" and {alias}.run->'is_recorded' = 'true'::jsonb, false)"
    )


# The look `l` may give way to `excluded`: a recorded ending stands, also against another one.
LOOK_GIVES_WAY = f"""(not {_is_ending("l")} or ({_is_ending("excluded")}
    and excluded.run->'outcome' = l.run->'outcome'))"""


# Only a look of the node that the ledger names, or of the first where it names none.
_BOUND_HERE = (
    "coalesce(p.document->>'node', p.document->'reservation'->>'node', %(node)s) = %(node)s"
)
_PUT_LOOKS = f"""
insert into holdfast_look as l (id, at, run)
select p.id, g.at, g.run::jsonb
from unnest(%(ids)s::text[], %(ats)s::text[], %(runs)s::text[]) g(id, at, run)
join holdfast_placement p on p.id = g.id where {_BOUND_HERE}
on conflict (id) do update set at = excluded.at, run = excluded.run
where {LOOK_GIVES_WAY} and ({_is_ending("excluded")} or excluded.at >= l.at collate "C")
"""
_PUT_PLACEMENTS = f"""
update holdfast_placement p set is_over = p.is_over or g.ended_at is not null,
    document = p.document || jsonb_build_object(
        'node', coalesce(p.document->>'node', %(node)s),
        'node_name', coalesce(p.document->>'node_name', %(hostname)s),
        'ended_at', coalesce(p.document->>'ended_at', g.ended_at))
from unnest(%(ids)s::text[], %(ended)s::text[]) g(id, ended_at)
where p.id = g.id and {_BOUND_HERE} and (p.document->>'node' is null
    or (g.ended_at is not null and p.document->>'ended_at' is null))
"""


class StoredBatch(Record):
    """What became of a batch."""

    is_behind: bool = False  # another exporter was first: nothing was stored, read again
    added: tuple[str, ...] = ()  # of each fact that was not there before, its run
    conflicts: tuple[tuple[str, int], ...] = ()  # run and number of facts that differ now


def read_cursor(cursor: Any, node: str) -> str | None:
    """How far the node's facts are stored; None: none is."""
    cursor.execute("select cursor from holdfast_export where node = %s", (node,))
    row = cursor.fetchone()
    return None if row is None else row[0]


def store_batch(cursor: Any, node: NodeFacts, batch: FactBatch, after: str | None) -> StoredBatch:
    """Inside a transaction: all of it, if the node's facts are stored up to `after`."""
    _put_node(cursor, node)
    cursor.execute("select cursor from holdfast_export where node = %s for update", (node.node,))
    if cursor.fetchone()[0] != after:
        return StoredBatch(is_behind=True)
    conflicts, added = _put_events(cursor, node.node, batch.events) if batch.events else ((), ())
    _put_runs(cursor, node.node, batch)
    _put_placed(cursor, node, [look for look in batch.looks if look.is_placed])
    cursor.execute(
        "update holdfast_export set cursor = coalesce(%s, cursor), exported_at = now()"
        " where node = %s",
        (batch.cursor, node.node),
    )
    return StoredBatch(added=added, conflicts=conflicts)


def _put_node(cursor: Any, node: NodeFacts) -> None:
    """One that no submitter has reached is known by its own facts."""
    cursor.execute("select facts from holdfast_node where node = %s", (node.node,))
    known = cursor.fetchone()
    facts = document_text(node.to_json())
    if known is None:
        cursor.execute(
            "insert into holdfast_node (node, engine, target, facts, seen_at) values (%s, '', '',"
            " %s::jsonb, to_char(now() at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'))"
            " on conflict do nothing",
            (node.node, facts),
        )
    elif known[0] != node.to_json():
        cursor.execute(
            "update holdfast_node set facts = %s::jsonb where node = %s", (facts, node.node)
        )
    cursor.execute(
        "insert into holdfast_export (node) values (%s) on conflict do nothing", (node.node,)
    )


def _put_events(
    cursor: Any, node: str, events: tuple[ExportedEvent, ...]
) -> tuple[tuple[tuple[str, int], ...], tuple[str, ...]]:
    """Which differ from those that are there, and the runs of those that were not there."""
    runs, numbers = [one.run for one in events], [one.seq for one in events]
    digests = [one.digest for one in events]
    cursor.execute(_DIFFERING, (runs, numbers, digests, node))
    conflicts = tuple((run, seq) for run, seq in cursor.fetchall())
    if conflicts:  # and what is of the same past
        first = dict(reversed(conflicts))
        cursor.execute(_FLAG, (list(first), list(first.values()), node))
    columns = (
        runs,
        numbers,
        [time_text(one.at) for one in events],
        [one.boottime for one in events],
        [clean(one.kind) for one in events],
        [document_text(one.facts) for one in events],
        digests,
    )
    cursor.execute(_ADD_EVENTS, (node, node, *columns))
    return conflicts, tuple(run for (run,) in cursor.fetchall())


def _put_runs(cursor: Any, node: str, batch: FactBatch) -> None:
    looks = {look.run: look for look in batch.looks}
    latest: dict[str, ExportedEvent] = {}
    endings: dict[str, ExportedEvent] = {}
    for one in batch.events:
        if one.run not in latest or one.seq > latest[one.run].seq:
            latest[one.run] = one
        if one.kind == "ended":
            endings.setdefault(one.run, one)
    rows = [_run_row(one, endings.get(run), looks.get(run)) for run, one in latest.items()]
    if rows:
        cursor.execute(_PUT_RUNS, (node, *map(list, zip(*rows, strict=True))))
    only_looked = [look for look in batch.looks if look.run not in latest]
    if only_looked:
        states = [text_of(look.document.get("state")) for look in only_looked]
        ats = [time_text(look.at) for look in only_looked]
        cursor.execute(_PUT_STATES, ([look.run for look in only_looked], states, ats, node))


def _run_row(
    latest: ExportedEvent, ended: ExportedEvent | None, look: RunLook | None
) -> tuple[Any, ...]:
    """The ending is that of the recorded fact; only when it was, the fold knows better."""
    facts: Json = {} if ended is None else ended.facts
    seen: Json = {} if look is None else look.document
    ended_at = None
    if ended is not None:
        is_seen = seen.get("state") == "ended"
        ended_at = seen.get("ended_at") if is_seen else facts.get("ended_at", ended.at)
    code = facts.get("exit_code")
    return (
        latest.run,
        text_of(latest.name),
        latest.seq,
        time_text(seen.get("started_at")),
        time_text(ended_at),
        text_of(facts.get("outcome")),
        code if isinstance(code, int) and abs(code) < 1 << 31 else None,
        text_of(facts.get("evidence")),
        text_of(seen.get("state")),
        None if look is None else time_text(look.at),
    )


def _put_placed(cursor: Any, node: NodeFacts, looks: list[RunLook]) -> None:
    """Runs that the ledger placed: their looks, their node, that they are over."""
    if not looks:
        return
    documents = [look.document for look in looks]
    ended = [
        look.at
        if look.document.get("state") == "ended" and look.document.get("is_recorded")
        else None
        for look in looks
    ]
    values = {
        "node": node.node,
        "hostname": clean(node.hostname),
        "ids": [look.run for look in looks],
        "ats": [clean(look.at) for look in looks],
        "runs": list(map(document_text, documents)),
        "ended": ended,
    }
    cursor.execute(_PUT_LOOKS, values)
    cursor.execute(_PUT_PLACEMENTS, values)


# What a database can hold: no zero bytes, no half characters, no infinite numbers

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def clean(text: str) -> str:
    """The text, with U+FFFD for what no text in PostgreSQL can hold."""
    return _UNSTORABLE.sub("\ufffd", text)


def text_of(value: object) -> str | None:
    """A text, or NULL for anything else."""
    return clean(value) if isinstance(value, str) else None


def time_text(value: object) -> str | None:
    """A time, or NULL for what is none."""
    from datetime import datetime

    try:
        datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return str(value)


def document_text(document: Json) -> str:
    """JSON that jsonb takes, in a database of any encoding."""
    import json

    return json.dumps(_storable(document), ensure_ascii=False)


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(name)): _storable(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_storable(one) for one in value]
    is_number = not isinstance(value, float) or value - value == 0
    return value if is_number else None
