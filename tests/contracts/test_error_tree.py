"""The tree of errors: drawn in the docstring, frozen here, and each keeps its promises."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from typing import Any

import pytest

from holdfast import errors
from holdfast.errors import HoldfastError

EXIT_CODES = {1, 2, 3, 4, 6, 70}

# name: (parent, code, exit code). Programs rely on these: add to it, change nothing.
TREE = {
    "HoldfastError": ("Exception", "error", 1),
    "WrongUse": ("HoldfastError", "wrong-use", 2),
    "InvalidToken": ("WrongUse", "invalid-token", 2),
    "InvalidPid": ("WrongUse", "invalid-pid", 2),
    "InvalidPidFile": ("WrongUse", "invalid-pid-file", 2),
    "InvalidName": ("WrongUse", "invalid-name", 2),
    "InvalidOption": ("WrongUse", "invalid-option", 2),
    "InvalidProfile": ("WrongUse", "invalid-profile", 2),
    "WrongType": ("WrongUse", "wrong-type", 2),
    "NotFound": ("HoldfastError", "not-found", 3),
    "ProcessGone": ("NotFound", "process-gone", 3),
    "RunNotFound": ("NotFound", "run-not-found", 3),
    "Refused": ("HoldfastError", "refused", 4),
    "AlreadyRunning": ("Refused", "already-running", 4),
    "StillAlive": ("Refused", "still-alive", 4),
    "IdentityUnproven": ("Refused", "identity-unproven", 4),
    "UnsafeFile": ("Refused", "unsafe-file", 4),
    "NoStdin": ("Refused", "no-stdin", 4),
    "LaterVersion": ("Refused", "later-version", 4),
    "DamagedRecord": ("Refused", "damaged-record", 4),
    "Unavailable": ("HoldfastError", "unavailable", 6),
    "HomeUnusable": ("Unavailable", "home-unusable", 6),
    "ProcessUnreadable": ("Unavailable", "process-unreadable", 6),
    "LockBusy": ("Unavailable", "lock-busy", 6),
    "NoAnswer": ("Unavailable", "no-answer", 6),
    "LeftToEngine": ("Unavailable", "left-to-engine", 6),
    "OtherNode": ("Unavailable", "other-node", 6),
    "Failed": ("HoldfastError", "failed", 1),
    "Bug": ("HoldfastError", "bug", 70),
}

DEFINED: list[Any] = [
    value
    for value in vars(errors).values()
    if inspect.isclass(value) and issubclass(value, BaseException)
]
every_error = pytest.mark.parametrize("kind", DEFINED, ids=lambda kind: kind.__name__)

DRAWN = re.compile(r"^([│ ]*)[├└]── ([A-Z]\w+(?:, [A-Z]\w+)*)", re.MULTILINE)


def drawn_tree(docstring: str) -> dict[str, str]:
    """name: parent, as the docstring draws it."""
    parents = {"HoldfastError": "Exception"}
    branch = ""
    for indent, names in DRAWN.findall(docstring):
        for name in names.split(", "):
            parents[name] = branch if indent else "HoldfastError"
        if not indent:
            branch = names
    return parents


def drawn_exit_codes(docstring: str) -> dict[str, int]:
    return {name: int(code) for name, code in re.findall(r"── (\w+) \(exit (\d+)\)", docstring)}


def test_the_tree_is_frozen():
    assert {
        kind.__name__: (kind.__base__.__name__, kind.code, kind.exit_code) for kind in DEFINED
    } == TREE


def test_the_docstring_draws_the_tree():
    assert errors.__doc__ is not None
    assert drawn_tree(errors.__doc__) == {name: parent for name, (parent, _, _) in TREE.items()}
    assert drawn_exit_codes(errors.__doc__) == {
        name: exit_code
        for name, (parent, _, exit_code) in TREE.items()
        if parent == "HoldfastError"
    }


def test_codes_are_unique():
    assert len({kind.code for kind in DEFINED}) == len(DEFINED)


@every_error
def test_code_and_exit_code_are_of_the_contract(kind):
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", kind.code)
    assert kind.exit_code in EXIT_CODES
    assert kind.__doc__


@every_error
@pytest.mark.parametrize("again", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy])
def test_it_keeps_its_fields_when_pickled_or_copied(kind, again):
    error = kind("what happened", hint="what to do", pid=7, seen=["a", None])
    back = again(error)
    assert type(back) is kind
    assert str(back) == "what happened"
    assert (back.hint, back.pid, back.seen) == ("what to do", 7, ["a", None])
    assert back.to_json() == error.to_json()


def test_nobody_else_defines_errors():
    assert HoldfastError.__subclasses__() == [
        kind for kind in DEFINED if kind.__base__ is HoldfastError
    ]
