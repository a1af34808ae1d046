"""What an engine is given, refused before anything is made of it: the place, and what to write."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Final

from mayura.runtime.core.mistake import DefinitionError, limit
from mayura.runtime.core.policy import Policy
from mayura.runtime.core.tool import Tool
from mayura.runtime.core.workflow import Workflow
from mayura.runtime.ports import Store

PREVIOUS_POLICIES_MAX: Final = 16
_STORE: Final = tuple(name for name in vars(Store) if not name.startswith("_"))
_OPEN: Final = 'await open_store("sqlite:///shop.db")'


def refuse_store(store: object) -> None:
    """Raise DefinitionError unless `store` is an open store."""
    where = "engine store"
    if isinstance(store, str):
        raise DefinitionError(where, f"is a URL: open it first, {_OPEN}")
    if inspect.isawaitable(store):
        raise DefinitionError(where, f"is not open yet: write {_OPEN}")
    missing = [name for name in _STORE if not hasattr(store, name)]
    if missing:
        what = f"is {_kind(store)}, which has no `{missing[0]}`: take what open_store(...) returns"
        raise DefinitionError(where, what)


def refuse_workflows(workflows: object) -> None:
    """Raise DefinitionError unless this is a list of workflows that can live side by side.

    Two of one id have two versions, by which people tell their runs apart. A process counts the
    calls of a tool under its id, so all who share an id state the same `concurrency`.
    """
    where = "engine workflows"
    known: dict[tuple[str, str], object] = {}
    stated: dict[str, tuple[int | None, str]] = {}
    for number, one in enumerate(_listed(where, workflows, Workflow)):
        place = f"{where}[{number}]"
        if not isinstance(one, Workflow):
            raise DefinitionError(place, _no_workflow(one))
        name = f"workflow {one.id!r} version {one.version!r}"
        if (one.id, one.version) in known:
            again = known[one.id, one.version] is one
            remedy = "list it once" if again else "give one of the two another id or version"
            raise DefinitionError(place, f"{name} is there twice: {remedy}")
        known[one.id, one.version] = one
        for tool in one.tools.values():
            first, by = stated.setdefault(tool.id, (tool.concurrency, name))
            if first != tool.concurrency:
                raise DefinitionError(
                    f"tool {tool.id!r} concurrency",
                    f"is {first} in {by} and {tool.concurrency} in {name}, and a process has one "
                    "number for both: state the same",
                )


def refuse_policies(policy: object, previous: object) -> None:
    """Raise DefinitionError unless these are a policy, and a list of at most 16 others."""
    if not isinstance(policy, Policy):
        what = f'is {_kind(policy)}: write Policy(version="1", allow=[*send.grants])'
        raise DefinitionError("engine policy", what)
    where = "engine previous_policies"
    listed = _listed(where, previous, Policy)
    for number, one in enumerate(listed):
        if not isinstance(one, Policy):
            raise DefinitionError(f"{where}[{number}]", f"is {_kind(one)}, not a Policy")
    if len(listed) > PREVIOUS_POLICIES_MAX:
        what = "drop those that no run uses"
        raise limit(where, "the number of policies", PREVIOUS_POLICIES_MAX, what)


def refuse_verifier(verify: object) -> None:
    """Raise DefinitionError unless `verify` is None or can be called with a credential."""
    if verify is None:
        return
    where = "engine verify_human"
    if not callable(verify):
        raise DefinitionError(where, f"is {_kind(verify)}: give a function of a credential")
    try:
        inspect.signature(verify).bind("credential")
    except ValueError:  # what is written in C may not say what it takes
        return
    except TypeError:
        what = "takes one credential (a text) and returns a Person or None"
        raise DefinitionError(where, what) from None


def refuse_count(where: str, number: object, most: int) -> None:
    """Raise DefinitionError unless `number` is a whole number from 1 to `most`."""
    if type(number) is not int or number < 1:
        raise DefinitionError(where, "is a whole number of at least 1")
    if number > most:
        raise limit(where, "it", most)


def _listed(where: str, given: object, kind: type) -> Sequence[object]:
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        return given
    one = " with it alone in it: [...]" if isinstance(given, kind) else ""
    raise DefinitionError(where, f"is {_kind(given)}: give a list{one}")


def _no_workflow(one: object) -> str:
    if isinstance(one, Tool):
        return f"is the tool {one.id!r}: list the workflows that call it"
    if inspect.isfunction(one):
        return f"is the function {one.__name__!r}: decorate it with @workflow(...)"
    return f"is {_kind(one)}, not a workflow"


def _kind(one: object) -> str:
    return "None" if one is None else f"of type {type(one).__name__}"
