"""`python -m bench`: one run, tables on the terminal, and two pages with their pictures in docs/.

The webhook first, then the Workload API; `--only` leaves out the other. Exits with 1 where a figure is clearly worse
than the one that `bench/expected.json` keeps; `--keep` writes that file instead.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from bench import companions_report, companions_run, figures
from bench.figures import Figure
from bench.picture import draw
from bench.report import found, markdown, show
from bench.rounds import MeasureError, Plan, Progress, measure
from bench.servers import ServerError
from bench.surroundings import Surroundings


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    default = Plan()
    parser.add_argument("--rounds", type=int, default=default.rounds, help="of floor, berth and kopf [%(default)s]")
    parser.add_argument("--side-rounds", type=int, default=default.side_rounds, help="of the rest [%(default)s]")
    parser.add_argument("--seconds", type=float, default=default.seconds, help="a round lasts [%(default)s]")
    parser.add_argument("--only", choices=("webhook", "companions"), help="measure this alone")
    parser.add_argument("--keep", action="store_true", help=f"write the figures into {figures.EXPECTED.name}")
    companions_run.arguments(parser)
    given = parser.parse_args()
    console = Console()
    begin = time.monotonic()

    def progress(text: str) -> None:
        console.print(f"{time.monotonic() - begin:5.0f} s  {text}")

    given.output.mkdir(parents=True, exist_ok=True)
    measured: list[Figure] = []
    try:
        with tempfile.TemporaryDirectory(prefix="berth-bench-") as directory:
            if given.only != "companions":
                measured += _webhook(given, Path(directory), console, progress)
            if given.only != "webhook":
                workloads = companions_run.measure(given, Path(directory) / "companions", progress)
                companions_report.show(workloads, console)
                measured += companions_report.found(workloads)
                companions_run.write(workloads, given.output)
    except (MeasureError, ServerError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    console.print(f"Wrote pages and pictures in {time.monotonic() - begin:.0f} s.")
    return figures.conclude(measured, keep_them=given.keep, whole=given.only is None)


def _webhook(given: argparse.Namespace, directory: Path, console: Console, progress: Progress) -> list[Figure]:
    plan = Plan(rounds=given.rounds, seconds=given.seconds, side_rounds=given.side_rounds)
    run = measure(Surroundings.prepare(directory), plan, progress)
    show(run, console)
    draw(run, given.output / "bench.svg")
    (given.output / "bench.md").write_text(markdown(run, rounds=plan.rounds, seconds=plan.seconds))
    return found(run)


if __name__ == "__main__":
    sys.exit(main())
