"""An agent's stream as text, line by line, from pieces that are cut anywhere."""

from __future__ import annotations

from holdfast.agents.loader import load_profile
from holdfast.agents.pretty import PrettyPrinter
from holdfast.manage.plaintext import printable_lines

_LONGEST_LINE = 1 << 20


class PrettyLines:
    """Of one client."""

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self.restart()

    def restart(self) -> None:
        """After a gap: what was unfinished is not continued."""
        self._printer = PrettyPrinter(load_profile(self._agent), plain=printable_lines)
        self._rest = b""

    def feed(self, data: bytes) -> str:
        """What is to be shown for this piece; the last line may have to wait for its end."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            lines, self._rest = [*lines, self._rest], b""
        return b"".join(self._printer.line(line + b"\n") for line in lines).decode(
            "utf-8", "replace"
        )
