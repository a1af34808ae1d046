"""What is known about one run: frozen values that `apply` alone replaces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from mayura.runtime.errors import Code
from mayura.runtime.ids import NodeId, Nonce, RunId


class StepStatus(StrEnum):
    """Where one step stands; `runtime/README.md` draws the moves between them."""

    PENDING = "pending"  #: Not begun: a dependency is open, or its turn has not come.
    WAITING = "waiting"  #: For an approval, a person, a timer or a signal.
    DISPATCHING = "dispatching"  #: The call is recorded as begun; it may have acted.
    SUCCEEDED = "succeeded"  #: Done, and its output is released.
    FAILED = "failed"  #: Certainly ended without an effect that anybody has to look for.
    BLOCKED = "blocked"  #: Stopped by policy, a person or a guard; `acted` says if it acted.
    UNKNOWN = "unknown"  #: It may have acted, and nobody here can know.
    TIMED_OUT = "timed_out"  #: No answer or signal came before the deadline.
    SKIPPED = "skipped"  #: A dependency did not succeed, or the run was cancelled first.
    BYPASSED = "bypassed"  #: Its `when` was null or false; dependents see null.


class RunStatus(StrEnum):
    """Where the run stands; the settled ones say what its worst step came to."""

    RUNNING = "running"
    WAITING = "waiting"
    PAUSED = "paused"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"
    OUTCOME_UNKNOWN = "outcome_unknown"


class Acted(StrEnum):
    """Whether something outside may have changed (G10)."""

    NO = "no"
    YES = "yes"
    UNKNOWN = "unknown"


class Receipt(StrEnum):
    """What the evidence says about one call; moves only from unknown to a known one (G5)."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    NOT_STARTED = "not_started"
    UNKNOWN = "unknown"


class Resolution(StrEnum):
    """What a lookup or a person found out about a call. It stands beside the receipt."""

    HAPPENED = "happened"
    NEVER = "never"


class Cause(StrEnum):
    """Why a call ended as it did, without a word of the tool's own text."""

    EXCEPTION = "exception"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    ABANDONED = "abandoned"
    RECEIPT_UNCONFIRMED = "receipt_unconfirmed"
    COST_UNKNOWN = "cost_unknown"
    CONTRADICTED = "contradicted"
    DECLINED = "declined"  #: The last check said no; the tool was not called (G3).


TERMINAL_STEPS = frozenset(
    {
        StepStatus.SUCCEEDED,
        StepStatus.FAILED,
        StepStatus.BLOCKED,
        StepStatus.UNKNOWN,
        StepStatus.TIMED_OUT,
        StepStatus.SKIPPED,
        StepStatus.BYPASSED,
    }
)
SETTLED_RUNS = frozenset(
    {
        RunStatus.SUCCEEDED,
        RunStatus.FAILED,
        RunStatus.BLOCKED,
        RunStatus.CANCELLED,
        RunStatus.OUTCOME_UNKNOWN,
    }
)


@dataclass(frozen=True, slots=True)
class Instant:
    """One reading of the store's clocks.

    `wall_us` serves due times and display; `steady_us` counts only within `epoch` (a boot id on
    SQLite, constant on PostgreSQL, where both are the database's time) and serves settle deadlines.
    """

    wall_us: int
    steady_us: int
    epoch: str = ""


@dataclass(frozen=True, slots=True)
class Deadline:
    """A settle deadline on the steady clock; one of another epoch has passed (G9)."""

    at_us: int
    epoch: str = ""


@dataclass(frozen=True)
class Dispatch:
    """The record that a call was begun: written before the call, never twice (G1, G2)."""

    nonce: Nonce
    at_us: int  #: the store's wall time of the dispatch commit
    settle: Deadline  #: `at_us` plus `settle_wait_us` on the store's steady clock
    settle_wait_us: int  #: timeout plus margin, as they were at dispatch (G9)
    timeout_ms: int  #: as the definition said then
    input_digest: bytes
    fence: int  #: the claim's fence under which it was dispatched (G8)


@dataclass(frozen=True)
class Approval:
    """A request for a person's yes to one exact call, and the decision if there is one."""

    digest: bytes  #: binds run, node, tool, exact input, policy and `expires_at_us`
    expires_at_us: int
    allowance_us: int = 0  #: time lost to pauses and holds; not part of the digest (G13)
    approved: bool | None = None  #: None: nobody decided yet
    decided_by: str | None = None
    decided_at_us: int | None = None


@dataclass(frozen=True)
class Question:
    """A typed question to a person (information, correction, plan_selection)."""

    digest: bytes
    deadline_us: int | None
    allowance_us: int = 0
    answer_digest: bytes | None = None  #: over question, command id, person and value
    answered_by: str | None = None


@dataclass(frozen=True)
class Timer:
    """An absolute due time, and when it fired."""

    fire_at_us: int
    fired_at_us: int | None = None


@dataclass(frozen=True)
class Signal:
    """What a signal step waits for or got; it may have come before the step began."""

    deadline_us: int | None = None  #: set when the step starts to wait
    allowance_us: int = 0
    signal_id: str | None = None
    payload_digest: bytes | None = None
    received_at_us: int | None = None


Detail = Approval | Question | Timer | Signal


@dataclass(frozen=True)
class Step:
    """One step. `output` says that a payload row `output:<node>` exists."""

    status: StepStatus = StepStatus.PENDING
    code: Code | None = None
    cause: Cause | None = None
    acted: Acted = Acted.NO
    output: bool = False
    dispatch: Dispatch | None = None
    receipt: Receipt | None = None
    contradiction: Receipt | None = None  #: a second, different known receipt: both are kept (G5)
    released: bool = False  #: the output passed validation and guards
    reserved_micros: int = 0
    charged_micros: int = 0
    detail: Detail | None = None
    resolution: Resolution | None = None


@dataclass(frozen=True)
class Run:
    """One run as its versioned row and its steps say. Steps not in the map are plain pending."""

    run_id: RunId
    key: str
    definition: bytes  #: digest of the exact definition (G12)
    policy: bytes  #: digest of the policy it started with
    requested_by: str | None
    salt: bytes  #: keys this run's payload digests; deletable with the payloads
    status: RunStatus
    version: int
    event_seq: int
    chain: bytes  #: digest of the last journal entry
    last_at_us: int  #: the store's time of the last commit; covered by the next entry's digest
    created_at_us: int
    settled_at_us: int | None = None
    settlement: int = 0
    maximum_micros: int = 0
    spent_micros: int = 0
    reserved_micros: int = 0
    overrun_micros: int = 0
    paused_at_us: int | None = None
    cancelled: bool = False
    result_code: Code | None = None  #: why a run whose steps all succeeded did not
    wake_at_us: int | None = None
    fence: int = 0
    steps: Mapping[NodeId, Step] = field(default_factory=dict)

    def step(self, node: NodeId) -> Step:
        """The step `node`, plain pending if nothing was written about it yet."""
        return self.steps.get(node, PENDING)

    @property
    def open(self) -> bool:
        """Whether the run can still change by itself."""
        return self.status not in SETTLED_RUNS


PENDING = Step()
