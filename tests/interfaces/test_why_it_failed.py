"""Why did it fail: `status`, `ls` and the reports say it without a look into the log."""

from __future__ import annotations

import os

import pytest

from holdfast.run.outcomes import Outcome
from tests.support.records import append_events
from tests.support.running import settled, wait_for_output
from tests.support.shims import kill_shim, kill_workload

_FAILS = """
printf 'epoch 1\\033[32m ok\\033[0m\\n10%%\\r99%%\\n'
echo "login with API_TOKEN=hunter2hunter2" >&2
echo "ValueError: no such column" >&2
exit 3
"""


def _end(runs, *argv, **options):
    run = runs.start(argv, **options)
    assert run.wait(60).state == "ended"
    settled(run.id)
    return run


def _note(holdfast, name: str) -> str:
    """What `ls` says about the run."""
    (row,) = [one for one in holdfast("ls", expect=0).stdout.splitlines() if one.startswith(name)]
    return row


def test_status_of_a_failed_run_shows_its_last_lines(holdfast, runs):
    run = _end(runs, "sh", "-c", _FAILS, name="etl")
    page = holdfast("status", "etl", expect=0).stdout
    shown = [line.strip() for line in page.splitlines() if line.strip().startswith("| ")]
    assert shown == [
        "| epoch 1 ok",
        "| 99%",
        "| login with API_TOKEN=[redacted]",
        "| ValueError: no such column",
    ]
    assert page.index("ValueError") < page.index("evidence") < page.index("next")
    assert "hunter2" not in page.split("command")[0]
    assert run.info().last_output["output"][-1] == "ValueError: no such column"


def test_ls_names_the_last_line_and_opens_no_log(holdfast, runs):
    run = _end(runs, "sh", "-c", _FAILS, name="etl")
    os.unlink(run.directory.output_path)
    assert _note(holdfast, "etl").endswith("exit 3: ValueError: no such column")


def test_of_split_output_stderr_comes_first(holdfast, runs):
    _end(runs, "sh", "-c", _FAILS, name="etl", split_stderr=True)
    page = holdfast("status", "etl", expect=0).stdout
    assert page.index("stderr:") < page.index("ValueError") < page.index("stdout:")
    assert page.index("stdout:") < page.index("epoch 1 ok")
    assert _note(holdfast, "etl").endswith("exit 3: ValueError: no such column")


@pytest.mark.parametrize(
    ("script", "options", "outcome"),
    [
        ("echo last; kill -KILL $$", {}, Outcome.KILLED),
        ("echo last; exec sleep 600", {"timeout": 1}, Outcome.TIMED_OUT),
        ("echo last; exec sleep 600", {"idle_timeout": 1}, Outcome.STALLED),
        ("echo last; exec sleep 600", {"done_when": "never"}, Outcome.STOPPED),
    ],
)
def test_every_ending_that_is_no_success_has_them(runs, script, options, outcome):
    run = runs.start(["sh", "-c", script], **options)
    wait_for_output(run.id, b"last")
    if outcome is Outcome.STOPPED:
        run.stop()
    info = run.wait(60)
    assert (info.outcome, info.last_output) == (outcome, {"stderr": None, "output": ["last"]})


def test_a_success_has_none(holdfast, runs):
    run = _end(runs, "sh", "-c", "echo fine", name="ok")
    assert run.info().last_output is None
    assert "| fine" not in holdfast("status", "ok", expect=0).stdout


def test_D2_of_an_end_that_nobody_saw_they_are_read_and_then_recorded(holdfast, runs):
    run = runs.start(["sh", "-c", "echo last; exec sleep 600"], name="lost")
    wait_for_output("lost", b"last")
    kill_shim(run)
    kill_workload(run)
    expected = {"stderr": None, "output": ["last"]}
    assert run.info().last_output == expected
    holdfast("recover", expect=0)
    info = settled("lost")
    assert (info.is_recorded, info.last_output) == (True, expected)


def test_a_log_that_is_gone_does_not_hold_the_ending_up(runs):
    run = runs.start(["sh", "-c", "echo last; read line; exit 3"], stdin="pipe")
    wait_for_output(run.id, b"last")
    os.unlink(run.directory.output_path)
    os.mkfifo(run.directory.output_path)  # to open it for reading would wait for a writer
    run.send(b"go\n")
    info = run.wait(60)
    assert (info.outcome, info.exit_code, info.last_output) == (Outcome.FAILED, 3, None)


def test_the_reports_show_the_last_lines_and_what_the_agent_said(holdfast, runs, tmp_path):
    run = _end(runs, "sh", "-c", _FAILS, name="etl", split_stderr=True)
    said = {"kind": "result_read", "text": "No credit left <b>", "is_error": True}
    append_events(run, said)
    text = holdfast("report", "etl", expect=0).stdout
    markdown = holdfast("report", "etl", "--markdown", expect=0).stdout
    page = tmp_path / "page.html"
    holdfast("report", "etl", "--html", str(page), expect=0)
    for told in (text, markdown, page.read_text()):
        assert "ValueError: no such column" in told
        assert "epoch 1 ok" in told
        assert "No credit left" in told
    assert "```\nlogin with API_TOKEN=[redacted]\nValueError: no such column\n```" in markdown
    assert "No credit left &lt;b&gt;" in page.read_text()
    assert "No credit left" in _note(holdfast, "etl"), "an agent's own words are worth more"
