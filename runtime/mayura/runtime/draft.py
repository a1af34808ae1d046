"""One transition of one run while it is being put together: applied in memory, not yet written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from mayura.runtime.core import transitions as t
from mayura.runtime.core import values
from mayura.runtime.core.altering import altered
from mayura.runtime.core.apply import apply
from mayura.runtime.core.definition import JsonValue
from mayura.runtime.core.digest import chain
from mayura.runtime.core.state import Deadline, Instant, Run
from mayura.runtime.ids import NodeId, Nonce, PayloadName, detail_of
from mayura.runtime.ports import Command, OnceClaim, RunWrite


class Postponed(Exception):
    """This plan cannot share a commit with what the draft already holds: ask in the next one."""


@dataclass(slots=True)
class Draft:
    """Collects what one commit will say. `run` is the state as if it were already committed."""

    before: Run
    now: Instant
    started: float  #: monotonic time before anything was sent (G3)
    run: Run = field(init=False)
    events: list[dict[str, JsonValue]] = field(default_factory=list)
    touched: dict[NodeId, None] = field(default_factory=dict)
    payloads: dict[PayloadName, bytes] = field(default_factory=dict)
    dispatches: list[NodeId] = field(default_factory=list)
    once: OnceClaim | None = None
    once_released: list[bytes] = field(default_factory=list)
    command: Command | None = None

    def __post_init__(self) -> None:
        self.run = self.before

    @property
    def changed(self) -> bool:
        """Whether there is anything to write."""
        return self.run is not self.before or bool(self.payloads) or self.command is not None

    @property
    def moved(self) -> list[NodeId]:
        """The steps that stand elsewhere now: what depends on a step looks at nothing else."""
        before, after = self.before.step, self.run.step
        return [
            node
            for node in self.touched
            if (was := before(node)).status is not (now := after(node)).status
            or was.detail is not now.detail
        ]

    def apply(self, transition: t.Transition) -> None:
        """Apply one transition; raises `IllegalMove` and changes nothing where it is refused."""
        before = self.run
        self.run, events = apply(before, transition)
        self.events.extend(event.as_json() for event in events)
        node: NodeId | None = getattr(transition, "node", None)
        detail: str = getattr(transition, "detail", "")
        if detail:
            self.payloads[detail_of(node)] = values.encode(detail)
        if node is not None:
            if self.run is not before:
                self.touched[node] = None
        elif self.run.steps is not before.steps:
            for name, step in self.run.steps.items():
                if before.steps.get(name) is not step:
                    self.touched[name] = None

    def begin(self, transition: t.Begin, once: OnceClaim | None) -> None:
        """Add a dispatch; a `once` claim travels with no other dispatch (ports.RunWrite)."""
        self.apply(transition)
        self.dispatches.append(transition.node)
        self.once = once

    def carry_out(self, command: Command) -> None:
        """Record the command; a commit carries one."""
        if self.command is not None:
            raise Postponed
        self.command = command

    def mark(self) -> Draft | None:
        """A copy to come back to when a part of the transition is refused; None: the beginning."""
        if not self.changed:
            return None
        copy = replace(
            self,
            events=list(self.events),
            touched=dict(self.touched),
            payloads=dict(self.payloads),
            dispatches=list(self.dispatches),
            once_released=list(self.once_released),
        )
        copy.run = self.run
        return copy

    def back_to(self, mark: Draft | None) -> Draft:
        """The draft as it was when `mark` was made."""
        return Draft(self.before, self.now, self.started) if mark is None else mark

    def build(self, nonce: Nonce) -> RunWrite:
        """The write that makes this transition durable."""
        entries = values.encode(cast(JsonValue, self.events))
        version = self.before.version + 1
        self.run = altered(
            self.run,
            version=version,
            event_seq=self.before.event_seq + len(self.events),
            chain=chain(self.before.chain, self.before.last_at_us, version, entries),
        )
        return RunWrite(
            nonce=nonce,
            before=self.before,
            after=self.run,
            entries=entries,
            touched=tuple(self.touched),
            payloads=tuple(self.payloads.items()),
            dispatches=tuple(self.dispatches),
            once=self.once,
            once_released=tuple(self.once_released),
            command=self.command,
        )


def committed(run: Run, dispatches: Sequence[NodeId], at: Instant) -> Run:
    """The run as the store has it now: with the times that the store gave."""
    if not dispatches:
        return altered(run, last_at_us=at.wall_us)
    steps = dict(run.steps)
    for node in dispatches:
        step = steps[node]
        assert step.dispatch is not None
        settle = Deadline(at.steady_us + step.dispatch.settle_wait_us, at.epoch)
        dispatch = altered(step.dispatch, at_us=at.wall_us, settle=settle)
        steps[node] = altered(step, dispatch=dispatch)
    return altered(run, last_at_us=at.wall_us, steps=steps)
