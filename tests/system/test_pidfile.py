"""I5, I6, D5: pid files. Who is named, what is refused, and that a lock is never lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from holdfast.errors import (
    AlreadyRunning,
    HoldfastError,
    InvalidPidFile,
    NotFound,
    UnsafeFile,
    WrongUse,
)
from holdfast.process.identity import ProcessIdentity
from holdfast.process.pidfile import PidFile
from holdfast.process.verdict import Verdict
from tests.support import pidfile_scenes as scenes
from tests.support.features import needs
from tests.support.kernel_lab import BOOT_ID, MACHINE_ID, OTHER_UID, Place, run_in, start_in
from tests.support.places import USERS, namespace_of, sleeper
from tests.support.waiting import eventually

HEX_BOOT = "0123456789abcdef" * 2

BAD_CONTENT = {
    "empty": b"",
    "blank": b" \n",
    "zero": b"0\n",
    "negative": b"-1\n",
    "minus everybody": b"-4242",
    "signed": b"+42",
    "nan": b"NaN\n",
    "word": b"running",
    "float": b"42.0",
    "hex": b"0x2a",
    "underscore": b"4_2",
    "other digits": "\u0664\u0662".encode(),
    "huge number": b"99999999999",
    "just too large": b"2147483648",
    "many digits": b"9" * 4000,
    "over 4 KiB": b"1" + b" " * 4096,
    "nul": b"42\0",
    "not text": b"\xff\xfe42",
    "three words": b"42 17 9",
    "two lines": b"42\n17\n",
    "tab": b"42\t17",
    "cut token": b"42 hf1.42.17",
    "corrupt token": f"42 hf1.42.1.1.1.{HEX_BOOT}.0123456g".encode(),
    "token of another": f"42 hf1.43.1.1.1.{HEX_BOOT}.01234567".encode(),
    "token alone": f"hf1.42.1.1.1.{HEX_BOOT}.01234567".encode(),
    "later token": f"42 hf2.42.1.1.1.{HEX_BOOT}.01234567".encode(),
    "zero with token": f"0 hf1.42.1.1.1.{HEX_BOOT}.01234567".encode(),
    "negative ticks": b"42 -17",
    "ticks with a fraction": b"42 17.5",
    "time without digits": b"42 1500000000.",
    "time in hex": b"42 0x59682f00.1",
    "json cut": b'{"pid": 42',
    "json without pid": b'{"startToken": 17}',
    "json zero": b'{"pid": 0}',
    "json negative": b'{"pid": -1}',
    "json nan": b'{"pid": NaN}',
    "json true": b'{"pid": true}',
    "json float": b'{"pid": 42.0}',
    "json text": b'{"pid": "42"}',
    "json null": b'{"pid": null}',
    "json twice": b'{"pid": 42, "pid": 43}',
    "json huge": b'{"pid": 1e400}',
    "json array": b"[42]",
    "json bad start": b'{"pid": 42, "startToken": "yesterday"}',
    "json bad date": b'{"pid": 42, "startToken": "Sun Nov 45 21:00:00 2026"}',
    "json start list": b'{"pid": 42, "startToken": [1]}',
    "json start negative": b'{"pid": 42, "startToken": -3}',
    "json deep": b'{"pid": ' + b"[" * 3000,
}


def lstart(pid: int, seconds: int = 0, zone: str | None = None) -> str:
    """What `ps -o lstart=` prints for the process, moved by some seconds."""
    env = {**os.environ, "LC_ALL": "C", **({"TZ": zone} if zone else {})}
    shown = subprocess.check_output(["ps", "-o", "lstart=", "-p", str(pid)], env=env, text=True)
    then = time.mktime(time.strptime(shown.strip())) + seconds
    return time.strftime("%a %b %e %H:%M:%S %Y", time.localtime(then))


def try_elsewhere(path: Path) -> scenes.Facts:
    """An attempt by another process."""
    code = (
        "import json; from tests.support.pidfile_scenes import attempt\n"
        f"print(json.dumps(attempt({str(path)!r})))"
    )
    root = Path(__file__).parents[2]
    answer: scenes.Facts = json.loads(
        subprocess.check_output([sys.executable, "-c", code], cwd=root, timeout=60)
    )
    return answer


def test_what_holdfast_writes_names_its_holder(tmp_path):
    path = tmp_path / "x.pid"
    with PidFile(path).hold() as identity:
        assert path.read_text() == f"{os.getpid()} {ProcessIdentity.current().token}\n"
        assert PidFile(path).read() == identity == ProcessIdentity.current()
        assert identity.verdict() is Verdict.SAME
        assert [entry.name for entry in tmp_path.iterdir()] == ["x.pid"]
    assert list(tmp_path.iterdir()) == []


def test_a_second_holder_is_refused_and_told_who_the_first_is(tmp_path):
    path = tmp_path / "x.pid"
    with PidFile(path).hold():
        assert try_elsewhere(path)["pid"] == os.getpid()
        assert try_elsewhere(path)["code"] == "already-running"
    assert try_elsewhere(path)["code"] == "held"


def test_a_missing_file_is_not_found_which_is_no_verdict(tmp_path):
    with pytest.raises(NotFound):
        PidFile(tmp_path / "x.pid").read()
    with pytest.raises(NotFound):
        PidFile(tmp_path / "no" / "x.pid").read()
    with pytest.raises(NotFound) as caught, PidFile(tmp_path / "no" / "x.pid").hold():
        pass
    assert "mkdir" in str(caught.value.hint)


@pytest.mark.parametrize("path", ["", ".", "..", "a/", "a/..", "a\0b"])
def test_a_path_that_names_no_file_is_wrong_use(path):
    with pytest.raises(WrongUse):
        PidFile(path)


@pytest.mark.parametrize("content", BAD_CONTENT.values(), ids=BAD_CONTENT)
def test_I6_bad_content_is_an_error_and_nothing_is_started_over_it(content, tmp_path):
    path = tmp_path / "x.pid"
    path.write_bytes(content)
    with pytest.raises(InvalidPidFile) as caught:
        PidFile(path).read()
    assert caught.value.exit_code == 2
    assert str(path) in caught.value.message
    assert len(caught.value.message) < 400
    with pytest.raises(InvalidPidFile), PidFile(path).hold():
        pass
    assert path.read_bytes() == content


def test_I5_legacy_forms_are_readable_and_stay_unverified(tmp_path):
    path = tmp_path / "x.pid"
    with sleeper() as process:
        forms = [
            f"{process.pid}",
            f"  {process.pid}\r\n",
            f"{process.pid} 0",
            json.dumps({"pid": process.pid}),
            json.dumps({"pid": process.pid, "startToken": None, "more": [1]}),
            json.dumps({"pid": process.pid, "startToken": lstart(process.pid)}),
            json.dumps({"pid": process.pid, "startToken": lstart(process.pid, 1)}),
        ]
        for form in forms:
            path.write_text(form)
            identity = PidFile(path).read()
            assert (identity.pid, identity.verdict()) == (process.pid, Verdict.UNKNOWN), form
            with pytest.raises(AlreadyRunning) as caught, PidFile(path).hold():
                pass
            assert caught.value.identity == identity
            assert str(process.pid) in caught.value.message
            assert path.read_bytes() == form.encode()
    for form in forms:
        path.write_text(form)
        with PidFile(path).hold():
            assert PidFile(path).read() == ProcessIdentity.current()


def test_I1_legacy_ticks_that_differ_are_another_process(tmp_path):
    path = tmp_path / "x.pid"
    with sleeper() as process:
        ticks = ProcessIdentity.of(process.pid).start_ticks
        assert ticks is not None
        for form in (
            f"{process.pid} {ticks - 1}",
            json.dumps({"pid": process.pid, "startToken": ticks + 1}),
            json.dumps({"pid": process.pid, "startToken": lstart(process.pid, -60)}),
            json.dumps({"pid": process.pid, "startToken": lstart(process.pid, -86400 * 30)}),
        ):
            path.write_text(form)
            assert PidFile(path).read().verdict() is Verdict.RECYCLED, form
            with PidFile(path).hold():
                pass
        assert process.poll() is None


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/St_Johns", "Pacific/Kiritimati"])
def test_I8_a_time_zone_never_makes_another_process_of_the_same(zone, tmp_path, monkeypatch):
    path = tmp_path / "x.pid"
    with sleeper() as process:
        written = lstart(process.pid)
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        try:
            path.write_text(json.dumps({"pid": process.pid, "startToken": written}))
            assert PidFile(path).read().verdict() is Verdict.UNKNOWN
        finally:
            monkeypatch.undo()
            time.tzset()


def test_a_file_that_the_dead_left_is_taken_over(tmp_path):
    path = tmp_path / "x.pid"
    with sleeper() as process:
        gone = ProcessIdentity.of(process.pid)
    path.write_text(f"{gone.pid} {gone.token}\n")
    with PidFile(path).hold():
        assert PidFile(path).read() == ProcessIdentity.current()


def test_identity_guards_where_the_lock_does_not(tmp_path):
    """A live process is recorded, but nobody has the lock: its program closed the descriptor."""
    path = tmp_path / "x.pid"
    with sleeper() as process:
        alive = ProcessIdentity.of(process.pid)
        path.write_text(f"{alive.pid} {alive.token}\n")
        with pytest.raises(AlreadyRunning) as caught, PidFile(path).hold():
            pass
        assert caught.value.identity == alive
        assert "(sleep)" in caught.value.message


def test_lock_guards_where_the_identity_does_not(tmp_path):
    """A legacy program locks its file and names somebody else in it, or nobody."""
    path = tmp_path / "x.pid"
    for content in ("2147483647\n", "garbage"):
        path.write_text(content)
        code = (
            f"import fcntl, time; file = open({str(path)!r}, 'r+')\n"
            "fcntl.lockf(file, fcntl.LOCK_EX); print('ok', flush=True); time.sleep(600)"
        )
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as locker:
            assert locker.stdout is not None
            assert locker.stdout.readline() == b"ok\n"
            with pytest.raises(AlreadyRunning) as caught, PidFile(path).hold():
                pass
            assert caught.value.identity.pid == locker.pid
            locker.kill()
        assert path.read_text() == content


def lock_is_taken(path: Path) -> bool:
    """Asked by another process, as our own locks never stand in our way."""
    code = f"import fcntl; fcntl.lockf(open({str(path)!r},'r+'),fcntl.LOCK_EX|fcntl.LOCK_NB)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode != 0


def test_looking_at_the_file_does_not_drop_our_own_lock(tmp_path):
    """fcntl(2): closing any descriptor of the file would. The check is shown to see that."""
    path = tmp_path / "x.pid"
    with PidFile(path).hold():
        PidFile(path).read()
        with pytest.raises(AlreadyRunning) as caught, PidFile(path).hold():
            pass
        assert "this very process" in caught.value.message
        assert lock_is_taken(path)
        path.open("rb").close()
        assert not lock_is_taken(path)
    assert not path.exists()


def test_a_held_file_that_was_renamed_keeps_its_lock_when_it_is_read(tmp_path):
    path, other = tmp_path / "x.pid", tmp_path / "y.pid"
    with PidFile(path).hold():
        path.rename(other)
        assert PidFile(other).read() == ProcessIdentity.current()
        assert lock_is_taken(other)


def test_a_fork_of_the_holder_neither_removes_nor_unlocks(tmp_path):
    path = tmp_path / "x.pid"
    file = PidFile(path)
    with file.hold() as identity:
        child = os.fork()
        if child == 0:
            try:
                refused = False
                try:
                    PidFile(path).acquire()
                except AlreadyRunning as error:
                    refused = error.identity == identity
                file.release()
                os._exit(0 if refused else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert lock_is_taken(path)
        assert PidFile(path).read() == identity


def test_D5_a_dying_holder_never_removes_its_successors_file(tmp_path):
    path = tmp_path / "x.pid"
    with sleeper() as process:
        successor = ProcessIdentity.of(process.pid)
        file = PidFile(path)
        file.acquire()
        path.unlink()
        path.write_text(f"{successor.pid} {successor.token}\n")
        file.release()
        assert PidFile(path).read() == successor
        # The same inode with other content is not ours either.
        path.unlink()
        file.acquire()
        path.write_text(f"{successor.pid} {successor.token}\n")
        file.release()
        assert PidFile(path).read() == successor


def test_releasing_twice_or_unheld_is_harmless(tmp_path):
    file = PidFile(tmp_path / "x.pid")
    file.release()
    file.acquire()
    file.release()
    file.release()
    with file.hold():
        (tmp_path / "x.pid").unlink()
    assert list(tmp_path.iterdir()) == []


def test_descriptors_are_given_back(tmp_path):
    path = tmp_path / "x.pid"
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with PidFile(path).hold():
            PidFile(path).read()
            with pytest.raises(AlreadyRunning):
                PidFile(path).acquire()
        path.write_text("0")
        with pytest.raises(InvalidPidFile):
            PidFile(path).acquire()
        path.unlink()
        path.symlink_to("nowhere")
        with pytest.raises(UnsafeFile):
            PidFile(path).acquire()
        path.unlink()
    assert len(os.listdir("/proc/self/fd")) == before


def test_threads_of_one_process_have_one_winner(tmp_path):
    path = tmp_path / "x.pid"
    barrier, results = threading.Barrier(8), []

    def compete() -> None:
        barrier.wait()
        try:
            PidFile(path).acquire()
            results.append("held")
        except HoldfastError as error:
            results.append(error.code)

    threads = [threading.Thread(target=compete) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == ["already-running"] * 7 + ["held"]
    path.unlink()


def draft_of(identity: ProcessIdentity) -> str:
    return f".x.pid.{identity.pid}-{identity.pidfd_inode}.new"


def test_D7_a_starter_killed_between_its_two_names_blocks_nobody(tmp_path):
    path = tmp_path / "x.pid"
    with sleeper() as process:
        starter = ProcessIdentity.of(process.pid)
        path.write_text(f"{starter.pid} {starter.token}\n")
        os.link(path, tmp_path / draft_of(starter))
        assert PidFile(path).read() == starter
    with PidFile(path).hold():
        assert [entry.name for entry in tmp_path.iterdir()] == ["x.pid"]


@pytest.mark.parametrize("point", ["link", "unlink", "rename", "fsync"])
def test_D7_killed_at_any_step_leaves_a_whole_file_or_none(point, tmp_path):
    path = tmp_path / "x.pid"
    if point == "rename":
        path.write_text("2147483647")
    code = (
        "import os, signal, sys; from holdfast.process.pidfile import PidFile\n"
        f"os.{point} = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)\n"
        if point != "unlink"
        else "import os, signal, sys; from holdfast.process.pidfile import PidFile\n"
        "real = os.link\n"
        "def link(*a, **k):\n    real(*a, **k); os.kill(os.getpid(), signal.SIGKILL)\n"
        "os.link = link\n"
    )
    killed = subprocess.run([sys.executable, "-c", code + f"PidFile({str(path)!r}).acquire()"])
    assert killed.returncode == -signal.SIGKILL
    if path.exists():
        PidFile(path).read()
    with PidFile(path).hold():
        assert PidFile(path).read() == ProcessIdentity.current()


class TestAttacks:
    """Whatever could have been planted is refused, quickly, and left as it is."""

    def refused(self, path: Path, what: str) -> None:
        began = time.monotonic()
        with pytest.raises(UnsafeFile, match=what) as caught:
            PidFile(path).read()
        assert caught.value.hint
        with pytest.raises(UnsafeFile, match=what), PidFile(path).hold():
            pass
        assert time.monotonic() - began < 10

    def test_symlink(self, tmp_path):
        victim = tmp_path / "victim"
        victim.write_text("1\n")
        (tmp_path / "x.pid").symlink_to(victim)
        self.refused(tmp_path / "x.pid", "symbolic link")
        assert victim.read_text() == "1\n"

    def test_dangling_symlink(self, tmp_path):
        (tmp_path / "x.pid").symlink_to(tmp_path / "made")
        self.refused(tmp_path / "x.pid", "symbolic link")
        assert not (tmp_path / "made").exists()

    def test_hard_link(self, tmp_path):
        victim = tmp_path / "victim"
        victim.write_text("2147483647\n")
        os.link(victim, tmp_path / "x.pid")
        self.refused(tmp_path / "x.pid", "hard link")
        assert victim.read_text() == "2147483647\n"

    def test_pipe(self, tmp_path):
        os.mkfifo(tmp_path / "x.pid")
        self.refused(tmp_path / "x.pid", "plain file")

    def test_directory(self, tmp_path):
        (tmp_path / "x.pid").mkdir()
        self.refused(tmp_path / "x.pid", "plain file")

    def test_device(self, tmp_path):
        needs("root")
        os.mknod(tmp_path / "x.pid", 0o600 | 0o020000, os.makedev(5, 0))  # /dev/tty
        self.refused(tmp_path / "x.pid", "plain file")

    def test_file_of_another_user(self, tmp_path):
        needs("root")
        (tmp_path / "x.pid").write_text("2147483647")
        os.chown(tmp_path / "x.pid", OTHER_UID, -1)
        self.refused(tmp_path / "x.pid", "another user")

    def test_file_that_everybody_can_write(self, tmp_path):
        (tmp_path / "x.pid").write_text("2147483647")
        (tmp_path / "x.pid").chmod(0o666)
        self.refused(tmp_path / "x.pid", "everybody")

    def test_directory_that_everybody_can_change(self, tmp_path):
        place = tmp_path / "open"
        place.mkdir()
        place.chmod(0o777)
        self.refused(place / "x.pid", "everybody")
        place.chmod(0o1777)
        with PidFile(place / "x.pid").hold():
            pass

    def test_directory_of_another_user(self, tmp_path):
        needs("root")
        place = tmp_path / "theirs"
        place.mkdir()
        os.chown(place, OTHER_UID, -1)
        self.refused(place / "x.pid", "another user")

    def test_a_sticky_directory_of_root_inside_a_user_namespace(self, shared):
        """There /tmp belongs to a nameless user, as root has no number in it."""
        needs("root", "user_namespace")
        place, path = namespace_of("ordinary user"), str(shared / "x.pid")
        assert run_in(place, scenes.attempt, path=path)["code"] == "unsafe-file"
        shared.chmod(0o1777)
        assert run_in(place, scenes.attempt, path=path)["code"] == "held"

    def test_root_may_be_trusted_by_others(self, shared):
        needs("root")
        path = shared / "x.pid"
        path.write_text(f"{os.getpid()} {ProcessIdentity.current().token}\n")
        path.chmod(0o644)
        other = Place(pid_namespace=False, uid=OTHER_UID)
        seen = run_in(other, scenes.read, path=str(path))
        assert seen["code"] == "read"
        assert seen["verdict"] == "SAME"

    def test_a_file_that_grows_while_it_is_read_is_bounded(self, tmp_path):
        with (tmp_path / "x.pid").open("wb") as file:
            file.truncate(1 << 40)
        with pytest.raises(InvalidPidFile):
            PidFile(tmp_path / "x.pid").read()


@pytest.mark.parametrize("user", USERS)
def test_I1_a_recycled_holder_blocks_nobody_and_is_not_signalled(user, shared):
    place = namespace_of(user)
    if place.uid is not None:
        os.chown(shared, place.uid, place.uid)
    facts = run_in(place, scenes.recycled_holder, path=str(shared / "x.pid"))
    assert facts["same_pid"]
    assert facts["verdict"] == "RECYCLED"
    assert facts["fates"] == ["recycled", "recycled"]
    assert facts["attempt"]["code"] == "held"
    assert facts["stranger_untouched"]


def test_I1_legacy_record_of_a_recycled_pid(tmp_path):
    needs("root", "pid_namespace")
    facts = run_in(Place(), scenes.legacy_recycled, path=str(tmp_path / "x.pid"))
    assert facts["read"]["verdict"] == "RECYCLED"
    assert facts["attempt"]["code"] == "held"
    assert facts["fate"] == "recycled"
    assert facts["stranger_untouched"]


def test_I10_a_holder_in_another_container_is_seen_by_its_lock(tmp_path):
    needs("root", "pid_namespace")
    path = str(tmp_path / "x.pid")
    with start_in(Place(), scenes.hold_until_killed, path=path) as container:
        container.announced()
        assert scenes.attempt(path)["code"] == "already-running"
        beside = run_in(Place(), scenes.attempt, path=path)
        assert beside["code"] == "already-running"


@pytest.fixture
def left_by_a_container(tmp_path):
    """A file whose holder died with its container."""
    needs("root", "pid_namespace")
    path = tmp_path / "x.pid"
    with start_in(Place(), scenes.hold_until_killed, path=str(path)) as container:
        container.announced()
    eventually(lambda: not lock_is_taken(path), why="the container has ended")
    return str(path)


def test_I9_a_container_that_restarts_starts_since_the_lock_is_free(left_by_a_container):
    path = left_by_a_container
    assert run_in(Place(), scenes.read, path=path)["verdict"] == "UNKNOWN"
    assert run_in(Place(), scenes.attempt, path=path)["code"] == "held"


def test_I9_the_host_sees_that_the_container_is_gone(left_by_a_container):
    path = left_by_a_container
    if scenes.read(path)["verdict"] == "UNKNOWN":
        pytest.skip("these tests do not run in the initial PID namespace")
    eventually(lambda: scenes.read(path)["verdict"] == "GONE", why="it is reaped")
    assert scenes.attempt(path)["code"] == "held"
    os.unlink(path)


def test_I3_another_boot_is_gone_and_another_host_is_not(tmp_path):
    needs("root", "pid_namespace")
    path = tmp_path / "x.pid"
    with sleeper() as process:
        alive = ProcessIdentity.of(process.pid)
        path.write_text(f"{alive.pid} {alive.token}\n")
        boot = Place(pid_namespace=False, covers={BOOT_ID: "00000000-1111-2222-3333-444444444444"})
        host = Place(pid_namespace=False, covers={MACHINE_ID: "f" * 32})
        assert run_in(host, scenes.attempt, path=str(path))["code"] == "already-running"
        assert run_in(boot, scenes.attempt, path=str(path))["code"] == "held"
        assert process.poll() is None
