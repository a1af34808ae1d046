"""The properties are able to fail: each planted breakage of the core is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from mayura.runtime.core import outcome
from mayura.runtime.core.definition import ToolSpec
from mayura.runtime.core.outcome import Outcome
from mayura.runtime.core.state import Acted, Step, StepStatus
from mayura.runtime.errors import MayuraError
from tests.core.test_properties import AnyRun

CORE: Final = "mayura.runtime.core"
abandoned: Final = outcome.abandoned


def failed_without_knowing(spec: ToolSpec, step: Step) -> tuple[Outcome, int | None]:
    """What G10 forbids: a call that may have acted is said to have failed."""
    found, charge_micros = abandoned(spec, step)
    if found.acted is Acted.UNKNOWN:
        found = replace(found, status=StepStatus.FAILED)
    return found, charge_micros


BREAKAGES: Final[dict[str, tuple[Callable[..., object], tuple[str, ...]]]] = {
    "a budget without a ceiling": (
        lambda *_: True,
        (
            f"{CORE}.budget.affordable",
            f"{CORE}.decision.affordable",
            "tests.core.drive.affordable",
        ),
    ),
    "a known receipt that is replaced": (lambda *_: "forward", (f"{CORE}.receipts.merge",)),
    "a run that nobody wakes": (lambda *_: None, (f"{CORE}.deadlines.next_wake_us",)),
    "a failure that may have acted": (failed_without_knowing, (f"{CORE}.outcome.abandoned",)),
    "a run that never settles": (lambda *_: False, (f"{CORE}.ending.ended",)),
    "a cost that is charged and still reserved": (
        lambda run, reserved, charge: replace(run, spent_micros=run.spent_micros + charge),
        (f"{CORE}.budget.settle",),
    ),
}


@pytest.mark.parametrize("name", BREAKAGES)
def test_a_planted_breakage_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken, places = BREAKAGES[name]
    for place in places:
        monkeypatch.setattr(place, broken)
    quick = settings(
        max_examples=150,
        stateful_step_count=40,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    with pytest.raises((AssertionError, MayuraError)):
        run_state_machine_as_test(AnyRun, settings=quick)
