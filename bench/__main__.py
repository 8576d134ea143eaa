"""`python -m bench`: one run, a table on the terminal, and the page and the picture in docs/."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from bench.picture import draw
from bench.report import markdown, show
from bench.rounds import MeasureError, Plan, measure
from bench.servers import ROOT, ServerError
from bench.surroundings import Surroundings


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    default = Plan()
    parser.add_argument("--rounds", type=int, default=default.rounds, help="of floor, berth and kopf [%(default)s]")
    parser.add_argument("--side-rounds", type=int, default=default.side_rounds, help="of the rest [%(default)s]")
    parser.add_argument("--seconds", type=float, default=default.seconds, help="a round lasts [%(default)s]")
    parser.add_argument("--output", type=Path, default=ROOT / "docs", help="where bench.md and bench.svg go")
    given = parser.parse_args()
    plan = Plan(rounds=given.rounds, seconds=given.seconds, side_rounds=given.side_rounds)
    console = Console()
    begin = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="berth-bench-") as directory:
            around = Surroundings.prepare(Path(directory))
            run = measure(around, plan, lambda text: console.print(f"{time.monotonic() - begin:5.0f} s  {text}"))
    except (MeasureError, ServerError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    show(run, console)
    given.output.mkdir(parents=True, exist_ok=True)
    draw(run, given.output / "bench.svg")
    (given.output / "bench.md").write_text(markdown(run, rounds=plan.rounds, seconds=plan.seconds))
    console.print(f"Wrote bench.md and bench.svg in {time.monotonic() - begin:.0f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
