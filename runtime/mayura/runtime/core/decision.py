"""`decide`: what a run does next. All the branching is here; the leaves answer one question each.

Pure and total: it reads no clock, no random number and no store. What it may not do by itself
(name a dispatch, wait for a guard or a slot) it hands back as `Ready`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from mayura.runtime.core import deadlines, outcome, requests, values
from mayura.runtime.core import transitions as t
from mayura.runtime.core.binding import Unresolved
from mayura.runtime.core.budget import affordable, shortage
from mayura.runtime.core.code import Code as TypeCode
from mayura.runtime.core.code import Invalid
from mayura.runtime.core.definition import (
    Binding,
    Constant,
    Definition,
    FanOut,
    HumanNode,
    JoinNode,
    JsonValue,
    Node,
    SignalNode,
    TimerNode,
    ToolNode,
)
from mayura.runtime.core.policy import Policy
from mayura.runtime.core.reading import Reading, payload_of, read_by, sources
from mayura.runtime.core.state import (
    TERMINAL_STEPS,
    Approval,
    Instant,
    Question,
    Run,
    Signal,
    Step,
    StepStatus,
    Timer,
)
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import NodeId, Nonce, PayloadName

SATISFIED = (StepStatus.SUCCEEDED, StepStatus.BYPASSED)


@dataclass(frozen=True, slots=True)
class Ready:
    """A call that may be dispatched once everything that can wait or refuse has said yes (G3).

    With `ask`, a person is asked first; only the `once` lookup stands before that (G16).
    """

    node: ToolNode
    input: JsonValue
    digest: bytes
    ask: t.RequestApproval | None = None


@dataclass(frozen=True, slots=True)
class View:
    """Everything `decide` may look at. `code` is None where the definition is not loaded (G12)."""

    definition: Definition
    policy: Policy
    code: TypeCode | None
    run: Run
    payloads: Mapping[PayloadName, JsonValue]
    now: Instant
    own: Collection[Nonce] = ()  #: calls this process still has in hand (G9)


@dataclass(slots=True)
class Decision:
    """What follows now, and what may follow once it is admitted."""

    transitions: list[t.Transition] = field(default_factory=list)
    ready: list[Ready] = field(default_factory=list)
    unstarted: bool = False  #: a step could begin where the code is loaded


def wanted(definition: Definition, run: Run, nodes: Iterable[NodeId]) -> frozenset[PayloadName]:
    """The payloads that deciding about `nodes` reads: load those, and only those."""
    names: set[PayloadName] = set()
    if run.cancelled or run.paused_at_us is not None:
        return frozenset()
    for name in nodes:
        node = definition.index[name]
        step = run.step(name)
        if step.status is StepStatus.PENDING and _standing(node, run) is _DONE:
            names.update(sources(definition, run, read_by(node)))
        payload = payload_of(node)
        if payload is not None and _answered(step) and step.status not in TERMINAL_STEPS:
            names.add(payload)
    return frozenset(names)


def decide(view: View, nodes: Iterable[NodeId]) -> Decision:
    """What the steps `nodes` do next, in their order in the definition."""
    decision = Decision()
    for name in nodes:
        node = view.definition.index[name]
        step = view.run.step(name)
        if step.status in TERMINAL_STEPS:
            if _skipped_for_nothing(node, step, view.run):
                decision.transitions.append(t.Reopen(name))
        elif step.status is StepStatus.DISPATCHING:
            decision.transitions.extend(_abandoned(view, node, step))
        elif view.run.cancelled:
            decision.transitions.append(t.Skip(name, None))
        elif view.run.paused_at_us is None:
            _open_step(view, node, step, decision)
    return decision


_OPEN, _DONE = object(), object()


def _skipped_for_nothing(node: Node, step: Step, run: Run) -> bool:
    """Whether what the step was skipped for has been resolved; what a cancel skipped stays."""
    undone = step.status is StepStatus.SKIPPED and step.dispatch is None and not run.cancelled
    return undone and not isinstance(_standing(node, run), str)


def _standing(node: Node, run: Run) -> NodeId | object:
    """`_OPEN`, `_DONE`, or the dependency that did not succeed."""
    open_ = False
    for name in node.depends_on:
        status = run.step(name).status
        if status not in TERMINAL_STEPS:
            open_ = True
        elif status not in SATISFIED:
            return name
    return _OPEN if open_ else _DONE


def _open_step(view: View, node: Node, step: Step, decision: Decision) -> None:
    if step.status is StepStatus.WAITING:
        moves = tuple(_waiting(view, node, step))
        decision.transitions.extend(moves)
        decision.unstarted = decision.unstarted or (not moves and _answered(step))
        return
    standing = _standing(node, view.run)
    if standing is _OPEN:
        return
    if standing is not _DONE:
        assert isinstance(standing, str)
        decision.transitions.append(t.Skip(node.id, NodeId(standing)))
        return
    if view.code is None:
        decision.unstarted = True
        return
    if isinstance(node, ToolNode):
        reading = Reading(view.definition, view.run, view.payloads)
        if _left_out(node, reading):
            decision.transitions.append(t.Bypass(node.id))
            return
        found = _tool(view, node, step, reading)
        if isinstance(found, Ready):
            decision.ready.append(found)
        else:
            decision.transitions.append(found)
        return
    decision.transitions.extend(_begin(view, node))


def _left_out(node: Node, reading: Reading) -> bool:
    if node.when is None:
        return False
    try:
        value = reading.resolve(node.when)
    except Unresolved:
        return True
    return value is None or value is False


def _tool(view: View, node: ToolNode, step: Step, reading: Reading) -> t.Transition | Ready:
    unfilled = None if node.fan_out is None else _unfilled(node, node.fan_out, reading)
    if unfilled is not None:
        return unfilled
    missing = view.policy.missing(node.tool)
    if missing:
        lacks = f"the policy lacks {', '.join(missing)}"
        return t.Block(node.id, Code.PERMISSION_DENIED, lacks)
    try:
        assert view.code is not None
        bound: dict[str, JsonValue] = {name: reading.resolve(b) for name, b in node.inputs}
        value = view.code.check_tool_input(node.id, bound)
        stored = values.encode(value)
    except (Invalid, Unresolved) as invalid:
        return t.Fail(node.id, Code.INVALID_INPUT, str(invalid))
    except MayuraError as invalid:
        return t.Fail(node.id, invalid.code, str(invalid))
    if len(stored) > view.policy.output_bytes_max:
        detail = f"the input has {len(stored)} bytes; the limit is {view.policy.output_bytes_max}"
        return t.Fail(node.id, Code.LIMIT_EXCEEDED, detail)
    digest = requests.input_digest(view.run, stored)
    ask: t.RequestApproval | None = None
    if node.approval:
        approval = step.detail if isinstance(step.detail, Approval) else None
        if approval is None:
            ask = _request(view, node, digest)
        elif view.now.wall_us >= requests.approved_until_us(approval, view.policy):
            return t.LapseApproval(node.id)
    if ask is not None and not node.tool.once:
        return ask
    if ask is None and not affordable(view.run, node.tool.cost_micros):
        asked = shortage(view.run, node.tool.cost_micros)
        return t.Block(node.id, Code.BUDGET_EXCEEDED, asked)
    return Ready(node, value, digest, ask)


def _unfilled(node: ToolNode, fan_out: FanOut, reading: Reading) -> t.Fail | t.Bypass | None:
    """Why a slot of a fan-out makes no call: there is no item for it, or there are too many.

    Items beyond the slots fail every slot before anything acts, instead of vanishing.
    """
    try:
        items = reading.resolve(fan_out.items)
    except Unresolved as unresolved:
        return t.Fail(node.id, Code.INVALID_INPUT, str(unresolved))
    if not isinstance(items, list):
        return t.Fail(node.id, Code.INVALID_INPUT, "the items of a fan-out are an array")
    if fan_out.surplus == "fail" and len(items) > fan_out.max:
        detail = f"{len(items)} items for {fan_out.max} slots; raise max or cap the array"
        return t.Fail(node.id, Code.LIMIT_EXCEEDED, detail)
    beyond = any(_beyond(binding, fan_out, len(items)) for _, binding in node.inputs)
    return t.Bypass(node.id) if beyond else None


def _beyond(binding: Binding, fan_out: FanOut, count: int) -> bool:
    """Whether `binding` takes an item after the last of `count`."""
    if isinstance(binding, Constant) or not binding.path:
        return False
    place = binding.path[-1]
    whole = replace(binding, path=binding.path[:-1])
    return whole == fan_out.items and isinstance(place, int) and place >= count


def _request(view: View, node: ToolNode, digest: bytes) -> t.RequestApproval:
    expires_at_us = view.now.wall_us + view.policy.approval_lifetime_ms * 1_000
    bound = requests.approval_digest(view.run, node, digest, expires_at_us)
    return t.RequestApproval(node.id, bound, expires_at_us)


def _begin(view: View, node: Node) -> Iterator[t.Transition]:
    """A join, question, timer or signal whose dependencies are done."""
    reading = Reading(view.definition, view.run, view.payloads)
    if _left_out(node, reading):
        yield t.Bypass(node.id)
        return
    try:
        match node:
            case JoinNode():
                yield t.Join(node.id)
            case TimerNode():
                yield t.StartTimer(node.id, deadlines.parse(reading.resolve(node.fire_at)))
            case SignalNode():
                yield t.AwaitSignal(node.id, _deadline(reading, node.deadline))
            case HumanNode():
                yield _ask(view, node, reading)
            case ToolNode():
                raise AssertionError("tool steps are decided by _tool")
    except (Invalid, Unresolved) as invalid:
        yield t.Fail(node.id, Code.INVALID_INPUT, str(invalid))
    except MayuraError as invalid:
        yield t.Fail(node.id, invalid.code, str(invalid))


def _deadline(reading: Reading, binding: Binding | None) -> int | None:
    if binding is None:
        return None
    value = reading.resolve(binding)
    return None if value is None else deadlines.parse(value)


def _ask(view: View, node: HumanNode, reading: Reading) -> t.Ask:
    context = None if node.context is None else reading.resolve(node.context)
    subject = None if node.subject_digest is None else reading.resolve(node.subject_digest)
    deadline_us = _deadline(reading, node.deadline)
    digest = requests.question_digest(view.run, node, context, subject, deadline_us)
    return t.Ask(node.id, digest, deadline_us)


def _waiting(view: View, node: Node, step: Step) -> Iterator[t.Transition]:
    now_us = view.now.wall_us
    due_us = deadlines.due_us(step)
    over = due_us is not None and now_us >= due_us
    match step.detail:
        case Approval() if over:
            yield t.LapseApproval(node.id)
        case Timer() if over:
            yield t.Accept(node.id, now_us)
        case Question(answer_digest=digest) if digest is not None:
            yield from _accept(view, node)
        case Signal(received_at_us=received_us) if received_us is not None and (
            due_us is None or received_us < due_us
        ):
            yield from _accept(view, node)
        case Question() | Signal() if over:
            yield t.TimeOut(node.id)
        case _:
            return


def _answered(step: Step) -> bool:
    """Whether an answer or a signal is recorded that only the code can accept (G12)."""
    match step.detail:
        case Question(answer_digest=digest):
            return digest is not None
        case Signal(received_at_us=received_us):
            return received_us is not None
        case _:
            return False


def _accept(view: View, node: Node) -> Iterator[t.Transition]:
    """Validated again by the first advance that has the code (G12)."""
    if view.code is None:
        return
    payload = payload_of(node)
    assert payload is not None
    value = view.payloads[payload]
    try:
        if isinstance(node, HumanNode):
            view.code.check_answer(node.id, value)
        else:
            view.code.check_signal(node.id, value)
    except Invalid as invalid:
        yield t.Fail(node.id, Code.INVALID_INPUT, str(invalid))
        return
    yield t.Accept(node.id, view.now.wall_us)


def _abandoned(view: View, node: Node, step: Step) -> Iterator[t.Transition]:
    dispatch = step.dispatch
    assert dispatch is not None and isinstance(node, ToolNode)
    if dispatch.nonce in view.own or not deadlines.passed(dispatch.settle, view.now):
        return
    yield abandon(node, step)


def abandon(
    node: ToolNode, step: Step, *, command_id: str | None = None, person: t.Person | None = None
) -> t.Abandon:
    """The end of a call that nobody has any more, as its receipt says; `person` may say so (G9)."""
    assert step.dispatch is not None
    found, charge_micros = outcome.abandoned(node.tool, step)
    code = found.code or Code.ABANDONED
    how = (found.status, code, found.acted)
    return t.Abandon(node.id, step.dispatch.nonce, *how, charge_micros, command_id, person)
