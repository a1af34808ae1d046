"""What an engine cannot take: each error names the place, and says what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from mayura.runtime import Code, Engine, Flow, Policy, Tool, Workflow, open_store, workflow
from mayura.runtime.core.mistake import DefinitionError
from mayura.storage.memory import MemoryStore
from mayura.storage.memory_database import MemoryDatabase
from tests.runtime.shop import Order, acting, one_step, people, policy_for, two_steps
from tests.runtime.world import World, refused

SECRET = "card 4711 0815"
ACT = acting()
ONE = one_step(ACT)
POLICY = policy_for(ONE)


def undecorated(flow: Flow, order: str) -> str:
    raise NotImplementedError


def nobody() -> None:
    """A verifier that forgot what it is asked."""


def engine(**options: Any) -> Engine:  # noqa: ANN401 - they are wrong on purpose
    """An engine with these options, and right ones beside them."""
    store = MemoryStore(MemoryDatabase())
    given = {"store": store, "workflows": [ONE], "policy": POLICY, **options}
    return Engine(given.pop("store"), **given)


WRONG: dict[str, tuple[dict[str, object], str, str]] = {
    "a URL": ({"store": "sqlite:///a.db"}, "engine store", "open_store("),
    "no store": ({"store": None}, "engine store", "open_store("),
    "a workflow alone": ({"workflows": ONE}, "engine workflows", "give a list with it alone"),
    "no workflows": ({"workflows": None}, "engine workflows", "is None: give a list"),
    "an id": ({"workflows": "shop.one"}, "engine workflows", "give a list"),
    "a function": ({"workflows": [undecorated]}, "engine workflows[0]", "@workflow(...)"),
    "a tool": ({"workflows": [ONE, ACT]}, "engine workflows[1]", "is the tool 'shop.act'"),
    "an id in the list": ({"workflows": ["shop.one"]}, "engine workflows[0]", "type str, not a"),
    "the same twice": ({"workflows": [ONE, ONE]}, "engine workflows[1]", "list it once"),
    "two of one version": (
        {"workflows": [ONE, two_steps(ACT, name="shop.one")]},
        "engine workflows[1]",
        "workflow 'shop.one' version '1' is there twice: give one",
    ),
    "grants for a policy": ({"policy": ACT.grants}, "engine policy", "Policy(version="),
    "no policy": ({"policy": None}, "engine policy", "is None"),
    "one earlier policy": (
        {"previous_policies": POLICY},
        "engine previous_policies",
        "give a list with it alone",
    ),
    "a text for a policy": (
        {"previous_policies": [POLICY, "1"]},
        "engine previous_policies[1]",
        "not a Policy",
    ),
    "a name for a verifier": ({"verify_human": "people"}, "engine verify_human", "function"),
    "a verifier of nothing": ({"verify_human": nobody}, "engine verify_human", "one credential"),
    "a text of calls": ({"calls_max": "64"}, "engine calls_max", "whole number"),
    "half a thread": ({"threads_max": 0.5}, "engine threads_max", "whole number"),
    "a yes for calls": ({"calls_max": True}, "engine calls_max", "whole number"),
    "no number": ({"margin": float("nan")}, "engine margin", "at least a millisecond"),
    "a text of a margin": ({"margin": "60"}, "engine margin", "number of seconds"),
}


@pytest.mark.parametrize(("options", "where", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_option_is_named(options: dict[str, object], where: str, said: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        engine(**options)
    assert caught.value.code is Code.INVALID_CONFIG
    assert caught.value.where == where
    assert said in caught.value.what


async def test_a_store_that_was_not_awaited_is_told_to_be() -> None:
    opening = open_store("memory://")
    with pytest.raises(DefinitionError, match="is not open yet: write await open_store"):
        engine(store=opening)
    await (await opening).close()


def test_a_verifier_may_take_more_if_it_need_not() -> None:
    def verifier(credential: str, realm: str = "shop") -> None: ...

    engine(verify_human=verifier)


def test_a_process_has_one_number_of_slots_for_a_tool() -> None:
    """The first number that was seen would count, whichever that is."""
    few, many = (one_step(acting(concurrency=n), version=str(n)) for n in (1, 5))
    with pytest.raises(DefinitionError, match="state the same") as caught:
        engine(workflows=[few, many])
    assert caught.value.where == "tool 'shop.act' concurrency"
    assert "is 1 in workflow 'shop.one' version '1' and 5 in" in caught.value.what
    with pytest.raises(DefinitionError, match="None in"):
        engine(workflows=[one_step(acting(), version="2"), few])
    engine(workflows=[few, one_step(acting(concurrency=1), version="2")])


def test_a_workflow_has_one_number_of_slots_for_a_tool() -> None:
    with pytest.raises(DefinitionError, match="state the same") as caught:
        two_steps(acting(concurrency=1), acting(concurrency=2))
    assert caught.value.where == "workflow 'shop.two' node 'then' tool 'shop.act' concurrency"


ALLOWED: dict[str, tuple[object, str, str]] = {
    "a tool": (ACT, "policy '1' allow", "did you mean act.grants?"),
    "a tool in the list": ([*ACT.grants, ACT], "policy '1' allow[2]", "did you mean act.grants?"),
    "grants in the list": ([ACT.grants], "policy '1' allow[0]", "with the star"),
    "nothing": (None, "policy '1' allow", "is a list of grants"),
    "what is gone once read": (iter(ACT.grants), "policy '1' allow", "is a list of grants"),
}


@pytest.mark.parametrize(("allow", "where", "said"), ALLOWED.values(), ids=ALLOWED)
def test_a_policy_that_was_given_something_else_than_grants_says_so(
    allow: object, where: str, said: str
) -> None:
    with pytest.raises(DefinitionError) as caught:
        Policy(version="1", allow=cast(Any, allow))
    assert caught.value.where == where
    assert said in caught.value.what


def test_a_tool_or_workflow_that_is_called_says_what_to_write() -> None:
    called: list[tuple[Tool[..., Any] | Workflow[Any, Any], str]] = [
        (ACT, r"tool 'shop.act': .*act\.on\(\.\.\.\)\); in a unit test, act\.fn"),
        (ONE, r"workflow 'shop.one': .*engine\.submit"),
    ]
    for each, said in called:
        with pytest.raises(DefinitionError, match=said):
            cast(Callable[[str], object], each)("o-1")

    def calls(flow: Flow, order: str) -> str:
        return cast(str, flow.tool("act", cast(Any, ACT)(order)).output)

    with pytest.raises(DefinitionError, match=r"act\.on"):
        workflow("shop.calls", version="1")(calls)


async def test_what_is_no_run_id_at_all_is_explained(world: World) -> None:
    made = await world.engine(ONE)
    run = await made.submit(ONE, "o-1", key="o-1")
    asked: list[tuple[object, str]] = [(run, "the id of the Submitted"), (None, "hand over run.id")]
    for given, said in asked:
        wrong = cast(Any, given)
        for ask in (
            made.inspect,
            made.events,
            made.run_until_settled,
            made.result,
            lambda run_id: made.approval_request(run_id, "act"),
            lambda run_id: made.human_request(run_id, "act"),
            lambda run_id: made.cancel(run_id, by="ops"),
            lambda run_id: made.signal(run_id, "go", "s-1", 1),
            lambda run_id: made.approve(run_id, "act", "", credential="key-of-bob"),
            lambda run_id: made.respond(run_id, "act", "", 1, credential="key-of-bob"),
            lambda run_id: made.recover_abandoned(run_id, credential="key-of-bob"),
        ):
            with refused(Code.INVALID_INPUT) as caught:
                await cast(Any, ask)(wrong)
            assert said in str(caught.value)


@pytest.mark.parametrize("limit", [0, -1, 1.5, "5", None, True, 10_001])
async def test_a_sweep_says_how_many_runs_it_may_take(world: World, limit: object) -> None:
    made = await world.engine(ONE)
    with pytest.raises(DefinitionError, match="run_once limit"):
        await made.run_once(limit=cast(Any, limit))


@pytest.mark.parametrize("seconds", [-1, float("nan"), "5", True])
async def test_a_wait_is_some_seconds_or_as_long_as_it_takes(world: World, seconds: object) -> None:
    made = await world.engine(ONE)
    run = await made.submit(ONE, "o-1", key="o-1")
    for wait in (lambda: made.result(run.id, timeout=cast(Any, seconds)),
                 lambda: made.drain(cast(Any, seconds))):  # fmt: skip
        with refused(Code.INVALID_INPUT) as caught:
            await cast(Any, wait)()
        assert "number of seconds" in str(caught.value)


async def test_a_submission_says_which_workflow_and_which_field(world: World) -> None:
    @workflow("shop.typed", version="1")
    def typed(flow: Flow, order: Order) -> str:
        return flow.tool("act", ACT.on(order.order_id)).output

    made = await world.engine(typed)
    with refused(Code.INVALID_CONFIG) as caught:
        await made.submit(cast(Any, "shop.typed"), Order(order_id="o-1"), key="o-1")
    assert "not a str" in str(caught.value)
    with refused(Code.INVALID_CONFIG) as caught:
        await made.submit(ONE, "o-1", key="o-1")
    assert "'shop.typed' version '1'" in str(caught.value)
    wrong = Order.model_construct(order_id="o-1", amount_cents=cast(Any, SECRET))
    for given in (wrong, cast(Any, {"order_id": "o-1", "amount_cents": SECRET})):
        with refused(Code.INVALID_INPUT) as caught:
            await made.submit(typed, given, key="o-1")
        assert "input" in str(caught.value)
        assert SECRET not in str(caught.value)


async def test_a_command_that_does_not_fit_its_step_is_told_which_does(world: World) -> None:
    @workflow("shop.mixed", version="1")
    def mixed(flow: Flow, order: str) -> str:
        flow.human("ask", str, prompt="Which?")
        flow.signal("arrival", int, name="parcel-arrived")
        paid = flow.tool("pay", ACT.on(order), approval=True)
        return flow.join("all", [paid]).output[0]

    made = await world.engine(mixed)
    run = await made.submit(mixed, "o-1", key="o-1")
    await made.run_until_settled(run.id)
    approve = made.approve(run.id, "ask", "", credential="key-of-bob")
    reject = made.reject(run.id, "arrival", "", credential="key-of-bob")
    respond = made.respond(run.id, "pay", "", "x", credential="key-of-bob")
    for command, said in (
        (approve, "step 'ask' asks a question: respond to it"),
        (reject, "step 'arrival' waits for a signal: send it with signal("),
        (respond, "step 'pay' is a call, and asks nothing: approve or reject it"),
        (made.respond(run.id, "all", "", "x", credential="key-of-bob"), "collects other steps"),
        (made.approve(run.id, "pai", "", credential="key-of-bob"), "did you mean 'pay'?"),
        (made.signal(run.id, "parcel-arived", "s", 1), "did you mean 'parcel-arrived'?"),
        (made.signal(run.id, "arrival", "s", 1), "waits for the signal 'parcel-arrived'"),
    ):
        with refused(Code.NOT_FOUND) as caught:
            await command
        assert said in str(caught.value)
    request = await made.approval_request(run.id, "pay")
    with refused(Code.INVALID_INPUT) as caught:
        wrong = cast(Any, 404)
        await made.reject(run.id, "pay", request.digest, credential="key-of-bob", reason=wrong)
    assert "a reason is a text" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tool_id": None}, "an id is a letter"),
        ({"capabilities": None}, "capabilities: is a list of texts"),
        ({"capabilities": iter(["a"])}, "capabilities: is a list of texts"),
        ({"input_guards": people}, "input_guards: is a list of Guard"),
        ({"output_guards": None}, "output_guards: is a list of Guard"),
        ({"once": 5}, "once: names fields of the input"),
        ({"once": [5]}, "once: names fields of the input"),
    ],
)
def test_an_option_of_a_tool_of_another_type_is_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        acting(**options)
    assert said in str(caught.value)


def test_a_workflow_without_an_id_is_named() -> None:
    with pytest.raises(DefinitionError, match="an id is a letter"):
        workflow(cast(Any, None), version="1")(undecorated_but_right)


def undecorated_but_right(flow: Flow, order: str) -> str:
    return flow.tool("act", ACT.on(order)).output


async def test_a_step_or_a_signal_has_a_name_that_is_a_text(world: World) -> None:
    made = await world.engine(ONE)
    run = await made.submit(ONE, "o-1", key="o-1")
    for wrong in (None, 5, ["act"]):
        name = cast(Any, wrong)
        for ask in (
            made.approval_request(run.id, name),
            made.human_request(run.id, name),
            made.approve(run.id, name, "", credential="key-of-bob"),
            made.respond(run.id, name, "", 1, credential="key-of-bob"),
            made.signal(run.id, name, "s-1", 1),
        ):
            with refused(Code.INVALID_INPUT):
                await ask
    with refused(Code.NOT_FOUND) as caught:
        await made.approval_request(run.id, "atc")
    assert "did you mean 'act'?" in str(caught.value)


async def test_a_plain_object_for_a_model_is_told_so(world: World) -> None:
    @workflow("shop.typed", version="1")
    def typed(flow: Flow, order: Order) -> str:
        return flow.tool("act", ACT.on(order.order_id)).output

    made = await world.engine(typed)
    with refused(Code.INVALID_INPUT) as caught:
        await made.submit(typed, cast(Any, {"order_id": SECRET}), key="o-1")
    assert "input is a dict: hand over one of type Order" in str(caught.value)
    assert SECRET not in str(caught.value)


async def test_a_scope_and_an_environment_are_told_from_other_things() -> None:
    with refused(Code.INVALID_CONFIG):
        await open_store("memory://", scope=cast(Any, "shop"))
    with refused(Code.INVALID_INPUT):
        await open_store("memory://", environment=cast(Any, 5))
