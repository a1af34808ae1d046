"""The calls of one run that this process has in hand: from their dispatch to their last word."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from mayura.runtime.admission import Admission
from mayura.runtime.call import Call
from mayura.runtime.core.decision import Ready
from mayura.runtime.core.state import Dispatch
from mayura.runtime.dispatch import Dispatched, StepCall, write_ahead
from mayura.runtime.draft import Draft
from mayura.runtime.ids import CallId, NodeId, Nonce
from mayura.runtime.loaded import AnyTool
from mayura.runtime.process import Life, Process
from mayura.runtime.run_writer import RunWriter

_log = logging.getLogger("mayura.runtime")


class Calls:
    """Begins calls, carries them to their completion, and frees what they took.

    A call's slots are taken by its admission and free when its body has ended, so that what its
    completion makes ready can take them in the same commit. Its nonce is in hand from before its
    dispatch is sent until its completion is stored (G9).
    """

    def __init__(
        self,
        process: Process,
        writer: RunWriter,
        admission: Admission,
        *,
        failed: Callable[[BaseException], None],
        ended: Callable[[], None],
    ) -> None:
        self.outliving: set[StepCall] = set()  #: whose bodies outlived them
        self.made: set[NodeId] = set()  #: spent here, whatever the store says later (G15)
        self._process = process
        self._writer = writer
        self._admission = admission
        self._failed = failed
        self._ended = ended
        self._sent: dict[Nonce, Dispatched] = {}  #: whose dispatch is not known to be committed
        self._in_hand: dict[NodeId, StepCall] = {}
        self._holding: set[Nonce] = set()  #: calls that were made and still hold their slots

    def __len__(self) -> int:
        return len(self._sent) + len(self._in_hand)

    @property
    def late(self) -> list[StepCall]:
        """Calls that have ended, whose bodies run on and may prove something."""
        return [call for call in self.outliving if call.may_prove]

    @property
    def body_runs(self) -> bool:
        """Whether more is waited for than the store."""
        return any(call.body_runs for call in (*self._in_hand.values(), *self.late))

    def ids(self) -> list[CallId]:
        """Every call in hand, and every one whose body may still prove something."""
        sent = (dispatched.call.call_id for dispatched in self._sent.values())
        calls = (*self._in_hand.values(), *self.late)
        return [*sent, *(call.call_id for call in calls)]

    def begin(
        self,
        draft: Draft,
        ready: Ready,
        *,
        tool: AnyTool,
        call: Call,
        once: bytes | None,
        output_bytes_max: int,
    ) -> None:
        """Add the dispatch to `draft`; the call is made once that is durable (G2)."""
        margin_ms = self._process.margin_ms
        nonce = write_ahead(draft, ready, call, margin_ms=margin_ms, once=once)
        self._process.in_flight.enter(nonce)
        self._sent[nonce] = Dispatched(
            node=ready.node,
            tool=tool,
            call=call,
            nonce=nonce,
            input=ready.input,
            digest=ready.digest,
            policy=draft.run.policy,
            output_bytes_max=output_bytes_max,
            once=once,
            sent=draft.started,
            margin_ms=margin_ms,
            context=self._writer.context,
        )

    def make(self, dispatch: Dispatch | None) -> None:
        """The dispatch is durable: call the tool, if this process sent it."""
        dispatched = None if dispatch is None else self._sent.pop(dispatch.nonce, None)
        if dispatched is None:
            return
        call = StepCall(
            dispatched, self._writer, self._process.store, lambda: self._let_go(dispatched)
        )
        self._in_hand[dispatched.node.id] = call
        self.made.add(dispatched.node.id)
        self._holding.add(dispatched.nonce)
        self._process.start(self._carry(call, dispatched), self._writer.context)

    def give_up(self, dispatch: Dispatch | None) -> None:
        """The dispatch is not stored, or nobody here will know: free what was taken for it."""
        dispatched = None if dispatch is None else self._sent.pop(dispatch.nonce, None)
        if dispatched is not None:
            self._free(dispatched)

    def give_up_all(self) -> None:
        """As `give_up`, of every dispatch that was sent."""
        while self._sent:
            _, dispatched = self._sent.popitem()
            self._free(dispatched)

    def tell_cancelled(self) -> None:
        """Signal the calls in hand; their steps end as they would."""
        for call in self._in_hand.values():
            call.cancel()

    def _free(self, dispatched: Dispatched) -> None:
        self._process.in_flight.leave(dispatched.nonce)
        self._admission.release(dispatched.tool)

    def _let_go(self, dispatched: Dispatched) -> None:
        if dispatched.nonce in self._holding:
            self._holding.discard(dispatched.nonce)
            self._admission.release(dispatched.tool)

    async def _carry(self, call: StepCall, dispatched: Dispatched) -> None:
        given_up = True
        try:
            await call.run()
            given_up = False
        except asyncio.CancelledError:
            if self._process.life is not Life.LEFT:  # else the engine names it
                text = "call %s (key %s) was cut off: what it does now is not stored, and its step"
                text += " is settled at its deadline"
                _log.error(text, call.call_id, dispatched.call.key)
            raise
        except Exception as error:  # noqa: BLE001 - whatever it was, the step is settled at its deadline
            self._log_unstored(call, dispatched, error)
            given_up = False
            self._failed(error)
        finally:
            self._process.in_flight.leave(dispatched.nonce)
            self._in_hand.pop(dispatched.node.id, None)
            if call.outlived and not given_up:
                self.outliving.add(call)  # now: whoever comes meanwhile must find this run's driver
                self._process.start(self._outlive(call, dispatched), self._writer.context)
            else:
                self._let_go(dispatched)
            self._ended()

    def _log_unstored(self, call: StepCall, dispatched: Dispatched, error: Exception) -> None:
        """What this process knows of the call is said here, or nowhere."""
        text = "call %s (key %s, dispatch %s) ended without its completion stored; its receipt: %s"
        about = (call.call_id, dispatched.call.key, dispatched.nonce.hex(), call.proved)
        _log.error(text, *about, exc_info=error)

    async def _outlive(self, call: StepCall, dispatched: Dispatched) -> None:
        """A body that ignores its timeout keeps its slot until it has ended."""
        try:
            await call.merge_late()
        except Exception as error:  # noqa: BLE001 - nobody waits for it; the step has ended
            _log.error("call %s: its late receipt was not stored", call.call_id, exc_info=error)
        finally:
            self.outliving.discard(call)
            self._let_go(dispatched)
            self._ended()
