"""The table of legal moves of one step, as data: drawn in the README, exhausted by a test.

A move that is not in the table is refused; `apply` is the only code that writes a status, and it
asks this table first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mayura.runtime.core.state import StepStatus as S


@dataclass(frozen=True, slots=True)
class Move:
    """From where a move may start, where it may end, and what it means in one line."""

    sources: frozenset[S]
    targets: frozenset[S]  #: empty: the step stays what it is
    meaning: str


def _move(sources: set[S], targets: set[S], meaning: str) -> Move:
    return Move(frozenset(sources), frozenset(targets), meaning)


def _stay(sources: set[S], meaning: str) -> Move:
    return Move(frozenset(sources), frozenset(), meaning)


MOVES: Mapping[str, Move] = {
    "skip": _move({S.PENDING, S.WAITING}, {S.SKIPPED}, "a dependency did not succeed, or cancel"),
    "bypass": _move({S.PENDING}, {S.BYPASSED}, "`when` is null or false"),
    "block": _move({S.PENDING}, {S.BLOCKED}, "grant, budget, guard or `once` says no"),
    "fail": _move({S.PENDING, S.WAITING}, {S.FAILED}, "a value does not fit"),
    "request_approval": _move({S.PENDING}, {S.WAITING}, "a person is asked for this exact call"),
    "lapse": _move({S.PENDING, S.WAITING}, {S.PENDING}, "the request or the approval expired"),
    "approve": _move({S.WAITING}, {S.PENDING}, "a verified person said yes"),
    "reject": _move({S.WAITING}, {S.BLOCKED}, "a verified person said no"),
    "ask": _move({S.PENDING}, {S.WAITING}, "a person is asked a question"),
    "answer": _stay({S.WAITING}, "an answer is recorded"),
    "start_timer": _move({S.PENDING}, {S.WAITING}, "the due time is known"),
    "await_signal": _move({S.PENDING}, {S.WAITING}, "the step begins to wait"),
    "receive": _stay({S.PENDING, S.WAITING}, "a signal is recorded, early or in time"),
    "keep": _stay({S.SKIPPED, S.BYPASSED}, "a signal without effect"),
    "accept": _move({S.WAITING}, {S.SUCCEEDED}, "answer, timer or signal is the output"),
    "time_out": _move({S.WAITING}, {S.TIMED_OUT}, "nothing came before the deadline"),
    "join": _move({S.PENDING}, {S.SUCCEEDED}, "all slots are done"),
    "dispatch": _move({S.PENDING}, {S.DISPATCHING}, "the call is recorded as begun (G2)"),
    "decline": _move({S.DISPATCHING}, {S.BLOCKED, S.SKIPPED}, "the last check said no (G3)"),
    "complete": _move(
        {S.DISPATCHING},
        {S.SUCCEEDED, S.FAILED, S.BLOCKED, S.UNKNOWN},
        "the call ended, and how (G6, G10)",
    ),
    "abandon": _move(
        {S.DISPATCHING},
        {S.BLOCKED, S.FAILED, S.UNKNOWN},
        "past its settle deadline in no process that still has it (G9)",
    ),
    "resolve": _move(
        {S.UNKNOWN, S.BLOCKED},
        {S.SUCCEEDED, S.FAILED},
        "a lookup or a person found out whether the call happened",
    ),
    "contradict": _move(
        {S.SUCCEEDED, S.FAILED}, {S.UNKNOWN}, "a late receipt says otherwise than its resolution"
    ),
    "reopen": _move({S.SKIPPED}, {S.PENDING}, "what it was skipped for has been resolved"),
}


def legal(name: str, source: S, target: S) -> bool:
    """Whether `name` may take a step from `source` to `target`."""
    move = MOVES[name]
    return source in move.sources and target in (move.targets or {source})
