"""What a node finds out about itself for `fleet check`: tried, as a run there would meet it."""

from __future__ import annotations

from holdfast.fleet.node import node_facts
from holdfast.lean import read_json
from holdfast.manage.doctor.machine import state
from holdfast.manage.operations import run_steps
from holdfast.manage.starting.launch import show_parent
from holdfast.manage.starting.logout import survival
from holdfast.process.clock import wall_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.run.home import Home


def probe_node(home: Home) -> dict[str, Any]:
    """Its facts; the parent, oom score and control group of a shim; its home; what logout does."""
    fate = survival()
    return {
        "facts": node_facts(home).to_json(),
        "at": wall_clock(),
        "shim": read_json(run_steps(show_parent()).decode("ascii")),
        "state": state().to_json(),
        "logout": fate.as_dict(),
    }
