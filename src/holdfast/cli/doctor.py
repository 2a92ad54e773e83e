"""`holdfast doctor`: what this machine can prove and enforce, each as tried.

It starts a few short-lived children of its own and signals those alone.
"""

from __future__ import annotations

import contextlib
import functools
import subprocess

from holdfast.cli import doctor_kernel, doctor_machine, streams
from holdfast.cli.findings import Finding, Status, failed
from holdfast.errors import HoldfastError
from holdfast.process import here

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator

    from holdfast.cli.parser import Parser

    Probe = Callable[[], Finding]

_WAITS = f"read line; exit {doctor_kernel.CHILD_EXIT_CODE}"
_LEAVES_AN_ORPHAN = "sleep 60 >/dev/null 2>&1 & echo $!"


def add_arguments(parser: Parser) -> None:
    """What else to look for."""
    parser.add_argument(
        "--agents",
        action="store_true",
        help="also which coding agents are here, and what can be seen of each",
    )
    parser.epilog = (
        "ok: works here.  --: not here, and Holdfast copes with something weaker.\n"
        "FAIL: a promise can't be kept; exit code 1. The line below says what to do."
    )


def run(args: Namespace) -> int:
    """Try everything, say what was found."""
    findings = []
    for name, probe in probes():
        findings.append(_try(name, probe))
        _show(findings[-1], args)
    more: dict[str, object] = {}
    if args.agents:
        try:
            more["agents"] = _agents(args)
        except HoldfastError as error:  # a profile with a mistake in it
            findings.append(failed("agents", error.message, error.hint))
            _show(findings[-1], args)
    all_well = all(finding.status is not Status.FAIL for finding in findings)
    if args.json:
        found = [finding.to_json() for finding in findings]
        streams.say_json({"schema": 1, "ok": all_well, "findings": found, **more})
    return 0 if all_well else 1


def _show(finding: Finding, args: Namespace) -> None:
    if not args.json and (not args.quiet or finding.status is Status.FAIL):
        streams.say("\n".join(finding.lines()))
        streams.flush()  # the next one may take a while


def _agents(args: Namespace) -> list[dict[str, object]]:
    from holdfast.cli import doctor_agents

    agents = doctor_agents.look()
    for agent in agents:
        _show(doctor_agents.finding(agent), args)
    return [doctor_agents.to_json(agent) for agent in agents]


def probes() -> Iterator[tuple[str, Probe]]:
    """What to try, in the order shown. Each is tried on its own: one that breaks stops no other."""
    on_child = functools.partial
    yield "identity", on_child(doctor_kernel.identity, child)
    yield "signal", on_child(doctor_kernel.gate, child)
    if not here.is_portable():
        yield "exit", on_child(doctor_kernel.exit_status, child)
        yield "handle", on_child(doctor_kernel.handle, child)
        yield "ticks", on_child(doctor_kernel.ticks, child)
        yield "children", on_child(doctor_kernel.children, child)
        yield "subreaper", on_child(doctor_kernel.subreaper, orphan)
        yield "timer", doctor_kernel.timer
        yield "inotify", doctor_kernel.inotify
        yield "namespace", doctor_kernel.namespace
        yield "hidepid", doctor_kernel.hidden_processes
    yield "state", doctor_machine.state
    yield "abandoned", doctor_machine.abandoned
    yield "vanished", doctor_machine.vanished
    if not here.is_portable():
        yield "reserve", doctor_machine.reserve
        yield "logout", doctor_machine.logout
        yield "cgroup", doctor_machine.control_groups


def _try(name: str, probe: Probe) -> Finding:
    try:
        return probe()
    except (HoldfastError, OSError, subprocess.SubprocessError) as error:
        return failed(name, f"could not be tried: {error}")


@contextlib.contextmanager
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A child that waits for the end of its stdin; gone when the block ends."""
    process = subprocess.Popen(["sh", "-c", _WAITS], stdin=subprocess.PIPE)
    try:
        yield process
    finally:
        if process.stdin is not None:
            process.stdin.close()
        process.wait()


def orphan() -> int:
    """A process whose parent has just exited."""
    parent = subprocess.run(
        ["sh", "-c", _LEAVES_AN_ORPHAN], stdout=subprocess.PIPE, check=True, timeout=10
    )
    return int(parent.stdout)
