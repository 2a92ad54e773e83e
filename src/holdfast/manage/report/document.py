"""What a report consists of, whatever shows it: facts, figures, charts, gaps, tables, bullets.

Pure data. `sections.py` decides what is said, in which words and order; a renderer decides only how
each kind of block looks in its medium.
"""

from __future__ import annotations

import enum

from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.manage.report.figures import Chart
    from holdfast.manage.report.gaps import Lack, Stretch
    from holdfast.manage.report.marks import Mark


class Tone(enum.StrEnum):
    """How a status reads at a glance."""

    GOOD = "good"
    WARNING = "warn"
    BAD = "bad"


class Fact(Record):
    """Something known: `time: started ...`, `memory, highest: 287 MiB (at 12s)`."""

    label: str
    text: str
    note: str = ""
    is_code: bool = False


class KeyFigures(Record):
    """A few numbers of the whole run, each with a note on how to read it."""

    facts: tuple[Fact, ...]


class TimeCharts(Record):
    """Charts that share one time axis, with what happened and what is not known along it."""

    seconds: float  # the length of the axis, more than 0
    charts: tuple[Chart, ...]  # empty: nothing was measured
    stretches: tuple[Stretch, ...]
    marks: tuple[Mark, ...]  # those within the axis
    nothing: str  # said in place of charts


class ColumnKind(enum.Enum):
    """What the cells of a column hold."""

    WORDS = enum.auto()  # a name or two
    NUMBER = enum.auto()
    PROSE = enum.auto()  # sentences: to be wrapped


class Column(Record):
    """A column of a table."""

    name: str
    kind: ColumnKind


class Omission(Record):
    """Rows that were left out."""

    place: int  # the number of rows shown before them
    text: str


class DataTable(Record):
    """Rows of the same kind; where there are none, a sentence in place of the table."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    nothing: str
    omission: Omission | None = None


class Bullet(Record):
    """A sentence, and the kind of gap that it explains: it has the sign that the charts have."""

    text: str
    lack: Lack | None = None


class BulletList(Record):
    """Sentences of the same kind."""

    items: tuple[Bullet, ...]


class Quotation(Record):
    """Lines of a text from outside, as they are."""

    lines: tuple[str, ...]


Block = KeyFigures | TimeCharts | DataTable | BulletList | Quotation


class Section(Record):
    """A titled block."""

    title: str
    block: Block
    note: str = ""  # beside the title, where that is shown
    is_folded: bool = False  # a medium that can, shows it on demand


class Document(Record):
    """The whole report."""

    title: str
    id: str
    status: str
    tone: Tone
    ending: str  # how it ended, beside the status; empty: it has not
    facts: tuple[Fact, ...]
    sections: tuple[Section, ...]
    footer: str

    @property
    def headline(self) -> str:
        """`ended: stopped, ended by holdfast, signal SIGTERM`."""
        return f"{self.status}, {self.ending}" if self.ending else self.status


class Extent(Record):
    """How much of a report is wanted."""

    rows: int  # of a table
    history_rows: int
    command_characters: int | None  # None: all
    has_details: bool  # what explains the rest
    is_public: bool  # without what is about the machine: for strangers


BRIEF = Extent(12, 30, 600, has_details=False, is_public=False)
SHARED = Extent(30, 30, 4000, has_details=True, is_public=True)
FULL = Extent(400, 400, None, has_details=True, is_public=False)
