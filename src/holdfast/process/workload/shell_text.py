"""The structure of a `sh -c` text: one command with its surroundings, or a script of its own.

Pure. Puts the words of `shell_words.py` together to commands, without expanding anything. A text
that it does not understand (a here-document, an open quote) is None: then nothing is decided.
"""

from __future__ import annotations

from holdfast.process.workload.programs import Program, base, shell_code
from holdfast.record import Record
from holdfast.shell_words import OPERATOR, PLAIN, REDIRECTIONS, split

TYPE_CHECKING = False
if TYPE_CHECKING:
    Words = tuple[str, ...]


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


# They run in the shell itself.
_BUILTINS = _set(
    ". : [ [[ alias bg break cd continue declare dirs echo exit export false fg getopts hash jobs"
    " kill let local popd printf pushd pwd read readonly return set shift shopt source test times"
    " trap true type typeset ulimit umask unalias unset wait"
)
# Beside another program, they prepare it or clean up after it.
_UTILITIES = _set(
    "awk basename cat chmod chown cp cut date df dirname du grep head hostname id install ln ls"
    " mkdir mktemp mv realpath rm rmdir sed seq sleep sort stat sync tail tee touch tr tty uname"
    " wc which whoami"
)
_CONDITIONS = _set("if then elif else fi { } ! time do done")  # they don't repeat anything
_LOOPS = _set("while until")
_LISTS = _set("for select")  # words follow, not a command
_ENDS_UNIT = _set("; ;; && ||") | {"\n"}


class Script(Record):
    """What a text consists of. A unit is a pipeline, or programs that run beside each other."""

    units: tuple[tuple[Words, ...], ...]
    has_body: bool  # a loop, a case or a function
    substitutes: bool = False  # programs run in $(...) as well

    @property
    def is_workload(self) -> bool:
        """Whether the shell itself does the work, and not one program that it starts."""
        if self.has_body:
            return True
        started = [
            programs for unit in self.units if (programs := [c for c in unit if _is_program(c)])
        ]
        if len(started) > 1:
            started = [
                programs
                for programs in started
                if any(base(command[0]) not in _UTILITIES for command in programs)
            ]
        if not started and self.substitutes:
            return False
        return bool(self.units) and len(started) != 1

    def names(self) -> set[str]:
        """The programs that it starts, also behind another one that gets them as arguments."""
        commands = [command for unit in self.units for command in unit if _is_program(command)]
        return {base(word) for command in commands for word in command}


def is_script(program: Program) -> bool:
    """Whether the text of a `sh -c` is a script, which the shell itself carries out."""
    text = shell_code(program)
    script = None if text is None else read_script(text)
    return script is not None and script.is_workload


def read_script(text: str) -> Script | None:
    """The structure of a text; None: it is not understood."""
    reader = _Reader()
    try:
        for kind, value, _ in split(text):
            reader.take(kind, value)
    except ValueError:
        if not reader.has_body:
            return None
    return reader.script()


def _is_program(command: Words) -> bool:
    first = command[0]
    if first == "exec":
        return len(command) > 1
    if first in ("command", "builtin"):
        return len(command) > 1 and not command[1].startswith("-")
    return first not in _BUILTINS


class _Reader:
    """Puts tokens together to commands and units."""

    def __init__(self) -> None:
        self.has_body = False
        self._substitutes = False
        self._units: list[list[Words]] = [[]]
        self._words: list[str] = []
        self._skips_word = False  # it belongs to a redirection
        self._skips_until = ""  # a word that ends what is no command

    def script(self) -> Script:
        self._end_command()
        units = tuple(tuple(unit) for unit in self._units if unit)
        return Script(units, self.has_body, self._substitutes)

    def take(self, kind: str, value: str) -> None:
        self._substitutes |= "$(" in value.replace("$((", "") or "`" in value
        if self._skips_until:
            if value == self._skips_until or (self._skips_until == ";" and value == "\n"):
                self._skips_until = ""
        elif kind == OPERATOR:
            self._operator(value)
        elif self._skips_word:
            self._skips_word = False
        else:
            self._word(value, is_plain=kind == PLAIN)

    def _operator(self, value: str) -> None:
        if value in ("<<", "<<-"):
            raise ValueError("a here-document")
        if value in REDIRECTIONS:
            self._skips_word = True
        elif value == "(" and self._words:
            if len(self._words) > 1:
                raise ValueError("a parenthesis among words")
            self.has_body = True  # name ( ) is a function
            self._words = []
        else:
            self._end_command()
            if value in _ENDS_UNIT:
                self._units.append([])

    def _end_command(self) -> None:
        if self._words:
            self._units[-1].append(tuple(self._words))
            self._words = []

    def _word(self, value: str, *, is_plain: bool) -> None:
        if not self._words and _is_assignment(value):
            return
        if self._words or not is_plain:
            self._words.append(value)
        elif value in _LOOPS:
            self.has_body = True
        elif value in _LISTS:
            self.has_body, self._skips_until = True, ";"
        elif value == "function":
            self.has_body, self._skips_word = True, True
        elif value == "case":
            self.has_body = True
            raise ValueError("its patterns are not read")
        elif value == "[[":
            self._words, self._skips_until = [value], "]]"
        elif value not in _CONDITIONS:
            self._words.append(value)


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.rstrip("+").isidentifier()
