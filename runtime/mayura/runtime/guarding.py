"""Asks a tool's guards, all at once, and fails closed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from inspect import isawaitable
from typing import Final

from mayura.runtime.call import Call
from mayura.runtime.core.definition import JsonValue
from mayura.runtime.core.guards import Boundary, Guard, GuardContext
from mayura.runtime.errors import Code

_log = logging.getLogger("mayura.tool")

GUARD_TIME_S_MAX: Final = 5.0
_late: Final[set[asyncio.Task[Code | None]]] = set()  #: guards that ignore being stopped


async def guard_verdict(
    guards: Sequence[Guard], value: JsonValue, call: Call, boundary: Boundary
) -> tuple[Code, str] | None:
    """None if every guard allowed the value; else GUARD_BLOCKED or GUARD_UNAVAILABLE, and whose.

    A guard that said no weighs more than one that did not answer.
    """
    about = GuardContext(call.run_id, call.call_id, call.scope, boundary)
    verdicts = await asyncio.gather(*(_ask(guard, value, about) for guard in guards))
    for code in (Code.GUARD_BLOCKED, Code.GUARD_UNAVAILABLE):
        if names := [
            repr(g.name) for g, said in zip(guards, verdicts, strict=True) if said is code
        ]:
            return code, f"{boundary} guard {', '.join(names)}"
    return None


async def _ask(guard: Guard, value: JsonValue, about: GuardContext) -> Code | None:
    """The guard's answer, or GUARD_UNAVAILABLE when its time is over, whatever it does then."""
    asked = asyncio.get_running_loop().create_task(_answer(guard, value, about))
    _late.add(asked)
    asked.add_done_callback(_late.discard)
    try:
        await asyncio.wait({asked}, timeout=GUARD_TIME_S_MAX)
    finally:
        asked.cancel()
    return asked.result() if asked.done() else Code.GUARD_UNAVAILABLE


async def _answer(guard: Guard, value: JsonValue, about: GuardContext) -> Code | None:
    try:
        answer = guard.check(value, about)
        allowed = await answer if isawaitable(answer) else answer
    except BaseException as raised:  # noqa: BLE001 - whatever it raises, it did not allow: fail closed
        text = "call %s: the %s guard %r raised %s"
        _log.warning(text, about.call_id, about.boundary, guard.name, type(raised).__name__)
        return Code.GUARD_UNAVAILABLE
    return None if allowed is True else Code.GUARD_BLOCKED
