"""The list of runs, and its keys."""

from __future__ import annotations

from textual.binding import Binding
from textual.widgets import Input

from holdfast.manage.plaintext import printable
from holdfast.manage.words.urgency import Urgency
from holdfast.manage.words.views import summary
from holdfast.tui.acting import ActingScreen
from holdfast.tui.board import LETTERS, RowOrder
from holdfast.tui.filtering import SYNTAX, RowFilter
from holdfast.tui.run_table import HeadLine, RunTable
from holdfast.tui.text_view import TextLine
from holdfast.tui.verbs import VERBS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual import events
    from textual.app import ComposeResult

    from holdfast.manage.live import LiveChanges
    from holdfast.manage.words.views import Row
    from holdfast.tui.board import Board
    from holdfast.tui.trends import Trends

_SETTLE_SECONDS = 0.05  # of the cursor, before the run under it is read
_KEYS = ("detail", "logs", "stop", "attach", "pause", "send", "remove", "recover")


class ListScreen(ActingScreen):
    """All runs, the most urgent first."""

    DEFAULT_CSS = """
    ListScreen Input { height: 1; border: none; padding: 0 1; }
    """
    BINDINGS = [
        Binding("down,j", "move(1)", show=False),
        Binding("up,k", "move(-1)", show=False),
        Binding("pagedown,ctrl+f", "page(1)", show=False),
        Binding("pageup,ctrl+b", "page(-1)", show=False),
        Binding("home,g", "first", show=False),
        Binding("end,G", "last", show=False),
        Binding("space", "mark", show=False),
        Binding("M", "mark_all", show=False),
        Binding("u", "unmark", show=False),
        Binding("slash", "filter", show=False),
        Binding("o", "order", show=False),
        Binding("escape", "clear", show=False),
        Binding("q", "quit_top", show=False),
    ]

    LAST_KEYS = (("?", "help"), ("q", "quit"))

    def __init__(self, board: Board, trends: Trends) -> None:
        super().__init__()
        self._table = RunTable(board, trends)
        self._head = HeadLine(self._table)

    def compose(self) -> ComposeResult:
        yield TextLine(id="state")
        yield self._head
        yield self._table
        field = Input(placeholder=SYNTAX, compact=True, id="filter")
        field.display = False
        yield field
        yield TextLine(id="message")
        yield TextLine(id="keys")

    def on_mount(self) -> None:
        self.follow()

    def targets(self) -> list[Row]:
        return self.top.board.chosen()

    def take(self, told: LiveChanges) -> None:
        self.follow()
        rows = self.targets()
        if len(rows) == 1 and (self.info is None or any(row.id == rows[0].id for row in told.rows)):
            self.read_info()

    def follow(self) -> None:
        """Draw what changed."""
        if self.size.width:
            self._table.follow_board()
            self._head.refresh()
            self._show_state()
            self.show_keys()

    def on_resize(self, event: events.Resize) -> None:
        del event
        self.call_after_refresh(self.follow)

    def _show_state(self) -> None:
        board, top = self.top.board, self.top
        said = summary(
            (row.state for row in board.rows.values()),
            window=top.window or "",
            unstarted=top.unstarted,
        )
        spans = [("holdfast ", "head"), (said.replace(": ls --all", ""), "")]
        asking = sum(row.urgency is Urgency.ATTENTION for row in board.rows.values())
        if asking:
            spans.append((f"  {asking} need{'s' if asking == 1 else ''} you", "ask"))
        if not top.is_whole:
            spans.append(("  reading ...", "dim"))
        if board.filter.text:
            spans.append((f"  /{board.filter.text}: {len(board.ids)} shown", "label"))
        if board.marked:
            spans.append((f"  {len(board.marked)} marked", "ask"))
        troubles = filter(None, (top.trouble, top.trouble_elsewhere))
        spans += [(printable(f"  {trouble}"), "bad") for trouble in troubles]
        self.write("state", *spans)

    def keys(self) -> Iterator[tuple[str, str, str]]:
        if self._table.is_ordering:
            for letter, column in LETTERS.items():
                yield letter, column.lower(), ""
            yield "o", "by need", ""
            return
        current = self.top.board.current
        if current is not None and current.urgency is Urgency.ATTENTION:
            yield "y/n", "answer", self.refusal(VERBS["approve"])
        for name in _KEYS[:4]:
            yield VERBS[name].key, VERBS[name].label, self.refusal(VERBS[name])
        yield "/", "filter", ""
        yield ":", "all", ""
        for name in _KEYS[4:]:
            yield VERBS[name].key, VERBS[name].label, self.refusal(VERBS[name])

    # Moving

    def _moved(self) -> None:
        self._table.follow_board()
        self._show_state()
        self.set_timer(_SETTLE_SECONDS, self._settled)
        self.show_keys()

    def _settled(self) -> None:
        rows = self.targets()
        if len(rows) != 1 or self.info is None or self.info.id != rows[0].id:
            self.read_info()

    def action_move(self, by: int) -> None:
        self.top.board.move_to(self.top.board.place + by)
        self._moved()

    def action_page(self, by: int) -> None:
        self.action_move(by * max(1, self._table.size.height - 1))

    def action_first(self) -> None:
        self.top.board.move_to(0)
        self._moved()

    def action_last(self) -> None:
        self.top.board.move_to(len(self.top.board.ids))
        self._moved()

    def on_run_table_row_clicked(self, event: RunTable.RowClicked) -> None:
        self._moved()
        if event.is_opened:
            self.action_verb("detail")

    def action_mark(self) -> None:
        self.top.board.toggle_mark()
        self.action_move(1)

    def action_mark_all(self) -> None:
        self.top.board.mark_all()
        self._moved()

    def action_unmark(self) -> None:
        self.top.board.marked.clear()
        self._moved()

    # Filter and order

    def action_filter(self) -> None:
        field = self.query_one(Input)
        field.display = True
        field.value = self.top.board.filter.text
        field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.display:
            self.top.board.set_filter(RowFilter.of(event.value))
            self.follow()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        del event
        self._close_filter()

    def _close_filter(self) -> None:
        field = self.query_one(Input)
        self.set_focus(None)
        field.display = False
        self._moved()

    def action_clear(self) -> None:
        """Whatever was begun is left; then the filter, then the marks."""
        if self._table.is_ordering:
            self._end_order()
        elif self.top.board.filter.text or self.query_one(Input).display:
            self.top.board.set_filter(RowFilter())
            self._close_filter()
        elif self.top.board.marked:
            self.action_unmark()
        else:
            self.top.say("")
        self.follow()

    def action_order(self) -> None:
        self._table.is_ordering = True
        self.top.say("sort by: the letter of a column; o: what needs you first; esc: as it is")
        self.follow()

    def on_key(self, event: events.Key) -> None:
        """While a column's letter is awaited, letters mean columns."""
        if not self._table.is_ordering or event.key == "escape":
            return
        event.prevent_default()
        event.stop()
        board, column = self.top.board, LETTERS.get(event.character or "")
        if event.character == "o":
            board.set_order(RowOrder())
        elif column is not None:
            again = board.order.column == column
            board.set_order(RowOrder(column, is_reversed=again and not board.order.is_reversed))
        self._end_order()
        if column is None and event.character != "o":
            self.top.say(f"no column has the letter {event.character or event.key}", "warn")
        self.follow()

    def _end_order(self) -> None:
        self._table.is_ordering = False
        self.top.say("")

    def commands(self) -> list[tuple[str, str, str, str]]:
        return [
            ("filter", "/", "show some alone", ""),
            ("order", "o", "sort by a column", ""),
            ("mark_all", "M", "mark all that are shown", ""),
            ("unmark", "u", "mark none", ""),
            *super().commands(),
        ]

    def run_command(self, name: str) -> None:
        own = {"filter": self.action_filter, "order": self.action_order,
               "mark_all": self.action_mark_all, "unmark": self.action_unmark}  # fmt: skip
        own.get(name, lambda: super(ListScreen, self).run_command(name))()

    def action_quit_top(self) -> None:
        self.top.leave()
