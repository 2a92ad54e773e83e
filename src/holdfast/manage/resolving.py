"""Who the workload is while no look at the tree is recorded yet: the first moments of a run.

A reader may tell for itself that the root is, or was, no wrapper: by the shim's own rules.
Whatever needs more than one look is `unresolved`: a wrapper is never shown as the workload.
"""

from __future__ import annotations

from holdfast.process.finder import read_process
from holdfast.process.identity import ProcessIdentity
from holdfast.process.resolution import Kind
from holdfast.process.workload import resolve
from holdfast.run.redaction import redact_argv

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.process.programs import Program
    from holdfast.run.facts import RunFacts
    from holdfast.run.spec import RunSpec


def with_workload(spec: RunSpec, facts: RunFacts) -> RunFacts:
    """The facts, with what can be said about the workload where nothing is recorded."""
    if facts.resolution is not None or facts.root is None or facts.exec_failure is not None:
        return facts
    found = None
    # A name or a profile decides otherwise than the structure.
    if facts.is_exec_confirmed and spec.wanted.workload is None and spec.agent is None:
        found = _root_itself(ProcessIdentity.from_json(facts.root), spec.command)
    if found is None:
        return facts.replace(resolution=Kind.UNRESOLVED.value)
    workload = {**found.to_json(), "cmdline": redact_argv(found.cmdline)}
    return facts.replace(resolution=Kind.DIRECT.value, workload=workload)


def _root_itself(root: ProcessIdentity, command: tuple[str, ...]) -> Program | None:
    """The root where it is the workload; one that is gone is judged by what it was told to be."""
    program = read_process(root)
    if program is None and not root.look().is_gone:
        return None
    return resolve(root, [] if program is None else [program], command=command).workload
