"""The page in a real browser: what a person sees and does, and that hostile text stays text."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import pretend_claude
from tests.support.asking import asked, say, start_talk
from tests.support.pretend_talker import install
from tests.support.running import run_of, wait_for_output
from tests.support.serving import serving
from tests.support.tracer import held_at_exit
from tests.support.waiting import eventually
from tests.web.browser import chromium, opened

__all__ = ["chromium"]
EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>"
COMM = "<img src=x>\x1b[2J"  # as long as the kernel lets it be
ANSI = "\x1b[31mred\x1b[0m \x1b]0;title\x07\x1b[2J\x1b[9999;9999H\u202eevil"
WRITER = """
import sys, time
print('ready', flush=True)
sys.stdin.readline()
block, began = (b'x' * 99 + b'\\n') * 1000, time.monotonic()
for number in range(1000):
    sys.stdout.buffer.write(block)
    time.sleep(max(0.0, began + (number + 1) * 0.01 - time.monotonic()))
sys.stdout.buffer.flush()
"""
WRITTEN = len("ready\n") + 100_000_000


def state_of(tab, name: str, state: str) -> None:
    tab.until(
        "[...document.querySelectorAll('table.runs tbody tr')].some("
        "row => row.querySelector('a').textContent === value[0]"
        " && row.querySelector('.state').textContent.startsWith(value[1]))",
        [name, state],
    )


def test_V2_hostile_text_is_shown_as_text_and_the_list_changes_by_itself(runs, chromium):
    command = ["sh", "-c", f"printf '%s\\n' '{EVIL}' '{ANSI}'; exit 3", EVIL]
    runs.start(command, name="evil", tags={"tag": EVIL}).wait()
    with serving() as served, opened(chromium, served) as tab:
        state_of(tab, "evil", "ended: failed")
        tab.page.evaluate("() => { window.isSame = true; }")
        live = runs.start(["sleep", "300"], name="live")
        state_of(tab, "live", "running")
        live.stop()
        state_of(tab, "live", "ended: stopped")
        live.remove()
        tab.until("!document.querySelector('table.runs').textContent.includes('live')")
        tab.page.fill("#filter", "state:failed !nothing tag:tag=<img")
        tab.until("document.querySelectorAll('table.runs tbody tr').length === 1")
        tab.page.fill("#filter", "nothing-has-this")
        tab.until("document.querySelectorAll('table.runs tbody tr').length === 0")
        tab.page.fill("#filter", "")
        tab.page.click("text=evil")
        tab.until_text("#output", "<script>alert(2)</script>")
        tab.until_text("#output", "red")
        tab.until_text("#facts", "<img src=x onerror=alert(1)>")
        assert tab.page.query_selector("main img, main script") is None
        assert tab.page.inner_text("#output .f-c1") == "red"
        shown = tab.page.inner_text("#output")
        assert "\x1b" not in shown
        assert "\\u202eevil" in shown
        assert tab.page.evaluate("() => window.isSame") is True  # it was not loaded again
        assert tab.page.evaluate("() => document.cookie + localStorage.length") == "0"
        assert served.token not in tab.page.url


def test_V2_hostile_text_in_a_result_and_in_the_name_of_a_process(
    runs, chromium, tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    claude = pretend_claude.install(tmp_path)
    prompt = f"{EVIL}{ANSI}"
    done = runs.start([claude, "--output-format", "stream-json", "-p", prompt], name="answer")
    assert done.wait(60).result["text"] == f"done: {prompt}"
    program = tmp_path / COMM
    shutil.copy(shutil.which("sleep") or "", program)
    run = runs.start([str(program), "300"], name="named", split_stderr=True, grace="1s")
    assert run.info().workload.comm == COMM
    with serving() as served, opened(chromium, served, f"/run/{done.id}") as tab:
        tab.until_text("#result", "<script>alert(2)</script>")
        shown = tab.page.inner_text("#result")
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        tab.page.click("#pretty")
        tab.until_text("#output", "<script>alert(2)</script>")
        assert "\x1b" not in tab.page.inner_text("#output")
        tab.page.evaluate("(id) => { location.hash = `#/run/${id}`; }", run.id)
        tab.until_text("#tree", "<img src=x>")
        tab.page.click("#stderr")
        tab.until("document.querySelector('#stderr').getAttribute('aria-pressed') === 'true'")
        with held_at_exit(run.info().workload.pid):
            tab.page.click("[data-verb=stop]")
            tab.page.click("text=Yes")
            tab.until_text("#said", "<img src=x>")
        assert tab.page.query_selector("main img, main script") is None
        assert "\x1b" not in tab.page.inner_text("main")
    eventually(lambda: run.id not in runs.home.run_ids(active=True))  # it is let go


@pytest.mark.timeout(180)
def test_V3_a_run_that_writes_10_MB_a_second_for_10_s_is_followed(runs, chromium):
    with serving() as served, opened(chromium, served) as tab:
        run = runs.start([sys.executable, "-c", WRITER], name="writer", stdin="pipe")
        tab.page.click("text=writer")
        tab.until_text("#output", "ready")
        run.send(b"\n")
        tab.until("Number(document.querySelector('#log-status')?.dataset.skipped) > 0")
        # It answers while it follows: a frame is drawn, and a button pressed.
        frames = tab.page.evaluate(
            "() => new Promise(done => { let many = 0; const began = performance.now();"
            " const next = () => { many += 1; performance.now() - began < 2000"
            " ? requestAnimationFrame(next) : done(many); }; next(); })"
        )
        assert frames >= 4
        tab.page.fill("#search", "y" * 10)
        info = run.wait()
        assert (info.outcome, info.log_bytes) == ("succeeded", WRITTEN)
        tab.until_text("#log-status", "The run is over")
        tab.until_text("#log-status", "skipped")
        assert tab.page.evaluate("() => document.querySelector('#output').textContent.length") < 1e6


def test_a_run_is_searched_charted_paused_and_stopped_with_its_survivor_named(runs, chromium):
    busy = (
        "import sys, time\nfor n in range(10**9):\n print('line', n, flush=True)\n time.sleep(.01)"
    )
    run = runs.start([sys.executable, "-c", busy], name="busy", sample_interval="1s", grace="1s")
    wait_for_output("busy", b"line 20\n")
    with serving() as served, opened(chromium, served, f"/run/{run.id}") as tab:
        tab.page.fill("#search", "LINE 7")
        tab.page.press("#search", "Enter")
        tab.until_text("#hits", "line 7")
        tab.page.click("#hits button >> nth=0")
        tab.until("document.querySelector('#output').textContent.startsWith('line 7')")
        tab.page.click("#to-end")
        tab.page.wait_for_selector("figure[data-chart=cpu] path")
        first = tab.page.get_attribute("figure[data-chart=memory] path", "d")
        tab.until(
            "document.querySelector('figure[data-chart=memory] path').getAttribute('d') !== value",
            first,
        )
        tab.page.click("text=Pause")
        tab.page.wait_for_selector("[data-verb=unpause]")
        assert run.info().paused is not None
        tab.page.click("text=Unpause")
        tab.page.wait_for_selector("[data-verb=pause]")
        tab.page.dispatch_event("[data-verb=rerun]", "click")  # greyed: it says why
        tab.until_text("#said", "--allow-start")
        with held_at_exit(run.info().workload.pid):
            tab.page.click("[data-verb=stop]")
            tab.page.click("text=Yes")
            tab.until_text("#said", "NOT stopped")
            tab.until_text("#said", "python")
        eventually(lambda: run.id not in runs.home.run_ids(active=True))  # it is let go


def test_a_terminal_is_shown_and_takes_a_line(runs, chromium):
    run = runs.start(["sh"], name="shell", pty=True)
    with serving("--allow-start") as served, opened(chromium, served, f"/run/{run.id}") as tab:
        tab.page.fill("#line", "printf '\\033[32mgr''een\\033[0m\\n'")
        tab.page.press("#line", "Enter")
        tab.until_text("#screen .f-c2", "green")
        tab.page.click("[data-verb=stop]")
        tab.page.click("text=No")
        assert run.info().state == "running"


def test_a_question_of_an_agent_is_answered(holdfast, runs, tmp_path, monkeypatch, chromium):
    assert runs.list() == []
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    start_talk(holdfast, install(tmp_path), "--approve", "ask", "--approve-timeout", "1h")
    with serving() as served, opened(chromium, served, f"/run/{run_of('a').id}") as tab:
        say(holdfast, "ask touch made")
        tab.until_text("#asked", "touch made")
        tab.page.click("text=Approve")
        wait_for_output("a", b"ran touch made")
        tab.until("!document.querySelector('#asked').textContent.includes('touch made')")
        say(holdfast, "ask touch other")
        asked()
        tab.until_text("#asked", "touch other")
        tab.page.click("text=Deny")
        wait_for_output("a", b"refused touch other")


def test_V5_a_lost_connection_is_said_and_regained_in_two_tabs(runs, chromium):
    runs.start(["sleep", "300"], name="first")
    with serving() as served:
        port = str(served.port)
        with opened(chromium, served) as one, opened(chromium, served) as two:
            for tab in (one, two):
                state_of(tab, "first", "running")
            served.process.terminate()
            served.process.wait()
            for tab in (one, two):
                tab.until_text("#connection.lost", "Connection lost")
            runs.start(["sleep", "300"], name="second")
            with serving("--port", port):
                for tab in (one, two):
                    state_of(tab, "second", "running")
                    tab.until("document.querySelector('#connection').textContent === 'live'")
                run_of("second").stop()
                for tab in (one, two):
                    state_of(tab, "second", "ended: stopped")


def test_ages_pass_on_the_page_of_a_run_that_does_nothing(runs, chromium):
    run = runs.start(["sleep", "300"], name="quiet")
    seconds = "parseFloat(document.querySelector('#facts').textContent.match(/runs for ([0-9.]+)/)"
    with serving() as served, opened(chromium, served, f"/run/{run.id}") as tab:
        tab.until(f"{seconds}?.[1])")
        tab.page.evaluate("() => { document.querySelector('#tree').firstChild.isSame = true; }")
        before = tab.page.evaluate(f"() => {seconds}[1])")
        tab.until(f"{seconds}?.[1]) > value + 8", before)  # read again more than once
        tab.until("document.querySelector('#tree').firstChild.isSame", [])


def test_ages_are_by_the_clock_of_the_server(runs, chromium):
    runs.start(["sleep", "300"], name="one")
    with serving() as served, opened(chromium, served) as tab:
        ahead = "{ const real = Date.now; Date.now = () => real() + 86400e3; }"
        tab.page.context.add_init_script(ahead)
        tab.page.reload()
        state_of(tab, "one", "running")
        tab.until("Date.now() > performance.timeOrigin + 80000e3")
        tab.until("/^[0-9]+[sm]$/.test(document.querySelector('td[data-label=Age]').textContent)")


@pytest.mark.parametrize("by", ["id", "name"])
def test_the_page_of_a_run_that_is_removed_does_not_call_it_running(runs, chromium, by):
    run = runs.start(["sleep", "300"], name="one")
    where = f"/run/{run.id if by == 'id' else 'one'}"
    with serving() as served, opened(chromium, served, where) as tab:
        tab.until_text("#title", "running")
        tab.until_text("#buttons", "Stop")
        run.stop()
        tab.until_text("#title", "stopped")
        run.remove()
        tab.until_text("#title", "removed")
        tab.until_text("#said", "This run is removed.")
        assert "stopped" not in tab.page.inner_text("#title")
        tab.until("document.querySelector('#buttons').childElementCount === 0")
        tab.until("document.title === 'one removed - Holdfast'")


def test_an_address_that_leads_to_no_run_says_so(runs, chromium):
    assert runs.list() == []
    with serving() as served, opened(chromium, served, "/run/nothing") as tab:
        tab.until_text("#said", "there is no run nothing")
        tab.page.evaluate("() => { location.hash = '#/run/%'; }")
        tab.until_text("#said", "can't name a run")
        tab.page.evaluate("() => { location.hash = '#/'; }")
        tab.until("document.title === 'Holdfast'")


def test_a_server_with_another_token_is_told_and_its_url_opens_in_the_same_tab(runs, chromium):
    run = runs.start(["sleep", "300"], name="one")
    with serving() as served, opened(chromium, served, f"/run/{run.id}") as tab:
        tab.until_text("#title", "running")
        served.process.terminate()
        served.process.wait()
        tab.until_text("#connection.lost", "trying again")
        (Path(runs.home.path) / "serve.token").unlink()
        with serving("--port", str(served.port)) as other:
            assert other.token != served.token
            tab.until_text("#main", "That is not the token of this server.")
            tab.until_text("#connection.lost", "Not connected")
            assert "trying again" not in tab.page.inner_text("#connection")
            tab.page.evaluate("(value) => { location.href = value; }", other.page)
            tab.until("document.querySelector('#connection').textContent === 'live'")
            state_of(tab, "one", "running")


PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}


LOOKS: dict[str, dict[str, Any]] = {"light": {}, "dark": {"color_scheme": "dark"}, "phone": PHONE}


@pytest.mark.parametrize("look", LOOKS)
def test_no_serious_fault_of_accessibility_light_dark_and_on_a_phone(runs, chromium, look):
    run = runs.start(
        ["sh", "-c", "printf '\\033[31mred\\033[42mback\\n'; exec sleep 300"], name="one"
    )
    runs.start(["false"], name="bad").wait()
    wait_for_output("one", b"back")
    with serving("--read-only") as served, opened(chromium, served, **LOOKS[look]) as tab:
        _has_no_fault(tab, run.id)


def _has_no_fault(tab, run_id: str) -> None:
    state_of(tab, "one", "running")
    assert tab.violations() == []
    tab.page.evaluate("(id) => { location.hash = `#/run/${id}`; }", run_id)
    tab.until_text("#output", "red")
    tab.page.wait_for_selector("figure, #charts:not(:empty)")
    assert tab.violations() == []
    wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    assert tab.page.evaluate(f"() => {wide}")
    for place, expected in (("#/queues", "Queues"), ("#/usage", "Usage")):
        tab.page.evaluate("(where) => { location.hash = where; }", place)
        tab.until_text("main h1", expected)
        assert tab.violations() == []
    tab.page.evaluate("() => { sessionStorage.clear(); location.reload(); }")
    tab.page.wait_for_selector("#token")
    assert tab.violations() == []


def test_by_keyboard_alone(runs, chromium):
    run = runs.start(["sleep", "300"], name="keys")
    runs.start(["true"], name="other").wait()
    with serving() as served, opened(chromium, served) as tab:
        state_of(tab, "keys", "running")
        state_of(tab, "other", "ended")
        focused = "document.activeElement"
        tab.page.keyboard.press("/")
        tab.until(f"{focused}.id === 'filter'")
        tab.page.keyboard.type("key")
        tab.until("document.querySelectorAll('table.runs tbody tr').length === 1")
        tab.page.keyboard.press("Escape")
        tab.page.keyboard.press("j")
        tab.until(f"{focused}.textContent === 'keys'")
        tab.page.keyboard.press("Enter")
        tab.page.wait_for_selector("[data-verb=stop]")
        for _ in range(20):
            if tab.page.evaluate(f"() => {focused}.dataset.verb") == "stop":
                break
            tab.page.keyboard.press("Tab")
        tab.page.keyboard.press("Enter")
        tab.until(f"{focused}.textContent === 'Yes'")
        tab.page.keyboard.press("Enter")
        tab.until_text("#said", "stopped in")
        eventually(lambda: run.info().outcome == "stopped")
