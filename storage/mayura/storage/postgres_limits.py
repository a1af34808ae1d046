"""How long each part of an operation on PostgreSQL may take, and how many sessions there are.

One operation may be sent several times; each sending has its own limit, and all of them together
the method's. What the server does for us ends when our own patience does, so that nothing of ours
holds a lock that nobody waits for any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mayura.storage.limits import METHOD_TIME_MAX_MS

CONNECT_S_MAX: Final = 5.0
SEND_S_MAX: Final = 5.0
LOCK_WAIT_S_MAX: Final = 4.0
STATEMENT_S_MAX: Final = 6.0
IDLE_IN_TRANSACTION_S_MAX: Final = 5.0
CLOSE_S_MAX: Final = 1.0
"""A store that is closed has until then to land what it has; then it gives up on the rest."""
LEAVE_S_MAX: Final = 0.5
"""A session that is closed takes leave of the server for so long; then it is cut."""

PAUSE_S_MIN: Final = 0.02
PAUSE_S_MAX: Final = 1.0
"""Between two sendings of one operation; it doubles from the first to the last."""

WRITERS: Final = 2
"""Sessions that carry batches; a batch forms behind those that are in the air."""
LONE_WRITERS: Final = 2
"""Sessions for writes that are unsure or wait for a lock, so that no batch waits with them."""
READERS: Final = 4


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one store, in seconds; tests have less patience."""

    method_s: float = METHOD_TIME_MAX_MS / 1000
    connect_s: float = CONNECT_S_MAX
    send_s: float = SEND_S_MAX
    lock_wait_s: float = LOCK_WAIT_S_MAX
    statement_s: float = STATEMENT_S_MAX
    close_s: float = CLOSE_S_MAX

    def session_settings(self) -> dict[str, str]:
        """What a session of our own is told when it begins (milliseconds).

        Sequential scans are off because a prepared plan outlives the size a table had when it
        was made: a store that was empty then would scan for ever.
        """
        return {
            "statement_timeout": str(int(self.statement_s * 1000)),
            "lock_timeout": str(int(self.lock_wait_s * 1000)),
            "idle_in_transaction_session_timeout": str(int(IDLE_IN_TRANSACTION_S_MAX * 1000)),
            "default_transaction_isolation": "read committed",
            "plan_cache_mode": "force_generic_plan",
            "enable_seqscan": "off",
            "jit": "off",
        }
