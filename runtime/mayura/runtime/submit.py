"""Turns a submission into a run: the same key and content find the same run, for ever."""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass
from typing import Final

from mayura.runtime.core import values
from mayura.runtime.core.definition import Definition, JsonValue, ToolNode
from mayura.runtime.core.digest import SUBMISSION, chain, keyed
from mayura.runtime.core.policy import Policy
from mayura.runtime.core.state import Instant, Run, RunStatus
from mayura.runtime.errors import Code, MayuraError, SubmitConflict
from mayura.runtime.ids import Scope, run_id_of
from mayura.runtime.ports import Created, NewRun

KEY_CHARS_MAX: Final = 128
_GENESIS: Final = bytes(32)


@dataclass(frozen=True, slots=True)
class Submission:
    """Everything that was asked for; two with the same key must be the same."""

    definition: Definition
    policy: Policy
    input: bytes
    key: str
    requested_by: str | None

    def digest(self, salt: bytes) -> bytes:
        """What is compared when the key comes again; nobody can test a guess without the salt."""
        requested_by = b"" if self.requested_by is None else b"by:" + self.requested_by.encode()
        return keyed(
            salt, SUBMISSION, self.definition.digest, self.policy.digest, self.input, requested_by
        )


def refuse_no_requester(definition: Definition, policy: Policy, requested_by: str | None) -> None:
    """Raise INVALID_INPUT where people are to be told apart from somebody who is not named."""
    if requested_by is None and policy.separation_of_duties:
        for node in definition.nodes:
            if isinstance(node, ToolNode) and node.approval:
                raise MayuraError(
                    Code.INVALID_INPUT,
                    f"workflow {definition.id!r} node {node.id!r} asks for an approval, and the "
                    "policy's separation_of_duties keeps whoever requested the run from giving "
                    "it: name that person in requested_by",
                )


def new_run(scope: Scope, submission: Submission, now: Instant) -> NewRun:
    """The run as it is created: version 1, due at once."""
    salt = secrets.token_bytes(16)
    definition = submission.definition
    created: JsonValue = {
        "type": "run.created",
        "workflow": definition.id,
        "version": definition.version,
    }
    entries = values.encode([created])
    run = Run(
        run_id=run_id_of(scope, submission.key),
        key=submission.key,
        definition=definition.digest,
        policy=submission.policy.digest,
        requested_by=submission.requested_by,
        salt=salt,
        status=RunStatus.RUNNING,
        version=1,
        event_seq=1,
        chain=chain(_GENESIS, 0, 1, entries),
        last_at_us=now.wall_us,
        created_at_us=now.wall_us,
        maximum_micros=submission.policy.budget_micros,
        wake_at_us=now.wall_us,
    )
    return NewRun(
        run=run, submission=submission.digest(salt), entries=entries, input=submission.input
    )


def same_submission(submission: Submission, found: Created) -> None:
    """Raises `SubmitConflict` unless the key's run was asked for in exactly these words."""
    run = found.run
    if hmac.compare_digest(submission.digest(run.salt), found.submission):
        return
    if run.definition != submission.definition.digest:
        differs = "another definition"
    elif run.policy != submission.policy.digest:
        differs = "another policy"
    elif run.requested_by != submission.requested_by:
        differs = "another requester"
    else:
        differs = "another input"
    raise SubmitConflict(
        f"the key belongs to run {run.run_id} ({run.status}), submitted with {differs}; "
        "use a new key for a new run",
        run_id=run.run_id,
        status=run.status,
    )
