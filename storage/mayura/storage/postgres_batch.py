"""A batch of transitions as the parameters of one statement, and its rows as answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import asyncpg

from mayura.runtime.ports import Refused, RunWrite, Won, WriteAnswer
from mayura.storage.payloads import Codec
from mayura.storage.postgres_clock import instant_of
from mayura.storage.rows import RUN_CHANGES, STEP_COLUMNS, run_changes, step_values

Column: TypeAlias = Sequence[object]

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
_WRITE_FIELDS: Final = 6
_STEP_FIELDS: Final = 2
_STORED_AT: Final = 0  #: in place of a time that the database fills in


class _Rows:
    """The rows of a batch, by table; each names the place of its write."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self.runs: list[Column] = []
        self.claims: list[Column] = []
        self.releases: list[Column] = []
        self.steps: list[Column] = []
        self.payloads: list[Column] = []

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
                *run_changes(after, _STORED_AT),
            )
        )
        for node in write.touched:
            if node not in dispatches:
                self.steps.append((place, False, *step_values(node, after.step(node))))
        for node in dispatches:
            self.steps.append((place, True, *step_values(node, after.step(node))))
        codec = self._codec
        for name, body in write.payloads:
            self.payloads.append((place, name, codec.name, codec.key_id, codec.encode(body)))
        if write.once is not None:
            self.claims.append((place, write.once.digest, write.once.node))
        for digest in write.once_released:
            self.releases.append((place, digest))


def write_parameters(
    scope_id: int, codec: Codec, writes: Sequence[RunWrite], *, waits: bool, lock_wait_s: float
) -> list[object]:
    """The parameters of `write_runs_if_version`."""
    rows = _Rows(codec)
    for place, write in enumerate(writes, 1):
        rows.add(place, write)
    runs = columns_of(rows.runs, _WRITE_FIELDS + len(RUN_CHANGES))
    del runs[_WRITE_FIELDS + _LAST_AT]
    steps = columns_of(rows.steps, _STEP_FIELDS + len(STEP_COLUMNS))
    nonces: Column = [_hex(nonce) for nonce in steps[_STEP_FIELDS + _NONCE]]
    steps[_STEP_FIELDS + _NONCE] = nonces
    return [
        scope_id,
        waits,
        f"{int(lock_wait_s * 1000)}ms",
        *runs,
        *columns_of(rows.claims, 3),
        *columns_of(rows.releases, 2),
        *steps,
        *columns_of(rows.payloads, 5),
    ]


def columns_of(rows: Sequence[Column], width: int) -> list[Column]:
    """Rows as columns, `width` of them also where there is no row."""
    return list(zip(*rows, strict=True)) if rows else [()] * width


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


def _hex(nonce: object) -> str | None:
    return nonce.hex() if isinstance(nonce, bytes) else None
