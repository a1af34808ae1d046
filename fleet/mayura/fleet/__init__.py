"""Who does the work, and when; who watches, and who decides. Not built yet."""

from __future__ import annotations
