"""The limits of a workflow: each is named when it is passed, and what they allow is accepted."""

from __future__ import annotations

from typing import Any, Final

import pytest

from mayura.runtime import Code, Flow, workflow
from tests.core.shop import NOON, Answer, Charge, Order, pick, reserve, take
from tests.core.test_flow_mistakes import Trace, mistake

LIMITS: Final[list[tuple[str, Trace, str]]] = [
    (
        "nodes",
        lambda f, o: [f.tool(f"n{i}", reserve.on(o)) for i in range(129)],
        "the number of nodes is at most 128",
    ),
    (
        "slots are nodes",
        lambda f, o: [f.fan_out(f"p{i}", pick, o.lines, max=64) for i in range(2)],
        "the number of nodes is at most 128",
    ),
    (
        "humans",
        lambda f, o: [f.human(f"n{i}", bool, prompt="?") for i in range(33)],
        "the number of human nodes is at most 32",
    ),
    (
        "timers",
        lambda f, o: [f.timer(f"n{i}", NOON) for i in range(65)],
        "the number of timers is at most 64",
    ),
    (
        "signals",
        lambda f, o: [f.signal(f"n{i}", int) for i in range(65)],
        "the number of signals is at most 64",
    ),
    ("fan-out", lambda f, o: f.fan_out("p", pick, o.lines, max=65), "a fan-out is at most 64"),
    (
        "prompt",
        lambda f, o: f.human("h", bool, prompt="\u00e4" * 513),
        "a prompt's length is at most 1024 bytes",
    ),
    (
        "depth",
        lambda f, o: f.tool("a", take.on(deep(f.tool("b", take.on(1)).output))),
        "the depth of a binding is at most 32",
    ),
]


def deep(symbol: Any) -> Any:  # noqa: ANN401 - one segment too deep
    for _ in range(33):
        symbol = symbol["a"]
    return symbol


@pytest.mark.parametrize(
    ("trace", "said"),
    [(trace, said) for _, trace, said in LIMITS],
    ids=[name for name, _, _ in LIMITS],
)
def test_a_limit_is_named_when_it_is_passed(trace: Trace, said: str) -> None:
    error = mistake(trace)
    assert error.code is Code.LIMIT_EXCEEDED
    assert said in str(error)


def test_what_the_limits_allow_is_accepted() -> None:
    @workflow("w" * 128, version="v" * 128)
    def large(flow: Flow, order: Order) -> None:
        for i in range(32):
            flow.human(f"h{i}", Answer, prompt="\u00e4" * 512)
        for i in range(14):
            flow.timer(f"t{i}", NOON)
            flow.signal(f"s{i}", Charge)
        flow.fan_out("p", pick, order.lines, max=64)
        flow.join("j" * 128, [flow.signal("last", int)], after=[])

    assert len(large.definition.nodes) == 32 + 28 + 65 + 2
