"""What no store holds, whoever writes it: rows that contradict the state machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mayura.runtime.core.state import Acted, Cause, Receipt, RunStatus, Step, StepStatus
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ports import Store
from tests.storage.places import MemoryPlace, Place
from tests.storage.runs import (
    NODE,
    dispatch_of,
    dispatching,
    loaded,
    submitted,
    succeeded,
    won,
    write_of,
)

BEGUN = dispatching()
ENDED = succeeded(BEGUN)

NONSENSE_RUNS: dict[str, dict[str, object]] = {
    "settled without a time": {"status": RunStatus.SUCCEEDED, "wake_at_us": None},
    "open with the time it settled": {"settled_at_us": 5, "wake_at_us": None},
    "settled and yet to wake": {"status": RunStatus.FAILED, "settled_at_us": 5, "wake_at_us": 5},
    "beyond its budget": {"spent_micros": 600, "reserved_micros": 401},
    "a negative reservation": {"reserved_micros": -1},
    "a negative overrun": {"overrun_micros": -1},
    "paused since never": {"status": RunStatus.PAUSED},
    "cancelled by nobody": {
        "status": RunStatus.CANCELLED,
        "settled_at_us": 5,
        "wake_at_us": None,
    },
    "a chain that is no digest": {"chain": b"short"},
}

NONSENSE_STEPS: dict[str, Step] = {
    "dispatching without a dispatch": Step(StepStatus.DISPATCHING),
    "unknown without a dispatch": Step(StepStatus.UNKNOWN),
    "pending after a dispatch": replace(BEGUN, status=StepStatus.PENDING),
    "waiting after a dispatch": replace(BEGUN, status=StepStatus.WAITING),
    "waiting for nothing": Step(StepStatus.WAITING),
    "a receipt of no call": Step(StepStatus.BLOCKED, receipt=Receipt.NOT_STARTED),
    "an effect of no call": Step(StepStatus.BLOCKED, acted=Acted.YES),
    "a reservation for no call": Step(StepStatus.PENDING, reserved_micros=1),
    "a negative charge": Step(StepStatus.PENDING, charged_micros=-1),
    "a success without a receipt": replace(ENDED, receipt=None),
    "a success of an unknown receipt": replace(ENDED, receipt=Receipt.UNKNOWN),
    "a success that is withheld": replace(ENDED, released=False),
    "a success that may not have acted": replace(ENDED, acted=Acted.UNKNOWN),
    "skipped after it may have acted": replace(BEGUN, status=StepStatus.SKIPPED, acted=Acted.NO),
    "timed out after it acted": replace(ENDED, status=StepStatus.TIMED_OUT),
    "a failure that may have acted": replace(BEGUN, status=StepStatus.FAILED),
    "a failure that acted": replace(ENDED, status=StepStatus.FAILED),
    "unknown, but certain for no reason": replace(
        BEGUN, status=StepStatus.UNKNOWN, acted=Acted.NO, cause=Cause.TIMEOUT
    ),
    "contradicted by the same": replace(ENDED, contradiction=Receipt.SUCCEEDED),
    "a contradiction of nothing known": replace(
        BEGUN, receipt=Receipt.UNKNOWN, contradiction=Receipt.SUCCEEDED
    ),
    "contradicted by what is not known": replace(ENDED, contradiction=Receipt.UNKNOWN),
}

SENSIBLE_STEPS: dict[str, Step] = {
    "a lookup that succeeded": replace(ENDED, acted=Acted.NO),
    "unknown with evidence that came late": replace(
        BEGUN, status=StepStatus.UNKNOWN, acted=Acted.YES, receipt=Receipt.SUCCEEDED
    ),
    "unknown for its cost": replace(
        BEGUN, status=StepStatus.UNKNOWN, acted=Acted.NO, cause=Cause.COST_UNKNOWN
    ),
    "blocked after it acted": replace(ENDED, status=StepStatus.BLOCKED, released=False),
    "declined when it was cancelled": replace(
        BEGUN, status=StepStatus.SKIPPED, acted=Acted.NO, receipt=Receipt.NOT_STARTED
    ),
    "abandoned, and it only looked": replace(BEGUN, status=StepStatus.FAILED, acted=Acted.NO),
    "two receipts": replace(ENDED, contradiction=Receipt.NOT_STARTED),
    "two receipts, the second of nothing done": replace(
        ENDED, contradiction=Receipt.NOT_STARTED, acted=Acted.UNKNOWN
    ),
    "two receipts of a failure": replace(
        BEGUN,
        status=StepStatus.FAILED,
        acted=Acted.UNKNOWN,
        receipt=Receipt.NOT_STARTED,
        contradiction=Receipt.SUCCEEDED,
    ),
    "a value that nobody called for": Step(StepStatus.SUCCEEDED, output=True, released=True),
}


@pytest.mark.parametrize("changes", NONSENSE_RUNS.values(), ids=NONSENSE_RUNS)
async def test_no_store_holds_such_a_run(store: Store, changes: dict[str, object]) -> None:
    run = await submitted(store)
    with pytest.raises(MayuraError) as refused:
        await store.write(write_of(run, **changes))  # type: ignore[arg-type]
    assert refused.value.code is Code.INTEGRITY_VIOLATION
    assert await loaded(store, run.run_id) == run
    assert len(await store.journal(run.run_id)) == 1


@pytest.mark.parametrize("step", NONSENSE_STEPS.values(), ids=NONSENSE_STEPS)
async def test_no_store_holds_such_a_step(store: Store, step: Step) -> None:
    run = await submitted(store)
    with pytest.raises(MayuraError) as refused:
        await store.write(write_of(run, {NODE: step}))
    assert refused.value.code is Code.INTEGRITY_VIOLATION
    assert await loaded(store, run.run_id) == run
    assert len(await store.journal(run.run_id)) == 1


@pytest.mark.parametrize("step", SENSIBLE_STEPS.values(), ids=SENSIBLE_STEPS)
async def test_every_store_holds_such_a_step(store: Store, step: Step) -> None:
    run = await won(store, write_of(await submitted(store), {NODE: step}))
    assert run.step(NODE) == step


@pytest.mark.parametrize("table", ["dispatches", "journal"])
async def test_evidence_is_neither_changed_nor_removed(
    place: Place, store: Store, table: str
) -> None:
    if isinstance(place, MemoryPlace):
        pytest.skip("a store in memory has no back door")
    await won(store, dispatch_of(await submitted(store)))
    for statement in (f"update {table} set at_us = 1", f"delete from {table}"):
        with pytest.raises(Exception, match="append-only"):
            await place.execute(statement)
    await place.execute("delete from runs")
    await place.execute(f"delete from {table}")
