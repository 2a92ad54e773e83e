"""A real Prometheus scrapes a real server: the figures, the alert rules and PromQL of the docs."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from tests.support.features import needs
from tests.support.serving import Served, serving
from tests.support.waiting import eventually
from tests.web.test_V10_metrics import DOCS, figures_in, rules_in_docs

CONFIG = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: holdfast
    authorization: {{credentials_file: "{token}"}}
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


@contextlib.contextmanager
def prometheus(served: Served, tmp_path: Path) -> Iterator[str]:
    rules, token = tmp_path / "rules.yml", tmp_path / "token"
    rules.write_text(rules_in_docs().replace("for: 1m", "for: 0s"))
    token.write_text(served.token)
    config = tmp_path / "prometheus.yml"
    config.write_text(CONFIG.format(rules=rules, token=token, port=served.port))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}",
         f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"],
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield f"http://127.0.0.1:{port}/api/v1"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


class Starting(Exception):
    """It listens, and does not answer queries yet."""


def ask(url: str, query: str) -> list[Any]:
    answer = httpx.get(f"{url}/query", params={"query": query}, trust_env=False)
    if answer.status_code == 503:
        raise Starting
    assert answer.status_code == 200, (query, answer.text)
    return answer.json()["data"]["result"]


def test_V10_a_real_prometheus_scrapes_and_the_docs_queries_work(runs, tmp_path):
    needs("prometheus")
    orphan = runs.start(["sleep", "300"], name="orphan")  # alone: no neighbour adopts it
    os.kill(orphan.info().shim["pid"], signal.SIGKILL)
    with serving("--read-only") as served:
        scraped = httpx.get(f"{served.url}metrics", headers=served.bearer, trust_env=False)
        assert scraped.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert figures_in(scraped.text)["holdfast_orphans",] == 1
        with prometheus(served, tmp_path) as url:
            up = eventually(
                lambda: ask(url, "holdfast_run_up"),
                ignoring=(httpx.TransportError, Starting),
                timeout=90,
            )
            assert [(one["metric"]["name"], one["value"][1]) for one in up] == [("orphan", "0")]
            for query in re.findall(r"```promql\n(.*?)```", DOCS.read_text(), re.DOTALL):
                ask(url, query)

            def fires() -> bool:
                told = httpx.get(f"{url}/alerts", trust_env=False).json()["data"]["alerts"]
                return any(
                    one["labels"]["alertname"] == "HoldfastOrphan" and one["state"] == "firing"
                    for one in told
                )

            eventually(fires)
