"""What an agent's hooks run: tells the run's shim what the agent says; prints a decision.

Run by its path, as `python -I -S hook_program.py`, and never imported: an agent waits for it at
each tool call, so it loads next to nothing. Whatever fails here is silent, with exit code 0: the
agent goes on as without it. A question keeps its connection; if the shim dies, its adopter is
called again, under the same id.
"""

from __future__ import annotations

import _socket
import os
import sys
import time
from binascii import b2a_base64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_BYTES = 64 << 10  # of what the agent says: more is cut by `_shorten`
MOST_READ_BYTES = 8 << 20
MOST_TEXT = 8 << 10  # of one text in it, then
ANSWER_SECONDS = 8.0  # for a shim that is there; an agent gives its hooks ten
CALLING_SECONDS = 2.0  # while there is none: the agent waits
AGAIN_SECONDS = 0.2
LONGEST_SECONDS = 23.9 * 3600  # the agent's own limit of such a hook is a day


def main() -> None:
    run_id = os.environ.get("HOLDFAST_RUN_ID")
    home = os.environ.get("HOLDFAST_RUN_HOME") or os.environ.get("HOLDFAST_HOME")
    if not run_id or not home or "/" in run_id:
        return
    said = _read(MOST_BYTES + 1)
    if len(said) > MOST_BYTES:
        said = _shorten(said + _read(MOST_READ_BYTES))
    os.chdir(f"{home}/runs/{run_id}")  # an address holds 108 bytes of path
    asked = os.urandom(6).hex()
    encoded = b2a_base64(said, newline=False)
    at = b"%.3f" % time.clock_gettime(time.CLOCK_BOOTTIME)
    request = b'{"do":"hook","id":"%s","at":%s,"base64":"%s"}\n' % (asked.encode(), at, encoded)
    began = time.monotonic()
    is_held = True
    has_been = False
    while is_held and time.monotonic() - began < (LONGEST_SECONDS if has_been else CALLING_SECONDS):
        is_held, was_asked = _tell(request, began)
        has_been = has_been or was_asked
        if is_held:
            time.sleep(AGAIN_SECONDS)
            is_held = _is_read()


def _is_read() -> bool:
    """Whether the agent still listens: one that was killed while its run had no shim does not."""
    import select

    poll = select.poll()
    poll.register(1, 0)
    return not poll.poll(0)


def _read(most: int) -> bytes:
    parts, left = [], most
    while left > 0:
        part = os.read(0, left)
        if not part:
            break
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _shorten(said: bytes) -> bytes:
    """The same with its long texts cut, as a tool's answer is; nothing, if it is no JSON."""
    import json

    try:
        return json.dumps(_cut(json.loads(said), 0)).encode()[:MOST_BYTES]
    except (ValueError, RecursionError):
        return b""


def _cut(value: object, depth: int) -> object:
    if isinstance(value, str):
        return value[:MOST_TEXT]
    if depth > 3:
        return None
    if isinstance(value, dict):
        return {str(name)[:200]: _cut(one, depth + 1) for name, one in list(value.items())[:50]}
    return [_cut(one, depth + 1) for one in value[:50]] if isinstance(value, list) else value


def _tell(request: bytes, began: float) -> tuple[bool, bool]:
    """Whether to call again, and whether the shim took it for a question."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.settimeout(ANSWER_SECONDS)
    is_decided = False
    try:
        connection.connect("control")
        connection.sendall(request)
        lines = _lines(connection)
        answer = next(lines, b"")
        if b'"later"' in answer or not answer:
            return True, False  # it is being started, or was killed just now
        if b'"hold"' not in answer:
            return False, False
        connection.settimeout(max(1.0, LONGEST_SECONDS - (time.monotonic() - began)))
        decided = next(lines, b"")
        if not decided:
            return True, True
        is_decided = True  # whatever becomes of the shim: the agent is told once
        if _decide(connection, decided):
            next(lines, b"")  # it is on record: then we may end
        return False, True
    except TimeoutError:
        return False, False
    except OSError:
        return not is_decided, is_decided
    finally:
        connection.close()


def _lines(connection: _socket.socket) -> Iterator[bytes]:
    """Until it hangs up."""
    said = b""
    while part := connection.recv(65536):
        *lines, said = (said + part).split(b"\n")
        yield from lines


def _decide(connection: _socket.socket, line: bytes) -> bool:
    """Print what the agent is to be told, if anything, and acknowledge that."""
    import json

    said = json.loads(line).get("print")
    if isinstance(said, str):
        sys.stdout.write(said)
        sys.stdout.flush()
        connection.sendall(b'{"do":"hook_done"}\n')
        connection.settimeout(ANSWER_SECONDS)
    return isinstance(said, str)


try:
    main()
except Exception:  # noqa: BLE001 - an agent must not fail by it
    os._exit(0)
os._exit(0)
