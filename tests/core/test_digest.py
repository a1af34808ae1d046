"""Digests: one kind is never another, and no two lists of parts share one."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from mayura.runtime.core.digest import (
    APPROVAL,
    DEFINITION,
    DOMAINS,
    INPUT,
    JOURNAL,
    chain,
    digest,
    keyed,
)

PARTS = st.lists(st.binary(max_size=12), max_size=4)


def test_the_domains_are_versioned_and_differ() -> None:
    assert len(set(DOMAINS)) == len(DOMAINS)
    assert all(domain.startswith("mayura:") and domain.endswith(":v1") for domain in DOMAINS)


def test_digests_are_what_they_were_when_the_first_run_was_stored() -> None:
    assert digest(DEFINITION, b"{}").hex() == (
        "bc1433d6e31214ccb3635cee516de2c9ae8db304caa94ed03db2cbb92ce75202"
    )
    assert keyed(b"salt", INPUT, b"a", b"b").hex() == (
        "f757ff063815d9eb9df43e363437f443f633ea67e13559e2ffaedec9975217fe"
    )
    assert chain(bytes(32), 1_700_000_000_000_000, 2, b"[]").hex() == (
        "f714307f1ce8717192767ab534f97cfa3783b690691ada920731d3e2f31aa00d"
    )


@given(PARTS, PARTS)
def test_different_parts_have_different_digests(one: list[bytes], other: list[bytes]) -> None:
    assume(one != other)
    assert digest(INPUT, *one) != digest(INPUT, *other)
    assert keyed(b"k", INPUT, *one) != keyed(b"k", INPUT, *other)


def test_parts_are_not_just_joined() -> None:
    assert digest(INPUT, b"ab", b"c") != digest(INPUT, b"a", b"bc")
    assert digest(INPUT, b"") != digest(INPUT)
    assert digest(INPUT, b"a") != digest(APPROVAL, b"a")
    assert keyed(b"k1", INPUT, b"a") != keyed(b"k2", INPUT, b"a")


def test_the_chain_covers_its_predecessor_and_when_that_was_stored() -> None:
    link = chain(bytes(32), 5, 2, b"[]")
    assert link != chain(b"\1" * 32, 5, 2, b"[]")
    assert link != chain(bytes(32), 6, 2, b"[]")
    assert link != chain(bytes(32), 5, 3, b"[]")
    assert link != chain(bytes(32), 5, 2, b"[1]")
    assert link == digest(
        JOURNAL, bytes(32), (5).to_bytes(8, "big", signed=True), (2).to_bytes(8, "big"), b"[]"
    )
