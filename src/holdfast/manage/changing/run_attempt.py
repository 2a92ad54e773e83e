"""One run that a command acts on, and why it was refused."""

from __future__ import annotations

from holdfast.manage.info import claimed_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.errors import HoldfastError
    from holdfast.manage.run import Run


class RunAttempt:
    """Base of what a command did to one run."""

    def __init__(self, name: str, run: Run | None = None, error: HoldfastError | None = None):
        self.name = name
        self.run = run
        self.error = error

    def fail(self, error: HoldfastError) -> None:
        """Note why it was refused."""
        self.error = error
        if self.run is not None:
            self.name = claimed_name(self.run.directory) or self.name
