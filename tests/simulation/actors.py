"""People, other systems and operators: they give commands to some process and want an answer.

An answer that does not come says nothing, so the same command is given again, to whoever lives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Final, cast

from mayura.runtime import Code, Engine, Workflow
from mayura.runtime.core.state import Approval, Question, Run, Signal, Step, StepStatus
from mayura.runtime.ids import NodeId, RunId, Scope, run_id_of
from tests.simulation.process import Heard
from tests.simulation.workflows import WORKFLOWS, AnyWorkflow, Order

if TYPE_CHECKING:
    from tests.simulation.world import World

RUNS_MAX: Final = 3
MOMENT_S: Final = 0.3
REFUSALS: Final = (Code.CONFLICT, Code.NOT_FOUND, Code.STORAGE_UNAVAILABLE)
PEOPLE: Final = ("ada", "bob")


@dataclass(slots=True)
class Intended:
    """A run that somebody wants, and what was acknowledged about it."""

    workflow: AnyWorkflow
    order: Order
    key: str
    accepted: bool = False
    acknowledged: set[tuple[str, str]] = field(default_factory=set)
    """Event types with the command, person or signal that they must name."""

    @property
    def run_id(self) -> RunId:
        return run_id_of(Scope(), self.key)


def intentions(rng: Random, start: datetime) -> list[Intended]:
    """One to three runs, which may be about the same subject."""

    def order(number: int) -> Order:
        at = start + timedelta(seconds=rng.choice((0, 2, 6)))
        return Order(
            subject=rng.choice(("s-1", "s-1", f"s-{number}")),
            other=rng.choice(("o-1", f"o-{number}")),
            amount=number,
            items=list(range(rng.choice((0, 1, 3, 3, 4)))),
            at=at,
            until=at + timedelta(seconds=rng.choice((2, 12))),
            wanted=rng.random() < 0.5,
        )

    many = 1 + int(rng.random() * RUNS_MAX)
    return [Intended(rng.choice(WORKFLOWS), order(n), f"k-{n}") for n in range(many)]


class Actors:
    """Everybody outside; they stop when the story is over."""

    def __init__(self, world: World, rng: Random, intended: list[Intended]) -> None:
        self._world = world
        self._rng = rng
        self._intended = intended
        self._commands = 0
        self.answering = True  #: whether people answer what they are asked

    def start(self) -> None:
        """Let everybody begin."""
        for intended in self._intended:
            self._world.loop.create_task(self._submit(intended))
            if self._rng.random() < 0.4:
                self._world.loop.create_task(self._meddle(intended))
        self._world.loop.create_task(self._answer())

    # --- submitting -------------------------------------------------------------------------

    async def _submit(self, intended: Intended) -> None:
        await self._moment()

        def submit(engine: Engine) -> Awaitable[object]:
            workflow = cast("Workflow[Order, object]", intended.workflow)
            return engine.submit(workflow, intended.order, key=intended.key)

        while not (heard := await self._ask("submits", intended, submit)).acknowledged:
            if heard.code not in (None, Code.STORAGE_UNAVAILABLE):
                self._world.watch.object(f"run {intended.key} was not accepted: {heard.code}")
            await self._moment()
        intended.accepted = True
        if self._rng.random() < 0.3:
            again = await self._ask("submits", intended, submit)
            if again.code not in (None, Code.STORAGE_UNAVAILABLE):
                self._world.watch.object(f"run {intended.key} was not accepted again: {again.code}")
        if self._rng.random() < 0.5:
            await self._ask("drives", intended, lambda e: e.run_until_settled(intended.run_id))

    # --- people and other systems -----------------------------------------------------------

    async def _answer(self) -> None:
        while True:
            await self._moment()
            if not self.answering:
                continue
            for intended in self._intended:
                run = self._world.stored(intended.run_id)
                if run is None or not run.open:
                    continue
                for node in self._world.definition(run).nodes:
                    if self._world.weather.over or self._rng.random() < 0.4:
                        await self._answer_step(intended, run, node.id)

    async def _answer_step(self, intended: Intended, run: Run, node: NodeId) -> None:
        step = run.step(node)
        waiting = step.status is StepStatus.WAITING
        if waiting and isinstance(step.detail, Approval):
            await self._decide(intended, node)
        elif waiting and isinstance(step.detail, Question) and step.detail.answer_digest is None:
            await self._respond(intended, node)
        elif node == "signal" and not _signalled(step) and (waiting or self._rng.random() < 0.2):
            await self._signal(intended)

    async def _decide(self, intended: Intended, node: NodeId) -> None:
        person, yes = self._rng.choice(PEOPLE), self._rng.random() < 0.8
        command = self._command()

        async def decide(engine: Engine) -> None:
            asked = await engine.approval_request(intended.run_id, node)
            say = engine.approve if yes else engine.reject
            await say(intended.run_id, node, asked.digest, credential=person, command_id=command)

        heard = await self._insist("decides", intended, decide)
        if heard.acknowledged:
            kind = "approval.approved" if yes else "approval.rejected"
            intended.acknowledged.add((kind, person))

    async def _respond(self, intended: Intended, node: NodeId) -> None:
        command, value = self._command(), int(self._rng.random() * 9)

        async def respond(engine: Engine) -> None:
            asked = await engine.human_request(intended.run_id, node)
            await engine.respond(
                intended.run_id, node, asked.digest, value, credential="ada", command_id=command
            )

        heard = await self._insist("responds", intended, respond)
        if heard.acknowledged:
            intended.acknowledged.add(("question.answered", command))

    async def _signal(self, intended: Intended) -> None:
        signal_id = self._command()

        def signal(engine: Engine) -> Awaitable[object]:
            return engine.signal(intended.run_id, "go", signal_id, 3)

        if (await self._insist("signals", intended, signal)).acknowledged:
            intended.acknowledged.add(("signal.received", signal_id))

    # --- operators --------------------------------------------------------------------------

    async def _meddle(self, intended: Intended) -> None:
        while not intended.accepted:
            await self._moment()
        await asyncio.sleep(self._rng.random() * 3)
        command = self._command()
        if self._rng.random() < 0.4:
            heard = await self._insist(
                "cancels",
                intended,
                lambda e: e.cancel(intended.run_id, by="op", command_id=command),
            )
            if heard.acknowledged:
                intended.acknowledged.add(("run.cancelled", ""))
            return
        await self._insist(
            "pauses", intended, lambda e: e.pause(intended.run_id, by="op", command_id=command)
        )
        await asyncio.sleep(self._rng.random() * 4)
        resume = self._command()
        await self._insist(
            "resumes", intended, lambda e: e.resume(intended.run_id, by="op", command_id=resume)
        )

    # --- how a command is given -------------------------------------------------------------

    async def _insist(
        self, what: str, intended: Intended, command: Callable[[Engine], Awaitable[object]]
    ) -> Heard:
        """Give a command until there is an answer that says something."""
        while True:
            heard = await self._ask(what, intended, command)
            if heard.acknowledged:
                return heard
            if heard.kind == "error" and heard.code is not Code.STORAGE_UNAVAILABLE:
                if heard.code not in REFUSALS:
                    self._world.watch.object(f"{what} {intended.key}: {heard.code}")
                return heard
            await self._moment()

    async def _ask(
        self, what: str, intended: Intended, command: Callable[[Engine], Awaitable[object]]
    ) -> Heard:
        open_ = [p for p in self._world.processes if p.engine is not None and p.alive]
        if not open_:
            return Heard("nothing")
        process = self._rng.choice(open_)
        heard = await process.ask(command)
        self._world.tell(what, process.number, intended.key, heard.kind, heard.code or "")
        return heard

    async def _moment(self) -> None:
        await asyncio.sleep(self._rng.random() * 2 * MOMENT_S)

    def _command(self) -> str:
        self._commands += 1
        return f"c-{self._commands}"


def _signalled(step: Step) -> bool:
    return isinstance(step.detail, Signal) and step.detail.signal_id is not None
