"""Where placements are recorded, and the one kept in the submitter's home.

The ledger decides two things: which placement a key has, and which reservation a placement is bound
to. Both are decided once, and are on disk before anything is started. One kernel lock guards the
writes, each of which is short; reading takes none.
"""

from __future__ import annotations

import itertools
import os

from holdfast.errors import DamagedRecord, HoldfastError, LaterVersion, Refused
from holdfast.fleet.placement import NodeFacts, Placement
from holdfast.lean import read_json
from holdfast.process.clock import wall_clock
from holdfast.record import Record
from holdfast.run.atomic_files import (
    atomic_write,
    encode,
    make_directory,
    read_file,
    remove_file,
)
from holdfast.run.locks import wait_for_lock
from holdfast.run.names import is_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Protocol

    from holdfast.fleet.placement import Reservation
    from holdfast.run.home import Home
    from holdfast.run.locks import HeldLock

    Json = dict[str, Any]


class LastFact(Record):
    """The last fact of a run that its node has exported."""

    seq: int
    kind: str
    at: str
    conflict: bool  # facts that were exported before differ: the home was restored from a copy


class LastLook(Record):
    """What a node said last about a run: the run's public document."""

    at: str
    run: dict[str, Any]
    fact: LastFact | None = None


class KnownNode(Record):
    """A node that has answered."""

    facts: NodeFacts
    engine: str
    target: str
    seen_at: str
    exported_at: str | None = None  # when its facts were last brought into the database


class UnreadablePlacement(Record):
    """A placement whose record can't be read: kept, and never started again."""

    id: str
    fault: str


if TYPE_CHECKING:

    class PlacementLedger(Protocol):
        """What the order of writes needs of a ledger."""

        def intend(self, wanted: Placement) -> Placement:
            """Record it, unless its key has one already: the placement that counts."""

        def bind(self, placement_id: str, reservation: Reservation) -> Placement:
            """Name its reservation, if it has none: the placement with the one that counts."""

        def note(self, placement_id: str, **facts: Any) -> Placement:
            """Record how far it came."""

        def withdraw(self, placement_id: str, *, refused: bool = False) -> None:
            """Forget one that is not bound, or that its node has refused: nothing was started."""

        def forget(self, placement_id: str) -> None:
            """Its run was removed: its key is free."""

        def get(self, placement_id: str) -> Placement | None: ...
        def called(self, name: str) -> list[Placement]: ...
        def beginning(self, prefix: str) -> list[Placement]: ...
        def every(self) -> Iterator[Placement | UnreadablePlacement]: ...
        def active(self) -> list[Placement]: ...
        def unfinished(self) -> list[Placement]: ...
        def see(self, facts: NodeFacts, engine: str, target: str) -> None: ...
        def nodes(self) -> list[KnownNode]: ...
        def remember(self, placement_id: str, run: Json) -> None: ...
        def recall(self, placement_id: str) -> LastLook | None: ...
        def close(self) -> None: ...


def gone_from_ledger(placement_id: str) -> Refused:
    """The error for a placement that was withdrawn meanwhile."""
    return Refused(
        f"the placement {placement_id} was withdrawn meanwhile: nothing was started for it",
        hint="try again",
        run=placement_id,
    )


_FOLDERS = ("placements", "active", "keys", "names", "seen", "nodes")


class HomeLedger:
    """The ledger in the submitter's own home. Several submitting machines need PostgreSQL."""

    def __init__(self, home: Home) -> None:
        self._path = home.fleet_path

    def intend(self, wanted: Placement) -> Placement:
        """Record it, unless its key has one already."""
        with self._writing():
            if wanted.key is not None:
                known = self._of_key(wanted.key)
                if known is not None:
                    return known
            # What leads to it is there before it is: it can't be without its name.
            self._put(f"active/{wanted.id}", b"")
            self._write_name(wanted.name, [*self._ids_of_name(wanted.name), wanted.id])
            self._write(wanted)
            if wanted.key is not None:
                # Last: whatever a key leads to is there.
                self._put(f"keys/{_digest(wanted.key)}", f"{wanted.id}\n".encode(), sync=True)
        return wanted

    def bind(self, placement_id: str, reservation: Reservation) -> Placement:
        """Name its reservation, if it has none."""
        with self._writing():
            known = self._read(placement_id)
            if known is None:
                raise gone_from_ledger(placement_id)
            if known.reservation is None:
                at = wall_clock()
                known = known.replace(reservation=reservation.to_json(), bound_at=at)
                self._write(known)
            return known

    def note(self, placement_id: str, **facts: Any) -> Placement:
        """Record how far it came; what is no longer expected of is not active."""
        with self._writing():
            known = self._read(placement_id)
            if known is None:
                raise gone_from_ledger(placement_id)
            known = known.replace(**facts)
            self._write(known)
            if known.is_over:
                self._remove(f"active/{placement_id}")
            if known.given_up is not None:
                self._release_key(known)
            return known

    def withdraw(self, placement_id: str, *, refused: bool = False) -> None:
        """Forget one that is not bound, or that its node has refused."""
        with self._writing():
            known = self._read(placement_id)
            if known is not None and (known.reservation is None or refused):
                self._forget(known)

    def forget(self, placement_id: str) -> None:
        """Its run was removed."""
        with self._writing():
            known = self._read(placement_id)
            if known is not None:
                self._forget(known)

    def get(self, placement_id: str) -> Placement | None:
        """The placement of that id."""
        return self._read(placement_id)

    def called(self, name: str) -> list[Placement]:
        """Those of that name that may be active, and its newest; the newest first."""
        ids = self._active_ids()
        latest = (one for one in reversed(self._ids_of_name(name)) if self._readable({one}))
        ids.update(itertools.islice(latest, 1))
        return [one for one in self._readable(ids) if one.name.lower() == name.lower()]

    def beginning(self, prefix: str) -> list[Placement]:
        """Those whose ids begin so; the newest first."""
        ids = [one.removesuffix(".json") for one in self._names("placements")]
        return self._readable({one for one in ids if is_id(one) and one.startswith(prefix)})

    def every(self) -> Iterator[Placement | UnreadablePlacement]:
        """All of them, the newest first."""
        ids = [one.removesuffix(".json") for one in self._names("placements")]
        for placement_id in sorted(filter(is_id, ids), reverse=True):
            try:
                known = self._read(placement_id)
            except HoldfastError as error:
                yield UnreadablePlacement(placement_id, error.message)
                continue
            if known is not None:
                yield known

    def active(self) -> list[Placement]:
        """Those of which no end is known; the newest first."""
        return [one for one in self._readable(self._active_ids()) if not one.is_over]

    def unfinished(self) -> list[Placement]:
        """Those that no node has answered for; the oldest first."""
        return [one for one in reversed(self.active()) if one.may_be_lost]

    def see(self, facts: NodeFacts, engine: str, target: str) -> None:
        """A node has answered."""
        seen = {"facts": facts.to_json(), "engine": engine, "target": target}
        self._prepare()
        self._put(f"nodes/{facts.node}.json", encode({**seen, "seen_at": wall_clock()}))

    def nodes(self) -> list[KnownNode]:
        """Every node that has answered, by name."""
        found = []
        for name in self._names("nodes"):
            try:
                document = read_json(read_file(f"{self._path}/nodes/{name}").decode())
                facts = NodeFacts.from_json(document["facts"])
                found.append(KnownNode(**{**document, "facts": facts}))
            except (OSError, ValueError, TypeError, KeyError, HoldfastError):
                continue  # it is written anew when the node answers
        return sorted(found, key=lambda one: (one.facts.hostname, one.facts.node))

    def remember(self, placement_id: str, run: Json) -> None:
        """What its node said of it."""
        self._prepare()
        self._put(f"seen/{placement_id}.json", encode({"at": wall_clock(), "run": run}))

    def recall(self, placement_id: str) -> LastLook | None:
        """What its node said last."""
        try:
            return LastLook(
                **read_json(read_file(f"{self._path}/seen/{placement_id}.json").decode())
            )
        except (OSError, ValueError, TypeError):
            return None

    def close(self) -> None:
        """Nothing is kept open."""

    # The files

    def _prepare(self) -> None:
        for name in ("", *_FOLDERS):
            make_directory(f"{self._path}/{name}")

    def _writing(self) -> HeldLock:
        self._prepare()
        return wait_for_lock(f"{self._path}/lock")

    def _write(self, placement: Placement) -> None:
        data = encode(placement.to_json())
        self._put(f"placements/{placement.id}.json", data, sync=True)

    def _read(self, placement_id: str) -> Placement | None:
        path = f"{self._path}/placements/{placement_id}.json"
        try:
            text = read_file(path).decode()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise DamagedRecord(f"{path} can't be read: {error}") from None
        try:
            document = read_json(text)
        except (ValueError, RecursionError):
            raise DamagedRecord(f"{path} is damaged", hint="it is kept as it is") from None
        return Placement.from_json(document, path)

    def _readable(self, ids: set[str]) -> list[Placement]:
        found = []
        for placement_id in sorted(ids, reverse=True):
            try:
                known = self._read(placement_id)
            except (DamagedRecord, LaterVersion):  # `every` tells
                continue
            if known is not None:
                found.append(known)
        return found

    def _of_key(self, key: str) -> Placement | None:
        """What a key leads to; if that is damaged, nothing is started in its place."""
        led_to = self._text(f"keys/{_digest(key)}")
        if not led_to:
            return None
        known = self._read(led_to) if is_id(led_to) else None
        if known is None:
            raise DamagedRecord(
                f"the ledger's record of key {key} is gone, and its run may have been started",
                hint=f"look for {led_to} on the nodes; then rm {self._path}/keys/{_digest(key)}",
            )
        return known

    def _forget(self, placement: Placement) -> None:
        self._release_key(placement)
        self._remove(f"placements/{placement.id}.json")  # before what leads to it
        self._remove(f"active/{placement.id}")
        rest = [one for one in self._ids_of_name(placement.name) if one != placement.id]
        self._write_name(placement.name, rest)
        self._remove(f"seen/{placement.id}.json")

    def _ids_of_name(self, name: str) -> list[str]:
        """Every placement of that name, the oldest first."""
        return list(filter(is_id, self._text(f"names/{name.lower()}").split()))

    def _write_name(self, name: str, ids: list[str]) -> None:
        path = f"names/{name.lower()}"
        if ids:
            self._put(path, "".join(f"{one}\n" for one in ids).encode())
        else:
            self._remove(path)

    def _release_key(self, placement: Placement) -> None:
        if placement.key is not None:
            name = f"keys/{_digest(placement.key)}"
            if self._text(name) == placement.id:
                self._remove(name)

    def _put(self, name: str, data: bytes, *, sync: bool = False) -> None:
        atomic_write(f"{self._path}/{name}", data, sync=sync)

    def _remove(self, name: str) -> None:
        remove_file(f"{self._path}/{name}")

    def _text(self, name: str) -> str:
        try:
            return read_file(f"{self._path}/{name}").decode("ascii", "replace").strip()
        except FileNotFoundError:
            return ""

    def _names(self, folder: str) -> list[str]:
        try:
            return os.listdir(f"{self._path}/{folder}")
        except FileNotFoundError:
            return []

    def _active_ids(self) -> set[str]:
        return {name for name in self._names("active") if is_id(name)}


def _digest(key: str) -> str:
    import hashlib

    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
