"""What happens to one run."""

from __future__ import annotations
