"""A workflow that would come out otherwise in each process is refused where it is defined."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import uuid4

import pytest

from mayura.runtime import Call, Flow, tool, workflow
from mayura.runtime.core.mistake import DefinitionError
from tests.core.shop import Order, add, pick, reserve, show
from tests.core.test_flow_mistakes import Trace, mistake


def test_what_changes_with_each_definition_is_refused_where_it_stands() -> None:
    """Each process would have a definition of its own, and none could drive another's runs."""
    drawn = iter(range(100))
    later = timedelta(hours=1)
    unstable: list[tuple[Trace, str]] = [
        (lambda f, o: f.timer("t", datetime.now(UTC) + later), "node 't' at"),
        (lambda f, o: f.tool("a", show.on(str(uuid4()))), "node 'a' text"),
        (lambda f, o: f.tool("a", add.on(next(drawn))), "node 'a' left"),
        (lambda f, o: f.tool(f"a{next(drawn)}", reserve.on(o)), "node 'a"),
        (lambda f, o: f.signal("s", int, deadline=datetime.now(UTC) + later), "node 's' deadline"),
        (lambda f, o: f.human("h", bool, prompt=f"No. {next(drawn)}?"), "node 'h' prompt"),
        (lambda f, o: f.human("h", bool, prompt="?", context=next(drawn)), "node 'h' context"),
        (lambda f, o: f.fan_out("p", pick, o.lines, max=next(drawn) + 1), "node 'p"),
    ]
    for trace, where in unstable:
        error = mistake(trace)
        assert where in error.where
        assert "another each time the workflow is defined: take what changes" in error.what


def test_a_result_and_a_tool_that_change_with_each_definition_are_refused() -> None:
    drawn = iter(range(100))

    def resulting(flow: Flow, order: Order) -> int:
        flow.tool("a", reserve.on(order))
        return next(drawn)

    def making(flow: Flow, order: Order) -> str:
        @tool("stock.made", version=str(next(drawn)), effects="read")
        async def made(call: Call, order: Order) -> str:
            raise NotImplementedError

        return flow.tool("a", made.on(order)).output

    with pytest.raises(DefinitionError, match=r"'shop.wrong' result: is another"):
        workflow("shop.wrong", version="1")(resulting)
    with pytest.raises(DefinitionError, match=r"node 'a' tool 'stock.made' version: is another"):
        workflow("shop.wrong", version="1")(making)


def test_a_step_that_was_kept_from_another_tracing_is_no_step() -> None:
    kept: list[Any] = []

    def keeping(flow: Flow, order: Order) -> str:
        kept.append(flow.tool("a", reserve.on(order)))
        return cast(str, kept[0].output)

    with pytest.raises(DefinitionError, match=r"result: takes a step of another tracing"):
        workflow("shop.wrong", version="1")(keeping)
