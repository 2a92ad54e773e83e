"""What submitter and node say to each other, what the ledger may keep, what WHERE means."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import AlreadyRunning, InvalidOption, InvalidProfile, Refused, WrongUse
from holdfast.fleet.channel import Unwrapping
from holdfast.fleet.node import MARK, marked
from holdfast.fleet.placement import NodeFacts, Resources
from holdfast.fleet.request import FleetRequest, take_resources
from holdfast.fleet.session import check_version, error_of
from holdfast.fleet.settings import check_settings, target_of

SECRET = "hunter2-do-not-store"


def unwrapped(pieces: list[bytes]) -> tuple[bytes, list[dict]]:
    unwrapping, output, said = Unwrapping(), b"", []
    found = [one for data in pieces for one in unwrapping.feed(data)] + unwrapping.finish()
    for piece in found:
        output += piece.data
        said += [] if piece.said is None else [piece.said]
    return output, said


@given(
    st.lists(st.one_of(st.binary(max_size=40), st.just(b"\0"), st.just(MARK[:5])), max_size=6),
    st.lists(st.integers(0, 400), max_size=8),
)
def test_output_comes_through_unchanged_however_it_is_cut(parts, cuts):
    lines = [{"n": number} for number in range(len(parts))]
    # A part that ends with the beginning of a mark would join with the mark after it.
    whole = b"".join(part + b"|" + marked(line) for part, line in zip(parts, lines, strict=True))
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    pieces = [whole[a:b] for a, b in itertools.pairwise(places)]
    assert unwrapped(pieces) == (b"".join(part + b"|" for part in parts), lines)


def test_a_line_is_passed_on_at_once_and_nothing_waits_for_what_may_follow():
    unwrapping = Unwrapping()
    assert [piece.data for piece in unwrapping.feed(b"progress 10%\r")] == [b"progress 10%\r"]
    assert [piece.data for piece in unwrapping.feed(b"a\0b")] == [b"a\0b"]


def test_the_ledger_gets_no_secret_and_says_that_something_is_missing():
    options = {"env": {"TOKEN": SECRET}, "stdin": SECRET.encode(), "notify": f"x --token={SECRET}"}
    request = FleetRequest.start(["curl", "--token", SECRET], options, Resources(cpus=2))
    assert SECRET not in json.dumps(request.public())
    assert not request.is_public
    assert request.keywords()["stdin"] == SECRET.encode()
    assert FleetRequest.from_json(json.loads(json.dumps(request.to_json()))) == request


def test_a_request_without_secrets_can_be_started_from_the_ledgers_copy():
    options = {"cwd": "/work", "timeout": "10m", "tags": {"a": "b"}, "pty": True}
    request = FleetRequest.start(["make", "all"], options, Resources())
    assert request.is_public
    assert FleetRequest.from_json(request.public()) == request


@pytest.mark.parametrize("options", [{"timeout": "soon"}, {"grace": -1}, {"tags": "x"}])
def test_a_mistake_is_told_before_anything_is_placed(options):
    with pytest.raises(InvalidOption):
        FleetRequest.start(["true"], options, Resources())


@pytest.mark.parametrize("name", ["cwd", "secret_env_file", "stdin", "worktree"])
def test_a_path_is_the_nodes_and_not_looked_for_here(name):
    FleetRequest.start(["true"], {name: "/nowhere/here"}, Resources())


def test_what_is_to_be_set_aside_needs_a_place():
    with pytest.raises(WrongUse, match="cpus is about runs on other machines"):
        take_resources({"cpus": 2})
    with pytest.raises(InvalidOption, match="cpus: '0'"):
        take_resources({"on": "slurm", "cpus": "0"})
    options = {"on": "slurm", "cpus": "2", "needs_memory": "1G", "name": "a"}
    assert take_resources(options) == ("slurm", Resources(2, 1 << 30, None))
    assert options == {"name": "a"}


def test_memory_is_set_aside_by_the_engine_and_waited_for_in_the_nodes_queue():
    options: dict[str, Any] = {"on": "slurm", "needs_memory": "1G", "queue": "q"}
    assert take_resources(options) == ("slurm", Resources(None, 1 << 30, None))
    assert options == {"needs_memory": "1G", "queue": "q"}
    options = {"on": "slurm", "needs_memory": "auto", "queue": "q"}
    assert take_resources(options) == ("slurm", Resources())
    assert options == {"needs_memory": "auto", "queue": "q"}
    with pytest.raises(InvalidOption, match="needs_memory: 'auto' is not a size"):
        take_resources({"on": "slurm", "needs_memory": "auto"})


def facts(**changes: Any) -> NodeFacts:
    known: dict[str, Any] = {
        "version": "0.0.9",
        "protocol": 1,
        "options": ("timeout", "cwd"),
        **changes,
    }
    return NodeFacts("n", "0035969e", "build1", None, "/home", **known)


def test_F9_a_node_of_another_version_is_told_before_a_start():
    check_version(facts(), "ssh:build1", ["timeout"])
    with pytest.raises(Refused, match=r"0\.0\.9, which does not know silence_timeout"):
        check_version(facts(), "ssh:build1", ["timeout", "silence_timeout"])
    with pytest.raises(Refused, match="protocol 2 and not 1"):
        check_version(facts(protocol=2), "ssh:build1", [])


def test_what_a_later_node_says_beyond_what_is_known_is_left_out():
    later = {**facts().to_json(), "shoe_size": 44}
    assert NodeFacts.from_json(later) == facts()


def test_an_error_of_a_node_is_the_same_error_here():
    told = {**AlreadyRunning("a is running", hint="stop it").to_json()["error"], "exit_code": 4}
    error = error_of(told)
    assert (type(error), error.exit_code, error.hint) == (AlreadyRunning, 4, "stop it")
    assert error_of({"code": "of-a-later-version", "message": "no", "exit_code": 6}).exit_code == 6


ENGINES = {"build1": {"kind": "ssh", "command": "~/bin/holdfast"}, "big": {"kind": "slurm"}}


@pytest.mark.parametrize(
    ("where", "kind", "name"),
    [
        ("ssh:build1", "ssh", "build1"),
        ("build1", "ssh", "build1"),
        ("ssh:me@10.0.0.7", "ssh", "me@10.0.0.7"),
        ("slurm", "slurm", ""),
        ("slurm:long", "slurm", "long"),
        ("big", "slurm", ""),
        ("ray", "ray", ""),
    ],
)
def test_what_where_means(where, kind, name):
    target = target_of(where, check_settings("config.toml", {"engine": ENGINES}))
    assert (target.kind, target.name) == (kind, name)


@pytest.mark.parametrize("where", ["", "ssh", "ssh:", "moon:1", "ssh:-oProxyCommand=x", "nowhere"])
def test_what_is_no_place(where):
    with pytest.raises(InvalidOption, match="is no place to run something"):
        target_of(where, check_settings("config.toml", {}))


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ({"shoe": 1}, "fleet.shoe"),
        ({"ledger": 3}, "fleet.ledger"),
        ({"ledger": "mysql://x"}, "fleet.ledger"),
        ({"ledger": "postgresql://me:secret@db/x"}, "fleet.ledger"),
        ({"engine": {"a": {"kind": "moon"}}}, "fleet.engine.a.kind"),
        ({"engine": {"a": {"kind": "ssh", "port": 1}}}, "fleet.engine.a.port"),
        ({"engine": {"a": {"kind": "ssh", "options": "x"}}}, "fleet.engine.a.options"),
        ({"engine": {"a": {"kind": "ssh", "answer": "soon"}}}, "fleet.engine.a.answer"),
        ({"engine": {"a": 1}}, "fleet.engine.a"),
        ({"engine": 1}, "fleet.engine"),
    ],
)
def test_a_mistake_in_the_table_is_named(table, key):
    with pytest.raises(InvalidProfile) as mistake:
        check_settings("config.toml", table)
    assert mistake.value.key == key
