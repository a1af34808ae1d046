"""Identifiers: what they are made from, and their types."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, NewType, TypeAlias

import uuid_utils

from mayura.runtime.errors import Code, MayuraError

RunId = NewType("RunId", str)  #: 32 lower-case hex characters, derived from scope and key.
RUN_ID: Final = re.compile(r"[0-9a-f]{32}")
NodeId = NewType("NodeId", str)  #: A node's name, unique in its definition.
CallId = NewType("CallId", str)  #: `<run>/step:<node>`, the one call a step can ever make.
PayloadName: TypeAlias = str
"""`input`, `output:<node>`, `answer:<node>`, `signal:<node>`, `reason:<node>` (a person's),
`refusal:<node>` (a tool's), `detail` and `detail:<node>` (why a run or step did not succeed),
`evidence:<node>` (of a resolution), `returned:<node>` (what the tool gave, where a resolution goes
on with another value); unique in a run."""
Nonce = NewType("Nonce", bytes)  #: 16 bytes that name one write or one dispatch.


SCOPE_CHARS_MAX: Final = 128
_TEXT: Final = re.compile("[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")


def check_text(what: str, text: object, chars_max: int) -> None:
    """INVALID_INPUT for a name that is empty, too long, or would not stay in its line of a log."""
    if not isinstance(text, str) or len(text) > chars_max or _TEXT.fullmatch(text) is None:
        raise MayuraError(
            Code.INVALID_INPUT, f"{what} is 1 to {chars_max} characters, none a control character"
        )


def check_run_id(given: object) -> None:
    """INVALID_INPUT for what is no text at all, such as the submitted run instead of its id."""
    if not isinstance(given, str):
        name = type(given).__name__
        remedy = f"hand over the id of the {name}" if hasattr(given, "id") else "hand over run.id"
        raise MayuraError(Code.INVALID_INPUT, f"a run id is a text, not a {name}: {remedy}")


def check_name(what: str, given: object) -> None:
    """INVALID_INPUT for the name of a step or signal that is no text at all."""
    if not isinstance(given, str):
        raise MayuraError(Code.INVALID_INPUT, f"{what} is a text, not a {type(given).__name__}")


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose runs these are. Runs, keys and `once` subjects of two scopes never meet.

    INVALID_INPUT for a part that is no short text of one line.
    """

    principal: str = "local"
    project: str = "default"

    def __post_init__(self) -> None:
        check_text("a scope's principal", self.principal, SCOPE_CHARS_MAX)
        check_text("a scope's project", self.project, SCOPE_CHARS_MAX)


def run_id_of(scope: Scope, key: str) -> RunId:
    """The run that `key` names in `scope`: the same submission finds the same run for ever."""
    text = "\n".join(("mayura:run-id:v1", scope.principal, scope.project, key))
    return RunId(sha256(text.encode()).hexdigest()[:32])


def call_id_of(run_id: RunId, node: NodeId) -> CallId:
    """The id under which the tool, the ledger and the receipt know this call (G1)."""
    return CallId(f"{run_id}/step:{node}")


def detail_of(node: NodeId | None) -> PayloadName:
    """Where it is kept why a step did not succeed; without a step, why the run did not."""
    return "detail" if node is None else f"detail:{node}"


def new_nonce() -> Nonce:
    """Names one write; time-ordered so that neighbours in an index were neighbours in time."""
    return Nonce(uuid_utils.uuid7().bytes)
