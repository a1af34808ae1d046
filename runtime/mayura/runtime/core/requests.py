"""The digests that bind a person's decision or a check to one exact call or question."""

from __future__ import annotations

from mayura.runtime.core import values
from mayura.runtime.core.definition import HumanNode, JsonValue, ToolNode
from mayura.runtime.core.digest import (
    ANSWER,
    APPROVAL,
    INPUT,
    QUESTION,
    SIGNAL,
    digest,
    keyed,
)
from mayura.runtime.core.policy import Policy
from mayura.runtime.core.state import Approval, Run


def input_digest(run: Run, stored: bytes) -> bytes:
    """The digest of a call's exact input, keyed by the run's salt."""
    return keyed(run.salt, INPUT, stored)


def approval_digest(run: Run, node: ToolNode, call_input: bytes, expires_at_us: int) -> bytes:
    """Binds run, node, tool and version, exact input, policy and the first expiry."""
    return digest(
        APPROVAL,
        run.run_id.encode(),
        node.id.encode(),
        node.tool.id.encode(),
        node.tool.version.encode(),
        call_input,
        run.policy,
        str(expires_at_us).encode(),
    )


def approved_until_us(approval: Approval, policy: Policy) -> int:
    """Until when a decided approval is good: its lifetime from the decision (G13)."""
    decided_us = approval.decided_at_us or 0
    return decided_us + policy.approval_lifetime_ms * 1_000 + approval.allowance_us


def question_digest(
    run: Run,
    node: HumanNode,
    context: JsonValue,
    subject: JsonValue,
    deadline_us: int | None,
) -> bytes:
    """Binds run, node, definition, kind, schema, prompt, context, subject and deadline.

    Each value is encoded by itself: put together they might pass a limit that each one keeps.
    """
    asked: tuple[JsonValue, ...] = (
        node.kind,
        node.schema_id,
        node.schema,
        node.prompt,
        context,
        subject,
        deadline_us,
    )
    return keyed(
        run.salt,
        QUESTION,
        run.run_id.encode(),
        node.id.encode(),
        run.definition,
        *(values.encode(value) for value in asked),
    )


def answer_digest(run: Run, question: bytes, command_id: str, person: str, value: bytes) -> bytes:
    """An exact repeat has the same digest; anything else is a conflict."""
    return keyed(run.salt, ANSWER, question, command_id.encode(), person.encode(), value)


def signal_digest(run: Run, name: str, payload: bytes) -> bytes:
    """The same signal id with another payload has another digest."""
    return keyed(run.salt, SIGNAL, name.encode(), payload)
