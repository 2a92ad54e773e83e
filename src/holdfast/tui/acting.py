"""A screen on which runs can be acted on: its keys, its last lines, what is greyed and why."""

from __future__ import annotations

from textual.binding import Binding
from textual.screen import Screen

from holdfast.errors import HoldfastError
from holdfast.manage.info import read_run
from holdfast.manage.plaintext import printable, width
from holdfast.manage.words.possible import Deed, permissions_asked, recovered_there, why_not
from holdfast.run.directory import RunDirectory
from holdfast.tui.deeds import DeedRequest, run_of
from holdfast.tui.dialogs import AnswerQuestion, AskLine, Confirm, HelpPage, Palette
from holdfast.tui.text_view import TextLine
from holdfast.tui.verbs import VERBS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from holdfast.manage.info import RunInfo
    from holdfast.manage.live import LiveChanges
    from holdfast.manage.words.views import Row
    from holdfast.tui.app import TopApp
    from holdfast.tui.dialogs import GivenWord
    from holdfast.tui.verbs import Verb

_MOST_NAMED = 3
_ONE_ALONE = (Deed.ATTACH, Deed.SEND, Deed.APPROVE, Deed.DENY, Deed.RESUME, Deed.TOKEN)


class ActingScreen(Screen[None]):
    """Its subclass says which runs are meant."""

    AUTO_FOCUS = ""  # keys are the screen's, until a line is typed

    BINDINGS = [
        *(Binding(verb.key, f"verb('{verb.name}')", show=False) for verb in VERBS.values()),
        Binding("colon", "palette", show=False),
        Binding("question_mark", "help", show=False),
    ]

    LAST_KEYS: tuple[tuple[str, str], ...] = (("?", "help"),)

    def __init__(self) -> None:
        super().__init__()
        self.info: RunInfo | None = None  # of the one run that is meant, once it is read

    @property
    def top(self) -> TopApp:
        """The application."""
        found: TopApp = self.app  # type: ignore[assignment]
        return found

    def targets(self) -> list[Row]:
        """The runs that a key acts on."""
        raise NotImplementedError

    def take(self, told: LiveChanges) -> None:
        """What the live model told; the board has it already."""
        raise NotImplementedError

    def keys(self) -> Iterator[tuple[str, str, str]]:
        """What the last line offers: a key, what it does, and why not."""
        raise NotImplementedError

    # What is known about the run that is meant

    def read_info(self) -> None:
        """Read it again; until then nothing is greyed."""
        rows = self.targets()
        if len(rows) != 1:
            self._take_info(None)
            return
        row = rows[0]
        if self.info is not None and self.info.id != row.id:
            self._take_info(None)
        if row.node:
            sight = self.top.elsewhere.sight(row.id)
            self._take_info(None if sight is None else sight.info)
            return
        directory = RunDirectory(self.top.library.home, row.id)
        self.top.background.do(
            f"info {id(self)}", lambda: read_run(directory, closely=False), self._take_info
        )

    def _take_info(self, found: Any) -> None:
        rows = self.targets()
        is_meant = len(rows) == 1 and not isinstance(found, HoldfastError | None)
        self.info = found if is_meant and found.id == rows[0].id else None
        self.show_keys()

    def refusal(self, verb: Verb) -> str:
        """Why it can't be done now; empty: nothing is known to speak against it."""
        rows = self.targets()
        if not rows:
            return "there is no run here"
        if verb.deed is None:
            return ""
        if len(rows) > 1:
            one = f"{verb.label} is for one run: {len(rows)} are marked, u unmarks them"
            return one if verb.deed in _ONE_ALONE else ""
        if verb.deed is Deed.RECOVER and rows[0].node:
            return recovered_there(rows[0].name, rows[0].node)
        info = self.info
        # The cursor may have moved on since that was read: nothing is known of the other run yet.
        return "" if info is None or info.id != rows[0].id else why_not(verb.deed, info)

    # The last lines

    def show_keys(self) -> None:
        """The line of keys, as many as fit; those for help and to leave always do."""
        spans: list[tuple[str, str]] = []
        room = self.size.width - sum(len(key) + len(label) + 3 for key, label in self.LAST_KEYS)
        for key, label, refusal in self.keys():
            room -= width(key) + width(label) + 3
            if room < 0:
                break
            spans += _offered(key, label, refusal)
        for key, label in self.LAST_KEYS:
            spans += _offered(key, label, "")
        self.write("keys", *spans)

    def show_message(self, text: str, look: str) -> None:
        """What was done or refused; empty: nothing."""
        self.write("message", (printable(text), look))

    def write(self, line: str, *spans: tuple[str, str]) -> None:
        """In one of its lines; a screen that is being closed has none any more."""
        for found in self.query(f"#{line}").results(TextLine):
            found.say(*spans)

    def on_screen_resume(self) -> None:
        self.show_message(*self.top.message)
        self.read_info()

    # Keys

    def action_verb(self, name: str) -> None:
        verb = VERBS[name]
        refusal = self.refusal(verb)
        if refusal:
            self.top.say(refusal, "warn")
            return
        self.top.say("")
        if verb.deed is None:
            self.top.open_page(name, self.targets()[0])
        elif verb.question:
            self._confirm(verb)
        else:
            self._ask_more(verb.deed)

    def _confirm(self, verb: Verb) -> None:
        asked = self._request(verb)
        what = _named([name for _, name in asked.runs])
        question = verb.question.format(what=what)

        def then(is_sure: bool | None) -> None:
            if is_sure:
                self.top.begin(asked)
            else:
                self.top.say(f"{verb.label}: left as it is")

        self.app.push_screen(Confirm(question), then)

    def _request(self, verb: Verb, text: str = "") -> DeedRequest:
        assert verb.deed is not None
        return DeedRequest(verb.deed, tuple((row.id, row.name) for row in self.targets()), text)

    def _ask_more(self, deed: Deed) -> None:
        verb, row = VERBS[deed.value], self.targets()[0]
        asks: dict[Deed, Callable[[], None]] = {
            Deed.ATTACH: lambda: self.top.attach(row),
            Deed.SEND: lambda: self._ask_line(verb, f"send to {row.name}:"),
            Deed.RESUME: lambda: self._ask_line(verb, f"what {row.name} is to do next:"),
            Deed.APPROVE: lambda: self._show_question(row),
            Deed.DENY: lambda: self._show_question(row),
        }
        asks.get(deed, lambda: self.top.begin(self._request(verb)))()

    def _ask_line(self, verb: Verb, question: str) -> None:
        asked = self._request(verb)

        def then(text: str | None) -> None:
            if text is None:
                self.top.say(f"{verb.label}: left as it is")
            else:
                self.top.begin(asked.replace(text=text))

        self.app.push_screen(AskLine(question), then)

    def _show_question(self, row: Row) -> None:
        """Nothing is answered that was not shown: what is asked is read now."""
        library = self.top.library
        self.top.background.do(
            "question",
            lambda: run_of(library, row.id).info(),
            lambda info: self._ask(row, info),
        )

    def _ask(self, row: Row, info: RunInfo | HoldfastError) -> None:
        refusal = info.message if isinstance(info, HoldfastError) else why_not(Deed.APPROVE, info)
        if isinstance(info, HoldfastError) or refusal:
            self.top.say(refusal, "warn")
            return

        def then(word: GivenWord | None) -> None:
            if word is None:
                self.top.say(f"{row.name} still waits for an answer")
                return
            deed = Deed.APPROVE if word.is_allowed else Deed.DENY
            self.top.begin(DeedRequest(deed, ((row.id, row.name),), word.question))

        self.app.push_screen(AnswerQuestion(row.name, permissions_asked(info)), then)

    def action_palette(self) -> None:
        entries = [(verb.name, verb.key, verb.help, self.refusal(verb)) for verb in VERBS.values()]

        def then(name: str | None) -> None:
            if name is not None:
                self.run_command(name)

        self.app.push_screen(Palette([*entries, *self.commands()]), then)

    def commands(self) -> list[tuple[str, str, str, str]]:
        """What else the palette has."""
        return [
            ("help", "?", "every key and every sign", ""),
            ("quit", "q", "leave; runs are not affected", ""),
        ]

    def run_command(self, name: str) -> None:
        """A command of the palette."""
        if name in VERBS:
            self.action_verb(name)
        elif name == "help":
            self.action_help()
        elif name == "quit":
            self.top.leave()

    def action_help(self) -> None:
        self.app.push_screen(HelpPage())


def _offered(key: str, label: str, refusal: str) -> list[tuple[str, str]]:
    look = "off" if refusal else ""
    return [(key, look or "key"), (f" {label}", look), ("  ", "")]


def _named(names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{len(names)} runs ({', '.join(names[:_MOST_NAMED])}{more})"
