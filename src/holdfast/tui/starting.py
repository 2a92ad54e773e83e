"""Begins the screen: the first rows at once, the rest when Textual is loaded."""

from __future__ import annotations

from holdfast.errors import Bug
from holdfast.manage.runs import Runs
from holdfast.tui.first_frame import FirstFrame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.manage.selection import Selection


def run_top(selection: Selection, *, window: str | None, is_plain: bool) -> int:
    """Until the person leaves; the exit code."""
    library = Runs()
    frame = FirstFrame(library.home, selection, window=window, is_plain=is_plain)
    frame.begin()
    try:
        from holdfast.tui.app import TopApp

        app = TopApp(library, selection=selection, window=window, is_plain=is_plain)
    except BaseException:
        frame.undo()
        raise
    frame.end()
    code = app.run()
    if code is None:
        raise Bug("the screen has ended unexpectedly; this is a bug in Holdfast")
    return code
