"""An asyncio loop with virtual time that runs one ready callback after another, chosen by a seed.

Nothing happens in parallel and nothing waits: when nobody is ready, time jumps to the next timer.
There are no sockets and no threads. Every callback belongs to an *owner*, the simulated process in
whose context it was scheduled. Before a callback of an owner runs, the owner is asked whether it
still lives: what belongs to a dead owner never runs again, not even a `finally`, and what belongs
to a frozen one lies aside until it thaws. So a process can die or stop wherever it awaits.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import warnings
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any, Final, Literal, Protocol, TypeVar, TypeVarTuple, Unpack

from anyio._backends._asyncio import _task_states

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Fate = Literal["runs", "frozen", "dead"]

STEPS_MAX: Final = 400_000


class Owner(Protocol):
    """Whoever a callback belongs to."""

    number: int

    def fate(self) -> Fate:
        """Asked right before one of its callbacks would run: the moment to die or to freeze."""
        ...

    def lay_aside(self, handle: asyncio.Handle) -> None:
        """Keep a callback until it thaws."""
        ...


OWNER: ContextVar[Owner | None] = ContextVar("owner", default=None)


class Stuck(Exception):
    """Nobody is ready and no timer is set, or the simulation does not come to its end."""


class SimulatedLoop(asyncio.AbstractEventLoop):
    """See the module's text. `trace` is a digest of every choice that was made."""

    def __init__(self, rng: Random) -> None:
        self.steps = 0
        self.trace = 0
        self.complaints: list[str] = []  #: what a callback raised
        self._random = rng.random
        self._now_s = 0.0
        self._ready: list[asyncio.Handle] = []
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timer_number = 0
        self._tasks: list[asyncio.Task[Any]] = []
        self._made_at: dict[asyncio.Task[Any], float] = {}
        self._closed = False

    # --- what asyncio asks of a loop --------------------------------------------------------

    def time(self) -> float:
        return self._now_s

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self._closed

    def is_closed(self) -> bool:
        return self._closed

    def get_task_factory(self) -> None:
        """None: tasks are made by `create_task`."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
        **_: object,
    ) -> asyncio.Task[T]:
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks.append(task)
        self._made_at[task] = self._now_s
        return task

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, _given(context))
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now_s + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, _given(context))
        self._timer_number += 1
        heapq.heappush(self._timers, (when, self._timer_number, timer))
        return timer

    def _timer_handle_cancelled(self, _: asyncio.TimerHandle) -> None:
        """Told by a timer that is cancelled; it is dropped when its time comes."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not self._closed and error is not None:
            self.complaints.append(f"{context.get('message')}: {error!r}")

    # --- the simulation's own ---------------------------------------------------------------

    def made_at(self) -> float:
        """When the task that is running now was made."""
        task = asyncio.current_task(self)
        assert task is not None, "only tasks ask"
        return self._made_at[task]

    def again(self, handle: asyncio.Handle) -> None:
        """Make a callback ready that was laid aside."""
        self._ready.append(handle)

    def note(self, *facts: int) -> None:
        """Let facts count in the trace."""
        for fact in facts:
            self.trace = (self.trace * 1_000_003 ^ fact) & 0xFFFF_FFFF_FFFF_FFFF

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run until `main` has ended; whatever else there is then never runs again."""
        asyncio.events._set_running_loop(self)
        try:
            task = self.create_task(main)
            while not task.done():
                self._run_one()
            return task.result()
        finally:
            self._closed = True
            self._forget_everything()
            asyncio.events._set_running_loop(None)

    def _run_one(self) -> None:
        self._wake_timers()
        count = len(self._ready)
        choice = int(self._random() * count)
        handle = self._ready[choice]
        self._ready[choice] = self._ready[-1]
        self._ready.pop()
        if handle.cancelled():
            return
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise Stuck("the simulation takes too many steps")
        owner = handle._context.get(OWNER)  # type: ignore[attr-defined]  # a Handle has it
        if owner is not None:
            fate = owner.fate()
            self.note(choice, owner.number, len(fate))
            if fate == "frozen":
                owner.lay_aside(handle)
            if fate != "runs":
                return
        else:
            self.note(choice)
        handle._run()

    def _wake_timers(self) -> None:
        timers = self._timers
        if not self._ready:
            while timers and timers[0][2].cancelled():
                heapq.heappop(timers)
            if not timers:
                raise Stuck("nobody is ready and no timer is set")
            self._now_s = max(self._now_s, timers[0][0])
        while timers and timers[0][0] <= self._now_s:
            timer = heapq.heappop(timers)[2]
            if not timer.cancelled():
                self._ready.append(timer)

    def _forget_everything(self) -> None:
        """Close what is left, so that no destructor speaks up; nobody looks at what it does."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # what never began is not awaited
            while self._tasks:
                self._forget(self._tasks.pop())
        self._ready.clear()
        self._timers.clear()
        self._made_at.clear()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        if task.done():
            if task._log_traceback:  # and nobody has read it
                self.complaints.append(f"a task ended with {task.exception()!r}")
            return
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # a Task has it
        coroutine = task.get_coro()
        assert coroutine is not None, "no task here runs eagerly"
        with contextlib.suppress(BaseException):
            coroutine.close()
        _task_states.pop(task, None)  # it would keep a task that died in a task group for ever


def _given(context: Context | None) -> Context:
    # Not `context or ...`: an empty context is false, and it belongs to nobody.
    return copy_context() if context is None else context
