from __future__ import annotations

import json

import pytest

from holdfast.errors import DamagedRecord, InvalidName, InvalidOption, LaterVersion
from holdfast.manage.starting.option_values import check_wanted
from holdfast.options import Wanted
from holdfast.run import names
from holdfast.run.checked_json import CHECKS
from holdfast.run.names import check_name, default_name, new_id, valid_name
from holdfast.run.spec import RunSpec
from holdfast.run.units import parse_duration, parse_size


def a_spec(**changes) -> RunSpec:
    spec = RunSpec(
        id=new_id(),
        name="fix-412",
        host="0123abcd",
        command=("claude", "-p", "do it"),
        cwd="/tmp",
        env={"PATH": "/bin", "ODD": "\udcff"},
        agent="claude",
        tags={"team": "a"},
        key=None,
        pty=False,
        wanted=Wanted(timeout_seconds=90.0),
        created_at="2026-11-15T18:00:00.123456Z",
        launcher={"pid": 1, "token": "hf1.1"},
    )
    return spec.replace(**changes)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("10m", 600),
        ("1h30m", 5400),
        ("2d", 172800),
        ("0.5s", 0.5),
        ("0.25", 0.25),
        ("500ms", 0.5),
        ("1d2h3m4s5ms", 93784.005),
        ("0", 0),
    ],
)
def test_a_duration_is_read_as_written(text: str, seconds: float):
    assert parse_duration(text) == pytest.approx(seconds)


BAD_DURATIONS = ["", " ", "-1", "-1s", "1x", "s", "1m1h", "1h1h", "1 h", "1e3", "nan", "inf", "٣s"]


@pytest.mark.parametrize("text", [*BAD_DURATIONS, "9" * 5000, "99999999999d", "1.", ".5", "0x10"])
def test_a_duration_that_makes_no_sense_is_refused(text: str):
    with pytest.raises(InvalidOption) as refusal:
        parse_duration(text, "--timeout")
    assert (refusal.value.option, refusal.value.value) == ("--timeout", text)


@pytest.mark.parametrize(
    ("text", "meant"),
    [("5min", "5m"), ("2 hours", "2h"), ("1 day", "1d"), ("1hour 30 minutes", "1h30m")],
)
def test_a_duration_in_other_words_is_answered_with_the_right_ones(text: str, meant: str):
    with pytest.raises(InvalidOption) as caught:
        parse_duration(text)
    assert caught.value.hint == f"did you mean {meant}?"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4096),
        ("512M", 512 << 20),
        ("2G", 2 << 30),
        ("1.5k", 1536),
        ("1KiB", 1024),
        ("7b", 7),
    ],
)
def test_a_size_is_read_in_binary_units(text: str, size: int):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "-1", "1X", "M", "1 M", "nan", "9" * 5000, "99999999P", "1iB3"]
)
def test_a_size_that_makes_no_sense_is_refused(text: str):
    with pytest.raises(InvalidOption):
        parse_size(text)


@pytest.mark.parametrize("name", ["a", "fix-412", "A.b_c-9", "0", "x" * 64])
def test_good_names(name: str):
    assert valid_name(name)
    assert check_name(name) == name


BAD_NAMES = ["", ".", "..", ".a", "-a", "_a", "a/b", "../x", "a b", "a\n", "ä", "x" * 65, "a\0"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_S6_bad_names_never_reach_a_path(name: str):
    assert not valid_name(name)
    with pytest.raises(InvalidName):
        check_name(name)


@pytest.mark.parametrize("command", ["/usr/bin/claude", "./a b!", "-", "..", "", "ä", "x" * 300])
def test_a_default_name_is_always_valid(command: str):
    assert valid_name(default_name([command]))


def test_a_default_name_begins_with_the_command():
    assert default_name(["/usr/bin/claude", "-p"]).startswith("claude-")


def test_ids_sort_by_time_and_differ(monkeypatch: pytest.MonkeyPatch):
    made = []
    for second in (1_700_000_000, 1_700_000_001, 1_800_000_000):
        monkeypatch.setattr("time.time", lambda second=second: float(second))
        made.append(new_id())
        assert names.id_seconds(made[-1]) == second
    assert made == sorted(made)
    assert all(names.is_id(run_id) for run_id in made)
    assert len({new_id() for _ in range(1000)}) == 1000


def test_a_spec_survives_its_file():
    spec = a_spec()
    assert RunSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


@pytest.mark.parametrize("field", [name for name in RunSpec._fields if name != "schema"])
def test_a_spec_that_lacks_a_field_is_damaged_unless_it_has_a_default(field: str):
    document = a_spec().to_json()
    document.pop(field, None)
    if field in RunSpec._defaults:
        assert getattr(RunSpec.from_json(document), field) == RunSpec._defaults[field]
        return
    with pytest.raises(DamagedRecord, match=field):
        RunSpec.from_json(document)


def test_a_spec_without_a_schema_is_damaged():
    document = a_spec().to_json()
    del document["schema"]
    with pytest.raises(DamagedRecord):
        RunSpec.from_json(document)


@pytest.mark.parametrize("field", Wanted._fields)
def test_what_an_earlier_version_could_not_ask_for_was_not_asked_for(field: str):
    document = a_spec().to_json()
    document["wanted"].pop(field, None)
    assert getattr(RunSpec.from_json(document).wanted, field) == Wanted._defaults[field]


@pytest.mark.parametrize("inside", [False, True])
def test_D6_a_field_that_we_do_not_know_is_a_later_versions(inside: bool):
    document = a_spec().to_json()
    (document["wanted"] if inside else document)["surprise"] = 1
    with pytest.raises(LaterVersion, match="surprise"):
        RunSpec.from_json(document)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("command", "claude"),
        ("command", [1]),
        ("env", {"A": 1}),
        ("pty", 1),
        ("name", "../x"),
        ("id", "short"),
        ("wanted", None),
        ("wanted", {"grace_seconds": None}),
        ("wanted", {**Wanted().as_dict(), "grace_seconds": "10"}),
        ("wanted", {**Wanted().as_dict(), "grace_seconds": float("nan")}),
        ("wanted", {**Wanted().as_dict(), "log_max_bytes": True}),
        ("schema", 0),
        ("schema", "1"),
    ],
)
def test_a_spec_with_a_wrong_value_is_damaged(field: str, value: object):
    with pytest.raises(DamagedRecord):
        RunSpec.from_json({**a_spec().to_json(), field: value})


def test_a_damaged_spec_does_not_show_its_secrets():
    with pytest.raises(DamagedRecord) as damage:
        RunSpec.from_json({**a_spec().to_json(), "env": {"API_KEY": "s3cret", "X": 1}})
    assert "s3cret" not in str(damage.value)


@pytest.mark.parametrize("document", [None, [], "x", 3])
def test_a_spec_that_is_no_object_is_damaged(document: object):
    with pytest.raises(DamagedRecord):
        RunSpec.from_json(document)


def test_D6_a_spec_of_a_later_version_is_told_apart_from_damage():
    with pytest.raises(LaterVersion) as later:
        RunSpec.from_json({"schema": 2, "something": "new"})
    assert later.value.schema == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"timeout_seconds": 0.0},
        {"idle_timeout_seconds": -1.0},
        {"grace_seconds": -0.1},
        {"done_when": "("},
        {"done_when": "a{99999999999}"},
        {"done_when": "(" * 5000 + ")" * 5000},
        {"stop_signal": "SIGNOPE"},
        {"memory_max_bytes": 0},
        {"restart": "always:x"},
        {"restart": "on-failure:x"},
        {"leftovers": "both"},
        {"workload": ""},
        {"sample_interval_seconds": -1.0},
        {"grace_seconds": "10"},
        {"timeout_seconds": float("inf")},
    ],
)
def test_what_cannot_be_wanted_is_refused_by_name(changes: dict):
    option = next(iter(changes)).removesuffix("_seconds").removesuffix("_bytes")
    with pytest.raises(InvalidOption, match=f"^{option}: ") as refusal:
        check_wanted(Wanted(**changes))
    assert refusal.value.expected


def test_what_can_be_wanted_is_not_refused():
    wanted = Wanted(restart="on-failure:3", done_when="^DONE$", stop_signal="INT", grace_seconds=0)
    assert check_wanted(wanted) is wanted
    assert (wanted.restarts, Wanted().restarts) == (3, 0)
    assert Wanted(restart="on-failure").restarts is None


def test_every_field_of_a_spec_is_of_a_type_that_is_checked():
    annotations = {**RunSpec.__annotations__, **Wanted.__annotations__}
    del annotations["wanted"]
    assert {text.removesuffix(" | None") for text in annotations.values()} <= set(CHECKS)


def test_the_public_side_shows_no_secret():
    spec = a_spec(
        command=("curl", "--token", "s3cret"), wanted=Wanted(notify="post API_KEY=s3cret")
    )
    assert "s3cret" not in json.dumps([spec.public_command, spec.public_wanted])
    assert "s3cret" in json.dumps(spec.to_json())


class LaterWanted(Wanted):
    """An option that 0.1.0 does not know."""

    patience_seconds: float | None = None


def test_a_field_of_a_later_version_is_written_only_where_it_was_asked_for():
    first = a_spec().to_json()["wanted"]
    assert a_spec(wanted=LaterWanted(timeout_seconds=90.0)).to_json()["wanted"] == first
    asked = LaterWanted(timeout_seconds=90.0, patience_seconds=3.0)
    assert a_spec(wanted=asked).to_json()["wanted"] == {**first, "patience_seconds": 3.0}
