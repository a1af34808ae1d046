"""What stands for a value while a workflow is traced: it can be taken apart, and nothing else.

A symbol is typed as the value it stands for, so a workflow type-checks; at definition time there
is no value yet. Fields and items of a symbol are symbols. Everything that would need the value is
a DefinitionError that says what to write instead. One thing cannot be caught: `symbol is None` is
always false; give the step `when=` and let the binding be null.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from mayura.runtime.core.definition import FromInput, FromStep, Path
from mayura.runtime.core.members import Member, NoSuchMember, attribute, item
from mayura.runtime.core.mistake import DefinitionError, limit
from mayura.runtime.core.values import at
from mayura.runtime.ids import NodeId

PATH_SEGMENTS_MAX = 32

_CHOOSE = "choose with when=, or inside a tool"
_COMPUTE = "compute it inside a tool and bind the tool's output"
_COLLECT = "use flow.fan_out for its items, or look at it inside a tool"
_INSTEAD: Final = {
    "bool": _CHOOSE,
    "==": _CHOOSE,
    "!=": _CHOOSE,
    "<": _CHOOSE,
    "<=": _CHOOSE,
    ">": _CHOOSE,
    ">=": _CHOOSE,
    "in": _CHOOSE,
    "isinstance": _CHOOSE,
    "iteration": _COLLECT,
    "len": _COLLECT,
    "reversed": _COLLECT,
    "text": "make the text inside a tool and bind the tool's output",
    "hash": "keys and sets need values: build them inside a tool",
    "assignment": "make the changed value inside a tool and bind the tool's output",
    "call": _COMPUTE,
    "await": "a workflow awaits nothing: bind the symbol, and the step waits",
    "copy": "bind the symbol itself",
}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a symbol comes from: a workflow being traced, and a node of it or its input."""

    flow: object  #: compared by identity
    workflow: str
    node: NodeId | None  #: None: the workflow's input


@dataclass(frozen=True, slots=True)
class Reference:
    """What a symbol stands for."""

    origin: Origin
    declared: object
    path: Path = ()

    @property
    def binding(self) -> FromInput | FromStep:
        """The same as data."""
        node = self.origin.node
        return FromInput(self.path) if node is None else FromStep(node, self.path)

    @property
    def where(self) -> str:
        """How a message names it."""
        node = self.origin.node
        part = at("input" if node is None else f"{node}.output", self.path)
        return f"workflow {self.origin.workflow!r}: {part}"


def reference_of(symbol: object) -> Reference | None:
    """What `symbol` stands for; None for anything that is a value already."""
    if type(symbol) is Symbol:
        found: Reference = object.__getattribute__(symbol, "_mayura_reference")
        return found
    return None


def _refused(operation: str) -> Any:  # noqa: ANN401 - it stands in for every special method
    def refuse(self: object, *_: object, **__: object) -> NoReturn:
        reference = reference_of(self)
        where = reference.where if reference is not None else "workflow"
        instead = _INSTEAD.get(operation, _COMPUTE)
        raise DefinitionError(where, f"has no value yet, so {operation} is not possible: {instead}")

    return refuse


class Symbol:
    """Stands for a value the run will have."""

    __slots__ = ("_mayura_reference",)
    _mayura_reference: Reference

    def __init__(self, reference: Reference) -> None:
        if len(reference.path) > PATH_SEGMENTS_MAX:
            raise limit(reference.where, "the depth of a binding", PATH_SEGMENTS_MAX)
        object.__setattr__(self, "_mayura_reference", reference)

    def __getattribute__(self, name: str) -> object:
        if name == "__class__":
            _refused("isinstance")(self)
        if name.startswith("__") and name.endswith("__"):
            return object.__getattribute__(self, name)
        return _taken(self, lambda declared: attribute(declared, name))

    def __getitem__(self, key: object) -> object:
        if isinstance(key, str | int) and not isinstance(key, bool):
            return _taken(self, lambda declared: item(declared, key))
        return _refused("a slice" if isinstance(key, slice) else "this key")(self)

    def __repr__(self) -> str:
        reference = reference_of(self)
        return f"<{reference.where}>" if reference is not None else "<symbol>"

    __bool__ = _refused("bool")
    __eq__ = _refused("==")
    __ne__ = _refused("!=")
    __lt__ = _refused("<")
    __le__ = _refused("<=")
    __gt__ = _refused(">")
    __ge__ = _refused(">=")
    __hash__ = _refused("hash")
    __contains__ = _refused("in")
    __iter__ = _refused("iteration")
    __len__ = _refused("len")
    __reversed__ = _refused("reversed")
    __str__ = __format__ = __bytes__ = __fspath__ = _refused("text")
    __setattr__ = __delattr__ = __setitem__ = __delitem__ = _refused("assignment")
    __call__ = _refused("call")
    __await__ = __aenter__ = __aexit__ = __aiter__ = _refused("await")
    __enter__ = __exit__ = _refused("with")
    __copy__ = __deepcopy__ = __reduce_ex__ = __getstate__ = _refused("copy")
    __int__ = __float__ = __complex__ = __index__ = __round__ = _refused("a number")
    __trunc__ = __floor__ = __ceil__ = __abs__ = __neg__ = __pos__ = __invert__ = _refused(
        "arithmetic"
    )
    __add__ = __radd__ = __iadd__ = __sub__ = __rsub__ = __isub__ = _refused("arithmetic")
    __mul__ = __rmul__ = __imul__ = __matmul__ = __rmatmul__ = __imatmul__ = _refused("arithmetic")
    __truediv__ = __rtruediv__ = __itruediv__ = __floordiv__ = __rfloordiv__ = _refused(
        "arithmetic"
    )
    __ifloordiv__ = __mod__ = __rmod__ = __imod__ = __divmod__ = __rdivmod__ = _refused(
        "arithmetic"
    )
    __pow__ = __rpow__ = __ipow__ = __lshift__ = __rlshift__ = __rshift__ = _refused("arithmetic")
    __rrshift__ = __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _refused(
        "arithmetic"
    )


def _taken(symbol: object, take: Callable[[object], Member]) -> Symbol:
    reference = reference_of(symbol)
    assert reference is not None
    try:
        member = take(reference.declared)
    except NoSuchMember as missing:
        raise DefinitionError(reference.where, str(missing)) from None
    return Symbol(Reference(reference.origin, member.declared, (*reference.path, *member.path)))


def symbol_inside(value: object, depth: int = 8) -> Reference | None:
    """The first symbol inside a value: in a list, a mapping, a model or a dataclass."""
    found = reference_of(value)
    if found is not None or depth == 0:
        return found
    for member in _parts(value):
        found = symbol_inside(member, depth - 1)
        if found is not None:
            return found
    return None


def _parts(value: object) -> list[object]:
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    if isinstance(value, str | bytes | int | float) or value is None or isinstance(value, type):
        return []
    held = getattr(value, "__dict__", None)
    slots: list[object] = [
        getattr(value, name, None) for name in getattr(type(value), "__slots__", ())
    ]
    return [*held.values(), *slots] if isinstance(held, dict) else slots
