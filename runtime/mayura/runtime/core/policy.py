"""What a run may do: grants, budget and limits, as one digest, stored in full with the run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from mayura.runtime.core.code import Invalid
from mayura.runtime.core.conformance import conforms
from mayura.runtime.core.definition import JsonValue, ToolSpec
from mayura.runtime.core.digest import POLICY, digest
from mayura.runtime.core.mistake import DefinitionError, limit
from mayura.runtime.core.tool import Tool
from mayura.runtime.core.tool_options import milliseconds, refuse_grant, refuse_version
from mayura.runtime.core.values import INTEGER_MAX, VALUE_BYTES_MAX, encode

GRANTS_MAX = 4096
APPROVAL_LIFETIME_SECONDS_DEFAULT = 3600.0

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Settings a run keeps from its submission to its end; a later policy changes nothing for it.

    `allow` lists grants, exact strings, default deny: `[*tool.grants, ...]`. `budget_micros` is
    the most one run may spend. `output_bytes_max` bounds every input, output and result. An
    approval may be used for `approval_lifetime` seconds. `unverified_people` lets commands in
    without a verified person; `separation_of_duties` keeps who requested a run from approving it.

    Raises DefinitionError for settings that do not hold.
    """

    version: str
    allow: Sequence[str] = ()
    budget_micros: int = 0
    output_bytes_max: int = VALUE_BYTES_MAX
    approval_lifetime: float = APPROVAL_LIFETIME_SECONDS_DEFAULT
    unverified_people: bool = False
    separation_of_duties: bool = False
    approval_lifetime_ms: int = field(init=False, repr=False, compare=False)
    digest: bytes = field(init=False, repr=False)  #: over `manifest()`
    _allowed: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        where = "policy"
        refuse_version(where, self.version)
        where = f"policy {self.version!r}"
        _refuse_allow(f"{where} allow", self.allow)
        allowed = frozenset(self.allow)
        if len(allowed) > GRANTS_MAX:
            raise limit(f"{where} allow", "the number of grants", GRANTS_MAX)
        _refuse_number(f"{where} budget_micros", self.budget_micros, 0, INTEGER_MAX)
        _refuse_number(f"{where} output_bytes_max", self.output_bytes_max, 1, VALUE_BYTES_MAX)
        lifetime_ms = milliseconds(f"{where} approval_lifetime", self.approval_lifetime)
        for name in ("unverified_people", "separation_of_duties"):
            if not isinstance(getattr(self, name), bool):
                raise DefinitionError(f"{where} {name}", "is True or False")
        self._keep(allow=tuple(sorted(allowed)), _allowed=allowed)
        self._keep(approval_lifetime=lifetime_ms / 1000, approval_lifetime_ms=lifetime_ms)
        self._keep(digest=digest(POLICY, encode(self.manifest())))

    def _keep(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def manifest(self) -> JsonValue:
        """The policy as it is stored."""
        return {
            "format": FORMAT,
            "version": self.version,
            "allow": list(self.allow),
            "budget_micros": self.budget_micros,
            "output_bytes_max": self.output_bytes_max,
            "approval_lifetime_ms": self.approval_lifetime_ms,
            "unverified_people": self.unverified_people,
            "separation_of_duties": self.separation_of_duties,
        }

    @staticmethod
    def from_manifest(manifest: JsonValue) -> Policy:
        """The policy that `manifest` was written from. Raises DefinitionError."""
        try:
            conforms(_SCHEMA, manifest, "manifest")
        except Invalid as invalid:
            raise DefinitionError("stored policy", str(invalid)) from None
        stored = dict(cast("dict[str, Any]", manifest))
        del stored["format"]
        return Policy(approval_lifetime=stored.pop("approval_lifetime_ms") / 1000, **stored)

    def missing(self, spec: ToolSpec) -> tuple[str, ...]:
        """The grants that `spec` needs and this policy does not give; empty: it may run."""
        return tuple([grant for grant in spec.grants if grant not in self._allowed])


def _refuse_allow(where: str, allow: object) -> None:
    if isinstance(allow, str):
        raise DefinitionError(where, f"is a list: write [{allow!r}]")
    if isinstance(allow, Tool):
        raise DefinitionError(where, f"is the tool {allow.id!r}: {_grants_of(allow)}")
    if not isinstance(allow, Collection):
        raise DefinitionError(where, "is a list of grants: write [*send.grants]")
    for number, grant in enumerate(allow):
        if isinstance(grant, Tool):
            what = f"is the tool {grant.id!r}: {_grants_of(grant)}"
            raise DefinitionError(f"{where}[{number}]", what)
        if isinstance(grant, tuple | list):
            what = "is a list of grants in the list: write *send.grants, with the star"
            raise DefinitionError(f"{where}[{number}]", what)
        refuse_grant(f"{where}[{number}]", grant)


def _grants_of(tool: Tool[..., Any]) -> str:
    name = tool.fn.__name__
    return f"did you mean {name}.grants? Write [*{name}.grants]"


def _refuse_number(where: str, number: object, least: int, most: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise DefinitionError(where, f"is a whole number of at least {least}")
    if number > most:
        raise limit(where, "it", most)


_MEMBERS: Final[dict[str, JsonValue]] = {
    "format": {"enum": [FORMAT]},
    "version": {"type": "string"},
    "allow": {"type": "array", "items": {"type": "string"}},
    "budget_micros": {"type": "integer"},
    "output_bytes_max": {"type": "integer"},
    "approval_lifetime_ms": {"type": "integer"},
    "unverified_people": {"type": "boolean"},
    "separation_of_duties": {"type": "boolean"},
}
_SCHEMA: Final[JsonValue] = {
    "type": "object",
    "properties": _MEMBERS,
    "required": list(_MEMBERS),
    "additionalProperties": {"enum": []},
}
