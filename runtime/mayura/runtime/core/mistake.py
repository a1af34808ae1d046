"""How a definition says what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from mayura.runtime.errors import Code, MayuraError


class DefinitionError(MayuraError):
    """A workflow, tool or policy is not right as written: fix the code; nothing has run.

    INVALID_CONFIG, or LIMIT_EXCEEDED where a named limit was passed.
    """

    def __init__(self, where: str, what: str, code: Code = Code.INVALID_CONFIG) -> None:
        super().__init__(code, f"{where}: {what}")
        self.where = where
        self.what = what


def limit(where: str, name: str, maximum: int | str, what: str = "") -> DefinitionError:
    """The error for a limit that was passed; it names the limit."""
    advice = f": {what}" if what else ""
    return DefinitionError(where, f"{name} is at most {maximum}{advice}", Code.LIMIT_EXCEEDED)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the nearest known name, else nothing."""
    near = get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else ""
