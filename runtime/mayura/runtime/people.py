"""Who may decide. A credential is turned into a person by the application, and forgotten."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from mayura.runtime.asking import OverTimeError, Threads, ask
from mayura.runtime.core.policy import Policy
from mayura.runtime.core.state import Run
from mayura.runtime.core.transitions import Person
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import check_text

VerifyHuman: TypeAlias = Callable[[str], Person | None | Awaitable[Person | None]]
"""Turns a credential into a person, or None; raising counts as None, and is logged by its type.

A plain function runs in a thread."""

PERSON_CHARS_MAX = 256
VERIFY_TIME_S_MAX: Final = 10.0
VERIFY_THREADS_MAX: Final = 8
_threads: Final = Threads("verify_human", VERIFY_THREADS_MAX)
_log = logging.getLogger("mayura.runtime")


async def verified(
    verify: VerifyHuman | None, credential: str | None, policy: Policy, unverified: str | None
) -> Person:
    """The person behind a command, or PERMISSION_DENIED.

    Without a credential the command counts as *unverified*, by the name in `unverified`, which
    only a policy that says `unverified_people` accepts (docs: the model, "People").
    """
    if credential is None:
        if not policy.unverified_people:
            raise _denied("a credential is needed; the run's policy takes no unverified people")
        if unverified is None:
            raise _denied("nobody is named: give a credential, or say who it is by `unverified`")
        check_text("a person's name", unverified, PERSON_CHARS_MAX)
        return Person(id=unverified, method="store", verified=False)
    if verify is None:
        raise _denied("nobody can be verified here: give the engine a verify_human")
    person = await _ask(verify, credential)
    if not isinstance(person, Person):
        raise _denied("the credential was not accepted")
    if not person.verified and not policy.unverified_people:
        raise _denied("the person is unverified, and the run's policy takes no unverified people")
    check_text("a person's id", person.id, PERSON_CHARS_MAX)
    for what, said in (("issuer", person.issuer), ("method", person.method)):
        if said != "":
            check_text(f"a person's {what}", said, PERSON_CHARS_MAX)
    return person


async def _ask(verify: VerifyHuman, credential: str) -> object:
    """Whom the application knows by the credential; whatever it raises, it verified nobody."""
    said = await ask(verify, credential, threads=_threads, within_s=VERIFY_TIME_S_MAX)
    if isinstance(said.error, OverTimeError):
        _log.error(
            "verify_human did not answer within %.0f s: a command was refused", VERIFY_TIME_S_MAX
        )
        raise _denied(
            f"verify_human did not answer within {VERIFY_TIME_S_MAX:.0f} s: send it again"
        )
    if said.error is not None:
        # Its text may hold the credential: only the type and the place are logged, none is chained.
        places = traceback.extract_tb(said.error.__traceback__)
        place = f"{places[-1].filename}:{places[-1].lineno}" if places else "?"
        kind = type(said.error).__name__
        _log.error("verify_human raised %s at %s: a command was refused", kind, place)
        raise _denied("verify_human failed, so nobody was verified: the log says where")
    return said.value


def may_decide(person: Person, run: Run, policy: Policy) -> None:
    """Separation of duties: whoever asked for the run does not approve its calls."""
    if not policy.separation_of_duties:
        return
    if run.requested_by is None:  # anybody might be the one; a submission of ours is refused
        raise _denied("nobody is named as having requested the run: cancel it and submit it anew")
    if run.requested_by == person.id:
        raise _denied("whoever requested the run cannot approve it; ask somebody else")


def _denied(reason: str) -> MayuraError:
    return MayuraError(Code.PERMISSION_DENIED, reason)
