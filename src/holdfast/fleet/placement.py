"""What is recorded of a run that is placed on another machine. Pure.

A placement is one request to start one run somewhere; its id is the run's id. The ledger keeps it
without secrets: what was asked is redacted, and `is_whole` says whether that left anything out.
"""

from __future__ import annotations

from holdfast.record import Record
from holdfast.run.checked_json import damaged, read_fields
from holdfast.run.names import is_id, valid_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    Json = dict[str, Any]

PROTOCOL = 1  # of what submitter and node say to each other


class Resources(Record):
    """What the engine is asked to set aside. None: its own default."""

    cpus: int | None = None
    memory_bytes: int | None = None
    gpus: int | None = None


class Reservation(Record):
    """What the engine holds for a placement: a host, a job, a placement group."""

    engine: str
    handle: dict[str, Any]

    def to_json(self) -> Json:
        """For the ledger and the run's spec."""
        return {"engine": self.engine, **self.handle}

    @classmethod
    def from_json(cls, document: Json) -> Self:
        """Read it back."""
        handle = dict(document)
        return cls(str(handle.pop("engine")), handle)


class NodeFacts(Record):
    """What a node says about itself, before anything else."""

    node: str  # a random id that its home has
    host: str  # 8 hex digits that stand for the machine
    hostname: str
    boot_id: str | None
    home: str
    version: str
    protocol: int
    options: tuple[str, ...]  # of a run, that it knows

    def to_json(self) -> Json:
        """One line of what it says."""
        return {**self.as_dict(), "options": list(self.options)}

    @classmethod
    def from_json(cls, document: object) -> Self:
        """Read it; of a later version what is known here."""
        known = document if isinstance(document, dict) else {}
        ours = {name: known[name] for name in cls._fields if name in known}
        fields = read_fields(cls, ours, "what the node says")
        return cls(**{**fields, "options": tuple(fields["options"])})


class Placement(Record):
    """One request to start one run somewhere, and how far it came."""

    id: str
    name: str
    key: str | None
    engine: str
    target: str  # WHERE, as it was asked for
    request: dict[str, Any]  # argv and options without secrets
    is_whole: bool  # nothing was left out of the request
    submitter: str
    created_at: str
    reservation: dict[str, Any] | None = None
    bound_at: str | None = None
    node: str | None = None  # the id of the node, once it is known
    node_name: str | None = None
    committed_at: str | None = None
    ended_at: str | None = None  # when a look showed its recorded ending
    given_up: dict[str, Any] | None = None  # who said that it is gone, when and why
    dropped: dict[str, Any] | None = None  # it never began: its outcome, when and why
    schema: int = 1

    def to_json(self) -> Json:
        """As it is stored."""
        return self.as_dict()

    @classmethod
    def from_json(cls, document: object, what: str = "the placement") -> Self:
        """Read it back. DamagedRecord or LaterVersion name the fault."""
        fields = read_fields(cls, document, what)
        if not is_id(fields["id"]) or not valid_name(fields["name"]):
            raise damaged(what, "has an id or name that none could have")
        return cls(**fields)

    @property
    def bound(self) -> Reservation | None:
        """The reservation that the ledger names, for good."""
        return None if self.reservation is None else Reservation.from_json(self.reservation)

    @property
    def resources(self) -> Resources:
        """What the engine is asked to set aside for it."""
        return Resources(**(self.request.get("resources") or {}))

    @property
    def is_over(self) -> bool:
        """Whether nothing is expected of it any more."""
        return any((self.ended_at, self.given_up, self.dropped))

    @property
    def may_be_lost(self) -> bool:
        """Whether no node has answered yet: its submitter, or its engine, may have lost it."""
        return not self.is_over and (self.committed_at is None or self.node is None)

    @property
    def where(self) -> str:
        """The place, for people: `build1`, or the target where no node is known yet."""
        return self.node_name or self.target

    def in_spec(self, node: str) -> Json:
        """What the run's own spec keeps of it."""
        return {
            "engine": self.engine,
            "target": self.target,
            "reservation": self.reservation,
            "node": node,
            "submitter": self.submitter,
        }


class EngineView(Record):
    """What the engine says about a reservation: quoted, never believed."""

    engine: str
    word: str  # its own: RUNNING, NODE_FAIL, CREATED
    is_waiting: bool = False  # it has not begun, and may
    is_gone: bool = False  # it holds nothing for it any more
    node: str | None = None  # where it says that it is
    at: str | None = None  # since when
    never_began: bool = False  # it is over, and was given no node: nothing was started
    refusal: str | None = None  # the word of the node's side that it started nothing

    def quoted(self) -> str:
        """For evidence: `Slurm says NODE_FAIL on n2`."""
        on = f" on {self.node}" if self.node else ""
        return f"{ENGINES[self.engine]} says {self.word}{on}"


ENGINES = {"ssh": "ssh", "slurm": "Slurm", "ray": "Ray"}
