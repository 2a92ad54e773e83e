"""The library for asyncio: the same names, awaitable; cancelling never stops a run."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import signal
import threading

import pytest

from holdfast import AlreadyRunning, AsyncRun, AsyncRuns, Outcome, Run, Runs, State
from holdfast.manage.aio import run_steps_async
from holdfast.manage.operations import Wait
from tests.support.waiting import eventually


def _public(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")}


stops_what_is_left = pytest.mark.usefixtures("runs")


@pytest.mark.parametrize(("plain", "awaitable"), [(Runs, AsyncRuns), (Run, AsyncRun)])
def test_the_names_are_the_same(plain, awaitable):
    assert _public(plain) <= _public(awaitable)
    for name in _public(plain):
        ours, theirs = (
            inspect.signature(getattr(awaitable, name)),
            inspect.signature(getattr(plain, name)),
        )
        assert list(ours.parameters) == list(theirs.parameters), name


def test_a_run_from_start_to_end(runs, tmp_path):
    async def play() -> None:
        library = AsyncRuns(tmp_path, tags={"a": "b"})
        run = await library.start(["sh", "-c", "echo hello; exit 3"], name="x")
        info = await run.wait(20)
        assert (info.state, info.outcome, info.exit_code) == (State.ENDED, Outcome.FAILED, 3)
        assert info.tags == {"a": "b"}
        assert await run.output() == b"hello\n"
        assert (await library.get("x")).id == run.id
        assert [one.id for one in await library.list()] == [run.id]
        assert await library.list(outcome="failed", name="X", tags={"a": None}, limit=1)
        assert await library.list(state="running") == await library.list(tags={"a": "c"}) == []
        assert (await run.info()).outcome is Outcome.FAILED
        assert repr(run) == f"AsyncRun({run.id!r})"

    asyncio.run(play())
    assert runs.get("x").info().exit_code == 3


@stops_what_is_left
def test_many_runs_wait_at_the_same_time(tmp_path):
    async def play() -> list[int | None]:
        library = AsyncRuns(tmp_path)
        started = await asyncio.gather(
            *(library.start(["sh", "-c", f"sleep .2; exit {code}"]) for code in range(5))
        )
        infos = await asyncio.gather(*(run.wait(30) for run in started))
        again = await library.wait(started, timeout=30)
        assert [info.id for info in again] == [run.id for run in started]
        return [info.exit_code for info in infos]

    assert asyncio.run(play()) == [0, 1, 2, 3, 4]


@stops_what_is_left
def test_a_live_name_is_refused_and_any_of_two_is_enough(tmp_path):
    async def play() -> None:
        library = AsyncRuns(tmp_path)
        run = await library.start(["sleep", "600"], name="x")
        with pytest.raises(AlreadyRunning):
            await library.start(["sleep", "600"], name="x")
        quick = await library.start(["true"], name="quick")
        slow, done = await library.wait([run, "quick"], any=True, timeout=30)
        assert (slow.state, done.state) == (State.RUNNING, State.ENDED)
        assert quick.id == done.id
        assert (await run.wait(timeout=0.05)).state is State.RUNNING
        cleanup = await run.stop(grace=5)
        assert cleanup.complete is True

    asyncio.run(play())


@stops_what_is_left
def test_output_comes_as_it_is_written_while_the_loop_goes_on(tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)

    async def play() -> list[bytes]:
        run = await AsyncRuns(tmp_path).start(["sh", "-c", f"echo one; cat {gate}; printf two"])
        lines = run.lines()
        seen = [await anext(lines)]
        ticks = 0
        rest = asyncio.ensure_future(anext(lines))
        while not rest.done() and ticks < 5:
            await asyncio.sleep(0.01)
            ticks += 1
        assert not rest.done()
        gate.write_text("go\n")
        seen.append(await rest)
        seen += [line async for line in lines]
        data = [chunk.data async for chunk in run.follow()]
        assert b"".join(data) == b"one\ngo\ntwo"
        return seen

    assert asyncio.run(play()) == [b"one", b"go", b"two"]


@stops_what_is_left
def test_events_are_followed(tmp_path):
    async def play() -> None:
        library = AsyncRuns(tmp_path)
        events = library.events()
        first = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        run = await library.start(["true"], name="x")
        seen = [await first]
        async for event in events:
            seen.append(event)
            if event.kind == "ended":
                break
        await events.aclose()
        assert {event.run for event in seen} == {run.id}
        history = [event async for event in library.events(follow=False)]
        assert [event.seq for event in history] == [event.seq for event in seen]

    asyncio.run(play())


@stops_what_is_left
def test_send_and_errors(tmp_path):
    async def play() -> bytes:
        run = await AsyncRuns(tmp_path).start(["head", "-n", "1"], stdin="pipe")
        await run.send(b"typed\n")
        await run.wait(30)
        return await run.output()

    assert asyncio.run(play()) == b"typed\n"


def test_cancelling_a_wait_a_follow_or_a_stop_leaves_the_run_alone(runs, tmp_path):
    async def play() -> str:
        run = await AsyncRuns(tmp_path).start(
            ["sh", "-c", "trap '' TERM; while :; do sleep .1; done"], name="x"
        )
        for waiting in (run.wait(), _last(run.follow())):
            before = _descriptors()
            task = asyncio.ensure_future(waiting)
            while _descriptors() == before:  # until it is under way
                await asyncio.sleep(0.01)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        assert (await run.info()).state is State.RUNNING
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(run.wait(), 0.1)
        assert (await run.info()).state is State.RUNNING
        return run.id

    before = _descriptors()
    run_id = asyncio.run(play())
    assert _descriptors() == before
    assert runs.get(run_id).info().state is State.RUNNING
    runs.get(run_id).stop(grace=0.2)


async def _last(chunks):
    async for _chunk in chunks:
        pass


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_cancelled_start_leaves_no_child_and_no_half_run(runs, tmp_path):
    """Wherever it is cut: the name leads to a supervised run, or it is free."""

    async def play(turns: int) -> None:
        library = AsyncRuns(tmp_path)
        starting = asyncio.ensure_future(library.start(["sleep", "600"], name=f"x{turns}"))
        for _ in range(turns):
            await asyncio.sleep(0.004)
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting

    for turns in range(0, 30, 5):
        asyncio.run(play(turns))
        with pytest.raises(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)

    def settled() -> bool:
        states = {info.state for info in runs.list(active=True)}
        return states <= {State.RUNNING, State.ENDED}

    eventually(settled, why="each start became a run, or nothing")
    for turns in range(0, 30, 5):
        with contextlib.suppress(AlreadyRunning):
            runs.start(["true"], name=f"x{turns}").wait(20)


@stops_what_is_left
def test_no_thread_no_handler_no_descriptor(tmp_path):
    handlers = [signal.getsignal(number) for number in sorted(signal.valid_signals())]
    threads = threading.active_count()
    before = _descriptors()

    async def play() -> None:
        library = AsyncRuns(tmp_path)
        run = await library.start(["true"])
        await run.wait(30)
        await library.list()
        assert threading.active_count() == threads
        assert signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL

    asyncio.run(play())
    assert [signal.getsignal(number) for number in sorted(signal.valid_signals())] == handlers
    assert _descriptors() == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_steps_get_what_is_ready_or_nothing_when_the_time_is_over():
    read_end, write_end = os.pipe()

    def steps():
        first = yield Wait((read_end,), 0.01)
        os.write(write_end, b"x")
        second = yield Wait((read_end,))
        third = yield Wait((), 0.0)
        return first, second, third

    assert asyncio.run(run_steps_async(steps())) == (set(), {read_end}, set())
    os.close(read_end)
    os.close(write_end)


def test_an_error_of_the_steps_is_the_callers():
    closed = []

    def steps():
        try:
            yield Wait((), 0.0)
            raise ValueError("boom")
        finally:
            closed.append(True)

    with pytest.raises(ValueError, match="boom"):
        asyncio.run(run_steps_async(steps()))
    assert closed == [True]
