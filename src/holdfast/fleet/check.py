"""`fleet check WHERE`: what a run there needs, each tried and named, before a run is placed."""

from __future__ import annotations

from holdfast import __version__
from holdfast.errors import HoldfastError
from holdfast.fleet.placement import PROTOCOL, NodeFacts
from holdfast.fleet.reaching import any_node, ask_json
from holdfast.fleet.settings import HOME
from holdfast.manage.doctor.findings import DoctorFinding, FindingStatus, failed, missing, works
from holdfast.process.clock import boottime, seconds_of, wall_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from holdfast.fleet.library import Fleet
    from holdfast.manage.operations import Steps

    Json = dict[str, Any]

_CLOCKS_APART_SECONDS = 30.0
_ORDINARY_PARENTS = ("systemd", "init", "tini", "dumb-init", "docker-init")


def check_steps(
    fleet: Fleet, where: str, told: Callable[[DoctorFinding], None]
) -> Steps[list[DoctorFinding]]:
    """Every finding, told as it comes."""
    found: list[DoctorFinding] = []

    def tell(finding: DoctorFinding) -> None:
        found.append(finding)
        told(finding)

    placer = fleet.placer_of(where)
    tell(_ledger(fleet))
    for finding in (yield from placer.check()):
        tell(finding)
    if any(one.name == placer.kind and one.status is FindingStatus.FAIL for one in found):
        return found  # the engine does not answer: it leads to no node
    began = boottime()
    try:
        answered = yield from ask_json(fleet, any_node(where, placer.kind), ["fleet", "node"])
    except HoldfastError as error:
        tell(failed("reach", error.message, error.hint))
        return found
    tell(works("reach", f"a command took {(boottime() - began) * 1000:.0f} ms"))
    for finding in judge_node(answered.document, placer.kind):
        tell(finding)
    return found


def judge_node(document: Json, kind: str) -> Iterator[DoctorFinding]:
    """What a node said about itself. Pure."""
    facts = NodeFacts.from_json(document["facts"])
    yield _version(facts)
    yield DoctorFinding.from_json({**document["state"], "name": "home"})
    yield _clock(str(document["at"]))
    yield _parent(document["shim"], kind)
    yield _oom_score(document["shim"])
    yield _logout(document["logout"], kind)


def _version(facts: NodeFacts) -> DoctorFinding:
    says = f"Holdfast {facts.version} there, {__version__} here"
    if facts.protocol != PROTOCOL:
        return failed(
            "version", f"{says}: they do not understand each other", "install the same version"
        )
    return works("version", says)


def _clock(at: str) -> DoctorFinding:
    apart = abs(seconds_of(at) - seconds_of(wall_clock()))
    if apart > _CLOCKS_APART_SECONDS:
        says = f"the clocks are {apart:.0f} s apart: times of facts mislead people"
        return missing("clock", says, "set both by NTP")
    return works("clock", "the clocks agree")


def _parent(shim: Json, kind: str) -> DoctorFinding:
    who = f"PID {shim['pid']} ({shim['comm']})"
    if shim["pid"] == 1 or shim["comm"] in _ORDINARY_PARENTS or kind == "slurm":
        return works("parent", f"a shim's parent is {who}")
    return failed(
        "parent",
        f"a shim's parent is {who}, which may end it with itself",
        "RAY_kill_child_processes_on_worker_exit_with_raylet_subreaper must be off"
        if kind == "ray"
        else "find out which program became a subreaper there",
    )


def _oom_score(shim: Json) -> DoctorFinding:
    score = int(shim["oom_score_adj"])
    if score > 0:
        return failed(
            "oom", f"runs begin with an oom_score_adj of {score}: the kernel ends them first"
        )
    return works("oom", f"runs begin with an oom_score_adj of {score}")


def _logout(fate: Json, kind: str) -> DoctorFinding:
    if fate["survives"] is False and kind == "ssh":
        return failed("logout", str(fate["why"]), fate["fix"])
    return works("logout", str(fate["why"]))


def _ledger(fleet: Fleet) -> DoctorFinding:
    where = "this home" if fleet.settings.ledger == HOME else fleet.settings.ledger
    try:
        fleet.ledger.nodes()
    except HoldfastError as error:
        return failed("ledger", f"{where}: {error.message}", error.hint)
    return works("ledger", where)
