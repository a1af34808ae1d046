"""What every store promises about submissions and transitions, sentence by sentence of `ports`."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from hashlib import sha256

import pytest

from mayura.runtime.core.state import Acted, Approval, Receipt, RunStatus, Step, StepStatus
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import NodeId, PayloadName, Scope
from mayura.runtime.ports import Command, Holder, OnceClaim, Refused, Store, Won
from tests.storage.places import Place
from tests.storage.runs import (
    DEFINITION,
    INPUT,
    NODE,
    OUTPUT,
    POLICY,
    SETTLE_WAIT_US,
    SUBMITTED,
    dispatch_of,
    loaded,
    prepare,
    submission,
    submitted,
    succeeded,
    won,
    write_of,
)

SUBJECT = sha256(b"order o-1").digest()
LOST = Refused("lost")


async def test_a_submission_is_stored_whole_with_the_stores_times(store: Store) -> None:
    began = await store.now()
    created = await store.create(submission("o-1"))
    ended = await store.now()
    run = created.run
    assert created.created
    at_us = run.created_at_us
    assert began.wall_us <= at_us <= ended.wall_us
    assert run == replace(
        submission("o-1").run, created_at_us=at_us, last_at_us=at_us, wake_at_us=at_us
    )
    assert await loaded(store, run.run_id) == run
    assert await store.payloads(run.run_id, [INPUT]) == {INPUT: b'{"order":1}'}
    (entry,) = await store.journal(run.run_id)
    assert (entry.version, entry.first_seq, entry.entries) == (1, 1, SUBMITTED)
    assert (entry.at_us, entry.chain) == (run.created_at_us, run.chain)


async def test_the_same_key_finds_the_run_and_what_was_asked_for(
    store: Store, other: Store
) -> None:
    first = await store.create(submission("o-1"))
    asked_again = replace(submission("o-1", requested_by="bob"), submission=b"another" * 4)
    again = await other.create(asked_again)
    assert not again.created
    assert (again.run, again.submission) == (first.run, first.submission)


async def test_of_many_submissions_of_a_key_one_makes_the_run(store: Store, other: Store) -> None:
    created = await asyncio.gather(
        *(each.create(submission("o-1")) for each in (store, other) for _ in range(10))
    )
    assert sum(answer.created for answer in created) == 1
    assert len({answer.run.created_at_us for answer in created}) == 1


async def test_a_submission_without_its_definition_is_refused(place: Place) -> None:
    store = await place.open()
    with pytest.raises(MayuraError) as refused:
        await store.create(submission("o-1"))
    assert refused.value.code is Code.NOT_FOUND
    await store.close()


async def test_definitions_and_policies_are_kept_under_their_digest(
    store: Store, other: Store
) -> None:
    await store.put_definition(DEFINITION, "orders.checkout", "1", b"something else")
    await store.put_policy(POLICY, b"something else")
    assert await other.definition(DEFINITION) == b'{"nodes":[]}'
    assert await other.policy(POLICY) == b'{"version":"1"}'
    assert await other.definition(POLICY) is None
    assert await other.policy(DEFINITION) is None


async def test_a_transition_stores_what_it_changed(store: Store, other: Store) -> None:
    run = await submitted(store)
    step = Step(
        StepStatus.BLOCKED, code=Code.REJECTED, detail=Approval(b"a" * 32, 5, 1, False, "bob", 7)
    )
    write = write_of(
        run,
        {NODE: step},
        payloads=((OUTPUT, b'"no"'),),
        status=RunStatus.BLOCKED,
        settled_at_us=run.created_at_us,
        settlement=1,
        wake_at_us=None,
    )
    answer = await store.write(write)
    assert isinstance(answer, Won)
    expected = replace(write.after, last_at_us=answer.at.wall_us)
    assert await loaded(store, run.run_id) == expected == await loaded(other, run.run_id)
    assert await other.payloads(run.run_id, [OUTPUT, PayloadName("none")]) == {OUTPUT: b'"no"'}
    entry = (await other.journal(run.run_id, 1))[0]
    assert (entry.version, entry.first_seq, entry.nonce) == (2, 2, write.nonce)
    assert (entry.entries, entry.chain) == (write.entries, write.after.chain)
    assert entry.at_us == answer.at.wall_us


async def test_of_two_writes_of_a_version_one_wins_and_the_other_changes_nothing(
    store: Store, other: Store
) -> None:
    run = await submitted(store)
    first = write_of(run, requested_by=run.requested_by, payloads=((OUTPUT, b"1"),))
    second = write_of(run, cancelled=True, payloads=((OUTPUT, b"2"),))
    answers = await asyncio.gather(store.write(first), other.write(second))
    assert sorted(isinstance(answer, Won) for answer in answers) == [False, True]
    assert LOST in answers
    winner = first if isinstance(answers[0], Won) else second
    after = await loaded(store, run.run_id)
    assert (after.version, after.cancelled) == (2, winner.after.cancelled)
    assert await store.payloads(run.run_id, [OUTPUT]) == dict(winner.payloads)
    assert [entry.nonce for entry in await store.journal(run.run_id, 1)] == [winner.nonce]


async def test_a_write_sent_twice_applies_once_and_wins_both_times(
    store: Store, other: Store
) -> None:
    run = await submitted(store)
    write = dispatch_of(run, command=Command("c-1", b"d" * 32))
    first = await store.write(write)
    assert isinstance(first, Won)
    assert await other.write(write) == first == await store.write(write)
    assert len(await store.journal(run.run_id)) == 2
    await won(store, write_of(await loaded(store, run.run_id)))
    assert await store.write(write) == first, "also when the run has moved on"


async def test_a_write_decided_on_a_version_that_is_not_stored_is_lost(store: Store) -> None:
    """G15: what was read may be gone again."""
    run = await submitted(store)
    vanished = write_of(run).after
    assert await store.write(dispatch_of(vanished)) == LOST
    assert await loaded(store, run.run_id) == run


async def test_a_write_of_a_run_that_is_not_there_is_lost(store: Store) -> None:
    assert await store.write(write_of(submission("nobody").run)) == LOST


async def test_a_dispatch_gets_its_times_from_the_store(store: Store) -> None:
    run = await submitted(store)
    before = await store.now()
    write = dispatch_of(run)
    answer = await store.write(write)
    assert isinstance(answer, Won)
    assert before.wall_us <= answer.at.wall_us
    assert before.steady_us <= answer.at.steady_us
    dispatch = (await loaded(store, run.run_id)).step(NODE).dispatch
    sent = write.after.step(NODE).dispatch
    assert dispatch is not None
    assert sent is not None
    assert dispatch.at_us == answer.at.wall_us
    assert dispatch.settle.at_us == answer.at.steady_us + SETTLE_WAIT_US
    assert dispatch.settle.epoch == answer.at.epoch
    assert replace(dispatch, at_us=sent.at_us, settle=sent.settle) == sent


async def test_a_second_dispatch_of_a_step_changes_nothing(store: Store, other: Store) -> None:
    """G1, whatever the state says: the record is unique."""
    run = await won(store, dispatch_of(await submitted(store)))
    with pytest.raises(MayuraError) as refused:
        await other.write(dispatch_of(run, NodeId("second"), NODE))
    assert refused.value.code is Code.INTEGRITY_VIOLATION
    assert await loaded(store, run.run_id) == run
    assert len(await store.journal(run.run_id)) == 2


async def test_a_dispatch_under_another_fence_is_refused_and_a_completion_is_not(
    store: Store,
) -> None:
    """G8."""
    run = await won(store, dispatch_of(await submitted(store)))
    elsewhere = replace(run, fence=run.fence + 1)
    assert await store.write(dispatch_of(elsewhere, NodeId("next"))) == Refused("fenced")
    assert await loaded(store, run.run_id) == run
    await won(store, write_of(elsewhere, {NODE: succeeded(run.step(NODE))}))


async def test_a_forgetful_store_refuses_dispatches_and_nothing_else(place: Place) -> None:
    """G2."""
    store = await place.open()
    await prepare(store)
    run = await submitted(store)
    kept = await won(store, dispatch_of(run))
    earlier = dispatch_of(await submitted(store, "o-2"))
    committed = await store.write(earlier)
    await store.close()
    forgetful = await place.open_forgetful()
    answer = await forgetful.write(dispatch_of(kept, NodeId("next")))
    assert isinstance(answer, Refused)
    assert answer.reason == "not_durable"
    assert answer.remedy
    await won(forgetful, write_of(kept, {NODE: succeeded(kept.step(NODE))}))
    assert await forgetful.write(earlier) == committed, "that one was committed before"
    await forgetful.close()


async def test_a_command_is_carried_out_once(store: Store, other: Store) -> None:
    run = await submitted(store)
    command = Command("c-1", b"d" * 32)
    after = await won(store, write_of(run, command=command, cancelled=True))
    assert await other.command(run.run_id, "c-1") == command.digest
    assert await other.command(run.run_id, "c-2") is None
    again = write_of(after, command=replace(command, digest=b"e" * 32), cancelled=False)
    assert await other.write(again) == Refused("command")
    assert await loaded(store, run.run_id) == after


async def test_a_subject_is_taken_once_until_it_is_released(store: Store, other: Store) -> None:
    """G16."""
    first, second = await submitted(store, "o-1"), await submitted(store, "o-2")
    claim = OnceClaim(SUBJECT, NODE)
    held = await won(store, dispatch_of(first, once=claim))
    assert await other.once_holder(SUBJECT) == Holder(first.run_id, NODE)
    assert await other.write(dispatch_of(second, once=claim)) == Refused("once")
    assert await loaded(other, second.run_id) == second
    refused = replace(
        held.step(NODE), status=StepStatus.FAILED, receipt=Receipt.NOT_STARTED, acted=Acted.NO
    )
    await won(store, write_of(held, {NODE: refused}, once_released=(SUBJECT,)))
    assert await other.once_holder(SUBJECT) is None
    await won(other, dispatch_of(second, once=claim))
    assert await store.once_holder(SUBJECT) == Holder(second.run_id, NODE)


async def test_a_subject_is_released_by_its_holder_alone(store: Store) -> None:
    first, second = await submitted(store, "o-1"), await submitted(store, "o-2")
    await won(store, dispatch_of(first, once=OnceClaim(SUBJECT, NODE)))
    await won(store, write_of(second, once_released=(SUBJECT,)))
    assert await store.once_holder(SUBJECT) == Holder(first.run_id, NODE)


async def test_a_subject_may_be_released_again(store: Store) -> None:
    run = await submitted(store)
    held = await won(store, dispatch_of(run, once=OnceClaim(SUBJECT, NODE)))
    free = await won(store, write_of(held, once_released=(SUBJECT,)))
    await won(store, write_of(free, once_released=(SUBJECT,)))
    assert await store.once_holder(SUBJECT) is None


async def test_of_many_calls_that_take_a_released_subject_one_wins(
    store: Store, other: Store
) -> None:
    holder = await submitted(store, "o-0")
    claim = OnceClaim(SUBJECT, NODE)
    held = await won(store, dispatch_of(holder, once=claim))
    refused = replace(
        held.step(NODE), status=StepStatus.FAILED, receipt=Receipt.NOT_STARTED, acted=Acted.NO
    )
    await won(store, write_of(held, {NODE: refused}, once_released=(SUBJECT,)))
    runs = [await submitted(store, f"o-{number}") for number in range(1, 9)]
    answers = await asyncio.gather(
        *(
            (store, other)[number % 2].write(dispatch_of(run, once=claim))
            for number, run in enumerate(runs)
        )
    )
    assert sum(isinstance(answer, Won) for answer in answers) == 1
    assert answers.count(Refused("once")) == len(runs) - 1


async def test_subjects_of_two_scopes_never_meet(place: Place, store: Store) -> None:
    elsewhere = await place.open(Scope("acme", "other shop"))
    assert elsewhere.once_key != store.once_key
    claim = OnceClaim(SUBJECT, NODE)
    await won(store, dispatch_of(await submitted(store), once=claim))
    assert await elsewhere.once_holder(SUBJECT) is None
    await won(elsewhere, dispatch_of(await submitted(elsewhere), once=claim))
    await elsewhere.close()


async def test_in_a_batch_only_the_offender_and_the_loser_fail(store: Store, other: Store) -> None:
    runs = [await submitted(store, f"o-{number}") for number in range(50)]
    writes = [dispatch_of(run) for run in runs]
    await won(other, write_of(runs[7]))
    writes[11] = write_of(runs[11], spent_micros=runs[11].maximum_micros + 1)
    answers = await asyncio.gather(*map(store.write, writes), return_exceptions=True)
    assert answers[7] == LOST
    offence = answers[11]
    assert isinstance(offence, MayuraError)
    assert offence.code is Code.INTEGRITY_VIOLATION
    wins = [number for number, answer in enumerate(answers) if isinstance(answer, Won)]
    assert wins == [number for number in range(50) if number not in (7, 11)]
    for number, run in enumerate(runs):
        after = await loaded(other, run.run_id)
        assert after.version == (1 if number == 11 else 2)
        assert (after.step(NODE).dispatch is not None) == (number in wins)


async def test_a_write_that_no_transition_could_make_is_refused(store: Store) -> None:
    run = await submitted(store)
    for nonsense in (
        write_of(run, version=3),
        write_of(run, key="another"),
        write_of(run, definition=POLICY),
        write_of(run, once=OnceClaim(SUBJECT, NODE)),
        dispatch_of(run, NODE, NodeId("other"), once=OnceClaim(SUBJECT, NODE)),
        dispatch_of(run, once=OnceClaim(SUBJECT, NODE), once_released=(SUBJECT,)),
    ):
        with pytest.raises(MayuraError) as refused:
            await store.write(nonsense)
        assert refused.value.code is Code.INTEGRITY_VIOLATION
    assert await loaded(store, run.run_id) == run
