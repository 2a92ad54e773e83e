"""The API's description, as `GET openapi.json` has it: what each path takes and answers."""

from __future__ import annotations

from holdfast import __version__
from holdfast.manage.info import RunInfo
from holdfast.manage.usage.totals import BY
from holdfast.run.facts import State
from holdfast.run.outcomes import Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.web.settings import ServeSettings

    Json = dict[str, Any]

_REF = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
_DURATION = "^[0-9]{1,4}[smhd]$"
_TEXT: Json = {"type": "string"}
_FLAG: Json = {"type": "string", "enum": ["0", "1", "true", "false"]}
_TIME: Json = {
    "anyOf": [
        {"type": "string", "pattern": _DURATION},
        {"type": "number", "minimum": 0, "maximum": 1e6},
    ]
}
_SCHEMA: Json = {"type": "integer", "const": 1}
_ANY: Json = {}


def openapi(settings: ServeSettings) -> Json:
    """Of this server: one that only shows has nothing that acts."""
    paths = {**_reading(), **({} if settings.is_read_only else _ending())}
    if not settings.is_read_only:
        paths["/runs"]["post"] = _operation(
            "start a run", {"201": _run()}, body=_body(_START, required=True)
        )
        paths["/runs/{ref}"]["delete"] = _operation(
            "remove an ended run",
            {"200": _document({"id": _TEXT, "removed": {"type": "object"}})},
            [_ref(), _query("stop", _FLAG), _query("force", _FLAG)],
        )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": __version__,
            "description": "Runs, and what is known about them. docs/serve.md explains it.",
        },
        "servers": [{"url": "/api/v1"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": _ERROR, "Run": _run_schema()},
        },
    }


def _reading() -> Json:
    one = [_ref()]
    texts = {"type": "array", "items": _TEXT}
    objects = {"type": "array", "items": {"type": "object"}}
    selectors = [
        _query("state", _several(State)),
        _query("outcome", _several(Outcome)),
        _query("agent", texts),
        _query("name", texts),
        _query("tag", {"type": "array", "items": {"type": "string", "pattern": "^[^=]"}}),
        _query("since", {"type": "string", "pattern": _DURATION}),
        _query("active", _FLAG),
        _query("fleet", _FLAG),
        _query("limit", {"type": "integer", "minimum": 1, "maximum": 1000}),
        _query("cursor", {"type": "string", "pattern": "^[0-9a-hjkmnp-tv-z]{20}$"}),
    ]
    byte = {"type": "integer", "minimum": 0, "maximum": 1 << 62}
    output = [
        *one,
        _query("since_byte", byte),
        _query("tail", {"type": "integer", "minimum": 0, "maximum": 100_000}),
        _query("limit", {"type": "integer", "minimum": 1, "maximum": 8 << 20}),
        _query("find", {"type": "string", "minLength": 1, "maxLength": 200}),
        _query("follow", _FLAG),
        _query("stderr", _FLAG),
        _query("pretty", _FLAG),
    ]
    bytes_or_more = {
        "200": {
            "description": "bytes; with follow, server-sent events; with find, the lines found",
            "content": {
                "application/octet-stream": {},
                "text/event-stream": {},
                "application/json": {"schema": {"type": "object", "required": ["hits"]}},
            },
        }
    }
    stream = {"200": {"description": "server-sent events", "content": {"text/event-stream": {}}}}
    charts = {"charts": objects, "marks": objects, "unmeasured": objects, "anomalies": objects}
    events = {"id": _TEXT, "events": objects}
    most_events = {"type": "integer", "minimum": 1, "maximum": 10_000}
    sums = {"total": {"type": "object"}, "by": _ANY}
    last = {"name": "last-event-id", "in": "header", "schema": _TEXT}
    screen = {
        "rows": {"type": "integer"},
        "columns": {"type": "integer"},
        "lines": {"type": "array"},
    }
    page = {"runs": {"type": "array", "items": _RUN}, "next": {"type": ["string", "null"]}}
    about = {
        "tree": ("its processes", {"id": _TEXT, "processes": objects, "inner": objects}),
        "samples": ("what it used over time", charts),
        "signals": ("signals sent and refused", {"id": _TEXT, "signals": objects}),
        "report": ("all of a report", {"run": _RUN, **charts}),
        "screen": ("the screen of a terminal run", screen),
    }
    return {
        "/runs": {"get": _operation("runs, newest first", {"200": _document(page)}, selectors)},
        "/runs/{ref}": {"get": _operation("all that is known", {"200": _run()}, one)},
        "/runs/{ref}/output": {"get": _operation("its output", bytes_or_more, output)},
        "/runs/{ref}/events": {
            "get": _operation(
                "its facts",
                {"200": _document(events)},
                [*one, _query("since", _TEXT), _query("limit", most_events)],
            )
        },
        **{
            f"/runs/{{ref}}/{name}": {"get": _operation(text, {"200": _document(parts)}, one)}
            for name, (text, parts) in about.items()
        },
        "/queues": {"get": _operation("waiting work", {"200": _document({"queues": objects})})},
        "/usage": {
            "get": _operation(
                "tokens, cost, CPU time",
                {"200": _document(sums)},
                [
                    _query("since", {"type": "string", "pattern": _DURATION}),
                    _query("by", {"type": "string", "enum": list(BY)}),
                ],
            )
        },
        "/events": {"get": _operation("rows and facts as they change", stream, [last])},
        "/health": {"get": _operation("this server", {"200": _document({"version": _TEXT})})},
        "/openapi.json": {"get": _operation("this document", {"200": _object({"openapi": _TEXT})})},
    }  # fmt: skip


def _ending() -> Json:
    """What acts on one run."""
    texts = {
        "stop": ("stop its whole tree", {"grace": _TIME, "signal": _TEXT}),
        "pause": ("stop its processes where they are", {}),
        "unpause": ("continue them", {}),
        "resume": ("go on with its agent's session", {"prompt": _TEXT}),
        "rerun": ("the same command again", {}),
        "recover": ("adopt it, or record its end", {}),
        "send": ("write to its stdin", {"text": _TEXT, "base64": _TEXT}),
        "approve": ("let its agent do what it asks", {"id": _TEXT}),
        "deny": ("refuse it", {"id": _TEXT, "message": {"type": "string", "maxLength": 1000}}),
    }
    paths = {
        f"/runs/{{ref}}/{verb}": {
            "post": _operation(
                text,
                {"200": _document({})},
                [_ref()],
                _body({"type": "object", "properties": known, "additionalProperties": False}),
            )
        }
        for verb, (text, known) in texts.items()
    }
    limits = _body({"type": "object"}, required=True)
    paths["/runs/{ref}/adjust"] = {
        "post": _operation("change its limits", {"200": _document({})}, [_ref()], limits)
    }
    return paths


_START: Json = {
    "type": "object",
    "required": ["argv"],
    "properties": {
        "argv": {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1}},
        "name": {"type": ["string", "null"]},
        "key": {"type": ["string", "null"]},
        "cwd": {"type": ["string", "null"]},
        "tags": {"type": ["object", "null"], "additionalProperties": _TEXT},
        "replace": {"type": "boolean"},
        "pty": {"type": "boolean"},
    },
}
_RUN: Json = {"$ref": "#/components/schemas/Run"}
_ERROR: Json = {
    "type": "object",
    "required": ["schema", "error"],
    "properties": {
        "schema": _SCHEMA,
        "error": {
            "type": "object",
            "required": ["code", "message", "hint"],
            "properties": {"code": _TEXT, "message": _TEXT, "hint": {"type": ["string", "null"]}},
        },
    },
}
_ERRORS = {
    "400": "wrong use",
    "401": "no token",
    "403": "another origin",
    "404": "no such run",
    "405": "not with this method",
    "408": "too slow",
    "409": "refused: it would be wrong, or can't be proven right",
    "413": "too large",
    "421": "another host",
    "500": "it failed",
    "503": "not now",
}


def _run_schema() -> Json:
    return {
        "type": "object",
        "required": list(RunInfo._fields),
        "properties": {
            "schema": _SCHEMA,
            "id": _TEXT,
            "state": {"type": "string", "enum": [*State]},
            "outcome": {"enum": [*Outcome, None]},
            "evidence": _TEXT,
            "tags": {"type": "object", "additionalProperties": _TEXT},
            "placement": {
                "type": ["object", "null"],
                "description": "of a run that was placed from another machine, or on one",
            },
            "shown": {
                "type": "object",
                "description": "of one run: the words of `status`; `refusals`: for each action why"
                " it can't be done now, empty where nothing speaks against it",
            },
        },
    }


def _operation(
    summary: str, answers: Json, parameters: list[Json] | None = None, body: Json | None = None
) -> Json:
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    errors = {code: {"description": said, "content": error} for code, said in _ERRORS.items()}
    more = {} if body is None else {"requestBody": body}
    return {
        "summary": summary,
        "parameters": parameters or [],
        "responses": {**answers, **errors},
        **more,
    }


def _object(properties: Json) -> Json:
    schema = {"type": "object", "required": list(properties), "properties": properties}
    return {"description": "ok", "content": {"application/json": {"schema": schema}}}


def _document(properties: Json) -> Json:
    return _object({"schema": _SCHEMA, **properties})


def _run() -> Json:
    return {"description": "a run", "content": {"application/json": {"schema": _RUN}}}


def _body(schema: Json, *, required: bool = False) -> Json:
    return {"required": required, "content": {"application/json": {"schema": schema}}}


def _ref() -> Json:
    about = "a name, an id, or the beginning of an id"
    schema = {"type": "string", "pattern": _REF}
    return {"name": "ref", "in": "path", "required": True, "description": about, "schema": schema}


def _query(name: str, schema: Json) -> Json:
    return {"name": name, "in": "query", "required": False, "schema": schema}


def _several(words: type[State | Outcome]) -> Json:
    return {"type": "array", "items": {"type": "string", "enum": [*words]}}
