"""What ends a run's record on another machine: remove, archive, and discard what it changed."""

from __future__ import annotations

from holdfast.fleet.reaching import ask_json
from holdfast.fleet.session import error_of
from holdfast.manage.removal.abandoned import Abandoned
from holdfast.manage.removal.archive import Archived
from holdfast.manage.removal.discarding import Discarded
from holdfast.manage.removal.remove import Removed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from holdfast.fleet.reaching import Answered
    from holdfast.fleet.remote import RemoteRun
    from holdfast.manage.operations import Steps

_SECONDS = 600.0


def remove(run: RemoteRun, stop: bool, force: bool, discard_worktree: bool) -> Steps[Removed]:
    """Remove an ended run from its node, and from the ledger."""
    flags = {"--stop": stop, "--force": force, "--discard-worktree": discard_worktree}
    words = ["rm", "--yes", run.id, *(flag for flag, wanted in flags.items() if wanted)]
    row = yield from _removed(run, words)
    abandoned = tuple(Abandoned.from_json(one) for one in row.get("abandoned") or ())
    return Removed(
        run.id,
        row.get("name"),
        int(row.get("freed_bytes") or 0),
        str(row.get("evidence") or ""),
        abandoned,
        tuple(row.get("given_up") or ()),
        tuple(row.get("older") or ()),
    )


def archive(run: RemoteRun) -> Steps[Archived]:
    """Pack an ended run on its node, and remove it there."""
    row = yield from _removed(run, ["archive", run.id])
    removed = Removed(run.id, row.get("name"), int(row.get("freed_bytes") or 0), "")
    return Archived(removed, str(row.get("path")), int(row.get("archive_bytes") or 0))


def discard(run: RemoteRun, dry_run: bool) -> Steps[Discarded]:
    """Give up what a worktree run changed."""
    words = ["discard", "--yes", run.id, *(["--dry-run"] if dry_run else [])]
    said = (yield from _ask(run, words)).document
    path, branch, given_up = said["path"], said["branch"], tuple(said["given_up"])
    return Discarded(run.id, said["name"], path, branch, given_up)


def _removed(run: RemoteRun, words: Sequence[str]) -> Steps[dict[str, Any]]:
    answered = yield from _ask(run, words)
    row: dict[str, Any] = answered.document["runs"][0]
    if row["error"] is not None:
        raise error_of({**row["error"], "exit_code": answered.code})
    run._fleet.ledger.forget(run.id)
    return row


def _ask(run: RemoteRun, words: Sequence[str]) -> Steps[Answered]:
    return ask_json(run._fleet, run.placement, words, seconds=_SECONDS)
