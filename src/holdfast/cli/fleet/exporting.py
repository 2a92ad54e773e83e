"""`fleet export`: the facts of this home, or of the nodes named, into the ledger's database."""

from __future__ import annotations

from holdfast.cli.text import streams
from holdfast.errors import HoldfastError
from holdfast.fleet.export.exporting import Exporter
from holdfast.fleet.library import Fleet
from holdfast.manage.plaintext import printable
from holdfast.manage.runs import Runs
from holdfast.manage.together import run_together

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from holdfast.fleet.export.exporting import ExportedBatch

_DIFFER = 1  # the exit code when facts are not those that were exported before


def export(args: Namespace) -> int:
    """Until all is there, or, to follow, until interrupted."""
    with Fleet(Runs(notice=streams.notices(args.quiet))) as fleet:
        tellers = [_Teller(where, args) for where in args.on or [None]]
        exporters = [Exporter(fleet, one.where, one.tell, follow=args.follow) for one in tellers]
        results = run_together([one.steps() for one in exporters])
    if args.on is None and isinstance(results[0], HoldfastError):
        raise results[0]
    for teller, result in zip(tellers, results, strict=True):
        teller.finish(result)
    if args.json and not args.follow:
        streams.say_json({"schema": 1, "nodes": [one.document() for one in tellers]})
    return next((one.code for one in tellers if one.code), 0)


class _Teller:
    """What is said of one node."""

    def __init__(self, where: str | None, args: Namespace) -> None:
        self.where = where
        self.code = 0
        self._args = args
        self._node: dict[str, Any] = {"node": None, "hostname": None}
        self._events = 0
        self._runs: set[str] = set()
        self._conflicts: list[dict[str, Any]] = []
        self._error: dict[str, Any] | None = None

    def tell(self, done: ExportedBatch) -> None:
        """A batch is in the database."""
        self._node = {"node": done.node.node, "hostname": done.node.hostname}
        self._events += len(done.stored.added)
        self._runs.update(done.stored.added)
        self._warn(done)
        if self._args.follow:
            if self._args.json and (done.batch.events or done.batch.is_reread):
                streams.say_json({"schema": 1, **self.document()})
                streams.flush()
            self._events, self._runs, self._conflicts = 0, set(), []

    def _warn(self, done: ExportedBatch) -> None:
        host = done.node.hostname
        if done.batch.is_reread and not self._args.quiet:
            streams.complain(
                f"{host}: its home does not know how far it was exported: every fact is compared"
            )
        for run_id, fault in done.batch.damage.items():
            streams.warn(f"{host}: the events of run {run_id} are damaged: {fault}")
        for run_id in dict.fromkeys(run for run, _ in done.stored.conflicts):
            numbers = [seq for run, seq in done.stored.conflicts if run == run_id]
            self._conflicts.append({"run": run_id, "seqs": numbers})
            self.code = _DIFFER
            streams.warn(
                f"{host}: run {run_id} has other facts than it exported before, from"
                f" {numbers[0]} on: was this home restored from a copy?",
                "the first ones are kept, and flagged as conflict",
            )

    def finish(self, result: object) -> None:
        """All is done, or why it is not."""
        if isinstance(result, HoldfastError):
            self.code = result.exit_code
            self._error = result.to_json()["error"]
            if not self._args.json:
                streams.complain_of(result)
        elif not (self._args.json or self._args.quiet):
            events, runs = f"{self._events} new facts", f"{len(self._runs)} runs"
            streams.say(printable(f"{self._node['hostname']}: {events} of {runs}"))

    def document(self) -> dict[str, Any]:
        """What was stored, as JSON."""
        return {
            "on": self.where,
            **self._node,
            "events": self._events,
            "runs": len(self._runs),
            "conflicts": self._conflicts,
            "error": self._error,
        }
