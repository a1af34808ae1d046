"""Asks a tool's guards, all at once, and fails closed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from inspect import isawaitable
from typing import Final

from mayura.runtime.call import Call
from mayura.runtime.core.definition import JsonValue
from mayura.runtime.core.guards import Boundary, Guard, GuardContext
from mayura.runtime.errors import Code

GUARD_TIME_S_MAX: Final = 5.0


async def guard_verdict(
    guards: Sequence[Guard], value: JsonValue, call: Call, boundary: Boundary
) -> Code | None:
    """None if every guard allowed the value; else GUARD_BLOCKED or GUARD_UNAVAILABLE.

    A guard that said no weighs more than one that did not answer.
    """
    about = GuardContext(call.run_id, call.call_id, call.scope, boundary)
    verdicts = await asyncio.gather(*(_ask(guard, value, about) for guard in guards))
    for code in (Code.GUARD_BLOCKED, Code.GUARD_UNAVAILABLE):
        if code in verdicts:
            return code
    return None


async def _ask(guard: Guard, value: JsonValue, about: GuardContext) -> Code | None:
    try:
        async with asyncio.timeout(GUARD_TIME_S_MAX):
            answer = guard.check(value, about)
            allowed = await answer if isawaitable(answer) else answer
    except Exception:  # noqa: BLE001 - whatever a guard raises, it did not allow: fail closed
        return Code.GUARD_UNAVAILABLE
    return None if allowed is True else Code.GUARD_BLOCKED
