"""who, check and signal, as a user meets them: I1, I4, I5, I6, I7 from the outside."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.process.identity import ProcessIdentity
from tests.support import recycling
from tests.support.cli_scenes import command_line
from tests.support.features import needs
from tests.support.kernel_lab import OTHER_UID, Place, run_in
from tests.support.places import sleeper

TOKEN = re.compile(r"hf1\.\d+\.\d+\.\d+\.\d+\.[0-9a-f]{32}\.[0-9a-f]{8}")
IDENTITY = {"pid", "start_ticks", "pidfd_inode", "pid_ns", "boot_id", "token", "verdict"}
NO_PIDS = ["0", "-1", "-4242", "nan", "NaN", "inf", "1.0", "0x1", "+1", "1_0", "٣", "", " 1", "1e3"]
TOO_LARGE = ["2147483648", "99999999999", "9" * 100]
CORRUPT_TOKENS = ["hf1.", "hf1.0.1.1.1", "hf1.-1", "hf2.1.1.1.1", "hf1.1.1.1.1.nonsense.x", "hp1.x"]
BAD_FILES = ["", "0", "-1", "nan", "1 hf1.broken", "x" * 5000, "[]", '{"pid": NaN}', "1\n2"]


def gone_token() -> str:
    with sleeper() as process:
        return ProcessIdentity.of(process.pid).token


def recycled(token: str) -> str:
    """The same process as somebody recorded it who had the PID before: another inode."""
    parts = token.split(".")
    parts[3] = str(int(parts[3]) - 1)
    return ".".join(parts)


class TestWho:
    def test_prints_the_token_alone(self, holdfast):
        said = holdfast("who", os.getpid(), expect=0)
        assert TOKEN.fullmatch(said.stdout.removesuffix("\n"))
        assert said.stdout.strip() == ProcessIdentity.current().token
        assert said.stderr == ""

    def test_as_json_is_the_process(self, holdfast):
        with sleeper() as process:
            recycling.await_state(process.pid, "S")
            known = holdfast("who", process.pid, "--json", expect=0).json
        assert set(known) == {"schema", "comm", "exe", "cmdline", "state"} | IDENTITY
        assert (known["comm"], known["cmdline"]) == ("sleep", ["sleep", "600"])
        assert (known["verdict"], known["state"]) == ("SAME", "sleeping")
        assert os.path.basename(known["exe"]) in ("sleep", "busybox", "coreutils")

    def test_verbose_says_what_names_it(self, holdfast):
        assert "pidfd inode" in holdfast("who", os.getpid(), "-v", expect=0).stderr

    def test_I7_any_name_is_right(self, holdfast, tmp_path):
        program = tmp_path / "a) R 1 (b\n\x1b"
        program.symlink_to("/bin/sleep")
        with subprocess.Popen([program, "600"]) as process:
            known = holdfast("who", process.pid, "--json", expect=0).json
            said = holdfast("who", process.pid, "-v", expect=0)
            process.kill()
        assert known["pid"] == process.pid
        assert known["token"] == said.stdout.strip()
        assert known["comm"] == "a) R 1 (b\n\x1b"
        assert "\x1b" not in said.stderr

    @pytest.mark.parametrize("pid", [*NO_PIDS, *TOO_LARGE])
    def test_I6_what_is_no_pid_is_wrong_use(self, holdfast, pid):
        said = holdfast("who", "--", pid, expect=2)
        assert "is not a PID" in said.stderr
        assert said.stdout == ""

    def test_nobody_is_not_found(self, holdfast):
        with sleeper() as process:
            pass
        assert "no process" in holdfast("who", process.pid, expect=3).stderr
        assert holdfast("--json", "who", process.pid).json["error"]["code"] == "process-gone"


class TestCheck:
    def test_same(self, holdfast):
        token = ProcessIdentity.current().token
        said = holdfast("check", token, expect=0)
        assert said.stdout.startswith(f"{os.getpid()} SAME: ")
        document = holdfast("check", token, "--json", expect=0).json
        assert set(document) == {"schema", "proof", "evidence"} | IDENTITY
        assert (document["verdict"], document["proof"]) == ("SAME", "pidfd inode")

    def test_gone(self, holdfast):
        token = gone_token()
        assert " GONE: " in holdfast("check", token, expect=10).stdout
        assert holdfast("check", token, "--json", expect=10).json["verdict"] == "GONE"

    def test_I1_recycled(self, holdfast):
        with sleeper() as process:
            token = recycled(ProcessIdentity.of(process.pid).token)
            said = holdfast("check", token, expect=11)
            assert "RECYCLED" in said.stdout
            assert "sleep now" in said.stdout

    def test_unknown(self, holdfast):
        token = ProcessIdentity.current().replace(host="01234567").token
        assert "another host" in holdfast("check", token, expect=12).stdout

    def test_I5_legacy_pid_file_is_unverified(self, holdfast, tmp_path):
        with sleeper() as process:
            (tmp_path / "x.pid").write_text(str(process.pid))
            said = holdfast("check", "x.pid", expect=12, cwd=tmp_path)
            assert "unverified" in said.stdout
            document = holdfast("check", tmp_path / "x.pid", "--json", expect=12).json
            assert (document["start_ticks"], document["boot_id"]) == (None, None)
        holdfast("check", tmp_path / "x.pid", expect=10)

    def test_no_file_is_not_found_and_no_verdict(self, holdfast, tmp_path):
        for missing in (tmp_path / "x.pid", "x.pid"):
            said = holdfast("check", missing, expect=3, cwd=tmp_path)
            assert said.stdout == ""

    @pytest.mark.parametrize("content", BAD_FILES)
    def test_I6_bad_pid_file_is_wrong_use(self, holdfast, tmp_path, content):
        (tmp_path / "x.pid").write_text(content)
        said = holdfast("check", tmp_path / "x.pid", expect=2)
        assert said.stdout == ""
        assert "names no process" in said.stderr

    @pytest.mark.parametrize("token", CORRUPT_TOKENS)
    def test_I6_corrupt_token_is_wrong_use(self, holdfast, token):
        assert holdfast("check", token, "--json", expect=2).json["error"]["code"] == "invalid-token"

    @pytest.mark.parametrize("number", ["0", "-1", "1", "4242", "1.5"])
    def test_I6_a_number_names_nobody(self, holdfast, number, tmp_path):
        said = holdfast("check", "--", number, expect=2, cwd=tmp_path)
        assert "which process" in said.stderr


class TestSignal:
    def test_delivered_to_the_process_that_was_meant(self, holdfast):
        with sleeper() as process:
            token = ProcessIdentity.of(process.pid).token
            said = holdfast("signal", "term", token, expect=0)
            assert said.stdout == f"SIGTERM delivered to {process.pid} (pidfd inode)\n"
            assert process.wait(timeout=30) == -signal.SIGTERM

    @pytest.mark.parametrize("name", ["USR1", "SIGUSR1", "10", "usr1"])
    def test_signals_have_names_and_numbers(self, holdfast, name):
        with sleeper() as process:
            token = ProcessIdentity.of(process.pid).token
            document = holdfast("--json", "signal", name, token, expect=0).json
            assert (document["signal"], document["fate"]) == ("SIGUSR1", "delivered")
            assert document["identity"]["token"] == token
            assert process.wait(timeout=30) == -signal.SIGUSR1

    def test_I1_gone_and_recycled_signal_nobody(self, holdfast):
        said = holdfast("signal", "KILL", gone_token(), expect=3)
        assert "no process was signalled" in said.stderr
        with sleeper() as process:
            token = recycled(ProcessIdentity.of(process.pid).token)
            document = holdfast("signal", "KILL", token, "--trust-pid", "--json", expect=3).json
            assert document["fate"] == "recycled"
            assert document["error"]["code"] == "process-gone"
            assert process.poll() is None

    def test_another_host_or_boot_is_not_signalled(self, holdfast):
        with sleeper() as process:
            ours = ProcessIdentity.of(process.pid)
            for record, code in (
                (ours.replace(host="01234567"), 4),
                (ours.replace(boot_id="0" * 31 + "1"), 3),
            ):
                holdfast("signal", "KILL", record.token, "--trust-pid", expect=code)
            assert process.poll() is None

    def test_I5_legacy_only_on_the_users_word(self, holdfast, tmp_path):
        path = tmp_path / "old.pid"
        with sleeper() as process:
            path.write_text(f"{process.pid}\n")
            said = holdfast("signal", "TERM", "old.pid", expect=4, cwd=tmp_path)
            assert said.stderr == (
                f"holdfast: old.pid names {process.pid} without a start time; not signalled\n"
                f"  hint: check it with `ps {process.pid}`; --trust-pid signals it anyway\n"
            )
            document = holdfast("signal", "TERM", path, "--json", expect=4).json
            assert (document["fate"], document["error"]["code"]) == ("refused", "identity-unproven")
            assert process.poll() is None
            holdfast("signal", "TERM", path, "--trust-pid", expect=0)
            assert process.wait(timeout=30) == -signal.SIGTERM

    def test_I5_every_legacy_form_of_an_older_file_needs_the_word(self, holdfast, tmp_path):
        path = tmp_path / "old.pid"
        with sleeper() as process:
            ticks = ProcessIdentity.of(process.pid).start_ticks
            for form in (
                f"{process.pid} {ticks}",
                json.dumps({"pid": process.pid, "startToken": ticks}),
            ):
                path.write_text(form)
                os.utime(path, (1e9, 1e9))  # before this boot
                assert "--trust-pid" in holdfast("signal", "TERM", path, expect=4).stderr
            assert process.poll() is None
            path.write_text(f"{process.pid} {(ticks or 0) + 1}")
            holdfast("signal", "TERM", path, "--trust-pid", expect=3)
            assert process.poll() is None

    def test_own_pid_file_is_proof_enough(self, holdfast, tmp_path):
        with sleeper() as process:
            token = ProcessIdentity.of(process.pid).token
            (tmp_path / "x.pid").write_text(f"{process.pid} {token}\n")
            holdfast("signal", "HUP", tmp_path / "x.pid", expect=0)
            assert process.wait(timeout=30) == -signal.SIGHUP

    @pytest.mark.parametrize("target", ["0", "-1", "1", "-4242", *CORRUPT_TOKENS])
    @pytest.mark.parametrize("trust", [[], ["--trust-pid"]])
    def test_I6_no_number_and_no_corrupt_token_reaches_anybody(
        self, holdfast, target, trust, tmp_path
    ):
        with sleeper() as bystander:
            holdfast("signal", *trust, "TERM", "--", target, expect=2, cwd=tmp_path)
            assert bystander.poll() is None

    @pytest.mark.parametrize("content", BAD_FILES)
    def test_I6_no_bad_pid_file_reaches_anybody(self, holdfast, content, tmp_path):
        (tmp_path / "x.pid").write_text(content)
        with sleeper() as bystander:
            holdfast("signal", "TERM", tmp_path / "x.pid", "--trust-pid", expect=2)
            assert bystander.poll() is None

    @pytest.mark.parametrize("name", ["NOPE", "-9", "0", "99", "", "SIG"])
    def test_a_signal_that_is_none_is_wrong_use(self, holdfast, name):
        assert holdfast("signal", "--", name, ProcessIdentity.current().token).returncode == 2

    def test_an_unknown_run_is_not_found(self, holdfast):
        assert holdfast("signal", "TERM", "no-such-run", expect=3).stdout == ""

    def test_a_runs_workload_is_signalled_and_its_history_says_so(self, holdfast, tmp_path):
        holdfast("run", "-n", "mine", "sleep", "600", expect=0)
        document = holdfast("--json", "signal", "USR1", "mine", expect=0).json
        holdfast("wait", "mine", "--timeout", "30", expect=128 + signal.SIGUSR1)
        (history,) = tmp_path.glob("runs/*/signals.jsonl")
        announced, row = map(json.loads, history.read_text().splitlines())
        assert (row["to"], row["fate"]) == (document["identity"]["token"], "delivered")
        assert (announced["to"], announced["fate"]) == (row["to"], "announced")
        assert row["why"] == "holdfast signal"
        assert "no process was signalled" in holdfast("signal", "USR1", "mine", expect=3).stderr

    def test_a_run_that_it_ends_was_stopped_by_holdfast_and_not_from_outside(self, holdfast):
        for name in ("KILL", "TERM", "USR1", "KILL", "TERM", "USR1"):
            holdfast("run", "-n", "mine", "sleep", "600", expect=0)
            holdfast("signal", name, "mine", expect=0)
            holdfast("wait", "mine", "--timeout", "60")
            ended = holdfast("--json", "status", "mine", expect=0).json
            assert (ended["outcome"], ended["ended_by"]) == ("stopped", "holdfast")

    def test_a_history_that_can_t_be_written_is_told_and_the_signal_is_sent(self, holdfast):
        holdfast("run", "-n", "mine", "sleep", "600", expect=0)
        words = [sys.executable, "-m", "holdfast", "signal", "TERM", "mine"]
        no_files = ["bash", "-c", 'ulimit -f 0; exec "$@"', "-", *words]
        sent = subprocess.run(no_files, capture_output=True, text=True, check=False, timeout=120)
        assert sent.returncode == 0
        assert "delivered" in sent.stdout
        assert "can't be written" in sent.stderr
        holdfast("wait", "mine", "--timeout", "60", expect=128 + signal.SIGTERM)

    def test_I4_another_users_process_is_denied(self):
        needs("root")
        with sleeper() as process:
            token = ProcessIdentity.of(process.pid).token
            other = Place(pid_namespace=False, uid=OTHER_UID)
            seen = run_in(other, command_line, words=["--json", "signal", "TERM", token])
            assert seen["code"] == 1
            assert seen["said"]["fate"] == "denied"
            assert process.poll() is None


def test_the_backend_can_be_forced(holdfast, tmp_path):
    env = {"HOLDFAST_PROCESS_BACKEND": "portable"}
    with sleeper() as process:
        token = holdfast("who", process.pid, env=env, expect=0).stdout.strip()
        assert token.startswith(f"hp1.{process.pid}.")
        assert "SAME" in holdfast("check", token, env=env, expect=0).stdout
        assert "SAME" in holdfast("check", token, expect=0).stdout
        native = ProcessIdentity.of(process.pid).token
        holdfast("check", native, env=env, expect=12)
        holdfast("signal", "KILL", native, env=env, expect=4)
        said = holdfast("--json", "signal", "TERM", token, env=env, expect=0).json
        assert "race" in said["evidence"]
        assert process.wait(timeout=30) == -signal.SIGTERM
    holdfast("check", token, env=env, expect=10)
    guarded = holdfast("guard", tmp_path / "x.pid", "cat", tmp_path / "x.pid", env=env, expect=0)
    assert re.fullmatch(r"\d+ hp1\.\S+\n", guarded.stdout)


def test_paths_with_a_slash_are_files_and_tokens_win(holdfast, tmp_path):
    token = ProcessIdentity.current().token
    Path(tmp_path / token).write_text("0")
    holdfast("check", token, cwd=tmp_path, expect=0)
    holdfast("check", f"./{token}", cwd=tmp_path, expect=2)
