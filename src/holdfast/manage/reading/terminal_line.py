"""One line of output as a terminal shows it: what was written over is gone. Pure.

Progress bars redraw their line with carriage returns, backspaces and escape sequences. Each cell
has its characters and the colours in which they were written. The line is as wide as it needs to
be: a bar that is wider than the screen does not wrap here.
"""

from __future__ import annotations

import codecs
import re
import unicodedata

MOST_COLUMNS = 1 << 20  # to keep in memory; what is written beyond them is left out
_LONGEST_SEQUENCE = 256
_LONGEST_STYLE = 128
_MOST_MARKS = 16
_TAB = 8

_TOKEN = re.compile(
    r"(?P<text>[^\x00-\x1f\x7f-\x9f]+)"
    r"|\x1b\[(?P<private>[<-?]?)(?P<numbers>[0-9;:]*)[ -/]*(?P<final>[@-~])"
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, links
    r"|\x1b(?P<escape>[ -/]*[0-~])"
    r"|(?P<control>[\x00-\x1f\x7f-\x9f])"
)
_UNFINISHED = re.compile(r"\x1b(?:\[[<-?]?[0-9;:]*[ -/]*|\][^\x07\x1b]*\x1b?|[ -/]*)?\Z")
# Backward in its line, and what erases a part of it: then less is shown than was written.
_REWRITING_SEQUENCE = re.compile(rb"\x1b\[(?:[0-9;]*[GD]|[12]K)")
_HORIZONTAL = frozenset("mKGCD")
_LEAVES_THE_LINE = frozenset("\x0b\x0c\x84\x85\x8d")


def rewrites(line: bytes) -> bool:
    """Whether something in the line is written over. A line may end with carriage returns."""
    if b"\r" in line.rstrip(b"\r") or b"\x08" in line:
        return True
    return b"\x1b" in line and _REWRITING_SEQUENCE.search(line) is not None


class TerminalLine:
    """A line, fed as it was written, without its newline."""

    def __init__(self) -> None:
        self.column = 0  # where the next character goes
        self.leaves_the_line = False  # the cursor went up or down: what follows is not known
        self._cells: list[str] = []  # "" is the right half of a wide character
        self._styles: list[str] = []
        self._style = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._unfinished = ""

    def feed(self, data: bytes) -> None:
        """More of it; characters and sequences may be cut anywhere."""
        text = self._unfinished + self._decoder.decode(data)
        cut = _UNFINISHED.search(text, max(0, len(text) - _LONGEST_SEQUENCE))
        self._unfinished = cut.group() if cut else ""
        for token in _TOKEN.finditer(text, 0, len(text) - len(self._unfinished)):
            if token["text"] is not None:
                self._write(token["text"])
            elif token["control"] is not None:
                self._control(token["control"])
            elif token["final"] is not None:
                self._sequence(token["final"], token["private"], token["numbers"])
            elif token["escape"] is not None:
                self.leaves_the_line |= token["escape"] in "78DEMcPX^_"

    @property
    def width(self) -> int:
        """How many columns it takes."""
        return len(self._cells)

    @property
    def unfinished(self) -> bytes:
        """The beginning of a character or a sequence that is not whole yet."""
        return self._unfinished.encode("utf-8", "surrogateescape") + self._decoder.getstate()[0]

    def shown(self, columns: int | None = None) -> bytes:
        """The line as it is now, or its first columns; the terminal is left in the last colours."""
        parts, style = [], ""
        cells = zip(self._cells[:columns], self._styles, strict=False)
        for cell, cell_style in cells:
            if cell_style != style:
                parts.append(_change(style, cell_style))
                style = cell_style
            parts.append(cell)
        if style != self._style:
            parts.append(_change(style, self._style))
        return "".join(parts).encode("utf-8", "surrogateescape")

    def _control(self, control: str) -> None:
        if control == "\r":
            self.column = 0
        elif control == "\b":
            self.column = max(0, self.column - 1)
        elif control == "\t":
            self._go_to((self.column // _TAB + 1) * _TAB)
        elif control in _LEAVES_THE_LINE:
            self.leaves_the_line = True

    def _sequence(self, final: str, private: str, numbers: str) -> None:
        if private:  # modes, such as a hidden cursor: they move nothing
            return
        if final not in _HORIZONTAL:
            self.leaves_the_line |= final not in "hln"
        elif final == "m":
            self._set_style(numbers)
        else:
            first = numbers.split(";", maxsplit=1)[0].split(":", maxsplit=1)[0]
            number = min(int(first[:9] or 0), MOST_COLUMNS)
            if final == "K":
                self._erase(number)
            elif final == "G":
                self._go_to(max(1, number) - 1)
            else:
                step = max(1, number)
                self._go_to(self.column + (step if final == "C" else -step))

    def _go_to(self, column: int) -> None:
        self.column = min(max(0, column), MOST_COLUMNS)

    def _set_style(self, numbers: str) -> None:
        if numbers.strip("0;") == "":
            self._style = ""
        else:
            is_new = numbers.startswith("0;") or len(self._style) > _LONGEST_STYLE
            self._style = ("" if is_new else self._style) + f"\x1b[{numbers}m"

    def _erase(self, which: int) -> None:
        if which == 0:
            del self._cells[self.column :], self._styles[self.column :]
        elif which == 1:
            count = min(self.column + 1, len(self._cells))
            self._cells[:count] = " " * count
            self._styles[:count] = [""] * count
        elif which == 2:
            self._cells.clear()
            self._styles.clear()

    def _write(self, text: str) -> None:
        cells = list(text) if text.isascii() else self._wide_cells(text)
        del cells[max(0, MOST_COLUMNS - self.column) :]
        begin, end = self.column, self.column + len(cells)
        gap = begin - len(self._cells)
        if gap > 0:
            self._cells += " " * gap
            self._styles += [""] * gap
        if end < len(self._cells) and self._cells[end] == "":
            self._cells[end] = " "  # its left half is written over
        if begin < len(self._cells) and self._cells[begin] == "" and begin > 0:
            self._cells[begin - 1] = " "
        self._cells[begin:end] = cells
        self._styles[begin:end] = [self._style] * len(cells)
        self.column = end

    def _wide_cells(self, text: str) -> list[str]:
        cells: list[str] = []
        for character in text:
            if unicodedata.combining(character) or character == "\u200d":
                self._join(cells, character)
            else:
                cells.append(character)
                if unicodedata.east_asian_width(character) in "WF":
                    cells.append("")
        return cells

    def _join(self, cells: list[str], character: str) -> None:
        """A mark goes into the cell of the character before it."""
        row, place = (cells, len(cells)) if cells else (self._cells, self.column)
        place = min(place, len(row)) - 1
        while place > 0 and row[place] == "":
            place -= 1
        if place >= 0 and len(row[place]) < _MOST_MARKS:
            row[place] += character


def _change(before: str, after: str) -> str:
    return after if before == "" else f"\x1b[0m{after}"
