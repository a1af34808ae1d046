"""One node while it is written: turns what the user hands over into bindings and dependencies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar, cast

from mayura.runtime.core.code import Invalid
from mayura.runtime.core.codec import Codec
from mayura.runtime.core.definition import Binding, Constant, FromInput, FromStep
from mayura.runtime.core.fits import mismatch, null_for
from mayura.runtime.core.graph import SHA256_HEX, natural
from mayura.runtime.core.mistake import DefinitionError
from mayura.runtime.core.schema import schema_behind
from mayura.runtime.core.symbols import Origin, Reference, Symbol, reference_of, symbol_inside
from mayura.runtime.core.tool import Bound, Tool
from mayura.runtime.core.type_names import name_of
from mayura.runtime.core.values import at
from mayura.runtime.ids import NodeId

O_co = TypeVar("O_co", covariant=True)

_TIME: Final[Codec[datetime]] = Codec(datetime, "a time")
_DIGEST: Final[Codec[str]] = Codec(str, "a digest")
_ANYTHING: Final[Codec[object]] = Codec(object, "a value")


@dataclass(frozen=True, slots=True)
class Step(Generic[O_co]):
    """A node of the workflow being traced; bind its `output` to have later steps wait for it."""

    id: NodeId
    _origin: Origin = field(repr=False)
    _declared: object = field(repr=False)

    @property
    def output(self) -> O_co:
        """Stands for the step's output: hand it, or fields and items of it, to later steps."""
        return cast(O_co, Symbol(Reference(self._origin, self._declared)))


class Writing:
    """One node: its place in messages, and the nodes it has come to depend on."""

    def __init__(self, flow: object, workflow_id: str, node: str | None) -> None:
        self.where = f"workflow {workflow_id!r}" + ("" if node is None else f" node {node!r}")
        self._flow = flow
        self._workflow = workflow_id
        self._used: set[NodeId] = set()

    def bind(self, name: str, value: object, codec: Codec[Any]) -> Binding:
        """The binding of a value or symbol to something of the codec's type."""
        where = f"{self.where} {name}"
        reference = self._reference(where, value)
        if reference is not None:
            wrong = mismatch_of(reference.declared, codec)
            if wrong is not None:
                raise DefinitionError(where, wrong)
            return reference.binding
        try:
            return Constant(codec.dump(value))
        except Invalid as invalid:
            raise DefinitionError(where, str(invalid)) from None

    def bind_result(self, value: object, codec: Codec[Any]) -> Binding:
        """The binding of what the workflow returns.

        A null where none is taken would be found when everything has been done: so it is refused
        here, other than for the input of a step, which is looked at before the call.
        """
        binding = self.bind("result", value, codec)
        reference = reference_of(value)
        if reference is not None:
            place = null_for(schema_behind(reference.declared), codec.schema)
            if place is not None:
                raise DefinitionError(
                    f"{self.where} result",
                    f"{at('the value', place)} may be null ({name_of(reference.declared)} for "
                    f"{name_of(codec.declared)}): say `| None` there in the return type, or "
                    "return what a tool makes of it",
                )
        return binding

    def bind_symbol(
        self, name: str, value: object, otherwise: str
    ) -> tuple[FromInput | FromStep, object]:
        """The binding of a symbol and its type, where a plain value makes no sense."""
        reference = self._reference(f"{self.where} {name}", value)
        if reference is None:
            raise DefinitionError(f"{self.where} {name}", otherwise)
        return reference.binding, reference.declared

    def bind_condition(self, value: object) -> Binding:
        """The binding of `when=`."""
        otherwise = "takes a part of the input or of a step's output, not a value known already"
        return self.bind_symbol("when", value, otherwise)[0]

    def bind_anything(self, name: str, value: object) -> Binding | None:
        """The binding of a value of no particular type; None stays None."""
        return None if value is None else self.bind(name, value, _ANYTHING)

    def bind_time(self, name: str, value: object) -> Binding:
        """The binding of an absolute time, kept in UTC."""
        if type(value) is datetime:
            if value.tzinfo is None:
                raise DefinitionError(
                    f"{self.where} {name}", "has no time zone: write datetime(..., tzinfo=UTC)"
                )
            value = value.astimezone(UTC)
        return self.bind(name, value, _TIME)

    def bind_digest(self, name: str, value: object) -> Binding | None:
        """The binding of a SHA-256 in lower-case hex; None stays None."""
        if value is None:
            return None
        binding = self.bind(name, value, _DIGEST)
        if isinstance(binding, Constant) and not SHA256_HEX.fullmatch(str(binding.value)):
            raise DefinitionError(
                f"{self.where} {name}", "is a SHA-256 digest: 64 lower-case hex characters"
            )
        return binding

    def depends_on(self, after: Sequence[Step[object]]) -> tuple[NodeId, ...]:
        """Every node that was bound or that `after` names, in order."""
        where = f"{self.where} after"
        if isinstance(after, Step):
            raise DefinitionError(where, f"is a list: write [{after.id}]")
        for step in after:
            if type(step) is not Step:
                raise DefinitionError(where, "takes steps, as flow.tool(...) returns them")
            self._use(where, step._origin)
        return tuple(sorted(self._used, key=natural))

    def _reference(self, where: str, value: object) -> Reference | None:
        if type(value) is Step:
            raise DefinitionError(where, f"takes a value: write {value.id}.output")
        if type(value) is Bound or type(value) is Tool:
            raise DefinitionError(where, "takes a value: make the call a step and bind its output")
        reference = reference_of(value)
        if reference is not None:
            self._use(where, reference.origin)
            return reference
        inner = symbol_inside(value)
        if inner is not None:
            raise DefinitionError(
                where,
                f"is built around {inner.where.split(': ', 1)[1]}, which has no value yet: bind it "
                "to a parameter of its own, or build the value inside a tool",
            )
        return None

    def _use(self, where: str, origin: Origin) -> None:
        if origin.flow is not self._flow:
            what = f"takes a part of workflow {origin.workflow!r}"
            if origin.workflow == self._workflow:
                what = "takes a step of another tracing: keep no step outside of the function"
            raise DefinitionError(where, what)
        if origin.node is not None:
            self._used.add(origin.node)


def mismatch_of(declared: object, codec: Codec[Any]) -> str | None:
    """Why no value of a declared type fits the codec's, or None where one might."""
    wrong = mismatch(schema_behind(declared), codec.schema)
    if wrong is None:
        return None
    return f"{wrong} ({name_of(declared)} for {name_of(codec.declared)})"
