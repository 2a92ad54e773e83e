"""Work that a disk may hold up, kept apart from an event loop: in threads that nobody waits for.

A disk that hangs holds such a thread, never the loop, and not the end of the program either.
"""

from __future__ import annotations

import asyncio
import threading

from holdfast.errors import Unavailable
from holdfast.manage.aio import until
from holdfast.manage.operations import Wait

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
    from typing import Any, TypeVar

    Result = TypeVar("Result")

PATIENCE_SECONDS = 45.0
_MOST_AT_ONCE = 32  # that read; more wait for one of them
_MOST_LONG = 128  # that may take minutes, and wait for runs most of the time


class DiskThreads:
    """Threads for one event loop, which may be one that is made later."""

    def __init__(self, patience: float = PATIENCE_SECONDS) -> None:
        self._patience = patience
        self._room = asyncio.Semaphore(_MOST_AT_ONCE)
        self._long = 0

    async def do(self, work: Callable[..., Result], *given: Any) -> Result:
        """A function that reads; Unavailable when it is not done in time."""
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(self._patience):
                await self._room.acquire()
        except TimeoutError:
            raise self._held_up() from None
        done.add_done_callback(lambda _: self._room.release())
        answered = _begin(work, given, done)
        await asyncio.wait({answered}, timeout=self._patience)
        if not answered.done():
            raise self._held_up()
        return answered.result()

    async def run(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """A coroutine, in a loop of its own. To cancel it here is to cancel it there."""
        if self._long >= _MOST_LONG:
            raise Unavailable("too much is under way", hint="try again when some of it is done")
        there = _LoopOfItsOwn(work)
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._long += 1
        done.add_done_callback(self._end_long)
        answered = _begin(there.run, (), done)
        try:
            await asyncio.wait({answered})
        except asyncio.CancelledError:
            there.cancel()
            raise
        return answered.result()

    def _end_long(self, _: object) -> None:
        self._long -= 1

    async def each(
        self, steps: Generator[Wait | Result, set[int], None]
    ) -> AsyncGenerator[Result, None]:
        """What an operation yields beside its waits. It is closed by the last thread in it."""
        one_step = _OneStepAtATime(steps)
        try:
            found = await self.do(one_step.go, None)
            while not one_step.is_over:
                if isinstance(found, Wait):
                    found = await self.do(one_step.go, await until(found))
                else:
                    yield found
                    found = await self.do(one_step.go, set())
        finally:
            one_step.close()

    def _held_up(self) -> Unavailable:
        return Unavailable(
            f"the disk has not answered for {self._patience:.0f} s", hint="try again later"
        )


class _OneStepAtATime:
    """A generator that threads take in turns."""

    def __init__(self, steps: Generator[Any, Any, None]) -> None:
        self._steps = steps
        self._lock = threading.Lock()
        self.is_over = False

    def go(self, ready: set[int] | None) -> Any:
        """Up to its next word."""
        with self._lock:
            try:
                return next(self._steps) if ready is None else self._steps.send(ready)
            except StopIteration:
                self.is_over = True
                return None

    def close(self) -> None:
        """Now, or as soon as nobody is in it."""
        if self._lock.acquire(blocking=False):
            try:
                self._steps.close()
            finally:
                self._lock.release()
        else:
            start_thread(self._close_later)

    def _close_later(self) -> None:
        with self._lock:
            self._steps.close()


class _LoopOfItsOwn:
    """Runs a coroutine in the thread that calls `run`."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._is_cancelled = False
        self._task: asyncio.Task[Any] | None = None

    def run(self) -> Any:
        return asyncio.run(self._main())

    async def _main(self) -> Any:
        with self._lock:
            self._task = asyncio.current_task()
            if self._is_cancelled:
                raise asyncio.CancelledError
        try:
            return await self._work()
        finally:
            with self._lock:
                self._task = None

    def cancel(self) -> None:
        """From another thread."""
        with self._lock:
            self._is_cancelled = True
            if self._task is not None:
                self._task.get_loop().call_soon_threadsafe(self._task.cancel)


def start_thread(work: Callable[[], None]) -> None:
    """It ends with the program, if not before."""
    threading.Thread(target=work, daemon=True).start()


def _begin(
    work: Callable[..., Result], given: tuple[Any, ...], done: asyncio.Future[Result]
) -> asyncio.Future[Result]:
    """Do the work in a new thread; `done` is settled in its loop's thread, awaited or not."""
    loop = done.get_loop()

    def settle(result: Any, error: BaseException | None) -> None:
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)
            done.exception()  # marks it as retrieved: asyncio logs nothing if nobody awaits it

    def attempt() -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = work(*given)
        except asyncio.CancelledError:
            error = Unavailable("it was given up")
        except BaseException as raised:  # noqa: BLE001 - it is raised where it is awaited
            error = raised
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            pass  # the loop has ended

    try:
        start_thread(attempt)
    except RuntimeError:  # no thread is left
        done.set_exception(Unavailable("no more threads can be started", hint="try again later"))
    return done
