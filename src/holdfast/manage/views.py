"""Rows, labels and durations that every interface shows alike."""

from __future__ import annotations


def duration(seconds: float | None) -> str:
    """`4s`, `12m`, `3h`, `2d`: one unit, as people say it."""
    if seconds is None:
        return ""
    seconds = max(0.0, seconds)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"
