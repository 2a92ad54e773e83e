"""The figures for Prometheus: the same as in JSON, in a text that Prometheus' own parser reads."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdfast.manage.metrics.exposition import (
    MOST_LABEL,
    MetricFamily,
    MetricKind,
    MetricSample,
    exposition,
)
from holdfast.manage.metrics.figures import MetricsCollector
from tests.support.features import needs
from tests.support.running import run_of
from tests.support.waiting import eventually

DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"


def figures_in(text: str) -> dict[tuple[str, ...], float]:
    """`{(name, label values...): value}`, by the parser of prometheus_client."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def rules_in_docs() -> str:
    return next(
        block
        for block in re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)
        if block.startswith("groups:")
    )


def test_V10_metrics_agree_with_ls_usage_and_queue(holdfast, runs, config):
    config("")
    assert holdfast("metrics", expect=0).stdout  # a home that is not made yet
    runs.start(["true"], name="fine").wait()
    runs.start(["false"], name="bad").wait()
    runs.start(["sh", "-c", "echo hello; exec sleep 300"], name="long")
    eventually(lambda: run_of("long").info().log_bytes == 6 and run_of("long").info().now)
    holdfast("queue", "set", "main", "--limit", "1", expect=0)
    runs.start(["sleep", "300"], name="first", queue="main")
    runs.start(["sleep", "300"], name="second", queue="main")
    eventually(lambda: holdfast("queue", "--json").json["queues"][0]["waiting"])

    found = figures_in(holdfast("metrics", expect=0).stdout)

    listed = holdfast("ls", "--all", "--json", expect=0).json["runs"]
    states = Counter(run["state"] for run in listed)
    assert {key[1]: value for key, value in found.items() if key[0] == "holdfast_runs"} == {
        "starting": 0, "stopping": 0, "orphaned": 0, "unknown": 0, **states
    }  # fmt: skip
    outcomes = Counter(run["outcome"] for run in listed if run["outcome"])
    ended = {key[1]: value for key, value in found.items() if key[0] == "holdfast_runs_ended"}
    assert {outcome: value for outcome, value in ended.items() if value} == outcomes
    active = {run["name"] for run in listed if run["state"] != "ended"}
    assert {key[1] for key in found if key[0] == "holdfast_run_up"} == active
    long = run_of("long").info()
    assert found["holdfast_run_output_bytes_total", "long", long.id, ""] == 6
    assert found["holdfast_run_processes", "long", long.id, ""] == 1
    assert found["holdfast_queue_waiting", "main"] == 1
    assert found["holdfast_queue_active", "main"] == 1
    assert found["holdfast_queue_limit", "main"] == 1


def test_V10_a_stop_and_a_removal_show(holdfast, runs):
    runs.start(["sleep", "300"], name="stopped").stop()
    collector = MetricsCollector(runs.home)
    before = figures_in(exposition(collector.families()))
    assert before["holdfast_signals", "delivered"] >= 1
    assert before["holdfast_runs_ended", "stopped"] == 1
    run_of("stopped").remove()
    after = figures_in(exposition(collector.families()))
    assert after["holdfast_runs_ended", "stopped"] == 0
    assert after["holdfast_runs", "ended"] == 0
    assert holdfast("metrics", "--json").returncode == 2


HOSTILE = [
    '"} 1\nholdfast_orphans 9',
    "\x1b[31mred\x1b[0m",
    "back\\slash",
    "<script>alert(1)</script>",
    "a\u202eb",
    "\udc80",
    "x" * 10_000,
]


@pytest.mark.parametrize("value", HOSTILE)
def test_V2_no_label_breaks_the_text(value):
    family = MetricFamily("m", MetricKind.GAUGE, "about", (MetricSample({"name": value}, 1.5),))
    text = exposition([family])
    assert len(text.splitlines()) == 3
    ((name, label), number), *more = figures_in(text).items()
    assert (name, number, more) == ("m", 1.5, [])
    assert len(label) <= MOST_LABEL
    assert label.isprintable()


def test_promtool_takes_the_text_and_the_rules_of_the_docs(holdfast, runs, tmp_path):
    needs("promtool")
    runs.start(["sleep", "300"], name="one")
    scraped = holdfast("metrics", expect=0).stdout
    lint = subprocess.run(
        ["promtool", "check", "metrics"], input=scraped, text=True, capture_output=True
    )
    assert (lint.returncode, lint.stderr) == (0, "")
    rules = tmp_path / "rules.yml"
    rules.write_text(rules_in_docs())
    checked = subprocess.run(
        ["promtool", "check", "rules", str(rules)], text=True, capture_output=True
    )
    assert checked.returncode == 0, checked.stderr
    assert "8 rules found" in checked.stdout


def test_every_metric_is_in_the_docs_and_no_other(holdfast, runs):
    runs.start(["sleep", "300"], name="one")
    names = set(re.findall(r"# TYPE (\S+)", holdfast("metrics", expect=0).stdout))
    table = "\n".join(line for line in DOCS.read_text().splitlines() if line.startswith("| `"))
    told = set(re.findall(r"`(holdfast_\w+)`", table))
    for first, rest in re.findall(r"`(holdfast_\w+)`((?:, `_\w+`)+)", table):
        stem = first.removesuffix("_waiting").removesuffix("_read_bytes_total")
        told.update(stem + tail for tail in re.findall(r"`(_\w+)`", rest))
    assert names == told
