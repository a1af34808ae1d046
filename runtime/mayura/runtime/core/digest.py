"""Digests: SHA-256 under a versioned domain, so that no two kinds of digest can be confused."""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import Final

DEFINITION: Final = "mayura:definition:v1"
POLICY: Final = "mayura:policy:v1"
SUBMISSION: Final = "mayura:submission:v1"
INPUT: Final = "mayura:input:v1"  #: a call's exact input
ANSWER: Final = "mayura:answer:v1"
APPROVAL: Final = "mayura:approval:v1"
QUESTION: Final = "mayura:question:v1"
SIGNAL: Final = "mayura:signal:v1"
COMMAND: Final = "mayura:command:v1"
ONCE: Final = "mayura:once:v1"  #: a `once` subject, keyed with the scope's key (G16)
CALL_KEY: Final = "mayura:call-key:v1"
JOURNAL: Final = "mayura:journal:v1"
SCHEMA: Final = "mayura:schema:v1"  #: names recursive definitions within a schema

DOMAINS: Final = (
    DEFINITION,
    POLICY,
    SUBMISSION,
    INPUT,
    ANSWER,
    APPROVAL,
    QUESTION,
    SIGNAL,
    COMMAND,
    ONCE,
    CALL_KEY,
    JOURNAL,
    SCHEMA,
)


def digest(domain: str, *parts: bytes) -> bytes:
    """The 32 bytes that stand for `parts`, in this order and cut at these places."""
    return sha256(_framed(domain, parts)).digest()


def keyed(key: bytes, domain: str, *parts: bytes) -> bytes:
    """The same, but nobody without `key` can test a guess: HMAC-SHA256.

    Payload digests take the run's salt, `once` subjects the scope's key (G16).
    """
    return hmac.digest(key, _framed(domain, parts), "sha256")


def chain(previous: bytes, previous_at_us: int, version: int, entries: bytes) -> bytes:
    """The digest of a journal entry: it covers its predecessor, and when that was stored."""
    return digest(
        JOURNAL,
        previous,
        previous_at_us.to_bytes(8, "big", signed=True),
        version.to_bytes(8, "big"),
        entries,
    )


def _framed(domain: str, parts: tuple[bytes, ...]) -> bytes:
    framed = [domain.encode(), b"\n"]
    for part in parts:
        framed.append(len(part).to_bytes(8, "big"))
        framed.append(part)
    return b"".join(framed)
