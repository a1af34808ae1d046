"""Named places where a test may stop, kill or delay this process; free when nobody asked.

Each name is used in one place and killed at by a chaos test.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping

WRITE_KINDS = ("dispatch", "receipt", "completion", "settle")
NAMES = (
    *(f"{kind}.{when}" for kind in WRITE_KINDS for when in ("before_commit", "committed")),
    "check.before",
    "check.passed",
    "tool.entered",
    "tool.returned",
)

Hook = Callable[[str], Awaitable[None]]
_hooks: list[Hook] = []


def arm(hook: Hook | None) -> None:
    """Let `hook` be awaited at every fault point of this process; None disarms."""
    _hooks[:] = [] if hook is None else [hook]


async def faultpoint(name: str) -> None:
    """A no-op unless a test armed it."""
    for hook in _hooks:
        await hook(name)


async def write_faultpoints(when: str, events: Iterable[Mapping[str, object]]) -> None:
    """The fault points of one commit: a fused one passes those of each of its parts."""
    if not _hooks:
        return
    types = {event["type"] for event in events}
    completes = types & {"step.succeeded", "step.failed", "step.blocked", "step.unknown"}
    kinds = {
        "dispatch": "step.dispatching" in types,
        "receipt": "step.receipt" in types and not completes,
        "completion": bool(completes),
        "settle": "step.abandoned" in types,
    }
    for kind in WRITE_KINDS:
        if kinds[kind]:
            await faultpoint(f"{kind}.{when}")
