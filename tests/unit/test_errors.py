from __future__ import annotations

import json

import pytest

from holdfast.errors import AlreadyRunning, HoldfastError, NotFound, ProcessGone, Refused


def test_fields_read_as_attributes():
    error = AlreadyRunning("it lives", hint="stop it", identity="hf1.x", count=0)
    assert (error.identity, error.count) == ("hf1.x", 0)
    assert (str(error), error.message, error.hint) == ("it lives", "it lives", "stop it")


def test_a_field_that_was_not_given_is_an_attribute_error():
    with pytest.raises(AttributeError, match="AlreadyRunning has no 'identity'"):
        AlreadyRunning("it lives").identity  # noqa: B018
    assert not hasattr(AlreadyRunning("it lives"), "identity")


def test_half_built_errors_do_not_recurse():
    # copy and pickle ask for attributes before __init__ ran.
    blank = HoldfastError.__new__(HoldfastError)
    with pytest.raises(AttributeError):
        blank.anything  # noqa: B018


def test_an_error_is_caught_by_what_it_means():
    with pytest.raises(Refused):
        raise AlreadyRunning("it lives")
    with pytest.raises(NotFound):
        raise ProcessGone("it ended")


def test_to_json_is_the_documented_error_document():
    document = ProcessGone("no process 7", pid=7).to_json()
    assert json.loads(json.dumps(document)) == {
        "schema": 1,
        "error": {"code": "process-gone", "message": "no process 7", "hint": None},
    }
