"""A `once` subject is looked up before a person is asked, each time somebody is (G16)."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from typing import Any, Literal

from mayura.runtime.admission import Admission
from mayura.runtime.core.decision import Ready
from mayura.runtime.core.definition import ToolNode
from mayura.runtime.core.transitions import RequestApproval
from mayura.runtime.process import Process
from mayura.runtime.slots import Slots
from tests.runtime.shop import acting, one_step
from tests.runtime.world import World, until

ASKING = one_step(acting("shop.refund", once="order"), name="shop.asking", approval=True)


async def found_free(world: World, why: Literal["asking", "refused"]) -> tuple[Admission, Ready]:
    """A step whose subject was looked up before a person is asked, or after a refused commit."""
    told, broken = asyncio.Event(), list[BaseException]()
    process = Process(await world.store(), Slots(1, 1), world.process)
    admission = Admission(process, copy_context(), lambda node: told.set(), broken.append)
    (node,) = ASKING.definition.nodes
    assert isinstance(node, ToolNode)
    ready = Ready(node, "o-1", b"", RequestApproval(node.id, b"", 0))
    if why == "refused":
        admission.refuse_once(node.id, b"subject")
    else:
        assert admits(admission, ready) == "held"
    await until(told)
    assert not broken
    return admission, ready


def admits(admission: Admission, ready: Ready) -> object:
    nothing: Any = None  # a question looks at no more than the subject
    return admission.admit(ready, nothing, nothing, b"subject", nothing)


async def test_each_question_is_preceded_by_a_lookup_of_its_own(world: World) -> None:
    admission, ready = await found_free(world, "asking")
    assert admits(admission, ready) == "go"
    assert admits(admission, ready) == "held"


async def test_a_lookup_that_was_not_for_a_question_lets_nobody_be_asked(world: World) -> None:
    admission, ready = await found_free(world, "refused")
    assert admits(admission, ready) == "held"


async def test_a_question_that_was_not_asked_then_is_preceded_by_another_lookup(
    world: World,
) -> None:
    """The run was paused meanwhile, or its wave lost a race: the subject may be taken by now."""
    admission, ready = await found_free(world, "asking")
    admission.pass_on()
    assert admits(admission, ready) == "held"
