"""M1, M3: each tool and refusal, by the SDK's own client, which checks answers by their schemas."""

from __future__ import annotations

import pytest

from holdfast.mcp.scope import Access
from holdfast.mcp.tools import ACT, START, TOOLS
from holdfast.process.this_host import STAMP
from tests.support import pretend_claude
from tests.support.mcp_client import MODES, beside
from tests.support.mcp_scenes import every_refusal, every_tool
from tests.support.running import ended


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize("mode", MODES)
def test_M1_every_tool_answers_by_its_schema(tmp_path, monkeypatch, mode):
    monkeypatch.setenv("HOME", str(tmp_path))
    claude = pretend_claude.install(tmp_path)
    denied = beside(lambda call: every_tool(call, claude), mode=mode)
    assert "in no run" in denied


def test_tools_say_what_they_may_do():
    async def play(call):
        return {one.name: one.annotations for one in (await call.client.list_tools()).tools}

    hints = beside(play)
    for tool in TOOLS:
        assert hints[tool.name].read_only_hint == (tool.needs not in (ACT, START))
        assert hints[tool.name].destructive_hint == (tool.name in ("stop_run", "send_to_run"))


def test_a_server_that_was_not_allowed_to_act_only_looks(runs):
    run = runs.start(["sleep", "600"], name="sleeper")
    acting = [one.name for one in TOOLS if one.needs in (ACT, START)]

    async def play(call):
        listed = [one.name for one in (await call.client.list_tools()).tools]
        assert not set(listed) & set(acting)
        for tool in acting:
            refused = await call(tool, run="sleeper")
            assert refused.code == "refused"
            assert "--allow-actions" in refused["error"]["hint"]
        looked = await call.done("run_status", run="sleeper")
        assert "a person: holdfast stop sleeper" in looked["next"]

    beside(play, access=Access())
    assert run.info().state == "running"


def test_code_may_be_forbidden_while_a_stop_is_allowed(runs):
    runs.start(["sleep", "600"], name="sleeper")

    async def play(call):
        assert (await call("start_run", command=["true"])).code == "refused"
        assert (await call("send_to_run", run="sleeper", text="x")).code == "refused"
        assert (await call.done("stop_run", run="sleeper"))["has_stopped"]

    beside(play, access=Access(acts=True))


def test_M1_what_is_refused_says_why(runs):
    runs.start(["sleep", "600"], name="sleeper")
    beside(every_refusal)
    assert [one.name for one in runs.list()] == ["sleeper"], "nothing was started"


def test_M3_the_same_key_starts_once(runs):
    async def play(call):
        first = await call.done("start_run", command=["sleep", "600"], key="deploy")
        again = await call.done("start_run", command=["sleep", "600"], key="deploy")
        await call.done("stop_run", run=first["run"]["id"])
        ended_too = await call.done("start_run", command=["sleep", "600"], key="deploy")
        return {one["run"]["id"] for one in (first, again, ended_too)}

    assert len(beside(play)) == 1
    assert len(runs.list()) == 1


@pytest.mark.usefixtures("runs")
def test_a_failure_carries_the_last_lines_and_what_to_do():
    async def play(call):
        script = "echo working; echo it broke >&2; exit 3"
        await call.done("start_run", command=["sh", "-c", script], name="broken")
        waited = await call.done("wait_run", run="broken")
        refused = await call("run_result", run="broken")
        missing = await call.done("start_run", command=["/no/such/program"], name="missing")
        return waited, refused, missing

    waited, refused, missing = beside(play)
    assert (waited["run"]["outcome"], waited["run"]["exit_code"]) == ("failed", 3)
    assert waited["last_output"] == {"is_data": True, "text": "working\nit broke"}
    assert waited["next"][0] == "run_output(run='broken')"
    assert refused.is_error
    assert refused["last_output"]["text"].endswith("it broke")
    assert missing["run"]["outcome"] == "never_started"
    assert "no such file" in missing["run"]["evidence"]


def test_output_is_read_from_a_byte_in_pieces_and_by_a_text(runs):
    text = "".join(f"line {number}\n" for number in range(3000))
    run = runs.start(["seq", "-f", "line %.0f", "0", "2999"], name="lines")
    ended("lines")

    async def play(call):
        pieces, at = [], 0
        while True:
            piece = await call.done("run_output", run="lines", since_byte=at, max_bytes=10_000)
            assert piece["at_byte"] == at
            pieces.append(piece["output"]["text"])
            at = piece["next_byte"]
            if piece["is_all"]:
                break
        assert "".join(pieces) == text
        tail = await call.done("run_output", run="lines", tail=2)
        assert tail["output"]["text"] == "line 2998\nline 2999\n"
        cut = await call.done("run_output", run="lines", tail=2, max_bytes=5)
        assert (cut["output"]["text"], cut["skipped_bytes"]) == ("2999\n", 15)
        found = await call.done("run_output", run="lines", search="LINE 29", ignore_case=True)
        assert [one["line"]["text"] for one in found["hits"]][:2] == ["line 29", "line 290"]
        assert len(found["hits"]) == 111
        some = await call.done("run_output", run="lines", search="line", max_bytes=100)
        assert not some["is_all"]
        more = await call.done(
            "run_output", run="lines", search="line", since_byte=some["next_byte"], tail=1
        )
        assert more["hits"][-1]["line"]["text"] == "line 2999"
        beyond = await call.done("run_output", run="lines", since_byte=10**9)
        assert (beyond["output"]["text"], beyond["next_byte"]) == ("", len(text))

    beside(play)
    assert run.info().log_bytes == len(text)


def test_bytes_that_are_not_kept_any_more_are_said_to_be_skipped(runs):
    script = "head -c 400000 /dev/zero | tr '\\0' x; echo; echo end"
    runs.start(["sh", "-c", script], name="long", log_max="16K")
    ended("long")

    async def play(call):
        return await call.done("run_output", run="long", since_byte=0)

    output = beside(play)
    assert output["skipped_bytes"] == output["at_byte"] > 0


def test_a_client_inside_a_run_does_not_stop_its_own_run(runs, monkeypatch):
    outer = runs.start(["sleep", "600"], name="outer")
    monkeypatch.setenv(STAMP, outer.id)

    async def play(call):
        started = await call.done("start_run", command=["sleep", "600"], name="inner")
        own = await call("stop_run", run="outer")
        status = await call.done("run_status", run="inner")
        await call.done("stop_run", run="inner")
        return started, own, status["status"]["document"]["started_in"]

    _, own, started_in = beside(play)
    assert own.code == "refused"
    assert "its own run" in own["error"]["message"]
    assert started_in == outer.id
    assert outer.info().state == "running"


@pytest.mark.usefixtures("runs")
def test_defaults_of_the_user_hold_and_a_place_elsewhere_is_refused(config):
    config('[defaults]\ntimeout = "1h"\n[preset.far]\non = "ssh:nowhere"\n')

    async def play(call):
        started = await call.done("start_run", command=["true"], name="a")
        status = await call.done("run_status", run="a")
        far = await call("start_run", command=["true"], preset=["far"])
        await call.done("wait_run", run=started["run"]["id"])
        return status["status"]["document"]["wanted"], far

    wanted, far = beside(play)
    assert wanted["timeout_seconds"] == 3600
    assert far.code == "refused"
