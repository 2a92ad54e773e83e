"""`holdfast report`: a real run in every form, files written whole, nothing invented."""

from __future__ import annotations

import json
import os
import stat
import sys

import pytest

from tests.support.running import ended, run_of
from tests.support.waiting import eventually

SECRET = "sk-1234567890abcdefghij"
GROWS = """
import time
kept = []
for seconds in (0.1, 0.1, 0.1, 0.1, 0.8):
    kept.append(bytearray(b"x") * 8_000_000)
    time.sleep(seconds)
"""


@pytest.fixture
def grown(holdfast) -> str:
    """The name of a run that used some memory and ended."""
    program = [sys.executable, "-c", GROWS, f"--api-key={SECRET}"]
    holdfast("run", "-n", "grown", "--sample-interval", "0.1s", "--", *program, expect=0)
    ended("grown")
    lock = run_of("grown").directory
    eventually(lambda: not lock.lock_is_held(), why="its shim has written all")
    return "grown"


def files_of(name: str) -> dict[str, tuple[int, int]]:
    directory = run_of(name).directory.path
    found = ((entry.name, entry.stat()) for entry in os.scandir(directory))
    return {file: (info.st_size, info.st_mtime_ns) for file, info in found}


def test_the_text_says_how_it_ended_and_what_it_used(holdfast, grown):
    told = holdfast("report", grown, expect=0).stdout
    assert told.startswith("grown (")
    assert "ended: succeeded, ended by itself, exit code 0" in told.splitlines()[0]
    assert "evidence   root exited 0 (seen by waitid)" in told
    assert "memory, highest" in told
    assert "anomalies  none" in told
    assert SECRET not in told


def test_reading_changes_nothing(holdfast, grown, tmp_path):
    before = files_of(grown)
    holdfast("report", grown, "--plot", "--html", tmp_path / "page.html", expect=0)
    assert files_of(grown) == before


def test_the_plot_fits_80_columns_and_says_its_units(holdfast, grown):
    lines = holdfast("report", grown, "--plot", expect=0).stdout.splitlines()
    assert max(map(len, lines)) <= 80
    for title in ("CPU (% of one core)", "Memory (MiB)", "I/O (", "Processes (number)"):
        assert any(line.startswith(title) for line in lines), title


def test_the_plot_on_a_screen_without_unicode_is_ascii(holdfast, grown):
    done = holdfast("report", grown, "--plot", env={"PYTHONIOENCODING": "ascii"}, expect=0)
    assert done.stdout.isascii()
    assert "#" in done.stdout
    assert "\\u" not in done.stdout


def test_the_document_is_the_snapshot(holdfast, grown):
    document = holdfast("report", grown, "--json", expect=0).json
    assert document["schema"] == 1
    assert document["run"]["outcome"] == "succeeded"
    assert [chart["key"] for chart in document["charts"]] == ["cpu", "memory", "io", "processes"]
    memory = document["charts"][1]["lines"][0]["points"]
    assert max(value for _, value in memory if value is not None) > 30_000_000
    assert document["usage"]["peak_rss_bytes"] > 30_000_000
    assert document["attempts"][0]["exit_code"] == 0
    assert document["workloads"][0]["resolution"] == "direct"
    assert SECRET not in json.dumps(document)


def test_markdown_is_for_pasting_and_holds_no_secret(holdfast, grown):
    told = holdfast("report", grown, "--markdown", "--plot", expect=0).stdout
    assert told.startswith("## Run grown \\(")
    assert "ended: succeeded" in told.splitlines()[0]
    assert "--api-key=[redacted]" in told
    assert SECRET not in told
    assert "<summary>Over time (" in told


def test_a_page_is_written_whole_and_as_the_umask_says(holdfast, grown, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("an older one")
    done = holdfast("report", grown, "--html", page, expect=0)
    assert done.stdout == ""
    assert done.stderr.startswith(f"wrote {page} (")
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert text.endswith("</html>\n")
    assert SECRET not in text
    assert stat.S_IMODE(page.stat().st_mode) == 0o666 & ~_umask()
    assert [path.name for path in tmp_path.glob("page*")] == ["page.html"]
    assert holdfast("report", grown, "--html", page, "-q", expect=0).stderr == ""


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_page_goes_to_stdout_and_into_what_a_link_means(holdfast, grown, tmp_path):
    assert holdfast("report", grown, "--html", "-", expect=0).stdout.endswith("</html>\n")
    target, link = tmp_path / "target.html", tmp_path / "link.html"
    target.write_text("old")
    link.symlink_to(target)
    holdfast("report", grown, "--html", link, expect=0)
    assert link.is_symlink()
    assert target.read_text().endswith("</html>\n")
    holdfast("report", grown, "--html", "/dev/null", expect=0)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_page_and_the_document_in_one_look(holdfast, grown, tmp_path):
    done = holdfast("report", grown, "--json", "--html", tmp_path / "page.html", expect=0)
    assert done.json["run"]["name"] == "grown"
    assert (tmp_path / "page.html").exists()


def test_a_directory_is_not_written_over(holdfast, grown, tmp_path):
    place = tmp_path / "pages"
    place.mkdir()
    done = holdfast("report", grown, "--html", place, expect=2)
    assert "is a directory" in done.stderr
    assert list(place.iterdir()) == []
    assert holdfast("report", grown, "--html", "", expect=2).stdout == ""


def test_a_place_that_can_t_be_written_is_said_and_left_as_it_was(holdfast, grown, tmp_path):
    done = holdfast("report", grown, "--html", tmp_path / "no" / "page.html", expect=1)
    assert "can't be written: No such file or directory" in done.stderr
    error = holdfast("report", grown, "--json", "--html", tmp_path / "no" / "p.html", expect=1).json
    assert error["error"]["code"] == "failed"


@pytest.mark.parametrize(
    "options",
    [
        ["--json", "--plot"],
        ["--json", "--markdown"],
        ["--html", "-", "--json"],
        ["--html", "-", "--plot"],
        ["--html", "-", "--markdown"],
    ],
)
def test_what_would_mix_on_stdout_is_refused(holdfast, options):
    done = holdfast("report", "whatever", *options, expect=2)
    assert "stdout" in done.stdout + done.stderr


def test_a_run_that_is_not_there_is_not_found(holdfast):
    assert "no run" in holdfast("report", "nobody", expect=3).stderr


def test_a_run_that_never_started_has_no_figures_and_says_so(holdfast):
    holdfast("run", "-n", "missing", "/no/such/program", expect=127)
    told = holdfast("report", "missing", expect=0).stdout
    assert "never started" in told
    assert "memory, highest         unknown" in told
    assert "anomalies  unknown: nothing was measured" in told
    page = holdfast("report", "missing", "--html", "-", expect=0).stdout
    assert "nothing was measured" in page


def test_a_run_without_samples_says_that_none_were_wanted(holdfast):
    holdfast("run", "-n", "blind", "--sample-interval", "0", "sleep", "0.3", expect=0)
    ended("blind")
    told = holdfast("report", "blind", expect=0).stdout
    assert "started with --sample-interval 0" in told
    assert "memory, highest         unknown" in told


def test_a_live_run_is_reported_as_far_as_it_got(holdfast):
    holdfast("run", "-n", "live", "--sample-interval", "0.1s", "sleep", "60", expect=0)
    samples = eventually(
        lambda: holdfast("report", "live", "--json", expect=0).json["samples"], why="a sample"
    )
    assert samples > 0
    document = holdfast("report", "live", "--json", expect=0).json
    assert document["run"]["state"] == "running"
    assert document["attempts"][0]["lasted_seconds"] is None
    holdfast("stop", "--grace", "0", "live", expect=0)
    stopped = holdfast("report", "live", "--json", expect=0).json
    assert {one["fate"] for one in stopped["signals"]} == {"delivered"}
    assert stopped["signals"][0]["proof"] is not None


def test_a_trace_that_was_torn_or_filled_with_nonsense_is_read_around(holdfast, grown):
    path = run_of(grown).directory.trace_path
    before = holdfast("report", grown, "--json", expect=0).json["samples"]
    with open(path, "ab") as trace:
        trace.write(b'{"at":"x","tree":[]}\n\xff\xff\n[]\n{"at":1}\n{"at":"2026-11-15T10:00')
    assert holdfast("report", grown, "--json", expect=0).json["samples"] == before
