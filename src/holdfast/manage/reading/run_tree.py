"""The processes of a run as one document, alike in every interface."""

from __future__ import annotations

from holdfast.manage.info import read_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.manage.processes import Processes
    from holdfast.run.directory import RunDirectory

    Json = dict[str, Any]


def inner_runs(directory: RunDirectory) -> list[Json]:
    """Those that were started inside it and are not removed."""
    inner = directory.inner_runs()
    infos = [read_run(one, closely=False) for one in inner if one.exists()]
    return [{"id": info.id, "name": info.name, "state": info.state.value} for info in infos]


def tree_document(directory: RunDirectory, found: Processes, inner: list[Json]) -> Json:
    """The document of `tree --json`."""
    suspects = None if found.suspects is None else [one.to_json() for one in found.suspects]
    return {
        "schema": 1,
        "id": directory.id,
        "processes": [one.to_json() for one in found.members],
        "suspects": suspects,
        "gone": found.gone,
        "inner": inner,
    }
