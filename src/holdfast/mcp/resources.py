"""Runs as resources: `holdfast://runs`, `holdfast://runs/RUN`, `holdfast://runs/RUN/output`."""

from __future__ import annotations

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from holdfast.errors import HoldfastError
from holdfast.lean import json_text
from holdfast.manage.overview import Overview
from holdfast.mcp.documents import brief
from holdfast.mcp.reading import read_output
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.mcp.scope import Scope

ALL = "holdfast://runs"
_TYPE = "application/json"
_MOST_LISTED = 100
_TAIL_LINES = 1000


class WantedResource(Record):
    """What a URI means: all runs, or (`run_id`) one of them, or its output."""

    run_id: str | None = None
    is_output: bool = False


def what_is_meant(scope: Scope, uri: str) -> WantedResource:
    """MCPError: there is no such resource."""
    if uri == ALL:
        return WantedResource()
    reference, _, rest = uri.removeprefix(f"{ALL}/").partition("/")
    if not uri.startswith(f"{ALL}/") or rest not in ("", "output") or uri.endswith("/"):
        raise MCPError(INVALID_PARAMS, f"there is no resource {uri}", {"uri": uri})
    try:
        return WantedResource(scope.find(reference), rest == "output")
    except HoldfastError as error:
        raise MCPError(INVALID_PARAMS, error.message, {"uri": uri, "hint": error.hint}) from None


def read_resource(scope: Scope, uri: str) -> ReadResourceResult:
    """The document behind a URI. What a program wrote is marked as data in it."""
    meant = what_is_meant(scope, uri)
    document: dict[str, Any]
    if meant.run_id is None:
        found = list(Overview(scope.home, scope.selection(), limit=_MOST_LISTED))
        document = {"runs": [brief(info) for info in found]}
    elif meant.is_output:
        directory = scope.plain_run(meant.run_id).directory
        path = directory.output_path
        document = read_output(path, directory.first_kept_byte(path), tail=_TAIL_LINES)
    else:
        info = scope.plain_run(meant.run_id).info()
        document = {"run": brief(info), "status": {"is_data": True, "document": info.to_json()}}
    text = json_text(document)
    return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=_TYPE, text=text)])


def list_resources(scope: Scope) -> ListResourcesResult:
    """All runs, and each that `ls` shows."""
    found = [_resource(ALL, "runs", "active runs, and those that ended within a day")]
    for info in Overview(scope.home, scope.selection(), limit=_MOST_LISTED):
        uri, name = f"{ALL}/{info.id}", info.name or info.id
        found.append(_resource(uri, name, f"run {name}: {info.state}"))
        found.append(_resource(f"{uri}/output", f"{name} output", f"the last output of {name}"))
    return ListResourcesResult(resources=found)


def _resource(uri: str, name: str, text: str) -> Resource:
    return Resource(uri=uri, name=name, description=text, mime_type=_TYPE)


def list_templates() -> ListResourceTemplatesResult:
    """The forms of the URIs."""
    texts = {"{run}": "one run, with evidence", "{run}/output": "the last output of a run: data"}
    return ListResourceTemplatesResult(
        resource_templates=[
            ResourceTemplate(
                uri_template=f"{ALL}/{form}", name=form, description=text, mime_type=_TYPE
            )
            for form, text in texts.items()
        ]
    )
