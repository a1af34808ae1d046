"""The parts of the PostgreSQL store that need no database."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from mayura.runtime.errors import Code, MayuraError
from mayura.storage.postgres_clock import DatabaseClock
from mayura.storage.postgres_errors import Meaning, meaning_of, unavailable, violation
from mayura.storage.postgres_limits import IDLE_IN_TRANSACTION_S_MAX, Limits
from mayura.storage.postgres_sessions import SQL
from mayura.storage.postgres_url import target_of

SECRET = "hunter2"
URL = f"postgresql://ada:{SECRET}@db.example:5432/shop"

MEANINGS: dict[type[Exception], Meaning] = {
    asyncpg.SerializationError: "again",
    asyncpg.DeadlockDetectedError: "again",
    asyncpg.LockNotAvailableError: "again",
    asyncpg.QueryCanceledError: "again",
    asyncpg.UniqueViolationError: "offence",
    asyncpg.CheckViolationError: "offence",
    asyncpg.NotNullViolationError: "offence",
    asyncpg.RestrictViolationError: "offence",
    asyncpg.DataError: "offence",
    asyncpg.NumericValueOutOfRangeError: "offence",
    asyncpg.CharacterNotInRepertoireError: "offence",
    asyncpg.ProgramLimitExceededError: "offence",
    asyncpg.ConnectionDoesNotExistError: "unsure",
    asyncpg.ConnectionFailureError: "unsure",
    asyncpg.AdminShutdownError: "unsure",
    asyncpg.CrashShutdownError: "unsure",
    asyncpg.CannotConnectNowError: "unsure",
    asyncpg.TooManyConnectionsError: "unsure",
    asyncpg.ReadOnlySQLTransactionError: "unsure",
    asyncpg.DiskFullError: "unsure",
    asyncpg.InternalServerError: "unsure",
    asyncpg.UndefinedTableError: "unsure",
    asyncpg.InternalClientError: "unsure",
    asyncpg.InterfaceError: "unsure",
    ConnectionResetError: "unsure",
    OSError: "unsure",
    TimeoutError: "unsure",
    asyncio.TimeoutError: "unsure",
    EOFError: "unsure",
    KeyError: "unsure",
}


@pytest.mark.parametrize(("kind", "meaning"), MEANINGS.items())
def test_only_certain_noes_are_taken_for_a_no(kind: type[Exception], meaning: Meaning) -> None:
    assert meaning_of(kind("what")) == meaning


def test_messages_hold_nothing_of_the_servers_text() -> None:
    error = asyncpg.UniqueViolationError(f"duplicate key, detail {SECRET}")
    for said in (unavailable(error), violation("a" * 32, error), unavailable(None)):
        assert SECRET not in str(said)


def test_a_url_says_where_and_how() -> None:
    assert not target_of(URL).pooled
    assert target_of(f"{URL}?pooler=transaction").pooled
    assert "pooler" not in target_of(f"{URL}?pooler=transaction&sslmode=require").dsn
    assert "sslmode=require" in target_of(f"{URL}?sslmode=require").dsn
    several = "postgresql://ada@one:5432,two:5433/shop?target_session_attrs=read-write"
    assert "one:5432,two:5433" in target_of(several).dsn
    for named in ("/shop?host=/run/db&port=5433", "[::1]:5432/shop", "?service=shop"):
        assert target_of(f"postgresql://{named}").dsn


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("mysql://db/shop", "postgresql://"),
        (f"{URL}?poler=transaction", "did you mean pooler"),
        (f"{URL}?pooler=transactions", "did you mean transaction"),
        (f"{URL}?pooler=session", "none, transaction"),
        (f"{URL}?sslmod=require", "did you mean sslmode"),
        (f"{URL}?statement_timeout=5", "there are"),
        (f"{URL}?pooler=none&pooler=none", "twice"),
        (f"{URL}?pooler", "postgresql://"),
        (f"{URL}#part", "postgresql://"),
        (f"postgresql://ada:{SECRET}@[::1/shop", "postgresql://"),
        (f"postgresql://ada:{SECRET}@db:54x2/shop", "its port is no number from 1 to 65535"),
        (f"postgresql://ada:{SECRET}@db:65536/shop", "its port is no number"),
        (f"postgresql://ada:{SECRET}@one:5432,two:0/shop", "its port is no number"),
        (f"postgresql://ada:{SECRET}@[::1]:x/shop", "its port is no number"),
        (f"{URL}?port=x", "its port is no number"),
        (f"postgresql://ada:{SECRET}/2@db/shop", "part of a password"),
        (f"postgresql://ada:{SECRET}@db", "names no database"),
        (f"postgresql://ada:{SECRET}@db:5432/", "names no database"),
    ],
)
def test_a_wrong_url_is_refused_with_advice_and_without_its_secrets(url: str, hint: str) -> None:
    with pytest.raises(MayuraError) as refused:
        target_of(url)
    assert refused.value.code is Code.INVALID_CONFIG
    assert hint in str(refused.value)
    assert SECRET not in str(refused.value)


def test_a_target_shows_nothing_of_its_secrets() -> None:
    assert SECRET not in repr(target_of(URL))


class Steady:
    """A host's steady clock that the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_us = 1_000_000
        monkeypatch.setattr(DatabaseClock, "local_us", staticmethod(lambda: self.now_us))

    def ask(self, clock: DatabaseClock, *, says_us: int, takes_us: int) -> None:
        asked_at_us = self.now_us
        self.now_us += takes_us
        clock.read(says_us, asked_at_us=asked_at_us)


def test_the_estimate_is_never_ahead_and_behind_by_no_more_than_the_round_trip(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steady, clock = Steady(monkeypatch), DatabaseClock()
    steady.ask(clock, says_us=50_000_000, takes_us=300)
    steady.now_us += 1_000
    # The server read its clock somewhere in those 300 us: it is now 50_001_000 there, or later.
    assert 50_000_700 <= clock.estimate().wall_us <= 50_001_000
    assert clock.estimate().steady_us == clock.estimate().wall_us


def test_a_slow_answer_does_not_spoil_a_good_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    steady, clock = Steady(monkeypatch), DatabaseClock()
    steady.ask(clock, says_us=50_000_000, takes_us=300)
    steady.ask(clock, says_us=55_000_000, takes_us=5_000_000)
    assert 54_999_700 <= clock.estimate().wall_us <= 55_000_300


def test_an_old_reading_gives_way_to_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    steady, clock = Steady(monkeypatch), DatabaseClock()
    steady.ask(clock, says_us=50_000_000, takes_us=300)
    steady.now_us += 60_000_000
    steady.ask(clock, says_us=170_000_000, takes_us=400)
    assert clock.estimate().wall_us == 170_000_000


def test_a_transaction_behind_a_pooler_has_the_limits_of_a_session() -> None:
    said = SQL["begin_with_limits"]
    limits = Limits()
    for name, seconds in (
        ("statement_timeout", limits.statement_s),
        ("lock_timeout", limits.lock_wait_s),
        ("idle_in_transaction_session_timeout", IDLE_IN_TRANSACTION_S_MAX),
    ):
        assert f"{name} = '{seconds:.0f}s'" in said
        assert limits.session_settings()[name] == str(int(seconds * 1000))


def test_limits_that_a_session_keeps_are_shorter_than_the_methods() -> None:
    limits = Limits()
    assert limits.lock_wait_s < limits.send_s < limits.statement_s < limits.method_s
