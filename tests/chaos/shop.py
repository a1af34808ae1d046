"""The workflows whose effects are counted, and the tools that write them into the ledger.

A tool finds the ledger and the faults of its process in `here`, which the driver sets first.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from pydantic import BaseModel

from mayura.runtime import Call, Flow, Guard, Policy, Workflow, tool, workflow
from tests.chaos.faults import Faults
from tests.chaos.place import Place

TIMEOUT_S: Final = 0.5
LONG_TIMEOUT_S: Final = 20.0
CHAIN: Final = ("one", "two", "three", "four")


OUTSIDE: Final = """\
printf . >>"{started}"
for _ in $(seq 3000); do [ -e "{released}" ] && break; sleep 0.02; done
echo "{line}" >>"{ledger}"
printf . >>"{acted}"
"""
"""What goes on in a process that a tool started; it gives up waiting after a minute."""


class Order(BaseModel):
    """What a run is for."""

    order_id: str


class Message(BaseModel):
    """What a signal brings: different from every sender, so that readers can be compared."""

    sender: int
    text: str


@dataclass
class Here:
    """What the tools of this process write to, and what happens to it meanwhile."""

    _place: Place | None = None
    faults: Faults = field(default_factory=Faults)

    @property
    def place(self) -> Place:
        assert self._place is not None, "the driver says where it is before it drives"
        return self._place

    def be(self, place: Place, faults: Faults) -> None:
        """Say where this process is."""
        self._place, self.faults = place, faults

    def act(self, call: Call) -> str:
        """The whole of a body: say that it began, then have the effect."""
        self.begin(call)
        return self.finish(call)

    def begin(self, call: Call) -> None:
        self.place.ledger.append("entered", call.call_id)
        self.faults.at("effect.before")

    def finish(self, call: Call) -> str:
        self.place.ledger.append("effect", call.call_id)
        self.faults.at("effect.after")
        return f"{call.call_id} in process {os.getpid()}"


here = Here()
let_pass = Guard("let-pass", "1", lambda _value, _context: True)


@tool("pay", version="1", effects="write", timeout=TIMEOUT_S)
async def pay(call: Call, order: Order) -> str:
    return here.act(call)


@tool("pay.in-a-thread", version="1", effects="write", timeout=TIMEOUT_S)
def pay_in_thread(call: Call, order: Order) -> str:
    return here.act(call)


@tool("pay.once", version="1", effects="write", timeout=TIMEOUT_S, once="order.order_id")
async def pay_once(call: Call, order: Order) -> str:
    """At most once for an order, whatever run it is asked by."""
    return here.act(call)


@tool("look", version="1", effects="read", timeout=TIMEOUT_S)
async def look(call: Call, order: Order) -> str:
    return here.act(call)


@tool("pay.next", version="1", effects="write", timeout=TIMEOUT_S)
async def pay_next(call: Call, before: str) -> str:
    return here.act(call)


@tool("pay.guarded", version="1", effects="write", timeout=TIMEOUT_S, input_guards=[let_pass])
async def pay_guarded(call: Call, before: str) -> str:
    """Its guard has to be waited for, so no completion carries its dispatch."""
    return here.act(call)


@tool("pay.never-ending", version="1", effects="write", timeout=TIMEOUT_S)
async def pay_never_ending(call: Call, order: Order) -> str:
    here.begin(call)
    await asyncio.Event().wait()
    return here.finish(call)


@tool("pay.long", version="1", effects="write", timeout=LONG_TIMEOUT_S)
async def pay_long(call: Call, order: Order) -> str:
    """Takes until the test says that it has seen enough."""
    here.begin(call)
    here.place.gate("begun").arrive()
    await here.place.gate("enough").opened(1, within_s=LONG_TIMEOUT_S)
    return here.finish(call)


@tool("pay.outside", version="1", effects="write", timeout=TIMEOUT_S)
async def pay_outside(call: Call, order: Order) -> str:
    """Starts a process of its own, which has the effect however its parent fares."""
    here.begin(call)
    place = here.place
    acts = OUTSIDE.format(
        started=place.gate("started").path,
        released=place.gate("released").path,
        line=f"effect {call.call_id} 0",
        ledger=place.ledger.path,
        acted=place.gate("acted").path,
    )
    subprocess.Popen(["/bin/sh", "-c", acts], start_new_session=True)  # noqa: ASYNC220
    await asyncio.Event().wait()
    return ""


@tool("collect", version="1", effects="read", timeout=TIMEOUT_S)
async def collect(call: Call, outputs: list[str], message: Message) -> str:
    """What a run came to, in one text that two readers can compare."""
    here.act(call)
    return " | ".join([*outputs, f"{message.sender}: {message.text}"])


@workflow("chaos.pay", version="1")
def paying(flow: Flow, order: Order) -> str:
    return flow.tool("step", pay.on(order)).output


@workflow("chaos.pay-once", version="1")
def paying_once(flow: Flow, order: Order) -> str:
    return flow.tool("step", pay_once.on(order)).output


@workflow("chaos.pay-in-a-thread", version="1")
def paying_in_thread(flow: Flow, order: Order) -> str:
    return flow.tool("step", pay_in_thread.on(order)).output


@workflow("chaos.look", version="1")
def looking(flow: Flow, order: Order) -> str:
    return flow.tool("step", look.on(order)).output


@workflow("chaos.never-ending", version="1")
def never_ending(flow: Flow, order: Order) -> str:
    return flow.tool("step", pay_never_ending.on(order)).output


@workflow("chaos.long", version="1")
def long(flow: Flow, order: Order) -> str:
    return flow.tool("step", pay_long.on(order)).output


@workflow("chaos.outside", version="1")
def outside(flow: Flow, order: Order) -> str:
    return flow.tool("step", pay_outside.on(order)).output


@workflow("chaos.fused-chain", version="1")
def fused_chain(flow: Flow, order: Order) -> str:
    """Each completion commits together with the next dispatch."""
    output = flow.tool(CHAIN[0], pay.on(order)).output
    for name in CHAIN[1:]:
        output = flow.tool(name, pay_next.on(output)).output
    return output


@workflow("chaos.guarded-chain", version="1")
def guarded_chain(flow: Flow, order: Order) -> str:
    """Each completion commits alone, and the next dispatch after it."""
    output = flow.tool(CHAIN[0], pay.on(order)).output
    for name in CHAIN[1:]:
        output = flow.tool(name, pay_guarded.on(output)).output
    return output


@workflow("chaos.waiting-chain", version="1")
def waiting_chain(flow: Flow, order: Order) -> str:
    """Between two calls each kind of wait there is."""
    first = flow.tool("first", pay.on(order))
    agreed = flow.tool("agreed", pay_next.on(first.output), approval=True)
    message = flow.signal("message", Message, after=[agreed])
    timer = flow.timer("timer", datetime(2020, 1, 1, tzinfo=UTC), after=[message])
    return flow.tool("last", pay_next.on(agreed.output), after=[timer]).output


@workflow("chaos.race", version="1")
def racing(flow: Flow, order: Order) -> str:
    """Parallel writes, a write that commits apart, an approval and a signal."""
    writes = [flow.tool(f"write-{n}", pay.on(order)) for n in (1, 2, 3)]
    apart = flow.tool("apart", pay_guarded.on(writes[0].output))
    message = flow.signal("message", Message)
    agreed = flow.tool("agreed", pay_next.on(apart.output), approval=True, after=writes)
    outputs = flow.join("outputs", [*writes, apart, agreed])
    return flow.tool("collect", collect.on(outputs.output, message=message.output)).output


WORKFLOWS: Final[tuple[Workflow[Order, str], ...]] = (
    paying, paying_once, paying_in_thread, looking, never_ending, long, outside, fused_chain,
    guarded_chain, waiting_chain, racing,
)  # fmt: skip
BY_ID: Final = {each.id: each for each in WORKFLOWS}
TOOLS: Final = (
    pay, pay_once, pay_in_thread, look, pay_next, pay_guarded, pay_never_ending, pay_long,
    pay_outside, collect,
)  # fmt: skip
POLICY: Final = Policy(version="1", allow=sorted({g for each in TOOLS for g in each.grants}))
