"""Bindings against values: the part that was named, or a name for what is missing."""

from __future__ import annotations

from typing import Final

import pytest

from mayura.runtime.core.binding import Unresolved, resolve
from mayura.runtime.core.definition import Binding, Constant, FromInput, FromStep, JsonValue
from mayura.runtime.ids import NodeId

INPUT: Final[JsonValue] = {"order": {"lines": [{"sku": "a"}, None]}, "0": "text", "none": None}
OUTPUTS: Final[dict[NodeId, JsonValue]] = {
    NodeId("list"): [1, [2, 3], None],
    NodeId("bypassed"): None,
}
LIST, BYPASSED = NodeId("list"), NodeId("bypassed")


def read(binding: Binding) -> JsonValue:
    return resolve(binding, INPUT, OUTPUTS.__getitem__)


@pytest.mark.parametrize(
    ("binding", "value"),
    [
        (Constant([1, None]), [1, None]),
        (FromInput(), INPUT),
        (FromInput(("order", "lines", 0, "sku")), "a"),
        (FromInput(("order", "lines", 1)), None),
        (FromInput(("0",)), "text"),
        (FromInput(("none",)), None),
        (FromStep(LIST), [1, [2, 3], None]),
        (FromStep(LIST, (1, 1)), 3),
        (FromStep(BYPASSED), None),
    ],
)
def test_a_binding_reads_the_part_it_names(binding: Binding, value: JsonValue) -> None:
    assert read(binding) == value


@pytest.mark.parametrize(
    ("binding", "place"),
    [
        (FromInput(("order", "line")), "input.order.line"),
        (FromInput(("order", "lines", 2)), "input.order.lines[2]"),
        (FromInput(("order", "lines", "0")), "input.order.lines.0"),
        (FromInput((0,)), "input[0]"),
        (FromInput(("0", 0)), "input.0[0]"),
        (FromInput(("none", "x")), "input.none.x"),
        (FromStep(LIST, (0, "x")), "list.output[0].x"),
        (FromStep(BYPASSED, ("x",)), "bypassed.output.x"),
    ],
)
def test_a_part_that_is_not_there_is_named(binding: Binding, place: str) -> None:
    with pytest.raises(Unresolved) as caught:
        read(binding)
    assert str(caught.value) == f"{place} does not exist"
