"""Everything that can happen to a run, as values. `apply` (in apply.py) says what each changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from mayura.runtime.core.definition import JsonValue
from mayura.runtime.core.state import (
    Acted,
    Cause,
    Dispatch,
    Receipt,
    Resolution,
    RunStatus,
    StepStatus,
)
from mayura.runtime.errors import Code
from mayura.runtime.ids import NodeId, Nonce


@dataclass(frozen=True, slots=True)
class Person:
    """Who decided, as the verifier said; the credential itself is never stored."""

    id: str
    issuer: str = ""
    method: str = ""
    verified: bool = True


@dataclass(frozen=True, slots=True)
class Skip:
    node: NodeId
    because: NodeId | None  #: the dependency that did not succeed; None: the run was cancelled


@dataclass(frozen=True, slots=True)
class Bypass:
    node: NodeId


@dataclass(frozen=True, slots=True)
class Block:
    """Stopped before dispatch; nothing acted. `detail`: which grants, guard or first call (G16)."""

    node: NodeId
    code: Code
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Fail:
    """Ended before dispatch because a value does not fit.

    `detail` names place and rule; it is kept as a payload, and is no part of the event.
    """

    node: NodeId
    code: Code
    detail: str = ""


@dataclass(frozen=True, slots=True)
class RequestApproval:
    node: NodeId
    digest: bytes
    expires_at_us: int


@dataclass(frozen=True, slots=True)
class LapseApproval:
    node: NodeId


@dataclass(frozen=True, slots=True)
class Approve:
    node: NodeId
    person: Person
    at_us: int
    command_id: str


@dataclass(frozen=True, slots=True)
class Reject:
    node: NodeId
    person: Person
    at_us: int
    command_id: str


@dataclass(frozen=True, slots=True)
class Ask:
    node: NodeId
    digest: bytes
    deadline_us: int | None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer is recorded; `Accept` or `Fail` follows from whoever has the code (G12)."""

    node: NodeId
    digest: bytes
    person: Person
    command_id: str


@dataclass(frozen=True, slots=True)
class StartTimer:
    node: NodeId
    fire_at_us: int


@dataclass(frozen=True, slots=True)
class AwaitSignal:
    node: NodeId
    deadline_us: int | None


@dataclass(frozen=True, slots=True)
class ReceiveSignal:
    """A signal is recorded, whatever the step's status: an acknowledged one is never lost (G13)."""

    node: NodeId
    signal_id: str
    payload_digest: bytes
    at_us: int


@dataclass(frozen=True, slots=True)
class Accept:
    """The answer, the timer or the signal becomes the step's output."""

    node: NodeId
    at_us: int


@dataclass(frozen=True, slots=True)
class TimeOut:
    node: NodeId


@dataclass(frozen=True, slots=True)
class Join:
    node: NodeId


@dataclass(frozen=True, slots=True)
class Begin:
    """The call is recorded as begun, its cost reserved (G2, G14)."""

    node: NodeId
    dispatch: Dispatch
    reserved_micros: int
    call_id: str
    key: str  #: under which the provider knows the call
    acted: Acted  #: what must be said of the step while nobody knows more (G10)
    once: bytes | None = None  #: the subject that it takes (G16)


@dataclass(frozen=True, slots=True)
class Decline:
    """The last check said no: the tool was not called (G3)."""

    node: NodeId
    nonce: Nonce
    code: Code
    detail: str = ""


@dataclass(frozen=True, slots=True)
class RecordReceipt:
    """Evidence about the call of `nonce`. Accepted in any status; never taken back (G4, G5).

    `charge_micros` is None where the cost is not settled by this receipt.
    """

    node: NodeId
    nonce: Nonce
    receipt: Receipt
    acted: Acted
    cause: Cause | None
    charge_micros: int | None
    output: bool  #: the raw output is stored with it, withheld
    usage_rejected: bool = False  #: the tool reported its cost in a way that cannot be charged


@dataclass(frozen=True, slots=True)
class Complete:
    """The step's end, as its own process saw it; only from `dispatching` (G6).

    `detail` says why an output was not released: its place and rule, a guard or a limit.
    """

    node: NodeId
    nonce: Nonce
    status: StepStatus
    code: Code | None
    cause: Cause | None
    acted: Acted
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Abandon:
    """The step's end, as its receipt and its deadline say (G9), or a person before that."""

    node: NodeId
    nonce: Nonce
    status: StepStatus
    code: Code
    acted: Acted
    charge_micros: int | None
    command_id: str | None = None
    person: Person | None = None


@dataclass(frozen=True, slots=True)
class Resolve:
    """It was found out whether the call happened (docs: the guarantee, "Getting out of unknown").

    The run's own status follows: unless it was cancelled, an ended run goes on and settles again.
    """

    node: NodeId
    resolution: Resolution
    charge_micros: int
    output: bool  #: a value to go on with is stored or travels with this
    command_id: str | None = None
    person: Person | None = None  #: None: the tool's lookup said so


@dataclass(frozen=True, slots=True)
class Reopen:
    """A skipped step may begin after all: what it was skipped for has been resolved."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class Pause:
    at_us: int
    command_id: str
    by: str


@dataclass(frozen=True, slots=True)
class Resume:
    at_us: int
    command_id: str
    by: str


@dataclass(frozen=True, slots=True)
class Cancel:
    command_id: str
    by: str


@dataclass(frozen=True, slots=True)
class Rest:
    """Where the run stands between two waves, and when somebody must look again (G13)."""

    status: RunStatus
    wake_at_us: int | None


@dataclass(frozen=True, slots=True)
class Settle:
    """No step is open any more: the run's status is that of its worst step.

    `detail` says why the result does not fit.
    """

    status: RunStatus
    code: Code | None
    at_us: int
    detail: str = ""


Transition: TypeAlias = (
    Skip | Bypass | Block | Fail | RequestApproval | LapseApproval | Approve | Reject | Ask
    | Answer | StartTimer | AwaitSignal | ReceiveSignal | Accept | TimeOut | Join | Begin
    | Decline | RecordReceipt | Complete | Abandon | Resolve | Reopen | Pause | Resume | Cancel
    | Rest | Settle
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened, as the journal keeps it: metadata only, never a payload."""

    type: str
    node: NodeId | None = None
    data: tuple[tuple[str, JsonValue], ...] = ()

    def as_json(self) -> dict[str, JsonValue]:
        """The form that is stored; keys are stable."""
        value: dict[str, JsonValue] = {"type": self.type}
        if self.node is not None:
            value["node"] = self.node
        value.update(self.data)
        return value
