"""Which database a URL names, and how it is to be talked to.

The URL holds a password, so no message here or elsewhere repeats it or any part of it but the
names of options.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from mayura.runtime.errors import Code, MayuraError

SCHEMES: Final = ("postgres", "postgresql")

DRIVER_OPTIONS: Final = (
    "application_name", "gsslib", "host", "krbsrvname", "passfile", "port", "service",
    "servicefile", "sslcert", "sslcrl", "sslkey", "sslmode", "sslpassword", "sslrootcert",
    "target_session_attrs",
)  # fmt: skip
"""Options of libpq that the driver understands; everything else is set by the store itself."""

APPLICATION: Final = "mayura"
"""What a database's list of sessions shows, unless the URL says otherwise."""

POOLERS: Final = ("none", "transaction")

PORT_MAX: Final = 65_535
_SHAPE: Final = "postgresql://user:password@host:5432/database"


@dataclass(frozen=True, slots=True)
class Target:
    """A database. `repr` shows nothing of it, since a log or a traceback might show that."""

    dsn: str = field(repr=False)
    pooled: bool  #: behind a pooler that gives every transaction another session


def target_of(url: str) -> Target:
    """The database that a URL names.

    INVALID_CONFIG for another scheme, a port that is none, no database or an unknown option.

    `?pooler=transaction` says that the address is a pooler's, in transaction mode: then nothing
    is kept in a session and each statement travels in a transaction that sets its own limits.
    """
    try:
        parts = urlsplit(url)
        asked = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise _wrong(f"its shape is {_SHAPE}, and this is another") from None
    if parts.scheme not in SCHEMES or parts.fragment:
        raise _wrong(f"its shape is {_SHAPE}, and this is another")
    options = dict(asked)
    if len(options) != len(asked):
        raise _wrong("an option is there twice")
    for name in options:
        _check_name(name)
    _check_ports(parts.netloc, options.get("port", ""))
    if not parts.path.strip("/") and "service" not in options:
        raise _wrong(f"it names no database: its shape is {_SHAPE}")
    pooler = options.pop("pooler", "none")
    if pooler not in POOLERS:
        raise _wrong(f"the option pooler is one of {', '.join(POOLERS)}{_meant(pooler, POOLERS)}")
    options.setdefault("application_name", APPLICATION)
    return Target(urlunsplit(parts._replace(query=urlencode(options))), pooler == "transaction")


def _check_ports(address: str, option: str) -> None:
    """A URL may name several hosts. What stands where a port should may be part of a password."""
    _, at, hosts = address.rpartition("@")
    named = (host.rpartition("]")[2].partition(":")[2] for host in hosts.split(","))
    for port in (*named, *option.split(",")):
        if port and not (port.isdecimal() and port.isascii() and 0 < int(port) <= PORT_MAX):
            advice = "" if at else "; where it is part of a password, write / ? # as %2F %3F %23"
            raise _wrong(f"its port is no number from 1 to {PORT_MAX}{advice}")


def _check_name(name: str) -> None:
    known = ("pooler", *DRIVER_OPTIONS)
    if name not in known:
        raise _wrong(f"it has no option {name}{_meant(name, known)}")


def _meant(given: str, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(given, known, n=1)
    return f"; did you mean {close[0]}?" if close else f"; there are {', '.join(known)}"


def _wrong(what: str) -> MayuraError:
    return MayuraError(Code.INVALID_CONFIG, f"The URL of a PostgreSQL store: {what}.")
