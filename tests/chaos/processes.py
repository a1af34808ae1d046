"""Driver processes: real ones, forked from a server that has everything loaded already.

Each has a store connection and a loop of its own, writes what it has to say into a log of its own,
and plays one of the roles in `tests.chaos.roles`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from multiprocessing import get_context
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from typing import Concatenate, Final, ParamSpec

import psutil
import uvloop

from mayura.runtime.faultpoints import arm
from tests.chaos.faults import Faults
from tests.chaos.place import Place
from tests.chaos.shop import here

Given = ParamSpec("Given")
ENDS_WITHIN_S: Final = 90.0
LOOK_AGAIN_S: Final = 0.01

_fork_server = get_context("forkserver")
_fork_server.set_forkserver_preload([__name__, "tests.chaos.roles"])


class Driver:
    """One driver process, as the test that started it sees it."""

    def __init__(self, place: Place, number: int, process: ForkServerProcess) -> None:
        self.number = number
        self._place = place
        self._process = process

    @property
    def sentinel(self) -> int:
        """Ready once the process has ended."""
        return self._process.sentinel

    @property
    def killed(self) -> bool:
        """Whether it was ended by SIGKILL."""
        return self._process.exitcode == -signal.SIGKILL

    def until_stopped(self) -> None:
        """Wait until the process has stopped itself."""
        assert self._process.pid is not None
        seen, give_up_at = psutil.Process(self._process.pid), time.monotonic() + ENDS_WITHIN_S
        while seen.status() != psutil.STATUS_STOPPED:
            assert time.monotonic() < give_up_at, self.story("did not stop itself")
            time.sleep(LOOK_AGAIN_S)

    def go_on(self) -> None:
        """Continue a stopped process."""
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def until_ended(self, *, within_s: float = ENDS_WITHIN_S) -> None:
        """Wait for the end, which must be a good one or a planned kill."""
        self._process.join(within_s)
        assert self._process.exitcode is not None, self.story(f"runs on after {within_s} s")
        assert self._process.exitcode in (0, -signal.SIGKILL), self.story("failed")

    def until_killed(self) -> None:
        """Wait for the planned kill."""
        self.until_ended()
        assert self.killed, self.story("passed by the place where it was to be killed")

    def kill(self) -> None:
        """SIGKILL, whether it runs or is stopped."""
        self._process.kill()
        self._process.join()

    def story(self, what: str) -> str:
        """What happened to it, with what it wrote."""
        log = self._place.folder / f"driver-{self.number}.log"
        written = log.read_text(errors="replace")[-4000:] if log.exists() else ""
        return f"driver {self.number} {what} (status {self._process.exitcode})\n{written}"


class Drivers:
    """Starts driver processes at one place, and leaves none of them behind."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._started: list[Driver] = []

    def start(
        self,
        faults: Faults,
        role: Callable[Concatenate[Place, Given], Coroutine[object, object, None]],
        *given: Given.args,
        **named: Given.kwargs,
    ) -> Driver:
        """Start a process in a role; its loop is asyncio's and uvloop's in turn."""
        number = len(self._started)
        process = _fork_server.Process(
            target=_main, args=(self._place, number, faults, role, given, named), daemon=True
        )
        process.start()
        driver = Driver(self._place, number, process)
        self._started.append(driver)
        return driver

    def close(self) -> None:
        """Kill whatever still runs."""
        for driver in self._started:
            with contextlib.suppress(ProcessLookupError):
                driver.kill()


def until_all_ended(drivers: Iterable[Driver], *, within_s: float = ENDS_WITHIN_S) -> None:
    """Wait for every driver; the first bad end fails the test."""
    left, give_up_at = {driver.sentinel: driver for driver in drivers}, time.monotonic() + within_s
    while left:
        ended = wait(list(left), max(0.0, give_up_at - time.monotonic()))
        if not ended:
            raise AssertionError(next(iter(left.values())).story(f"runs on after {within_s} s"))
        for sentinel in ended:
            assert isinstance(sentinel, int)
            left.pop(sentinel).until_ended()


def _main(
    place: Place,
    number: int,
    faults: Faults,
    role: Callable[..., Coroutine[object, object, None]],
    given: tuple[object, ...],
    named: Mapping[str, object],
) -> None:
    log = os.open(place.folder / f"driver-{number}.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    here.be(place, faults)
    arm(faults)
    new_loop = uvloop.new_event_loop if number % 2 else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(role(place, *given, **named))
