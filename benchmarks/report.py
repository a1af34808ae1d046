"""Turns the figures of one run into ratios: within a round first, then the median of the rounds."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from statistics import median
from typing import Final, TypeAlias

from benchmarks.arena import CONTENDERS
from benchmarks.measuring import Figures
from benchmarks.workloads import WORKLOADS, Workload

Found: TypeAlias = Mapping[str, Mapping[str, Sequence[Figures]]]
"""Figures by workload and contender, one for each round."""

PACKAGES: Final = ("mayura", "asyncpg", "uvloop", "dbos", "sqlalchemy", "psycopg")
COLUMNS: Final = (
    ("steps/s", 8),
    ("x DBOS", 7),
    ("x floor", 8),
    ("x fused", 8),
    ("x ceiling", 9),
    ("p50 ms", 8),
    ("p99 ms", 8),
    ("CPU worker", 10),
    ("CPU server", 10),
    ("log B/step", 10),
)
TITLE_WIDTH: Final = 32


def speed(figures: Figures) -> float:
    """Steps in a second: more is better."""
    return figures.steps_per_s


def wait(figures: Figures) -> float:
    """How long half of the runs took at most: less is better."""
    return figures.run_p50_ms


def ratio(
    found: Mapping[str, Sequence[Figures]],
    ours: str,
    theirs: str,
    of: Callable[[Figures], float] = speed,
) -> float | None:
    """The median over the rounds of ours / theirs; None where one of them did not take part."""
    pairs = zip(found.get(ours, ()), found.get(theirs, ()), strict=False)
    ratios = [of(one) / of(other) for one, other in pairs]
    return median(ratios) if ratios else None


def table(workload: Workload, found: Mapping[str, Sequence[Figures]]) -> str:
    """One workload as text."""
    head = "".join(f"{name:>{width + 2}}" for name, width in COLUMNS)
    lines = [f"{workload.name}: {workload.title}", f"{'':{TITLE_WIDTH}}{head}"]
    for contender in CONTENDERS:
        rounds = found.get(contender.name)
        if not rounds:
            continue
        on = "" if contender.store == "postgres" else " sqlite"
        cells = (
            _whole(_median(rounds, "steps_per_s")),
            _times(ratio(found, contender.name, "dbos")),
            _times(ratio(found, contender.name, f"floor{on}")),
            _times(ratio(found, contender.name, f"floor fused{on}")),
            _times(ratio(found, contender.name, f"ceiling{on}")),
            _tenths(_median(rounds, "run_p50_ms")),
            _tenths(_median(rounds, "run_p99_ms")),
            _thousandths(_median(rounds, "worker_ms_per_step")),
            _thousandths(_median(rounds, "database_ms_per_step")),
            _whole(_median(rounds, "log_bytes_per_step")),
        )
        row = "".join(
            f"{cell:>{width + 2}}" for cell, (_, width) in zip(cells, COLUMNS, strict=True)
        )
        lines.append(f"{contender.title + ', ' + contender.store:{TITLE_WIDTH}.32}{row}")
    return "\n".join(lines)


def targets(found: Found) -> str:
    """What we want to reach, beside what was reached. Nothing here passes or fails."""
    chain, alone = found.get("W1", {}), found.get("W2 alone", {})
    rows = (
        ("W1 on PostgreSQL against DBOS, at least 10", ratio(chain, "mayura", "dbos")),
        ("W1 on PostgreSQL against the floor, at least 0.12", ratio(chain, "mayura", "floor")),
        ("  against the floor that fuses", ratio(chain, "mayura", "floor fused")),
        ("  against our storage ceiling, at least 0.5", ratio(chain, "mayura", "ceiling")),
        ("W2 alone, p50 against DBOS, at most 0.33", ratio(alone, "mayura", "dbos", wait)),
    )
    return "\n".join(["Wanted, and reached:", *(f"  {text}: {_times(x)}" for text, x in rows)])


def results(found: Found, *, quick: bool, server: str, at: str) -> dict[str, object]:
    """Everything about one run, to be kept."""
    chosen = [workload for workload in WORKLOADS if workload.name in found]
    return {
        "format": 1,
        "at": at,
        "quick": quick,
        "machine": {
            "processors": os.cpu_count(),
            "system": platform.platform(terse=True),
            "python": platform.python_version(),
            "postgresql": server,
            "sqlite": sqlite3.sqlite_version,
            "packages": {name: _version(name) for name in PACKAGES},
        },
        "workloads": {
            workload.name: {
                "title": workload.title,
                "ratios": _ratios(found[workload.name]),
                "rounds": {
                    name: [asdict(figures) for figures in rounds]
                    for name, rounds in found[workload.name].items()
                },
            }
            for workload in chosen
        },
    }


def _ratios(found: Mapping[str, Sequence[Figures]]) -> dict[str, float | None]:
    said: dict[str, float | None] = {}
    for on in ("", " sqlite"):
        for other in ("dbos", f"ceiling{on}", f"floor{on}", f"floor fused{on}"):
            said[f"mayura{on} / {other}, steps/s"] = ratio(found, f"mayura{on}", other)
            said[f"mayura{on} / {other}, p50"] = ratio(found, f"mayura{on}", other, wait)
    return said


def _median(rounds: Sequence[Figures], name: str) -> float | None:
    values = [value for figures in rounds if (value := getattr(figures, name)) is not None]
    return median(values) if values else None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _whole(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _tenths(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _thousandths(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}" if value < 10 else f"{value:.1f}"
