"""A person's yes is bound to one exact call and one expiry, and is good for its lifetime."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from mayura.runtime.core import decision
from mayura.runtime.core import transitions as t
from mayura.runtime.core.change import IllegalMove
from mayura.runtime.core.definition import FromInput
from mayura.runtime.core.requests import approval_digest, approved_until_us, input_digest
from mayura.runtime.core.state import Acted, Approval, RunStatus, StepStatus
from mayura.runtime.errors import Code
from mayura.runtime.ids import NodeId, RunId
from tests.core.drive import PERSON, SECOND_US, START, Drive, new_run
from tests.core.graphs import policy, spec, tool, workflow

S = StepStatus
LIFETIME_S: Final = 3_600
LIFETIME_US: Final = LIFETIME_S * SECOND_US


def asked() -> Drive:
    """A run whose one call waits for approval."""
    definition = workflow(tool("a", approval=True, value=FromInput()))
    return Drive(definition, input={"amount": 12}).advance()


def approval(run: Drive) -> Approval:
    detail = run.step("a").detail
    assert isinstance(detail, Approval)
    return detail


def test_a_call_that_needs_approval_is_asked_for_and_not_dispatched() -> None:
    run = asked()
    assert (run.status("a"), run.run.status) == (S.WAITING, RunStatus.WAITING)
    assert run.step("a").dispatch is None
    assert approval(run).expires_at_us == START.wall_us + LIFETIME_US
    assert run.run.wake_at_us == approval(run).expires_at_us


def test_an_approved_call_is_dispatched() -> None:
    run = asked()
    run.approve("a")
    assert run.status("a") is S.DISPATCHING
    assert approval(run).decided_by == "ada"
    assert run.events("a")[-2:] == ["approval.approved", "step.dispatching"]


def test_a_rejected_call_is_blocked_and_nothing_acted() -> None:
    run = asked()
    run.commit(t.Reject(NodeId("a"), PERSON, run.now.wall_us, "c"))
    step = run.step("a")
    assert (step.status, step.code, step.acted) == (S.BLOCKED, Code.REJECTED, Acted.NO)
    assert step.dispatch is None
    assert run.run.status is RunStatus.BLOCKED


def test_a_decision_is_made_once() -> None:
    run = asked()
    run.approve("a")
    for again in (
        t.Approve(NodeId("a"), PERSON, run.now.wall_us, "d"),
        t.Reject(NodeId("a"), PERSON, run.now.wall_us, "d"),
    ):
        with pytest.raises(IllegalMove):
            run.commit(again)


def test_the_events_say_who_decided_and_how_and_never_a_credential() -> None:
    run = asked()
    run.commit(t.Approve(NodeId("a"), t.Person("eve", verified=False), run.now.wall_us, "c-9"))
    entries = run.journal[-1].entries
    for part in (b'"person":"eve"', b'"unverified":true', b'"command":"c-9"'):
        assert part in entries
    assert b"issuer" not in entries


# --- what the digest binds --------------------------------------------------------------------


def bound(
    *,
    run_id: str = "0" * 32,
    node: str = "a",
    tool_id: str = "shop.pay",
    version: str = "1",
    value: bytes = b"12",
    policy_digest: bytes = b"p" * 32,
    expires_at_us: int = 1_000,
) -> bytes:
    """The digest of one request; each argument is one thing that it binds."""
    definition = workflow(tool("a"))
    run = replace(
        new_run(definition, policy(definition)), run_id=RunId(run_id), policy=policy_digest
    )
    asks = tool(node, uses=spec(name=tool_id, version=version), approval=True)
    return approval_digest(run, asks, input_digest(run, value), expires_at_us)


def test_the_digest_of_an_approval_is_stable() -> None:
    assert bound() == bound()
    assert len(bound()) == 32


@pytest.mark.parametrize(
    "other",
    [
        bound(run_id="1" * 32),
        bound(node="b"),
        bound(tool_id="shop.refund"),
        bound(version="2"),
        bound(value=b"13"),
        bound(policy_digest=b"q" * 32),
        bound(expires_at_us=1_001),
    ],
    ids=["run", "node", "tool", "version", "input", "policy", "expiry"],
)
def test_another_call_has_another_digest(other: bytes) -> None:
    assert other != bound()


def test_the_request_of_a_run_is_the_digest_of_exactly_its_call() -> None:
    run = asked()
    digest = input_digest(run.run, b'{"value":{"amount":12}}')
    expires_at_us = START.wall_us + LIFETIME_US
    assert approval(run).digest == approval_digest(run.run, run.tool("a"), digest, expires_at_us)


def test_the_call_that_is_dispatched_has_the_input_that_was_approved() -> None:
    run = asked()
    run.approve("a")
    dispatch = run.step("a").dispatch
    assert dispatch is not None
    assert dispatch.input_digest == input_digest(run.run, b'{"value":{"amount":12}}')


def test_one_runs_salt_keeps_a_guess_from_being_tested_in_another() -> None:
    run = asked().run
    assert input_digest(run, b"12") != input_digest(replace(run, salt=b"t" * 16), b"12")


# --- expiry -----------------------------------------------------------------------------------


def test_a_request_lapses_at_its_expiry_and_another_one_is_made() -> None:
    run = asked()
    first = approval(run)
    run.later(LIFETIME_S - 0.000001).advance()
    assert approval(run) == first
    run.later(0.000001).advance()
    assert run.status("a") is S.WAITING
    assert approval(run).digest != first.digest
    assert approval(run).expires_at_us == run.now.wall_us + LIFETIME_US
    assert run.events("a") == ["approval.requested", "approval.lapsed", "approval.requested"]


def test_an_approval_given_in_time_is_good_for_its_lifetime_from_the_decision() -> None:
    """G13: not only until the request would have expired."""
    run = asked().later(LIFETIME_S - 1)
    run.held.add(NodeId("a"))
    run.approve("a")
    run.later(LIFETIME_S - 0.000001)
    run.held.clear()
    run.advance()
    assert run.status("a") is S.DISPATCHING


def test_an_approval_whose_lifetime_is_over_lapses_and_is_asked_for_again() -> None:
    run = asked()
    run.held.add(NodeId("a"))
    run.approve("a")
    first = approval(run).digest
    run.later(LIFETIME_S)
    run.held.clear()
    run.advance()
    assert (run.status("a"), approval(run).approved) == (S.WAITING, None)
    assert approval(run).digest != first


def test_a_lapse_needs_no_code_and_the_request_waits_for_it() -> None:
    run = asked()
    run.loaded = False
    run.later(LIFETIME_S).advance()
    assert run.status("a") is S.PENDING
    assert (run.run.status, run.run.wake_at_us) == (RunStatus.RUNNING, run.now.wall_us)
    run.loaded = True
    assert run.advance().status("a") is S.WAITING


# --- pauses -----------------------------------------------------------------------------------


def test_nothing_lapses_while_a_run_is_paused_and_the_lost_time_is_given_back() -> None:
    """G13: as an allowance beside the digest, which keeps the first expiry."""
    run = asked().later(10)
    first = approval(run)
    run.pause()
    run.later(2 * LIFETIME_S).advance()
    assert run.run.status is RunStatus.PAUSED
    assert approval(run) == first
    run.resume()
    assert approval(run) == replace(first, allowance_us=2 * LIFETIME_US)
    run.later(LIFETIME_S - 10 - 0.000001).advance()
    assert approval(run).digest == first.digest
    run.later(0.000001).advance()
    assert approval(run).digest != first.digest


def test_two_pauses_add_up() -> None:
    run = asked()
    for _ in range(2):
        run.pause()
        run.later(5)
        run.resume()
    assert approval(run).allowance_us == 10 * SECOND_US


def test_an_approval_is_taken_while_a_run_is_paused_and_dispatched_when_it_resumes() -> None:
    run = asked()
    run.pause()
    run.later(2 * LIFETIME_S)
    run.approve("a")
    assert (run.status("a"), run.run.status) == (S.PENDING, RunStatus.PAUSED)
    run.later(7)
    run.resume()
    assert run.status("a") is S.DISPATCHING


def test_an_approval_given_during_a_pause_lost_only_what_came_after_it() -> None:
    run = asked()
    run.held.add(NodeId("a"))
    run.pause()
    run.later(100)
    run.approve("a")
    decided_at_us = run.now.wall_us
    run.later(7)
    run.resume()
    assert approval(run).allowance_us == 7 * SECOND_US
    until_us = approved_until_us(approval(run), run.pinned)
    assert until_us == decided_at_us + LIFETIME_US + 7 * SECOND_US


def test_a_pause_after_the_decision_lengthens_the_approval() -> None:
    run = asked().later(5)
    run.held.add(NodeId("a"))
    run.approve("a")
    run.pause()
    run.later(50)
    run.resume()
    assert approval(run).allowance_us == 50 * SECOND_US


def test_what_a_pause_gave_to_the_request_does_not_lengthen_the_approval() -> None:
    run = asked()
    run.pause()
    run.later(50)
    run.resume()
    run.held.add(NodeId("a"))
    run.approve("a")
    assert approval(run).allowance_us == 0


# --- once: looked up before anybody is asked (G16) --------------------------------------------


def test_a_once_tools_request_is_handed_back_so_that_the_subject_is_looked_up_first() -> None:
    once = tool("a", approval=True, uses=spec(once=(("value",),)), value=FromInput())
    run = Drive(workflow(once), input="o-1")
    reads = decision.wanted(run.definition, run.run, [NodeId("a")])
    decided = decision.decide(run.view(None, reads), [NodeId("a")])
    assert decided.transitions == []
    assert [type(ready.ask) for ready in decided.ready] == [t.RequestApproval]
    run.advance()
    assert run.status("a") is S.WAITING
    run.approve("a")
    assert run.status("a") is S.DISPATCHING


def test_a_call_nobody_can_pay_for_is_blocked_after_the_approval_not_before() -> None:
    definition = workflow(tool("a", approval=True, cost_micros=10))
    run = Drive(definition, budget_micros=9).advance()
    assert run.status("a") is S.WAITING
    run.approve("a")
    assert run.step("a").code is Code.BUDGET_EXCEEDED
