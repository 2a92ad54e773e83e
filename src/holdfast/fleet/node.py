"""A node: one home on one host. Its id is random, lies in the home, and is made anew elsewhere.

A home that was copied to another host is another node: what is bound to the one is never taken for
the other. `fleet start` makes the id; reading makes nothing.
"""

from __future__ import annotations

import os

from holdfast import __version__
from holdfast.fleet.placement import PROTOCOL, NodeFacts
from holdfast.lean import json_text, read_json
from holdfast.options import OPTIONS, PLACING
from holdfast.process import this_host
from holdfast.process.clock import wall_clock
from holdfast.run.atomic_files import atomic_write, encode, read_file
from holdfast.run.locks import wait_for_lock
from holdfast.run.names import is_id, new_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.run.home import Home

MARK = b"\0holdfast "  # begins the lines of the protocol: {"hello": ...}, {"ended": CODE}
NO_NODE = ""  # of a home in which none was made


def marked(document: dict[str, Any]) -> bytes:
    """A line of the protocol, as a node says it."""
    return MARK + json_text(document).encode("ascii") + b"\n"


def node_facts(home: Home, *, make: bool = False) -> NodeFacts:
    """What this node says about itself. `make`: give the home an id, if it has none."""
    place = this_host.place()
    return NodeFacts(
        _made(home) if make else read_node(home),
        place.host,
        os.environ.get("SLURMD_NODENAME") or os.uname().nodename,  # as its engine calls it
        place.boot_id,
        home.path,
        __version__,
        PROTOCOL,
        tuple(name for name in OPTIONS if name not in PLACING),
    )


def read_node(home: Home) -> str:
    """The id of this home on this host; NO_NODE: it has none, or another host's."""
    try:
        document = read_json(read_file(home.node_path).decode())
    except (OSError, ValueError, RecursionError):
        return NO_NODE
    known = document if isinstance(document, dict) else {}
    node = known.get("node")
    is_ours = known.get("host") == this_host.place().host
    return node if is_ours and isinstance(node, str) and is_id(node) else NO_NODE


def _made(home: Home) -> str:
    node = read_node(home)
    if node:
        return node
    home.prepare()
    with wait_for_lock(f"{home.path}/node.lock"):
        node = read_node(home)  # another may have been first
        if not node:
            node = new_id()
            document = {"schema": 1, "node": node, "host": this_host.place().host}
            atomic_write(home.node_path, encode({**document, "made_at": wall_clock()}), sync=True)
    return node
