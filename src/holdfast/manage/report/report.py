"""A report for programs: what the snapshot has, under the names of its JSON, and three texts."""

from __future__ import annotations

from holdfast.manage.report.document import BRIEF, FULL, SHARED
from holdfast.manage.report.reading import read_material
from holdfast.manage.report.sections import charts_alone, document
from holdfast.manage.report.snapshot import Snapshot, snapshot
from holdfast.manage.report.text_charts import UNICODE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.manage.info import RunInfo
    from holdfast.manage.report.gaps import Stretch
    from holdfast.manage.report.snapshot import WorkloadFinding
    from holdfast.manage.report.text_charts import Ink
    from holdfast.run.directory import RunDirectory


class Report(Snapshot):
    """A run over time, at one look. All times are seconds since its first attempt's start."""

    @property
    def run(self) -> RunInfo:
        """The run itself, without secrets."""
        return self.info

    @property
    def samples(self) -> int:
        """How many were kept."""
        return self.sample_count

    @property
    def damaged_samples(self) -> int:
        """How many rows of the trace can't be read."""
        return self.damaged_count

    @property
    def unmeasured(self) -> tuple[Stretch, ...]:
        """The times about which nothing is known."""
        return self.stretches

    @property
    def workloads(self) -> tuple[WorkloadFinding, ...]:
        """Which process was taken for the workload, and since when."""
        return self.findings

    def text(self, width: int = 80, *, plot: bool = False, ink: Ink = UNICODE) -> str:
        """For a terminal; `plot`: the charts alone."""
        from holdfast.manage.report.text import text

        shown = charts_alone(self, BRIEF) if plot else document(self, BRIEF)
        return "\n".join(text(shown, width, ink, is_plotted=plot))

    def markdown(self, *, plot: bool = False, ink: Ink = UNICODE) -> str:
        """To paste into a bug report; `plot`: with the charts."""
        from holdfast.manage.report.markdown import markdown

        return markdown(document(self, SHARED), ink if plot else None)

    def html(self) -> str:
        """One page that needs nothing else."""
        from holdfast.manage.report.page import page

        return page(document(self, FULL))


def read_report(directory: RunDirectory) -> Report:
    """The run at one look."""
    return Report(**snapshot(read_material(directory)).as_dict())
