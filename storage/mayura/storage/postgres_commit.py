"""How a write reaches the database, and how its answer is found when the answer was lost.

A batch is sent once. Where that says nothing certain, each of its writes goes on alone: the same
write, with the same nonce and the same expected version, is sent again on a new session until the
database answers it, and at most one of the sendings applies. The statement itself tells them
apart: it changes the run, or finds this very nonce in the run's journal, which means that an
earlier sending was committed, or that the version is another write's. A plain read would not do,
since the first sending may still be on its way.

An earlier sending that is found was perhaps committed without the wait for a standby, by a server
that could not tell us. So a barrier follows: a commit of its own, which waits as that one should
have (G2).

A write alone also waits for its run's lock where a batch passes a locked run by. After the
method's time it is given up, and not known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from mayura.runtime.errors import MayuraError
from mayura.runtime.ids import Nonce, RunId
from mayura.runtime.ports import Refused, RunWrite, WriteAnswer
from mayura.storage.group_commit import Outcome
from mayura.storage.payloads import Codec
from mayura.storage.postgres_batch import answers_of, won_before, write_parameters
from mayura.storage.postgres_clock import DatabaseClock
from mayura.storage.postgres_errors import meaning_of, unavailable, violation
from mayura.storage.postgres_limits import PAUSE_S_MAX, PAUSE_S_MIN, Limits
from mayura.storage.postgres_sessions import SQL, Sessions

Answer = TypeVar("Answer")

_CHANGEABLE: Final = frozenset({"once", "not_durable"})
"""Refusals that an earlier sending, should it still arrive, might no longer meet. The others
stay: a version and a fence only grow, and a command is never forgotten."""


class Committer:
    """Carries out the batches that `GroupCommit` forms."""

    def __init__(
        self,
        *,
        batches: Sessions,
        lone: Sessions,
        scope_id: int,
        codec: Codec,
        clock: DatabaseClock,
        limits: Limits,
    ) -> None:
        self._batches = batches
        self._lone = lone
        self._scope_id = scope_id
        self._codec = codec
        self._clock = clock
        self._limits = limits
        self._unsure_at_s: dict[Nonce, float] = {}  #: writes that were given up, and lately unsure

    async def flush(self, writes: Sequence[RunWrite]) -> Sequence[Outcome[WriteAnswer]]:
        """Answer each write now, or later where it has to go on alone."""
        deadline_s = asyncio.get_running_loop().time() + self._limits.method_s
        try:
            answers = await self._send(self._batches, writes)
        except MayuraError:
            raise
        except Exception as error:  # noqa: BLE001 - in doubt, whatever it was
            return [self._alone(write, deadline_s, error) for write in writes]
        return [
            answer
            if answer is not None and not (write.nonce in self._unsure_at_s and _may_change(answer))
            else self._alone(write, deadline_s, None)
            for write, answer in zip(writes, answers, strict=True)
        ]

    def _alone(
        self, write: RunWrite, deadline_s: float, error: Exception | None
    ) -> asyncio.Task[WriteAnswer | MayuraError]:
        return asyncio.create_task(self._until_certain(write, deadline_s, error))

    async def _until_certain(
        self, write: RunWrite, deadline_s: float, error: Exception | None
    ) -> WriteAnswer | MayuraError:
        lone = Lone(write.before.run_id, deadline_s, error)
        lone.unsure_at_s = lone.unsure_at_s or self._unsure_at_s.get(write.nonce)

        async def send() -> WriteAnswer | None:
            (answer,) = await self._send(self._lone, [write])
            if answer is None:
                await self._until_unlocked(write.before.run_id)
            elif _may_change(answer) and self._may_arrive(lone.unsure_at_s):
                return None
            return answer

        answer: WriteAnswer | MayuraError = await lone.until_answered(send)
        self._remember(write.nonce, lone.unsure_at_s if isinstance(answer, MayuraError) else None)
        return answer

    def _may_arrive(self, unsure_at_s: float | None) -> bool:
        """Whether a sending that was left unsure then may still be carried out."""
        now_s = asyncio.get_running_loop().time()
        return unsure_at_s is not None and now_s < unsure_at_s + self._limits.statement_s

    def _remember(self, nonce: Nonce, unsure_at_s: float | None) -> None:
        """For when the same write is sent again: a refusal is as little certain then."""
        kept = self._unsure_at_s.items()
        self._unsure_at_s = {n: at_s for n, at_s in kept if n != nonce and self._may_arrive(at_s)}
        if unsure_at_s is not None:
            self._unsure_at_s[nonce] = unsure_at_s

    async def _until_unlocked(self, run_id: RunId) -> None:
        async with self._lone.one() as session:
            await session.fetch(SQL["wait_for_run"], run_id)

    async def _send(
        self, sessions: Sessions, writes: Sequence[RunWrite]
    ) -> list[WriteAnswer | None]:
        values = write_parameters(self._scope_id, self._codec, writes)
        async with sessions.one() as session:
            asked_at_us = self._clock.local_us()
            rows = await session.fetch(SQL["write_runs_if_version"], *values)
            if won_before(rows):
                await session.fetch(SQL["barrier"])
        answers = answers_of(rows)
        for word, at_us in rows:
            if word == "won":
                self._clock.read(at_us, asked_at_us=asked_at_us)
                break
        return answers


def _may_change(answer: WriteAnswer) -> bool:
    return isinstance(answer, Refused) and answer.reason in _CHANGEABLE


class Lone:
    """One operation on its own: sent again, with pauses, until its answer is certain."""

    def __init__(self, run_id: RunId, deadline_s: float, error: Exception | None) -> None:
        """`error` is what an earlier sending of it met, if there was one."""
        self._run_id = run_id
        self._deadline_s = deadline_s
        self._error = error
        self.unsure_at_s: float | None = None  #: when a sending last left it unsure
        self._met(error)

    async def until_answered(
        self, send: Callable[[], Awaitable[Answer | MayuraError | None]]
    ) -> Answer | MayuraError:
        """What `send` answers in the end; None: not yet.

        INTEGRITY_VIOLATION where it can never be stored; STORAGE_UNAVAILABLE after the deadline.
        """
        loop = asyncio.get_running_loop()
        pause_s = PAUSE_S_MIN
        while (remaining_s := self._deadline_s - loop.time()) > 0:
            try:
                async with asyncio.timeout(remaining_s):
                    answer = await send()
                if answer is not None:
                    return answer
            except MayuraError as error:
                return error
            except Exception as error:  # noqa: BLE001 - in doubt, whatever it was
                if meaning_of(error) == "offence":
                    return violation(self._run_id, error)
                self._met(error)
            await asyncio.sleep(min(pause_s, max(0.0, self._deadline_s - loop.time())))
            pause_s = min(2 * pause_s, PAUSE_S_MAX)
        return unavailable(self._error)

    def _met(self, error: Exception | None) -> None:
        self._error = error or self._error
        if error is not None and meaning_of(error) == "unsure":
            self.unsure_at_s = asyncio.get_running_loop().time()
