"""The recorded output of real agents, and a reader fed with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from holdfast.agents.loader import load_profile
from holdfast.agents.stream import StreamReader

if TYPE_CHECKING:
    from holdfast.agents.facts import Fact

F = TypeVar("F")
RECORDED = Path(__file__).with_name("recorded")
NOW = 1_800_000_000.0


def recorded(name: str) -> bytes:
    return (RECORDED / name).read_bytes()


def facts_of(name: str, *arguments: str) -> list[Fact]:
    """What a reader finds in a recording; the agent's name is the file's first word."""
    reader = StreamReader(
        load_profile(name.split("-", maxsplit=1)[0]), arguments, clock=lambda: NOW
    )
    found: list[Fact] = []
    at_byte = 0
    for line in recorded(name).splitlines(keepends=True):
        found += reader.feed(line, at_byte)
        at_byte += len(line)
    return found


def of_kind(facts: list[Fact], kind: type[F]) -> list[F]:
    return [fact for fact in facts if isinstance(fact, kind)]
