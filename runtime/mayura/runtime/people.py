"""Who may decide. A credential is turned into a person by the application, and forgotten."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import TypeAlias

from mayura.runtime.core.policy import Policy
from mayura.runtime.core.state import Run
from mayura.runtime.core.transitions import Person
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import check_text

VerifyHuman: TypeAlias = Callable[[str], Person | None | Awaitable[Person | None]]
"""Turns a credential into a person, or None; raising counts as None."""

PERSON_CHARS_MAX = 256


async def verified(
    verify: VerifyHuman | None, credential: str | None, policy: Policy, unverified: str | None
) -> Person:
    """The person behind a command, or PERMISSION_DENIED.

    Without a credential the command counts as *unverified*, by the name in `unverified`, which
    only a policy that says `unverified_people` accepts (docs: the model, "People").
    """
    if credential is None:
        if unverified is not None and policy.unverified_people:
            check_text("a person's name", unverified, PERSON_CHARS_MAX)
            return Person(id=unverified, method="store", verified=False)
        raise _denied("a credential is needed; the run's policy takes no unverified people")
    if verify is None:
        raise _denied("nobody can be verified here: give the engine a verify_human")
    try:
        answer = verify(credential)
        person = await answer if isawaitable(answer) else answer
    except Exception as error:  # whatever a verifier raises, it did not verify anybody
        raise _denied("the credential was not accepted") from error
    if not isinstance(person, Person):
        raise _denied("the credential was not accepted")
    if not person.verified and not policy.unverified_people:
        raise _denied("the person is unverified, and the run's policy takes no unverified people")
    check_text("a person's id", person.id, PERSON_CHARS_MAX)
    for what, said in (("issuer", person.issuer), ("method", person.method)):
        if said != "":
            check_text(f"a person's {what}", said, PERSON_CHARS_MAX)
    return person


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
