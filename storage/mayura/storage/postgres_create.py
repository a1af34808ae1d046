"""Submissions that are ready together, as one statement."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from mayura.runtime.core.state import Run
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import Nonce, RunId
from mayura.runtime.ports import Created, NewRun
from mayura.storage.group_commit import Outcome
from mayura.storage.payloads import Codec
from mayura.storage.postgres_batch import run_values
from mayura.storage.postgres_clock import DatabaseClock, instant_of
from mayura.storage.postgres_commit import Lone
from mayura.storage.postgres_limits import Limits
from mayura.storage.postgres_reads import run_in
from mayura.storage.postgres_sessions import SQL, Session, Sessions
from mayura.storage.rows import Row, as_created


@dataclass(frozen=True, slots=True)
class Submission:
    """A submission under a name of its own, by which a repeated one is known again."""

    new: NewRun
    nonce: Nonce


class Creator:
    """Carries out the batches of submissions."""

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

    async def flush(self, submissions: Sequence[Submission]) -> Sequence[Outcome[Created]]:
        """Answer each now, or later where it has to go on alone."""
        deadline_s = asyncio.get_running_loop().time() + self._limits.method_s
        try:
            return await self._send(self._batches, submissions)
        except MayuraError:
            raise
        except Exception as error:  # noqa: BLE001 - in doubt, whatever it was
            return [
                asyncio.create_task(self._until_certain(submission, deadline_s, error))
                for submission in submissions
            ]

    async def _until_certain(
        self, submission: Submission, deadline_s: float, error: Exception
    ) -> Created | MayuraError:
        async def send() -> Created | MayuraError:
            (answer,) = await self._send(self._lone, [submission])
            return answer

        return await Lone(submission.new.run.run_id, deadline_s, error).until_answered(send)

    async def _send(
        self, sessions: Sessions, submissions: Sequence[Submission]
    ) -> list[Created | MayuraError]:
        values = create_parameters(self._scope_id, self._codec, submissions)
        async with sessions.one() as session:
            asked_at_us = self._clock.local_us()
            rows = await session.fetch(SQL["create_runs_if_new"], *values)
            made = [at_us for (at_us,) in rows]
            if None in made:
                return await self._with_found(session, submissions, made)
        self._clock.read(made[0], asked_at_us=asked_at_us)
        return [_created(each, at_us) for each, at_us in zip(submissions, made, strict=True)]

    async def _with_found(
        self, session: Session, submissions: Sequence[Submission], made: Sequence[int | None]
    ) -> list[Created | MayuraError]:
        keys = [submission.new.run.key for submission in submissions]
        rows = await session.fetch(SQL["read_submissions"], self._scope_id, keys)
        answers: list[Created | MayuraError] = []
        for submission, at_us, (run_id, asked, nonce) in zip(submissions, made, rows, strict=True):
            if at_us is not None:
                answers.append(_created(submission, at_us))
            elif run_id is None:
                answers.append(_nothing_to_follow(submission.new.run))
            else:
                run = await self._found(session, RunId(run_id.hex()))
                answers.append(Created(run, asked, created=nonce == submission.nonce))
        return answers

    async def _found(self, session: Session, run_id: RunId) -> Run:
        rows = await session.fetch(SQL["read_run"], self._scope_id, run_id)
        if not rows:
            raise MayuraError(Code.INTEGRITY_VIOLATION, f"Run {run_id} is half there.")
        return run_in(run_id, rows).run


def create_parameters(
    scope_id: int, codec: Codec, submissions: Sequence[Submission]
) -> list[object]:
    """The parameters of `create_runs_if_new`."""
    rows: list[Row] = []
    for submission in submissions:
        new = submission.new
        run = new.run
        rows.append(
            (
                *(run.run_id, run.key, run.requested_by, new.submission, run.salt),
                *(run.definition, run.policy, submission.nonce.hex(), new.entries),
                *(codec.name, codec.key_id, codec.encode(new.input)),
                *run_values(run),
            )
        )
    return [scope_id, rows]


def _created(submission: Submission, at_us: int) -> Created:
    run = as_created(submission.new, instant_of(at_us))
    return Created(run, submission.new.submission, created=True)


def _nothing_to_follow(run: Run) -> MayuraError:
    return MayuraError(
        Code.NOT_FOUND,
        f"Run {run.run_id}: its definition or its policy is not stored: put both first.",
    )
