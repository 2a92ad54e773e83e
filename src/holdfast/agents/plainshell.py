"""Splits a shell command that is nothing but plain and quoted words; refuses all others.

`sh -c "claude -p 'fix it'"` is the same as its words; `sh -c "cd x && claude"` is not. Pure;
shlex would split both, and costs a launch.
"""

from __future__ import annotations

_SPECIAL = frozenset("|&;<>()$`\\*?[]{}~#!\n")


def plain_words(command: str) -> tuple[str, ...] | None:
    """The words, without a leading `exec`; None when a shell would do more than split them."""
    words: list[str] = []
    word: str | None = None
    at = 0
    while at < len(command):
        char = command[at]
        if char in "'\"":
            end = command.find(char, at + 1)
            quoted = command[at + 1 : end]
            if end < 0 or (char == '"' and any(special in quoted for special in "$`\\")):
                return None
            word, at = (word or "") + quoted, end
        elif char in " \t":
            if word is not None:
                words.append(word)
            word = None
        elif char in _SPECIAL:
            return None
        else:
            word = (word or "") + char
        at += 1
    if word is not None:
        words.append(word)
    if words[:1] == ["exec"]:
        del words[0]
    return None if words and "=" in words[0] else tuple(words)
