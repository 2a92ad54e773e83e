"""The lines of `holdfast status` about processes: which there are, what they use, what is left."""

from __future__ import annotations

from holdfast.manage.processes import Role
from holdfast.process.clock import seconds_of
from holdfast.process.verdict import Verdict
from holdfast.run.facts import State
from holdfast.run.units import age, count, duration, money, percent, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from holdfast.manage.info import RunInfo
    from holdfast.manage.processes import Processes, SeenProcess
    from holdfast.manage.words.status_page import StatusFacts

    Json = dict[str, Any]

_MOST_PROCESSES = 6


def processes(known: StatusFacts) -> str:
    """Shim, wrappers, workload and some descendants, each with its verdict."""
    members = known.processes.members
    if known.info.state is State.ENDED and _are_gone(members):
        members = ()  # nothing to see; `evidence` says how each was found
    said = [_process(one) for one in members if one.role is not Role.DESCENDANT]
    others = [one for one in members if one.role is Role.DESCENDANT]
    said += [_process(one) for one in others[: max(0, _MOST_PROCESSES - len(said))]]
    left = len(members) - len(said)
    if left:
        said.append(f"and {left} more (holdfast tree)")
    if known.info.workload_resolution == "unresolved":
        why = known.facts.attempt.resolution_why
        said.append("workload unresolved" + (f": {why}" if why else ""))
    return ", ".join(said)


def _are_gone(members: Sequence[SeenProcess]) -> bool:
    return all(one.process["verdict"] == Verdict.GONE for one in members)


def _process(one: SeenProcess) -> str:
    process = one.process
    role = "" if one.role is Role.DESCENDANT else f"{one.role.value} "
    is_live = process["verdict"] == "SAME" and one.role is not Role.SHIM
    state = f" {process['state']}" if is_live and process.get("state") else ""
    comm = f" {process['comm']}" if process.get("comm") else ""
    return f"{role}{process['pid']}{comm} {process['verdict']}{state}"


def suspects(processes: Processes) -> str:
    """Processes that only carry the run's stamp."""
    if processes.suspects is None:
        return "can't be looked for on this system"
    return ", ".join(
        f"{one.process['pid']} {one.process['comm']}: {one.evidence}" for one in processes.suspects
    )


def cleanup_line(known: StatusFacts) -> str:
    """The result of the stop of the tree, and what survives it now."""
    cleanup = known.info.cleanup
    if cleanup is None:
        return ""
    said = [f"{cleanup.get('signalled')} signalled"]
    if cleanup.get("refused"):
        said.append(f"{cleanup['refused']} refused")
    survivors = cleanup.get("survivors") or ()
    for one in survivors:
        where = f" in {one['wait_channel']}" if one.get("wait_channel") else ""
        said.append(f"{one.get('pid')} {one.get('comm')} survives: {one.get('state')}{where}")
    said += [
        f"{one.get('pid')} {one.get('comm')} survived, and has ended since"
        for one in _ended_since(known.facts.cleanup, survivors)
    ]
    if not survivors:
        whole = {True: "tree empty", None: "could not see every fork", False: "not complete"}
        said.append(whole[cleanup.get("complete")])
    return ", ".join(said)


def _ended_since(recorded: Json | None, living: Sequence[Json]) -> list[Json]:
    tokens = {one.get("token") for one in living}
    left = (recorded or {}).get("survivors") or ()
    return [one for one in left if one.get("token") not in tokens]


def usage_now(known: StatusFacts) -> str:
    """The newest sample."""
    now = known.info.now
    if now is None:
        return ""
    figures = [
        ("RSS ", size(now["rss_bytes"]), ""),
        ("swap ", size(now["swap_bytes"] or None), ""),
        ("CPU ", percent(now["cpu_percent"]), ""),
        ("", count(now["processes"]), _plural(now["processes"])),
    ]
    said = ", ".join(f"{a}{b}{c}" for a, b, c in figures if b)
    return f"{said} ({age(max(0.0, known.now - seconds_of(now['at'])))} ago)"


def budget_line(info: RunInfo) -> str:
    """What it has used of what it may use."""
    if info.budget is None:
        return ""
    from holdfast.run.usage.budget import LIMITS, in_words, used_of

    said = []
    for limit in LIMITS:
        most, used = info.budget[limit], used_of(limit, info.usage or {})
        if most is not None and used is None:
            what = "cost" if limit == "max_cost_usd" else "tokens"
            said.append(f"{what} not known{'' if info.state is State.ENDED else ' yet'}")
        elif most is not None and used is not None:
            said.append(f"{in_words(limit, used, most)} used")
    return ", ".join(said)


def usage_peak(info: RunInfo) -> str:
    """Peaks and totals."""
    usage = info.usage or {}
    figures = [
        ("RSS ", size(usage.get("peak_rss_bytes")), ""),
        ("swap ", size(usage.get("peak_swap_bytes") or None), ""),
        ("CPU ", percent(usage.get("peak_cpu_percent")), ""),
        ("", duration(usage.get("cpu_seconds")), " CPU time"),
        ("", count(usage.get("peak_processes")), _plural(usage.get("peak_processes"))),
        ("read ", size(usage.get("read_bytes") or None), ""),
        ("wrote ", size(usage.get("write_bytes") or None), ""),
    ]
    tokens = [
        ("", count(usage.get("tokens_in")), " tokens in"),
        ("", count(usage.get("tokens_out")), f" out{_so_far(usage.get('tokens_source'))}"),
        ("", money(usage.get("cost_usd")), ""),
    ]
    parts = [", ".join(f"{a}{b}{c}" for a, b, c in part if b) for part in (figures, tokens)]
    return "; ".join(filter(None, parts))


def _plural(number: int | None) -> str:
    return " process" if number == 1 else " processes"


def _so_far(source: str | None) -> str:
    """That a turn goes on, and where its tokens are read: the final record may say more."""
    return f" so far ({source})" if source in ("stdout", "transcript") else ""
