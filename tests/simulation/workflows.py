"""The workflows of the simulation: a few of everything, small enough to run thousands of times.

Their tools do nothing by themselves: they ask the provider of the world they run in.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, TypeAlias

from pydantic import BaseModel

from mayura.runtime import Call, Flow, Guard, GuardContext, Policy, Workflow, tool, workflow
from tests.simulation.process import process_here

TIMEOUT_S: Final = 1.0
MARGIN_S: Final = 4.0
COST_MICROS: Final = 10
BUDGET_MICROS: Final = 35
APPROVAL_S: Final = 8.0


class Order(BaseModel):
    """The input of every workflow."""

    subject: str
    other: str
    amount: int
    items: list[int]
    at: datetime
    until: datetime
    wanted: bool


async def ponder(value: object, about: GuardContext) -> bool:
    """A guard that takes its time and says no now and then."""
    return await process_here().world.provider.ponder()


GUARD: Final = Guard("ponder", "1", ponder)


@tool("sim.write", version="1", effects="write", timeout=TIMEOUT_S)
async def write(call: Call, value: int) -> int:
    """Change something outside."""
    return await process_here().world.provider.serve(call)


@tool("sim.charge", version="1", effects="write", timeout=TIMEOUT_S, cost_micros=COST_MICROS)
async def charge(call: Call, value: int) -> int:
    """Change something outside, for money."""
    return await process_here().world.provider.serve(call)


@tool("sim.guarded", version="1", effects="host", timeout=TIMEOUT_S, concurrency=1,
      input_guards=[GUARD], output_guards=[GUARD])  # fmt: skip
async def guarded(call: Call, value: int) -> int:
    """Change something of ours, behind guards, one at a time."""
    return await process_here().world.provider.serve(call)


@tool("sim.pay", version="1", effects="write", timeout=TIMEOUT_S, once="subject")
async def pay(call: Call, subject: str) -> int:
    """Change something outside, once for each subject."""
    return await process_here().world.provider.serve(call, subject)


@tool("sim.read", version="1", effects="read", timeout=TIMEOUT_S)
async def read(call: Call, value: int) -> int:
    """Look at something outside."""
    return await process_here().world.provider.serve(call)


@workflow("sim.chain", version="1")
def chain(flow: Flow, order: Order) -> int:
    """One after the other."""
    first = flow.tool("first", write.on(order.amount))
    second = flow.tool("second", read.on(first.output))
    return flow.tool("third", charge.on(second.output)).output


@workflow("sim.parallel", version="1")
def parallel(flow: Flow, order: Order) -> int:
    """Side by side, and what follows from all of them."""
    steps = [flow.tool(f"p{n}", charge.on(order.amount)) for n in range(3)]
    looked = flow.tool("look", read.on(order.amount))
    flow.join("all", steps)
    return flow.tool("last", guarded.on(looked.output), after=steps).output


@workflow("sim.approved", version="1")
def approved(flow: Flow, order: Order) -> int:
    """A person says yes before money moves, once for each subject."""
    looked = flow.tool("look", read.on(order.amount))
    return flow.tool("pay", pay.on(order.subject), approval=True, after=[looked]).output


@workflow("sim.waits", version="1")
def waits(flow: Flow, order: Order) -> int:
    """A timer, then a signal with a deadline, while something else goes on."""
    timer = flow.timer("timer", order.at)
    signal = flow.signal("signal", int, name="go", deadline=order.until, after=[timer])
    flow.tool("beside", write.on(order.amount))
    return flow.tool("after", charge.on(signal.output)).output


@workflow("sim.asks", version="1")
def asks(flow: Flow, order: Order) -> int:
    """A person's answer is the next step's input."""
    answer = flow.human("ask", int, prompt="How many?", deadline=order.until)
    return flow.tool("write", write.on(answer.output)).output


@workflow("sim.spread", version="1")
def spread(flow: Flow, order: Order) -> list[int | None]:
    """A slot for each item, and a step that is there only if it is wanted."""
    flow.tool("maybe", charge.on(order.amount), when=order.wanted)
    return flow.fan_out("each", write, order.items, max=3).output


@workflow("sim.pays", version="1")
def pays(flow: Flow, order: Order) -> int:
    """Once for each of two subjects, side by side, whatever run asks."""
    flow.tool("too", pay.on(order.other))
    return flow.tool("pay", pay.on(order.subject)).output


AnyWorkflow: TypeAlias = Workflow[Order, int] | Workflow[Order, list[int | None]]

WORKFLOWS: Final[tuple[AnyWorkflow, ...]] = (
    chain, parallel, approved, waits, asks, spread, pays,
)  # fmt: skip
TOOLS: Final = (write, charge, guarded, pay, read)
APPROVED: Final[Mapping[bytes, frozenset[str]]] = {
    approved.definition.digest: frozenset({"pay"}),
}
"""The steps that need a person's yes, by definition."""

POLICY: Final = Policy(
    version="1",
    allow=[grant for one in TOOLS for grant in one.grants],
    budget_micros=BUDGET_MICROS,
    approval_lifetime=APPROVAL_S,
)
