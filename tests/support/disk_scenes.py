"""Scenes on a small file system of their own, which can be filled to the last byte."""

from __future__ import annotations

import errno
import os
import subprocess
from typing import Any
from unittest import mock

from holdfast.process import libc
from holdfast.process.identity import ProcessIdentity
from holdfast.run.event_log import EventLog, read_events
from holdfast.run.events import Kind
from holdfast.run.lifecycle import fold
from holdfast.run.locks import take_lock
from holdfast.run.output import first_byte, read_from, trim_head, trim_point


def mount_small_disk(path: str, kibibytes: int = 256) -> None:
    """Only this scene's mount namespace sees it."""
    options = f"size={kibibytes}k"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], check=True)


def fill(path: str) -> None:
    """Take every byte that is left."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for size in (4096, 1):
        try:
            while True:
                os.write(fd, b"x" * size)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
    os.close(fd)


def _open_log(path: str) -> EventLog:
    lock = take_lock(f"{path}/lock")
    assert lock is not None
    log = EventLog(f"{path}/events.jsonl", lock)
    ours = ProcessIdentity.current().to_json()
    log.append(Kind.SUPERVISED, shim=ours)
    log.append(Kind.ATTEMPT_STARTED, attempt=1, root=ours)
    return log


def end_on_a_full_disk(path: str) -> dict[str, Any]:
    """A chatty run meets a full disk, then ends."""
    mount_small_disk(path)
    log = _open_log(path)
    fill(f"{path}/fill")
    said = 0
    while log.append(Kind.FAULT, where="sampler", error="x" * 900).is_recorded:
        said += 1
    exited = log.append(Kind.ROOT_EXITED, attempt=1, exit_code=3)
    ended = log.append(Kind.ENDED, sync=True, outcome="failed", exit_code=3)
    behind = log.is_behind
    log.close()
    read = read_events(f"{path}/events.jsonl")
    return {
        "faults_recorded": said,
        "recorded": [exited.is_recorded, ended.is_recorded],
        "is_behind": behind,
        "damage": read.damage,
        "is_whole": read.offset == os.path.getsize(f"{path}/events.jsonl"),
        "outcome": fold(read.events).outcome,
        "faults_read": len(fold(read.events).faults),
    }


def end_without_a_reserve(path: str) -> dict[str, Any]:
    """A file system that reserves nothing is full when the run ends, and is freed later."""
    refusal = OSError(errno.EOPNOTSUPP, "no room can be reserved here")
    with mock.patch.object(libc, "reserve_room", side_effect=refusal):
        return _end_without_a_reserve(path)


def _end_without_a_reserve(path: str) -> dict[str, Any]:
    mount_small_disk(path)
    log = _open_log(path)
    fill(f"{path}/fill")
    # The last page of the log has some room: a long line is written in part, and cut again.
    log.append(Kind.ENDED, sync=True, outcome="failed", evidence="x" * 5000)
    whole = [fold(read_events(f"{path}/events.jsonl").events).has_ended]
    with open(f"{path}/events.jsonl", "rb") as file:
        ends_with_a_line = file.read().endswith(b"\n")
    was_behind = log.is_behind
    os.unlink(f"{path}/fill")
    flushed = log.flush()
    whole.append(fold(read_events(f"{path}/events.jsonl").events).has_ended)
    log.close()
    return {
        "was_behind": was_behind,
        "ends_with_a_line": ends_with_a_line,
        "flushed": flushed,
        "has_ended": whole,
    }


def bound_the_output(path: str) -> dict[str, Any]:
    """Far more output than the disk has room for, kept within its bound."""
    mount_small_disk(path)
    fd = os.open(f"{path}/output.log", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    for number in range(500):
        os.write(fd, b"%04d" % number + b"." * 4091 + b"\n")
        point = trim_point(fd, 64 * 1024)
        if point > first_byte(fd):
            trim_head(fd, point)
    kept = b"".join(chunk.data for chunk in read_from(f"{path}/output.log"))
    return {
        "size": os.fstat(fd).st_size,
        "first_byte": first_byte(fd),
        "kept": len(kept),
        "begins": kept[:4].decode(),
    }
