"""Measure Mayura beside DBOS, beside a bare floor and beside its own storage ceiling.

    python -m benchmarks                    # about fifteen minutes; `make bench` brings DBOS along
    python -m benchmarks --quick            # two minutes, and figures to match
    python -m benchmarks --only mayura floor --workloads W1 --rounds 1

Read README.md in this folder before believing a number.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from benchmarks.arena import CONTENDERS, arena, hold_rounds, missing
from benchmarks.report import results, table, targets
from benchmarks.workloads import WORKLOADS

RESULTS: Final = Path(__file__).parent / "results"
ROUNDS: Final = 3


def main() -> None:
    """Run what the command line asks for, print the tables, keep the figures."""
    asked = _arguments()
    contenders = []
    for contender in CONTENDERS:
        if asked.only and contender.name.split()[0] not in asked.only:
            continue
        if package := missing(contender):
            _tell(f"{contender.title} does not take part: {package} is not installed")
        else:
            contenders.append(contender)
    workloads = [w for w in WORKLOADS if not asked.workloads or w.name in asked.workloads]
    rounds = asked.rounds or (1 if asked.quick else ROUNDS)
    with arena() as ground:
        server = ground.server_version()
        found = hold_rounds(
            ground, contenders, workloads, rounds=rounds, quick=asked.quick, tell=_tell
        )
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
    RESULTS.mkdir(exist_ok=True)
    file = asked.json or RESULTS / f"{at}.json"
    kept = results(found, quick=asked.quick, server=server, at=at)
    file.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    for workload in workloads:
        print(f"\n{table(workload, found[workload.name])}")
    print(f"\n{targets(found)}\n\nEvery round is in {file}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = sorted({contender.name.split()[0] for contender in CONTENDERS})
    parser.add_argument("--quick", action="store_true", help="fewer runs, one round")
    parser.add_argument("--only", nargs="+", choices=names, default=[], metavar="WHO",
                        help=f"of {', '.join(names)}")  # fmt: skip
    parser.add_argument("--workloads", nargs="+", choices=[w.name for w in WORKLOADS], default=[],
                        metavar="W", help="W1, 'W2 alone', W2")  # fmt: skip
    parser.add_argument("--rounds", type=int, help=f"how often; {ROUNDS} unless --quick")
    parser.add_argument("--json", type=Path, help="where the figures go")
    return parser.parse_args()


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
