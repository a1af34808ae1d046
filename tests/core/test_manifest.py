"""Manifests: an exact inverse, every rule checked again, and a digest over what matters."""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any, Final, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayura.runtime.core.definition import (
    Binding,
    Constant,
    Definition,
    FanOut,
    FromInput,
    FromStep,
    GuardSpec,
    HumanNode,
    JoinNode,
    JsonValue,
    Node,
    Path,
    SignalNode,
    TimerNode,
    ToolNode,
    ToolSpec,
)
from mayura.runtime.core.graph import assemble
from mayura.runtime.core.manifest import definition_digest, from_manifest, to_manifest
from mayura.runtime.core.mistake import DefinitionError
from mayura.runtime.core.values import decode, encode
from mayura.runtime.ids import NodeId
from tests.core.examples import STRANGERS
from tests.core.golden_types import all_kinds

JSON: st.SearchStrategy[JsonValue] = st.sampled_from(
    [None, False, 0, -0.5, "", "x", [], {}, {"a": [1, None, {"b": "\u00e4"}]}]
)
NAMES = st.sampled_from(["a", "b", "b.2", "b.10", "c1", "d", "e.f"])
PATHS: st.SearchStrategy[Path] = st.lists(NAMES | st.integers(0, 9), max_size=3).map(tuple)
GUARDS = st.lists(NAMES, max_size=2, unique=True).map(
    lambda names: tuple(GuardSpec(name, "1") for name in sorted(names))
)
TOOLS = st.builds(
    ToolSpec,
    id=NAMES,
    version=NAMES,
    effects=st.sampled_from(["none", "read", "write", "host"]),
    capabilities=st.lists(NAMES, max_size=2).map(tuple),
    cost_micros=st.integers(0, 10**9),
    timeout_ms=st.integers(1, 10**9),
    input_schema=JSON,
    output_schema=JSON,
    once=st.lists(PATHS, max_size=2).map(tuple),
    key_lifetime_ms=st.none() | st.integers(1, 10**9),
    absent_after_ms=st.none() | st.integers(1, 10**9),
    lookup=st.booleans(),
    input_guards=GUARDS,
    output_guards=GUARDS,
)


@st.composite
def definitions(draw: st.DrawFn) -> Definition:
    """Any definition that keeps the rules."""
    names = draw(st.lists(NAMES, min_size=1, max_size=6, unique=True))
    specs = draw(st.lists(TOOLS, min_size=1, max_size=3, unique_by=lambda spec: spec.id))
    nodes: list[Node] = []
    for name in names:
        earlier = [node.id for node in nodes]
        needed = draw(st.lists(st.sampled_from(earlier), unique=True)) if earlier else []
        nodes.append(draw(_nodes(NodeId(name), tuple(needed), specs)))
    result = draw(_bindings(tuple(node.id for node in nodes)))
    return assemble(draw(NAMES), draw(NAMES), draw(JSON), draw(JSON), nodes, result)


def _bindings(needed: tuple[NodeId, ...]) -> st.SearchStrategy[Binding]:
    kinds: list[st.SearchStrategy[Binding]] = [
        st.builds(Constant, JSON),
        st.builds(FromInput, PATHS),
    ]
    if needed:
        kinds.append(st.builds(FromStep, st.sampled_from(needed), PATHS))
    return st.one_of(kinds)


@st.composite
def _nodes(
    draw: st.DrawFn, name: NodeId, needed: tuple[NodeId, ...], specs: list[ToolSpec]
) -> Node:
    bound = _bindings(needed)
    when = draw(st.none() | bound)
    kind = draw(st.sampled_from(["tool", "join", "human", "timer", "signal"]))
    if kind == "join" and needed:
        return JoinNode(name, needed, draw(st.permutations(needed).map(tuple)), when)
    if kind == "human":
        corrects = draw(st.booleans())
        return HumanNode(
            id=name,
            depends_on=needed,
            kind="correction" if corrects else draw(st.sampled_from(ANSWERS)),
            schema_id=draw(NAMES),
            schema=draw(JSON),
            prompt=draw(NAMES),
            context=draw(st.none() | bound),
            subject_digest=draw(bound) if corrects else None,
            deadline=draw(st.none() | bound),
            when=when,
        )
    if kind == "timer":
        return TimerNode(name, needed, draw(bound), when)
    if kind == "signal":
        return SignalNode(name, needed, name, draw(JSON), draw(st.none() | bound), when)
    inputs = draw(st.dictionaries(NAMES, bound, max_size=3))
    fan_out = st.builds(FanOut, bound, st.integers(1, 64), st.sampled_from(["fail", "ignore"]))
    return ToolNode(
        id=name,
        depends_on=needed,
        tool=draw(st.sampled_from(specs)),
        inputs=tuple(sorted(inputs.items())),
        approval=draw(st.booleans()),
        when=when,
        fan_out=draw(st.none() | fan_out),
    )


ANSWERS: Final[list[Literal["information", "plan_selection"]]] = ["information", "plan_selection"]


@given(definitions())
def test_a_manifest_is_an_exact_inverse(definition: Definition) -> None:
    stored = encode(to_manifest(definition))
    again = from_manifest(decode(stored))
    assert again == definition
    assert again.digest == definition.digest == definition_digest(definition)
    assert encode(to_manifest(again)) == stored


@given(definitions(), st.randoms(use_true_random=False))
def test_nodes_have_one_order_however_they_are_written(
    definition: Definition, randomness: Random
) -> None:
    manifest: Any = copy.deepcopy(to_manifest(definition))
    randomness.shuffle(manifest["nodes"])
    assert from_manifest(manifest) == definition
    seen: set[NodeId] = set()
    for node in definition.nodes:
        assert set(node.depends_on) <= seen
        seen.add(node.id)
        assert all(node.id in definition.dependents[needed] for needed in node.depends_on)


MANIFEST: Final[Any] = to_manifest(all_kinds.definition)


def places(value: JsonValue, path: Path = ()) -> list[Path]:
    """Where there is something in a JSON value."""
    members: dict[Any, JsonValue] = {}
    if isinstance(value, dict | list):
        members = value if isinstance(value, dict) else dict(enumerate(value))
    return [path, *(p for key, member in members.items() for p in places(member, (*path, key)))]


STRUCTURE: Final = [
    path
    for path in places(MANIFEST)
    if path and not {"input", "output", "schema", "constant"} & set(path[:-1])
]


@given(st.sampled_from(STRUCTURE), STRANGERS, st.booleans())
def test_a_manifest_that_nothing_wrote_is_refused_or_is_another_definition(
    path: Path, stranger: JsonValue, drop: bool
) -> None:
    """Never a crash, and never the same digest for something else."""
    manifest = copy.deepcopy(MANIFEST)
    parent = manifest
    for key in path[:-1]:
        parent = parent[key]
    if drop:
        del parent[path[-1]]
    else:
        parent[path[-1]] = stranger
    try:
        definition = from_manifest(manifest)
    except DefinitionError:
        return
    assert (definition == all_kinds.definition) == (manifest == MANIFEST)


def edited(edit: Callable[[Any], object]) -> DefinitionError:
    manifest = copy.deepcopy(MANIFEST)
    edit({node["id"]: node for node in manifest["nodes"]} | {"manifest": manifest})
    with pytest.raises(DefinitionError) as caught:
        from_manifest(manifest)
    return caught.value


BROKEN: Final[list[tuple[str, Callable[[Any], object], str]]] = [
    ("format", lambda m: m["manifest"].update(format=2), "manifest.format"),
    ("surplus", lambda m: m["manifest"].update(more=1), "manifest.more is not a field"),
    ("no nodes", lambda m: m["manifest"].update(nodes=[]), "no nodes"),
    (
        "duplicate",
        lambda m: m["manifest"]["nodes"].append(m["ask"]),
        "node 'ask': two nodes have this id",
    ),
    ("unknown", lambda m: m["ask"].update(depends_on=["prise"]), "did you mean 'price'"),
    ("twice", lambda m: m["paid"].update(depends_on=["ask", "ask"]), "depends on a node twice"),
    ("itself", lambda m: m["pause"].update(depends_on=["pause"]), "depends on itself"),
    ("circle", lambda m: m["price"].update(depends_on=["again"]), "in a circle: again, ask, "),
    ("binding", lambda m: m["ask"].update(depends_on=[]), "node 'ask' context: takes 'price'"),
    ("slot", lambda m: m["both"].update(depends_on=["price"]), "joins a step it does not depend"),
    ("join", lambda m: m["both"].update(slots=[]), "joins one or more"),
    ("tool", lambda m: m["manifest"]["tools"].pop("orders.pack"), "tool 'orders.pack'"),
    ("id", lambda m: m["pause"].update(id="a b"), "a node id is a letter"),
    ("kind", lambda m: m["pause"].update(kind="sleep"), "manifest.nodes"),
    ("fan-out", lambda m: m["pack.1"]["fan_out"].update(max=65), "node 'pack.1' max"),
    ("prompt", lambda m: m["ask"].update(prompt="x" * 1025), "a prompt's length"),
    ("result", lambda m: m["manifest"].update(result={"step": "x", "path": []}), "result: takes"),
    ("index", lambda m: m["manifest"].update(result={"input": [-1]}), "manifest.result"),
    ("effects", lambda m: m["manifest"]["tools"]["orders.pack"].update(effects="x"), "effects"),
    (
        "constant",
        lambda m: m["manifest"].update(result={"constant": float("nan")}),
        "not a finite number",
    ),
]


@pytest.mark.parametrize(
    ("edit", "said"),
    [(edit, said) for _, edit, said in BROKEN],
    ids=[name for name, _, _ in BROKEN],
)
def test_every_rule_is_checked_again(edit: Callable[[Any], object], said: str) -> None:
    assert said in str(edited(edit))


@pytest.mark.parametrize("manifest", [None, [], {}, "x", 1])
def test_what_is_no_manifest_at_all_is_refused(manifest: JsonValue) -> None:
    with pytest.raises(DefinitionError, match=r"^stored definition: manifest"):
        from_manifest(manifest)
