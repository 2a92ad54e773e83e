"""What a state means stands in one table: no file keeps a list of states of its own."""

from __future__ import annotations

import ast

import pytest

from holdfast.run.facts import _MEANINGS, STATES_IN_ORDER, Phase, State
from tests.support.sources import package_sources


def groups(source: str) -> list[int]:
    """The lines with a tuple, list or set that names two states or more."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            named = [
                one
                for one in node.elts
                if isinstance(one, ast.Attribute)
                and isinstance(one.value, ast.Name)
                and one.value.id == "State"
            ]
            if len(named) > 1:
                found.append(node.lineno)
    return found


def test_no_file_groups_states():
    found = {name: groups(text) for name, text in package_sources().items()}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "planted",
    [
        "_LIVE = (State.RUNNING, State.ORPHANED)",
        "def f(info):\n    return info.state in [State.ENDED, State.UNKNOWN]",
        "_LIVE = frozenset({State.RUNNING, State.STOPPING})",
    ],
)
def test_the_check_can_fail(planted):
    assert len(groups(planted)) == 1


def test_every_state_has_a_row():
    assert set(_MEANINGS) == set(State)
    assert len(STATES_IN_ORDER) == len(State)


@pytest.mark.parametrize("state", State)
def test_the_meanings_of_a_state_agree_with_each_other(state):
    # What is over holds nothing; what is alive is not over; a supervised run has its name.
    assert state.is_active or not (state.holds_name or state.is_under_way or state.needs_recovery)
    assert state.holds_name or not (state.is_supervised or state.is_under_way)
    assert not (state.is_supervised and state.needs_recovery)


@pytest.mark.parametrize("phase", Phase)
def test_a_run_whose_lock_is_held_is_supervised_until_it_has_ended(phase):
    """Its state is its phase: `queued` is no exception, since a shim waits for it."""
    assert State(phase.value).is_supervised is (phase is not Phase.ENDED)
