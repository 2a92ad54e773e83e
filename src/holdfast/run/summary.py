"""The summary of an ended run: a few lines for those who read many runs. Pure.

Everything in it can be rebuilt from the spec and the events, and nothing depends on it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.run.facts import RunFacts
    from holdfast.run.spec import RunSpec


def summarise(spec: RunSpec, facts: RunFacts) -> dict[str, Any]:
    """What summary.json holds; secrets are replaced, as everywhere but in the spec."""
    ending = facts.ending or {}
    return {
        "schema": 1,
        "id": spec.id,
        "name": spec.name,
        "command": spec.public_command,
        "cwd": spec.cwd,
        "agent": spec.agent,
        "tags": spec.tags,
        "created_at": spec.created_at,
        "started_at": facts.started_at,
        "ended_at": facts.ended_at,
        "outcome": facts.outcome,
        "exit_code": ending.get("exit_code"),
        "signal": ending.get("signal"),
        "ended_by": ending.get("ended_by"),
        "loss": facts.loss,
        "vouched": facts.vouched,
        "stop_reason": facts.stop_reason,
        "evidence": ending.get("evidence"),
        "attempt": facts.attempt,
        "cleanup": facts.cleanup,
        "workload": _process(facts.workload),
        "workload_resolution": facts.resolution,
        "usage_of": list(facts.workloads),  # tokens: of several, the figures are the highest
        "identity_drifted": facts.identity_drifted,
        "usage": {**(ending.get("usage") or {}), **facts.usage},
        "anomaly_count": facts.anomaly_count,
    }


def _process(workload: dict[str, Any] | None) -> dict[str, Any] | None:
    """Who it was, without what it was told: arguments are in the spec."""
    if workload is None:
        return None
    return {name: workload.get(name) for name in ("token", "pid", "comm")}
