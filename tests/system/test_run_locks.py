"""The lock is the authority: one holder, released by any death, true across PID namespaces."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path

from holdfast.process.identity import ProcessIdentity
from holdfast.process.signals import send_signal
from holdfast.run.home import Home
from holdfast.run.locks import lock_is_held, take_lock
from tests.support.features import needs
from tests.support.kernel_lab import Place, run_in, start_in
from tests.support.waiting import eventually
from tests.system import lock_scenes

HERE = Place(pid_namespace=False)


def test_processes_that_contend_for_a_name_take_turns(tmp_path: Path):
    home = Home.locate(tmp_path / "home").prepare()
    counter = tmp_path / "counter"
    counter.write_text("0")
    with ExitStack() as scenes:
        contenders = [
            scenes.enter_context(
                start_in(HERE, lock_scenes.count_up, home=home.path, counter=str(counter), times=20)
            )
            for _ in range(5)
        ]
        for contender in contenders:
            contender.result(60)
    assert counter.read_text() == "100"


def test_a_lock_is_released_by_any_death(tmp_path: Path):
    path = str(tmp_path / "lock")
    with start_in(HERE, lock_scenes.hold_until_killed, path=path) as scene:
        assert scene.announced() is True
        assert lock_is_held(path)
        assert take_lock(path) is None
        identity = ProcessIdentity.of(scene.process.pid)
        assert send_signal(identity, signal.SIGKILL).delivered
        assert scene.process.wait(30) == -signal.SIGKILL
        assert not lock_is_held(path)
        lock = take_lock(path)
    assert lock is not None
    lock.release()


def test_I10_a_lock_is_true_across_pid_namespaces(tmp_path: Path):
    needs("pid_namespace")
    path = str(tmp_path / "lock")
    lock = take_lock(path)
    assert lock is not None
    with lock:
        assert run_in(Place(), lock_scenes.look, path=path) == [True, False]
    with start_in(Place(), lock_scenes.hold_until_killed, path=path) as scene:
        assert scene.announced() is True
        assert lock_is_held(path)
    eventually(lambda: not lock_is_held(path), why="the namespace and its lock are gone")


def test_a_fork_elsewhere_does_not_keep_a_lock_that_was_given_up(tmp_path: Path):
    # A thread of the program that embeds us may fork while we hold a lock: the child has a copy
    # of the descriptor, and a mere close here would leave it the lock.
    path = str(tmp_path / "lock")
    lock = take_lock(path)
    assert lock is not None
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    os.close(reading)
    try:
        assert lock_is_held(path)
        lock.release()
        assert not lock_is_held(path)
        again = take_lock(path)
        assert again is not None
        again.release()
    finally:
        os.close(writing)
        os.waitpid(child, 0)


def test_a_waiter_never_ends_up_with_a_lock_on_a_removed_file(tmp_path: Path):
    path = str(tmp_path / "claim")
    lock = take_lock(path)
    assert lock is not None
    with start_in(HERE, lock_scenes.wait_and_keep, path=path) as waiter:
        waiter.announced()
        os.unlink(path)
        lock.release()
        assert waiter.result(60) == [True, True]
