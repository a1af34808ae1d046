"""What is written, and how it is made durable."""

from __future__ import annotations
