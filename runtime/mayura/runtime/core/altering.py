"""Copies of frozen values with some fields changed: on the path of every commit a dozen times."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["altered"]

if TYPE_CHECKING:
    from dataclasses import replace as altered  # which is how its arguments are checked
else:

    def altered(value, /, **changes):
        """`dataclasses.replace` in a tenth of the time, for frozen values without slots.

        It copies the fields as they are; what `__init__` would compute is not computed again.
        """
        copy = object.__new__(type(value))
        object.__setattr__(copy, "__dict__", value.__dict__ | changes)
        return copy
