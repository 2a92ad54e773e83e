"""The figures of a sample: each is declared once, here.

A declaration says where the figure of a process is read, what makes the tree's of it, and what
becomes of both. Rows of the trace, the checks of a row that is read back, `usage` with its peaks
and `now` follow from it. Another figure is one line here and, where its file is not parsed for it
yet, what reads it in `process/procfs.py` or `process/proc_files.py` (decision 0045).
"""

from __future__ import annotations

from holdfast.lean import StrEnum
from holdfast.process.procfs import ProcessState
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.process.sampling.measuring import Reading

_NOTABLE_PEAK = 1.05  # a peak between samples is worth a place in the row


class InRow(StrEnum):
    """When the row of a sample has a figure of the workload."""

    EACH = "in each sample"
    FULL = "in each full sample"
    RUNNING = "in each full sample while it runs, else rarely"
    RARE = "each minute, and while a signal is pending"
    NEVER = "never"


EACH, FULL, RUNNING, RARE, NEVER = InRow


class Figure:
    """One declaration. As the default of a record's field it is None: it was not read."""

    def __init__(
        self,
        read: Callable[[Reading], Any] | None = None,  # of one process; None: it is added later
        row: InRow = NEVER,
        total: Callable[[list[Any]], Any] | None = None,  # the tree's; None: it is found otherwise
        *,
        usage: str | None = None,  # the figure of `usage` that is the tree's highest
        now: bool = False,  # `now` has the tree's
        kept: bool = False,  # thinning a trace keeps the rows with the highest
        text: Callable[[Any], str] | None = None,  # how a row has it, where that is no number
        places: int | None = None,  # how many decimal places a row has
        notable: Callable[[Any], bool] | None = None,  # whether the tree's is worth a place in it
    ) -> None:
        self.name = ""
        self.read, self.row, self.total = read, row, total
        self.usage, self.now, self.kept = usage, now, kept
        self.text, self.places, self.notable = text, places, notable

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, record: object, owner: type) -> None:
        return None

    def in_row(self, value: Any) -> Any:
        """As a row has it."""
        if self.text is not None:
            return self.text(value)
        return value if self.places is None else round(value, self.places)


def figure(*declared: Any, **more: Any) -> Any:
    """A figure, as the default of a field of any type."""
    return Figure(*declared, **more)


def sum_of(values: list[int | None]) -> int | None:
    """A sum with an unknown part is unknown."""
    return None if None in values else sum(values)  # type: ignore[arg-type]


def highest(values: list[Any]) -> Any:
    """The highest of those that are known."""
    return max((value for value in values if value is not None), default=None)


def _hex(mask: int) -> str:
    return f"{mask:x}"


def _fd_ratio(r: Reading) -> float | None:
    return None if r.fds is None or not r.fd_limit else r.fds / r.fd_limit


def _wait_channel(r: Reading) -> str | None:
    hangs = r.stat.state is ProcessState.DISK_SLEEP
    return r.files.wait_channel() if hangs or r.is_slow else None


class SharedFigures(Record):
    """Those that a process has, and the tree too."""

    cpu_percent: float | None = figure(  # None in the first sample: there is no interval yet
        lambda r: r.cpu_percent, EACH, usage="peak_cpu_percent", now=True, kept=True
    )
    rss_bytes: int | None = figure(
        lambda r: r.stat.rss_bytes, EACH, sum_of, usage="peak_rss_bytes", now=True, kept=True
    )
    swap_bytes: int | None = figure(
        lambda r: r.status.swap_bytes, FULL, sum_of, usage="peak_swap_bytes", now=True
    )
    threads: int | None = figure(lambda r: r.stat.threads, FULL, sum_of)
    chars: int | None = figure(lambda r: r.io and r.io.chars)  # through read and write calls
    read_bytes: int | None = figure(lambda r: r.io and r.io.read_bytes, FULL, usage="read_bytes")
    write_bytes: int | None = figure(lambda r: r.io and r.io.write_bytes, FULL, usage="write_bytes")
    oom_score: int | None = figure(
        lambda r: r.files.oom_score(), FULL, highest, usage="peak_oom_score", kept=True
    )
    fd_ratio: float | None = figure(
        _fd_ratio, NEVER, highest, usage="peak_fd_ratio", kept=True, places=3
    )
    peak_rss_bytes: int | None = figure(  # of one process, between samples too
        lambda r: r.status.peak_rss_bytes,
        NEVER,
        highest,
        usage="peak_rss_bytes",
        notable=lambda tree: tree.peak_rss_bytes >= _NOTABLE_PEAK * (tree.rss_bytes or 0),
    )
    sockets: int | None = figure(None, RARE)  # established connections


class ProcessSample(SharedFigures):
    """One process in one sample. A light one has the figures of EACH alone."""

    token: str = ""
    comm: str = ""
    state: ProcessState = ProcessState.UNKNOWN
    fds: int | None = figure(lambda r: r.fds, FULL)
    fd_limit: int | None = figure(lambda r: r.fd_limit, RARE)
    switches: int | None = figure(lambda r: r.status.switches, RUNNING)  # does it ever wait?
    involuntary_switches: int | None = figure(lambda r: r.status.involuntary_switches, RARE)
    pending: int | None = figure(lambda r: r.status.pending, RARE, text=_hex)
    blocked: int | None = figure(lambda r: r.status.blocked, RARE, text=_hex)
    caught: int | None = figure(lambda r: r.status.caught, RARE, text=_hex)
    wait_channel: str | None = figure(_wait_channel, RARE, text=str)


class TreeFigures(SharedFigures):
    """Of the processes that a sample counts: the workload and all below it, no wrappers."""

    processes: int = figure(usage="peak_processes", now=True)
    cpu_seconds: float | None = figure(usage="cpu_seconds")  # since the start, of ended ones too
    zombies: int | None = figure()
    pss_bytes: int | None = figure()


def _figures_of(record: type[Record]) -> tuple[Figure, ...]:
    declared: dict[str, object] = {}
    for kind in reversed(record.__mro__):
        declared.update(vars(kind))
    found = (declared[name] for name in record._fields)
    return tuple(one for one in found if isinstance(one, Figure))


OF_PROCESS = _figures_of(ProcessSample)
OF_TREE = _figures_of(TreeFigures)
_IN_ROW = [one for one in OF_PROCESS if one.row is not NEVER]
TEXTS = tuple(one.name for one in _IN_ROW if one.text is not None)
NUMBERS = tuple(one.name for one in _IN_ROW if one.text is None)
NOW = tuple(one.name for one in OF_TREE if one.now)
KEPT = tuple(one.name for one in OF_TREE if one.kept)
# A tree of one process has these once in a row, as the workload's.
ONCE = frozenset(one.name for one in _IN_ROW if one.row in (EACH, FULL) and one in OF_TREE)
# The contract's name, and the tree's figures whose highest value it is.
USAGE: dict[str, tuple[str, ...]] = {}
for _one in OF_TREE:
    if _one.usage is not None:
        USAGE[_one.usage] = (*USAGE.get(_one.usage, ()), _one.name)
