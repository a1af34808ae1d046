"""Group commit: what is ready at the same moment travels in one flight.

A durable commit and a round trip are what a write costs, so writes of many runs share them. An
item is sent at once when a lane is free; what arrives while the lanes are busy forms the next
flight. There is no timer: alone, an item waits for nobody. Free lanes share what is ready, so that
while the store carries out one flight, those who were answered by the other prepare the next: one
flight with everybody in it would make the two sides take turns.

Two items that share a key are never in the air together, neither in one flight nor in two, and
they leave in the order in which they came. The keys of a write are its run and its `once`
subjects (G7: at most one write a run in flight from one process).

A caller that is cancelled leaves its item where it is: the item still flies, and so do those
beside it. Only the answer is dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Final, Generic, TypeAlias, TypeVar

from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ports import RunWrite, WriteAnswer
from mayura.storage.home_loop import HomeLoop

_log = logging.getLogger("mayura.storage")

Item = TypeVar("Item")
Answer = TypeVar("Answer")

Outcome: TypeAlias = Answer | MayuraError | asyncio.Future[Answer | MayuraError]
"""What a flush says of one item: its answer, its error, or that its answer comes later.

An item answered later keeps its keys and gives up its place in the lane, so that one which has to
wait for somebody does not make the others wait with it.
"""

Flush: TypeAlias = Callable[[Sequence[Item]], Awaitable[Sequence[Outcome[Answer]]]]
"""Carries out a batch and says of each item, in order, what became of it."""

BATCH_ITEMS_MAX: Final = 128
"""More rows in a commit gain little and make everybody in it wait."""
SHARED_ITEMS_MIN: Final = 8
"""Fewer are not shared between lanes: a flight costs as much as the rows of several."""


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """What a group has done since it was made, and what waits in it now."""

    batches: int  #: flights sent
    items: int  #: items in them
    largest: int  #: items in the largest
    queued: int  #: items that wait for a lane


@dataclass(frozen=True, slots=True, eq=False)
class _Queued(Generic[Item, Answer]):
    item: Item
    keys: frozenset[Hashable]
    answer: asyncio.Future[Answer | Exception]


class Group(Generic[Item, Answer]):
    """Sends items in flights of those that were ready together, and hands each its answer."""

    def __init__(
        self,
        flush: Flush[Item, Answer],
        keys: Callable[[Item], Iterable[Hashable]],
        *,
        lanes: int = 1,
        batch_items_max: int = BATCH_ITEMS_MAX,
    ) -> None:
        """`lanes` flights may be in the air at once; each calls `flush` on its own."""
        self._home = HomeLoop()
        self._flush = flush
        self._keys = keys
        self._lanes_free = lanes
        self._batch_items_max = batch_items_max
        self._queue: deque[_Queued[Item, Answer]] = deque()
        self._flying: set[Hashable] = set()
        self._flights: set[asyncio.Task[None]] = set()
        self._launching = False
        self._closed = False
        self._unanswered = 0
        self._batches = self._items = self._largest = 0

    async def put(self, item: Item) -> Answer:
        """Send `item` with others and return its answer, or raise the error that is its answer.

        Errors: STORAGE_UNAVAILABLE after `close`; INVALID_CONFIG on another loop than the group's;
        whatever the flush answers for this item.
        """
        self._home.require()
        if self._closed:
            raise _closed()
        answer: asyncio.Future[Answer | Exception] = asyncio.get_running_loop().create_future()
        self._queue.append(_Queued(item, frozenset(self._keys(item)), answer))
        self._unanswered += 1
        self._launch_soon()
        outcome = await answer
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def statistics(self) -> GroupStatistics:
        """Counts for metrics; reading them changes nothing."""
        return GroupStatistics(self._batches, self._items, self._largest, len(self._queue))

    async def close(self, *, within_seconds: float) -> int:
        """Take no more, let what is here land, and after `within_seconds` give up on the rest.

        What is given up is answered STORAGE_UNAVAILABLE: whether it was committed is not known.
        Answers how many items that were.
        INVALID_CONFIG on another loop than the group's.
        """
        self._home.require()
        self._closed = True
        deadline = asyncio.get_running_loop().time() + within_seconds
        while self._queue or self._flights:
            self._launch()
            remaining = deadline - asyncio.get_running_loop().time()
            if remaining <= 0:
                break
            await asyncio.wait(
                self._flights, timeout=remaining, return_when=asyncio.FIRST_COMPLETED
            )
        left = self._unanswered
        given_up, self._queue = self._queue, deque()
        for queued in given_up:
            self._land(queued, _closed())
        while self._flights:
            await asyncio.sleep(0)  # a flight cancelled before it began would answer nobody
            for flight in self._flights:
                flight.cancel()
            await asyncio.gather(*self._flights, return_exceptions=True)
        return left

    def _launch_soon(self) -> None:
        # Not now: callers that were woken together put their items one after the other.
        if not self._launching and self._lanes_free:
            self._launching = True
            asyncio.get_running_loop().call_soon(self._launch)

    def _launch(self) -> None:
        self._launching = False
        while self._lanes_free and (batch := self._take()):
            self._lanes_free -= 1
            self._start(self._fly(batch))

    def _start(self, flying: Coroutine[None, None, None]) -> None:
        flight = asyncio.get_running_loop().create_task(flying)
        self._flights.add(flight)
        flight.add_done_callback(self._flights.discard)

    def _take(self) -> list[_Queued[Item, Answer]]:
        """The oldest items whose keys are free; an item left behind holds its keys' later ones."""
        batch: list[_Queued[Item, Answer]] = []
        left: list[_Queued[Item, Answer]] = []
        blocked: set[Hashable] = set()
        share = max(SHARED_ITEMS_MIN, ceil(len(self._queue) / self._lanes_free))
        items_max = min(self._batch_items_max, share)
        while self._queue and len(batch) < items_max:
            queued = self._queue.popleft()
            if self._flying.isdisjoint(queued.keys) and blocked.isdisjoint(queued.keys):
                self._flying |= queued.keys
                batch.append(queued)
            else:
                blocked |= queued.keys
                left.append(queued)
        self._queue.extendleft(reversed(left))
        return batch

    async def _fly(self, batch: list[_Queued[Item, Answer]]) -> None:
        self._batches += 1
        self._items += len(batch)
        self._largest = max(self._largest, len(batch))
        outcomes: Sequence[Outcome[Answer] | Exception] | None = None
        try:
            said = await self._flush([queued.item for queued in batch])
            if len(said) != len(batch):
                raise AssertionError("a flush says of every item what became of it")
            outcomes = said
        except Exception as error:  # noqa: BLE001 - whatever it is, everybody in the batch gets it
            outcomes = [_copy_of(error) for _ in batch]
        finally:  # also when the flight is given up: nobody is left waiting
            self._lanes_free += 1
            if outcomes is None:
                outcomes = [_closed() for _ in batch]
            for queued, outcome in zip(batch, outcomes, strict=True):
                if isinstance(outcome, asyncio.Future):
                    self._start(self._land_later(queued, outcome))
                else:
                    self._land(queued, outcome)
            self._launch_soon()  # after the answers: who is woken by them flies along

    async def _land_later(
        self, queued: _Queued[Item, Answer], later: asyncio.Future[Answer | MayuraError]
    ) -> None:
        outcome: Answer | Exception = _closed()
        try:
            outcome = await later
        except Exception as error:  # noqa: BLE001 - as in a flight, it is the item's answer
            outcome = _copy_of(error)
        finally:
            self._land(queued, outcome)
            self._launch_soon()

    def _land(self, queued: _Queued[Item, Answer], outcome: Answer | Exception) -> None:
        self._unanswered -= 1
        self._flying -= queued.keys
        if not queued.answer.done():  # done: the caller was cancelled and has gone
            queued.answer.set_result(outcome)


async def close_groups(*groups: Group[Any, Any], within_seconds: float) -> None:
    """Close a store's groups together, and log how much they gave up."""
    left = sum(
        await asyncio.gather(*(group.close(within_seconds=within_seconds) for group in groups))
    )
    if left:
        text = "a store was closed with %d operations unfinished after %.0f s: whether they were"
        _log.error(text + " stored is known when their runs are read again", left, within_seconds)


def write_keys(write: RunWrite) -> Iterable[Hashable]:
    """What two writes of one flight must not share: the run, and the `once` subjects (G16)."""
    if write.once is None and not write.once_released:
        return (write.before.run_id,)
    claimed = () if write.once is None else (write.once.digest,)
    return (write.before.run_id, *claimed, *write.once_released)


class GroupCommit(Group[RunWrite, WriteAnswer]):
    """The group of a store's writes: at most one a run and one a `once` subject in the air."""

    def __init__(
        self,
        flush: Flush[RunWrite, WriteAnswer],
        *,
        lanes: int = 1,
        batch_items_max: int = BATCH_ITEMS_MAX,
    ) -> None:
        super().__init__(flush, write_keys, lanes=lanes, batch_items_max=batch_items_max)


def _copy_of(error: BaseException) -> Exception:
    """An error for one caller: several that raise the same one would write into its traceback."""
    if isinstance(error, MayuraError):
        return MayuraError(error.code, str(error))
    failure = RuntimeError("a flush failed")
    failure.__cause__ = error
    return failure


def _closed() -> MayuraError:
    return MayuraError(
        Code.STORAGE_UNAVAILABLE,
        "The store is closed, so it is not known whether this was stored: open it and send the"
        " same again.",
    )
