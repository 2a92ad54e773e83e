"""Questions to the person: yes or no, a line of text, an agent's question, a command by name."""

from __future__ import annotations

from typing import TypeVar

from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from holdfast.manage.plaintext import printable, printable_lines, wrapped
from holdfast.record import Record
from holdfast.tui.text_view import TextView
from holdfast.tui.verbs import OF_LIST, OF_PAGE, OF_SIGNS, VERBS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from textual import events
    from textual.app import ComposeResult

    from holdfast.tui.table import Spans

_BOX = """
    {name} {{ align: center middle; }}
    {name} > Vertical {{
        width: 90%; max-width: 90; height: auto; max-height: 90%;
        border: round ansi_cyan; padding: 0 1; background: ansi_default;
    }}
"""


Answer = TypeVar("Answer")
_KEY_ROOM = 14
_COMMAND_ROOM = 19  # of a command's sign, name and key in the palette


class _Question(ModalScreen[Answer]):
    """One question, in its own words."""

    def __init__(self, question: str) -> None:
        super().__init__()
        self.question = question


class Confirm(_Question[bool]):
    """Yes or no; anything but `y` is no."""

    DEFAULT_CSS = _BOX.format(name="Confirm")

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(printable_lines(self.question), markup=False)
            yield Static("y yes   any other key: no", markup=False)

    def on_key(self, event: events.Key) -> None:
        event.stop()
        self.dismiss(event.character in ("y", "Y"))


class AskLine(_Question[str | None]):
    """A line of text; None: left."""

    DEFAULT_CSS = _BOX.format(name="AskLine")
    BINDINGS = [Binding("escape", "leave", show=False)]

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(printable_lines(self.question), markup=False)
            yield Input(compact=True)
            yield Static("enter sends it   esc leaves", markup=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)

    def action_leave(self) -> None:
        self.dismiss(None)


class GivenWord(Record):
    """The answer to one question of an agent."""

    question: str  # its id
    is_allowed: bool


class AnswerQuestion(ModalScreen[GivenWord | None]):
    """What an agent asks, whole, one question after the other: y allows, n denies."""

    DEFAULT_CSS = _BOX.format(name="AnswerQuestion") + (
        " AnswerQuestion TextView { height: auto; max-height: 50vh; }"
    )
    BINDINGS = [
        Binding("y", "answer(True)", show=False),
        Binding("n", "answer(False)", show=False),
        Binding("tab", "next", show=False),
        Binding("escape,q", "leave", show=False),
        Binding("down,j", "scroll(1)", show=False),
        Binding("up,k", "scroll(-1)", show=False),
    ]

    def __init__(self, name: str, questions: Sequence[dict[str, Any]]) -> None:
        super().__init__()
        self._name_of_run = name
        self._questions = list(questions)
        self._place = 0

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static("", id="of", markup=False)
            yield TextView()
            yield Static("", id="answers", markup=False)

    def on_mount(self) -> None:
        self._show()

    def _show(self) -> None:
        asked, count = self._questions[self._place], len(self._questions)
        which = f" ({self._place + 1} of {count})" if count > 1 else ""
        self.query_one("#of", Static).update(f"{self._name_of_run} asks{which}, {asked['id']}:")
        cut = "\n(cut: enter shows the run; its terminal has all of it)" if asked["is_cut"] else ""
        text = printable_lines(str(asked["text"])) + cut
        view = self.query_one(TextView)
        view.show([((line, ""),) for line in text.split("\n")])
        view.scroll_to(y=0, animate=False, force=True, immediate=True)
        self.call_after_refresh(self._show_keys)

    def on_resize(self) -> None:
        self.call_after_refresh(self._show_keys)

    def _show_keys(self) -> None:
        keys = "y approve   n deny   esc leave it open"
        keys += "   tab the next" if len(self._questions) > 1 else ""
        keys += "   down and up: the rest" if self.query_one(TextView).max_scroll_y else ""
        self.query_one("#answers", Static).update(keys)

    def action_answer(self, is_allowed: bool) -> None:
        self.dismiss(GivenWord(str(self._questions[self._place]["id"]), is_allowed))

    def action_next(self) -> None:
        self._place = (self._place + 1) % len(self._questions)
        self._show()

    def action_scroll(self, by: int) -> None:
        self.query_one(TextView).scroll_by_lines(by)

    def action_leave(self) -> None:
        self.dismiss(None)


class Palette(ModalScreen[str | None]):
    """Every command by name; what is typed narrows it."""

    DEFAULT_CSS = _BOX.format(name="Palette") + " Palette TextView { height: 14; }"
    BINDINGS = [
        Binding("escape", "leave", show=False),
        Binding("down", "move(1)", show=False, priority=True),
        Binding("up", "move(-1)", show=False, priority=True),
    ]

    def __init__(self, entries: Sequence[tuple[str, str, str, str]]) -> None:
        """Of each: what it is called by, its key, its help, and why it can't be done."""
        super().__init__()
        self._entries = list(entries)
        self._fitting = self._entries
        self._place = 0

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Input(placeholder="a command", compact=True)
            yield TextView()

    def on_mount(self) -> None:
        self.call_after_refresh(self._show)

    def on_resize(self) -> None:
        self.call_after_refresh(self._show)

    def on_input_changed(self, event: Input.Changed) -> None:
        words = event.value.lower().split()
        fitting = [
            one for one in self._entries if all(word in f"{one[0]} {one[2]}" for word in words)
        ]
        begun = event.value.strip().lower()
        self._fitting = sorted(fitting, key=lambda one: not one[0].startswith(begun))
        self._place = 0
        self._show()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        del event
        self.dismiss(self._fitting[self._place][0] if self._fitting else None)

    def action_move(self, by: int) -> None:
        self._place = max(0, min(self._place + by, len(self._fitting) - 1))
        self._show()

    def action_leave(self) -> None:
        self.dismiss(None)

    def _show(self) -> None:
        view = self.query_one(TextView)
        lines: list[Spans] = []
        at = below = 0  # the lines of the one that is chosen
        for place, (name, key, text, refusal) in enumerate(self._fitting):
            is_chosen = place == self._place
            said = f"can't: {refusal}" if refusal else text
            look = "dim" if refusal else ""
            head: Spans = ((f"{'>' if is_chosen else ' '} ", "key"), (f"{name:<10}", "bold"),
                           (f"{key:<7}", "key"))  # fmt: skip
            at = len(lines) if is_chosen else at
            for part in wrapped(printable(said), max(view.size.width - _COMMAND_ROOM - 1, 10)):
                lines.append((*head, (part, look)))
                head = ((" " * _COMMAND_ROOM, ""),)
            below = len(lines) if is_chosen else below
        view.show(lines or [(("no such command", "dim"),)])
        y = max(0, min(at, below - view.size.height))
        view.scroll_to(y=y, animate=False, force=True, immediate=True)


class HelpPage(ModalScreen[None]):
    """Every key and every sign."""

    DEFAULT_CSS = (
        _BOX.format(name="HelpPage") + " HelpPage TextView { height: auto; max-height: 70vh; }"
    )
    BINDINGS = [
        Binding("escape,q,question_mark,enter", "leave", show=False),
        Binding("down,j", "scroll(1)", show=False),
        Binding("up,k", "scroll(-1)", show=False),
        Binding("pagedown,space", "scroll(12)", show=False),
        Binding("pageup", "scroll(-12)", show=False),
    ]

    def compose(self) -> ComposeResult:
        with Vertical():
            yield TextView()
            yield Static("esc back   down and up scroll", markup=False)

    def on_mount(self) -> None:
        self.call_after_refresh(self._show)

    def on_resize(self) -> None:
        self.call_after_refresh(self._show)

    def _show(self) -> None:
        view = self.query_one(TextView)
        view.show(help_lines(view.size.width))

    def action_scroll(self, by: int) -> None:
        self.query_one(TextView).scroll_by_lines(by)

    def action_leave(self) -> None:
        self.dismiss(None)


def help_lines(room: int) -> list[Spans]:
    """All keys; lines that are longer than that go on below."""
    of_runs = [(verb.key, verb.help) for verb in VERBS.values()]
    parts = (
        ("On a run, or on those that are marked", of_runs),
        ("In the list", OF_LIST),
        ("On a page", OF_PAGE),
        ("Signs before a run", OF_SIGNS),
    )
    lines: list[Spans] = []
    for title, rows in parts:
        lines.append(((title, "head"),))
        for key, text in rows:
            below = wrapped(text, max(room - _KEY_ROOM - 1, 10))
            heads = [f"  {key}", *[""] * (len(below) - 1)]
            lines += [
                ((f"{head:<{_KEY_ROOM}}", "key"), (part, ""))
                for head, part in zip(heads, below, strict=True)
            ]
        lines.append(())
    return lines[:-1]
