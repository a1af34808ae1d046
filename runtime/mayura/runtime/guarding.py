"""Asks a tool's guards, all at once, and fails closed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from mayura.runtime.asking import OverTimeError, Threads, ask
from mayura.runtime.call import Call
from mayura.runtime.core.definition import JsonValue
from mayura.runtime.core.guards import Boundary, Guard, GuardContext
from mayura.runtime.errors import Code

_log = logging.getLogger("mayura.tool")

GUARD_TIME_S_MAX: Final = 5.0
GUARD_THREADS_MAX: Final = 32
_threads: Final = Threads("guard", GUARD_THREADS_MAX)


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
    said = await ask(guard.check, value, about, threads=_threads, within_s=GUARD_TIME_S_MAX)
    if said.error is not None:
        what = f"raised {type(said.error).__name__}"
        if isinstance(said.error, OverTimeError):
            what = f"did not answer within {GUARD_TIME_S_MAX:.0f} s"
        text = "call %s: the %s guard %r %s"
        _log.warning(text, about.call_id, about.boundary, guard.name, what)
        return Code.GUARD_UNAVAILABLE
    return None if said.value is True else Code.GUARD_BLOCKED
