"""What a late viewer must be shown of a terminal's output. Pure: bytes in, bytes out.

Output is replayed as it was written, not as a rendered picture. So the modes that were switched on
before the replayed part are switched on again first, and questions to the terminal are left out:
the viewer's terminal would answer them, and the answer would be typed into the workload.
"""

from __future__ import annotations

import re

KEPT_BYTES = 64 * 1024

_LONGEST_SEQUENCE = 64
_SEARCHED_BYTES = 4096
_LARGEST_MODE = 9999
_MOST_PUSHED = 16
_ON_BY_DEFAULT = frozenset((7, 25))  # wrap at the margin; show the cursor

_MODE = re.compile(
    rb"\x1b\[\?(?P<modes>[0-9;]{1,48})(?P<set>[hl])"
    rb"|\x1b\[(?P<keys>[<>=])(?P<flags>[0-9;]{0,16})u"  # how keys are reported, as kitty defined it
    rb"|\x1b\[>4(?:;(?P<other>[0-9]))?m"  # and as xterm did: modifyOtherKeys
    rb"|\x1b(?P<plain>[=>c])"  # the keypad; a full reset
)
_UNFINISHED = re.compile(rb"\x1b(?:\[[<>=?]?[0-9;]*)?\Z")
_QUESTION = re.compile(
    rb"\x1b\[[>=]?[0-9]*c"  # device attributes
    rb"|\x1b\[\??[0-9;]*n"  # status, where is the cursor
    rb"|\x1b\[\??[0-9;]*\$p"  # is this mode set
    rb"|\x1b\[\?u|\x1b\[>[0-9]*q|\x1b\[[0-9]*x"
    rb"|\x1b\[(?:1[1-9]|2[01])(?:;[0-9]*)*t"  # size and title of the window
    rb"|\x1b\][0-9]+(?:;[^\x07\x1b]*)?;\?(?:\x07|\x1b\\)"  # which colour, what is in the clipboard
    rb"|\x1bP[$+]q[^\x1b]*\x1b\\"
    rb"|\x1b_G[^\x1b]*\x1b\\"  # kitty's graphics answer
    rb"|\x05"
)


class ScreenModes:
    """The modes of a terminal that a program has changed, after all the output fed so far."""

    def __init__(self) -> None:
        self._unfinished = b""
        self._reset()

    def _reset(self) -> None:
        self._changed: dict[int, bool] = {}  # from how terminals begin; the latest last
        self._touched: set[int] = set()
        self._keypad = False
        self._pushed: list[bytes] = []
        self._other_keys = b""

    def feed(self, data: bytes) -> None:
        """Follow what the program switches; a sequence may be cut anywhere between two pieces."""
        data = self._unfinished + data
        for found in _MODE.finditer(data):
            self._note(found)
        cut = _UNFINISHED.search(data, max(0, len(data) - _LONGEST_SEQUENCE))
        self._unfinished = cut.group() if cut else b""

    def _note(self, found: re.Match[bytes]) -> None:
        if found["modes"]:
            for mode in filter(None, found["modes"].split(b";")):
                self._switch(int(mode), found["set"] == b"h")
        elif found["keys"]:
            self._note_keys(found["keys"], found["flags"])
        elif found["plain"] == b"c":
            self._reset()
        elif found["plain"]:
            self._keypad = found["plain"] == b"="
        else:
            self._other_keys = found["other"] or b""

    def _switch(self, mode: int, on: bool) -> None:
        if mode > _LARGEST_MODE:
            return
        self._touched.add(mode)
        self._changed.pop(mode, None)
        if on != (mode in _ON_BY_DEFAULT):
            self._changed[mode] = on

    def _note_keys(self, what: bytes, flags: bytes) -> None:
        number = flags.split(b";")[0]
        if what == b"<":
            del self._pushed[-max(1, int(number or 1)) :]
        elif what == b"=" and self._pushed:
            self._pushed[-1] = number
        elif len(self._pushed) < _MOST_PUSHED:
            self._pushed.append(number)

    def again(self) -> bytes:
        """Bring another terminal, which is as terminals begin, into the same modes."""
        parts = [b"\x1b[?%d%c" % (mode, b"h" if on else b"l") for mode, on in self._changed.items()]
        parts += [b"\x1b="] if self._keypad else []
        parts += [b"\x1b[>%bu" % flags for flags in self._pushed]
        parts += [b"\x1b[>4;%bm" % self._other_keys] if self._other_keys else []
        return b"".join(parts)

    def over(self) -> bytes:
        """Bring a terminal that missed some of the changes into the same modes."""
        back = sorted(self._touched - self._changed.keys())
        parts = [b"\x1b[<%du\x1b[>4m\x1b>" % _MOST_PUSHED]
        parts += [b"\x1b[?%d%c" % (mode, b"h" if mode in _ON_BY_DEFAULT else b"l") for mode in back]
        return b"".join(parts) + self.again()

    def undo(self) -> bytes:
        """Bring a terminal that saw all of it back to how terminals begin; empty: it never left.

        Only what was changed: leaving an alternate screen that was never entered moves the cursor.
        """
        parts = [b"\x1b[>4m"] if self._other_keys else []
        parts += [b"\x1b[<%du" % len(self._pushed)] if self._pushed else []
        parts += [b"\x1b>"] if self._keypad else []
        changed = reversed(self._changed.items())
        parts += [b"\x1b[?%d%c" % (mode, b"l" if on else b"h") for mode, on in changed]
        return b"".join(parts)


class RecentOutput:
    """The end of a terminal's output, and the modes in which it begins."""

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self._kept_bytes = kept_bytes
        self._before = ScreenModes()
        self._kept = bytearray()

    def add(self, data: bytes) -> None:
        """More output; what is too old is forgotten, but for its modes."""
        self._kept += data
        if len(self._kept) > 2 * self._kept_bytes:
            at = _place_to_cut(self._kept, len(self._kept) - self._kept_bytes)
            self._before.feed(bytes(self._kept[:at]))
            del self._kept[:at]

    def replay(self) -> bytes:
        """What to show to a viewer that attaches now."""
        return self._before.again() + _QUESTION.sub(b"", bytes(self._kept))

    def replay_over(self) -> bytes:
        """What to show to a viewer that missed a part of the output."""
        return self._before.over() + _QUESTION.sub(b"", bytes(self._kept))


def _place_to_cut(data: bytearray, at: int) -> int:
    """Near that byte, where neither a character nor an escape sequence is cut in two."""
    found = re.compile(rb"\n|\x1b").search(data, at, at + _SEARCHED_BYTES)
    if found is not None:
        return found.end() if found.group() == b"\n" else found.start()
    while at < len(data) and data[at] & 0xC0 == 0x80:
        at += 1
    return at
