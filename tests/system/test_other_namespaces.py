"""An identity of another PID namespace is never looked up by its number here."""

from __future__ import annotations

from holdfast.process.identity import ProcessIdentity
from tests.support.features import needs
from tests.support.kernel_lab import Place, run_in
from tests.system import namespace_scenes


def test_a_walk_from_another_namespace_does_not_enter_the_tree_of_a_stranger():
    needs("root", "pid_namespace")
    facts = run_in(Place(), namespace_scenes.walk_into_another_namespace)
    assert facts == {
        "number differs": True,
        "same inode": True,
        "met the stranger": False,
        "met its own child": True,
        "inner": "GONE",
        "inner child ended": True,
        "stranger untouched": True,
        "its child lives": True,
    }


def test_what_has_no_number_here_is_not_held():
    needs("root", "pid_namespace")
    ours = ProcessIdentity.current().token
    assert run_in(Place(), namespace_scenes.hold_of_another, token=ours) == "identity-unproven"
