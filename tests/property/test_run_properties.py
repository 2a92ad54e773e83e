"""What must hold for any bytes, any events and any split: the records of a run never mislead."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.errors import InvalidName, InvalidOption, RunNotFound
from holdfast.options import Wanted
from holdfast.process.identity import ProcessIdentity
from holdfast.run.claims import claim_name
from holdfast.run.directory import RunDirectory
from holdfast.run.event_log import EventLog, LoggedEvent, read_events
from holdfast.run.events import Kind, check_facts
from holdfast.run.facts import Phase
from holdfast.run.home import Home
from holdfast.run.lifecycle import EventFold, fold
from holdfast.run.locks import take_lock
from holdfast.run.names import check_name, is_id, new_id, valid_name
from holdfast.run.outcomes import Outcome, StopCause, decide_outcome
from holdfast.run.output import LineCarrier, read_from
from holdfast.run.redaction import redact_argv, redact_text
from holdfast.run.references import resolve
from holdfast.run.spec import RunSpec
from holdfast.run.units import parse_duration, parse_size

scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
HEAD = {"seq", "at", "boottime", "kind"}
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"  # what `valid_name` looks for without compiling it
processes = st.builds(
    lambda pid, seen: {**seen, **ProcessIdentity(pid, 5, 7).to_json()},
    st.integers(1, 4),
    st.dictionaries(st.sampled_from(["comm", "exe", "cmdline", "state"]), values),
)
REQUIRED: dict[Kind, dict[str, st.SearchStrategy]] = {
    Kind.SUPERVISED: {"shim": processes, "previous_shim": st.none() | processes},
    Kind.ATTEMPT_STARTED: {"attempt": st.integers(1, 9), "root": processes},
    Kind.WORKLOAD_RESOLVED: {
        "workload": st.none() | processes,
        "wrappers": st.none() | st.lists(processes, max_size=2),
    },
    Kind.ROOT_EXITED: {"heir": st.none() | processes},
    Kind.MEMBERS_SEEN: {
        "members": st.lists(st.fixed_dictionaries({"token": values, "comm": values}), max_size=3)
    },
    Kind.STOP_BEGUN: {"cause": st.sampled_from([cause.value for cause in StopCause])},
    Kind.OUTPUT_TRIMMED: {"first_byte": st.integers(0, 2**40)},
    Kind.ADJUSTED: {"changes": st.dictionaries(st.text(max_size=5), values, max_size=3)},
    Kind.ATTENTION_NEEDED: {"id": st.text(max_size=5), "about": st.text(max_size=5)},
    Kind.ATTENTION_OVER: {"id": st.text(max_size=5)},
    Kind.PAUSED: {"stopped": st.lists(st.text(max_size=5), max_size=3)},
    Kind.WATCHING: {"degraded": st.lists(st.text(max_size=5), max_size=3)},
    Kind.ENDED: {"outcome": st.sampled_from([outcome.value for outcome in Outcome])},
}
KNOWN_FACTS = ["exit_code", "signal", "wrappers", "workload", "token", "how", "previous_shim"]
KNOWN_FACTS += ["shim", "root", "heir", "log_bytes", "core_dumped", "outlives_root", "ended_at"]


@st.composite
def facts_of(draw: st.DrawFn, kind: Kind) -> dict:
    surplus = st.sampled_from(KNOWN_FACTS) | st.text(max_size=6)
    facts = draw(st.dictionaries(surplus.filter(lambda name: name not in HEAD), values, max_size=3))
    return {**facts, **draw(st.fixed_dictionaries(REQUIRED.get(kind, {})))}


@st.composite
def logs(draw: st.DrawFn) -> list[LoggedEvent]:
    kinds = draw(st.lists(st.sampled_from(list(Kind)), max_size=12))
    return [
        LoggedEvent(number, f"t{number}", float(number), kind, draw(facts_of(kind)))
        for number, kind in enumerate(kinds, 1)
    ]


@given(logs())
def test_any_events_fold_and_an_ended_run_stays_as_it_ended(log: list[LoggedEvent]):
    so_far, ending = EventFold(), None
    for event in log:
        so_far.apply(event)
        facts = so_far.facts
        if ending is not None:
            # A survivor may be stopped, and a fault met, after the ending was recorded.
            changed = {"last_seq", "last_at", "cleanup", "faults"}
            same = [name for name in facts._fields if name not in changed]
            assert [getattr(facts, name) for name in same] == [
                getattr(ending, name) for name in same
            ]
        elif facts.phase is Phase.ENDED:
            assert event.kind is Kind.ENDED
            ending = facts
    assert so_far.facts == fold(log)
    assert so_far.facts.has_ended == any(event.kind is Kind.ENDED for event in log)


@given(
    st.sampled_from(list(Kind)),
    st.dictionaries(st.sampled_from(KNOWN_FACTS), values | processes, max_size=4),
)
@example(Kind.WORKLOAD_RESOLVED, {"workload": 1})
@example(Kind.WORKLOAD_RESOLVED, {"workload": {"token": "hf1.1"}})
@example(Kind.ROOT_EXITED, {"heir": {}})
def test_D6_any_facts_are_refused_as_damage_or_fold(kind: Kind, facts: dict):
    event = LoggedEvent(1, "t1", 1.0, kind, facts)
    try:
        check_facts(kind, facts)
    except ValueError:
        return
    assert fold([event]).named_tokens() is not None


@given(logs(), st.data())
def test_D6_any_prefix_of_a_log_is_read_and_never_ends_early(
    log: list[LoggedEvent], data: st.DataObject
):
    lines = [event.to_line() for event in log]
    whole = b"".join(lines)
    cut = data.draw(st.integers(0, len(whole)))
    with tempfile.NamedTemporaryFile() as file:
        file.write(whole[:cut])
        file.flush()
        read = read_events(file.name)
    assert read.damage is None
    ends = [sum(map(len, lines[: number + 1])) for number in range(len(lines))]
    complete = sum(end <= cut for end in ends)
    assert list(read.events) == [
        LoggedEvent.from_json(json.loads(event.to_line())) for event in log[:complete]
    ]
    ended = any(event.kind is Kind.ENDED for event in log[:complete])
    assert fold(read.events).has_ended == ended


@given(logs(), st.binary(max_size=60), st.data())
def test_D6_any_bytes_put_into_a_log_never_make_an_ending(
    log: list[LoggedEvent], noise: bytes, data: st.DataObject
):
    log = [event for event in log if event.kind is not Kind.ENDED]
    log = [event.replace(seq=number) for number, event in enumerate(log, 1)]
    whole = b"".join(event.to_line() for event in log)
    at = data.draw(st.integers(0, len(whole)))
    with tempfile.NamedTemporaryFile() as file:
        file.write(whole[:at] + noise + whole[at:])
        file.flush()
        read = read_events(file.name)
    assert not fold(read.events).has_ended
    assert len(read.events) <= len(log)


@given(logs(), st.data())
def test_a_new_holder_goes_on_after_any_cut(log: list[LoggedEvent], data: st.DataObject):
    whole = b"".join(event.to_line() for event in log)
    cut = data.draw(st.integers(0, len(whole)))
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/events.jsonl"
        with open(path, "wb") as file:
            file.write(whole[:cut])
        before = read_events(path).events
        lock = take_lock(f"{folder}/lock")
        assert lock is not None
        with lock:
            events = EventLog(path, lock)
            appended = events.append(Kind.FAULT, where="here")
            events.close()
        assert read_events(path).events == (*before, appended)


@given(st.lists(st.binary(max_size=20)), st.integers(0, 1000))
def test_lines_do_not_depend_on_how_they_were_split(pieces: list[bytes], at_byte: int):
    carrier = LineCarrier(at_byte)
    lines = [line for piece in pieces for line in carrier.feed(piece)]
    whole = b"".join(pieces)
    *expected, rest = whole.split(b"\n")
    assert [line for _, line in lines] == expected
    assert carrier.rest[1] == rest
    for offset, line in [*lines, carrier.rest]:
        assert whole[offset - at_byte : offset - at_byte + len(line)] == line


@given(st.binary(max_size=300), st.integers(0, 20))
def test_a_tail_is_the_last_lines(data: bytes, lines: int):
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        tail = b"".join(chunk.data for chunk in read_from(file.name, tail=lines))
    *finished, unfinished = data.split(b"\n")
    whole = [line + b"\n" for line in finished] + ([unfinished] if unfinished else [])
    assert tail == b"".join(whole[-lines:] if lines else [])


@given(st.from_regex(NAME, fullmatch=True))
def test_every_name_of_the_documented_form_is_one(name: str):
    assert check_name(name) == name


@given(st.text(max_size=80))
def test_any_text_either_names_a_run_or_never_reaches_a_path(text: str):
    if valid_name(text):
        assert "/" not in text
        assert text not in (".", "..")
        assert text.isascii()
    with tempfile.TemporaryDirectory() as folder, pytest.raises((InvalidName, RunNotFound)):
        resolve(Home(folder), text)


@given(st.from_regex(NAME, fullmatch=True))
def test_a_claimed_name_is_found_in_any_case(name: str):
    with tempfile.TemporaryDirectory() as folder:
        home = Home.locate(folder).prepare()
        directory = RunDirectory(home, new_id())
        directory.make()
        with open(directory.spec_path, "w"):
            pass
        with claim_name(home, name) as claim:
            claim.write(directory.id)
        assert resolve(home, name.swapcase()) == directory.id
        assert os.listdir(home.names_path) == [name.lower()]


UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


@given(st.fixed_dictionaries({}, optional={unit: st.integers(0, 90) for unit in UNITS}))
def test_a_duration_is_the_sum_of_its_parts(parts: dict[str, int]):
    text = "".join(f"{parts[unit]}{unit}" for unit in UNITS if unit in parts)
    if text:
        assert parse_duration(text) == sum(UNITS[unit] * parts[unit] for unit in parts)


@given(st.integers(0, 2**40), st.sampled_from(["", "K", "M", "k", "MiB", "KB"]))
def test_a_size_is_exact(number: int, unit: str):
    power = {"": 0, "K": 1, "M": 2}[unit[:1].upper()]
    assert parse_size(f"{number}{unit}") == number * 1024**power


@given(st.text(max_size=12))
def test_any_text_is_a_quantity_or_refused_as_an_option(text: str):
    for parse in (parse_duration, parse_size):
        with contextlib.suppress(InvalidOption):
            assert parse(text) >= 0


@given(st.lists(st.text(max_size=40), max_size=6))
def test_redaction_never_fails_and_is_stable(argv: list[str]):
    once = redact_argv(argv)
    assert len(once) == len(argv)
    assert redact_argv(once) == once
    assert redact_text(redact_text("\n".join(argv))) == redact_text("\n".join(argv))


texts = st.text(st.characters(codec=None), max_size=10)


@given(
    st.lists(texts, min_size=1, max_size=4),
    st.dictionaries(texts, texts, max_size=4),
    st.none() | st.floats(0.001, 1e9),
)
def test_any_spec_survives_its_file(command: list[str], env: dict, timeout: float | None):
    spec = RunSpec(
        id=new_id(),
        name="n",
        host="h",
        command=tuple(command),
        cwd="/",
        env=env,
        agent=None,
        tags={},
        key=None,
        pty=False,
        wanted=Wanted(timeout_seconds=timeout),
        created_at="t",
        launcher={},
    )
    assert is_id(spec.id)
    with tempfile.TemporaryDirectory() as folder:
        directory = RunDirectory(Home.locate(folder).prepare(), spec.id)
        directory.make()
        directory.write_spec(spec)
        assert directory.read_spec() == spec


@given(
    st.fixed_dictionaries(
        {
            "stop_cause": st.none() | st.sampled_from(list(StopCause)),
            "exit_code": st.none() | st.integers(0, 255),
            "signal": st.none() | st.integers(1, 64),
            "is_error": st.booleans(),
            "oom_killed": st.booleans(),
            "signalled_by_us": st.booleans(),
        }
    )
)
def test_no_ending_is_invented(given: dict):
    ending = decide_outcome(**given)
    status = (given["exit_code"], given["signal"])
    assert (ending.exit_code, ending.signal) == status
    if ending.outcome is Outcome.SUCCEEDED:
        assert status == (0, None)
        assert not given["is_error"]
    if status == (None, None) and given["stop_cause"] in (None, StopCause.LEFTOVERS):
        assert ending.outcome is Outcome.LOST
