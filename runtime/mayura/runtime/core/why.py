"""`why`: one sentence that says what a run waits for, or how it came to its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mayura.runtime.core.deadlines import due_us
from mayura.runtime.core.definition import Definition, HumanNode, Node, SignalNode, TimerNode
from mayura.runtime.core.reading import iso
from mayura.runtime.core.state import Acted, Cause, Run, RunStatus, Step, StepStatus
from mayura.runtime.ids import NodeId

_NOTHING: Final[Mapping[NodeId, str]] = {}
_ENDS = {
    RunStatus.SUCCEEDED: "Every step is done.",
    RunStatus.CANCELLED: "It was cancelled.",
}


def why(
    definition: Definition,
    run: Run,
    *,
    accepted: bool,
    keys: Mapping[NodeId, str] = _NOTHING,
    reasons: Mapping[NodeId, str] = _NOTHING,
    reason: str | None = None,
) -> str:
    """What the run waits for now. `accepted`: this process could advance it (G12).

    `keys`: under which the provider knows the calls of its steps, as far as that can be said;
    `reasons`: why its steps did not succeed; `reason`: why its result does not fit.
    """
    steps = [(node, run.step(node.id)) for node in definition.nodes]
    if not run.open:
        return _end(run, steps, keys, reasons, reason)
    if run.paused_at_us is not None and run.status is RunStatus.PAUSED:
        return "It is paused; resume it to go on."
    for node, step in steps:
        if step.status is StepStatus.DISPATCHING and step.dispatch is not None:
            until_us = step.dispatch.at_us + step.dispatch.settle_wait_us
            late = f"if it is lost, whoever drives the run after {iso(until_us)} settles it"
            return f"Step {node.id!r} is in a call; {late}."
    waits = [_wait(node, step) for node, step in steps if step.status is StepStatus.WAITING]
    if waits and run.status is RunStatus.WAITING:
        return " ".join(waits)
    if not accepted:
        return "It can go on where its definition and policy are loaded; they are not loaded here."
    return "It has steps that can start now."


def _wait(node: Node, step: Step) -> str:
    due = due_us(step)
    until = "" if due is None else f" until {iso(due)}"
    match node:
        case TimerNode():
            return f"Step {node.id!r} waits{until}."
        case SignalNode(name=name):
            return f"Step {node.id!r} waits for the signal {name!r}{until}."
        case HumanNode():
            return f"Step {node.id!r} waits for a person's answer{until}."
        case _:
            return f"Step {node.id!r} waits for a person's approval{until}."


def _end(
    run: Run,
    steps: list[tuple[Node, Step]],
    keys: Mapping[NodeId, str],
    reasons: Mapping[NodeId, str],
    reason: str | None,
) -> str:
    opposed = [n.id for n, step in steps if step.cause is Cause.CONTRADICTED and step.resolution]
    if opposed:
        return f"The receipt of {opposed[0]!r} opposes what was found out before: look again."
    ended_unknown = [(node, step) for node, step in steps if step.status is StepStatus.UNKNOWN]
    unknown = [node.id for node, step in ended_unknown if step.acted is Acted.UNKNOWN]
    if ended_unknown and not unknown:
        return " ".join(_known_since(node, step) for node, step in ended_unknown)
    if unknown:
        causes = {node.id: f" ({step.cause})" if step.cause else "" for node, step in steps}
        names = ", ".join(f"{name!r}{causes[name]}" for name in unknown)
        asked = ", ".join(f"key {keys[name]} ({name!r})" for name in unknown if name in keys)
        remedy = f"ask the provider about {asked}" if asked else "look it up in the other system"
        return f"Nobody can know whether {names} acted: {remedy}, and reconcile the step."
    stops = (StepStatus.BLOCKED, StepStatus.FAILED, StepStatus.TIMED_OUT)
    for node, step in steps:
        if run.status in (RunStatus.BLOCKED, RunStatus.FAILED) and step.status in stops:
            acted = " It acted." if step.acted is Acted.YES else ""
            because = _because(reasons.get(node.id))
            return f"Step {node.id!r} is {step.status} ({step.code}){because}.{acted}"
    if run.result_code is not None:
        misfit = f"the result does not fit ({run.result_code}){_because(reason)}"
        return f"Every step is done, but {misfit}."
    return _ENDS.get(run.status, f"It is {run.status}.")


def _known_since(node: Node, step: Step) -> str:
    """What a step that ended unknown is known to have done all the same."""
    did = "acted" if step.acted is Acted.YES else "did not act"
    if step.cause is Cause.COST_UNKNOWN:
        return f"Step {node.id!r} {did}, and nobody knows what it cost."
    return f"Step {node.id!r} ended unknown; its receipt, which came later, says that it {did}."


def _because(reason: str | None) -> str:
    """The reason as a part of one line."""
    return "" if not reason else ": " + " ".join(reason.split()).rstrip(".")
