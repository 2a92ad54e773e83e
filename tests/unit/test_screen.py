"""What a late viewer is shown: the modes of the screen, the recent output, no questions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.screen import RecentOutput, ScreenModes

EDITOR = b"\x1b[?1049h\x1b[?1h\x1b=\x1b[?2004h\x1b[?25l"


def modes_after(*pieces: bytes) -> ScreenModes:
    modes = ScreenModes()
    for piece in pieces:
        modes.feed(piece)
    return modes


def test_nothing_was_changed_so_nothing_is_sent():
    modes = modes_after(b"plain \x1b[31mred\x1b[0m text\r\n")
    assert (modes.again(), modes.undo()) == (b"", b"")


def test_modes_are_brought_back_in_their_order_and_undone_in_reverse():
    modes = modes_after(EDITOR)
    assert modes.again() == b"\x1b[?1049h\x1b[?1h\x1b[?2004h\x1b[?25l\x1b="
    assert modes.undo() == b"\x1b>\x1b[?25h\x1b[?2004l\x1b[?1l\x1b[?1049l"


def test_what_the_program_undid_itself_is_forgotten():
    modes = modes_after(EDITOR, b"text", b"\x1b[?25h\x1b[?2004l\x1b[?1l\x1b>\x1b[?1049l")
    assert (modes.again(), modes.undo()) == (b"", b"")


def test_a_full_reset_forgets_everything():
    assert modes_after(EDITOR, b"\x1b[>1u\x1b[>4;2m\x1bc").undo() == b""


def test_several_modes_in_one_sequence():
    modes = modes_after(b"\x1b[?1000;1006;25l\x1b[?1000;1006h")
    assert modes.again() == b"\x1b[?25l\x1b[?1000h\x1b[?1006h"


@pytest.mark.parametrize(
    ("output", "undone"),
    [
        (b"\x1b[>1u", b"\x1b[<1u"),
        (b"\x1b[>1u\x1b[>5u", b"\x1b[<2u"),
        (b"\x1b[>1u\x1b[>5u\x1b[<u", b"\x1b[<1u"),
        (b"\x1b[>1u\x1b[<9u", b""),
        (b"\x1b[>1u\x1b[<0u", b""),
        (b"\x1b[=3;1u", b"\x1b[<1u"),
        (b"\x1b[>4;2m", b"\x1b[>4m"),
        (b"\x1b[>4;2m\x1b[>4m", b""),
    ],
)
def test_reports_of_keys_are_switched_off_again(output, undone):
    assert modes_after(output).undo() == undone


def test_a_program_cannot_make_it_grow_for_ever():
    modes = modes_after(*[b"\x1b[?%dh\x1b[>1u" % number for number in range(50_000)])
    assert len(modes.again()) < 200_000


@given(st.lists(st.integers(1, 60), max_size=8))
def test_a_sequence_may_be_cut_anywhere(cuts):
    output = b"ab" + EDITOR + b"\x1b[>1u\x1b[?1006h" + b"\x1b[?25h" + b"cd"
    places = sorted(min(cut, len(output)) for cut in cuts)
    pieces = [output[a:b] for a, b in zip([0, *places], [*places, len(output)], strict=True)]
    assert modes_after(*pieces).again() == modes_after(output).again()


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_any_bytes_are_taken(pieces):
    recent = RecentOutput(kept_bytes=64)
    for piece in pieces:
        recent.add(piece)
    modes_after(recent.replay()).undo()


def test_short_output_is_replayed_as_it_was():
    recent = RecentOutput()
    recent.add(b"one\r\n")
    recent.add("zwölf\r\n".encode())
    assert recent.replay() == "one\r\nzwölf\r\n".encode()


def test_old_output_is_forgotten_but_not_its_modes():
    recent = RecentOutput(kept_bytes=1000)
    recent.add(EDITOR)
    for number in range(1000):
        recent.add(b"line %d\r\n" % number)
    replay = recent.replay()
    assert replay.startswith(modes_after(EDITOR).again() + b"line ")
    assert replay.endswith(b"line 999\r\n")
    assert 1000 <= len(replay) < 2200


def test_the_replay_begins_with_a_whole_sequence_and_character():
    recent = RecentOutput(kept_bytes=100)
    recent.add("ä".encode() * 300)
    assert set(recent.replay().decode()) == {"ä"}
    coloured = RecentOutput(kept_bytes=100)
    coloured.add(b"\x1b[38;5;200mx" * 100)
    assert coloured.replay().startswith(b"\x1b[38;5;200mx")


@pytest.mark.parametrize(
    "question",
    [
        b"\x1b[6n", b"\x1b[?6n", b"\x1b[5n", b"\x1b[?996n",
        b"\x1b[c", b"\x1b[0c", b"\x1b[>c", b"\x1b[=c",
        b"\x1b[?u", b"\x1b[>q", b"\x1b[>0q", b"\x1b[?2026$p", b"\x1b[14t", b"\x1b[18t",
        b"\x1b]11;?\x07", b"\x1b]10;?\x1b\\", b"\x1b]4;1;?\x1b\\", b"\x1b]52;c;?\x07",
        b"\x1bP+q544e\x1b\\", b"\x1bP$qm\x1b\\", b"\x1b_Gi=1,a=q;AAAA\x1b\\", b"\x05",
    ],
)  # fmt: skip
def test_questions_to_the_terminal_are_not_asked_again(question):
    recent = RecentOutput()
    recent.add(b"before" + question + b"after")
    assert recent.replay() == b"beforeafter"


@pytest.mark.parametrize(
    "output",
    [b"\x1b]0;title?\x07", b"\x1b[31m", b"\x1b[2J", b"\x1b[10;20H", b"\x1b[2 q", b"\x1b[8;24;80t"],
)
def test_what_is_no_question_is_replayed(output):
    recent = RecentOutput()
    recent.add(output)
    assert recent.replay() == output
