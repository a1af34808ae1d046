"""The Python side of a workflow's nodes, as tracing collects it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import BaseModel

from mayura.runtime.core.codec import Codec
from mayura.runtime.core.definition import Node
from mayura.runtime.core.tool import Tool
from mayura.runtime.ids import NodeId


class TimerFired(BaseModel):
    """What a timer step outputs: when it was due, and when it fired."""

    fire_at: datetime
    fired_at: datetime


@dataclass
class Parts:
    """The nodes of a workflow, and the types behind each; complete once it is not `open`."""

    nodes: dict[NodeId, Node] = field(default_factory=dict)
    tools: dict[NodeId, Tool[..., Any]] = field(default_factory=dict)
    answers: dict[NodeId, Codec[Any]] = field(default_factory=dict)
    signals: dict[NodeId, Codec[Any]] = field(default_factory=dict)
    open: bool = True
