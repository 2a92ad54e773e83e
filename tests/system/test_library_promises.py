"""What the library promises the program that embeds it.

Each promise is tried in a program of its own, so that the test runner's threads, children and
handlers are not counted.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

USE = """
import os, signal, sys, threading
from holdfast import Runs
runs = Runs()
run = runs.start(["sh", "-c", "echo hi; sleep 600"], name="x")
next(run.lines())
assert next(runs.events()).kind == "supervised"
runs.list(), run.info(), run.wait(timeout=0.05)
over = runs.start(["true"], name="y")
runs.wait([over], timeout=20)
run.stop(grace=5)
"""


def _play(body: str, **env: str) -> str:
    """Run a program that uses the library; its output."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(body)],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, **env},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_no_thread_is_started():
    assert _play(USE + "print(threading.active_count(), len(os.listdir('/proc/self/task')))") == (
        "1 1\n"
    )


def test_no_signal_handler_is_installed_and_none_is_lost():
    body = """
    import signal
    numbers = sorted(signal.valid_signals())
    def ours(*_): pass
    signal.signal(signal.SIGCHLD, ours)
    before = [signal.getsignal(number) for number in numbers]
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    """
    after = """
    assert [signal.getsignal(number) for number in numbers] == before
    assert signal.set_wakeup_fd(-1) == -1
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == mask
    """
    _play(textwrap.dedent(body) + USE + textwrap.dedent(after))


def test_no_child_is_left_to_reap_and_none_is_stolen():
    body = """
    import subprocess
    child = subprocess.Popen(["sh", "-c", "exit 7"])
    """
    after = """
    assert child.wait() == 7
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        print("no children")
    """
    assert _play(textwrap.dedent(body) + USE + textwrap.dedent(after)) == "no children\n"


def test_a_program_that_ignores_its_children():
    """SIGCHLD ignored: the kernel reaps for it, and waits come back with ECHILD."""
    _play("import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n" + USE)


def test_no_descriptor_is_left_open():
    body = """
    import os
    before = set(os.listdir('/proc/self/fd'))
    """
    after = """
    import gc
    del run, over, runs
    gc.collect()
    assert set(os.listdir('/proc/self/fd')) == before, os.listdir('/proc/self/fd')
    """
    _play(textwrap.dedent(body) + USE + textwrap.dedent(after))


def test_descriptors_are_not_inherited_by_a_workload():
    body = """
    import os
    from holdfast import Runs
    leaked = os.open("/etc/hostname", os.O_RDONLY)
    os.set_inheritable(leaked, True)
    run = Runs().start(["ls", "/proc/self/fd"], name="x")  # ls itself opens one
    run.wait(20)
    print(run.output().decode().split())
    """
    assert _play(body) == "['0', '1', '2', '3']\n"


def test_it_works_off_the_main_thread():
    body = f"""
    import threading
    failed = []
    def work():
        try:
            exec({USE!r}, {{}})
        except BaseException as error:
            failed.append(error)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not failed, failed
    """
    _play(body)


def test_many_threads_start_runs_at_once():
    body = """
    import threading
    from holdfast import AlreadyRunning, Runs
    runs, won, lost = Runs(), [], []
    def work(number):
        try:
            won.append(runs.start(["sleep", "600"], name="one"))
        except AlreadyRunning as refused:
            lost.append(refused.run)
        runs.start(["true"], name=f"own{number}").wait(30)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(won) == 1 and lost == [won[0].id] * 7, (won, lost)
    assert len(runs.list(active=False)) == 8
    won[0].stop(grace=5)
    """
    _play(body)


def test_it_is_fork_safe_with_locks_held_by_other_threads():
    """A shim must not be a fork of this program: a lock that a thread holds would stay held."""
    body = """
    import logging, threading
    from holdfast import Runs
    lock, stop = threading.Lock(), threading.Event()
    def hog():
        handler = logging.StreamHandler()
        while not stop.is_set():
            with lock, handler.lock:
                stop.wait(0.001)
    hogs = [threading.Thread(target=hog) for _ in range(4)]
    [thread.start() for thread in hogs]
    try:
        runs = Runs()
        for number in range(5):
            assert runs.start(["true"]).wait(30).exit_code == 0
    finally:
        stop.set()
    """
    _play(body)


def test_a_fork_of_the_program_can_go_on_using_it():
    body = """
    import os
    from holdfast import Runs
    runs = Runs()
    run = runs.start(["sleep", "600"], name="x")
    child = os.fork()
    if child == 0:
        try:
            assert run.info().state == "running"
            assert runs.start(["true"], name="y").wait(30).exit_code == 0
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert run.stop(grace=5).complete
    """
    _play(body)


def test_a_fork_in_another_thread_keeps_no_lock():
    """A child forked while a start holds the name's lock must not keep the name claimed."""
    body = """
    import os, threading, time
    from holdfast import Runs
    runs, children, stop = Runs(), [], threading.Event()
    def forker():
        while not stop.is_set() and len(children) < 40:
            child = os.fork()
            if child == 0:
                time.sleep(60)
                os._exit(0)
            children.append(child)
    thread = threading.Thread(target=forker)
    thread.start()
    try:
        for number in range(3):
            assert runs.start(["true"], name="x").wait(30).exit_code == 0
    finally:
        stop.set()
        thread.join()
        for child in children:
            os.kill(child, 9)
            os.waitpid(child, 0)
    """
    _play(body)


def test_the_run_outlives_the_program_that_started_it(runs):
    pid = int(
        _play("""
    import os
    from holdfast import Runs
    print(Runs().start(["sleep", "600"], name="x").info().workload["pid"])
    """)
    )
    info = runs.get("x").info()
    assert info.state == "running"
    assert info.workload is not None
    assert info.workload["pid"] == pid


def test_notices_are_logged():
    body = """
    import logging
    from holdfast import Runs
    records = []
    class Keep(logging.Handler):
        def emit(self, record): records.append(record.getMessage())
    logging.getLogger("holdfast").addHandler(Keep())
    runs = Runs()
    runs.start(["sleep", "600"], name="x")
    runs.start(["true"], name="x", replace=True, grace=5).wait(30)
    assert any("replaced x" in text for text in records), records
    """
    _play(body)


@pytest.mark.parametrize("names", ["holdfast", "holdfast.manage.runs"])
def test_importing_it_starts_nothing(names):
    body = f"""
    import os, sys, threading
    before = len(os.listdir('/proc/self/fd'))
    import {names}
    assert threading.active_count() == 1
    assert len(os.listdir('/proc/self/fd')) == before
    assert not {{"asyncio", "subprocess", "multiprocessing"}} & set(sys.modules)
    """
    _play(body)
