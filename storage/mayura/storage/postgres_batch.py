"""A batch of transitions as the parameters of one statement, and its rows as answers.

Rows travel as arrays of composite types: the driver looks at every element of an array before it
encodes it, and at a row only once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import asyncpg

from mayura.runtime.core.state import Run, Step
from mayura.runtime.ids import NodeId
from mayura.runtime.ports import Refused, RunWrite, Won, WriteAnswer
from mayura.storage.payloads import Codec
from mayura.storage.postgres_clock import instant_of
from mayura.storage.rows import RUN_CHANGES, STEP_COLUMNS, Row, run_changes, step_values

NOT_DURABLE: Final = Refused(
    "not_durable",
    "commits of this session would not survive a crash of the server: set synchronous_commit to on"
    " for its role and database (alter role ... reset synchronous_commit), and keep fsync on",
)
_REFUSED: Final[dict[str, Refused]] = {
    "lost": Refused("lost"),
    "fenced": Refused("fenced"),
    "once": Refused("once"),
    "command": Refused("command"),
    "not_durable": NOT_DURABLE,
}
_WON_BEFORE: Final = "won before"

_LAST_AT: Final = RUN_CHANGES.index("last_at_us")
_NONCE: Final = STEP_COLUMNS.index("dispatch_nonce")
_STORED_AT: Final = 0  #: in place of a time that the database fills in


class Batch:
    """The rows of a batch, by the type they travel as; each names the place of its write."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self.runs: list[Row] = []
        self.subjects: list[Row] = []
        self.steps: list[Row] = []
        self.payloads: list[Row] = []

    def add(self, place: int, write: RunWrite) -> None:
        after, command, dispatches = write.after, write.command, write.dispatches
        self.runs.append(
            (
                after.run_id,
                write.before.fence if dispatches else None,
                write.nonce.hex(),
                write.entries,
                None if command is None else command.command_id,
                None if command is None else command.digest,
                *run_values(after),
            )
        )
        for node in write.touched:
            if node not in dispatches:
                self.steps.append(_step_row(place, node, after.step(node), begins=False))
        for node in dispatches:
            self.steps.append(_step_row(place, node, after.step(node), begins=True))
        codec = self._codec
        for name, body in write.payloads:
            self.payloads.append((place, name, codec.name, codec.key_id, codec.encode(body)))
        if write.once is not None:
            self.subjects.append((place, write.once.digest, write.once.node))
        for digest in write.once_released:
            self.subjects.append((place, digest, None))


def write_parameters(scope_id: int, codec: Codec, writes: Sequence[RunWrite]) -> list[object]:
    """The parameters of `write_runs_if_version`."""
    batch = Batch(codec)
    for place, write in enumerate(writes, 1):
        batch.add(place, write)
    return [scope_id, batch.runs, batch.subjects, batch.steps, batch.payloads]


def run_values(run: Run) -> Row:
    """What a transition or a submission says of the run's row, without the time of the commit."""
    values = run_changes(run, _STORED_AT)
    return values[:_LAST_AT] + values[_LAST_AT + 1 :]


def _step_row(place: int, node: NodeId, step: Step, *, begins: bool) -> Row:
    values = step_values(node, step)
    nonce = values[_NONCE]
    if isinstance(nonce, bytes):
        return (place, begins, *values[:_NONCE], nonce.hex(), *values[_NONCE + 1 :])
    return (place, begins, *values)


def answers_of(rows: Sequence[asyncpg.Record]) -> list[WriteAnswer | None]:
    """Each write's answer; None: its run is locked by somebody."""
    answers: list[WriteAnswer | None] = []
    won = Won(instant_of(_STORED_AT))
    for word, at_us in rows:
        if at_us is None:
            answers.append(_REFUSED.get(word))
        else:
            if at_us != won.at.wall_us:
                won = Won(instant_of(at_us))
            answers.append(won)
    return answers


def won_before(rows: Sequence[asyncpg.Record]) -> bool:
    """Whether an earlier sending of one of these writes was committed."""
    return any(word == _WON_BEFORE for word, _ in rows)
