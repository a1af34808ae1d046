"""A quick copy of a frozen value is the copy that the standard library makes."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace

import pytest

from mayura.runtime.core.altering import altered
from mayura.runtime.core.state import (
    Approval,
    Deadline,
    Dispatch,
    Question,
    Run,
    Signal,
    Step,
    StepStatus,
    Timer,
)
from mayura.runtime.ids import NodeId, Nonce
from tests.core.drive import Drive
from tests.core.graphs import tool, workflow

DISPATCH = Dispatch(Nonce(b"n"), 1, Deadline(2), 3, 4, b"d", 5)
VALUES = [DISPATCH, Approval(b"a", 1), Question(b"q", None), Timer(1), Signal(), Step()]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_an_altered_value_equals_the_replaced_one_and_leaves_the_old_as_it_was(
    value: Dispatch | Approval | Question | Timer | Signal | Step,
) -> None:
    before = replace(value)
    for field in fields(value):
        changes = {field.name: object()}
        assert altered(value, **changes) == replace(value, **changes)  # type: ignore[arg-type]
    assert value == before
    assert altered(value) == value
    assert hash(altered(value)) == hash(value)


def test_an_altered_value_is_as_frozen() -> None:
    step = altered(Step(), status=StepStatus.FAILED)
    with pytest.raises(FrozenInstanceError):
        step.status = StepStatus.SUCCEEDED  # type: ignore[misc]


def test_a_run_shares_no_map_with_the_one_that_it_was_made_from() -> None:
    drive = Drive(workflow(tool("a")))
    before: Run = drive.run
    drive.advance()
    assert NodeId("a") not in before.steps
    assert NodeId("a") in drive.run.steps
