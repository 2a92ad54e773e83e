"""The lines of the protocol between submitter and node. Pure, and light: a node's side loads it."""

from __future__ import annotations

from holdfast.lean import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MARK = b"\0holdfast "  # begins them: {"hello": ...}, {"ended": CODE}


def marked(document: dict[str, Any]) -> bytes:
    """One of them."""
    return MARK + json_text(document).encode("ascii") + b"\n"
