"""Policies: what a run may do, as one digest, stored in full."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayura.runtime import Code, Policy
from mayura.runtime.core.definition import JsonValue
from mayura.runtime.core.digest import POLICY, digest
from mayura.runtime.core.mistake import DefinitionError
from mayura.runtime.core.values import INTEGER_MAX, VALUE_BYTES_MAX, decode, encode
from tests.core.shop import charge, pick, show

GRANTS = st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=1, max_size=9)
POLICIES = st.builds(
    Policy,
    version=GRANTS,
    allow=st.lists(GRANTS, max_size=4),
    budget_micros=st.integers(0, INTEGER_MAX),
    output_bytes_max=st.integers(1, VALUE_BYTES_MAX),
    approval_lifetime=st.integers(1, 2**31 - 1).map(lambda ms: ms / 1000),
    unverified_people=st.booleans(),
    separation_of_duties=st.booleans(),
)


@given(POLICIES)
def test_a_policy_comes_back_from_its_manifest(policy: Policy) -> None:
    stored = encode(policy.manifest())
    again = Policy.from_manifest(decode(stored))
    assert again == policy
    assert again.digest == policy.digest == digest(POLICY, stored)


def test_the_order_of_grants_and_repetitions_do_not_matter() -> None:
    one = Policy(version="1", allow=["b", "a", "b"])
    assert one == Policy(version="1", allow=("a", "b"))
    assert one.allow == ("a", "b")


CHANGES: Final[list[dict[str, Any]]] = [
    {"version": "2"},
    {"allow": ["b"]},
    {"allow": []},
    {"budget_micros": 1},
    {"output_bytes_max": 5},
    {"approval_lifetime": 3600.001},
    {"unverified_people": True},
    {"separation_of_duties": True},
]


def test_every_setting_is_part_of_the_digest() -> None:
    base: dict[str, Any] = {"version": "1", "allow": ["a"]}
    digests = {Policy(**{**base, **change}).digest for change in ({}, *CHANGES)}
    assert len(digests) == len(CHANGES) + 1


def test_missing_grants_are_named_ready_to_paste() -> None:
    spec = charge.spec
    assert Policy(version="1").missing(spec) == ("tool:payments.charge", "effect:write")
    assert Policy(version="1", allow=["effect:write"]).missing(spec) == ("tool:payments.charge",)
    assert Policy(version="1", allow=charge.grants).missing(spec) == ()
    assert Policy(version="1").missing(pick.spec) == ("tool:stock.pick", "effect:read")
    assert Policy(version="1").missing(show.spec) == ("tool:text.show",)


def test_a_grant_is_an_exact_string() -> None:
    for near in ("tool:payments.*", "tool:payments.charg", "TOOL:payments.charge", "*", "effect"):
        assert "tool:payments.charge" in Policy(version="1", allow=[near]).missing(charge.spec)


def test_a_policy_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Policy(version="1").budget_micros = 5  # type: ignore[misc]


@pytest.mark.parametrize(
    ("settings", "code", "said"),
    [
        ({"version": ""}, Code.INVALID_CONFIG, "version"),
        ({"version": "v" * 129}, Code.LIMIT_EXCEEDED, "version"),
        ({"allow": "tool:a"}, Code.INVALID_CONFIG, "is a list"),
        ({"allow": [""]}, Code.INVALID_CONFIG, "allow"),
        ({"allow": [5]}, Code.INVALID_CONFIG, "allow"),
        ({"allow": ["g" * 257]}, Code.LIMIT_EXCEEDED, "256"),
        ({"allow": [f"g{i}" for i in range(4097)]}, Code.LIMIT_EXCEEDED, "4096"),
        ({"budget_micros": -1}, Code.INVALID_CONFIG, "budget_micros"),
        ({"budget_micros": 0.5}, Code.INVALID_CONFIG, "budget_micros"),
        ({"budget_micros": 2**53}, Code.LIMIT_EXCEEDED, "budget_micros"),
        ({"output_bytes_max": 0}, Code.INVALID_CONFIG, "output_bytes_max"),
        ({"output_bytes_max": 2**20 + 1}, Code.LIMIT_EXCEEDED, "output_bytes_max"),
        ({"approval_lifetime": 0}, Code.INVALID_CONFIG, "approval_lifetime"),
        ({"approval_lifetime": float("inf")}, Code.INVALID_CONFIG, "approval_lifetime"),
        ({"unverified_people": 1}, Code.INVALID_CONFIG, "unverified_people"),
        ({"separation_of_duties": None}, Code.INVALID_CONFIG, "separation_of_duties"),
    ],
)
def test_a_setting_that_does_not_hold_is_refused_by_name(
    settings: dict[str, Any], code: Code, said: str
) -> None:
    with pytest.raises(DefinitionError) as caught:
        Policy(**{"version": "1", **settings})
    assert caught.value.code is code
    assert said in str(caught.value)
    assert str(caught.value).startswith("policy")


def test_what_the_limits_allow_is_accepted() -> None:
    policy = Policy(
        version="v" * 128,
        allow=[f"{i:0256}" for i in range(4096)],
        budget_micros=INTEGER_MAX,
        approval_lifetime=(2**31 - 1) / 1000,
    )
    assert Policy.from_manifest(policy.manifest()) == policy


BASE: Final[dict[str, JsonValue]] = dict(Policy(version="1").manifest())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "manifest",
    [
        None,
        {},
        {**BASE, "format": 2},
        {**BASE, "more": 1},
        {**BASE, "version": 1},
        {**BASE, "allow": None},
        {**BASE, "budget_micros": -1},
        {**BASE, "budget_micros": 1.5},
        {**BASE, "approval_lifetime_ms": 0},
        {**BASE, "unverified_people": "yes"},
    ],
)
def test_a_manifest_that_nothing_wrote_is_refused(manifest: JsonValue) -> None:
    with pytest.raises(DefinitionError):
        Policy.from_manifest(manifest)
