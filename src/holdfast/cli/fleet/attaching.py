"""Becomes the program that leads to the terminal of a run elsewhere: it has our own terminal."""

from __future__ import annotations

import os

from holdfast.cli.text import streams
from holdfast.errors import Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


def become(argv: Sequence[str]) -> NoReturn:
    """ssh, or what an engine has in its place; its exit code is the far command's."""
    streams.flush()
    try:
        os.execvp(argv[0], list(argv))
    except FileNotFoundError:
        raise Unavailable(f"there is no {argv[0]} here", hint="install it") from None
