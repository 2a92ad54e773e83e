"""Splits shell text into words and operators, as a shell does before it expands anything.

It also quotes words. Pure, and cheap enough for a launch (shlex is not).
`process/workload/shell_text.py` puts commands together from it; `agents/unwrapping.py` takes only
texts that are nothing but words.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Token = tuple[str, str, bool]  # kind, text, whether a program would get exactly this text

# Kinds of tokens. A plain word may be a keyword: nothing in it is quoted.
OPERATOR, PLAIN, QUOTED = "operator", "plain", "quoted"
REDIRECTIONS = frozenset({"<<<", ">>", "<&", ">&", "<>", ">|", "&>", "&>>", "<", ">"})
_OPERATORS = (
    *("<<<", "<<-", "&>>", "<<", ">>", "<&", ">&", "<>", ">|", "&>", "&&", "||", "|&", ";;"),
    *("<", ">", "&", "|", ";", "(", ")", "\n"),
)
# What a word may hold without quotes. The same as shlex has, without its expressions.
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-")
_EXPANDS = "$`*?[]{}~!"  # outside of quotes
_EXPANDS_IN_QUOTES = "$`\\"


def quote(word: str) -> str:
    """The word as a shell reads it back."""
    if word and _SAFE.issuperset(word):
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


def command_line(words: Iterable[str]) -> str:
    """A command line that a shell splits into these words."""
    return " ".join(map(quote, words))


def plain_words(text: str) -> tuple[str, ...] | None:
    """The words of one plain command, without a leading `exec`; None: a shell does more with it.

    `claude -p 'fix it'` is the same as its words; `cd x && claude` and `claude -p $x` are not.
    """
    words: list[str] = []
    try:
        for kind, word, is_literal in split(text):
            if kind == OPERATOR or not is_literal:
                return None
            words.append(word)
    except ValueError:
        return None
    if words[:1] == ["exec"]:
        del words[0]
    return None if words and "=" in words[0] else tuple(words)


def split(text: str) -> Iterator[Token]:
    """The tokens of a text, without comments. ValueError: a quote or an expansion has no end."""
    at, word, kind, is_literal, is_begun = 0, "", PLAIN, True, False
    while at < len(text):
        char = text[at]
        operator = next((one for one in _OPERATORS if text.startswith(one, at)), None)
        if operator is not None or char in " \t" or (char == "#" and not is_begun):
            # The number before a redirection is a descriptor.
            if is_begun and not (operator in REDIRECTIONS and word.isdigit()):
                yield kind, word, is_literal
            word, kind, is_literal, is_begun = "", PLAIN, True, False
            if char == "#":
                at = _find(text + "\n", "\n", at)
                continue
            if operator is not None:
                yield OPERATOR, operator, True
            at += len(operator or char)
            continue
        end = _end_of_part(text, at)
        part = text[at:end]
        kind = kind if len(part) == 1 else QUOTED
        is_literal = is_literal and _is_literal(part)
        word += _unquoted(part)
        is_begun, at = True, end
    if is_begun:
        yield kind, word, is_literal


def _is_literal(part: str) -> bool:
    if part[0] == '"':
        return not any(char in _EXPANDS_IN_QUOTES for char in part)
    return part[0] not in _EXPANDS


def _end_of_part(text: str, at: int) -> int:
    """Where a quoted or expanded part of a word, or one character, ends."""
    char = text[at]
    if char == "\\":
        return at + 2
    if char in "'`":
        return _find(text, char, at + 1) + 1
    if char == '"':
        return _end_of_quote(text, at + 1)
    if char == "$" and text[at + 1 : at + 2] in ("(", "{"):
        return _end_of_group(text, at + 1)
    return at + 1


def _end_of_quote(text: str, at: int) -> int:
    while at < len(text) and text[at] != '"':
        nested = text[at] in "\\`" or text[at : at + 2] in ("$(", "${")
        at = _end_of_part(text, at) if nested else at + 1
    if at >= len(text):
        raise ValueError("a quote has no end")
    return at + 1


def _end_of_group(text: str, at: int) -> int:
    opening = text[at]
    closing = ")" if opening == "(" else "}"
    at += 1
    while at < len(text) and text[at] != closing:
        at = _end_of_group(text, at) if text[at] == opening else _end_of_part(text, at)
    if at >= len(text):
        raise ValueError("an expansion has no end")
    return at + 1


def _find(text: str, char: str, at: int) -> int:
    found = text.find(char, at)
    if found < 0:
        raise ValueError("a quote has no end")
    return found


def _unquoted(part: str) -> str:
    if part[0] in "'\"":
        return part[1:-1]
    return part[1:].strip("\n") if part[0] == "\\" else part
