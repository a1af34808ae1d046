"""Absolute times, due times, and when somebody must look at a run again (G13)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from mayura.runtime.core import ending
from mayura.runtime.core.code import Invalid
from mayura.runtime.core.deadlines import due_steps, due_us, kept_wake_us, next_wake_us, parse
from mayura.runtime.core.definition import Constant, JsonValue
from mayura.runtime.core.reading import iso
from mayura.runtime.core.state import (
    Approval,
    Deadline,
    Detail,
    Instant,
    Question,
    RunStatus,
    Signal,
    Step,
    StepStatus,
    Timer,
)
from mayura.runtime.core.values import INTEGER_MAX
from mayura.runtime.ids import NodeId
from tests.core.drive import SECOND_US, START, Drive
from tests.core.graphs import human, signal, timer, tool, workflow

NOW_US: Final = START.wall_us

# --- times ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00+00:00", 0),
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:00.000001Z", 1),
        ("1969-12-31T23:59:59.999999Z", -1),
        ("2027-01-15T08:00:00Z", NOW_US),
        ("2027-01-15T08:00:00.25-00:30", NOW_US + 1_800_250_000),
        ("20270115T080000Z", NOW_US),
        ("1970-01-01T00:00:00+00:00:01.500000", -1_500_000),
        ("2254-12-31T23:59:59.999999Z", 8_993_721_599_999_999),
        ("1685-01-01T00:00:00Z", -8_993_635_200_000_000),
    ],
)
def test_an_absolute_time_is_microseconds_since_1970(text: str, expected: int) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        1_800_000_000.5,
        [],
        {"at": 1},
        "",
        "soon",
        "PT5M",
        "2027-01-15",
        "2027-01-15T08:00:00",
        "2027-02-30T08:00:00Z",
        "2027-01-15T25:00:00Z",
        "2255-01-01T00:00:00Z",
        "2254-12-31T23:59:59-01:00",
        "1685-01-01T00:00:00+01:00",
        "1684-12-31T23:59:59Z",
        "9999-12-31T23:59:59-12:00",
        "0001-01-01T00:00:00+14:00",
    ],
    ids=repr,
)
def test_anything_else_is_no_absolute_time(value: JsonValue) -> None:
    with pytest.raises(Invalid) as refused:
        parse(value)
    assert str(value) not in str(refused.value) or not value, "a message holds no value"


@pytest.mark.parametrize("text", ["1684-12-31T23:59:59-12:00", "2255-01-01T00:00:00+12:00"])
def test_every_time_fits_what_json_keeps_exactly_and_can_be_shown(text: str) -> None:
    at_us = parse(text)
    assert abs(at_us) <= INTEGER_MAX
    assert parse(iso(at_us)) == at_us


# --- due times --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        (None, None),
        (Approval(b"", 100), 100),
        (Approval(b"", 100, allowance_us=7), 107),
        (Question(b"", None), None),
        (Question(b"", None, allowance_us=7), None),
        (Question(b"", 100, allowance_us=7), 107),
        (Signal(), None),
        (Signal(deadline_us=100, allowance_us=7), 107),
        (Timer(100), 100),
    ],
    ids=repr,
)
def test_a_waiting_step_is_due_at_its_time_plus_its_allowance(
    detail: Detail | None, expected: int | None
) -> None:
    assert due_us(Step(StepStatus.WAITING, detail=detail)) == expected


def test_a_run_wakes_at_the_earliest_of_its_times() -> None:
    later = Constant(iso(NOW_US + 500 * SECOND_US))
    sooner = Constant(iso(NOW_US + 300 * SECOND_US))
    definition = workflow(
        timer("t", at=later), human("h", deadline=sooner), signal("s"), tool("p", approval=True)
    )
    run = Drive(definition).advance()
    assert run.run.wake_at_us == NOW_US + 300 * SECOND_US
    run.respond("h", "x")
    assert next_wake_us(run.run, run.now) == NOW_US + 500 * SECOND_US


def test_a_call_wakes_its_run_at_its_settle_deadline_in_wall_time() -> None:
    run = Drive(workflow(tool("a")))
    run.advance()
    dispatch = run.step("a").dispatch
    assert dispatch is not None
    assert next_wake_us(run.run, run.now) == NOW_US + dispatch.settle_wait_us
    stepped = Instant(NOW_US + 10**12, START.steady_us + 40 * SECOND_US, START.epoch)
    left_us = dispatch.settle_wait_us - 40 * SECOND_US
    assert next_wake_us(run.run, stepped) == stepped.wall_us + left_us


def test_a_call_past_its_deadline_or_of_another_epoch_wakes_its_run_now() -> None:
    run = Drive(workflow(tool("a"))).advance()
    assert next_wake_us(run.run, replace(run.now, epoch="boot-2")) == NOW_US
    late = Instant(NOW_US, START.steady_us + 10**12, START.epoch)
    assert next_wake_us(run.run, late) == NOW_US


def test_a_paused_run_wakes_only_for_a_call_that_somebody_must_settle() -> None:
    at = Constant(iso(NOW_US + 5 * SECOND_US))
    run = Drive(workflow(tool("a"), timer("t", at=at))).advance()
    run.pause()
    assert next_wake_us(run.run, run.now) == NOW_US + 90 * SECOND_US
    run.end("a")
    assert (run.run.status, run.run.wake_at_us) == (RunStatus.PAUSED, None)


def test_an_ended_step_wakes_nobody() -> None:
    run = Drive(workflow(tool("a"))).advance().run
    for status in set(StepStatus) - {StepStatus.DISPATCHING, StepStatus.WAITING}:
        step = replace(run.step(NodeId("a")), status=status, detail=Timer(NOW_US + 1))
        assert next_wake_us(replace(run, steps={NodeId("a"): step}), START) is None


@pytest.mark.parametrize(
    ("stored", "wanted", "kept"),
    [
        (None, None, None),
        (None, NOW_US + 5, NOW_US + 5),
        (NOW_US + 5, None, None),
        (NOW_US + 5, NOW_US + 5, NOW_US + 5),
        (NOW_US + 5, NOW_US + 9, NOW_US + 9),
        (NOW_US + 9, NOW_US + 5, NOW_US + 5),
        (NOW_US - 5, NOW_US + 5, NOW_US + 5),
        (NOW_US, NOW_US + 5, NOW_US + 5),
        (NOW_US + 1, NOW_US + 5, NOW_US + 5),
        (NOW_US + 1_000_000, NOW_US + 5_000_000, NOW_US + 5_000_000),
        (NOW_US + 1_000_001, NOW_US + 5_000_000, NOW_US + 1_000_001),
        (NOW_US - 5, NOW_US, NOW_US - 5),
        (NOW_US + 5, NOW_US, NOW_US),
        (NOW_US - 5, NOW_US - 9, NOW_US - 9),
        (None, NOW_US, NOW_US),
    ],
)
def test_a_stored_wake_time_is_kept_if_it_is_early_enough(
    stored: int | None, wanted: int | None, kept: int | None
) -> None:
    assert kept_wake_us(stored, wanted, START) == kept
    late = stored is not None and kept is not None and wanted is not None and kept > wanted
    assert not late, "never later than wanted"


def test_a_run_that_rests_writes_no_wake_time_that_is_early_enough() -> None:
    run = Drive(workflow(tool("a"), tool("b"))).advance()
    first = run.run.wake_at_us
    run.later(10)
    run.end("a")
    assert run.run.wake_at_us == first


def test_a_wait_that_is_due_is_a_due_step_unless_its_run_is_paused() -> None:
    at = Constant(iso(NOW_US + 5 * SECOND_US))
    run = Drive(workflow(timer("t", at=at), signal("s"))).advance()
    assert list(due_steps(run.run, run.now, ())) == []
    run.later(5)
    assert list(due_steps(run.run, run.now, ())) == [NodeId("t")]
    paused = replace(run.run, paused_at_us=NOW_US)
    assert list(due_steps(paused, run.now, ())) == []


# --- resting ----------------------------------------------------------------------------------


def test_where_a_run_rests() -> None:
    run = Drive(workflow(tool("a"), signal("s"))).advance()
    seen = [run.run.status]
    run.end("a")
    seen.append(run.run.status)
    run.pause()
    seen.append(run.run.status)
    run.resume()
    seen.append(run.run.status)
    assert seen == ["running", "waiting", "paused", "waiting"]


def test_a_pause_takes_hold_once_no_call_is_in_hand() -> None:
    run = Drive(workflow(tool("a"), tool("b", "a"))).advance()
    run.pause()
    assert run.run.status is RunStatus.RUNNING
    run.end("a")
    assert (run.run.status, run.status("b")) == (RunStatus.PAUSED, StepStatus.PENDING)
    run.resume()
    assert run.status("b") is StepStatus.DISPATCHING


def test_a_run_with_a_call_that_is_ready_but_held_back_is_running_and_due_now() -> None:
    run = Drive(workflow(tool("a")))
    run.held.add(NodeId("a"))
    rest = ending.rest(run.run, run.now, due_now=True)
    assert (rest.status, rest.wake_at_us) == (RunStatus.RUNNING, NOW_US)


def test_a_deadline_of_another_epoch_is_looked_at_now() -> None:
    run = Drive(workflow(tool("a"))).advance()
    step = run.step("a")
    assert step.dispatch is not None
    elsewhere = replace(step.dispatch, settle=Deadline(10**15, "boot-0"))
    moved = replace(run.run, steps={NodeId("a"): replace(step, dispatch=elsewhere)})
    assert ending.rest(moved, run.now, due_now=False).wake_at_us == NOW_US
