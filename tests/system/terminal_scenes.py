"""Scenes of runs with a terminal on a disk that is full."""

from __future__ import annotations

import os
import re
from typing import Any

from holdfast.manage.operations import run_steps
from holdfast.manage.shim_client import open_link
from tests.support.cli import CommandLine
from tests.support.disk_scenes import fill, mount_small_disk
from tests.support.running import ended, events_of, info_of, output_of
from tests.support.terminals import viewing
from tests.support.waiting import eventually


def attach_by_hand(path: str) -> str:
    """As whoever we are, without the command line."""
    link = open_link(path)
    if link is None:
        return "refused"
    with link:
        answer = run_steps(link.ask({"do": "attach"}))
    return "hung up" if answer is None else "attached"


def _start(path: str, command: str) -> tuple[str, list[str]]:
    """A run that goes on when we open its gates, one by one; its home is a small disk."""
    home, gates = f"{path}/home", [f"{path}/gate1", f"{path}/gate2"]
    os.mkdir(home, 0o700)
    for gate in gates:
        os.mkfifo(gate)
    mount_small_disk(home, kibibytes=8 * 1024)
    os.chmod(home, 0o700)
    os.environ["HOLDFAST_HOME"] = home
    first, second = (f"read x <{gate}" for gate in gates)
    command = f"stty -opost; echo ready; {first}; {command}; {second}; echo end"
    CommandLine()("run", "--pty", "-n", "a", "sh", "-c", command, expect=0)
    return home, gates


def _open(gate: str) -> None:
    with open(gate, "w") as file:
        file.write("\n")


def _faults() -> list[str]:
    return [f"{event['where']}: {event['error']}" for event in events_of("a", "fault")]


def talk_on_a_full_disk(path: str) -> dict[str, Any]:
    """It is full for a while; a viewer watches."""
    home, gates = _start(path, "seq 20000")
    expected = b"".join(b"%d\n" % number for number in range(1, 20_001))
    with viewing("a") as viewer:
        viewer.read_until(b"ready\n")
        fill(f"{home}/fill")
        _open(gates[0])
        saw = viewer.read_until(b"\n20000\n")
        state = info_of("a").state.value
        os.unlink(f"{home}/fill")
        eventually(lambda: output_of("a").endswith(b"\n20000\n"), 20, "the log has caught up")
        _open(gates[1])
        viewer.read_to_end()
    return {
        "viewer_saw_all": saw == b"ready\n" + expected,
        "state_while_full": state,
        "outcome": ended("a").outcome,
        "faults": _faults(),
        "log_is_whole": output_of("a") == b"ready\n" + expected + b"end\n",
    }


def flood_a_full_disk(path: str) -> dict[str, Any]:
    """More comes than can wait in memory."""
    home, gates = _start(path, "head -c 6000000 /dev/zero | tr '\\0' x; echo talked >&2")
    with viewing("a") as viewer:
        viewer.read_until(b"ready\n")
        fill(f"{home}/fill")
        _open(gates[0])
        viewer.read_until(b"talked\n")
        os.unlink(f"{home}/fill")
        _open(gates[1])
        viewer.read_to_end()
    info, faults = ended("a"), _faults()
    lost = re.search(r"(\d+) bytes of the terminal's output could not be kept", faults[-1])
    return {
        "outcome": info.outcome,
        "faults": faults,
        "written": len(b"ready\n") + 6_000_000 + len(b"talked\nend\n"),
        "lost": int(lost[1]) if lost else 0,
        "kept": len(output_of("a")),
    }
