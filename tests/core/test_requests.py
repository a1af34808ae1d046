"""The digests of questions, answers and signals bind everything they are about."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from mayura.runtime.core.definition import FromInput, HumanKind, HumanNode, JsonValue
from mayura.runtime.core.requests import answer_digest, question_digest, signal_digest
from mayura.runtime.core.state import Question, Run, StepStatus
from mayura.runtime.core.values import VALUE_DEPTH_MAX
from mayura.runtime.ids import RunId
from tests.core.drive import Drive, new_run
from tests.core.graphs import human, policy, workflow

DEFINITION: Final = workflow(human("a"))
RUN: Final = new_run(DEFINITION, policy(DEFINITION))


def question(
    run: Run = RUN,
    *,
    node: str = "a",
    kind: HumanKind = "information",
    schema_id: str = "size",
    schema: JsonValue = None,
    prompt: str = "Which size?",
    context: JsonValue = None,
    subject: JsonValue = None,
    deadline_us: int | None = None,
) -> bytes:
    """The digest of one question; each argument is one thing that it binds."""
    asked = human(node, kind=kind, prompt=prompt)
    asked = replace(asked, schema_id=schema_id, schema=schema)
    return question_digest(run, asked, context, subject, deadline_us)


@pytest.mark.parametrize(
    "other",
    [
        question(replace(RUN, run_id=RunId("1" * 32))),
        question(replace(RUN, definition=b"d" * 32)),
        question(replace(RUN, salt=b"t" * 16)),
        question(node="b"),
        question(kind="plan_selection"),
        question(schema_id="colour"),
        question(schema={"type": "string"}),
        question(prompt="Which colour?"),
        question(context="order 1"),
        question(subject="ab"),
        question(deadline_us=1),
        question(deadline_us=2),
    ],
    ids=[
        "run", "definition", "salt", "node", "kind", "schema id", "schema", "prompt", "context",
        "subject", "deadline", "another deadline",
    ],
)  # fmt: skip
def test_another_question_has_another_digest(other: bytes) -> None:
    assert other != question()
    assert question() == question()


def test_context_and_subject_are_not_mistaken_for_each_other() -> None:
    assert question(context="x") != question(subject="x")


@pytest.mark.parametrize("depth", [VALUE_DEPTH_MAX - 1, VALUE_DEPTH_MAX])
def test_a_context_as_deep_as_a_value_may_be_can_be_asked_about(depth: int) -> None:
    context: JsonValue = "leaf"
    for _ in range(depth):
        context = [context]
    run = Drive(workflow(human("a", context=FromInput())), input=context).advance()
    assert run.status("a") is StepStatus.WAITING
    detail = run.step("a").detail
    assert isinstance(detail, Question)
    asked = run.definition.nodes[0]
    assert isinstance(asked, HumanNode)
    assert detail.digest == question_digest(run.run, asked, context, None, None)


def test_an_answer_is_bound_to_question_command_person_and_value() -> None:
    bound = answer_digest(RUN, b"q", "c", "ada", b"1")
    assert bound == answer_digest(RUN, b"q", "c", "ada", b"1")
    others = [
        answer_digest(RUN, b"r", "c", "ada", b"1"),
        answer_digest(RUN, b"q", "d", "ada", b"1"),
        answer_digest(RUN, b"q", "c", "eve", b"1"),
        answer_digest(RUN, b"q", "c", "ada", b"2"),
        answer_digest(replace(RUN, salt=b"t" * 16), b"q", "c", "ada", b"1"),
        answer_digest(RUN, b"q", "ca", "da", b"1"),
    ]
    assert bound not in others


def test_a_signal_is_bound_to_name_and_payload() -> None:
    bound = signal_digest(RUN, "paid", b"1")
    assert bound == signal_digest(RUN, "paid", b"1")
    others = [
        signal_digest(RUN, "paid", b"2"),
        signal_digest(RUN, "sent", b"1"),
        signal_digest(RUN, "paid1", b""),
        signal_digest(replace(RUN, salt=b"t" * 16), "paid", b"1"),
    ]
    assert bound not in others
