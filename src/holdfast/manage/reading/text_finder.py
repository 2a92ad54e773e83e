"""Finds a text in large blocks of bytes. Pure.

`bytes.find` looks for one byte many times faster than for several. So where a byte of the text is
rare in what is searched, that byte is looked for, and the text around it compared. For very short
texts `re` is the faster one of the others.
"""

from __future__ import annotations

import re

_SAMPLE_BYTES = 64 * 1024
_LEAST_SAMPLE_BYTES = 4096  # a smaller one says nothing about the next block
_RARE = 64  # in a sample: to look at each costs less than is saved
_MOST_MISSES = 4000  # in a block: then the byte is not rare any more
_SHORT = 3


class TextFinder:
    """One text. `prepare` looks at each block before it is searched."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self._short = re.compile(re.escape(text)) if 1 < len(text) <= _SHORT else None
        self._rare = b""
        self._offset = 0  # of the rare byte in the text
        self._misses = _MOST_MISSES + 1

    def prepare(self, data: bytes, begin: int, end: int) -> None:
        """Choose how to search, if that is not known or was wrong in the last block."""
        if end - begin < _LEAST_SAMPLE_BYTES:
            return
        if self._misses > _MOST_MISSES:
            sample = data[begin : min(end, begin + _SAMPLE_BYTES)]
            counts = {byte: sample.count(byte) for byte in set(self.text)}
            rarest = min(counts, key=lambda byte: counts[byte], default=0)
            is_rare = len(self.text) > 1 and counts[rarest] <= _RARE
            self._rare = bytes([rarest]) if is_rare else b""
            self._offset = self.text.find(self._rare)
        self._misses = 0

    def find(self, data: bytes, begin: int, end: int) -> int:
        """Where in `data[begin:end]` the text is first; -1: nowhere."""
        if self._rare:
            return self._find_rare(data, begin, end)
        if self._short is not None:
            found = self._short.search(data, begin, end)
            return -1 if found is None else found.start()
        return data.find(self.text, begin, end)

    def _find_rare(self, data: bytes, begin: int, end: int) -> int:
        offset = self._offset
        last = end - len(self.text) + offset + 1
        at = data.find(self._rare, begin + offset, last)
        while at >= 0 and not data.startswith(self.text, at - offset):
            self._misses += 1
            at = data.find(self._rare, at + 1, last)
        return at - offset if at >= 0 else -1

    def is_selective(self, data: bytes, begin: int, end: int) -> bool:
        """Whether few lines have the text, judged by the head of the block."""
        return data.count(self.text, begin, min(end, begin + _SAMPLE_BYTES)) <= _RARE
