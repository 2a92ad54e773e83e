"""Runs as a report sees them, put together by hand, and how each medium shows them."""

from __future__ import annotations

import functools
from typing import Any

from holdfast.manage.info import RunInfo
from holdfast.manage.report.document import BRIEF, FULL, SHARED
from holdfast.manage.report.markdown import markdown
from holdfast.manage.report.page import page
from holdfast.manage.report.reading import Material
from holdfast.manage.report.sections import charts_alone, document
from holdfast.manage.report.snapshot import Snapshot, snapshot
from holdfast.manage.report.text import text
from holdfast.manage.report.text_charts import UNICODE, Ink
from holdfast.process.clock import iso_time
from holdfast.run.event_log import LoggedEvent
from holdfast.run.events import Kind
from holdfast.run.facts import State
from holdfast.run.lifecycle import fold
from holdfast.run.outcomes import EndedBy, Outcome

START = 1_800_000_000.0  # wall clock
BOOT = 5_000.0  # the other clock, at the same moment
BOOT_ID, OTHER_BOOT_ID = "ab" * 16, "cd" * 16
MIB = 1 << 20


def token(pid: int, boot_id: str = BOOT_ID) -> str:
    return f"hf1.{pid}.500000.77.4026531836.{boot_id}.00000000"


def identity(pid: int, boot_id: str = BOOT_ID) -> dict[str, Any]:
    return {"pid": pid, "token": token(pid, boot_id), "boot_id": boot_id}


def at(seconds: float) -> str:
    return iso_time(START + seconds)


def sample(seconds: float, mib: float, cpu: float | None = 10.0, **more: Any) -> dict[str, Any]:
    """A row of one workload; `tree` adds to the tree's figures."""
    tree = {"processes": 1, "cpu_seconds": round(seconds / 10, 2), **more.pop("tree", {})}
    row = {"token": token(42), "comm": "work", "rss_bytes": int(mib * MIB), "cpu_percent": cpu}
    row = {name: value for name, value in row.items() if value is not None}
    return {"at": at(seconds), "boottime": BOOT + seconds, **row, **more, "tree": tree}


def unresolved(seconds: float) -> dict[str, Any]:
    row = {"resolution": "unresolved", "tree": {"processes": 2}}
    return {"at": at(seconds), "boottime": BOOT + seconds, **row}


def nobody(seconds: float) -> dict[str, Any]:
    return {"at": at(seconds), "boottime": BOOT + seconds, "tree": {"processes": 0}}


def happened(*told: tuple[float, Kind, dict[str, Any]]) -> tuple[LoggedEvent, ...]:
    """Events in order, after those of a start."""
    start: tuple[tuple[float, Kind, dict[str, Any]], ...] = (
        (-0.01, Kind.SUPERVISED, {"shim": identity(40), "how": "launched"}),
        (0.0, Kind.ATTEMPT_STARTED, {"attempt": 1, "root": identity(41)}),
    )
    return tuple(
        LoggedEvent(seq, at(seconds), BOOT + seconds, kind, facts)
        for seq, (seconds, kind, facts) in enumerate((*start, *told), 1)
    )


def ended(seconds: float, outcome: str = "succeeded") -> tuple[float, Kind, dict[str, Any]]:
    facts = {"outcome": outcome, "exit_code": 0, "evidence": "root exited 0", "ended_by": "itself"}
    return (seconds, Kind.ENDED, facts)


def info(events: tuple[LoggedEvent, ...] = (), **known: Any) -> RunInfo:
    """What `status` would know of such a run."""
    facts = fold(events)
    fields: dict[str, Any] = dict.fromkeys(RunInfo._fields)
    fields.update(
        schema=1,
        id="0tqt60df90ybwtdemt17",
        name="work",
        state=State.ENDED if facts.has_ended else State.RUNNING,
        outcome=facts.outcome,
        ended_by=EndedBy.ITSELF if facts.has_ended else None,
        exit_code=0 if facts.outcome is Outcome.SUCCEEDED else None,
        evidence="root exited 0 (seen by waitid)" if facts.has_ended else "shim 40 SAME",
        command=["work", "--hard"],
        cwd="/srv",
        tags={},
        wanted={"sample_interval_seconds": 1.0},
        created_at=at(-0.1),
        started_at=facts.started_at,
        ended_at=facts.ended_at,
        duration_seconds=1.0 if facts.started_at else None,
        attempts=[],
        wrappers=[],
        anomaly_count=facts.anomaly_count,
        log_bytes=0,
        **known,
    )
    return RunInfo(**fields)


def material(
    rows: list[dict[str, Any]] | None = None,
    events: tuple[LoggedEvent, ...] = (),
    *,
    anomalies: list[dict[str, Any]] | None = None,
    signals: list[dict[str, Any]] | None = None,
    looked_at: float = 1000.0,
    **known: Any,
) -> Material:
    """All that a report is made of. `known` replaces fields of the run's info."""
    run = info(events)
    return Material(
        run.replace(**known) if known else run,
        fold(events),
        events,
        tuple(rows or ()),
        tuple(anomalies or ()),
        tuple(signals or ()),
        at(looked_at),
    )


def seen(*args: Any, **named: Any) -> Snapshot:
    """The snapshot of such a material."""
    return snapshot(material(*args, **named))


HOSTILE = '<script>alert("x")</script>\x1b[31m\u202e\n| `` # --api-key=sk-1234567890abcdefghij'


def hostile() -> Snapshot:
    """A run in which everything that can be named is named by an enemy."""
    workload = {**identity(42), "comm": HOSTILE}
    events = happened(
        (
            0.2,
            Kind.WORKLOAD_RESOLVED,
            {
                "resolution": "resolved",
                "workload": workload,
                "wrappers": [workload],
                "why": HOSTILE,
            },
        ),
        (0.5, Kind.STOP_BEGUN, {"cause": "user", "detail": HOSTILE}),
        (0.6, Kind.FAULT, {"where": HOSTILE, "error": HOSTILE}),
        (3.0, Kind.ENDED, {"outcome": "failed", "evidence": HOSTILE}),
    )
    alarm = {"rule": HOSTILE, "severity": HOSTILE, "evidence": HOSTILE, "comm": HOSTILE}
    return seen(
        [sample(0.1, 5), sample(1.0, 9), sample(2.0, 8)],
        events,
        anomalies=[{**alarm, "token": token(42), "at": at(1.0), "boottime": BOOT + 1.0}],
        signals=[
            {"at": at(2.0), "boottime": BOOT + 2, "to": HOSTILE, "signal": HOSTILE, "why": HOSTILE}
        ],
        name=HOSTILE,
        evidence=HOSTILE,
        command=["sh", HOSTILE],
        cwd=HOSTILE,
        agent="<b>agent</b>",
        tags={HOSTILE: HOSTILE},
    )


def waves() -> Snapshot:
    """Gaps of two kinds, an anomaly, a stop and an end."""
    rows = [unresolved(0.0), unresolved(1.0)]
    rows += [sample(float(t), 10 * (t % 4), cpu=20.0 * (t % 3)) for t in range(2, 6)]
    rows += [nobody(6.0), sample(7.0, 10), sample(8.0, 0, cpu=0.0)]
    alarm = {"rule": "spin", "severity": "warning", "evidence": "busy for nothing"}
    stopped = (7.0, Kind.STOP_BEGUN, {"cause": "user", "detail": "asked by uid 0"})
    return seen(rows, happened((5.0, Kind.ANOMALY_FIRED, alarm), stopped, ended(8.0)))


def many_attempts() -> Snapshot:
    """A hundred starts."""
    starts = ((t, Kind.ATTEMPT_STARTED, {"attempt": t, "root": identity(t)}) for t in range(2, 101))
    return seen([sample(0.0, 30)], happened(*starts))


SCENES = {
    name: functools.cache(make)
    for name, make in {
        "waves": waves,
        "hostile": hostile,
        "empty": lambda: seen([], happened(ended(3.0))),
        "nothing known": lambda: seen(state=State.UNKNOWN, wanted=None, command=None, name=None),
        "one sample": lambda: seen([sample(1.0, 30)], happened(ended(2.0))),
        "one sample at once": lambda: seen([sample(0.0, 30)], happened()),
        "long": lambda: seen([sample(float(t), t % 977) for t in range(20_000)], happened()),
        "many attempts": many_attempts,
    }.items()
}


def text_of(found: Snapshot, width: int = 80, ink: Ink = UNICODE) -> list[str]:
    return text(document(found, BRIEF), width, ink)


def plot_of(found: Snapshot, width: int = 80, ink: Ink = UNICODE) -> list[str]:
    return text(charts_alone(found, BRIEF), width, ink, is_plotted=True)


def markdown_of(found: Snapshot, ink: Ink | None = None) -> str:
    return markdown(document(found, SHARED), ink)


def page_of(found: Snapshot) -> str:
    return page(document(found, FULL))
