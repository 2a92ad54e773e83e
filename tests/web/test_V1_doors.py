"""Who gets in: token, Host, Origin; what `--read-only` and `--allow-start` mean."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from holdfast.web.token import read_token
from tests.support.running import run_of
from tests.support.serving import Served, serving

DATA = ("api/v1/health", "api/v1/runs", "api/v1/events", "api/v1/openapi.json", "metrics")


def ask(served: Served, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes]:
    """A request whose path and headers are sent as they stand."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    try:
        connection.putrequest(method, path, skip_host="host" in headers)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read(20_000)
    finally:
        connection.close()


def test_V1_nothing_is_shown_or_done_without_the_token_the_host_and_the_origin(runs):
    secret = runs.start(["sleep", "300"], name="secret-name")
    with serving() as served:
        bearer = f"Bearer {served.token}"
        for path in (*DATA, "api/v1/runs/secret-name", "api/v1/nothing"):
            for header in ("", "Bearer", "Bearer x", f"Basic {served.token}", served.token):
                status, body = ask(served, f"/{path}", authorization=header)
                assert status == 401
                assert b"secret" not in body
        assert ask(served, f"/api/v1/health?token={served.token}")[0] == 401
        assert ask(served, "/api/v1/health", authorization=bearer)[0] == 200

        for host in ("evil.example", f"evil.example:{served.port}", "127.0.0.1.evil.example", ""):
            assert ask(served, "/api/v1/health", host=host, authorization=bearer)[0] == 421
            assert ask(served, "/", host=host)[0] == 421
        for host in ("localhost", "LOCALHOST:9", "[::1]:80", f"127.0.0.1:{served.port}"):
            assert ask(served, "/api/v1/health", host=host, authorization=bearer)[0] == 200

        stop = "/api/v1/runs/secret-name/stop"
        own = f"http://127.0.0.1:{served.port}"
        for origin in ("http://evil.example", "null", f"http://127.0.0.1:{served.port + 1}",
                       f"https://127.0.0.1:{served.port}", own + ".evil.example"):  # fmt: skip
            for path, method in ((stop, "POST"), ("/api/v1/runs", "GET"), ("/", "GET")):
                status, _ = ask(served, path, method, origin=origin, authorization=bearer)
                assert status == 403
        for site in ("cross-site", "same-site"):
            assert ask(served, stop, "POST", sec_fetch_site=site, authorization=bearer)[0] == 403
        assert ask(served, stop, "OPTIONS", origin=own, authorization=bearer)[0] == 405
        assert secret.info().state == "running"
        assert ask(served, stop, "POST", origin=own, authorization=bearer)[0] == 200
        assert secret.info().outcome == "stopped"


def test_V1_a_form_of_another_site_can_not_act(runs):
    run = runs.start(["sleep", "300"], name="one")
    with serving() as served:
        url = f"{served.url}api/v1/runs/one/stop"
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
            headers = {**served.bearer, "content-type": kind}
            assert httpx.post(url, content=b"{}", headers=headers).status_code == 400
            assert httpx.post(url, content=b"{}", headers={"content-type": kind}).status_code == 401
        answered = served.client.get("/runs")
        assert "set-cookie" not in answered.headers
        assert "access-control-allow-origin" not in answered.headers
        policy = answered.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answered.headers["x-content-type-options"] == "nosniff"
        assert httpx.get(served.url).headers["content-security-policy"] == policy
    assert run.info().state == "running"


TRICKS = (
    "/static/../app.py", "/static/..%2fapp.py", "/static/%2e%2e/app.py", "/static//etc/passwd",
    "/static/..\\app.py", "/..%2f..%2fetc/passwd", "/static/%00", "/%2e%2e/", "//evil.example/",
)  # fmt: skip
REFERENCES = ("..", "%2e%2e", "..%2f..%2fspec.json", "a%2fb", "%00", "-x", "a%20b", "*", "%ff", "~")


def test_V1_no_path_leads_outside(runs, tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    runs.start(["true"], name="one").wait()
    with serving("--allow-start") as served:
        bearer = f"Bearer {served.token}"
        for path in TRICKS:
            status, body = ask(served, path, authorization=bearer)
            assert status in (400, 404), (path, status)
            assert b"root:" not in body
            assert b"import" not in body
        for ref in REFERENCES:
            for below in ("", "/output", "/tree", "/events"):
                path = f"/api/v1/runs/{ref}{below}"
                assert ask(served, path, authorization=bearer)[0] in (400, 404), path
            assert ask(served, f"/api/v1/runs/{ref}", "DELETE", authorization=bearer)[0] in (
                400, 404,
            )  # fmt: skip
    assert run_of("one").info().outcome == "succeeded"


def test_V7_read_only_has_no_way_to_act(runs, holdfast):
    run = runs.start(["sleep", "300"], name="one")
    with serving("--read-only") as served:
        described = served.get("/openapi.json")["paths"]
        assert {method for path in described.values() for method in path} == {"get"}
        with serving() as other:
            acting = other.get("/openapi.json")["paths"]
        posts = [path for path, methods in acting.items() if "post" in methods]
        assert len(posts) == 11
        for path in posts:
            shown = served.client.post(path.replace("{ref}", "one"), json={})
            assert (shown.status_code, shown.json()["error"]["code"]) == (405, "read-only")
        assert served.client.delete("/runs/one").status_code == 405
        assert served.get("/health")["read_only"] is True
        assert served.get("/runs/one")["state"] == "running"
    assert run.info().state == "running"
    assert holdfast("serve", "--read-only", "--allow-start").returncode == 2


def test_a_wrong_method_is_told_which_are_right(runs):
    runs.start(["true"], name="one").wait()
    has = {
        "/api/v1/runs": "GET, HEAD, POST",
        "/api/v1/runs/one": "DELETE, GET, HEAD",
        "/api/v1/runs/one/stop": "POST",
        "/api/v1/runs/one/tree": "GET, HEAD",
        "/metrics": "GET, HEAD",
        "/": "GET, HEAD",
        "/static/app.js": "GET, HEAD",
    }
    with serving() as served, serving("--read-only") as shows:
        for path, methods in has.items():
            refused = httpx.put(f"{served.url[:-1]}{path}", headers=served.bearer)
            assert (refused.status_code, refused.headers["allow"]) == (405, methods), path
            error = refused.json()["error"]
            assert (error["code"], error["hint"]) == ("wrong-method", f"it has {methods}")
            refused = httpx.put(f"{shows.url[:-1]}{path}", headers=shows.bearer)
            assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD"), path


def test_V8_another_user_can_read_neither_token_nor_socket(runs, tmp_path):
    runs.start(["true"], name="one").wait()
    path = tmp_path / "web.sock"
    with serving("--socket", str(path)) as served:
        for one in (path, tmp_path / "serve.token"):
            assert stat.S_IMODE(os.stat(one).st_mode) == 0o600
        transport = httpx.HTTPTransport(uds=str(path))
        with httpx.Client(transport=transport, headers=served.bearer) as client:
            assert client.get("http://localhost/api/v1/runs/one").json()["name"] == "one"
            assert client.get("http://evil.example/api/v1/runs/one").status_code == 421
    assert not path.exists()


def test_the_token_is_kept_and_a_bad_token_file_is_refused(holdfast, tmp_path):
    with serving() as served:
        first = served.token
    with serving() as served:
        assert served.token == first
    chosen = tmp_path / "chosen"
    for content, mode, code in (("short", 0o600, 2), ("x" * 40, 0o644, 4), ("", 0o600, 2)):
        chosen.write_text(content)
        chosen.chmod(mode)
        assert holdfast("serve", "--port", "0", "--token-file", chosen).returncode == code
    assert holdfast("serve", "--listen", "0.0.0.0:0").returncode == 2
    path, no_file = tmp_path / "at", tmp_path / "not here"
    missing = holdfast("serve", "--socket", path, "--token-file", no_file, expect=2)
    assert not path.exists()
    command = missing.stderr.partition("hint: ")[2]
    assert command.startswith("(umask 077; ")
    subprocess.run(["sh", "-c", command], check=True, timeout=60)
    assert len(read_token(str(no_file))) == 32


MAKER = """
import sys
from holdfast.run.home import Home
from holdfast.web.token import own_token
home = Home.locate()
print("up", flush=True)
sys.stdin.read()
print(own_token(home))
"""


def test_servers_that_start_at_once_have_one_token(runs):
    argv, pipe = [sys.executable, "-c", MAKER], subprocess.PIPE
    with contextlib.ExitStack() as stack:
        started = [
            stack.enter_context(subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True))
            for _ in range(8)
        ]
        said = [one.stdout for one in started if one.stdout is not None]
        assert [one.readline() for one in said] == ["up\n"] * 8
        for one in started:
            assert one.stdin is not None
            one.stdin.close()
        tokens = {one.read() for one in said}
    home = Path(runs.home.path)
    assert tokens == {(home / "serve.token").read_text()}
    assert [path.name for path in home.iterdir() if "serve" in path.name] == ["serve.token"]


def test_a_port_in_use_is_told(holdfast):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = holdfast("serve", "--port", taken.getsockname()[1])
    assert done.returncode == 6
    assert "--port 0" in done.stderr


@pytest.mark.parametrize("words", [("--port", "x"), ("--port", "99999"), ("--listen", "nowhere")])
def test_what_is_no_address_is_wrong_use(holdfast, words, tmp_path):
    token = tmp_path / "token"
    token.write_text("t" * 40)
    token.chmod(0o600)
    assert holdfast("serve", *words, "--token-file", token).returncode == 2


def test_an_address_for_all_takes_addresses_and_no_other_name(tmp_path):
    token = tmp_path / "token"
    token.write_text("t" * 40)
    token.chmod(0o600)
    options = ("--listen", "0.0.0.0:0", "--token-file", str(token), "--allow-host", "box.example")
    with serving(*options) as served:
        bearer = f"Bearer {served.token}"
        for host, status in (("10.1.2.3:80", 200), ("box.example", 200), ("evil.example", 421)):
            assert ask(served, "/api/v1/health", host=host, authorization=bearer)[0] == status


def test_without_the_extra_the_command_says_what_to_install(holdfast, tmp_path):
    (tmp_path / "starlette.py").write_text("raise ModuleNotFoundError(name='starlette')")
    done = holdfast("serve", env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 6
    assert "holdfast[web]" in done.stderr
