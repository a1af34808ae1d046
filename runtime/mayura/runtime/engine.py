"""The engine: submit runs, drive them in this process, read them, and command them.

    async with (
        open_store("sqlite:///shop.db") as store,
        Engine(store, workflows=[checkout], policy=policy) as engine,
    ):
        run = await engine.submit(checkout, order, key=order.order_id)
        seen = await engine.run_until_settled(run.id)

The store is opened and closed by the application, on the event loop that drives; the engine never
closes it. An engine is entered once. Before that, and after it was left, it reads and does nothing
else; drained, it also takes commands. Whatever would need more raises INVALID_CONFIG.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Generic, TypeVar, cast

import anyio

from mayura.runtime import options
from mayura.runtime.core import values
from mayura.runtime.core.deadlines import ABANDONED_MARGIN_MS
from mayura.runtime.core.policy import Policy
from mayura.runtime.core.tool_options import milliseconds
from mayura.runtime.core.tracing import Workflow
from mayura.runtime.drivers import Drivers
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import RunId, check_run_id, check_text
from mayura.runtime.in_flight import THIS_PROCESS, InFlight
from mayura.runtime.inspection import Inspection
from mayura.runtime.loaded import AnyWorkflow
from mayura.runtime.people import PERSON_CHARS_MAX, VerifyHuman
from mayura.runtime.ports import DueRun, Store
from mayura.runtime.process import Life, Process
from mayura.runtime.reconcile import Reconciliation
from mayura.runtime.registry import Registry
from mayura.runtime.slots import CALLS_MAX, SLOTS_MAX, THREADS_MAX, Slots
from mayura.runtime.snapshot import Snapshot
from mayura.runtime.submit import (
    KEY_CHARS_MAX,
    Submission,
    new_run,
    refuse_no_requester,
    same_submission,
)

_log = logging.getLogger("mayura.runtime")

InputT = TypeVar("InputT")
OutputT = TypeVar("OutputT")

SWEEP_RUNS_MAX: Final = 10_000
LOOK_AGAIN_S_MIN: Final = 0.02
LOOK_AGAIN_S_MAX: Final = 1.0
CANCEL_POLL_S: Final = 1.0
KEPT_INPUT_BYTES_MAX: Final = 16 * 1024
"""A larger input is read again when its run is driven."""
LEAVE_S_MAX: Final = 10.0
"""How long an engine that is left waits for the store once no body runs any more."""
LEAVE_LOOK_S: Final = 0.05
CALLS_NAMED_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class Submitted(Generic[OutputT]):
    """A run that was accepted, durably. `created` is false when the key already had it."""

    id: RunId
    created: bool


@dataclass(frozen=True, slots=True)
class Swept:
    """What one pass over the due runs came to: one failing run never stops the others."""

    advanced: tuple[RunId, ...]
    not_loaded: tuple[RunId, ...]  #: definition or policy is not accepted here
    failed: tuple[tuple[RunId, Code], ...]


@dataclass(frozen=True, slots=True)
class Drained:
    """What is still in hand after a drain: calls, and bodies that outlived theirs.

    They go on, and what they prove is stored as long as the engine is not left. The step of a body
    that outlived its call is settled.
    """

    calls_left: int
    bodies_left: int = 0

    @property
    def clean(self) -> bool:
        return self.calls_left == 0


class Engine(Reconciliation, Inspection):
    """One process's way to the runs of one scope of one store.

    `calls_max` calls at once, of them `threads_max` plain functions; `margin` in seconds is how
    long after a call's timeout its process may take to store what happened (G9).

    Raises DefinitionError (INVALID_CONFIG or LIMIT_EXCEEDED), naming the option that does not hold.
    """

    def __init__(
        self,
        store: Store,
        *,
        workflows: Sequence[AnyWorkflow],
        policy: Policy,
        previous_policies: Sequence[Policy] = (),
        verify_human: VerifyHuman | None = None,
        calls_max: int = CALLS_MAX,
        threads_max: int = THREADS_MAX,
        margin: float = ABANDONED_MARGIN_MS / 1_000,
        in_flight: InFlight = THIS_PROCESS,
    ) -> None:
        options.refuse_store(store)
        options.refuse_workflows(workflows)
        options.refuse_policies(policy, previous_policies)
        options.refuse_verifier(verify_human)
        options.refuse_count("engine calls_max", calls_max, SLOTS_MAX)
        options.refuse_count("engine threads_max", threads_max, SLOTS_MAX)
        margin_ms = milliseconds("engine margin", margin)
        process = Process(store, Slots(calls_max, threads_max), in_flight, margin_ms)
        registry = Registry(workflows, policy, previous_policies)
        self._watch: asyncio.Task[None] | None = None
        self._swept: tuple[int, RunId] | None = None  #: the last run of the last sweep
        Inspection.__init__(self, store, registry)
        Reconciliation.__init__(self, process, Drivers(process, registry), verify_human)

    async def __aenter__(self) -> Engine:
        """Store the definitions and policies. INVALID_CONFIG where it was entered before."""
        self._process.require(Life.NEW)
        await self._registry.store_all(self._store)
        self._process.require(Life.NEW)  # still: two may have entered at once
        self._process.life = Life.OPEN
        self._watch = asyncio.get_running_loop().create_task(self._watch_cancelled())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Start nothing more; let calls in hand end and store their receipts; give up the rest.

        Bodies have as long as the longest timeout, and the store ten seconds once none runs. Calls
        that are left then are named in the log, are settled at their deadline by whoever looks,
        and raise STORAGE_UNAVAILABLE here unless another error is on its way. Cancelled meanwhile
        (a second Ctrl-C), it gives up at once.
        """
        if self._process.life in (Life.NEW, Life.LEFT):
            return
        with anyio.CancelScope(shield=True):
            try:
                self._stop_starting()
                if error is not None and (calls := self._left().calls_left):
                    text = "leaving the engine: %d calls in hand have up to %.0f s to end"
                    _log.warning(text, calls, self._registry.timeout_s_max + LEAVE_S_MAX)
                await self._until_left()
            finally:
                left = await self._give_up()
            if not left.clean and error is None:
                text = (
                    f"{left.calls_left} calls were left behind; they are settled at their deadline"
                )
                raise MayuraError(Code.STORAGE_UNAVAILABLE, text)

    # --- submitting and driving -------------------------------------------------------------

    async def submit(
        self,
        workflow: Workflow[InputT, OutputT],
        input: InputT,  # noqa: A002  # the model's own word
        *,
        key: str,
        requested_by: str | None = None,
    ) -> Submitted[OutputT]:
        """Store a run of `workflow`. The same key and content again is the same run.

        `requested_by` is the id of the person who asked; a policy with separation of duties needs
        it where calls are approved.

        INVALID_INPUT: the input does not fit. LIMIT_EXCEEDED: it is too large. CONFLICT
        (`SubmitConflict`): the key holds another submission; it names that run.
        """
        self._process.require(Life.OPEN)
        self._registry.refuse_unknown(workflow)
        check_text("a key", key, KEY_CHARS_MAX)
        if requested_by is not None:
            check_text("requested_by", requested_by, PERSON_CHARS_MAX)
        policy = self._registry.policy
        refuse_no_requester(workflow.definition, policy, requested_by)
        given = workflow.input_json(input)
        stored = values.encode(given)
        if len(stored) > policy.output_bytes_max:
            raise MayuraError(
                Code.LIMIT_EXCEEDED, f"the input is over {policy.output_bytes_max} bytes"
            )
        asked = Submission(workflow.definition, policy, stored, key, requested_by)
        new = new_run(self._store.scope, asked, self._store.estimate())
        found = await self._store.create(new)
        if not found.created:
            same_submission(asked, found)
        elif len(stored) <= KEPT_INPUT_BYTES_MAX:
            self._drivers.created(found.run, given)
        return Submitted(found.run.run_id, found.created)

    async def run_until_settled(self, run_id: RunId) -> Snapshot:
        """Advance the run here until nothing is left to do now, and say where it stands.

        That is its end, a wait that `why` names, or a call that another process has in hand.
        CONFLICT: its definition or policy is not accepted here; what needs neither was done.
        """
        self._process.require(Life.OPEN)
        async with self._drivers.hold(run_id) as driver:
            await driver.until_rest()
            if driver.pinned.workflow is None and driver.writer.run.open:
                raise self._registry.refusal(driver.writer.run, driver.pinned)
            run = driver.writer.run
            if not run.open:  # its end, as it was written or read here: no need to read it
                return await self._seen(run, driver.pinned, driver.payloads)
        return await self.inspect(run_id)

    async def run_once(self, *, limit: int = 100) -> Swept:
        """Drive up to `limit` runs that are due now, each until nothing is left to do.

        Where more are due, the next call goes on behind them: those that cannot go on here do not
        keep the others from it. It returns when the last of its calls has ended; another
        `run_once` beside it drives what has become due meanwhile. `limit` is 1 to 10,000.
        """
        self._process.require(Life.OPEN)
        options.refuse_count("run_once limit", limit, SWEEP_RUNS_MAX)
        advanced: list[RunId] = []
        not_loaded: list[RunId] = []
        failed: list[tuple[RunId, Code]] = []

        async def drive(run: DueRun) -> None:
            accepted = self._registry.accepts(run.definition, run.policy)
            try:
                async with self._drivers.hold(run.run_id) as driver:
                    await driver.until_rest()
            except MayuraError as error:
                failed.append((run.run_id, error.code))
            except Exception:  # noqa: BLE001 - one run's trouble is not the others' (case B2)
                _log.exception("run %s could not be driven", run.run_id)
                failed.append((run.run_id, Code.INTEGRITY_VIOLATION))
            else:
                (advanced if accepted else not_loaded).append(run.run_id)

        due = await self._due(limit)  # outside: what it raises is no ExceptionGroup
        async with anyio.create_task_group() as group:
            for run in due:
                group.start_soon(drive, run)
        return Swept(tuple(advanced), tuple(not_loaded), tuple(failed))

    async def _due(self, limit: int) -> list[DueRun]:
        """What is due behind the last sweep, and then what is due before its end."""
        due = list(await self._store.due(limit, after=self._swept))
        if len(due) < limit and self._swept is not None:
            behind = {run.run_id for run in due}
            first = await self._store.due(limit - len(due))
            due.extend(run for run in first if run.run_id not in behind)
        self._swept = (due[-1].wake_at_us, due[-1].run_id) if len(due) == limit else None
        return due

    async def result(self, run_id: RunId, *, timeout: float | None = None) -> Snapshot:  # noqa: ASYNC109
        """Wait until the run has settled, whoever drives it. TIMEOUT after `timeout` seconds.

        It looks at least once: a run that has settled is returned however short the time.
        """
        check_run_id(run_id)
        _refuse_timeout("result timeout", timeout)
        moved = self._drivers.moved(run_id)
        pause_s = LOOK_AGAIN_S_MIN
        try:
            moved.clear()
            seen = await self.inspect(run_id)
            with anyio.fail_after(timeout):
                while not seen.settled:
                    with anyio.move_on_after(pause_s):
                        await moved.wait()
                    pause_s = min(LOOK_AGAIN_S_MAX, pause_s * 2)
                    moved.clear()
                    seen = await self.inspect(run_id)
            return seen
        except TimeoutError:
            text = f"run {run_id} has not settled within {timeout} seconds; it goes on: wait again"
            raise MayuraError(Code.TIMEOUT, text) from None
        finally:
            self._drivers.unwatch(run_id)

    async def drain(self, timeout: float | None = None) -> Drained:  # noqa: ASYNC109
        """Start nothing more; wait up to `timeout` seconds, and say what is still in hand.

        None: as long as it takes. Nothing is given up: calls go on, and their receipts and
        completions are stored, for as long as the engine is not left; so a drain may be repeated.
        Readings and commands work; submitting and driving raise INVALID_CONFIG from now on.
        """
        _refuse_timeout("drain timeout", timeout)
        if self._process.life is Life.LEFT:
            return Drained(0)
        self._process.require(Life.OPEN, Life.DRAINED)
        self._stop_starting()
        with anyio.move_on_after(timeout):
            await self._drivers.until_idle()
        left = self._left()
        if left != Drained(0):
            text = "a drain found %d calls in hand, and %d bodies that had outlived theirs: %s"
            _log.warning(text, left.calls_left, left.bodies_left, self._names_left())
        return left

    def _stop_starting(self) -> None:
        self._process.life = Life.DRAINED
        for driver in self._drivers.in_hand():
            driver.stop_driving()

    def _left(self) -> Drained:
        calls = [driver.calls for driver in self._drivers.in_hand()]
        return Drained(sum(map(len, calls)), sum(len(each.late) for each in calls))

    def _names_left(self) -> str:
        names = [str(name) for driver in self._drivers.in_hand() for name in driver.calls.ids()]
        return ", ".join(names[:CALLS_NAMED_MAX]) + (", ..." if names[CALLS_NAMED_MAX:] else "")

    async def _until_left(self) -> None:
        """Wait for what is in hand, within the times that leaving the engine states."""
        now = asyncio.get_running_loop().time
        bodies_until = now() + self._registry.timeout_s_max
        give_up_at = now() + LEAVE_S_MAX
        while not self._drivers.idle and now() < give_up_at:
            if any(driver.calls.body_runs for driver in self._drivers.in_hand()):
                give_up_at = min(now(), bodies_until) + LEAVE_S_MAX
            # No cancel scope: a second Ctrl-C raises anywhere; one half-entered would hide it.
            idle = asyncio.create_task(self._drivers.until_idle())
            try:
                await asyncio.wait({idle}, timeout=min(LEAVE_LOOK_S, give_up_at - now()))
            finally:
                idle.cancel()

    async def _give_up(self) -> Drained:
        """End everything that goes on here; what it left behind."""
        self._process.life = Life.LEFT
        left = self._left()
        names = self._names_left()
        while working := self._working():
            await asyncio.sleep(0)  # work that is cancelled before it began would tell nobody
            for work in working:
                work.cancel()
            await asyncio.wait(working)
        if names:
            text = "the engine was left with %d calls unfinished, and %d bodies that had outlived"
            text += " theirs; what they do now is not stored: %s"
            _log.error(text, left.calls_left, left.bodies_left, names)
        return left

    def _working(self) -> set[asyncio.Task[None]]:
        pumps = (driver.writer.pump for driver in self._drivers.in_hand())
        every = (self._watch, *self._process.background, *pumps)
        return {work for work in every if work is not None and not work.done()}

    async def _watch_cancelled(self) -> None:
        """Calls in hand learn within a second that another process cancelled their run."""
        while True:
            await asyncio.sleep(CANCEL_POLL_S)
            try:
                await self._tell_cancelled()
            except Exception as error:  # noqa: BLE001 - nobody would miss a watch that ended
                _log.warning("cancelled runs could not be read", exc_info=error)

    async def _tell_cancelled(self) -> None:
        busy = {d.writer.run_id: d for d in self._drivers.in_hand() if d.calls}
        for run_id in await self._store.cancelled(list(busy)) if busy else ():
            busy[run_id].calls.tell_cancelled()


def _refuse_timeout(where: str, timeout: object) -> None:
    if timeout is None or (type(timeout) in (int, float) and cast(float, timeout) >= 0):
        return
    raise MayuraError(Code.INVALID_INPUT, f"{where} is a number of seconds from 0, or None")
