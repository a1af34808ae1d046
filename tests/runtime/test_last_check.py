"""The last check: what declines a call right before its body is entered, and what does not (G3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic

import pytest

from mayura.runtime import Code, Engine, RunId, Snapshot
from mayura.runtime.ids import Nonce
from mayura.runtime.ports import LastCheck
from tests.runtime.in_hand import COST, ONE, ended
from tests.runtime.shop import LEDGER
from tests.runtime.trouble import Between, at_point, unavailable
from tests.runtime.world import World, everywhere, step_of, steps_of

QUARTER_S = 15.0  #: of the margin of a minute


@dataclass
class Stopwatch:
    """The process's steady clock; a test lets time pass."""

    passed_s: float = 0.0

    def __call__(self) -> float:
        return monotonic() + self.passed_s


@pytest.fixture
def stopwatch(monkeypatch: pytest.MonkeyPatch) -> Stopwatch:
    """What the last check measures with. The dispatch was sent on the real clock, just now."""
    watch = Stopwatch()
    monkeypatch.setattr("mayura.runtime.dispatch.monotonic", watch)
    monkeypatch.setattr("mayura.runtime.dispatch.CHECK_AGAIN_S", 0.0)
    return watch


async def submitted(world: World) -> tuple[Engine, Between, RunId]:
    store = Between(await world.store())
    engine = await world.engine(ONE, store=store)
    run = await engine.submit(ONE, "o-1", key="o-1")
    return engine, store, run.id


def assert_declined(seen: Snapshot, code: Code, status: str = "blocked") -> None:
    """Not called, and everything says so: the step, its evidence, and the run's money."""
    assert not LEDGER.entered
    cause = "abandoned" if status == "unknown" else "declined"
    assert ended(step_of(seen)) == (status, code, cause, "not_started", "no", 0, 0)
    assert (seen.acted, seen.budget.spent_micros, seen.budget.reserved_micros) == ("no", 0, 0)


@everywhere
async def test_a_call_of_a_run_that_was_cancelled_meanwhile_is_declined(world: World) -> None:
    engine, _, run_id = await submitted(world)
    elsewhere = await world.elsewhere(ONE)
    with at_point("check.before", lambda: elsewhere.cancel(run_id, by="ops")):
        seen = await engine.run_until_settled(run_id)
    assert_declined(seen, Code.CANCELLED, "skipped")
    assert seen.status == "cancelled"
    declined = [e.data for e in await engine.events(run_id) if e.type == "step.declined"]
    assert declined == [{"node": "act", "code": "CANCELLED"}]


@everywhere
async def test_a_pause_after_the_dispatch_declines_nothing(world: World) -> None:
    engine, _, run_id = await submitted(world)
    elsewhere = await world.elsewhere(ONE)
    with at_point("check.before", lambda: elsewhere.pause(run_id, by="ops")):
        seen = await engine.run_until_settled(run_id)
    assert (seen.status, steps_of(seen)) == ("succeeded", {"act": "succeeded"})


async def test_a_call_that_somebody_settled_meanwhile_is_declined_and_its_receipt_is_merged(
    world: World,
) -> None:
    engine, _, run_id = await submitted(world)
    elsewhere = await world.elsewhere(ONE)

    async def settled_elsewhere() -> None:
        world.clock.advance(90)
        assert (await elsewhere.run_until_settled(run_id)).status == "outcome_unknown"

    with at_point("check.before", settled_elsewhere):
        seen = await engine.run_until_settled(run_id)
    assert_declined(seen, Code.OUTCOME_UNKNOWN, "unknown")


DIFFERENT: dict[str, tuple[Callable[[LastCheck], LastCheck | None], Code]] = {
    "nonce": (lambda check: replace(check, nonce=Nonce(bytes(16))), Code.CONFLICT),
    "no nonce": (lambda check: replace(check, nonce=None), Code.CONFLICT),
    "input": (lambda check: replace(check, input_digest=bytes(32)), Code.CONFLICT),
    "policy": (lambda check: replace(check, policy=bytes(32)), Code.PERMISSION_DENIED),
    "settled": (lambda check: replace(check, open=False), Code.CONFLICT),
    "gone": (lambda check: None, Code.CONFLICT),
}


@pytest.mark.parametrize("empty_world", ["memory"], indirect=True)
@pytest.mark.parametrize("what", DIFFERENT)
async def test_a_call_whose_stored_record_differs_is_declined(world: World, what: str) -> None:
    alter, code = DIFFERENT[what]
    engine, store, run_id = await submitted(world)
    store.sees = lambda check: None if check is None else alter(check)
    seen = await engine.run_until_settled(run_id)
    assert_declined(seen, code)
    assert seen.status == "blocked"


@pytest.mark.parametrize("late", [False, True], ids=["in time", "late"])
async def test_a_call_is_declined_once_a_quarter_of_the_margin_has_passed(
    world: World, stopwatch: Stopwatch, late: bool
) -> None:
    """A process that stood still between its dispatch and its call may be too late."""
    engine, store, run_id = await submitted(world)

    async def stand_still() -> None:
        stopwatch.passed_s = QUARTER_S if late else QUARTER_S - 5

    with at_point("check.before", stand_still):
        seen = await engine.run_until_settled(run_id)
    if late:
        assert_declined(seen, Code.TIMEOUT)
        assert not store.checked, "there is nothing to ask any more"
    else:
        assert (seen.status, seen.budget.spent_micros) == ("succeeded", COST)


async def test_a_check_is_made_once_where_it_is_fresh(world: World, stopwatch: Stopwatch) -> None:
    engine, store, run_id = await submitted(world)
    await engine.run_until_settled(run_id)
    assert len(store.checked) == 1


@pytest.mark.parametrize("cancelled", [False, True], ids=["still good", "cancelled since"])
async def test_a_check_that_is_no_longer_fresh_is_made_again(
    world: World, stopwatch: Stopwatch, cancelled: bool
) -> None:
    """What was true 100 ms ago is not what the body is entered on."""
    engine, store, run_id = await submitted(world)
    elsewhere = await world.elsewhere(ONE)

    async def dawdle() -> None:
        stopwatch.passed_s += 0.2
        if cancelled:
            await elsewhere.cancel(run_id, by="ops")

    with at_point("check.passed", dawdle):
        seen = await engine.run_until_settled(run_id)
    assert len(store.checked) == 2
    if cancelled:
        assert_declined(seen, Code.CANCELLED, "skipped")
    else:
        assert seen.status == "succeeded"


@pytest.mark.parametrize("failures", [3, 10], ids=["for a while", "for too long"])
async def test_a_check_without_an_answer_calls_nothing(
    world: World, stopwatch: Stopwatch, failures: int
) -> None:
    """It is asked again, for as long as the call may still be made."""
    engine, store, run_id = await submitted(world)
    left = failures

    def nobody_answers(check: LastCheck | None) -> LastCheck | None:
        nonlocal left
        assert not LEDGER.entered
        if left == 0:
            return check
        left -= 1
        stopwatch.passed_s += 4
        raise unavailable() if left % 2 else OSError("the line went dead")

    store.sees = nobody_answers
    seen = await engine.run_until_settled(run_id)
    if failures == 3:
        assert seen.status == "succeeded"
    else:
        assert_declined(seen, Code.TIMEOUT)
        assert len(store.checked) == 4, "sixteen seconds are more than a quarter of a minute"
