"""What a server is told: where it listens, what it allows, and its bounds."""

from __future__ import annotations

from holdfast.record import Record


class ServeSettings(Record):
    """Of one server. `hosts`: names that a request's Host may have; None: any IP address too."""

    home: str
    token: str
    hosts: frozenset[str] = frozenset({"localhost", "127.0.0.1", "[::1]"})
    any_address: bool = False  # it listens where its own addresses are not known
    is_read_only: bool = False
    may_start: bool = False  # what runs code: start, rerun, resume, send
    most_connections: int = 256
    most_streams: int = 128  # of events and output, in all
    most_followers: int = 16  # of one run's output
    head_seconds: float = 10.0  # for a request's head, and between two requests
    body_seconds: float = 10.0
    stall_seconds: float = 30.0  # for which a client may take nothing of what was sent
    most_body_bytes: int = 1 << 20
