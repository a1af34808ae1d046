"""The options of a tool, their limits, and the spec that is pinned in the manifest."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, get_args

from mayura.runtime.core.definition import Effects, JsonValue, Path, ToolSpec
from mayura.runtime.core.guards import GUARDS_MAX, Guard
from mayura.runtime.core.members import Member, NoSuchMember, follow, may_be_null
from mayura.runtime.core.mistake import DefinitionError, did_you_mean, limit
from mayura.runtime.core.schema import schema_behind
from mayura.runtime.core.signature import Signature

TOOL_ID: Final = re.compile(r"[A-Za-z][A-Za-z0-9._/-]{0,127}")
VERSION_CHARS_MAX = 128
CAPABILITIES_MAX = 128
GRANT_CHARS_MAX = 256
MILLISECONDS_MAX = 2**31 - 1  #: of any duration: 24 days
COST_MICROS_MAX = 2**53 - 1
CONCURRENCY_MAX = 10_000
ONCE_FIELDS_MAX = 8
_SPELT_FREELY: Final = frozenset({"decimal", "date-time", "time", "duration", "complex"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions:
    """What `@tool(...)` was given, as it was given: durations in seconds."""

    id: str
    version: str
    effects: Effects
    capabilities: Sequence[str]
    cost_micros: int
    timeout: float
    once: str | Sequence[str] | None
    key_lifetime: float | None
    absent_after: float | None
    input_guards: Sequence[Guard]
    output_guards: Sequence[Guard]
    concurrency: int | None

    def refuse_mistakes(self) -> None:
        """Raise DefinitionError for the first option that does not hold."""
        where = f"tool {self.id!r}"
        if not is_id(self.id):
            raise DefinitionError(
                where, "an id is a letter, then at most 127 letters, digits or any of . _ / -"
            )
        refuse_version(where, self.version)
        known = get_args(Effects)
        if self.effects not in known:
            hint = did_you_mean(str(self.effects), known)
            raise DefinitionError(f"{where} effects", f"is none of {', '.join(known)}{hint}")
        self._refuse_capabilities(where)
        _refuse_whole_number(f"{where} cost_micros", self.cost_micros, 0, COST_MICROS_MAX)
        if self.concurrency is not None:
            _refuse_whole_number(f"{where} concurrency", self.concurrency, 1, CONCURRENCY_MAX)
        _refuse_guards(f"{where} input_guards", self.input_guards)
        _refuse_guards(f"{where} output_guards", self.output_guards)
        self._refuse_empty_window(where)

    def _refuse_capabilities(self, where: str) -> None:
        where = f"{where} capabilities"
        if isinstance(self.capabilities, str):
            raise DefinitionError(where, f"is a list: write [{self.capabilities!r}]")
        if not isinstance(self.capabilities, Collection):
            raise DefinitionError(where, 'is a list of texts, such as ["mail:send"]')
        if len(self.capabilities) > CAPABILITIES_MAX:
            raise limit(where, "the number of capabilities", CAPABILITIES_MAX)
        for name in self.capabilities:
            refuse_grant(where, name)
        if len(set(self.capabilities)) < len(self.capabilities):
            raise DefinitionError(where, "names one twice")

    def _refuse_empty_window(self, where: str) -> None:
        """Absent counts only between `absent_after` and `key_lifetime`: there must be a between."""
        timeout = milliseconds(f"{where} timeout", self.timeout)
        lifetime = _optional_milliseconds(f"{where} key_lifetime", self.key_lifetime)
        absent = _optional_milliseconds(f"{where} absent_after", self.absent_after)
        if absent is None:
            return
        if lifetime is None:
            raise DefinitionError(
                f"{where} absent_after", "needs key_lifetime: how long the provider knows a key"
            )
        if timeout + absent >= lifetime:
            raise DefinitionError(
                f"{where} absent_after",
                "leaves no time in which Absent could be believed: timeout + absent_after must be "
                "less than key_lifetime",
            )


def spec_of(
    options: ToolOptions, signature: Signature, inputs: JsonValue, outputs: JsonValue
) -> ToolSpec:
    """The spec of options that hold."""
    where = f"tool {options.id!r}"
    return ToolSpec(
        id=options.id,
        version=options.version,
        effects=options.effects,
        capabilities=tuple(sorted(options.capabilities)),
        cost_micros=options.cost_micros,
        timeout_ms=milliseconds(f"{where} timeout", options.timeout),
        input_schema=inputs,
        output_schema=outputs,
        once=_once_paths(where, options, signature),
        key_lifetime_ms=_optional_milliseconds(f"{where} key_lifetime", options.key_lifetime),
        absent_after_ms=_optional_milliseconds(f"{where} absent_after", options.absent_after),
        input_guards=tuple(sorted((g.spec for g in options.input_guards), key=lambda g: g.name)),
        output_guards=tuple(sorted((g.spec for g in options.output_guards), key=lambda g: g.name)),
    )


def is_id(given: object) -> bool:
    """Whether this is written as the ids of tools and workflows are."""
    return isinstance(given, str) and TOOL_ID.fullmatch(given) is not None


def refuse_version(where: str, version: object) -> None:
    """Raise DefinitionError unless `version` is a short, visible text."""
    if not isinstance(version, str) or not version.strip() or not version.isprintable():
        raise DefinitionError(f"{where} version", 'is a text, such as "1"')
    if len(version) > VERSION_CHARS_MAX:
        raise limit(f"{where} version", "a version's length", f"{VERSION_CHARS_MAX} characters")


def refuse_grant(where: str, grant: object) -> None:
    """Raise DefinitionError unless `grant` is an exact string that a policy can hold."""
    if not isinstance(grant, str) or not grant or not grant.isprintable():
        raise DefinitionError(where, "a grant is a text of visible characters")
    if len(grant) > GRANT_CHARS_MAX:
        raise limit(where, "a grant's length", f"{GRANT_CHARS_MAX} characters")


def milliseconds(where: str, seconds: object) -> int:
    """A duration given in seconds, in whole milliseconds. Raises DefinitionError."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise DefinitionError(where, "is a number of seconds")
    if not math.isfinite(seconds) or round(seconds * 1000) < 1:
        raise DefinitionError(where, "is at least a millisecond (0.001)")
    if round(seconds * 1000) > MILLISECONDS_MAX:
        raise limit(where, "a duration", f"{MILLISECONDS_MAX // 1000} seconds")
    return round(seconds * 1000)


def _optional_milliseconds(where: str, seconds: float | None) -> int | None:
    return None if seconds is None else milliseconds(where, seconds)


def _refuse_whole_number(where: str, number: object, least: int, most: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise DefinitionError(where, f"is a whole number of at least {least}")
    if number > most:
        raise limit(where, "this number", most)


def _refuse_guards(where: str, guards: Sequence[Guard]) -> None:
    if not isinstance(guards, Collection):
        raise DefinitionError(where, "is a list of Guard(name, version, check)")
    if len(guards) > GUARDS_MAX:
        raise limit(where, "the number of guards", GUARDS_MAX)
    for guard in guards:
        if not isinstance(guard, Guard):
            raise DefinitionError(where, "is a list of Guard(name, version, check)")
        if not is_id(guard.name):
            raise DefinitionError(where, "a guard's name is a letter, then letters, digits, ._/-")
        refuse_version(f"{where} {guard.name!r}", guard.version)
        if not callable(guard.check):
            raise DefinitionError(f"{where} {guard.name!r}", "its check is not a function")
    if len({guard.name for guard in guards}) < len(guards):
        raise DefinitionError(where, "has two guards of one name")


def _once_paths(where: str, options: ToolOptions, signature: Signature) -> tuple[Path, ...]:
    where, once = f"{where} once", options.once
    if once is not None and options.effects in ("none", "read"):
        # Such a call is known not to have acted, however it ends: it would hold nothing (G16).
        what = f"is for tools that act, and effects={options.effects!r} does not: drop one of them"
        raise DefinitionError(where, what)
    if once is not None and not isinstance(once, Collection):
        raise DefinitionError(where, 'names fields of the input: write once="order.order_id"')
    names = () if once is None else (once,) if isinstance(once, str) else tuple(once)
    if not all(isinstance(name, str) for name in names):
        raise DefinitionError(where, 'names fields of the input: write once="order.order_id"')
    if once is not None and not names:
        raise DefinitionError(where, 'names no field: write once="order.order_id"')
    if len(names) > ONCE_FIELDS_MAX:
        raise limit(where, "the number of fields", ONCE_FIELDS_MAX)
    if len(set(names)) < len(names):
        raise DefinitionError(where, "names a field twice")
    return tuple(sorted(_once_path(where, name, signature) for name in names))


def _once_path(where: str, name: str, signature: Signature) -> Path:
    parameter, _, rest = name.partition(".")
    declared = {p.name: p.declared for p in signature.parameters}
    if parameter not in declared:
        raise DefinitionError(
            where, f"{parameter!r} is no parameter{did_you_mean(parameter, declared)}"
        )
    found = Member(declared[parameter], ())
    if rest:
        try:
            found = follow(found.declared, rest)
        except NoSuchMember as missing:
            raise DefinitionError(f"{where} {name!r}", str(missing)) from None
    if may_be_null(found.declared):
        raise DefinitionError(
            f"{where} {name!r}", "may be null, and all nulls would be one subject: make it required"
        )
    if _has_several_spellings(schema_behind(found.declared)):
        raise DefinitionError(
            f"{where} {name!r}",
            "may be written in several ways, such as 1.0 and 1.00, which would be several "
            "subjects: name an id",
        )
    return (parameter, *found.path)


def _has_several_spellings(schema: JsonValue) -> bool:
    """Whether two stored values may mean the same, so that a subject could be acted on twice."""
    if isinstance(schema, list):
        return any(map(_has_several_spellings, schema))
    if not isinstance(schema, dict):
        return False
    if schema.get("format") in _SPELT_FREELY:
        return True
    return any(map(_has_several_spellings, schema.values()))
