"""F8 with Rays of their own: the head killed with and without Redis, `ray stop --force`, a Ray that
would end runs with its workers."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fleet import ray_scenes
from tests.fleet.ray_cluster import RayCluster, RaySubmitter
from tests.support.features import needs
from tests.support.kernel_lab import Place, run_in
from tests.support.waiting import eventually

pytestmark = [pytest.mark.fleet, pytest.mark.timeout(600)]
RUN = ("run", "--on", "ray", "--json", "-n", "a", "--stdin", "pipe", "sh", "-c", "read x; exit 7")


@contextlib.contextmanager
def used_cluster(folder: Path, **more: Any) -> Iterator[tuple[RayCluster, RaySubmitter]]:
    """One with a node n1, and somebody who uses it."""
    needs("root")
    pytest.importorskip("ray", reason="make test-fleet installs Ray")
    os.chmod(folder, 0o755)
    cluster = RayCluster("n1", letter="h", **more)
    try:
        cluster.start()
        submitter = RaySubmitter(folder, cluster)
        try:
            yield cluster, submitter
        finally:
            submitter.close()
    finally:
        cluster.close()


def ends_as_it_should(submitter: RaySubmitter, shim: str) -> None:
    """It is the same run under the same shim, and still answers."""
    eventually(lambda: submitter.info("a")["state"] == "running", 120, "it is found again")
    assert submitter.info("a")["shim"]["token"] == shim
    submitter("send", "a", "go", expect=0)
    assert submitter("wait", "a").returncode == 7


def test_F8_the_gcs_is_killed_without_redis_and_every_raylet_ends_but_no_run(shared):
    settings = {"RAY_gcs_rpc_server_reconnect_timeout_s": "10"}  # 60 by default
    with used_cluster(shared, settings=settings) as (cluster, submitter):
        submitter(*RUN, expect=0)
        shim = submitter.info("a")["shim"]["token"]
        (raylet,) = cluster.processes("n1", "raylet/raylet")
        cluster.kill("head", "gcs_server")
        eventually(
            lambda: not os.path.exists(f"/proc/{raylet}"), 120, "the raylet has ended itself"
        )
        assert '"running"' in submitter.on("n1", "status", "a", "--json").stdout, "by its own word"
        submitter.configure(answer="5s")
        unknown = submitter.info("a")
        assert (unknown["state"], unknown["outcome"]) == ("unknown", None)
        assert "last fact: running" in unknown["evidence"]
        for name in ("head", "n1"):
            cluster.stop(name)
        submitter.configure()
        cluster.start()  # which knows nothing of the old one
        ends_as_it_should(submitter, shim)


def test_F8_the_head_is_killed_and_comes_back_from_redis_as_it_was(shared):
    if shutil.which("redis-server") is None:
        pytest.skip("no redis-server: apt-get install redis-server")
    settings = {"RAY_gcs_rpc_server_reconnect_timeout_s": "200"}
    with used_cluster(shared, settings=settings, has_redis=True) as (cluster, submitter):
        run_id = submitter(*RUN, expect=0).json["id"]
        shim = submitter.info("a")["shim"]["token"]
        raylet = cluster.processes("n1", "raylet/raylet")
        cluster.stop("head")
        submitter.configure(answer="5s")
        unknown = submitter.info("a")
        assert (unknown["state"], unknown["outcome"]) == ("unknown", None)
        submitter.configure()
        cluster.start_one("head")
        cluster.await_nodes()
        assert cluster.processes("n1", "raylet/raylet") == raylet, "the same Ray"
        assert cluster.groups().get(f"hf-{run_id}") == "n1", "it is still reserved"
        ends_as_it_should(submitter, shim)
        eventually(lambda: f"hf-{run_id}" not in cluster.groups(), 90, "its group is given back")


def test_F8_a_raylet_that_stands_still_is_no_end(shared):
    slow = {"RAY_health_check_failure_threshold": "100"}
    with used_cluster(shared, settings=slow) as (cluster, submitter):
        submitter(*RUN, expect=0)
        shim = submitter.info("a")["shim"]["token"]
        (raylet,) = cluster.processes("n1", "raylet/raylet")
        os.kill(raylet, signal.SIGSTOP)
        try:
            assert submitter.info("a")["state"] == "running", "its desk answers all the same"
        finally:
            os.kill(raylet, signal.SIGCONT)
        ends_as_it_should(submitter, shim)


def test_F8_ray_stop_with_force_leaves_runs_alone_and_a_ray_that_would_not_is_named(shared):
    """In PID namespaces: `ray stop` looks at every process that it can see."""
    needs("root", "pid_namespace")
    pytest.importorskip("ray", reason="make test-fleet installs Ray")
    facts = run_in(Place(), ray_scenes.stop_with_force, timeout=540, folder=str(shared))
    assert facts == {
        "started": 0,
        "stopped": True,
        "node": "running",
        "afar": ["unknown", None],
        "again": "running",
        "wait": 7,
        "harmful": ["parent"],
        "why": True,
    }
