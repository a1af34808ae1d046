"""Processes die in the middle of charging customers, and no customer is charged twice.

    python demo/never_twice.py --seed 7 --runs 200 --kills 40

Each run charges one order with one `write` tool. Three driver processes share one SQLite file;
each is killed by SIGKILL at a moment that the seed chose, and another takes its place. Every
charge is appended to a ledger outside the system, which is counted at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from pydantic import BaseModel

from mayura.runtime import Call, Engine, Flow, Policy, RunId, Snapshot, open_store, tool, workflow
from mayura.runtime.faultpoints import arm, faultpoint

DRIVERS: Final = 3
RUNS_AT_ONCE: Final = 2  #: of one driver; a kill can leave that many unknown
TIMEOUT_S: Final = 1.0
MARGIN_S: Final = 2.0  #: 60 s by default; short here, so that nobody waits a minute
POLL_S: Final = 0.02
GIVE_UP_S: Final = 60.0
RUNS_MAX: Final = 1_000  #: more do not settle before it gives up
KILLS_MAX: Final = 1_000
INTERRUPTED: Final = 130  #: what a shell says of a program that Ctrl-C ended

MOMENTS: Final = {
    "dispatch.before_commit": "before the dispatch was stored",
    "dispatch.committed": "right after the dispatch was stored",
    "check.before": "before the last check",
    "check.passed": "after the last check",
    "tool.entered": "at the door of the tool",
    "charge.before": "in the tool, before the charge",
    "charge.after": "in the tool, after the charge",
    "tool.returned": "when the tool had returned",
    "receipt.before_commit": "before the receipt was stored",
    "receipt.committed": "right after the receipt was stored",
    "completion.before_commit": "before the completion was stored",
    "completion.committed": "right after the completion was stored",
}


@dataclass(frozen=True)
class Ledger:
    """A file outside the system: one line an event, on the disk before `append` returns."""

    path: Path

    def append(self, line: str) -> None:
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, f"{line}\n".encode())
            os.fsync(file)
        finally:
            os.close(file)

    def count(self) -> Counter[str]:
        """How often each line stands in it."""
        return Counter(self.path.read_text().split("\n")[:-1] if self.path.exists() else ())


@dataclass(frozen=True)
class Place:
    """Where this demonstration keeps its three files."""

    folder: Path

    @property
    def store_url(self) -> str:
        return f"sqlite:///{self.folder.absolute()}/shop.db"

    @property
    def charges(self) -> Ledger:
        return Ledger(self.folder / "charges.txt")

    @property
    def deaths(self) -> Ledger:
        return Ledger(self.folder / "deaths.txt")


class Order(BaseModel):
    order_id: str
    folder: str


@tool("payments.charge", version="1", effects="write", timeout=TIMEOUT_S)
async def charge(call: Call, order: Order) -> str:
    """Charge the customer: the effect that must not happen twice."""
    await faultpoint("charge.before")
    Place(Path(order.folder)).charges.append(call.call_id)
    await faultpoint("charge.after")
    return f"charged {order.order_id}"


@workflow("shop.checkout", version="1")
def checkout(flow: Flow, order: Order) -> str:
    return flow.tool("charge", charge.on(order)).output


POLICY: Final = Policy(version="1", allow=charge.grants)


# --- one driver process ---------------------------------------------------------------------


async def drive(place: Place, runs: Sequence[RunId], moments_to_live: int | None) -> None:
    """Drive whatever is due until every run has settled, or until death."""
    if moments_to_live is not None:
        _die_after(moments_to_live, place.deaths)
    async with (
        open_store(place.store_url) as store,
        Engine(store, workflows=[checkout], policy=POLICY, margin=MARGIN_S) as engine,
    ):
        left = list(runs)
        while left:
            await engine.run_once(limit=RUNS_AT_ONCE)
            while left and (await engine.inspect(left[-1])).settled:
                left.pop()
            await asyncio.sleep(POLL_S)


def _die_after(moments: int, deaths: Ledger) -> None:
    left = moments

    async def pass_by(name: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            deaths.append(name)
            os.kill(os.getpid(), signal.SIGKILL)

    arm(pass_by)


# --- the whole story ------------------------------------------------------------------------


async def submit(place: Place, count: int) -> list[RunId]:
    async with (
        open_store(place.store_url) as store,
        Engine(store, workflows=[checkout], policy=POLICY) as shop,
    ):
        orders = [Order(order_id=f"o-{n}", folder=str(place.folder)) for n in range(count)]
        return [(await shop.submit(checkout, order, key=order.order_id)).id for order in orders]


def kill_and_replace(place: Place, runs: Sequence[RunId], kills: int, seed: int) -> str | None:
    """Keep the drivers going until they have nothing left to do; says what went wrong, if so."""
    chosen, fork = random.Random(seed), get_context("fork")
    lives_left, give_up_at = kills, time.monotonic() + GIVE_UP_S
    moments_max = max(1, len(MOMENTS) * len(runs) // max(1, kills))
    drivers: list[ForkProcess] = []

    def start() -> None:
        nonlocal lives_left
        moments = chosen.randint(1, moments_max) if lives_left else None
        lives_left = max(0, lives_left - 1)
        driver = fork.Process(target=_driver, args=(place, runs, moments), daemon=True)
        with _sigint_held():  # nobody is started and not listed; the driver is born with it held
            driver.start()
            drivers.append(driver)

    try:
        for _ in range(DRIVERS):
            start()
        while drivers:
            ended = wait([d.sentinel for d in drivers], give_up_at - time.monotonic())
            if not ended:
                return f"The runs had not settled after {GIVE_UP_S:.0f} s."
            for driver in [d for d in drivers if d.sentinel in ended]:
                drivers.remove(driver)
                driver.join()
                if driver.exitcode == -signal.SIGKILL:
                    start()
                elif driver.exitcode:
                    return f"A driver ended with status {driver.exitcode}."
    finally:
        for driver in drivers:
            driver.kill()
            driver.join()  # it writes no more into the folder, which is about to be removed
    return None


@contextmanager
def _sigint_held() -> Iterator[None]:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _driver(place: Place, runs: Sequence[RunId], moments_to_live: int | None) -> None:
    # Ctrl-C reaches the whole group: the first process alone answers it, and kills its drivers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    asyncio.run(drive(place, runs, moments_to_live))


async def read_back(place: Place, runs: Sequence[RunId]) -> list[Snapshot]:
    async with (
        open_store(place.store_url) as store,
        Engine(store, workflows=[checkout], policy=POLICY) as shop,
    ):
        return [await shop.inspect(run) for run in runs]


# --- the table at the end -------------------------------------------------------------------


def report(found: Sequence[Snapshot], charges: Counter[str], deaths: Counter[str]) -> bool:
    """Print what happened; whether the promise was kept."""
    by_outcome: dict[tuple[str, str], list[Snapshot]] = {}
    for run in found:
        by_outcome.setdefault((run.status, run.acted), []).append(run)
    print(f"\n{'how runs ended':<18}{'says it acted':<16}{'runs':>6}{'charged':>10}")
    for (status, acted), runs in sorted(by_outcome.items()):
        charged = sum(f"{run.id}/step:charge" in charges for run in runs)
        print(f"{status:<18}{acted:<16}{len(runs):>6}{charged:>10}")
    print(f"\n{'processes killed':<44}{deaths.total():>6}")
    for moment, meaning in MOMENTS.items():
        if deaths[moment]:
            print(f"  {meaning:<42}{deaths[moment]:>6}")
    per_call = Counter(charges.values())
    print(f"\n{'charges in the ledger':<44}{charges.total():>6}")
    print(f"  {'calls that charged once':<42}{per_call[1]:>6}")
    twice = sum(calls for times, calls in per_call.items() if times > 1)
    print(f"  {'calls that charged more than once':<42}{twice:>6}\n")
    lost = [run for run in found if not run.settled]
    hidden = _misjudged(found, charges)
    print(f"{twice} effects happened twice." if twice else "No effect happened twice.")
    print(
        f"{len(lost)} runs did not come to their end."
        if lost
        else "No run got lost: each came to its end."
    )
    if hidden:
        print(f"{len(hidden)} runs say something else about their charge than the ledger.")
    print(
        "An unknown run is one whose process died where nobody can tell whether it had charged:\n"
        "look its call up at the provider by its key. It is never called again.\n"
        "A blocked run that says yes charged, once: its process died when the receipt was stored\n"
        "and the output not yet released. It is held back until a person resolves the step."
    )
    return not (twice or lost or hidden)


def _misjudged(found: Iterable[Snapshot], charges: Counter[str]) -> list[Snapshot]:
    """Runs that say `no` and charged, or say `yes` and did not."""
    says = {"no": {0}, "yes": {1}, "unknown": {0, 1}}
    return [r for r in found if charges[f"{r.id}/step:charge"] not in says[r.acted]]


def main() -> int:
    given = _options()
    try:
        return tell(given.seed, given.runs, given.kills)
    except KeyboardInterrupt:
        print("\nInterrupted: the drivers were killed and their files removed; nothing is left.")
        return INTERRUPTED


def tell(seed: int, count: int, kills: int) -> int:
    """The whole story, printed; the exit status."""
    print(
        f"{count} orders, {DRIVERS} driver processes, up to {kills} kills, one SQLite "
        f"file.\nA step that a dead process left behind is settled {TIMEOUT_S + MARGIN_S:.0f} s "
        f"after its dispatch: its timeout and a\nmargin of {MARGIN_S:.0f} s, short here so that "
        "you need not wait (the default margin is 60 s).",
        flush=True,
    )
    with TemporaryDirectory(prefix="never-twice-") as folder:
        place = Place(Path(folder))
        started = time.monotonic()
        runs = asyncio.run(submit(place, count))
        fault = kill_and_replace(place, runs, kills, seed)
        found = asyncio.run(read_back(place, runs))
        seconds = time.monotonic() - started
        kept = report(found, place.charges.count(), place.deaths.count())
    if fault:
        print(fault)
    again = f"--seed {seed} --runs {count} --kills {kills}"
    print(f"\n{seconds:.0f} s. The same moments again: python demo/never_twice.py {again}")
    return 0 if kept and not fault else 1


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(
        description="Kill processes in the middle of charges, and count the charges.",
        epilog="It leaves nothing behind, and ends with status 1 if a promise was broken.",
    )
    options.add_argument(
        "--seed",
        type=_whole(0),
        default=random.randrange(10_000),
        help="chooses the moments of the kills; the same seed kills at the same moments "
        "(default: another each time)",
    )
    options.add_argument(
        "--runs",
        type=_whole(1, RUNS_MAX),
        default=200,
        help=f"how many orders are charged, 1 to {RUNS_MAX} (default: %(default)s)",
    )
    options.add_argument(
        "--kills",
        type=_whole(0, KILLS_MAX),
        default=40,
        help=f"how many drivers are killed at most, 0 to {KILLS_MAX} (default: %(default)s)",
    )
    return options.parse_args()


def _whole(least: int, most: int | None = None) -> Callable[[str], int]:
    what = f"a whole number from {least}" + ("" if most is None else f" to {most}")

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least or (most is not None and int(text) > most):
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return int(text)

    return read


if __name__ == "__main__":
    sys.exit(main())
