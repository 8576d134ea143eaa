"""`python -m bench`: one run, tables on the terminal, and two pages with their pictures in docs/.

`--only` measures some parts; a page is written where all of its parts were measured. Exits with 1 where a figure is
clearly worse than the one that `bench/expected.json` keeps; `--keep` writes that file instead.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Collection
from pathlib import Path

from rich.console import Console

from bench import companions_report, companions_run, figures, retained, webhook
from bench.figures import Figure, show
from bench.load import LoadError
from bench.rounds import MeasureError, Plan
from bench.servers import ServerError

_COMPANIONS, _RETAINED = "companions", "retained"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    default = Plan()
    parser.add_argument("--rounds", type=int, default=default.rounds, help="of what has an aim [%(default)s]")
    parser.add_argument("--side-rounds", type=int, default=default.side_rounds, help="of the rest [%(default)s]")
    parser.add_argument("--seconds", type=int, default=default.seconds, help="a round lasts [%(default)s]")
    parts = (*webhook.PARTS, _RETAINED, _COMPANIONS)
    parser.add_argument("--only", nargs="+", choices=parts, default=parts, metavar="PART", help=", ".join(parts))
    parser.add_argument("--keep", action="store_true", help=f"write the figures into {figures.EXPECTED.name}")
    companions_run.arguments(parser)
    given = parser.parse_args()
    console = Console()
    begin = time.monotonic()

    def progress(text: str) -> None:
        console.print(f"{time.monotonic() - begin:5.0f} s  {text}")

    given.output.mkdir(parents=True, exist_ok=True)
    found: list[Figure] = []
    asked: Collection[str] = given.only
    try:
        with tempfile.TemporaryDirectory(prefix="berth-bench-") as directory:
            plan = Plan(rounds=given.rounds, seconds=given.seconds, side_rounds=given.side_rounds)
            wanted = [part for part in webhook.PARTS if part in asked]
            if wanted:
                found += webhook.measure(wanted, Path(directory), plan, console, progress, output=given.output)
            if _RETAINED in asked:
                slopes = retained.figures_of(retained.measure(progress))
                show("Reviews beside retained objects", slopes, console)
                found += slopes
            if _COMPANIONS in asked:
                workloads = companions_run.measure(given, Path(directory) / "companions", progress)
                companions_report.show(workloads, console)
                found += companions_report.found(workloads)
                companions_run.write(workloads, given.output)
    except (LoadError, MeasureError, ServerError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    progress("done")
    return figures.conclude(found, keep_them=given.keep, whole=set(asked) == set(parts))


if __name__ == "__main__":
    sys.exit(main())
