"""How a refused value is explained: the place and what was expected, never the value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import ValidationError

from mayura.runtime.core.values import at

ERRORS_SHOWN_MAX = 3

_EXPECTED: Final[Mapping[str, str]] = {
    "missing": "is required",
    "extra_forbidden": "is not a field",
    "frozen_field": "is not a field that can be given",
    "none_required": "should be null",
    "bool_type": "should be true or false",
    "bool_parsing": "should be true or false",
    "int_type": "should be an integer",
    "int_parsing": "should be an integer",
    "int_from_float": "should be a whole number",
    "float_type": "should be a number",
    "float_parsing": "should be a number",
    "finite_number": "should be a finite number",
    "string_type": "should be text",
    "bytes_type": "should be text",
    "list_type": "should be an array",
    "tuple_type": "should be an array",
    "set_type": "should be an array",
    "frozen_set_type": "should be an array",
    "dict_type": "should be an object",
    "mapping_type": "should be an object",
    "model_type": "should be an object",
    "model_attributes_type": "should be an object",
    "dataclass_type": "should be an object",
    "dataclass_exact_type": "should be exactly the declared dataclass",
    "is_instance_of": "should be exactly the declared type",
    "date_type": "should be a date",
    "date_parsing": "should be a date",
    "date_from_datetime_parsing": "should be a date",
    "datetime_type": "should be a date and time",
    "datetime_parsing": "should be a date and time",
    "datetime_from_date_parsing": "should be a date and time",
    "timezone_aware": "should have a time zone",
    "timezone_naive": "should have no time zone",
    "time_type": "should be a time",
    "time_parsing": "should be a time",
    "time_delta_type": "should be a duration",
    "time_delta_parsing": "should be a duration",
    "decimal_type": "should be a decimal number",
    "decimal_parsing": "should be a decimal number",
    "uuid_type": "should be a UUID",
    "uuid_parsing": "should be a UUID",
    "uuid_version": "should be a UUID of the declared version",
    "url_type": "should be a URL",
    "url_parsing": "should be a URL",
    "union_tag_invalid": "has a tag that names none of the alternatives",
    "union_tag_not_found": "lacks the tag that tells the alternatives apart",
    "string_pattern_mismatch": "does not match its pattern",
    "value_error": "is refused by its validator",
    "assertion_error": "is refused by its validator",
}
#: Error types whose text is made of the declaration alone, so it may be shown.
_TEXT_IS_SAFE: Final = frozenset(
    {
        "greater_than",
        "greater_than_equal",
        "less_than",
        "less_than_equal",
        "multiple_of",
        "string_too_short",
        "string_too_long",
        "bytes_too_short",
        "bytes_too_long",
        "too_short",
        "too_long",
        "enum",
        "literal_error",
        "decimal_max_digits",
        "decimal_max_places",
        "decimal_whole_digits",
    }
)


def explained(error: ValidationError, where: str) -> str:
    """One sentence for the first few errors. A validator's own text is never part of it."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    shown = [
        f"{at(where, tuple(one['loc']))} {_expectation(one['type'], one['msg'])}"
        for one in found[:ERRORS_SHOWN_MAX]
    ]
    more = len(found) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more else "")


def _expectation(kind: str, text: str) -> str:
    if kind in _EXPECTED:
        return _EXPECTED[kind]
    _, should, rest = text.partition("should ")
    return should + rest if kind in _TEXT_IS_SAFE and should else "does not fit its type"
