"""When something is over, and when somebody must look at the run again. All times are UTC."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime, timedelta

from mayura.runtime.core.code import Invalid
from mayura.runtime.core.definition import JsonValue
from mayura.runtime.core.state import (
    Approval,
    Deadline,
    Instant,
    Question,
    Run,
    Signal,
    Step,
    StepStatus,
    Timer,
)
from mayura.runtime.ids import NodeId, Nonce

ABANDONED_MARGIN_MS = 60_000
KEPT_WAKE_US_MIN = 1_000_000  #: a stored wake time nearer than this is not worth keeping
LAST_CHECK_MARGIN_SHARE = 4  #: a dispatch older than margin / 4 is declined (G3)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Between these two, microseconds since 1970 are integers that canonical JSON keeps.
_FIRST = datetime(1685, 1, 1, tzinfo=UTC)
_END = datetime(2255, 1, 1, tzinfo=UTC)


def passed(deadline: Deadline, now: Instant) -> bool:
    """Whether a settle deadline is over. Another epoch: the dispatcher's host restarted (G9)."""
    return deadline.epoch != now.epoch or now.steady_us >= deadline.at_us


def settle_wait_us(timeout_ms: int, margin_ms: int) -> int:
    """How long after its dispatch a call may still be finished by a live process."""
    return (timeout_ms + margin_ms) * 1_000


def parse(value: JsonValue) -> int:
    """An absolute time as a model dumps it (ISO 8601 with an offset), in microseconds.

    Raises `Invalid` for anything else: a time without an offset means something else elsewhere.
    """
    if not isinstance(value, str):
        raise Invalid("an absolute time is an ISO 8601 text with an offset")
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise Invalid("this is not an ISO 8601 time") from None
    if moment.tzinfo is None:
        raise Invalid("a time needs an offset from UTC, such as +00:00")
    if not _FIRST <= moment < _END:
        raise Invalid("a time lies between the years 1685 and 2254; null is no deadline")
    return (moment - _EPOCH) // timedelta(microseconds=1)


def due_us(step: Step) -> int | None:
    """The wall time at which a waiting step wants to be looked at; None: only when told."""
    match step.detail:
        case Approval(expires_at_us=expires, allowance_us=allowance):
            return expires + allowance
        case Question(deadline_us=deadline, allowance_us=allowance) if deadline is not None:
            return deadline + allowance
        case Signal(deadline_us=deadline, allowance_us=allowance) if deadline is not None:
            return deadline + allowance
        case Timer(fire_at_us=fire_at):
            return fire_at
        case _:
            return None


def next_wake_us(run: Run, now: Instant) -> int | None:
    """The earliest time at which the run has something to do by itself (G13).

    A paused run waits for its resume, except for a call that somebody must settle.
    """
    return min(_wakes(run, now), default=None)


def _wakes(run: Run, now: Instant) -> Iterable[int]:
    for step in run.steps.values():
        if step.status is StepStatus.DISPATCHING and step.dispatch is not None:
            deadline = step.dispatch.settle
            same_epoch = deadline.epoch == now.epoch
            left_us = deadline.at_us - now.steady_us if same_epoch else 0
            yield now.wall_us + max(0, left_us)
        elif step.status is StepStatus.WAITING and run.paused_at_us is None:
            due = due_us(step)
            if due is not None:
                yield due


def due_steps(run: Run, now: Instant, own: Collection[Nonce]) -> Iterator[NodeId]:
    """The steps whose time has come: whoever writes next looks at them too, not only at its own.

    `own`: calls that this process still has in hand (G9).
    """
    for name, step in run.steps.items():
        call = step.dispatch if step.status is StepStatus.DISPATCHING else None
        if call is not None and call.nonce not in own and passed(call.settle, now):
            yield name
        elif step.status is StepStatus.WAITING and run.paused_at_us is None:
            due = due_us(step)
            if due is not None and now.wall_us >= due:
                yield name


def kept_wake_us(stored_us: int | None, wanted_us: int | None, now: Instant) -> int | None:
    """A stored wake time that is early enough is kept.

    Waking early finds nothing to do and costs one read; moving the time at every commit costs an
    index entry each. A time that is about to come is moved: somebody would wake for nothing, and
    `now` may be a moment behind the store's clock.
    """
    if stored_us is None or wanted_us is None:
        return wanted_us
    if wanted_us <= now.wall_us:
        return min(stored_us, wanted_us)
    still_far = now.wall_us + KEPT_WAKE_US_MIN < stored_us
    return stored_us if still_far and stored_us <= wanted_us else wanted_us
