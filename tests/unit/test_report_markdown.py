"""Markdown to paste: what ran, how it ended, on what proof; nothing in it is taken for markup."""

from __future__ import annotations

import re

from holdfast.manage.report.text_charts import UNICODE
from holdfast.run.events import Kind
from tests.support.report_scenes import (
    ended,
    happened,
    hostile,
    markdown_of,
    sample,
    seen,
    unresolved,
)

ALARM = {"rule": "memory_growth", "severity": "warning", "evidence": "grew from 5 to 90 MiB"}


def grown():
    rows = [unresolved(0.0), sample(1.0, 5), sample(2.0, 90)]
    return seen(rows, happened((2.0, Kind.ANOMALY_FIRED, ALARM), ended(3.0)))


def test_it_says_what_ran_how_it_ended_on_what_proof_and_what_was_odd():
    told = markdown_of(grown())
    assert told.startswith(
        "## Run work \\(0tqt60df90ybwtdemt17\\): ended: succeeded, ended by itself, exit code 0\n"
    )
    assert "- evidence: root exited 0 \\(seen by waitid\\)" in told
    assert "```sh\nwork --hard\n```" in told
    assert "| memory, highest | 90 MiB | at 2s |" in told
    assert "| 2s | memory\\_growth | warning |  | grew from 5 to 90 MiB |" in told
    assert "**Unmeasured**\n\n- unresolved for 1.0s" in told
    assert "| 1 | 0s | " in told
    assert "**Signals**: none sent or refused" in told


def test_charts_are_in_it_when_asked_for():
    assert "Memory (MiB)" not in markdown_of(grown())
    told = markdown_of(grown(), UNICODE)
    assert re.search(
        r"<details><summary>Over time [^\n]*</summary>\n\n```\nCPU \(% of one core\)", told
    )


def test_a_hostile_name_is_text_and_a_secret_is_not_there():
    told = markdown_of(hostile(), UNICODE)
    assert "sk-1234567890abcdefghij" not in told
    outside = re.sub(r"^(`{3,})[^\n]*\n.*?\n\1$", "", told, flags=re.DOTALL | re.MULTILINE)
    outside = re.sub("<details><summary>[A-Z][^<]*</summary>|</details>", "", outside)
    assert not re.search(r"(?<!\\)<", outside)
    assert not re.search(r"(?<!\\)`", outside)
    tables = [line for line in outside.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in tables} <= {4, 5, 6, 7, 8}
    assert all(line.isprintable() for line in told.splitlines())


def test_a_fence_is_longer_than_any_in_the_command():
    told = markdown_of(seen([], happened(), command=["echo", "```` \n```"]))
    assert "\n`````sh\necho '````  ```'\n`````\n" in told


def test_unknown_is_said():
    told = markdown_of(seen([], happened(ended(3.0))))
    assert "| CPU, highest | unknown |  |" in told
    assert "**Anomalies**: unknown: nothing was measured" in told
    assert "| read | 0" not in told


def test_a_long_command_is_cut():
    told = markdown_of(seen([], happened(), command=["x" * 100_000]))
    assert len(told) < 10_000
    assert "xxx ...\n" in told
