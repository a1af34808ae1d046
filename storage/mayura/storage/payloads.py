"""Payload bodies behind a codec port, so that encryption and erasure can come without a new table.

Every payload row keeps the codec's name and the id of the key it was written with: a store can
hold rows of several codecs, and a row says what is needed to read it.
"""

from __future__ import annotations

from typing import Protocol

from mayura.runtime.errors import Code, MayuraError


class Codec(Protocol):
    """Turns a payload into what is stored and back, byte for byte."""

    @property
    def name(self) -> str:
        """Stored with every row this codec wrote; stable."""
        ...

    @property
    def key_id(self) -> str:
        """The key new rows are written with; empty where there is none. Never the key itself."""
        ...

    def encode(self, body: bytes) -> bytes: ...

    def decode(self, body: bytes, key_id: str) -> bytes: ...


class IdentityCodec:
    """Stores payloads as they are."""

    @property
    def name(self) -> str:
        return "identity"

    @property
    def key_id(self) -> str:
        return ""

    def encode(self, body: bytes) -> bytes:
        return body

    def decode(self, body: bytes, key_id: str) -> bytes:
        return body


def decoded(codec: Codec, stored_with: str, key_id: str, body: bytes) -> bytes:
    """The payload of a stored row. INVALID_CONFIG where another codec wrote it."""
    if stored_with != codec.name:
        raise MayuraError(
            Code.INVALID_CONFIG,
            f"A payload was stored with the codec {stored_with!r} and this store was opened with "
            f"{codec.name!r}: open it with the codec that wrote it.",
        )
    return codec.decode(body, key_id)
