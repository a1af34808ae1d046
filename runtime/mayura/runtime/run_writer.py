"""The one writer of one run in this process.

Whatever wants to change the run says how (a *plan*: state in, transitions out) and waits. The
writer folds the plans that are there into one compare-and-set, so that at most one write of a run
is in flight (G7) and sixty-four siblings that end together cost one commit. A lost race reads the
run again and asks every plan again; an answer that never came is asked for with the same nonce
until the store says what happened, because until then nobody knows what the run is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextvars import copy_context
from time import monotonic
from typing import Generic, Protocol, TypeVar

from mayura.runtime.core.ending import rest
from mayura.runtime.core.state import Instant, Run
from mayura.runtime.draft import Draft, Postponed, committed
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.faultpoints import write_faultpoints
from mayura.runtime.ids import RunId, new_nonce
from mayura.runtime.ports import Refused, RunWrite, Store, Won

_log = logging.getLogger("mayura.runtime")

T = TypeVar("T")
BACKOFF_S_MIN = 0.05
BACKOFF_S_MAX = 5.0


class Follower(Protocol):
    """Whoever drives the run adds what follows from each change, in the same commit."""

    def advance(self, draft: Draft) -> None:
        """Add decisions and admitted dispatches to `draft`. It waits for nothing."""
        ...

    def won(self, draft: Draft, write: RunWrite) -> None:
        """The draft is durable: its dispatches may be called."""
        ...

    def refused(self, draft: Draft, write: RunWrite, refused: Refused) -> None:
        """The draft is not stored; `writer.run` is what is."""
        ...

    def dropped(self, draft: Draft) -> None:
        """The draft cannot be stored, and nothing of it was."""
        ...

    def unreachable(self, error: MayuraError) -> None:
        """The store does not answer; the writer goes on asking."""
        ...

    def reread(self) -> None:
        """`writer.run` was read from the store: forget what was thought about it."""
        ...

    def written(self) -> None:
        """Nothing is waiting to be written any more."""
        ...

    def broken(self, error: BaseException) -> None:
        """The writer stopped; nothing of this run moves here any more."""
        ...


class _Intent(Generic[T]):
    """A plan and whoever waits for it. A caller that is cancelled leaves its plan behind."""

    __slots__ = ("answer", "answered", "fresh", "patient", "plan")

    def __init__(self, plan: Callable[[Draft], T], *, patient: bool, fresh: bool) -> None:
        self.plan = plan
        self.patient = patient
        self.fresh = fresh
        self.answered = False
        self.answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def done(self, result: T) -> None:
        self.answered = True
        if not self.answer.done():
            self.answer.set_result(result)

    def fail(self, error: BaseException) -> None:
        self.answered = True
        if not self.answer.done():
            self.answer.set_exception(error)


class RunWriter:
    """Serialises the writes of one run; see the module's text."""

    def __init__(self, store: Store, run: Run) -> None:
        self.run = run
        self.follower: Follower | None = None
        self.context = copy_context()  #: of whoever first asked for this run
        self._store = store
        self._intents: list[_Intent[object]] = []
        self._poked = False
        self._stale = False  #: read the run again before the next transition
        self._now: Instant | None = None  #: the store's time of a reading just made
        self._commander: _Intent[object] | None = None  #: whose command the draft carries
        self._pump: asyncio.Task[None] | None = None

    @property
    def run_id(self) -> RunId:
        return self.run.run_id

    @property
    def idle(self) -> bool:
        """Whether nothing is waiting to be written."""
        return self._pump is None

    async def change(
        self, plan: Callable[[Draft], T], *, patient: bool = False, fresh: bool = False
    ) -> T:
        """Apply `plan` to the run, durably, and return what it returned.

        `plan` may be asked several times, each time on a newer run; it changes the draft or
        raises MayuraError, which reaches the caller. An impatient caller gets STORAGE_UNAVAILABLE
        when the store does not answer, and does not know; a patient one (evidence, G4) waits for
        as long as the process lives. `fresh`: plan on the run as the store has it now, at the
        store's time (commands), not as this process last saw it. Cancelling the caller does not
        take the change back.
        """
        intent = _Intent(plan, patient=patient, fresh=fresh)
        self._intents.append(intent)  # type: ignore[arg-type]  # results are opaque to the pump
        self._start()
        return await intent.answer

    def poke(self, *, fresh: bool = False) -> None:
        """Let the follower look again: a slot, a payload or a guard's answer is there."""
        self._poked = True
        self._stale = self._stale or fresh
        self._start()

    @property
    def pump(self) -> asyncio.Task[None] | None:
        """What writes now. Cancelled, it stops asking: what was not written stays unwritten."""
        return self._pump

    def _start(self) -> None:
        if self._pump is None:
            loop = asyncio.get_running_loop()
            self._pump = loop.create_task(self._run(), context=self.context)

    async def _run(self) -> None:
        intents: list[_Intent[object]] = []
        try:
            while self._intents or self._poked:
                self._poked = False
                intents, self._intents = self._intents, []
                await self._transition(intents)
        except BaseException as error:
            # Whoever waits must hear that the writer stopped, or they wait for ever.
            self._pump = None
            for intent in (*intents, *self._intents):
                intent.fail(error if isinstance(error, Exception) else stopped())
            self._intents = []
            if self.follower is not None:
                self.follower.broken(error)
            if not isinstance(error, Exception):
                raise
            _log.error("the writer of run %s stopped", self.run_id, exc_info=error)
            return
        self._pump = None
        if self.follower is not None:
            self.follower.written()

    async def _transition(self, intents: list[_Intent[object]], *, alone: bool = False) -> None:
        """Write one transition; on a refusal, ask everybody again.

        `alone`: the plans only, and whoever sweeps looks at once at what follows (G13).
        """
        follower = None if alone else self.follower
        while True:
            if self._stale or any(i.fresh for i in intents):
                await self._reload(intents)
            draft, results = self._plan(intents)
            try:
                if follower is not None:
                    follower.advance(draft)
                elif alone and draft.changed and draft.run.open:  # nobody says what follows
                    draft.apply(rest(draft.run, draft.now, due_now=True))
                if not draft.changed:
                    break
                write = draft.build(new_nonce())
                answer = await self._until_answered(draft, write, intents)
            except Exception as offence:  # noqa: BLE001 - whoever is at fault, it is not the evidence
                if self.follower is not None:
                    self.follower.dropped(draft)
                await self._apart(intents, offence, alone=alone)
                return
            if isinstance(answer, Won):
                self.run = committed(write.after, write.dispatches, answer.at)
                if self.follower is not None:
                    self.follower.won(draft, write)
                break
            await self._lose(draft, write, answer, intents)
        for intent, result in results:
            intent.done(result)

    async def _lose(
        self, draft: Draft, write: RunWrite, answer: Refused, intents: list[_Intent[object]]
    ) -> None:
        """Certainly not committed: find out what the run is now before anybody is asked again."""
        if answer.reason in ("lost", "fenced"):
            await self._reload(intents)
        elif answer.reason == "command" and self._commander is not None:
            text = "another process is carrying out this command; read"
            self._commander.fail(MayuraError(Code.CONFLICT, text))
        if self.follower is not None:
            self.follower.refused(draft, write, answer)

    async def _apart(
        self, intents: list[_Intent[object]], offence: Exception, *, alone: bool
    ) -> None:
        """A transition cannot be stored for what it holds: find the part whose fault it is.

        First without what the follower added, then plan by plan, so that evidence never falls
        with somebody else's mistake.
        """
        if not intents:
            raise offence
        if not alone:
            await self._transition(intents, alone=True)
            self._poked = self._poked or self.follower is not None
        elif len(intents) == 1:
            intents[0].fail(offence)
        else:
            for intent in intents:
                await self._transition([intent], alone=True)

    def _plan(
        self, intents: list[_Intent[object]]
    ) -> tuple[Draft, list[tuple[_Intent[object], object]]]:
        draft = Draft(self.run, self._now or self._store.estimate(), monotonic())
        self._now = self._commander = None
        results: list[tuple[_Intent[object], object]] = []
        for intent in tuple(intents):
            if intent.answered:
                continue
            mark = draft.mark()
            commanded = draft.command
            try:
                results.append((intent, intent.plan(draft)))
                if draft.command is not commanded:
                    self._commander = intent
            except Postponed:
                draft = draft.back_to(mark)
                intents.remove(intent)
                self._intents.append(intent)
            except Exception as refusal:  # noqa: BLE001 - one caller's mistake is nobody else's
                draft = draft.back_to(mark)
                intent.fail(refusal)
        return draft, results

    async def _until_answered(
        self, draft: Draft, write: RunWrite, intents: list[_Intent[object]]
    ) -> Won | Refused:
        """Ask with the same nonce until the store says what happened."""
        await write_faultpoints("before_commit", draft.events)
        backoff_s = BACKOFF_S_MIN
        while True:
            try:
                answer = await self._store.write(write)
            except Exception as error:  # noqa: BLE001 - only a certain no ends the asking
                backoff_s = await self._again(error, intents, backoff_s)
                continue
            if isinstance(answer, Won):
                await write_faultpoints("committed", draft.events)
            return answer

    async def _reload(self, intents: list[_Intent[object]]) -> None:
        backoff_s = BACKOFF_S_MIN
        while True:
            self._stale = False  # whoever asks from here on wants a later reading than this one
            try:
                loaded = await self._store.load(self.run_id)
            except Exception as error:  # noqa: BLE001 - only a certain no ends the asking
                self._stale = True
                backoff_s = await self._again(error, intents, backoff_s)
                continue
            if loaded is None:
                raise MayuraError(Code.NOT_FOUND, f"run {self.run_id} is not in this store")
            self.run, self._now = loaded.run, loaded.now
            for intent in intents:
                intent.fresh = False
            if self.follower is not None:
                self.follower.reread()
            return

    async def _again(
        self, error: Exception, intents: list[_Intent[object]], backoff_s: float
    ) -> float:
        """Wait before asking a store that did not answer again; a certain no is raised."""
        if not isinstance(error, MayuraError):
            _log.error("the store failed on run %s", self.run_id, exc_info=error)
            error = MayuraError(Code.STORAGE_UNAVAILABLE, "the store failed; its log says how")
        elif error.code is not Code.STORAGE_UNAVAILABLE:
            raise error
        for intent in (*intents, *self._intents):
            if not intent.patient:
                intent.fail(error)
        if self.follower is not None:
            self.follower.unreachable(error)
        await asyncio.sleep(backoff_s)
        return min(BACKOFF_S_MAX, backoff_s * 2)


def stopped() -> MayuraError:
    """What whoever waits for a write is told when the engine ends first."""
    return MayuraError(Code.STORAGE_UNAVAILABLE, "the engine was stopped before this was written")
