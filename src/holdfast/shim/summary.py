"""The summary of an ended run: a few lines for those who read many runs. Pure.

Everything in it can be rebuilt from the spec and the events, and nothing depends on it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.run.facts import ProcessFacts, RunFacts
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
        "attempt": facts.attempt.number,
        "cleanup": facts.cleanup,
        "workload": _process(facts.attempt.workload),
        "workload_resolution": facts.attempt.resolution,
        "usage_of": list(facts.workloads),  # tokens: of several, the figures are the highest
        "identity_drifted": facts.identity_drifted,
        "usage": {**(ending.get("usage") or {}), **facts.usage},
        "anomaly_count": facts.anomaly_count,
        "last_output": ending.get("last_output"),
    }


def _process(workload: ProcessFacts | None) -> dict[str, Any] | None:
    """Which it was, without its arguments: those are in the spec."""
    if workload is None:
        return None
    identity = workload.identity
    return {"token": identity.token, "pid": identity.pid, "comm": workload.comm}
