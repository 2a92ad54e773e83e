"""Runs of a pretended agent in a terminal, and what it waits for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.cli import CommandLine
from tests.support.running import info_of, wait_for, wait_for_output


def start_talk(holdfast: CommandLine, claude: str, *options: object, name: str = "a") -> None:
    """A talk on a terminal of its own, which waits for a prompt."""
    holdfast("run", "-n", name, "--pty", *options, "--", claude, expect=0)
    wait_for_output(name, b"ready")


def say(holdfast: CommandLine, text: str, name: str = "a") -> None:
    holdfast("send", name, text, expect=0)


def questions(info: Any) -> Iterator[dict[str, Any]]:
    asked = info.attention
    return iter(() if asked is None else (asked, *asked["others"]))


def asked(count: int = 1, kind: str = "permission", name: str = "a") -> list[dict[str, Any]]:
    """What the run asks, once it asks so many things of that kind."""

    def look(info: Any) -> list[dict[str, Any]] | None:
        found = [one for one in questions(info) if one["kind"] == kind]
        return found if len(found) == count else None

    return wait_for(name, look, why=f"{name} asks {count} things")


def asks_nothing(name: str = "a") -> Any:
    """The run, once nobody has to answer (a turn that is over aside)."""

    def look(info: Any) -> Any:
        open_ = [one for one in questions(info) if one["kind"] != "turn_over"]
        return None if open_ else info

    return wait_for(name, look, why=f"{name} asks nothing")


def id_of(text: str, name: str = "a") -> str:
    """The id of the question with that text."""
    found = [one["id"] for one in questions(info_of(name)) if text in one["text"]]
    assert len(found) == 1, found
    return str(found[0])
