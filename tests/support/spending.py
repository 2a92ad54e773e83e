"""Runs of a program that speaks like claude, whose turn goes on step by step as the test says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.cli import CommandLine
from tests.support.pretend_claude import TOKENS_IN, TOKENS_OUT
from tests.support.running import wait_for

STREAM = ("--output-format", "stream-json", "--verbose")


def start_turn(
    holdfast: CommandLine, claude: str, prompt: str, *options: object, name: str = "a", **how: Any
) -> None:
    holdfast("run", "-n", name, *options, "--", claude, *STREAM, "-p", prompt, expect=0, **how)


def let_go(directory: Path, *steps: int) -> None:
    """Let a waiting turn do these steps."""
    for step in steps:
        (directory / f"go{step}").touch()


def tokens(messages: int) -> tuple[int, int]:
    """What so many messages come to."""
    return messages * TOKENS_IN, messages * TOKENS_OUT


def used(info: Any) -> tuple[int | None, int | None]:
    usage = info.usage or {}
    return usage.get("tokens_in"), usage.get("tokens_out")


def wait_for_tokens(messages: int, name: str = "a") -> Any:
    """The run, once it has used what so many messages come to."""
    look: Callable[[Any], Any] = lambda info: info if used(info) == tokens(messages) else None  # noqa: E731
    return wait_for(name, look, why=f"{name} has used {messages} messages")
