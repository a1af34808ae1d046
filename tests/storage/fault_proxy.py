"""A proxy in front of PostgreSQL that cuts a connection before or after a chosen message.

It reads the protocol, so "the server has committed and its answer is on the way" is a place and
not a moment. A cut is armed by something that a client's message holds, such as the nonce of a
write, and happens at the first message of the chosen kind in that exchange:

    async with FaultProxy(server.port) as proxy:
        store = await open_store(proxy.url(server.url(database)))
        cut = proxy.arm(Cut(write.nonce, AFTER_COMMIT, "rst"))
        answer = await store.write(write)   # finds out that it was committed
        assert cut.happened.is_set()

Messages are named by their type byte: of the client `B` (bind), `E` (execute), `S` (sync: the
server commits), `P` (parse), `Q` (simple query); of the server `2` (bound), `D` (row), `C`
(complete), `Z` (ready). What the server sends is seen here after its commit.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Literal
from urllib.parse import urlsplit, urlunsplit

How = Literal["fin", "rst", "black_hole"]
Side = Literal["client", "server"]
When = Literal["before", "after"]

ENCRYPTION_REQUESTS: Final = frozenset({80877103, 80877104})
SYNC: Final = b"S"
READY: Final = b"Z"


@dataclass(frozen=True, slots=True)
class Place:
    """Right before or right after a message, which is then not, or just, passed on."""

    side: Side  #: who sent the message
    message: bytes
    when: When


BEFORE_SENT: Final = Place("client", b"B", "before")
"""The server never hears of it."""
AFTER_COMMIT: Final = Place("client", SYNC, "after")
"""The server has carried it out and committed it; its answer is lost."""


@dataclass(slots=True)
class Cut:
    """One cut that is still to happen, or did."""

    armed_by: bytes  #: what a client's message must hold for the exchange that it begins
    place: Place
    how: How
    happened: asyncio.Event = field(default_factory=asyncio.Event)


class FaultProxy:
    """Listens on a port of its own and passes everything on, but for what it is told."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._target = (host, port)
        self._cuts: list[Cut] = []
        self._links: set[_Link] = set()
        self._carrying: set[asyncio.Task[None]] = set()
        self._admitting = asyncio.Event()
        self._admitting.set()
        self._listener: asyncio.Server | None = None

    @property
    def port(self) -> int:
        assert self._listener is not None, "the proxy has not been started"
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    def url(self, url: str) -> str:
        """The same database by way of this proxy."""
        parts = urlsplit(url)
        user, _, _ = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{user}@127.0.0.1:{self.port}"))

    def arm(self, cut: Cut) -> Cut:
        """Wait for the cut's place, once."""
        self._cuts.append(cut)
        return cut

    def cut_all(self, how: How) -> None:
        """Cut every connection there is, wherever it is."""
        for link in tuple(self._links):
            link.end(how)

    def hold_back(self) -> None:
        """Accept new connections and let them wait, as a network does that drops packets."""
        self._admitting.clear()

    def admit(self) -> None:
        """Let those in that wait, and those that come."""
        self._admitting.set()

    async def __aenter__(self) -> FaultProxy:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._listener is not None, "entered"
        self._listener.close()
        await self._listener.wait_closed()
        self.cut_all("rst")
        carrying = tuple(self._carrying)
        for task in carrying:
            task.cancel()
        await asyncio.gather(*carrying, return_exceptions=True)

    def armed_by(self, body: bytes) -> Cut | None:
        """The first cut that this message arms; it is armed once."""
        for cut in self._cuts:
            if cut.armed_by in body:
                self._cuts.remove(cut)
                return cut
        return None

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        carrying = asyncio.create_task(self._carry(_Link(self, reader, writer)))
        self._carrying.add(carrying)
        carrying.add_done_callback(self._carrying.discard)

    async def _carry(self, link: _Link) -> None:
        self._links.add(link)
        try:
            await self._admitting.wait()
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await link.carry(*self._target)
        finally:
            self._links.discard(link)
            link.end("fin")


class _Link:
    """One client's connection and its continuation to the server."""

    def __init__(
        self, proxy: FaultProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._proxy = proxy
        self._client = (reader, writer)
        self._server: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._cut: Cut | None = None
        self._dropped: set[Side] = set()  #: whose messages are not passed on any more
        self._ready = asyncio.Event()  #: the server said so, and it was dropped
        self._in_black_hole = False
        self._ended = asyncio.Event()

    async def carry(self, host: str, port: int) -> None:
        """Pass messages on in both directions until one side, or a cut, ends it."""
        self._server = await asyncio.open_connection(host, port)
        await self._begin()
        pumps = [asyncio.create_task(self._pump(side)) for side in ("client", "server")]
        ended = asyncio.create_task(self._until_ended())
        try:
            await asyncio.wait([*pumps, ended], return_when=asyncio.FIRST_COMPLETED)
            if self._in_black_hole:  # neither side hears of the other's end
                await ended
        finally:
            for task in (*pumps, ended):
                task.cancel()
            await asyncio.wait([*pumps, ended])

    def end(self, how: How) -> None:
        """Close both connections so; a black hole leaves them open and swallows everything."""
        if how == "black_hole":
            self._dropped = {"client", "server"}
            self._in_black_hole = True
            return
        self._ended.set()
        for connection in (self._client, self._server):
            if connection is None:
                continue
            _, writer = connection
            if how == "rst":
                _reset(writer)
            else:
                writer.close()

    async def _begin(self) -> None:
        """The messages before the first one with a type: requests to encrypt, then the start."""
        (client, client_writer), (server, server_writer) = self._client, self._connected()
        while True:
            size = await client.readexactly(4)
            body = await client.readexactly(struct.unpack("!i", size)[0] - 4)
            server_writer.write(size + body)
            await server_writer.drain()
            if struct.unpack("!i", body[:4])[0] not in ENCRYPTION_REQUESTS:
                return
            client_writer.write(await server.readexactly(1))

    async def _pump(self, side: Side) -> None:
        ends = (self._client, self._connected())
        source, sink = ends if side == "client" else ends[::-1]
        reader, writer = source[0], sink[1]
        while True:
            head = await reader.readexactly(5)
            body = await reader.readexactly(struct.unpack("!i", head[1:])[0] - 4)
            kind = head[:1]
            if side in self._dropped:
                if kind == READY:
                    self._ready.set()
                continue
            if side == "client" and self._cut is None:
                self._cut = self._proxy.armed_by(body)
            cut = self._cut
            if cut is not None and (cut.place.side, cut.place.message) == (side, kind):
                await self._carry_out(cut, head + body, writer)
            else:
                writer.write(head + body)
                await writer.drain()

    async def _carry_out(self, cut: Cut, message: bytes, writer: asyncio.StreamWriter) -> None:
        self._dropped = {"client", "server"}
        if cut.place.when == "after":
            writer.write(message)
            await writer.drain()
            if cut.place.side == "client" and message[:1] == SYNC:
                await self._ready.wait()
        cut.happened.set()
        self.end(cut.how)

    async def _until_ended(self) -> None:
        await self._ended.wait()

    def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        assert self._server is not None, "begun after the connection to the server"
        return self._server


def _reset(writer: asyncio.StreamWriter) -> None:
    connection: socket.socket | None = writer.get_extra_info("socket")
    if connection is not None:
        with suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
