"""The shop whose runs the tests drive: its tools, and a ledger of what they truly did.

The ledger lies outside the system: it counts every entry of a tool's body by call id. What a body
does is said per step (`LEDGER.does`); by default it returns the step's name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypedDict, Unpack, cast

from pydantic import BaseModel

from mayura.runtime import (
    Call,
    Flow,
    Guard,
    Person,
    Policy,
    Refusal,
    Tool,
    Workflow,
    tool,
    workflow,
)
from mayura.runtime.core.definition import Effects, JsonValue
from mayura.runtime.ids import CallId

BUDGET_MICROS = 1_000_000

Body = Callable[[Call], object]


class Ledger:
    """Which bodies were entered, and what they do."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything: a new test begins."""
        self.entered: list[CallId] = []
        self.calls: dict[str, Call] = {}  #: the last call of each step
        self.inputs: dict[str, object] = {}
        self._bodies: dict[str, Body] = {}
        self._began: dict[str, asyncio.Event] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Bodies in threads tell this loop that they were entered."""
        self._loop = loop

    def does(self, node: str, body: Body) -> None:
        """Let the body of step `node` do this, and return what it returns."""
        self._bodies[node] = body

    def began(self, node: str) -> asyncio.Event:
        """Set once the body of step `node` was entered."""
        return self._began.setdefault(node, asyncio.Event())

    def of(self, node: str) -> list[CallId]:
        """The entries of step `node`, over all runs."""
        return [call for call in self.entered if call.partition("/step:")[2] == node]

    def perform(self, call: Call, value: object) -> object:
        """What the shop's tools do: enter the call, then do what was said of its step."""
        node = call.call_id.partition("/step:")[2]
        self.entered.append(call.call_id)
        self.calls[node] = call
        self.inputs[node] = value
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self.began(node).set)
        body = self._bodies.get(node)
        return node if body is None else body(call)


LEDGER = Ledger()


class ToolSettings(TypedDict, total=False):
    """What a tool may be declared with beside its id and effects."""

    capabilities: Sequence[str]
    cost_micros: int
    timeout: float
    once: str
    input_guards: Sequence[Guard]
    output_guards: Sequence[Guard]
    concurrency: int


class PolicySettings(TypedDict, total=False):
    """What a policy may say beside its grants."""

    version: str
    budget_micros: int
    output_bytes_max: int
    approval_lifetime: float
    unverified_people: bool
    separation_of_duties: bool


def acting(
    tool_id: str = "shop.act", *, effects: Effects = "write", **options: Unpack[ToolSettings]
) -> Tool[[str], str]:
    """A tool on the loop that does what the ledger says."""

    @tool(tool_id, version="1", effects=effects, **options)
    async def act(call: Call, order: str) -> str:
        done = LEDGER.perform(call, order)
        return cast(str, await done if isinstance(done, Awaitable) else done)

    return act


def acting_in_thread(
    tool_id: str = "shop.act", *, effects: Effects = "write", **options: Unpack[ToolSettings]
) -> Tool[[str], str]:
    """A plain function that does what the ledger says."""

    @tool(tool_id, version="1", effects=effects, **options)
    def act(call: Call, order: str) -> str:
        return cast(str, LEDGER.perform(call, order))

    return act


def collecting(
    tool_id: str = "shop.collect", **options: Unpack[ToolSettings]
) -> Tool[[list[str]], str]:
    """A tool that takes what several steps put out."""

    @tool(tool_id, version="1", effects="none", **options)
    async def collect(call: Call, parts: list[str]) -> str:
        LEDGER.perform(call, parts)
        return ",".join(parts)

    return collect


def one_step(
    acts: Tool[[str], str], *, approval: bool = False, name: str = "shop.one", version: str = "1"
) -> Workflow[str, str]:
    """A workflow of one step, `act`."""

    @workflow(name, version=version)
    def one(flow: Flow, order: str) -> str:
        return flow.tool("act", acts.on(order), approval=approval).output

    return one


def two_steps(
    first: Tool[[str], str],
    then: Tool[[str], str] | None = None,
    *,
    approval: bool = False,
    name: str = "shop.two",
) -> Workflow[str, str]:
    """`first`, and `then` with its output; `approval` is about the second."""
    second = first if then is None else then

    @workflow(name, version="1")
    def two(flow: Flow, order: str) -> str:
        begun = flow.tool("first", first.on(order))
        return flow.tool("then", second.on(begun.output), approval=approval).output

    return two


def side_by_side(
    acts: Tool[[str], str], count: int, *, name: str = "shop.many"
) -> Workflow[str, list[str]]:
    """`count` steps `s1`, `s2` ... that wait for nothing, and their join."""

    @workflow(name, version="1")
    def many(flow: Flow, order: str) -> list[str]:
        steps = [flow.tool(f"s{number + 1}", acts.on(order)) for number in range(count)]
        return flow.join("all", steps).output

    return many


def chain_of(acts: Tool[[str], str], count: int, *, name: str = "shop.chain") -> Workflow[str, str]:
    """`count` steps `s1`, `s2` ... each after the one before."""

    @workflow(name, version="1")
    def chain(flow: Flow, order: str) -> str:
        last = order
        for number in range(count):
            last = flow.tool(f"s{number + 1}", acts.on(last)).output
        return last

    return chain


def grants_of(*workflows: Workflow[Any, Any]) -> list[str]:
    """Everything that the tools of these workflows need."""
    return [grant for each in workflows for one in each.tools.values() for grant in one.grants]


def policy_for(*workflows: Workflow[Any, Any], **settings: Unpack[PolicySettings]) -> Policy:
    """A policy that lets these workflows run."""
    wanted: PolicySettings = {"version": "1", "budget_micros": BUDGET_MICROS, **settings}
    return Policy(allow=grants_of(*workflows), **wanted)


def people(credential: str) -> Person | None:
    """Whom the shop knows: a credential is `key-of-<person>`."""
    known, _, person = credential.partition("key-of-")
    return Person(id=person, issuer="shop", method="key") if not known and person else None


# --- what a body may do -------------------------------------------------------------------------


def raising(error: BaseException) -> Body:
    """A body that raises."""

    def body(call: Call) -> object:
        raise error

    return body


def refusing(reason: str = "It is sold out.") -> Body:
    """A body that decides not to act."""
    return raising(Refusal(reason))


def waiting_for(event: asyncio.Event, result: str = "late") -> Body:
    """A body that ends when the test says so."""

    async def body(call: Call) -> str:
        await event.wait()
        return result

    return body


def reporting(known: int, unknown: int = 0, *, then: Body | None = None) -> Body:
    """A body that says what it cost."""

    def body(call: Call) -> object:
        call.report_usage(known, unknown)
        return "reported" if then is None else then(call)

    return body


class Order(BaseModel):
    """What a customer wants."""

    order_id: str
    amount_cents: int = 100


def plain(value: BaseModel) -> JsonValue:
    """A model as JSON."""
    return cast(JsonValue, value.model_dump(mode="json"))
