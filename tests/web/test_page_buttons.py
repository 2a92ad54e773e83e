"""The buttons of a run's page: the server says why one can't be pressed, the page has no rules."""

from __future__ import annotations

import pytest

from holdfast.run.facts import State
from holdfast.web.refusals import refusals
from tests.support.running import run_of
from tests.support.serving import serving
from tests.support.shims import kill_shim
from tests.web.browser import chromium, opened

__all__ = ["chromium"]
REFUSED = "document.querySelector(`[data-verb=${value[0]}]`)?.title === value[1]"


def says(tab, wanted: dict[str, str]) -> None:
    for verb in ("stop", "pause", "resume", "rerun", "recover", "remove"):
        tab.until(REFUSED, [verb, wanted[verb]])
        greyed = tab.page.get_attribute(f"[data-verb={verb}]", "aria-disabled")
        assert greyed == ("true" if wanted[verb] else "false")


def test_a_queued_run_whose_shim_is_gone_is_recovered_from_the_page(runs, chromium):
    run = runs.start(["true"], delay="1h", name="a")
    with serving("--allow-start") as served, opened(chromium, served, "/run/a") as tab:
        before = served.get("/runs/a")["shown"]["refusals"]
        assert (before["recover"], before["stop"]) == ("a is supervised", "")
        says(tab, before)
        kill_shim(run)
        after = served.get("/runs/a")["shown"]["refusals"]
        assert (after["recover"], after["rerun"]) == ("", "a is queued: stop it first")
        says(tab, after)
        tab.page.click("[data-verb=recover]")
        tab.until_text("#said", "recover: done")
        says(tab, before)
        assert run.info().queue["waits_for"]["kind"] == "time"


@pytest.mark.parametrize(("leftovers", "why"), [("stop", "a has ended (succeeded)"), ("keep", "")])
def test_what_an_ended_run_was_to_keep_can_be_stopped_from_the_page(runs, chromium, leftovers, why):
    runs.start(["true"], name="a", leftovers=leftovers).wait()
    with serving("--allow-start") as served, opened(chromium, served, "/run/a") as tab:
        wanted = served.get("/runs/a")["shown"]["refusals"]
        assert (wanted["stop"], wanted["rerun"], wanted["remove"]) == (why, "", "")
        says(tab, wanted)


def test_the_reasons_fit_each_state(runs):
    runs.start(["true"], name="a").wait()
    info = run_of("a").info()
    unknown = refusals(info.replace(state=State.UNKNOWN, outcome=None))
    assert (unknown["rerun"], unknown["recover"], unknown["stop"]) == ("", "", "")
    assert unknown["remove"].startswith("what is alive of a is not known: `holdfast rm --force ")
    stopping = refusals(info.replace(state=State.STOPPING, outcome=None))
    assert stopping["pause"] == "a is being stopped"
    assert stopping["rerun"] == "a is stopping: stop it first"
    elsewhere = refusals(info.replace(state=State.ORPHANED, outcome=None), "n1")
    assert elsewhere["recover"] == "a is on n1: `holdfast recover` there looks after it"
