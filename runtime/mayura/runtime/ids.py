"""Identifiers: what they are made from, and their types."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import NewType, TypeAlias

import uuid_utils

RunId = NewType("RunId", str)  #: 32 lower-case hex characters, derived from scope and key.
NodeId = NewType("NodeId", str)  #: A node's name, unique in its definition.
CallId = NewType("CallId", str)  #: `<run>/step:<node>`, the one call a step can ever make.
PayloadName: TypeAlias = str
"""`input`, `output:<node>`, `answer:<node>`, `signal:<node>`, `reason:<node>`; unique in a run."""
Nonce = NewType("Nonce", bytes)  #: 16 bytes that name one write or one dispatch.


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose runs these are. Runs, keys and `once` subjects of two scopes never meet."""

    principal: str = "local"
    project: str = "default"


def run_id_of(scope: Scope, key: str) -> RunId:
    """The run that `key` names in `scope`: the same submission finds the same run for ever."""
    text = "\n".join(("mayura:run-id:v1", scope.principal, scope.project, key))
    return RunId(sha256(text.encode()).hexdigest()[:32])


def call_id_of(run_id: RunId, node: NodeId) -> CallId:
    """The id under which the tool, the ledger and the receipt know this call (G1)."""
    return CallId(f"{run_id}/step:{node}")


def new_nonce() -> Nonce:
    """Names one write; time-ordered so that neighbours in an index were neighbours in time."""
    return Nonce(uuid_utils.uuid7().bytes)
