"""Runs and steps as rows, in one column order for every SQL store.

Plain tuples, because this is on the path of every write. A run's id stands outside of them: each
database has its own type for it. The reading statements of a store select the columns in the
order of `RUN_COLUMNS` and `STEP_COLUMNS`; its writing statements bind them in the order of
`RUN_CHANGES` and `STEP_COLUMNS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, TypeAlias, TypeVar

from mayura.runtime.core.altering import altered
from mayura.runtime.core.state import (
    Acted,
    Cause,
    Deadline,
    Dispatch,
    Instant,
    Receipt,
    Resolution,
    Run,
    RunStatus,
    Step,
    StepStatus,
)
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import NodeId, Nonce, RunId
from mayura.runtime.ports import NewRun, RunWrite
from mayura.storage.details import detail_of, detail_text

SqlValue: TypeAlias = str | bytes | int | None
Row: TypeAlias = tuple[SqlValue, ...]
Word = TypeVar("Word", bound=StrEnum)

RUN_COLUMNS: Final = (
    "key", "definition", "policy", "requested_by", "salt", "status", "version", "event_seq",
    "chain", "last_at_us", "created_at_us", "settled_at_us", "settlement", "maximum_micros",
    "spent_micros", "reserved_micros", "overrun_micros", "paused_at_us", "cancelled",
    "result_code", "wake_at_us", "claim_fence",
)  # fmt: skip
"""What reading a run selects; `definition` and `policy` are the digests."""

RUN_CHANGES: Final = (
    "status", "version", "event_seq", "chain", "last_at_us", "settled_at_us", "settlement",
    "maximum_micros", "spent_micros", "reserved_micros", "overrun_micros", "paused_at_us",
    "cancelled", "result_code", "wake_at_us",
)  # fmt: skip
"""What a transition may change of a run's row."""

STEP_COLUMNS: Final = (
    "node", "status", "code", "cause", "acted", "output", "dispatch_nonce", "dispatched_at_us",
    "settle_at_us", "settle_epoch", "settle_wait_us", "timeout_ms", "input_digest", "fence",
    "receipt", "contradiction", "released", "reserved_micros", "charged_micros", "detail",
    "resolution",
)  # fmt: skip

_NOT_DISPATCHED: Final[Row] = (None,) * 8


def run_changes(run: Run, at_us: int) -> Row:
    """The values of `RUN_CHANGES`; `at_us` is the store's time of this commit."""
    code = run.result_code
    return (
        run.status._value_,
        run.version,
        run.event_seq,
        run.chain,
        at_us,
        run.settled_at_us,
        run.settlement,
        run.maximum_micros,
        run.spent_micros,
        run.reserved_micros,
        run.overrun_micros,
        run.paused_at_us,
        run.cancelled,
        None if code is None else code._value_,
        run.wake_at_us,
    )


def step_rows(write: RunWrite, at: Instant) -> list[Row]:
    """The values of `STEP_COLUMNS` for every step that the write stores in a commit at `at`.

    Those it dispatches get their dispatch time and settle deadline from `at` (G9).
    """
    step = write.after.step
    if not write.dispatches:
        return [step_values(node, step(node)) for node in write.touched]
    begun = write.dispatches
    rows = [step_values(node, step(node), at) for node in begun]
    rows.extend(step_values(node, step(node)) for node in write.touched if node not in begun)
    return rows


def step_values(node: NodeId, step: Step, begun: Instant | None = None) -> Row:
    """The values of `STEP_COLUMNS`; with `begun`, as a dispatch of that time."""
    code, cause, receipt, contradiction = step.code, step.cause, step.receipt, step.contradiction
    dispatch, detail, resolution = step.dispatch, step.detail, step.resolution
    return (
        node,
        step.status._value_,
        None if code is None else code._value_,
        None if cause is None else cause._value_,
        step.acted._value_,
        step.output,
        *(_NOT_DISPATCHED if dispatch is None else _dispatch_values(dispatch, begun)),
        None if receipt is None else receipt._value_,
        None if contradiction is None else contradiction._value_,
        step.released,
        step.reserved_micros,
        step.charged_micros,
        None if detail is None else detail_text(detail),
        None if resolution is None else resolution._value_,
    )


def _dispatch_values(dispatch: Dispatch, begun: Instant | None) -> Row:
    settle = dispatch.settle
    return (
        dispatch.nonce,
        dispatch.at_us if begun is None else begun.wall_us,
        settle.at_us if begun is None else begun.steady_us + dispatch.settle_wait_us,
        settle.epoch if begun is None else begun.epoch,
        dispatch.settle_wait_us,
        dispatch.timeout_ms,
        dispatch.input_digest,
        dispatch.fence,
    )


def touched_steps(write: RunWrite, at: Instant) -> dict[NodeId, Step]:
    """The steps that the write stores in a commit at `at`, as values; see `step_rows`."""
    steps = {node: write.after.step(node) for node in write.touched}
    for node in write.dispatches:
        step = write.after.step(node)
        assert step.dispatch is not None  # check_write saw to it
        settle = Deadline(at.steady_us + step.dispatch.settle_wait_us, at.epoch)
        dispatch = altered(step.dispatch, at_us=at.wall_us, settle=settle)
        steps[node] = altered(step, dispatch=dispatch)
    return steps


def check_write(write: RunWrite) -> None:
    """Refuse, before anything is sent, a write that no transition of a run could make."""
    before, after = write.before, write.after
    if not (
        after.run_id == before.run_id
        and after.version == before.version + 1
        and after.event_seq >= before.event_seq
        and after.key == before.key
        and after.definition == before.definition
        and after.policy == before.policy
        and after.created_at_us == before.created_at_us
    ):
        raise MayuraError(
            Code.INTEGRITY_VIOLATION,
            f"Run {before.run_id}: a write changes what no transition changes.",
        )
    steps = after.steps
    if any(node not in steps or steps[node].dispatch is None for node in write.dispatches):
        raise MayuraError(
            Code.INTEGRITY_VIOLATION,
            f"Run {before.run_id}: a write dispatches a step that has no dispatch.",
        )
    once = write.once
    if once is not None and (write.dispatches != (once.node,) or write.once_released):
        raise MayuraError(
            Code.INTEGRITY_VIOLATION,
            f"Run {before.run_id}, step {once.node}: a write that takes a `once` subject "
            "dispatches this step, nothing else, and releases no subject.",
        )


def as_created(new: NewRun, at: Instant) -> Run:
    """The run as a commit at `at` stores it: its times are the store's, and it is due at once.

    INTEGRITY_VIOLATION where it is not the run that a submission makes.
    """
    run = new.run
    if run.version != 1 or run.fence != 0 or run.steps:
        raise MayuraError(
            Code.INTEGRITY_VIOLATION, f"Run {run.run_id} is submitted with something behind it."
        )
    wake_at_us = None if run.wake_at_us is None else max(run.wake_at_us, at.wall_us)
    return altered(run, created_at_us=at.wall_us, last_at_us=at.wall_us, wake_at_us=wake_at_us)


def first_nonce(run_id: RunId) -> Nonce:
    """The nonce of a run's first journal entry: a submission is found by its key, not by one."""
    return Nonce(bytes.fromhex(run_id))


def run_of(run_id: RunId, row: Sequence[object], steps: Mapping[NodeId, Step]) -> Run:
    """The run that a row of `RUN_COLUMNS` holds. INTEGRITY_VIOLATION for unknown words."""
    values = tuple(row)
    return Run(
        run_id,
        _text(values[0]),
        _bytes(values[1]),
        _bytes(values[2]),
        _text_or_none(values[3]),
        b"" if values[4] is None else _bytes(values[4]),
        _word(RunStatus, values[5]),
        _int(values[6]),
        _int(values[7]),
        _bytes(values[8]),
        _int(values[9]),
        _int(values[10]),
        _int_or_none(values[11]),
        _int(values[12]),
        _int(values[13]),
        _int(values[14]),
        _int(values[15]),
        _int(values[16]),
        _int_or_none(values[17]),
        bool(values[18]),
        _word_or_none(Code, values[19]),
        _int_or_none(values[20]),
        _int(values[21]),
        steps,
    )


def step_of(row: Sequence[object]) -> tuple[NodeId, Step]:
    """The node and the step that a row of `STEP_COLUMNS` holds."""
    values = tuple(row)
    detail = values[19]
    return NodeId(_text(values[0])), Step(
        _word(StepStatus, values[1]),
        _word_or_none(Code, values[2]),
        _word_or_none(Cause, values[3]),
        _word(Acted, values[4]),
        bool(values[5]),
        None if values[6] is None else _dispatch_of(values[6:14]),
        _word_or_none(Receipt, values[14]),
        _word_or_none(Receipt, values[15]),
        bool(values[16]),
        _int(values[17]),
        _int(values[18]),
        None if detail is None else detail_of(_text(detail)),
        _word_or_none(Resolution, values[20]),
    )


def _dispatch_of(values: tuple[object, ...]) -> Dispatch:
    return Dispatch(
        nonce=Nonce(_bytes(values[0])),
        at_us=_int(values[1]),
        settle=Deadline(_int(values[2]), _text(values[3])),
        settle_wait_us=_int(values[4]),
        timeout_ms=_int(values[5]),
        input_digest=_bytes(values[6]),
        fence=_int(values[7]),
    )


def _word(kind: type[Word], value: object) -> Word:
    try:
        return kind(_text(value))
    except ValueError as error:
        raise MayuraError(
            Code.INTEGRITY_VIOLATION,
            f"A stored row holds a {kind.__name__} that this release does not know.",
        ) from error


def _word_or_none(kind: type[Word], value: object) -> Word | None:
    return None if value is None else _word(kind, value)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise _wrong_type("text")


def _bytes(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    raise _wrong_type("bytes")


def _int(value: object) -> int:
    if isinstance(value, int):
        return value
    raise _wrong_type("an integer")


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


def _int_or_none(value: object) -> int | None:
    return None if value is None else _int(value)


def _wrong_type(wanted: str) -> MayuraError:
    return MayuraError(
        Code.INTEGRITY_VIOLATION, f"A stored row holds something else where {wanted} belongs."
    )
