"""Every endpoint beside its own description, with what fits it and with what does not."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import ignored_auth, positive_data_acceptance

from tests.support.serving import Served, serving

TRIES = settings(
    max_examples=6,  # of each endpoint
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
STREAMS = {"/events"}  # endless: test_V5_feed.py
# Tokens: test_V1_doors.py. A value may be refused though its type fits: a name that is in use.
UNASKED = [ignored_auth, positive_data_acceptance]
PARTS = 3  # a machine that is overloaded takes minutes for all of them
NAMES = ("none", "a" * 80)


def calls(served: Served, part: int) -> list[str]:
    """Tries each endpoint of that part; what did not fit."""
    described = served.get("/openapi.json")
    schema = schemathesis.openapi.from_dict(described, config=SchemathesisConfig())
    schema.config.update(base_url=f"{served.url}api/v1")
    every: list[Any] = list(schema.get_all_operations())
    operations = [found.ok() for found in every]
    tried = [one for one in operations if one.path not in STREAMS]
    assert len(tried) >= 24
    return [told for one in tried[part::PARTS] if (told := _try(served, one)) is not None]


def _try(served: Served, operation: Any) -> str | None:
    @TRIES
    @given(case=operation.as_strategy())
    def check(case: schemathesis.Case) -> None:
        query = dict(case.query or {})
        query.pop("follow", None)  # a stream ends with its run
        case.query = query
        if operation.path == "/runs" and isinstance(case.body, dict) and case.body.get("argv"):
            case.body["argv"] = ["true"]  # and nothing that a generator makes up
        answer = case.call(headers=served.bearer, timeout=30)
        case.validate_response(answer, excluded_checks=UNASKED)

    try:
        check()
    except Exception as error:  # noqa: BLE001 - all endpoints are tried, and all faults told
        return f"{operation.method} {operation.path}: {error}"[:2000]
    return None


@pytest.mark.parametrize("part", range(PARTS))
def test_every_endpoint_answers_as_its_schema_says(runs, part):
    runs.start(["sh", "-c", "echo hello"], name="one").wait()
    with serving("--allow-start") as served:
        wrong = calls(served, part)
        assert not wrong, "\n\n".join(wrong)


def test_bad_input_is_refused_at_every_endpoint(runs):
    runs.start(["sh", "-c", "echo hello"], name="one").wait()
    with serving("--allow-start") as served:
        paths = served.get("/openapi.json")["paths"]
        for path, methods in paths.items():
            for method, described in methods.items():
                if path in STREAMS:
                    continue
                for name in NAMES if "{ref}" in path else ("",):
                    answer = served.client.request(method, path.replace("{ref}", name))
                    assert answer.status_code in _expected(path, method), (path, name, answer.text)
                unknown = served.client.request(
                    method, path.replace("{ref}", "one"), params={"nonsense": "1"}
                )
                assert unknown.status_code == 400, (path, unknown.text)
                assert unknown.json()["error"]["code"] == "invalid-option"
                for parameter in described["parameters"]:
                    _try_bad(served, method, path.replace("{ref}", "one"), parameter)


def _expected(path: str, method: str) -> tuple[int, ...]:
    if "{ref}" in path:
        return (400, 404)
    return (400,) if method == "post" else (200,)


def _try_bad(served: Served, method: str, path: str, parameter: dict[str, Any]) -> None:
    if parameter["in"] != "query" or parameter["name"] in ("agent", "name", "tag", "find"):
        return  # any text will do
    answer = served.client.request(method, path, params={parameter["name"]: "\x1b[2J<x>"})
    assert answer.status_code == 400, (path, parameter["name"], answer.text)
    assert answer.json()["error"]["message"]
