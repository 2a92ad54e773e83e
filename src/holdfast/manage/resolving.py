"""Which process is the workload while no look at the tree is recorded yet: a run's first moments.

A reader may tell for itself that the root is, or was, no wrapper: by the shim's own rules.
Whatever needs more than one look is `unresolved`: a wrapper is never shown as the workload.
"""

from __future__ import annotations

from holdfast.process.workload.decision import resolve
from holdfast.process.workload.finder import read_process
from holdfast.process.workload.resolution import ResolutionKind
from holdfast.run.facts import ProcessFacts
from holdfast.run.redaction import redact_argv

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.process.identity import ProcessIdentity
    from holdfast.process.workload.programs import Program
    from holdfast.run.facts import RunFacts
    from holdfast.run.spec import RunSpec


def with_workload(spec: RunSpec, facts: RunFacts) -> RunFacts:
    """The facts, with what can be said about the workload where nothing is recorded."""
    latest = facts.attempt
    if latest.resolution is not None or latest.root is None or latest.exec_failure is not None:
        return facts
    found = None
    # A name or a profile decides otherwise than the structure.
    if latest.is_exec_confirmed and spec.wanted.workload is None and spec.agent is None:
        found = _root_itself(latest.root, spec.command)
    if found is None:
        unresolved = latest.replace(resolution=ResolutionKind.UNRESOLVED.value)
        return facts.replace(attempt=unresolved)
    cmdline = tuple(redact_argv(found.cmdline))
    workload = ProcessFacts(found.identity, found.comm, found.exe, cmdline, found.state.value)
    direct = latest.replace(resolution=ResolutionKind.DIRECT.value, workload=workload)
    return facts.replace(attempt=direct)


def _root_itself(root: ProcessIdentity, command: tuple[str, ...]) -> Program | None:
    """The root where it is the workload; one that is gone is judged by its command."""
    program = read_process(root)
    if program is None and not root.look().is_gone:
        return None
    return resolve(root, [] if program is None else [program], command=command).workload
