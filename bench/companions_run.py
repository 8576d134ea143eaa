"""`python -m bench.companions_run`: the measurements of the Workload API alone, with their page and picture.

With `--assets` (or KUBEBUILDER_ASSETS) the companions and the events are measured on real kube-apiservers.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

import uvloop
from rich.console import Console

from bench import companions, companions_events, companions_memory, fairness
from bench import companions_objects as objects
from bench.companions_report import WorkloadRun, draw, markdown, show
from bench.rounds import MeasureError, Progress
from bench.servers import ROOT, ServerError

_SHARE_OF_EVENTS = 10
"""The part of the workloads that stands by while events are timed."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """What a run of these measurements can be told."""
    size = companions.Size()
    parser.add_argument("--workloads", type=int, default=size.workloads, help="of one tenant [%(default)s]")
    parser.add_argument("--rules", type=int, default=size.rules, help="of which 2 match each workload [%(default)s]")
    parser.add_argument("--workers", type=int, default=size.workers, help="requests at a time [%(default)s]")
    parser.add_argument(
        "--companion-rounds", type=int, default=size.rounds, help="of controller and bare [%(default)s]"
    )
    parser.add_argument("--events", type=int, default=200, help="changes of a workload to time [%(default)s]")
    parser.add_argument("--spells", type=int, default=4, help="alone and beside the loud tenant [%(default)s]")
    parser.add_argument("--turns", type=int, default=50, help="the quiet tenant asks so often in a spell [%(default)s]")
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    parser.add_argument("--assets", type=Path, default=Path(assets) if assets else None, help="kube-apiserver and etcd")
    parser.add_argument("--output", type=Path, default=ROOT / "docs", help="where pages and pictures go")


def measure(given: argparse.Namespace, directory: Path, progress: Progress) -> WorkloadRun:
    """All of it. Raises MeasureError or ServerError."""
    size = companions.Size(given.workloads, given.rules, given.workers, given.companion_rounds)
    standing = max(1, given.workloads // _SHARE_OF_EVENTS)
    convergence = uvloop.run(companions.measure(directory, size, progress, assets=given.assets))
    events = uvloop.run(
        companions_events.measure(
            directory / "events",
            progress,
            workloads=standing,
            samples=given.events,
            workers=given.workers,
            assets=given.assets,
        )
    )
    progress("memory: the controller's caches")
    rules = [objects.rule(number, rules=size.rules) for number in range(size.rules)]
    workloads = [objects.workload(number, rules=size.rules) for number in range(size.workloads)]
    kept = companions_memory.kept(workloads, rules, objects.companions(workloads, rules))
    fair = asyncio.run(fairness.measure(directory / "fairness", progress, rounds=given.spells, turns=given.turns))
    return WorkloadRun(convergence, events, standing, kept, fair, real=given.assets is not None)


def write(run: WorkloadRun, output: Path) -> None:
    """The page and the picture."""
    output.mkdir(parents=True, exist_ok=True)
    draw(run, output / "bench-companions.svg")
    (output / "bench-companions.md").write_text(markdown(run, cores=os.cpu_count() or 1))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.companions_run", description=__doc__)
    arguments(parser)
    given = parser.parse_args()
    console, begin = Console(), time.monotonic()

    def progress(text: str) -> None:
        console.print(f"{time.monotonic() - begin:5.0f} s  {text}")

    try:
        with tempfile.TemporaryDirectory(prefix="berth-bench-") as directory:
            run = measure(given, Path(directory), progress)
    except (MeasureError, ServerError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    show(run, console)
    write(run, given.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
