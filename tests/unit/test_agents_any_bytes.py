"""Whatever an agent prints or writes, the readers never raise, and what they find can be stored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agents.loader import built_in_profiles
from holdfast.agents.pretty import PrettyPrinter
from holdfast.agents.stream import StreamReader
from holdfast.agents.transcript import TranscriptReader
from tests.agents.recordings import RECORDED

PROFILES = built_in_profiles()
with_transcript = [name for name, profile in PROFILES.items() if profile.transcript]
recorded_lines = [
    line
    for file in sorted(RECORDED.iterdir())
    for line in file.read_bytes().splitlines()
    if len(line) < 3000
]
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "text", "usage", "item", "error"]), inner)
    ),
    max_leaves=8,
)


@st.composite
def twisted_records(draw: st.DrawFn) -> bytes:
    """A real record with one of its values replaced by anything."""
    line = draw(st.sampled_from(recorded_lines))
    try:
        record = json.loads(line)
    except ValueError:
        return line
    if isinstance(record, dict) and record:
        record[draw(st.sampled_from(sorted(record)))] = draw(values)
    return json.dumps(record).encode()


@st.composite
def cut_lines(draw: st.DrawFn) -> bytes:
    line = draw(st.sampled_from(recorded_lines))
    return line[draw(st.integers(0, len(line))) :]


lines = st.binary(max_size=300) | twisted_records() | cut_lines()


@pytest.mark.parametrize("name", sorted(PROFILES))
@given(given=st.lists(lines, max_size=5))
def test_any_bytes_on_stdout_are_survived(name, given):
    reader, printer = StreamReader(PROFILES[name]), PrettyPrinter(PROFILES[name], colour=True)
    for line in given:
        for fact in reader.feed(line, 0):
            json.dumps(fact.as_dict()).encode("ascii")
        assert isinstance(printer.line(line), bytes)


@pytest.mark.parametrize("name", sorted(with_transcript))
@given(given=st.lists(lines, max_size=5), cut=st.integers(0, 2000))
def test_any_bytes_in_a_transcript_are_survived(name, given, cut, tmp_path_factory):
    path: Path = tmp_path_factory.mktemp("transcript") / "t.jsonl"
    path.write_bytes(b"")
    reader = TranscriptReader(PROFILES[name], str(path), ("exec", "-p"))
    content = b"\n".join(given)
    for part in (content[:cut], content[cut:]):
        with path.open("ab") as opened:
            opened.write(part)
        for fact in reader.poll(0.0):
            json.dumps(fact.as_dict()).encode("ascii")
