"""The clocks of an embedded store: the host's wall clock, and time since its last boot.

Settle deadlines are on the second: a stepped wall clock cannot settle a live step, and another
boot id proves that the process which dispatched is dead (docs: the model, "Times").
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from mayura.runtime.core.state import Instant
from mayura.runtime.errors import Code, MayuraError

BOOT_ID_FILE: Final = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """The id of this boot of the host. INVALID_CONFIG where the system has none."""
    try:
        return BOOT_ID_FILE.read_text("ascii").strip()
    except OSError as error:
        raise MayuraError(
            Code.INVALID_CONFIG,
            f"{BOOT_ID_FILE} cannot be read, and settle deadlines of an embedded store depend on "
            "it: use Linux with /proc, or a PostgreSQL store.",
        ) from error


def read_clock(epoch: str) -> Instant:
    """Both clocks now; `epoch` is this boot's id."""
    wall_us = time.time_ns() // 1000
    return Instant(wall_us, time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000, epoch)
