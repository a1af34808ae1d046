"""Money: spent + reserved <= maximum at every commit; what goes beyond is an overrun (G14)."""

from __future__ import annotations

from mayura.runtime.core.altering import altered
from mayura.runtime.core.state import Run


def affordable(run: Run, cost_micros: int) -> bool:
    """Whether a call of this cost may be reserved now. A run with an overrun starts nothing."""
    free_micros = run.maximum_micros - run.spent_micros - run.reserved_micros
    return cost_micros <= free_micros and run.overrun_micros == 0


def shortage(run: Run, cost_micros: int) -> str:
    """Why a call of this cost is not affordable."""
    if run.overrun_micros:
        return f"the run is {run.overrun_micros} micros over its budget and starts nothing more"
    left_micros = run.maximum_micros - run.spent_micros - run.reserved_micros
    left = f"{left_micros} of the run's {run.maximum_micros} are neither spent nor reserved"
    return f"the call may cost {cost_micros} micros; {left}"


def reserve(run: Run, cost_micros: int) -> Run:
    """Book the most a call may cost before it is made."""
    if cost_micros == 0:
        return run
    return altered(run, reserved_micros=run.reserved_micros + cost_micros)


def settle(run: Run, reserved_micros: int, charge_micros: int) -> Run:
    """Turn a reservation into a charge: the rest is free again, a surplus is an overrun."""
    if reserved_micros == 0 and charge_micros == 0:
        return run
    return altered(
        run,
        reserved_micros=run.reserved_micros - reserved_micros,
        spent_micros=run.spent_micros + min(charge_micros, reserved_micros),
        overrun_micros=run.overrun_micros + max(0, charge_micros - reserved_micros),
    )
